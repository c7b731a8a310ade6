//! Pools that are closed, on the simulated machine: wherever the power is cut, before, in and after a
//! clean close, the next opening takes no sound leaf for a damaged one; and each safeguard of the seal
//! is missed.

#![allow(clippy::print_stdout, reason = "what was explored is the result")]

use std::cell::Cell;

use everleaf_index::Tiny;
use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{
    Config, CrashConfig, Domain, Failure, Memory, Program, Report, Runner,
};
use everleaf_prove::tree::bytes_program::{AnyWords, BytesProgram, Opened};
use everleaf_prove::tree::operation::Operation;

type Two = Tiny<2, 3>;

/// What a thread does: something to the tree, in the first life of the pool only, or at last a clean close.
#[derive(Clone, Debug)]
enum Step {
    Do(Operation),
    First(Operation),
    Close,
}

/// The opened pool, and where it is.
struct OpenedAt {
    opened: Opened,
    base: *mut u8,
}

/// A tree whose pool was closed cleanly when the thread comes.
struct Closed {
    program: BytesProgram,
    /// Whether the process that opens it after a crash closes it at once, and opens it again.
    again: bool,
    /// Where the pool of the first life is: what comes behind a crash is elsewhere.
    base: Cell<*mut u8>,
}

impl Closed {
    fn new(program: BytesProgram, again: bool) -> Closed {
        Closed { program, again, base: Cell::new(std::ptr::null_mut()) }
    }
}

impl Program for Closed {
    type Operation = Step;
    type Instance = OpenedAt;

    fn pool_bytes(&self) -> usize {
        self.program.pool_bytes()
    }

    fn format(&self, memory: Memory) {
        self.base.set(memory.base());
        self.program.format(memory);
        self.program.open(memory).expect("it is sound").close().expect("it can be closed");
    }

    fn open(&self, memory: Memory) -> Result<OpenedAt, String> {
        if self.again {
            self.program.open(memory)?.close().map_err(|error| error.to_string())?;
        }
        Ok(OpenedAt { opened: self.program.open(memory)?, base: memory.base() })
    }

    fn contents(&self, life: &OpenedAt) -> Result<Vec<(u64, u64)>, String> {
        self.program.contents(&life.opened)
    }

    fn calls(&self, step: &Step, calls: &mut Vec<(u64, Call)>) {
        if let Step::Do(operation) | Step::First(operation) = step {
            self.program.calls(operation, calls);
        }
    }

    fn run(&self, life: &OpenedAt, thread: usize, step: &Step, replies: &mut Vec<Reply>) {
        match step {
            Step::First(_) if life.base != self.base.get() => replies.push(Reply::Refused),
            Step::Do(operation) | Step::First(operation) => {
                self.program.run(&life.opened, thread, operation, replies);
            }
            Step::Close => life.opened.close().expect("it can be closed"),
        }
    }
}

/// Looks at a plan of one thread with the power cut everywhere.
fn explore(domain: Domain, mutant: Option<&'static str>) -> Result<Report, Box<Failure>> {
    let history = (0..5).map(|key| Operation::Upsert(key, key + 1)).collect();
    let universe: [&[u8]; 6] = [b"a", b"b", b"c", b"d", b"e", b"f"];
    let program = BytesProgram::new::<Two>(&universe, history, 1);
    let program = Closed::new(program, false);
    let steps = [Operation::Upsert(1, 9), Operation::Remove(3), Operation::Insert(5, 7)];
    let plan = steps.into_iter().map(Step::Do).chain([Step::Close]).collect();
    let config = Config { domain, mutants: mutant.into_iter().collect(), ..Config::default() };
    Runner::new(program, vec![plan], config)?.explore(30)
}

/// What was lost: up to 111 of 3,028 keys of leaves that were zeroed, swapped or copied, in a pool that `check` called
/// sound. The sums and the seal that tell of them since must tell of nothing that a power cut leaves.
#[test]
fn no_power_cut_makes_a_sound_leaf_look_damaged() {
    for domain in [Domain::Adr, Domain::Eadr, Domain::Process] {
        let report = explore(domain, None).unwrap_or_else(|failure| panic!("{failure}"));
        let counts = report.counts;
        println!("{domain:?}: {} schedules, {} crash states", counts.schedules, counts.images);
        assert!(counts.recoveries > 0, "the power was never cut");
    }
}

/// A seal that is believed although the pool was written since; sums that the seal outruns.
#[test]
fn every_safeguard_of_the_seal_is_missed() {
    for mutant in ["pool.old_seal", "nbtree.no_seal_flush"] {
        let failure = explore(Domain::Adr, Some(mutant)).err();
        let failure = failure.unwrap_or_else(|| panic!("{mutant} is not missed"));
        println!("{mutant}: {}", failure.kind);
    }
}

/// A leaf of hashed leaves with more entries than the line of its header has: the power is cut while one is
/// claimed, and again after the next life has opened and closed the pool.
fn explore_hashed(mutant: Option<&'static str>) -> Result<Report, Box<Failure>> {
    let history = (0..3).map(|key| Operation::Upsert(key, key + 1)).collect();
    let universe: [&[u8]; 6] = [b"a", b"b", b"c", b"d", b"e", b"f"];
    let tree = const { &AnyWords::hashed::<Tiny<7, 3>>() };
    let program = Closed::new(BytesProgram::on(tree, &universe, history, 1), true);
    let steps = [Operation::Insert(4, 5), Operation::Insert(5, 7)];
    let plan = steps.into_iter().map(Step::Do).chain([Step::Close]).collect();
    let mut config = Config { mutants: mutant.into_iter().collect(), ..Config::default() };
    config.domain = Domain::Adr;
    config.crash.nested_one_in = 1;
    Runner::new(program, vec![plan], config)?.explore(10)
}

/// Recovery takes back what was claimed and not finished. It did so in the cache only, and the seal of the next
/// close was made over that: after a power cut the pool, which was whole, was refused for ever.
#[test]
fn what_recovery_clears_in_hashed_leaves_is_durable_by_a_seal() {
    let report = explore_hashed(None).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{} crash states, {} recoveries", report.counts.images, report.counts.recoveries);
    for mutant in ["hashed.no_clearing_flush", "hashed.no_seal_flush"] {
        let failure = explore_hashed(Some(mutant)).err();
        println!("{mutant}: {}", failure.unwrap_or_else(|| panic!("{mutant} is not missed")));
    }
}

/// How many lives a pool has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lives {
    One,
    Two,
}

/// A leaf of several lines whose split is refused memory when it was frozen already, at the allocation of this number;
/// then the pool is closed, with the power cut everywhere, or where an operation has returned, and so in the next life,
/// which closes it.
fn explore_frozen(
    tree: &'static AnyWords,
    refused: u64,
    lives: Lives,
    mutant: Option<&'static str>,
) -> Result<Report, Box<Failure>> {
    let history = (0..7).map(|key| Operation::Upsert(key, key + 1)).collect();
    let universe: [&[u8]; 8] = [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"];
    let mut program = BytesProgram::on(tree, &universe, history, 1);
    program.space.may_fill = true;
    let program = Closed::new(program, false);
    let plan = vec![Step::First(Operation::Insert(7, 9)), Step::Close];
    let mut config = Config { mutants: mutant.into_iter().collect(), ..Config::default() };
    (config.domain, config.fail_allocation) = (Domain::Adr, Some(refused));
    if lives == Lives::Two {
        let of_all = config.crash;
        config.crash =
            CrashConfig { at_returns: true, nested_one_in: 1, nested_depth: 1, ..of_all };
    }
    Runner::new(program, vec![plan], config)?.explore(10)
}

/// What froze a leaf that could not be replaced was in the cache only, and the seal of a close was made over it: after
/// a power cut the pool, which was whole, was refused for ever.
#[test]
fn what_froze_a_leaf_is_durable_by_a_seal() {
    type Seven = Tiny<7, 3>;
    let (nbtree, hashed) = const { (&AnyWords::of::<Seven>(), &AnyWords::hashed::<Seven>()) };
    let mut missed = 0;
    for refused in 0..6 {
        for tree in [nbtree, hashed] {
            let report = explore_frozen(tree, refused, Lives::One, None);
            let report = report.unwrap_or_else(|failure| panic!("{refused}: {failure}"));
            assert!(report.counts.images > 0, "the power was never cut");
        }
        let mutant = Some("nbtree.no_frozen_flush");
        let failure = explore_frozen(nbtree, refused, Lives::One, mutant).err();
        if let Some(failure) = failure {
            println!("allocation {refused}: {}", failure.kind);
            missed += 1;
        }
    }
    assert!(missed > 0, "nbtree.no_frozen_flush is not missed");
}

/// Recovery thaws what a crash left frozen. In the cache only, the seal of the next close would be made over it,
/// and after a power cut the pool, which was whole, would be refused for ever.
#[test]
fn what_recovery_thaws_is_durable_by_a_seal() {
    type Seven = Tiny<7, 3>;
    let trees: [(&AnyWords, _); 3] = [
        (const { &AnyWords::of::<Seven>() }, "nbtree.no_thaw_flush"),
        (const { &AnyWords::hashed::<Seven>() }, "hashed.no_clearing_flush"),
        (const { &AnyWords::at_once::<Seven>() }, "hashed.restore_no_flush"),
    ];
    for (tree, mutant) in trees {
        let mut missed = 0;
        for refused in 0..6 {
            let report = explore_frozen(tree, refused, Lives::Two, None);
            let report = report.unwrap_or_else(|failure| panic!("{refused}: {failure}"));
            assert!(report.counts.nested_runs > 0, "the power was never cut");
            if let Some(failure) = explore_frozen(tree, refused, Lives::Two, Some(mutant)).err() {
                println!("{mutant}, allocation {refused}: {}", failure.kind);
                missed += 1;
            }
        }
        assert!(missed > 0, "{mutant} is not missed");
    }
}
