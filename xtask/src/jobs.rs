//! The commands: each is one job of continuous integration.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::command::{cargo, run_counting, shown};
use crate::package::TARGET;
use crate::summary::Totals;
use crate::tiers::{self, OverBudget};
use crate::{licences, mutate, program_size, tidy};

/// `cargo xtask ci`: both tiers of tests and every check, even after one failed; the last line has the totals.
pub fn ci(root: &Path) -> bool {
    let start = Instant::now();
    let mut totals = Totals::default();
    println!("==== test");
    tiers::run_tests(root, &[], OverBudget::Fails, &mut totals);
    println!("\n==== landing");
    tiers::run_landing(root, OverBudget::Fails, &mut totals);
    // Only tests are counted as passed.
    let passed = totals.passed;
    run_checks(root, &mut totals);
    totals.passed = passed;
    let minutes = start.elapsed().as_secs_f64() / 60.0;
    println!("\n==== {minutes:.1} minutes, {} tests ignored", totals.ignored);
    totals.conclude()
}

/// `cargo xtask checks`: every job but the tests, even after one failed.
pub fn checks(root: &Path) -> bool {
    let mut totals = Totals::default();
    run_checks(root, &mut totals);
    totals.conclude()
}

/// A job that takes no arguments.
type Job = fn(&Path) -> bool;

/// The jobs besides the tests, the cheap ones first.
const CHECKS: [(&str, Job); 7] = [
    ("fmt", |root| fmt(root, &[])),
    ("tidy", |root| tidy(root, &[])),
    ("licences", |root| licences::run(root, &[])),
    ("product", product),
    ("static", with_static_library),
    ("lint", lint),
    ("doc", doc),
];

/// Runs the checks, and counts each.
fn run_checks(root: &Path, totals: &mut Totals) {
    for (name, job) in CHECKS {
        println!("\n==== {name}");
        match job(root) {
            true => totals.passed += 1,
            false => totals.fail(format!("cargo xtask {name}")),
        }
    }
}

/// The package of the product's program.
const PRODUCT: &str = "everleaf-cli";

/// What only the simulated machine needs: the product is built without, as without the research.
const OF_SIMULATION: &str = "corosensei";

/// `cargo xtask product`: the program `everleaf` is built without the research, compiles so, and is small enough.
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
    let research = tidy::RESEARCH.into_iter().map(|folder| format!("everleaf-{folder}"));
    let unwanted = research.chain([OF_SIMULATION.to_string()]);
    let found: Vec<String> = unwanted.filter(|name| names.contains(&name.as_str())).collect();
    if !found.is_empty() {
        eprintln!("xtask: {PRODUCT} depends on {}: see {}", found.join(", "), shown(&tree));
        return false;
    }
    // Elsewhere the whole workspace is compiled at once, and with it the simulated side.
    run(cargo(root, &["clippy", "-p", PRODUCT, "--", "-D", "warnings"]))
        && program_size::is_small_enough(root, PRODUCT)
}

/// `cargo xtask static`: the library compiles with the C library of the static program, whose headers have other names.
/// The server's cryptography asks for a C compiler of that target, and is left to `cargo xtask package --static`.
pub fn with_static_library(root: &Path) -> bool {
    let mut targets = Command::new("rustup");
    let output = targets.args(["target", "list", "--installed"]).current_dir(root).output();
    let is_there = output.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout).lines().any(|line| line == TARGET)
    });
    if !is_there {
        println!("left out: rustup has not installed {TARGET} (`rustup target add {TARGET}`)");
        return true;
    }
    run(cargo(root, &["check", "-p", "everleaf", "--target", TARGET]))
}

/// Packages that are no members of the workspace.
const ELSEWHERE: [&str; 3] = ["bindings/module", "bindings/python", "rivals"];

/// `cargo xtask fmt`: checks, or with `--fix` writes, the formatting.
pub fn fmt(root: &Path, arguments: &[String]) -> bool {
    let is_to_check = !arguments.iter().any(|argument| argument == "--fix");
    let formatted = |folder: &Path, packages: &[&str]| {
        let mut command = cargo(folder, &[&["fmt"], packages].concat());
        if is_to_check {
            command.args(["--", "--check"]);
        }
        run(command)
    };
    let is_whole = formatted(root, &["--all"]);
    // All of them, also where one fails.
    ELSEWHERE
        .iter()
        .fold(is_whole, |is_whole, folder| formatted(&root.join(folder), &[]) && is_whole)
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
    let packages = ["machine", "models", "pool", "prove", "prove-designs"];
    let packages = packages.map(|name| format!("-peverleaf-{name}"));
    let mut command = cargo(root, &["test", "--release"]);
    command.args(packages).args(["--", "--include-ignored", "--nocapture"]);
    command.args(["--skip", tidy::BY_HAND_PREFIX]);
    command.env(PROVE_SECONDS, seconds.to_string());
    let mut totals = Totals::default();
    run_some(command, &mut totals);
    let mut command = cargo(root, &["test", "--release", "-p", "everleaf-server"]);
    command.args(["--test", "it", "replies::", "--", "--nocapture"]);
    command.env(REPLIES_PIPELINES, (u64::from(seconds) * REPLIES_PER_SECOND).to_string());
    run_some(command, &mut totals);
    let mut command = cargo(root, &["test", "--release", "-p", "everleaf", "--lib"]);
    command.args(["wal::tests::crashes", "--", "--include-ignored", "--nocapture"]);
    run_some(command, &mut totals);
    if !mutate::share(root, seconds) {
        totals.fail("a share of cargo xtask mutate");
    }
    totals.conclude()
}

/// `cargo xtask long`: the long runs of the other crates, in a release build: of kills, damage, crashes and
/// differences as many as each says in its source, unless its variable says otherwise. Hours.
pub fn long(root: &Path, arguments: &[String]) -> bool {
    if !arguments.is_empty() {
        eprintln!("xtask: usage: cargo xtask long");
        return false;
    }
    let packages = ["-peverleaf-log", "-peverleaf", "-peverleaf-cli", "-peverleaf-server"];
    let mut command = cargo(root, &["test", "--release", "--no-fail-fast"]);
    command.args(packages).args(["--test", "it", "--test", "processes"]);
    command.args(["--", "--ignored", "--nocapture"]).args(tidy::LONG_NAMES);
    let mut totals = Totals::default();
    run_some(command, &mut totals);
    totals.conclude()
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
fn run_some(command: Command, totals: &mut Totals) {
    let (name, before) = (shown(&command), totals.passed + totals.failed);
    run_counting(command, totals);
    if totals.passed + totals.failed == before {
        totals.fail(format!("no test was run by {name}"));
    }
}
