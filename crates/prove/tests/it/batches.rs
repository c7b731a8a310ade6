//! Batches on the simulated machine: no reader sees half of one, no power cut leaves half of one, and
//! what is written after one stays; and each safeguard of the protocol is missed.

#![allow(clippy::print_stdout, reason = "what was explored is the result")]

use crate::common::{half_of, numbers};
use crate::marks::{assert_all_met, assert_met};
use everleaf_machine::simulated::{Config, CrashConfig, Report};
use everleaf_prove::case::step::Step;
use everleaf_prove::case::structure::Structure;
use everleaf_prove::hunt::mutants::{MUTANTS, hunt};
use everleaf_prove::machine::configure::{Fixed, exhaustive};
use everleaf_prove::search::campaign::WORK;
use everleaf_prove::structures::find;

fn batch() -> &'static Structure {
    find("batch").expect("in the list")
}

/// Random plans, of which half are everyday.
const PLANS: u64 = 24;

fn say(what: &str, report: &Report) {
    let counts = report.counts;
    println!(
        "{what}: {} schedules, {} crash states ({} recovered), {} cut again",
        counts.schedules, counts.images, counts.recoveries, counts.nested_runs
    );
}

#[test]
fn random_plans_survive_with_whole_batches() {
    let mut total = Report::default();
    for number in numbers(0.1, half_of(PLANS)) {
        let Step { program, config, .. } = batch().step(1, number, Fixed::default());
        let config = Config { work_limit: WORK, ..config };
        let (report, failure) = batch().case(&program).expect("known").explore(&config, 10);
        total.add(&report);
        if let Some(failure) = failure {
            panic!("{program}: {failure}");
        }
    }
    say("random plans", &total);
    assert!(total.counts.nested_runs > 0, "recovery was never cut");
}

#[test]
fn small_programs_keep_batches_whole_in_every_preempted_order() {
    let marks = [
        "batch.tree_is_gone",
        "batches.reads_behind_stripes",
        "journal.lengthened",
        "journal.rolled_back",
    ];
    assert_met(&keep_whole(false), &marks);
}

#[test]
#[ignore = "guards a landing"]
fn landing_the_larger_small_programs_keep_batches_whole() {
    keep_whole(true);
}

/// Beside those with fillers, which have two thirds of all crash states, those that have a third of the rest: the
/// longest, and with hashed leaves what is everyday without.
const LARGE: [&str; 2] = ["small/swap, batch, at once", "hashed/small/move, full"];

/// Those of landings or the others.
fn keep_whole(is_landing: bool) -> Report {
    let mut total = Report::default();
    let programs = batch().small();
    assert!(LARGE.iter().all(|large| programs.iter().any(|program| program == large)));
    for program in programs {
        if (program.contains("fillers") || LARGE.contains(&program.as_str())) != is_landing {
            continue;
        }
        let config = exhaustive(&Config::default(), 1);
        let (report, failure) = batch().case(&program).expect("known").explore(&config, 3000);
        say(&program, &report);
        total.add(&report);
        if let Some(failure) = failure {
            panic!("{program}: {failure}");
        }
    }
    total
}

/// Memory is refused to what would replace a leaf that another thread has frozen, behind a change that is made.
#[test]
fn a_batch_that_is_refused_memory_in_its_middle_waits() {
    let mut total = Report::default();
    let crash = CrashConfig { enabled: false, ..CrashConfig::default() };
    let config = Config { crash, fail_allocation: Some(1), ..Config::default() };
    for program in ["refused/move, lone", "refused/move, move"] {
        let case = batch().case(program).expect("known");
        let (report, failure) = case.explore(&exhaustive(&config, 1), 200);
        assert!(failure.is_none(), "{program}: {failure:?}");
        total.add(&report);
    }
    assert_all_met(&total, &["journal.refused_without_space"]);
}

#[test]
#[ignore = "guards a landing"]
fn landing_every_safeguard_is_missed() {
    for mutant in MUTANTS.iter().filter(|mutant| mutant.structure == "batch") {
        let kill =
            hunt(batch(), *mutant, 3).unwrap_or_else(|| panic!("{} is not missed", mutant.name));
        println!("{}: {} after {} schedules", mutant.name, kill.failure.kind, kill.schedules);
    }
}
