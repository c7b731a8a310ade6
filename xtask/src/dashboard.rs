//! Where the time of a tier went: the slowest tests, the CPU seconds of each crate.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::building::Built;
use crate::programs::Ran;

/// Slowest tests that are shown.
const SLOWEST: usize = 10;

/// A few lines for the end of a build and a run that took so long together.
pub fn render(built: &Built, ran: &[Ran], time: Duration) -> String {
    let mut text = String::new();
    let mut tests: Vec<(f64, String)> = Vec::new();
    let mut crates: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    for program in ran {
        let named =
            |(test, seconds): &(String, f64)| (*seconds, format!("{} {test}", program.name));
        tests.extend(program.tests.iter().map(named));
        let row = crates.entry(&program.package).or_default();
        *row = (row.0 + 1, row.1 + program.cpu);
    }
    tests.sort_by(|one, other| other.0.total_cmp(&one.0));
    let _ = writeln!(text, "slowest tests, seconds:");
    for (seconds, test) in tests.iter().take(SLOWEST) {
        let _ = writeln!(text, "{seconds:9.1}  {test}");
    }
    let _ = writeln!(text, "test programs and CPU seconds of a crate's tests:");
    for (package, (programs, cpu)) in crates {
        let _ = writeln!(text, "{programs:4} {cpu:9.1}  {package}");
    }
    let minutes = |time: Duration| time.as_secs_f64() / 60.0;
    let early = ran.iter().filter(|program| program.is_early);
    // An empty sum is a negative zero, which would be shown.
    let early = early.fold(0.0, |sum, program| sum + program.cpu);
    let there = match built.fresh.len() {
        0 => "from nothing".to_string(),
        count => format!("{count} packages were there"),
    };
    let _ = writeln!(
        text,
        "{} test programs: built in {:.0} CPU seconds and {:.1} minutes ({there}), run in {:.0} CPU seconds, \
         {early:.0} of them from within the build; {:.1} minutes in all",
        built.programs.len(),
        built.cpu,
        minutes(built.time),
        run_cpu(ran),
        minutes(time),
    );
    text
}

/// CPU seconds of all programs.
pub fn run_cpu(ran: &[Ran]) -> f64 {
    ran.iter().map(|program| program.cpu).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_test_comes_first_and_crates_are_added_up() {
        let ran = |name: &str, tests: &[(&str, f64)]| Ran {
            name: format!("pool {name}"),
            package: "pool".into(),
            cpu: 2.5,
            is_early: name == "it",
            passed: tests.len() as u64,
            tests: tests.iter().map(|(test, seconds)| (test.to_string(), *seconds)).collect(),
        };
        let all = [ran("it", &[("a", 0.5), ("b", 3.0)]), ran("processes", &[("c", 1.0)])];
        let text = render(&Built::default(), &all, Duration::from_secs(60));
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(lines[1..4], ["3.0  pool it b", "1.0  pool processes c", "0.5  pool it a"]);
        assert_eq!(lines[5], "2       5.0  pool");
        let end = "run in 5 CPU seconds, 2 of them from within the build; 1.0 minutes in all";
        assert!(lines[6].ends_with(end), "{}", lines[6]);
        assert!(render(&Built::default(), &[], Duration::ZERO).contains("CPU seconds, 0 of them"));
    }
}
