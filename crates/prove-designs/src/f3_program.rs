//! A program for F3-trees with evaluators: threads that write and read, and several that bring to the global tree what
//! is pending, all at once. The programs of other trees have no such threads: there only writers evaluate, when they
//! find no room.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::marker::PhantomData;

use everleaf_alloc::{AllocError, Session};
use everleaf_designs::F3Tree;
use everleaf_designs::f3tree::variant::Variant;
use everleaf_index::{IndexError, OrderedIndex, SingleTreePool};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{Memory, Plan, Program, Random};
use everleaf_prove::case::step::{self, Step};
use everleaf_prove::case::{Case, PlannedCase};
use everleaf_prove::judge::leaks::all_is_free;
use everleaf_prove::machine::backing::{SIZE_MIN, new_pool, open_pool};
use everleaf_prove::machine::configure::Fixed;
use everleaf_prove::machine::dimensions::{self, Dimension, Drawn};

type M = Simulated;
type TreePool<V> = SingleTreePool<F3Tree<V, M>, M>;

/// Keys that there may be: of both parts of the table of pending keys, and of two blocks that become leaves.
const KEYS: u64 = 16;
/// The largest record that is held back where there is to be no space.
const RECORD_MAX: usize = 2104;

/// One operation on the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads a key.
    Get(u64),
    /// Adds a key with a value.
    Insert(u64, u64),
    /// Sets the value of a key.
    Upsert(u64, u64),
    /// Takes a key out.
    Remove(u64),
    /// All pairs from a key on.
    Scan(u64),
    /// Brings to the global tree what is pending.
    Evaluate,
}

/// What is in the tree at first, and how many threads come.
#[derive(Debug)]
pub struct F3Program<V> {
    /// In the global tree.
    stored: Vec<u64>,
    /// In entries of the first front: keys that are written, or that are removed.
    pending: Vec<(u64, bool)>,
    threads: usize,
    /// Whether there is no space.
    is_full: bool,
    variant: PhantomData<V>,
}

impl<V> Clone for F3Program<V> {
    fn clone(&self) -> Self {
        let F3Program { stored, pending, threads, is_full, variant } = self;
        let (stored, pending) = (stored.clone(), pending.clone());
        F3Program { stored, pending, threads: *threads, is_full: *is_full, variant: *variant }
    }
}

/// The opened tree with a session for each thread.
pub struct Opened<V: Variant> {
    /// Borrowed by its own thread only.
    sessions: Vec<RefCell<Option<Session<M>>>>,
    /// What is held back while threads run.
    hoard: RefCell<Option<Hoard>>,
    pool: TreePool<V>,
}

/// All space there was, and the session that has it.
struct Hoard {
    session: Session<M>,
    records: Vec<(u64, usize)>,
}

impl Hoard {
    fn take(mut session: Session<M>) -> Result<Hoard, AllocError> {
        let mut records = vec![];
        for size in (16..=RECORD_MAX).rev().step_by(8) {
            loop {
                match session.allocate_record(size) {
                    Ok(record) => records.push((record, size)),
                    Err(error) if error.is_full() => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(Hoard { session, records })
    }

    fn give_back(mut self) {
        self.records.iter().for_each(|(record, size)| self.session.free_record(*record, *size));
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// What a key has at first.
fn first_value(key: u64) -> u64 {
    10 * (key + 1)
}

impl<V: Variant> F3Program<V> {
    fn fill(&self, tree: &F3Tree<V, M>, sessions: [&mut Session<M>; 2]) -> Result<(), IndexError> {
        let [first, second] = sessions;
        for key in &self.stored {
            // The second front has an object from now on.
            let _ = tree.insert(second, *key, first_value(*key))?;
        }
        tree.evaluate(second)?;
        for (key, is_written) in &self.pending {
            match is_written {
                true => tree.upsert(first, *key, first_value(*key) + 1)?,
                false => tree.remove(first, *key)?,
            };
        }
        Ok(())
    }
}

impl<V: Variant> Opened<V> {
    fn run(
        &self,
        session: &mut Session<M>,
        operation: Operation,
        replies: &mut Vec<Reply>,
    ) -> Result<(), IndexError> {
        let tree = self.pool.tree();
        let previous = match operation {
            Operation::Get(key) => tree.get(session, key)?,
            Operation::Insert(key, value) => tree.insert(session, key, value)?,
            Operation::Upsert(key, value) => tree.upsert(session, key, value)?,
            Operation::Remove(key) => tree.remove(session, key)?,
            Operation::Scan(from) => {
                let mut pairs = vec![];
                tree.scan(session, from, 2 * KEYS as usize, &mut pairs)?;
                let value_of = |key| pairs.iter().find(|pair| pair.0 == key).map(|pair| pair.1);
                replies.extend((from..KEYS).map(|key| Reply::Previous(value_of(key))));
                return Ok(());
            }
            Operation::Evaluate => return tree.evaluate(session).map(drop),
        };
        replies.push(Reply::Previous(previous));
        Ok(())
    }

    /// Ends the sessions of all threads, and gives back what is held back.
    fn end_sessions(&self) {
        self.sessions.iter().for_each(|session| drop(session.borrow_mut().take()));
        if let Some(hoard) = self.hoard.take() {
            hoard.give_back();
        }
    }
}

impl<V: Variant + 'static> Program for F3Program<V> {
    type Operation = Operation;
    type Instance = Opened<V>;

    fn pool_bytes(&self) -> usize {
        SIZE_MIN as usize
    }

    fn format(&self, memory: Memory) {
        let pool = new_pool(memory).expect("new memory becomes a pool");
        let pool = TreePool::<V>::create_with_chunks(pool, 12).expect("room for a tree");
        let mut first = pool.heap().session().expect("a free session");
        let mut second = pool.heap().session().expect("a free session");
        self.fill(pool.tree(), [&mut first, &mut second]).expect("room for a few keys");
    }

    fn open(&self, memory: Memory) -> Result<Opened<V>, String> {
        let pool = TreePool::<V>::open(open_pool(memory).map_err(text)?, 1).map_err(text)?;
        let session = |_| Ok(RefCell::new(Some(pool.heap().session()?)));
        let sessions: Result<Vec<_>, AllocError> = (0..self.threads).map(session).collect();
        Ok(Opened { sessions: sessions.map_err(text)?, hoard: RefCell::new(None), pool })
    }

    fn warm_up(&self, opened: &Opened<V>) {
        if self.is_full {
            let session = opened.pool.heap().session().expect("a free session");
            let hoard = Hoard::take(session).expect("it takes what there is");
            *opened.hoard.borrow_mut() = Some(hoard);
        }
    }

    fn contents(&self, opened: &Opened<V>) -> Result<Vec<(u64, u64)>, String> {
        opened.end_sessions();
        let mut pairs = vec![];
        {
            let mut session = opened.pool.heap().session().map_err(text)?;
            let tree = opened.pool.tree();
            tree.scan(&mut session, 0, usize::MAX, &mut pairs).map_err(text)?;
            for key in 0..KEYS {
                let value = tree.get(&mut session, key).map_err(text)?;
                let scanned = pairs.iter().find(|pair| pair.0 == key).map(|pair| pair.1);
                let entry = tree.get_without_table(&mut session, key).map_err(text)?;
                if value != scanned || value != entry {
                    return Err(format!(
                        "key {key} is {value:?}, scanned {scanned:?}, without the table {entry:?}"
                    ));
                }
            }
        }
        let problems = opened.pool.check().map_err(text)?.problems;
        if problems.is_empty() { Ok(pairs) } else { Err(problems.join("; ")) }
    }

    fn give_back(&self, opened: Opened<V>) -> Result<bool, String> {
        opened.end_sessions();
        let heap = opened.pool.heap().clone();
        let mut session = heap.session().map_err(text)?;
        opened.pool.tree().free_all(&mut session);
        drop(session);
        drop(opened);
        all_is_free(&heap)?;
        Ok(true)
    }

    fn expected(&self, _warm: bool) -> Option<Vec<(u64, u64)>> {
        let mut all: BTreeMap<u64, u64> =
            self.stored.iter().map(|key| (*key, first_value(*key))).collect();
        for (key, is_written) in &self.pending {
            match is_written {
                true => all.insert(*key, first_value(*key) + 1),
                false => all.remove(key),
            };
        }
        Some(all.into_iter().collect())
    }

    fn calls(&self, operation: &Operation, calls: &mut Vec<(u64, Call)>) {
        match *operation {
            Operation::Get(key) => calls.push((key, Call::Get)),
            Operation::Insert(key, value) => calls.push((key, Call::Insert(value))),
            Operation::Upsert(key, value) => calls.push((key, Call::Upsert(value))),
            Operation::Remove(key) => calls.push((key, Call::Remove)),
            Operation::Scan(from) => calls.extend((from..KEYS).map(|key| (key, Call::Get))),
            Operation::Evaluate => {}
        }
    }

    fn run(
        &self,
        opened: &Opened<V>,
        thread: usize,
        operation: &Operation,
        replies: &mut Vec<Reply>,
    ) {
        let mut slot = opened.sessions[thread].borrow_mut();
        let session = slot.as_mut().expect("each thread has a session");
        match opened.run(session, *operation, replies) {
            Ok(()) => {}
            Err(error) if self.is_full && error.lacks_space() => {
                let mut calls = vec![];
                self.calls(operation, &mut calls);
                replies.clear();
                replies.resize(calls.len(), Reply::Refused);
            }
            Err(error) => panic!("{operation:?}: {error}"),
        }
    }
}

/// A random tree and plan: 2 to 4 threads, of which some only evaluate.
fn random<V>(seed: u64, longest: u64) -> (F3Program<V>, Plan<Operation>) {
    let random = &mut Random::new(seed ^ 0x6633_6576);
    // Few keys, that threads meet; of one block, or of two.
    let (width, apart) = (2 + random.below(5), 1 + random.below(4));
    let key = |random: &mut Random| random.below(width) * apart % KEYS;
    let mut stored: Vec<u64> = (0..random.below(6)).map(|_| key(random)).collect();
    stored.sort_unstable();
    stored.dedup();
    let pending = (0..random.below(4)).map(|_| (key(random), !random.one_in(4))).collect();
    let (threads, is_full) = (2 + random.below(3), random.one_in(6));
    let thread = |number: u64| {
        let (evaluates, length) = (number > 0 && random.one_in(2), 1 + random.below(longest));
        let operation = |index: u64| {
            let value = 1000 * (number + 1) + 10 * index;
            match random.below(20) {
                _ if evaluates => Operation::Evaluate,
                0..4 => Operation::Insert(key(random), value),
                4..9 => Operation::Upsert(key(random), value),
                9..12 => Operation::Remove(key(random)),
                12..15 => Operation::Get(key(random)),
                15 => Operation::Scan(key(random)),
                _ => Operation::Evaluate,
            }
        };
        (0..length).map(operation).collect()
    };
    let plan = (0..threads).map(thread).collect();
    let threads = threads as usize;
    (F3Program { stored, pending, threads, is_full, variant: PhantomData }, plan)
}

use Operation::{Evaluate, Get, Insert, Remove, Scan, Upsert};

/// Name, what is stored, what is pending, whether there is no space, and what threads do.
type Small =
    (&'static str, &'static [u64], &'static [(u64, bool)], bool, &'static [&'static [Operation]]);

/// Programs small enough for every order. Keys 0, 2, 3 and 6 are in one part of the table, 1 and 4 in the other.
const SMALL: [Small; 10] = [
    ("two evaluators", &[2, 5], &[(0, true), (1, true)], false, &[&[Evaluate], &[Evaluate]]),
    (
        "a newer value",
        &[2],
        &[(1, true)],
        false,
        &[&[Evaluate], &[Upsert(1, 200), Evaluate, Get(1)]],
    ),
    (
        "a removal",
        &[1, 2],
        &[(1, true)],
        false,
        &[&[Evaluate, Get(1)], &[Remove(1), Evaluate, Insert(1, 300)]],
    ),
    (
        "two evaluators, a reader",
        &[2],
        &[(0, true), (1, true)],
        false,
        &[&[Evaluate], &[Evaluate], &[Get(1), Get(0)]],
    ),
    (
        "two evaluators, a scan",
        &[1, 2],
        &[(0, true), (1, false)],
        false,
        &[&[Evaluate], &[Evaluate], &[Scan(0)]],
    ),
    (
        "a number that goes back",
        &[2],
        &[],
        false,
        &[&[Evaluate], &[Evaluate, Upsert(1, 200), Evaluate, Upsert(4, 300)], &[Upsert(1, 100)]],
    ),
    (
        "a split beside another",
        &[0, 1, 2, 8, 9],
        &[(3, true), (4, true)],
        false,
        &[&[Evaluate], &[Insert(10, 100), Evaluate]],
    ),
    (
        "without space",
        &[0, 2, 3],
        &[(1, true)],
        true,
        &[&[Upsert(2, 100)], &[Upsert(2, 200)], &[Evaluate]],
    ),
    // Neither the key that waits nor the one that is written without an entry is alone in its part.
    (
        "without space in one part",
        &[0, 2, 3],
        &[(6, true)],
        true,
        &[&[Upsert(2, 100)], &[Upsert(2, 200)], &[Evaluate]],
    ),
    (
        "writers without room",
        &[2],
        &[(1, true), (4, true)],
        false,
        &[&[Upsert(0, 100), Upsert(3, 101)], &[Upsert(5, 200), Remove(1)]],
    ),
];

/// The case of a name: `random/NUMBER`, `tiny/NUMBER` or `small/NAME`.
fn case<V: Variant + 'static>(name: &str) -> Option<Box<dyn Case>> {
    let planned = match name.split_once('/')? {
        ("random", seed) => random::<V>(seed.parse().ok()?, 4),
        ("tiny", seed) => random::<V>(seed.parse().ok()?, 2),
        ("small", wanted) => {
            let small = SMALL.iter().find(|(known, ..)| *known == wanted)?;
            let (_, stored, pending, is_full, plan) = *small;
            let (stored, pending) = (stored.to_vec(), pending.to_vec());
            let plan: Plan<Operation> = plan.iter().map(|thread| thread.to_vec()).collect();
            let threads = plan.len();
            (F3Program { stored, pending, threads, is_full, variant: PhantomData }, plan)
        }
        _ => return None,
    };
    Some(PlannedCase::boxed(planned))
}

/// The programs of an F3-tree with evaluators.
pub struct Programs<V>(PhantomData<fn() -> V>);

impl<V> Programs<V> {
    /// Those of `V`.
    pub const fn of() -> Self {
        Programs(PhantomData)
    }
}

impl<V: Variant + 'static> step::Programs for Programs<V> {
    fn case(&self, name: &str) -> Option<Box<dyn Case>> {
        case::<V>(name)
    }

    fn step(&self, number: u64, random: &mut Random, fixed: Fixed) -> Step {
        let Drawn { config, values } = dimensions::draw(random, fixed);
        let program = format!("random/{}", random.below(1 << 40) << 8 | number & 255);
        Step { program, config, values }
    }

    fn brief(&self, _number: u64, random: &mut Random, fixed: Fixed) -> Option<Step> {
        let mut drawn = dimensions::draw(random, fixed);
        dimensions::draw_brief(random, false, &mut drawn);
        let Drawn { config, values } = drawn;
        Some(Step { program: format!("tiny/{}", random.below(1 << 40)), config, values })
    }

    fn dimensions(&self) -> Vec<Dimension> {
        dimensions::machines()
    }

    fn small(&self) -> Vec<String> {
        SMALL.iter().map(|(name, ..)| format!("small/{name}")).collect()
    }
}
