//! Expiries that are changed in place, on the simulated machine: none is lost to a write at the same time
//! or to a power cut, none is seen that is not durable, and each safeguard is missed.

#![allow(clippy::print_stdout, reason = "what was explored is the result")]

use std::time::{Duration, Instant};

use everleaf_machine::simulated::{Config, Report};
use everleaf_prove::campaign::WORK;
use everleaf_prove::configure::{Fixed, exhaustive};
use everleaf_prove::mutants::{MUTANTS, hunt};
use everleaf_prove::structure::{Step, Structure, find};

fn expiry() -> &'static Structure {
    find("expiry").expect("in the list")
}

/// The time for the random search: `EVERLEAF_PROVE_SECONDS`, or a few seconds.
fn time() -> Duration {
    let given = std::env::var("EVERLEAF_PROVE_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs_f64(given.unwrap_or(3.0))
}

fn say(what: &str, report: &Report) {
    let counts = report.counts;
    println!(
        "{what}: {} schedules, {} crash states ({} recovered), {} cut again",
        counts.schedules, counts.images, counts.recoveries, counts.nested_runs
    );
}

#[test]
fn random_plans_lose_no_expiry() {
    let (started, mut total) = (Instant::now(), Report::default());
    for number in 0.. {
        let Step { program, config, .. } = expiry().step(1, number, Fixed::default());
        let config = Config { work_limit: WORK, ..config };
        let (report, failure) = expiry().case(&program).expect("known").explore(&config, 10);
        total.add(&report);
        if let Some(failure) = failure {
            panic!("{program}: {failure}");
        }
        if started.elapsed() > time() && number >= 60 {
            break;
        }
    }
    say("random plans", &total);
    assert!(total.counts.nested_runs > 0, "recovery was never cut");
}

#[test]
fn small_programs_lose_no_expiry_in_every_order_with_two_preemptions() {
    for program in expiry().small() {
        let config = exhaustive(&Config::default(), 2);
        let (report, failure) = expiry().case(&program).expect("known").explore(&config, 3000);
        say(&program, &report);
        if let Some(failure) = failure {
            panic!("{program}: {failure}");
        }
    }
}

#[test]
fn every_safeguard_is_missed() {
    for mutant in MUTANTS.iter().filter(|mutant| mutant.structure == "expiry") {
        let kill = hunt(*mutant, 3).unwrap_or_else(|| panic!("{} is not missed", mutant.name));
        println!("{}: {} after {} schedules", mutant.name, kill.failure.kind, kill.schedules);
    }
}
