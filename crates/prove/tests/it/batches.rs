//! Batches on the simulated machine: no reader sees half of one, no power cut leaves half of one, and
//! what is written after one stays; and each safeguard of the protocol is missed.

#![allow(clippy::print_stdout, reason = "what was explored is the result")]

use std::time::{Duration, Instant};

use everleaf_machine::simulated::{Config, Report};
use everleaf_prove::campaign::WORK;
use everleaf_prove::configure::{Fixed, exhaustive};
use everleaf_prove::mutants::{MUTANTS, hunt};
use everleaf_prove::structure::{Step, Structure, find};

fn batch() -> &'static Structure {
    find("batch").expect("in the list")
}

/// The time for the random search: `EVERLEAF_PROVE_SECONDS`, or a few seconds.
fn time() -> Duration {
    let given = std::env::var("EVERLEAF_PROVE_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs_f64(given.unwrap_or(10.0))
}

fn say(what: &str, report: &Report) {
    let counts = report.counts;
    println!(
        "{what}: {} schedules, {} crash states ({} recovered), {} cut again",
        counts.schedules, counts.images, counts.recoveries, counts.nested_runs
    );
}

#[test]
fn random_plans_keep_batches_whole() {
    let (started, mut total) = (Instant::now(), Report::default());
    for number in 0.. {
        let Step { program, config, .. } = batch().step(1, number, Fixed::default());
        let config = Config { work_limit: WORK, ..config };
        let (report, failure) = batch().case(&program).expect("known").explore(&config, 10);
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
fn small_programs_keep_batches_whole_in_every_order_with_a_preemption() {
    for program in batch().small() {
        let config = exhaustive(&Config::default(), 1);
        let (report, failure) = batch().case(&program).expect("known").explore(&config, 3000);
        say(&program, &report);
        if let Some(failure) = failure {
            panic!("{program}: {failure}");
        }
    }
}

#[test]
fn every_safeguard_is_missed() {
    for mutant in MUTANTS.iter().filter(|mutant| mutant.structure == "batch") {
        let kill = hunt(*mutant, 3).unwrap_or_else(|| panic!("{} is not missed", mutant.name));
        println!("{}: {} after {} schedules", mutant.name, kill.failure.kind, kill.schedules);
    }
}
