//! The commands: each is one job of continuous integration.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::summary::Totals;
use crate::tidy;

/// `cargo xtask ci`: every job, even after one failed; the last line has the totals.
pub fn ci(root: &Path) -> bool {
    let start = Instant::now();
    let mut failed_jobs = Vec::new();
    let mut totals = Totals::default();
    let tests = |totals: &mut Totals| run_tests(root, &[], totals);
    let jobs: [(&str, &mut dyn FnMut() -> bool); 5] = [
        ("fmt", &mut || fmt(root, &[])),
        ("tidy", &mut || tidy(root, &[])),
        ("lint", &mut || lint(root)),
        ("doc", &mut || doc(root)),
        ("test", &mut || tests(&mut totals)),
    ];
    for (name, job) in jobs {
        println!("\n==== {name}");
        if !job() {
            failed_jobs.push(name);
        }
    }
    let minutes = start.elapsed().as_secs_f64() / 60.0;
    println!("\n==== {minutes:.1} minutes, {} tests ignored", totals.ignored);
    if !failed_jobs.is_empty() {
        println!("failed: {}", failed_jobs.join(", "));
    }
    // Every failed test counts, and every other failed job as one more.
    let uncounted = failed_jobs.iter().filter(|&&name| name != "test" || totals.failed == 0);
    let failed = totals.failed + uncounted.count() as u64;
    println!("{} passed, {failed} failed", totals.passed);
    failed == 0
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
    command.args(["--exclude", "everleaf-cli", "--exclude", "xtask"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    run(command)
}

/// `cargo xtask test`: all tests, or those of the packages named by `-p`; then the totals.
pub fn test(root: &Path, arguments: &[String]) -> bool {
    let mut totals = Totals::default();
    let passed = run_tests(root, arguments, &mut totals);
    println!("{} passed, {} failed", totals.passed, totals.failed);
    passed
}

/// `cargo xtask tidy`: our own style rules.
pub fn tidy(root: &Path, arguments: &[String]) -> bool {
    tidy::run(root, arguments.iter().any(|argument| argument == "--update"))
}

/// What tells the tests of the trees how long to search, in seconds for all of them together.
const PROVE_SECONDS: &str = "EVERLEAF_PROVE_SECONDS";
/// What tells the server's check of replies the same.
const REPLIES_SECONDS: &str = "EVERLEAF_REPLIES_SECONDS";

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
    let proven = run_counting(command, &mut totals);
    let mut command = cargo(root, &["test", "--release", "-p", "everleaf-server"]);
    command.args(["--test", "replies", "--", "--nocapture"]);
    command.env(REPLIES_SECONDS, seconds.to_string());
    let passed = run_counting(command, &mut totals) && proven;
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

/// Runs a command, passes its standard output on line by line, and adds up its test results.
fn run_counting(mut command: Command, totals: &mut Totals) -> bool {
    println!("$ {}", shown(&command));
    let mut child = match command.stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("xtask: cannot start {}: {error}", shown(&command));
            return false;
        }
    };
    let output = child.stdout.take().expect("standard output was asked to be a pipe");
    let mut reader = BufReader::new(output);
    let mut line = Vec::new();
    // By bytes, because a test may print anything.
    while reader.read_until(b'\n', &mut line).is_ok_and(|size| size > 0) {
        let text = String::from_utf8_lossy(&line);
        totals.add_line(&text);
        // A closed terminal must not stop the tests.
        let _ = std::io::stdout().write_all(&line);
        line.clear();
    }
    match child.wait() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("xtask: lost {}: {error}", shown(&command));
            false
        }
    }
}

/// The command as one would type it.
fn shown(command: &Command) -> String {
    let arguments: Vec<_> = command.get_args().map(|a| a.to_string_lossy()).collect();
    format!("cargo {}", arguments.join(" "))
}
