//! The commands: each is one job of continuous integration.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::budget::{self, Costs};
use crate::programs::{self, Built, Ran};
use crate::summary::Totals;
use crate::{dashboard, licences, tidy};

/// `cargo xtask ci`: every job, even after one failed; the last line has the totals.
pub fn ci(root: &Path) -> bool {
    let start = Instant::now();
    let mut totals = Totals::default();
    println!("==== test");
    let tested = run_all_tests(root, &[], OverBudget::Fails, &mut totals);
    let failed_checks = run_checks(root);
    let minutes = start.elapsed().as_secs_f64() / 60.0;
    println!("\n==== {minutes:.1} minutes, {} tests ignored", totals.ignored);
    // Every failed test counts, and every other failed job as one more.
    let untold = u64::from(!tested && totals.failed == 0);
    let failed = totals.failed + untold + failed_checks.len() as u64;
    println!("{} passed, {failed} failed", totals.passed);
    failed == 0
}

/// `cargo xtask checks`: every job but the tests, even after one failed.
pub fn checks(root: &Path) -> bool {
    let failed = run_checks(root).len();
    println!("{} passed, {failed} failed", CHECKS.len() - failed);
    failed == 0
}

/// A job that takes no arguments.
type Job = fn(&Path) -> bool;

/// The jobs besides the tests, the cheap ones first.
const CHECKS: [(&str, Job); 6] = [
    ("fmt", |root| fmt(root, &[])),
    ("tidy", |root| tidy(root, &[])),
    ("licences", |root| licences::run(root, &[])),
    ("product", product),
    ("lint", lint),
    ("doc", doc),
];

/// Runs the checks; the names of those that failed.
fn run_checks(root: &Path) -> Vec<&'static str> {
    let mut failed = Vec::new();
    for (name, job) in CHECKS {
        println!("\n==== {name}");
        if !job(root) {
            failed.push(name);
        }
    }
    if !failed.is_empty() {
        println!("failed: {}", failed.join(", "));
    }
    failed
}

/// The package of the product's program.
const PRODUCT: &str = "everleaf-cli";

/// What the product is built without: the research, and what only the simulated machine needs.
const RESEARCH: [&str; 8] = [
    "everleaf-designs",
    "everleaf-lab-capi",
    "everleaf-lab-designs",
    "everleaf-lab",
    "everleaf-lab-cli",
    "everleaf-prove",
    "everleaf-models",
    "corosensei",
];

/// `cargo xtask product`: the program `everleaf` is built without the research, and compiles so.
pub fn product(root: &Path) -> bool {
    let mut tree = cargo(root, &["tree", "-p", PRODUCT, "-e", "normal", "--prefix", "none"]);
    let output = match tree.output() {
        Ok(output) if output.status.success() => output,
        Ok(output) => {
            eprintln!("xtask: {}", String::from_utf8_lossy(&output.stderr));
            return false;
        }
        Err(error) => {
            eprintln!("xtask: cannot start {}: {error}", shown(&tree));
            return false;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let names: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let found: Vec<&str> = RESEARCH.into_iter().filter(|name| names.contains(name)).collect();
    if !found.is_empty() {
        eprintln!("xtask: {PRODUCT} depends on {}: see {}", found.join(", "), shown(&tree));
        return false;
    }
    // Elsewhere the whole workspace is compiled at once, and with it the simulated side.
    run(cargo(root, &["clippy", "-p", PRODUCT, "--", "-D", "warnings"]))
}

/// `cargo xtask fmt`: checks, or with `--fix` writes, the formatting.
pub fn fmt(root: &Path, arguments: &[String]) -> bool {
    let mut command = cargo(root, &["fmt", "--all"]);
    if !arguments.iter().any(|argument| argument == "--fix") {
        command.args(["--", "--check"]);
    }
    run(command)
}

/// `cargo xtask lint`: clippy on everything, warnings are errors.
pub fn lint(root: &Path) -> bool {
    run(cargo(
        root,
        &["clippy", "--workspace", "--all-targets", "--keep-going", "--", "-D", "warnings"],
    ))
}

/// `cargo xtask doc`: builds the libraries' documentation, warnings are errors. The programs have no
/// interface to document, and the pages of the program `everleaf` would overwrite the library's.
pub fn doc(root: &Path) -> bool {
    let mut command = cargo(root, &["doc", "--workspace", "--no-deps", "--keep-going"]);
    command.args(["--exclude", "everleaf-cli", "--exclude", "everleaf-lab-cli"]);
    command.args(["--exclude", "xtask"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    run(command)
}

/// `cargo xtask test`: all tests, or those of the packages named by `-p`; where the time went, and
/// the totals. With `--record` what all tests cost becomes the budget.
pub fn test(root: &Path, arguments: &[String]) -> bool {
    let mut totals = Totals::default();
    let (record, rest): (Vec<_>, Vec<_>) =
        arguments.iter().cloned().partition(|argument| argument == "--record");
    let over_budget =
        if record.is_empty() { OverBudget::IsToldIfTime } else { OverBudget::IsRecorded };
    let passed = match is_choice_of_packages(&rest) {
        true => run_all_tests(root, &rest, over_budget, &mut totals),
        // Whoever chooses programs or tests gets what `cargo test` does with that.
        false => run_tests(root, &rest, &mut totals),
    };
    println!("{} passed, {} failed", totals.passed, totals.failed);
    passed
}

/// Whether the arguments say nothing but which packages.
fn is_choice_of_packages(arguments: &[String]) -> bool {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-p" | "--package" => drop(words.next()),
            word if word.starts_with("-p") || word.starts_with("--package=") => {}
            _ => return false,
        }
    }
    true
}

/// Builds the test programs of the packages, or of all, and runs them, then the examples of the
/// documentation. The whole is compared with the budget.
fn run_all_tests(
    root: &Path,
    packages: &[String],
    over_budget: OverBudget,
    totals: &mut Totals,
) -> bool {
    let is_all = packages.is_empty();
    let of_packages = |start: &[&str]| {
        let mut command = cargo(root, start);
        if is_all {
            command.arg("--workspace");
        }
        command.args(packages);
        command
    };
    println!("$ {}", shown(&of_packages(&["test", "--tests", "--no-run"])));
    let Some(built) = programs::build(of_packages(&["test", "--tests"])) else {
        return false;
    };
    let (mut ran, mut passed) = (Vec::new(), true);
    for program in &built.programs {
        let (one, is_good) = programs::run(program, &[], totals);
        if !is_good {
            println!("failed: {}", program.name);
        }
        ran.push(one);
        passed &= is_good;
    }
    println!("\n---- examples of the documentation");
    let examples = of_packages(&["test", "--doc", "--no-fail-fast"]);
    let (one, is_good) = programs::run_as("examples", "documentation", examples, totals);
    ran.push(one);
    passed &= is_good;
    println!("\n==== where the time went\n{}", dashboard::render(&built, &ran));
    if is_all {
        passed &= is_within_budget(root, &built, &ran, over_budget);
    }
    passed
}

/// What happens when the tests cost more than the budget allows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OverBudget {
    /// It is a failure.
    Fails,
    /// More CPU seconds are told, since a busy machine makes them; more programs are a failure.
    IsToldIfTime,
    /// What it costs is the new budget.
    IsRecorded,
}

/// Compares what the tests cost with the budget, or writes it down.
fn is_within_budget(root: &Path, built: &Built, ran: &[Ran], over_budget: OverBudget) -> bool {
    let mut costs = Costs::from([
        ("programs".to_string(), built.programs.len() as f64),
        ("run-cpu-seconds".to_string(), dashboard::run_cpu(ran)),
    ]);
    costs.extend([budget::unit()]);
    if built.is_cold {
        costs.insert("build-cpu-seconds".to_string(), built.cpu);
    }
    if over_budget == OverBudget::IsRecorded {
        return budget::record(root, "test", &costs)
            .inspect_err(|error| eprintln!("xtask: cannot write the budget: {error}"))
            .is_ok();
    }
    let excesses = budget::check(root, "test", &costs);
    for excess in &excesses {
        eprintln!("xtask: over budget: {}", excess.sentence);
    }
    excesses.iter().all(|excess| excess.is_time && over_budget == OverBudget::IsToldIfTime)
}

/// `cargo xtask tidy`: our own style rules.
pub fn tidy(root: &Path, arguments: &[String]) -> bool {
    tidy::run(root, arguments.iter().any(|argument| argument == "--update"))
}

/// What tells the tests of the trees how long to search, in seconds for all of them together.
const PROVE_SECONDS: &str = "EVERLEAF_PROVE_SECONDS";
/// What tells the server's check of replies how many pipelines to send.
const REPLIES_PIPELINES: &str = "EVERLEAF_REPLIES_PIPELINES";
/// Pipelines that an ordinary machine answers, and we check, in a second.
const REPLIES_PER_SECOND: u64 = 100;

/// `cargo xtask sim [seconds]`: the tests that explore on the simulated machine, and the one that
/// checks every reply of a server, in a release build, each for ten minutes unless told otherwise;
/// they print what they covered.
pub fn sim(root: &Path, arguments: &[String]) -> bool {
    let seconds: Option<u32> = match arguments {
        [] => Some(600),
        [seconds] => seconds.parse().ok(),
        _ => None,
    };
    let Some(seconds) = seconds else {
        eprintln!("xtask: usage: cargo xtask sim [seconds]");
        return false;
    };
    let packages = ["machine", "models", "pool", "prove"].map(|name| format!("-peverleaf-{name}"));
    let mut command = cargo(root, &["test", "--release"]);
    command.args(packages).args(["--", "--include-ignored", "--nocapture"]);
    command.env(PROVE_SECONDS, seconds.to_string());
    let mut totals = Totals::default();
    let proven = run_some(command, &mut totals);
    let mut command = cargo(root, &["test", "--release", "-p", "everleaf-server"]);
    command.args(["--test", "replies", "--", "--nocapture"]);
    command.env(REPLIES_PIPELINES, (u64::from(seconds) * REPLIES_PER_SECOND).to_string());
    let answered = run_some(command, &mut totals);
    let mut command = cargo(root, &["test", "--release", "-p", "everleaf", "--lib"]);
    command.args(["wal::tests::crashes", "--", "--include-ignored", "--nocapture"]);
    let passed = run_some(command, &mut totals) && answered && proven;
    println!("{} passed, {} failed", totals.passed, totals.failed);
    passed
}

/// Runs `cargo test` with further arguments, on the whole workspace unless they choose packages.
fn run_tests(root: &Path, arguments: &[String], totals: &mut Totals) -> bool {
    let mut command = cargo(root, &["test", "--no-fail-fast"]);
    let is_choice = |argument: &String| {
        argument == "--package" || (argument.starts_with("-p") && !argument.starts_with("--"))
    };
    if !arguments.iter().take_while(|argument| *argument != "--").any(is_choice) {
        command.arg("--workspace");
    }
    command.args(arguments);
    run_counting(command, totals)
}

fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root).args(arguments);
    command
}

/// Runs a command on our terminal; says so if it cannot be started.
fn run(mut command: Command) -> bool {
    println!("$ {}", shown(&command));
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("xtask: cannot start {}: {error}", shown(&command));
            false
        }
    }
}

/// As [`run_counting`]; a command that runs no test fails: its filter names none any more.
fn run_some(command: Command, totals: &mut Totals) -> bool {
    let (name, before) = (shown(&command), totals.passed + totals.failed);
    let passed = run_counting(command, totals);
    let ran = totals.passed + totals.failed - before;
    if ran == 0 {
        eprintln!("xtask: no test was run by {name}");
    }
    passed && ran > 0
}

/// Runs a command, passes its standard output on line by line, and adds up its test results.
fn run_counting(command: Command, totals: &mut Totals) -> bool {
    let name = shown(&command);
    println!("$ {name}");
    programs::run_as(&name, "", command, totals).1
}

/// The command as one would type it.
fn shown(command: &Command) -> String {
    let arguments: Vec<_> = command.get_args().map(|a| a.to_string_lossy()).collect();
    format!("cargo {}", arguments.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_a_choice_that_can_be_measured_and_filters_are_not() {
        let words = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>();
        for line in ["", "-p everleaf-pool", "-peverleaf-pool --package=everleaf"] {
            assert!(is_choice_of_packages(&words(line)), "{line}");
        }
        for line in ["--release", "-p everleaf-pool --test it", "name", "-- --ignored"] {
            assert!(!is_choice_of_packages(&words(line)), "{line}");
        }
    }
}
