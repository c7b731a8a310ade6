//! A program for the adaptive radix tree alone: threads insert, remove and look for the greatest key up to another one.
//!
//! What a search answers depends on many keys at one moment, which the machine's judge, which looks at one key at a
//! time, does not know of. So the program keeps its own history, and looks for an order of all operations that explains
//! every answer and what is left in the tree at the end.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use everleaf_alloc::{AllocError, Heap, Session};
use everleaf_designs::Art;
use everleaf_index::Tiny;
use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{Memory, Plan, Program, Random};
use everleaf_machine::{Machine, Simulated};
use everleaf_prove::case::step::{self, Step};
use everleaf_prove::case::{Case, PlannedCase};
use everleaf_prove::judge::leaks::all_is_free;
use everleaf_prove::machine::backing::{SIZE_MIN, new_pool, open_pool};
use everleaf_prove::machine::configure::Fixed;
use everleaf_prove::machine::dimensions::{self, Dimension, Drawn};

type M = Simulated;
/// With nodes of 3, 5, 7 and 16 children, on 4 bits of a key.
type Tree = Art<Tiny<2, 3>, M>;

/// One operation on the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Looks for the greatest key up to this one.
    Find(u64),
    /// Gives a key a new value.
    Insert(u64),
    /// Takes a key out.
    Remove(u64),
}

/// A value has its key above 8 bits that tell it from other values of the key.
const KEY_SHIFT: u32 = 8;

fn key_of(value: u64) -> u64 {
    value >> KEY_SHIFT
}

/// What an operation answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The value that was found, replaced or taken out.
    Was(Option<u64>),
    /// No memory: nothing has happened.
    Refused,
}

/// An operation with what it answered, and when it began and ended.
#[derive(Clone, Copy, Debug)]
struct Event {
    operation: Operation,
    /// What an insert puts in.
    value: u64,
    answer: Answer,
    began: u64,
    ended: u64,
}

impl Event {
    /// Does it to a map; false if that would answer something else.
    fn explains(&self, map: &mut BTreeMap<u64, u64>) -> bool {
        let was = match (self.answer, self.operation) {
            (Answer::Refused, operation) => return matches!(operation, Operation::Insert(_)),
            (_, Operation::Find(key)) => map.range(..=key).next_back().map(|(_, value)| *value),
            (_, Operation::Insert(key)) => map.insert(key, self.value),
            (_, Operation::Remove(key)) => map.remove(&key),
        };
        self.answer == Answer::Was(was)
    }
}

/// Whether some order of the events that are left, in which none comes before one that had ended when it began, leads
/// from a map to what is there in the end.
fn is_explained(left: &[Event], map: &BTreeMap<u64, u64>, end: &BTreeMap<u64, u64>) -> bool {
    let Some(first_end) = left.iter().map(|event| event.ended).min() else { return map == end };
    (0..left.len()).filter(|number| left[*number].began < first_end).any(|number| {
        let (mut map, mut others) = (map.clone(), left.to_vec());
        others.remove(number).explains(&mut map) && is_explained(&others, &map, end)
    })
}

/// The keys that are there at first, and how many threads come.
#[derive(Clone, Debug)]
pub struct ArtProgram {
    initial: Vec<u64>,
    threads: usize,
}

impl ArtProgram {
    /// Keys and values that are there at first.
    fn pairs(&self) -> impl Iterator<Item = (u64, u64)> {
        self.initial.iter().map(|key| (*key, key << KEY_SHIFT))
    }
}

/// The tree, the sessions, and what was done.
pub struct Opened {
    heap: Arc<Heap<M>>,
    tree: Tree,
    /// Borrowed by its own thread only.
    sessions: Vec<RefCell<Option<Session<M>>>>,
    moment: Cell<u64>,
    events: RefCell<Vec<Event>>,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Opened {
    /// A moment later than all before.
    fn now(&self) -> u64 {
        self.moment.set(self.moment.get() + 1);
        self.moment.get()
    }

    fn answer(&self, session: &mut Session<M>, operation: Operation, value: u64) -> Answer {
        let mut session = session.pinned();
        match operation {
            Operation::Find(key) => Answer::Was(self.tree.find_le(key, key_of)),
            Operation::Remove(key) => Answer::Was(self.tree.remove(&mut session, key, key_of)),
            Operation::Insert(key) => match self.tree.insert(&mut session, key, value, key_of) {
                Ok(replaced) => Answer::Was(replaced),
                Err(error) => {
                    assert!(matches!(error, AllocError::OutOfMemory), "{error}");
                    M::mark("art.refused");
                    Answer::Refused
                }
            },
        }
    }
}

impl Program for ArtProgram {
    type Operation = Operation;
    type Instance = Opened;

    fn pool_bytes(&self) -> usize {
        SIZE_MIN as usize
    }

    fn format(&self, memory: Memory) {
        let pool = new_pool(memory).expect("new memory becomes a pool");
        Heap::create_with_chunks(pool, 12).expect("room for a heap");
    }

    fn open(&self, memory: Memory) -> Result<Opened, String> {
        let (heap, recovery) = Heap::open(open_pool(memory).map_err(text)?).map_err(text)?;
        recovery.finish(&heap);
        let session = |_| Ok(RefCell::new(Some(heap.session()?)));
        let sessions: Result<Vec<_>, AllocError> = (0..self.threads).map(session).collect();
        let sessions = sessions.map_err(text)?;
        let pairs: Vec<_> = self.pairs().collect();
        let mut first = sessions[0].borrow_mut();
        let tree = Art::load(first.as_mut().expect("opened just now"), &pairs).map_err(text)?;
        drop(first);
        Ok(Opened { heap, tree, sessions, moment: Cell::new(0), events: RefCell::default() })
    }

    fn contents(&self, opened: &Opened) -> Result<Vec<(u64, u64)>, String> {
        opened.sessions.iter().for_each(|session| drop(session.borrow_mut().take()));
        let mut problems = vec![];
        opened.tree.check(key_of, &mut problems);
        if !problems.is_empty() {
            return Err(problems.join("; "));
        }
        let mut values = vec![];
        opened.tree.for_each(&mut |value| values.push(value));
        let end = values.iter().map(|value| (key_of(*value), *value)).collect();
        let events = opened.events.borrow();
        if !is_explained(&events, &self.pairs().collect(), &end) {
            return Err(format!("no order explains {events:x?} and what is there then: {end:x?}"));
        }
        Ok(vec![])
    }

    fn give_back(&self, opened: Opened) -> Result<bool, String> {
        let Opened { heap, tree, sessions, .. } = opened;
        drop(sessions);
        let mut session = heap.session().map_err(text)?;
        tree.free(&mut session);
        drop(session);
        all_is_free(&heap)?;
        Ok(true)
    }

    fn is_durable(&self) -> bool {
        false
    }

    /// The program is its own judge.
    fn calls(&self, _operation: &Operation, _calls: &mut Vec<(u64, Call)>) {}

    fn run(&self, opened: &Opened, thread: usize, operation: &Operation, _: &mut Vec<Reply>) {
        let mut slot = opened.sessions[thread].borrow_mut();
        let session = slot.as_mut().expect("each thread has a session");
        let (operation, began) = (*operation, opened.now());
        let value = match operation {
            Operation::Insert(key) => key << KEY_SHIFT | began << 1,
            _ => 0,
        };
        let answer = opened.answer(session, operation, value);
        let event = Event { operation, value, answer, began, ended: opened.now() };
        opened.events.borrow_mut().push(event);
    }
}

/// A random tree and plan: 2 or 3 threads with so many operations each, on keys of up to three digits that differ.
fn random(seed: u64, longest: u64) -> (ArtProgram, Plan<Operation>) {
    let random = &mut Random::new(seed ^ 0x6172_7431);
    let (threads, length) = (2 + random.below(2), 1 + random.below(longest));
    // One node, two levels, or three.
    let digits = [1, random.below(3), random.below(3)];
    let width = 3 + random.below(7);
    let key = |random: &mut Random| {
        let digit = |random: &mut Random, most: u64| random.below(most + 1);
        let above = digit(random, digits[2]) << 8 | digit(random, digits[1]) << 4;
        above | random.below(width)
    };
    let mut initial: Vec<u64> = (0..random.below(12)).map(|_| key(random)).collect();
    initial.sort_unstable();
    initial.dedup();
    let operation = |random: &mut Random| match random.below(8) {
        0..3 => Operation::Insert(key(random)),
        3..6 => Operation::Remove(key(random)),
        _ => Operation::Find(key(random)),
    };
    let mut thread = || (0..length).map(|_| operation(random)).collect();
    let plan = (0..threads).map(|_| thread()).collect();
    (ArtProgram { initial, threads: threads as usize }, plan)
}

use Operation::{Find, Insert, Remove};

/// What is there at first, and what threads do.
type Small = (&'static str, &'static [u64], &'static [&'static [Operation]]);

/// Programs small enough for every order.
const SMALL: [Small; 15] = [
    ("insert, find", &[0x10], &[&[Insert(0x11)], &[Find(0x1F), Find(0x1F)]]),
    ("insert, insert", &[0x10], &[&[Insert(0x11)], &[Insert(0x12), Find(0x11)]]),
    ("insert, replace", &[0x10, 0x11], &[&[Insert(0x11)], &[Insert(0x11), Find(0x11)]]),
    ("insert in front, find", &[0x10, 0x12], &[&[Insert(0x11)], &[Find(0x12), Find(0x11)]]),
    ("remove in front, find", &[1, 2, 3], &[&[Remove(1)], &[Find(2), Find(3)]]),
    ("grow, find", &[1, 3, 4], &[&[Insert(2)], &[Find(2), Find(3)]]),
    ("grow, grow", &[1, 2, 3], &[&[Insert(4)], &[Insert(5), Find(4)]]),
    ("grow, remove", &[1, 2, 3, 4, 5, 6, 7], &[&[Insert(8)], &[Remove(5), Find(8)]]),
    ("shrink, insert", &[1, 2, 3, 4], &[&[Remove(4), Remove(3)], &[Insert(5), Find(9)]]),
    ("node goes, insert", &[0x10, 0x11, 0x20], &[&[Remove(0x11)], &[Insert(0x12), Find(0x12)]]),
    ("node between, insert", &[0x10, 0x11], &[&[Insert(0x20)], &[Insert(0x21), Find(0x20)]]),
    ("remove, remove", &[0x10, 0x11], &[&[Remove(0x11)], &[Remove(0x11), Find(0x11)]]),
    ("on the left of the way", &[0x10, 0x21, 0x22], &[&[Find(0x20)], &[Remove(0x10)]]),
    ("before a key", &[0x10, 0x11, 0x30], &[&[Find(0x2F)], &[Insert(0x20), Insert(0x12)]]),
    ("an empty tree", &[], &[&[Insert(1), Remove(1)], &[Insert(2), Remove(2), Find(9)]]),
];

/// The case of a name: `random/NUMBER`, `tiny/NUMBER` or `small/NAME`.
fn case(name: &str) -> Option<Box<dyn Case>> {
    let planned = match name.split_once('/')? {
        ("random", seed) => random(seed.parse().ok()?, 4),
        ("tiny", seed) => random(seed.parse().ok()?, 2),
        ("small", wanted) => {
            let (_, initial, plan) = SMALL.iter().find(|(known, ..)| *known == wanted)?;
            let plan: Plan<Operation> = plan.iter().map(|thread| thread.to_vec()).collect();
            (ArtProgram { initial: initial.to_vec(), threads: plan.len() }, plan)
        }
        _ => return None,
    };
    Some(PlannedCase::boxed(planned))
}

/// The programs of this structure.
pub struct Programs;

impl step::Programs for Programs {
    fn case(&self, name: &str) -> Option<Box<dyn Case>> {
        case(name)
    }

    fn step(&self, number: u64, random: &mut Random, fixed: Fixed) -> Step {
        let mut drawn = dimensions::draw(random, fixed);
        // Nothing is in the pool: crashes are left out.
        drawn.config.crash.enabled = false;
        if random.one_in(4) {
            drawn.open_before();
            drawn.config.fail_allocation = Some(random.below(6));
        }
        let Drawn { config, values } = drawn;
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
        SMALL.iter().map(|(name, ..)| format!("small/{name}")).collect()
    }

    fn refused(&self) -> Vec<String> {
        self.small()
    }
}
