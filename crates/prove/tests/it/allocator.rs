//! The allocator on the simulated machine: threads in every order that chance gives, power cuts
//! wherever they can matter; nothing is handed out twice, reclaimed under a reader, lost or leaked.

#![allow(clippy::print_stdout, reason = "what was explored is the result")]

use crate::common::{Rounds, half_of, numbers};
use everleaf_machine::simulated::{
    Config, CrashConfig, Domain, Failure, FailureKind, MemoryModel, Report, Runner,
};
use everleaf_prove::structures::allocator;
use everleaf_prove::structures::find;

fn vary(number: u64, base: &Config) -> Config {
    let domain = [Domain::Adr, Domain::Eadr, Domain::Adr, Domain::Process];
    let memory = if number % 3 == 1 { MemoryModel::Tso } else { MemoryModel::Sc };
    Config {
        domain: domain[(number % 4) as usize],
        memory,
        races: memory == MemoryModel::Sc && number.is_multiple_of(2),
        rmw_drains: number % 8 == 2,
        seed: number + 1,
        ..base.clone()
    }
}

/// Runs so many random programs, or until a failure; more, where there is a part of much time.
fn search(base: &Config, part: f64, programs: impl Into<Rounds>) -> Result<Report, Box<Failure>> {
    let mut total = Report::default();
    for number in numbers(part, programs) {
        let (program, plan) = allocator::random(number);
        let mut runner = Runner::new(program, plan, vary(number, base))?;
        runner.explore(20)?;
        total.add(&runner.report());
    }
    let counts = total.counts;
    println!(
        "{} schedules, {} crash states ({} recovered), {} steps",
        counts.schedules, counts.images, counts.recoveries, counts.steps
    );
    Ok(total)
}

#[test]
fn allocators_survive_whole_and_nothing_leaks() {
    search(&Config::default(), 0.15, half_of(30)).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn allocators_survive_recoveries_that_are_cut_and_repeated() {
    let crash = CrashConfig { nested_one_in: 1000, ..CrashConfig::default() };
    let base = Config { crash, ..Config::default() };
    let report = search(&base, 0.1, half_of(20)).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.counts.nested_runs > 0);
}

#[test]
fn reuse_without_a_grace_period_is_caught() {
    // It needs no crash, of which there are very many.
    let crash = CrashConfig { enabled: false, ..CrashConfig::default() };
    let base = Config { mutants: vec!["epoch.no_grace"], crash, ..Config::default() };
    let failure = search(&base, 0.0, 600_u64).expect_err("readers hold it still");
    let kinds = [FailureKind::UseAfterFree, FailureKind::DataRace, FailureKind::Panic];
    assert!(kinds.contains(&failure.kind), "{failure}");
}

#[test]
fn threads_that_share_fewer_sessions_wait_and_leave_nothing() {
    let alloc = find("alloc").expect("in the list");
    for number in 0..12 {
        let case = alloc.case(&format!("shared/random/{number}")).expect("its program");
        let (report, failure) = case.explore(&vary(number, &Config::default()), 10);
        if let Some(failure) = failure {
            panic!("{number}: {failure}");
        }
        assert!(report.counts.schedules > 0);
    }
}
