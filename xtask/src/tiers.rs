//! The tiers of tests: what a contributor runs, and what guards a landing.
//!
//! A test that guards a landing and nothing sooner is ignored, and its name begins with `landing_`
//! (the style rules hold the two together). The searches on the simulated machine are in both tiers; at
//! landings they go on where the everyday ones end, up to several times as many schedules.

use std::path::Path;
use std::time::Instant;

use crate::budget::{self, Costs};
use crate::jobs::{cargo, run_counting, shown};
use crate::programs::{self, Built, Job, Ran};
use crate::summary::Totals;
use crate::{dashboard, lanes, tidy};

/// The programs that take longest, the longest first: they begin first, so that none is left alone at
/// the end.
const LONGEST: [&str; 5] =
    ["everleaf-prove it", "everleaf-server it", "everleaf-cli it", "everleaf", EXAMPLES];
/// What the examples of the documentation are called.
const EXAMPLES: &str = "examples";
/// The test program that searches on the simulated machine.
const SEARCHES: &str = "everleaf-prove it";
/// What tells it to go on behind the everyday schedules, up to so many times as many.
const PROVE_TIMES: &str = "EVERLEAF_PROVE_TIMES";
/// How many times that is at landings.
const LANDING_TIMES: &str = "5";
/// The tests of it that go on have this in their names, and those with the other run the same orders
/// however long they may take.
const GOES_ON: [&str; 3] = ["survive", "--skip", "every_order"];
/// The variable that says what happens over the budget, and what it says where landings are decided.
const BUDGET: &str = "EVERLEAF_BUDGET";
const BUDGET_FAILS: &str = "fails";

/// `cargo xtask test`: all tests, or those of the packages named by `-p`; where the time went, and
/// the totals. With `--record` what all tests cost becomes the budget.
pub fn test(root: &Path, arguments: &[String]) -> bool {
    let mut totals = Totals::default();
    let (over_budget, rest) = over_budget_of(arguments, std::env::var(BUDGET).ok().as_deref());
    let passed = match is_choice_of_packages(&rest) {
        true => run_tests(root, &rest, over_budget, &mut totals),
        // Whoever chooses programs or tests gets what `cargo test` does with that.
        false => run_chosen(root, &rest, &mut totals),
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
pub fn run_tests(
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
    let mut jobs: Vec<Job> =
        built.programs.iter().map(|program| programs::job(program, &[], &[])).collect();
    let examples = of_packages(&["test", "--doc", "--no-fail-fast"]);
    jobs.push(Job { name: EXAMPLES.into(), package: "documentation".into(), command: examples });
    let (ran, mut passed) = run_jobs(&built, jobs, totals);
    if is_all {
        let programs = ("programs".to_string(), built.programs.len() as f64);
        let building = built.is_cold.then(|| ("build-cpu-seconds".to_string(), built.cpu));
        let costs = building.into_iter().chain([programs]).collect();
        passed &= is_within_budget(root, "test", costs, &ran, over_budget);
    }
    passed
}

/// Runs the jobs, the longest first, and shows where the time went.
fn run_jobs(built: &Built, mut jobs: Vec<Job>, totals: &mut Totals) -> (Vec<Ran>, bool) {
    let rank =
        |job: &Job| LONGEST.iter().position(|name| *name == job.name).unwrap_or(LONGEST.len());
    jobs.sort_by_key(rank);
    let started = Instant::now();
    let (ran, passed) = lanes::run_all(jobs, totals);
    let shown = dashboard::render(built, &ran, started.elapsed());
    println!("\n==== where the time went\n{shown}");
    (ran, passed)
}

/// What happens when the tests cost more than the budget allows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OverBudget {
    /// It is a failure.
    Fails,
    /// More CPU seconds are told, since a busy machine makes them; more programs are a failure.
    IsToldIfTime,
    /// What it costs is the new budget.
    IsRecorded,
}

/// Compares what the tests of a tier cost with the budget, or writes it down.
fn is_within_budget(
    root: &Path,
    tier: &str,
    mut costs: Costs,
    ran: &[Ran],
    over_budget: OverBudget,
) -> bool {
    costs.insert("run-cpu-seconds".to_string(), dashboard::run_cpu(ran));
    costs.extend([budget::unit()]);
    if over_budget == OverBudget::IsRecorded {
        return budget::record(root, tier, &costs)
            .inspect_err(|error| eprintln!("xtask: cannot write the budget: {error}"))
            .is_ok();
    }
    let excesses = budget::check(root, tier, &costs);
    for excess in &excesses {
        eprintln!("xtask: over budget: {}", excess.sentence);
    }
    excesses.iter().all(|excess| excess.is_time && over_budget == OverBudget::IsToldIfTime)
}

/// What `--record` among the arguments, or else the value of [`BUDGET`], asks for, and the other arguments.
fn over_budget_of(arguments: &[String], variable: Option<&str>) -> (OverBudget, Vec<String>) {
    let (record, rest): (Vec<_>, Vec<_>) =
        arguments.iter().cloned().partition(|argument| argument == "--record");
    let over_budget = match (record.is_empty(), variable) {
        (false, _) => OverBudget::IsRecorded,
        (true, Some(BUDGET_FAILS)) => OverBudget::Fails,
        (true, _) => OverBudget::IsToldIfTime,
    };
    (over_budget, rest)
}

/// `cargo xtask landing`: the tests that only landings need, and the searches go on.
pub fn landing(root: &Path, arguments: &[String]) -> bool {
    let (over_budget, rest) = over_budget_of(arguments, std::env::var(BUDGET).ok().as_deref());
    if !rest.is_empty() {
        eprintln!("xtask: usage: cargo xtask landing [--record]");
        return false;
    }
    let mut totals = Totals::default();
    let passed = run_landing(root, over_budget, &mut totals);
    println!("{} passed, {} failed", totals.passed, totals.failed);
    passed
}

/// Builds the test programs as [`run_tests`] does, and runs what is only for landings. It is a failure
/// if there is nothing to be run.
pub fn run_landing(root: &Path, over_budget: OverBudget, totals: &mut Totals) -> bool {
    let Some(built) = programs::build(cargo(root, &["test", "--workspace", "--tests"])) else {
        return false;
    };
    let only = ["--ignored", tidy::LANDING_PREFIX];
    let chosen = built.programs.iter().filter(|program| programs::count(program, &only) > 0);
    let mut jobs: Vec<Job> = chosen.map(|program| programs::job(program, &only, &[])).collect();
    let landing = jobs.len();
    let searches = built
        .programs
        .iter()
        .filter(|program| program.name == SEARCHES && programs::count(program, &GOES_ON) > 0);
    let times = [(PROVE_TIMES, LANDING_TIMES)];
    jobs.extend(searches.map(|program| programs::job(program, &GOES_ON, &times)));
    if landing == 0 || jobs.len() == landing {
        let [goes_on, ..] = GOES_ON;
        let prefix = tidy::LANDING_PREFIX;
        eprintln!(
            "xtask: no test is named {prefix}.., or none of {SEARCHES} has {goes_on} in its name"
        );
        return false;
    }
    let (ran, passed) = run_jobs(&built, jobs, totals);
    is_within_budget(root, "landing", Costs::new(), &ran, over_budget) && passed
}

/// Runs `cargo test` with further arguments, on the whole workspace unless they choose packages.
fn run_chosen(root: &Path, arguments: &[String], totals: &mut Totals) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_over_budget_fails_where_landings_are_decided() {
        let (record, none) = (["--record".to_string()], []);
        let of = |arguments: &[String], variable| over_budget_of(arguments, variable).0;
        assert!(of(&none, Some(BUDGET_FAILS)) == OverBudget::Fails);
        assert!(of(&none, None) == OverBudget::IsToldIfTime);
        assert!(of(&none, Some("")) == OverBudget::IsToldIfTime);
        // What is being recorded has no budget yet.
        assert!(of(&record, Some(BUDGET_FAILS)) == OverBudget::IsRecorded);
        // Both places that decide say so.
        let (script, workflow) =
            (include_str!("../../.ci/run"), include_str!("../../.github/workflows/ci.yml"));
        assert!(script.contains(&format!("export {BUDGET}={BUDGET_FAILS}\n")));
        assert!(workflow.contains(&format!("  {BUDGET}: {BUDGET_FAILS}\n")));
    }

    #[test]
    fn packages_are_a_choice_to_be_measured_and_filters_are_not() {
        let words = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>();
        for line in ["", "-p everleaf-pool", "-peverleaf-pool --package=everleaf"] {
            assert!(is_choice_of_packages(&words(line)), "{line}");
        }
        for line in ["--release", "-p everleaf-pool --test it", "name", "-- --ignored"] {
            assert!(!is_choice_of_packages(&words(line)), "{line}");
        }
    }
}
