//! Expiries that are changed in place, on the simulated machine: none is lost to a write at the same time
//! or to a power cut, none is seen that is not durable, and each safeguard is missed.

#![allow(clippy::print_stdout, reason = "what was explored is the result")]

use crate::common::{half_of, numbers};
use crate::marks::assert_met;
use everleaf_machine::simulated::{Config, Report};
use everleaf_prove::case::step::Step;
use everleaf_prove::case::structure::Structure;
use everleaf_prove::hunt::mutants::{MUTANTS, hunt};
use everleaf_prove::machine::configure::{Fixed, exhaustive};
use everleaf_prove::search::campaign::WORK;
use everleaf_prove::structures::find;

fn expiry() -> &'static Structure {
    find("expiry").expect("in the list")
}

/// Random plans, of which half are everyday.
const PLANS: u64 = 30;

fn say(what: &str, report: &Report) {
    let counts = report.counts;
    println!(
        "{what}: {} schedules, {} crash states ({} recovered), {} cut again",
        counts.schedules, counts.images, counts.recoveries, counts.nested_runs
    );
}

#[test]
fn random_plans_survive_with_all_expiries() {
    let mut total = Report::default();
    for number in numbers(0.1, half_of(PLANS)) {
        let Step { program, config, .. } = expiry().step(1, number, Fixed::default());
        let config = Config { work_limit: WORK, ..config };
        let (report, failure) = expiry().case(&program).expect("known").explore(&config, 10);
        total.add(&report);
        if let Some(failure) = failure {
            panic!("{program}: {failure}");
        }
    }
    say("random plans", &total);
    assert!(total.counts.nested_runs > 0, "recovery was never cut");
}

#[test]
fn small_programs_lose_no_expiry_in_any_preempted_order() {
    assert_met(&run_small(1), &["expiry.written_again"]);
}

#[test]
#[ignore = "guards a landing"]
fn landing_small_programs_lose_no_expiry_with_two_preemptions() {
    run_small(2);
}

fn run_small(preemptions: u32) -> Report {
    let mut total = Report::default();
    let domains = expiry().programs().domains();
    let small = expiry().small();
    for (program, domain) in small.iter().flat_map(|program| domains.map(|one| (program, one))) {
        let config = exhaustive(&Config { domain, ..Config::default() }, preemptions);
        let (report, failure) = expiry().case(program).expect("known").explore(&config, 3000);
        say(&format!("{program}, {domain:?}"), &report);
        total.add(&report);
        if let Some(failure) = failure {
            panic!("{program}: {failure}");
        }
    }
    total
}

#[test]
fn every_safeguard_is_missed() {
    for mutant in MUTANTS.iter().filter(|mutant| mutant.structure == "expiry") {
        let kill =
            hunt(expiry(), *mutant, 3).unwrap_or_else(|| panic!("{} is not missed", mutant.name));
        println!("{}: {} after {} schedules", mutant.name, kill.failure.kind, kill.schedules);
    }
}
