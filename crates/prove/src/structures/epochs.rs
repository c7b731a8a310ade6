//! Epochs as a program: threads replace a node, read it, and reclaim what they replaced.
//!
//! The smallest thing that needs a grace period. The machine fails a thread that touches a node
//! after it was freed; there is nothing persistent and nothing to judge but that.

use std::alloc::Layout;
use std::cell::RefCell;

use everleaf_alloc::epoch::EpochClock;
use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{Memory, Plan, Program, Random};
use everleaf_machine::{Atomic, AtomicPointer, Machine, Ordering, Simulated};

use crate::case::step::{self, Step};
use crate::case::{Case, PlannedCase};
use crate::machine::configure::Fixed;
use crate::machine::dimensions::Dimension;
use crate::machine::dimensions::{self, Drawn};

type M = Simulated;
type Node = Atomic<u64, M>;

const PARTICIPANTS: usize = 4;
/// What a node holds, plus the number of its maker.
const MADE: u64 = 0xE10C;

/// One operation of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Pins, reads the node twice, unpins.
    Read,
    /// Pins, puts a new node in the place, retires the old one, unpins.
    Replace,
    /// The same in the thread's own place, by a plain store as under a lock: what is read behind it may be
    /// older.
    ReplaceOwn,
    /// As a read, of the place of the thread with this number.
    ReadOf(usize),
    /// Tries to advance the epoch and reclaims what may be.
    Reclaim,
    /// Leaves and joins again.
    Rejoin,
}

/// What one thread holds.
struct Participant {
    index: Option<usize>,
    retired: Vec<(u64, *mut Node)>,
}

/// The clock, the place, and the participants.
pub struct Opened {
    clock: EpochClock<M>,
    place: AtomicPointer<Node, M>,
    /// Each written by its own thread only.
    own: Vec<AtomicPointer<Node, M>>,
    participants: Vec<RefCell<Participant>>,
}

/// Threads around one place.
#[derive(Clone, Copy, Debug)]
pub struct Epochs {
    /// How many threads come.
    pub threads: usize,
}

fn new_node(maker: u64) -> *mut Node {
    let node = M::allocate(Layout::new::<Node>()).cast::<Node>();
    assert!(!node.is_null(), "the arena is far larger than what a plan allocates");
    // SAFETY: fresh, large enough and aligned.
    unsafe { node.write(Atomic::new(MADE + maker)) };
    node
}

fn check(node: &Node) {
    // Relaxed: written before it was published; a stale value would still be one that was made.
    let held = node.load(Ordering::Relaxed);
    assert!((MADE..MADE + 16).contains(&held), "a node holds {held:#x}");
}

impl Opened {
    fn read(&self, index: usize, place: &AtomicPointer<Node, M>) {
        self.clock.pin(index);
        // Acquire: pairs with the swap in `replace`, and the store in `replace_own`.
        let node = place.load(Ordering::Acquire);
        for _ in 0..2 {
            // SAFETY: not reclaimed while we are pinned; the machine checks just that.
            check(unsafe { &*node });
        }
        self.clock.unpin(index);
    }

    fn replace(&self, index: usize, retired: &mut Vec<(u64, *mut Node)>) {
        self.clock.pin(index);
        // AcqRel: publishes the new node, acquires the old; pairs with itself and `read`.
        let old = self.place.swap(new_node(index as u64), Ordering::AcqRel);
        // SAFETY: taken out by us alone, and reclaimed by nobody else.
        check(unsafe { &*old });
        retired.push((self.clock.retire_epoch(), old));
        self.clock.unpin(index);
    }

    fn replace_own(&self, index: usize, thread: usize, retired: &mut Vec<(u64, *mut Node)>) {
        self.clock.pin(index);
        let place = &self.own[thread];
        // Relaxed: nobody else stores there.
        let old = place.load(Ordering::Relaxed);
        // Release: publishes the new node; pairs with the load in `read`.
        place.store(new_node(index as u64), Ordering::Release);
        retired.push((self.clock.retire_epoch(), old));
        self.clock.unpin(index);
    }

    fn reclaim(&self, retired: &mut Vec<(u64, *mut Node)>) {
        self.clock.try_advance();
        retired.retain(|(epoch, node)| {
            let expired = self.clock.is_expired(*epoch);
            if expired {
                // SAFETY: of `new_node`, retired by us once, and its grace period is over.
                unsafe { M::deallocate(node.cast(), Layout::new::<Node>()) };
            }
            !expired
        });
    }
}

impl Program for Epochs {
    type Operation = Operation;
    type Instance = Opened;

    fn pool_bytes(&self) -> usize {
        64
    }

    fn format(&self, _memory: Memory) {}

    fn open(&self, _memory: Memory) -> Result<Opened, String> {
        let clock = EpochClock::new(PARTICIPANTS);
        // The first thread is there from the start; the others join when they first act.
        let participants = (0..self.threads).map(|_| Participant { index: None, retired: vec![] });
        let participants = participants.map(RefCell::new).collect();
        let own = (0..self.threads).map(|_| AtomicPointer::new(new_node(0))).collect();
        Ok(Opened { clock, place: AtomicPointer::new(new_node(0)), own, participants })
    }

    fn contents(&self, _opened: &Opened) -> Result<Vec<(u64, u64)>, String> {
        Ok(vec![])
    }

    fn calls(&self, _operation: &Operation, _calls: &mut Vec<(u64, Call)>) {}

    fn run(&self, opened: &Opened, thread: usize, operation: &Operation, _: &mut Vec<Reply>) {
        let participant = &mut *opened.participants[thread].borrow_mut();
        let join = || opened.clock.join().expect("as many entries as threads");
        let index = participant.index.unwrap_or_else(join);
        participant.index = Some(index);
        match operation {
            Operation::Read => opened.read(index, &opened.place),
            Operation::ReadOf(other) => opened.read(index, &opened.own[*other]),
            Operation::Replace => opened.replace(index, &mut participant.retired),
            Operation::ReplaceOwn => opened.replace_own(index, thread, &mut participant.retired),
            Operation::Reclaim => opened.reclaim(&mut participant.retired),
            Operation::Rejoin => {
                opened.clock.leave(index);
                participant.index = Some(join());
            }
        }
    }
}

/// A random plan: 2 or 3 threads with 2 to 5 operations each.
pub fn plan(seed: u64) -> Plan<Operation> {
    let random = &mut Random::new(seed ^ 0x6570_6F63);
    let (threads, length) = (2 + random.below(2), 2 + random.below(4));
    plan_of(random, threads, length)
}

/// A tiny one: 2 to 4 threads with 1 to 3 operations each.
fn tiny(seed: u64) -> Plan<Operation> {
    let random = &mut Random::new(seed ^ 0x7469_6E79);
    let (threads, length) = (2 + random.below(3), 1 + random.below(3));
    plan_of(random, threads, length)
}

fn plan_of(random: &mut Random, threads: u64, length: u64) -> Plan<Operation> {
    // One place for all, or one of each thread.
    let is_own = random.one_in(2);
    let mut operation = || match random.below(10) {
        0..3 if is_own => Operation::ReadOf(random.below(threads) as usize),
        0..3 => Operation::Read,
        3..6 if is_own => Operation::ReplaceOwn,
        3..6 => Operation::Replace,
        6..9 => Operation::Reclaim,
        _ => Operation::Rejoin,
    };
    (0..threads).map(|_| (0..length).map(|_| operation()).collect()).collect()
}

use Operation::{Read, ReadOf, Reclaim, Replace, ReplaceOwn};

/// Programs small enough for every order.
const SMALL: [(&str, &[&[Operation]]); 5] = [
    ("read, replace and reclaim", &[&[Read], &[Replace, Reclaim, Reclaim]]),
    ("read twice, replace twice", &[&[Read, Read], &[Replace, Reclaim, Replace, Reclaim]]),
    ("replace, replace", &[&[Replace, Reclaim, Reclaim], &[Replace, Reclaim, Reclaim]]),
    ("read, replace, advance", &[&[Read], &[Replace, Reclaim, Reclaim], &[Reclaim]]),
    ("read, store, advance", &[&[ReadOf(1)], &[ReplaceOwn, Reclaim], &[Reclaim, Reclaim]]),
];

/// The case of a name: `random/NUMBER`, `tiny/NUMBER` or `small/NAME`.
fn case(name: &str) -> Option<Box<dyn Case>> {
    let plan: Plan<Operation> = match name.split_once('/')? {
        ("random", seed) => plan(seed.parse().ok()?),
        ("tiny", seed) => tiny(seed.parse().ok()?),
        ("small", wanted) => {
            let (_, plan) = SMALL.iter().find(|(known, _)| *known == wanted)?;
            plan.iter().map(|thread| thread.to_vec()).collect()
        }
        _ => return None,
    };
    Some(PlannedCase::boxed((Epochs { threads: plan.len() }, plan)))
}

/// The small programs.
fn small() -> Vec<String> {
    SMALL.iter().map(|(name, _)| format!("small/{name}")).collect()
}

/// The programs of this structure.
pub struct Programs;

impl step::Programs for Programs {
    fn case(&self, name: &str) -> Option<Box<dyn Case>> {
        case(name)
    }

    fn step(&self, number: u64, random: &mut Random, fixed: Fixed) -> Step {
        let Drawn { mut config, values } = dimensions::draw(random, fixed);
        // There is nothing persistent: crashes are left out.
        config.crash.enabled = false;
        let program = format!("random/{}", random.below(1 << 40) << 8 | number & 255);
        Step { program, config, values }
    }

    fn brief(&self, _number: u64, random: &mut Random, fixed: Fixed) -> Option<Step> {
        let mut drawn = dimensions::draw(random, fixed);
        dimensions::draw_brief(random, false, &mut drawn);
        let Drawn { mut config, values } = drawn;
        config.crash.enabled = false;
        Some(Step { program: format!("tiny/{}", random.below(1 << 40)), config, values })
    }

    fn dimensions(&self) -> Vec<Dimension> {
        dimensions::without_crashes()
    }

    fn small(&self) -> Vec<String> {
        small()
    }
}
