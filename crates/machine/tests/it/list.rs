//! The tester tested: a correct persistent list survives, each planted bug is found.

use std::time::Instant;

use crate::support::list::{BUGS, ListProgram, Operation};
use everleaf_machine::simulated::{
    Abandon, Config, CrashConfig, Domain, FailureKind, MemoryModel, Runner, SchedulerKind,
    SiteKind, ablate, search, shrink,
};

fn random(number: u64) -> (ListProgram, Vec<Vec<Operation>>) {
    ListProgram::random(number, 3, 3)
}

#[test]
fn the_correct_list_survives_in_every_domain_and_memory_model() {
    for domain in [Domain::Adr, Domain::Eadr, Domain::Process] {
        for memory in [MemoryModel::Sc, MemoryModel::Tso] {
            let config = Config { domain, memory, ..Config::default() };
            let start = Instant::now();
            let report = search(&config, 0..40, 100, random)
                .unwrap_or_else(|found| panic!("{domain:?} {memory:?}: {found}"));
            println!("{domain:?} {memory:?} {:?} {:?}", start.elapsed(), report.counts);
            assert_eq!(report.counts.schedules, 4000);
            assert!(report.counts.images > 4000);
        }
    }
}

#[test]
fn every_planted_bug_is_found() {
    for bug in BUGS {
        let config = Config { mutants: vec![bug], ..Config::default() };
        let found = search(&config, 0..2000, 50, random).err();
        let found = found.unwrap_or_else(|| panic!("not found: {bug}"));
        println!("{bug}: schedule {}: {}", found.schedules, found.failure.kind);
    }
}

#[test]
fn a_missing_drain_matters_unless_locked_operations_drain() {
    let mutants = vec!["no drain between node flush and link"];
    let portable = Config { mutants: mutants.clone(), ..Config::default() };
    assert!(search(&portable, 0..100, 20, random).is_err());
    let x86 = Config { rmw_drains: true, mutants, ..Config::default() };
    let report = search(&x86, 0..100, 20, random);
    assert!(report.is_ok(), "{report:?}");
}

#[test]
fn threads_that_stop_anywhere_do_not_hold_up_the_others() {
    for after_points in 0..40 {
        let abandon = Some(Abandon { thread: 0, after_points });
        let config = Config { abandon, ..Config::default() };
        let report = search(&config, 0..5, 10, random);
        assert!(report.is_ok(), "after {after_points}: {report:?}");
    }
}

#[test]
fn a_node_freed_too_early_is_caught_at_the_first_touch() {
    let bug = "node taken back before readers are gone";
    let config = Config { mutants: vec![bug], ..Config::default() };
    let found = search(&config, 0..2000, 50, random).expect_err("a reader still holds the node");
    assert_eq!(found.failure.kind, FailureKind::UseAfterFree, "{found}");
}

#[test]
fn a_failure_shrinks_to_the_operations_that_matter() {
    let config = Config { mutants: vec!["unlink without marking"], ..Config::default() };
    let found = search(&config, 0..2000, 50, random).expect_err("the bug is found");
    let make = || random(found.number).0;
    let shrunk = shrink(&config, &found.plan, &found.failure, 300, make);
    let left: usize = shrunk.plan.iter().map(Vec::len).sum();
    println!("{:?}\n{}\n{}", shrunk.plan, shrunk.failure, shrunk.trace.join("\n"));
    assert_eq!(shrunk.failure.kind, found.failure.kind);
    assert!(left <= 3, "{:?}", shrunk.plan);
    assert!(shrunk.trace.len() < 100);
}

#[test]
fn needed_flushes_and_drains_are_told_from_needless_ones() {
    let ablations = ablate(&Config::default(), 0..100, 50, random).expect("the list is correct");
    let line = |ablation: &everleaf_machine::simulated::Ablation| {
        let killed = ablation.killed.as_ref().map(|(schedule, failure)| (*schedule, failure.kind));
        println!("{} {} {} {killed:?}", ablation.site, ablation.kind, ablation.hits);
        ablation.is_needed()
    };
    let needed = ablations.iter().filter(|ablation| line(ablation)).count();
    assert!(needed >= 5, "{needed} of {}", ablations.len());
    assert!(ablations.iter().any(|ablation| ablation.kind == SiteKind::Drain));
    assert!(ablations.iter().all(|ablation| ablation.hits > 0));
}

#[test]
fn an_exhaustive_search_ends_and_finds_races() {
    let config = Config { scheduler: SchedulerKind::Dfs { preemptions: 2 }, ..Config::default() };
    let (program, plan) = ListProgram::random(3, 3, 1);
    let mut runner = Runner::new(program, plan, config).expect("the fresh list opens");
    let report = runner.explore(1_000_000).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{:?}", report.counts);
    assert!(report.exhausted);
    assert!(report.counts.schedules > 100);
}

/// `cargo test --release -p everleaf-machine --test it list:: -- --ignored --nocapture`
#[test]
#[ignore = "a long run"]
fn the_correct_list_survives_a_long_search() {
    for domain in [Domain::Adr, Domain::Eadr, Domain::Process] {
        for memory in [MemoryModel::Sc, MemoryModel::Tso] {
            for rmw_drains in [false, true] {
                let crash = CrashConfig { nested_one_in: 100, ..CrashConfig::default() };
                let races = memory == MemoryModel::Sc;
                let base = Config::default();
                let config = Config { domain, memory, rmw_drains, crash, races, seed: 9, ..base };
                let report = search(&config, 1000..1200, 300, random)
                    .unwrap_or_else(|found| panic!("{domain:?} {memory:?}: {found}"));
                println!("{domain:?} {memory:?} {rmw_drains}: {:?}", report.counts);
            }
        }
    }
}
