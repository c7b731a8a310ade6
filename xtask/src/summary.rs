//! Adds up what test runners print.

/// How many tests passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed.
    pub failed: u64,
    /// Tests that were skipped on purpose.
    pub ignored: u64,
}

impl Totals {
    /// Adds what another one has counted.
    pub fn add(&mut self, other: Totals) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }

    /// Adds the counts of one line of output, if it is a `test result:` line.
    pub fn add_line(&mut self, line: &str) {
        let Some(result) = line.trim_start().strip_prefix("test result:") else { return };
        for part in result.split(['.', ';']) {
            let mut words = part.split_whitespace();
            let (Some(count), Some(kind)) = (words.next(), words.next()) else { continue };
            let Ok(count) = count.parse::<u64>() else { continue };
            match kind {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                "ignored" => self.ignored += count,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_added_and_other_lines_are_not() {
        let mut totals = Totals::default();
        totals.add_line("running 3 tests");
        totals.add_line("test a ... ok");
        totals.add_line("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 7 filtered");
        totals.add_line("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 out");
        assert_eq!(totals, Totals { passed: 15, failed: 2, ignored: 1 });
    }
}
