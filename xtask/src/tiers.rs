//! The tiers of tests: what a contributor runs, and what guards a landing.
//!
//! A test that guards a landing and nothing sooner is ignored, and its name begins with `landing_`
//! (the style rules hold the two together). The searches on the simulated machine are in both tiers; at
//! landings they go on where the everyday ones end, up to several times as many schedules.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::budget::{self, Costs};
use crate::building::{self, Built};
use crate::command::{cargo, run_counting, shown};
use crate::designs::{self, Packages};
use crate::programs::{self, Job, Program, Ran};
use crate::summary::Totals;
use crate::{dashboard, lanes, tidy};

/// The programs that take longest, the longest first: of those that are there they begin first, so that none
/// is left alone at the end.
const LONGEST: [&str; 5] =
    ["everleaf-prove it", "everleaf-server it", "everleaf-cli it", "everleaf", EXAMPLES];
/// The same at landings.
const LONGEST_AT_LANDINGS: [&str; 4] =
    ["everleaf-prove-designs it", "everleaf-prove it", "everleaf-cli it", EXAMPLES];
/// What the examples of the documentation are called.
const EXAMPLES: &str = "examples";
/// The package whose tests call Cargo, which waits while another builds. No other's do.
const CALLS_CARGO: &str = "xtask";
/// The searches on the simulated machine that go on at landings: the test program, which of its tests, and up to how
/// many times as many schedules. They have `survive` in their names; those with `every_order` run the same orders
/// however long they may take. Of the product, what is drawn from all structures goes on longest: the search that meets
/// the marks of landings.
const GOES_ON: [(&str, &[&str], &str); 3] = [
    ("everleaf-prove it", &[EVERY_STRUCTURE], "5"),
    ("everleaf-prove it", &["survive", "--skip", "every_order", "--skip", EVERY_STRUCTURE], "2"),
    ("everleaf-prove-designs it", &["survive", "--skip", "every_order"], "5"),
];
const EVERY_STRUCTURE: &str = "every_structure_survives";
/// What tells them to go on behind the everyday schedules.
const PROVE_TIMES: &str = "EVERLEAF_PROVE_TIMES";
/// The variable that says what happens over the budget, and what it says where landings are decided.
const BUDGET: &str = "EVERLEAF_BUDGET";
const BUDGET_FAILS: &str = "fails";

/// `cargo xtask test`: the tests of all packages but those of the published designs, or of the packages named by
/// `-p`; where the time went, and the totals. With `--record` what they cost becomes the budget.
pub fn test(root: &Path, arguments: &[String]) -> bool {
    let mut totals = Totals::default();
    let (over_budget, rest) = over_budget_of(arguments, std::env::var(BUDGET).ok().as_deref());
    match is_choice_of_packages(&rest) {
        true => run_tests(root, &rest, over_budget, &mut totals),
        // A developer who chooses programs or tests gets what `cargo test` does with that.
        false => run_chosen(root, &rest, &mut totals),
    }
    totals.conclude()
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

/// Builds the test programs of the packages, or of all but those of the published designs, and runs each from when it
/// is built, then the examples of the documentation. The whole is compared with the budget.
pub fn run_tests(root: &Path, packages: &[String], over_budget: OverBudget, totals: &mut Totals) {
    let is_all = packages.is_empty();
    let everyday = match is_all {
        true => Packages::read(root).map(|all| all.without_designs()),
        false => Ok(packages.to_vec()),
    };
    let choice = match everyday {
        Ok(choice) => choice,
        Err(error) => return totals.fail(error),
    };
    let of_packages = |start: &[&str]| {
        let mut command = cargo(root, start);
        command.args(&choice);
        command
    };
    println!("$ {}", shown(&of_packages(&["test", "--tests", "--no-run"])));
    let examples = of_packages(&["test", "--doc", "--no-fail-fast"]);
    let jobs_of = |program: &Program| vec![programs::job(program, &[], &[])];
    let command = of_packages(&["test", "--tests"]);
    let others = vec![examples_of(examples)];
    let (built, ran) = build_and_run(&LONGEST, command, &jobs_of, others, totals);
    if is_all && built.failures.is_empty() {
        let programs = ("programs".to_string(), built.programs.len() as f64);
        let is_cold = match designs::of_scripts(root) {
            Ok(scripts) => built.is_cold(&scripts),
            Err(error) => return totals.fail(error),
        };
        let building = is_cold.then(|| ("build-cpu-seconds".to_string(), built.cpu));
        let costs = building.into_iter().chain([programs]).collect();
        hold_to_budget(root, "test", costs, &ran, over_budget, totals);
    }
}

/// The job of the examples of the documentation, with the command that runs them.
fn examples_of(command: Command) -> Job {
    Job { name: EXAMPLES.into(), package: "documentation".into(), command }
}

/// Builds with this command, runs the jobs of each program from when it is built, and the others when all are;
/// shows where the time went. If not everything is built, that is a failure, and what has not begun is not run.
fn build_and_run(
    longest: &'static [&'static str],
    command: Command,
    jobs_of: &dyn Fn(&Program) -> Vec<Job>,
    others: Vec<Job>,
    totals: &mut Totals,
) -> (Built, Vec<Ran>) {
    let started = Instant::now();
    let (built, ran) = lanes::run_beside(longest, totals, |queue| {
        let mut later = others;
        let built = building::build(command, &mut |program| match program.package == CALLS_CARGO {
            true => later.extend(jobs_of(program)),
            false => jobs_of(program).into_iter().for_each(|job| queue.add(job)),
        });
        if built.failures.is_empty() {
            later.extend(built.programs[built.handed_on..].iter().flat_map(jobs_of));
            queue.finish(later);
        } else {
            queue.clear();
        }
        built
    });
    built.failures.iter().for_each(|failure| totals.fail(failure));
    let shown = dashboard::render(&built, &ran, started.elapsed());
    println!("\n==== where the time went\n{shown}");
    (built, ran)
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

/// Compares what the tests of a tier cost with the budget, or writes it down. Each excess is a failure, or told
/// in the last lines.
fn hold_to_budget(
    root: &Path,
    tier: &str,
    mut costs: Costs,
    ran: &[Ran],
    over_budget: OverBudget,
    totals: &mut Totals,
) {
    costs.insert("run-cpu-seconds".to_string(), dashboard::run_cpu(ran));
    costs.extend([budget::unit()]);
    if over_budget == OverBudget::IsRecorded {
        if let Err(error) = budget::record(root, tier, &costs) {
            totals.fail(format!("the budget of the tier {tier} cannot be written: {error}"));
        }
        return;
    }
    for excess in budget::check(root, tier, &costs) {
        let sentence = format!("over budget: {}", excess.sentence);
        match excess.is_time && over_budget == OverBudget::IsToldIfTime {
            true => totals.remarks.push(sentence),
            false => totals.fail(sentence),
        }
    }
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

/// `cargo xtask landing`: the tests of the published designs, those that only landings need, and the searches go on.
pub fn landing(root: &Path, arguments: &[String]) -> bool {
    let (over_budget, rest) = over_budget_of(arguments, std::env::var(BUDGET).ok().as_deref());
    if !rest.is_empty() {
        eprintln!("xtask: usage: cargo xtask landing [--record]");
        return false;
    }
    let mut totals = Totals::default();
    run_landing(root, over_budget, &mut totals);
    totals.conclude()
}

/// Builds all test programs as [`run_tests`] does those of its packages, and runs those of the published designs, their
/// examples, and of all what is only for landings. It is a failure if there is nothing to be run.
pub fn run_landing(root: &Path, over_budget: OverBudget, totals: &mut Totals) {
    let packages = match Packages::read(root) {
        Ok(packages) => packages,
        Err(error) => return totals.fail(error),
    };
    let only = ["--ignored", tidy::LANDING_PREFIX];
    let has = |program: &Program, chosen: &[&str]| programs::count(program, chosen) > 0;
    let jobs_of = |program: &Program| {
        let everyday = packages
            .of_designs
            .contains(&program.package)
            .then(|| programs::job(program, &[], &[]));
        let landing = has(program, &only).then(|| programs::job(program, &only, &[]));
        let goes_on = GOES_ON
            .iter()
            .filter(|(name, tests, _)| program.name == *name && has(program, tests))
            .map(|(_, tests, times)| programs::job(program, tests, &[(PROVE_TIMES, times)]));
        everyday.into_iter().chain(landing).chain(goes_on).collect()
    };
    let command = cargo(root, &["test", "--workspace", "--tests"]);
    // Of the whole workspace, which has the features of the build: with other ones all would be compiled again.
    let mut examples = cargo(root, &["test", "--workspace", "--doc", "--no-fail-fast", "--"]);
    examples.args(&packages.folders);
    let others = vec![examples_of(examples)];
    let (built, ran) = build_and_run(&LONGEST_AT_LANDINGS, command, &jobs_of, others, totals);
    if !built.failures.is_empty() {
        return;
    }
    let program = |name: &str| built.programs.iter().find(|program| program.name == name);
    for (name, tests, _) in GOES_ON {
        if !program(name).is_some_and(|program| has(program, tests) && has(program, &only)) {
            let (goes_on, landing) = (tests[0], tidy::LANDING_PREFIX);
            totals.fail(format!("no test of {name} has {goes_on} in its name, or {landing}.."));
        }
    }
    if ran.iter().any(|one| one.name == EXAMPLES && one.passed == 0) {
        totals.fail("no example of the designs passed");
    }
    // Behind the everyday tier only what has designs is compiled, and that is this tier's.
    let is_behind = built.is_just(&packages.of_designs, &packages.others);
    let building = is_behind.then(|| ("build-cpu-seconds".to_string(), built.cpu));
    let programs = ("programs".to_string(), built.programs.len() as f64);
    let costs = building.into_iter().chain([programs]).collect();
    hold_to_budget(root, "landing", costs, &ran, over_budget, totals);
}

/// Runs `cargo test` with further arguments, on the whole workspace unless they choose packages.
fn run_chosen(root: &Path, arguments: &[String], totals: &mut Totals) {
    let mut command = cargo(root, &["test", "--no-fail-fast"]);
    let is_choice = |argument: &String| {
        argument == "--package" || (argument.starts_with("-p") && !argument.starts_with("--"))
    };
    if !arguments.iter().take_while(|argument| *argument != "--").any(is_choice) {
        command.arg("--workspace");
    }
    command.args(arguments);
    run_counting(command, totals);
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

    /// A package that calls Cargo in its tests must be held back until Cargo has built all.
    #[test]
    fn no_test_beside_the_build_calls_cargo() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut folders = vec![root.join("crates")];
        let mut files = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|name| name == "rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    let calls = ["Command::new(\"cargo\")", "(\"CARGO\")"];
                    let found = calls.iter().find(|call| text.contains(**call));
                    assert_eq!(found, None, "{}", path.display());
                    files += 1;
                }
            }
        }
        assert!(files > 500);
    }

    /// The last lines of the script are all that some services show of it.
    #[test]
    fn the_script_names_what_its_commands_did() {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../.ci/totals");
        let mut totals = Totals { passed: 7, ..Totals::default() };
        totals.remarks.push("over budget: little".into());
        totals.fail("a it b::c");
        let folder = tempfile::tempdir().unwrap();
        let told = folder.path().join("told");
        let noise = "failed: noise\n1 passed, 9 failed\n";
        std::fs::write(&told, format!("{noise}{}", totals.last_lines())).unwrap();
        let commands = format!(
            "set -euo pipefail; . {script}; count sh -c 'cat {0}; exit 1'; count echo '3 passed, 0 failed'; \
             count false; conclude",
            told.display()
        );
        let output = Command::new("bash").args(["-c", &commands]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let end = "\n==== what failed\nover budget: little\nfailed: a it b::c\nfailed: false: exit status 1\n\
                   10 passed, 2 failed\n";
        assert!(
            text.ends_with(end) && !output.status.success(),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let all =
            format!("set -euo pipefail; . {script}; count echo '3 passed, 0 failed'; conclude");
        let output = Command::new("bash").args(["-c", &all]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            text.ends_with("failed\n3 passed, 0 failed\n") && output.status.success(),
            "{text}"
        );
    }

    #[test]
    fn an_excess_is_a_failure_or_told() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("xtask")).unwrap();
        let budget = "test programs 1\ntest run-cpu-seconds 5\n";
        std::fs::write(folder.path().join("xtask/budget.txt"), budget).unwrap();
        let ran = [Ran { cpu: 9.0, ..Ran::default() }];
        let held = |over_budget, programs| {
            let (costs, mut totals) =
                ([("programs".to_string(), programs)].into(), Totals::default());
            hold_to_budget(folder.path(), "test", costs, &ran, over_budget, &mut totals);
            totals
        };
        let totals = held(OverBudget::Fails, 2.0);
        assert_eq!((totals.failed, totals.remarks.len()), (2, 0), "{totals:?}");
        assert!(
            totals.failures.iter().all(|line| line.starts_with("over budget: tier test, ")),
            "{totals:?}"
        );
        let totals = held(OverBudget::IsToldIfTime, 2.0);
        assert_eq!((totals.failed, totals.remarks.len()), (1, 1), "{totals:?}");
        assert_eq!(held(OverBudget::IsRecorded, 2.0), Totals::default());
        let recorded = std::fs::read_to_string(folder.path().join("xtask/budget.txt")).unwrap();
        assert!(recorded.contains("test programs 2\ntest run-cpu-seconds 9\n"), "{recorded}");
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
