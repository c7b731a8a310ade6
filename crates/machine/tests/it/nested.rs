//! Crashes during recovery, and the life after a crash.

use crate::support::list::ListProgram;
use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{
    Config, Counts, CrashConfig, Domain, Failure, FailureKind, Memory, Program, Runner,
};
use everleaf_machine::{Atomic, Machine, Ordering, Simulated};

fn search(config: &Config, programs: u64) -> (Counts, Vec<(&'static str, u64)>, Option<Failure>) {
    let (mut counts, mut marks) = (Counts::default(), Vec::new());
    for number in 0..programs {
        let (program, plan) = ListProgram::random(number, 3, 3);
        let mut runner = Runner::new(program, plan, config.clone()).expect("the fresh list opens");
        let result = runner.explore(50);
        let report = runner.report();
        counts.add(&report.counts);
        marks.extend(report.marks);
        if let Err(failure) = result {
            return (counts, marks, Some(*failure));
        }
    }
    (counts, marks, None)
}

fn nested(domain: Domain, mutants: Vec<&'static str>) -> Config {
    let crash = CrashConfig { nested_one_in: 8, nested_depth: 2, ..CrashConfig::default() };
    Config { domain, crash, mutants, ..Config::default() }
}

#[test]
fn the_correct_list_survives_crashes_in_its_recovery() {
    for domain in [Domain::Adr, Domain::Eadr, Domain::Process] {
        let (counts, marks, failure) = search(&nested(domain, vec![]), 10);
        if let Some(failure) = failure {
            panic!("{domain:?}: {failure}");
        }
        assert!(counts.nested_runs > 100, "{counts:?}");
        assert!(marks.iter().any(|&(name, _)| name == "list.recovery.unlinked"), "{marks:?}");
    }
}

#[test]
fn an_unrepeatable_recovery_is_found_only_by_crashing_it() {
    let bug = vec!["recovery unlinks before it is safe"];
    let plain = Config { mutants: bug.clone(), ..Config::default() };
    assert!(search(&plain, 40).2.is_none());
    let failure = search(&nested(Domain::Adr, bug), 40).2.expect("found by a nested crash");
    assert!(failure.message.contains("in the life after a crash"), "{failure}");
}

#[test]
fn opening_in_the_simulation_is_explored_from_the_start() {
    let config = Config { simulate_open: true, ..Config::default() };
    let (counts, _, failure) = search(&config, 10);
    assert!(failure.is_none(), "{failure:?}");
    let (plain, _, _) = search(&Config::default(), 10);
    // The list's opening reads, so it adds steps and no image.
    assert!(counts.accesses > plain.accesses);
}

/// One schedule whose every crash has a life with crashes of its own takes many times what was asked
/// for, unless what it costs is looked at within it, too.
#[test]
fn a_schedule_begins_no_life_that_it_cannot_afford() {
    let crash = CrashConfig { nested_one_in: 1, nested_depth: 2, ..CrashConfig::default() };
    let work_of = |work_limit| {
        let (program, plan) = ListProgram::random(3, 3, 3);
        let config = Config { crash, work_limit, ..Config::default() };
        let mut runner = Runner::new(program, plan, config).expect("the fresh list opens");
        runner.explore(1).expect("the list is right").counts
    };
    let (all, part) = (work_of(u64::MAX), work_of(10_000));
    assert!(all.nested_at[1] > all.nested_at[0], "{all:?}");
    assert!(part.work() < all.work() / 2 && part.nested_runs > 0, "{part:?}");
}

/// One word that a thread sets and flushes. The recovery that opens it must make durable what a dead process left in
/// the caches.
struct Word {
    persists: bool,
}

impl Program for Word {
    type Operation = u64;
    type Instance = &'static Atomic<u64, Simulated>;

    fn pool_bytes(&self) -> usize {
        64
    }

    fn format(&self, _memory: Memory) {}

    fn open(&self, memory: Memory) -> Result<Self::Instance, String> {
        // SAFETY: aligned, zeroed at first, and the runner outlives every instance.
        let word: Self::Instance = unsafe { &*memory.base().cast() };
        if memory.outlives_stores() && self.persists {
            Simulated::flush(word.as_ptr());
            Simulated::drain();
        }
        Ok(word)
    }

    fn contents(&self, word: &Self::Instance) -> Result<Vec<(u64, u64)>, String> {
        // Relaxed: nobody else runs.
        let value = word.load(Ordering::Relaxed);
        Ok(if value == 0 { vec![] } else { vec![(0, value)] })
    }

    fn calls(&self, _value: &u64, calls: &mut Vec<(u64, Call)>) {
        calls.push((0, Call::Upsert(7)));
    }

    fn run(&self, word: &Self::Instance, _: usize, value: &u64, replies: &mut Vec<Reply>) {
        // Relaxed: there is one thread. A thread that finds the value trusts that it is durable.
        let previous = word.load(Ordering::Relaxed);
        if previous != *value {
            // Relaxed: there is one thread; the flush below is what makes it durable.
            word.store(*value, Ordering::Relaxed);
            Simulated::flush(word.as_ptr());
            Simulated::drain();
        }
        replies.push(Reply::Previous((previous != 0).then_some(previous)));
    }
}

/// The process dies between a store and its flush, and the power fails in the life after.
#[test]
fn caches_of_a_dead_process_are_persisted_by_opening() {
    let explore = |persists| {
        let crash = CrashConfig { nested_one_in: 1, nested_depth: 1, ..CrashConfig::default() };
        let config = Config { crash, ..Config::default() };
        Runner::new(Word { persists }, vec![vec![7]], config)?.explore(200)
    };
    assert!(explore(true).is_ok());
    let failure = explore(false).expect_err("an answer relied on what was not durable");
    assert_eq!(failure.kind, FailureKind::NotDurable);
    assert!(failure.message.contains("a kill of the process"), "{}", failure.message);
}
