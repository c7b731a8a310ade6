//! Adds up what test runners print, and names what failed.

use std::mem;

/// How many tests passed and failed, and which.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Tests that passed.
    pub passed: u64,
    /// Tests, and other things, that failed.
    pub failed: u64,
    /// Tests that were skipped on purpose.
    pub ignored: u64,
    /// What failed, a line each.
    pub failures: Vec<String>,
    /// What is no failure and still has to be read, a line each.
    pub remarks: Vec<String>,
}

impl Totals {
    /// Adds what another one has counted.
    pub fn add(&mut self, other: Totals) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.failures.extend(other.failures);
        self.remarks.extend(other.remarks);
    }

    /// Adds a failure that is none of a test.
    pub fn fail(&mut self, what: impl Into<String>) {
        self.failed += 1;
        self.failures.push(what.into());
    }

    /// The last lines of a command: each failure by name, then the counts. A reader who sees nothing but the end
    /// of what a machine printed still learns what it was.
    pub fn last_lines(&self) -> String {
        let mut text = String::new();
        if !(self.failures.is_empty() && self.remarks.is_empty()) {
            text.push_str("\n==== what failed\n");
        }
        for (word, lines) in [("", &self.remarks), ("failed: ", &self.failures)] {
            lines.iter().for_each(|line| text.extend([word, line, "\n"]));
        }
        text + &format!("{} passed, {} failed\n", self.passed, self.failed)
    }

    /// Prints [`last_lines`](Self::last_lines); whether nothing failed.
    pub fn conclude(&self) -> bool {
        print!("{}", self.last_lines());
        self.failed == 0
    }

    /// Adds the counts of one line of output, if it is a `test result:` line.
    fn add_line(&mut self, line: &str) {
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

/// Reads what one job prints.
#[derive(Debug, Default)]
pub struct Reader {
    totals: Totals,
    /// The names below the last `failures:`.
    listed: Vec<String>,
    is_in_list: bool,
    /// Tests that took long and have not ended.
    running: Vec<String>,
}

impl Reader {
    /// Reads a line.
    pub fn read(&mut self, line: &str) {
        let line = line.trim_end();
        if line == "failures:" {
            // There are two: one above what the tests printed, one above their names.
            self.listed.clear();
            self.is_in_list = true;
            return;
        }
        match line.strip_prefix("    ") {
            Some(name) if self.is_in_list => self.listed.push(name.to_string()),
            _ => self.is_in_list = false,
        }
        if line.starts_with("test result: FAILED") {
            self.totals.failures.append(&mut self.listed);
        }
        self.totals.add_line(line);
        self.note_running(line);
    }

    /// Notes that a test takes long, or has ended.
    fn note_running(&mut self, line: &str) {
        let Some(rest) = line.strip_prefix("test ") else { return };
        if let Some((name, _)) = rest.split_once(" has been running for over ") {
            self.running.push(name.to_string());
        } else if let Some((name, _)) = rest.split_once(" ... ") {
            self.running.retain(|running| running != name);
        }
    }

    /// What was read of a job, which ended with success or so: a test that failed, or else the job, is a failure.
    pub fn end(self, job: &str, status: Result<(), String>) -> Totals {
        let Reader { mut totals, running, .. } = self;
        let names = mem::take(&mut totals.failures);
        match status {
            // It knows; a line with failures was of a test that starts tests.
            Ok(()) => totals.failed = 0,
            Err(status) if totals.failed == 0 && running.is_empty() => {
                totals.fail(format!("{job}: {status}, and no test failed"))
            }
            Err(status) if totals.failed == 0 => {
                let running = running.join(", ");
                totals.fail(format!(
                    "{job}: {status}; no test failed, these had not ended: {running}"
                ))
            }
            Err(status) if names.is_empty() => totals.failures.push(format!("{job}: {status}")),
            Err(_) => totals.failures = names.iter().map(|name| format!("{job} {name}")).collect(),
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Reader {
        let mut reader = Reader::default();
        text.lines().for_each(|line| reader.read(line));
        reader
    }

    fn failure() -> Result<(), String> {
        Err("exit status: 101".into())
    }

    const OUTPUT: &str = "
running 4 tests
test a ... ok

failures:

---- b::c stdout ----
thread 'b::c' panicked at src/b.rs:1:1:
    not a name

failures:
    b::c
    src/lib.rs - d (line 3)

test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out
";

    #[test]
    fn result_lines_are_added_and_other_lines_are_not() {
        let mut totals = Totals::default();
        totals.add_line("running 3 tests");
        totals.add_line("test a ... ok");
        totals.add_line("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 7 filtered");
        totals.add_line("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 out");
        assert_eq!((totals.passed, totals.failed, totals.ignored), (15, 2, 1));
    }

    #[test]
    fn tests_that_failed_are_named_with_their_program() {
        let totals = read(OUTPUT).end("pool it", failure());
        assert_eq!((totals.passed, totals.failed, totals.ignored), (3, 2, 1));
        assert_eq!(totals.failures, ["pool it b::c", "pool it src/lib.rs - d (line 3)"]);
    }

    #[test]
    fn a_job_that_fails_without_a_failed_test_is_one_failure() {
        let totals = read("test result: ok. 3 passed; 0 failed").end("pool it", failure());
        assert_eq!((totals.passed, totals.failed), (3, 1));
        assert_eq!(totals.failures, ["pool it: exit status: 101, and no test failed"]);
        let totals = read("test result: FAILED. 3 passed; 2 failed").end("pool it", failure());
        assert_eq!((totals.failed, totals.failures.len()), (2, 1));
        // One that passed has printed what a test of it started.
        let totals = read(OUTPUT).end("pool it", Ok(()));
        assert_eq!((totals.passed, totals.failed, totals.failures.len()), (3, 0, 0));
    }

    #[test]
    fn tests_that_had_not_ended_are_named() {
        const RUNNING: &str = "
test a::long has been running for over 60 seconds
test b::endless has been running for over 60 seconds
test a::long ... ok";
        let totals = read(RUNNING).end("pool it", Err("ended by xtask".into()));
        let wanted = "pool it: ended by xtask; no test failed, these had not ended: b::endless";
        assert_eq!((totals.failed, &totals.failures[..]), (1, &[wanted.to_string()][..]));
        assert_eq!(read(RUNNING).end("pool it", Ok(())).failures.len(), 0);
    }

    #[test]
    fn the_last_lines_name_what_failed() {
        let mut totals = Totals { passed: 7, ..Totals::default() };
        assert_eq!(totals.last_lines(), "7 passed, 0 failed\n");
        totals.remarks.push("over budget: little".into());
        totals.add(read(OUTPUT).end("pool it", failure()));
        totals.fail("over budget: much");
        let wanted = "\n==== what failed\nover budget: little\nfailed: pool it b::c\nfailed: pool it src/lib.rs - d \
                      (line 3)\nfailed: over budget: much\n10 passed, 3 failed\n";
        assert_eq!(totals.last_lines(), wanted);
    }
}
