//! Batches as a program: threads that change several keys as one, threads that change one of these
//! keys alone, and readers.
//!
//! Two keys are *twins*: only batches change them, and every batch sets both to one more than it
//! found. So a reader that reads one and then the other must not find the second older, and after a
//! crash both must be alike. A third key is written by batches and alone, and judged like every key
//! of a tree: so a batch that is done again too late is found. With *fillers* every batch adds two
//! keys of its own and removes those of another, so that leaves are replaced between the keys of a
//! batch; of two fillers either both are there or none.

use std::cell::RefCell;
use std::sync::Arc;

use everleaf_index::{
    BatchOp, BytesTree, Change, IndexError, Journal, Session, Tiny, Trees, WriteOrder,
};
use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{Memory, Plan, Program, Random};
use everleaf_machine::{Machine, Simulated};

use crate::backing::{new_pool, open_pool};
use crate::case::{Case, Prepared};
use crate::configure::Fixed;
use crate::dimensions::Dimension;
use crate::dimensions::{self, Drawn};
use crate::leaks::remove_trees;
use crate::operation::Space;
use crate::structure::{self, Step};

type M = Simulated;
type G = Tiny<3, 3>;

const NAME: &str = "words";
const TWINS: [&[u8]; 2] = [b"twin one", b"twin two"];
const SINGLE: &[u8] = b"single";
/// The highest value of a batch: as many operations as a plan has.
const VALUE_MAX: u64 = 9;
/// The number of the single key to the judge.
const SINGLE_NUMBER: u64 = 2;

/// One operation of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A batch: both twins one up, the single key to this value.
    Batch(u64),
    /// Sets the single key.
    Put(u64),
    /// Reads the single key.
    Get,
    /// Reads one twin, then the other.
    Twins,
    /// Lowers a gate that only lingers.
    LowerIfIdle,
}

/// Threads around three keys.
#[derive(Clone, Copy, Debug)]
pub struct Batches {
    /// How many threads come.
    pub threads: usize,
    /// Stripes: one makes all keys wait for each other.
    pub stripes: usize,
    /// Whether batches have fillers.
    pub fills: bool,
}

/// The opened tree with its journal.
pub struct Opened {
    trees: Trees<G, M>,
    tree: Arc<BytesTree<G, M>>,
    journal: Journal<G, M>,
    order: WriteOrder<M>,
    fills: bool,
    /// Borrowed by its own thread only.
    sessions: Vec<RefCell<Option<Session<M>>>>,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The fillers of the batch with this value: one before and one behind all other keys.
fn fillers(value: u64) -> [Vec<u8>; 2] {
    ["a filler", "z filler"].map(|name| format!("{name} {value}").into_bytes())
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("a value has 8 bytes"))
}

impl Opened {
    /// Reads a key as a store does.
    fn read(&self, session: &mut Session<M>, key: &[u8]) -> Result<Option<u64>, IndexError> {
        let mut pinned = session.pinned();
        while !self.order.is_free() && self.order.is_in_batch(key) {
            drop(pinned);
            self.order.await_batch(key);
            pinned = session.pinned();
        }
        self.tree.get_with(&mut pinned, key, number)
    }

    /// Writes a key as a store does.
    fn put(&self, session: &mut Session<M>, value: u64) -> Result<Option<u64>, IndexError> {
        let value = value.to_le_bytes();
        let put = |session: &mut Session<M>| {
            self.tree.change(session, SINGLE, Change::Upsert(&value), |_, old| old.map(number))
        };
        let mut pinned = session.pinned();
        if self.order.is_free() {
            return put(&mut pinned);
        }
        drop(pinned);
        let _stripe = self.order.lock(SINGLE);
        put(session)
    }

    /// Returns what the single key was.
    fn batch(&self, session: &mut Session<M>, value: u64) -> Result<Option<u64>, IndexError> {
        self.order.raise(self.trees.heap());
        let (added, removed) = (fillers(value), fillers(value ^ 1));
        let keys = TWINS.iter().copied().chain([SINGLE]);
        let more = added.iter().chain(&removed).map(Vec::as_slice).filter(|_| self.fills);
        let stripes = self.order.lock_many(keys.chain(more).map(|key| self.order.stripe_of(key)));
        let next = self.tree.get_with(session, TWINS[0], number)?.unwrap_or(0) + 1;
        let before = self.tree.get_with(session, SINGLE, number)?;
        let (next, value) = (next.to_le_bytes(), value.to_le_bytes());
        let edit = |key, value| BatchOp { tree: &*self.tree, key, value, expiry_ms: 0 };
        let mut edits = vec![
            edit(TWINS[0], Some(&next[..])),
            edit(SINGLE, Some(&value[..])),
            edit(TWINS[1], Some(&next[..])),
        ];
        if self.fills {
            edits.extend(added.iter().map(|key| edit(key, Some(&next[..]))));
            edits.extend(removed.iter().map(|key| edit(key, None)));
        }
        let done = self.journal.apply(session, &edits);
        drop(stripes);
        self.order.lower_after_batch();
        done.map(|()| before)
    }

    fn replies(
        &self,
        session: &mut Session<M>,
        operation: Operation,
        replies: &mut Vec<Reply>,
    ) -> Result<(), IndexError> {
        let previous = match operation {
            Operation::Batch(value) => self.batch(session, value)?,
            Operation::Put(value) => self.put(session, value)?,
            Operation::Get => self.read(session, SINGLE)?,
            Operation::Twins => {
                let first = self.read(session, TWINS[0])?;
                let second = self.read(session, TWINS[1])?;
                assert!(second >= first, "half a batch: {first:?}, then {second:?}");
                return Ok(());
            }
            Operation::LowerIfIdle => {
                self.order.lower_if_idle();
                return Ok(());
            }
        };
        replies.push(Reply::Previous(previous));
        Ok(())
    }
}

impl Program for Batches {
    type Operation = Operation;
    type Instance = Opened;

    fn pool_bytes(&self) -> usize {
        2 * Space::default().pool_bytes
    }

    fn format(&self, memory: Memory) {
        let pool = new_pool(memory).expect("new memory becomes a pool");
        let trees: Trees<G, M> =
            Trees::create_with_chunks(pool, Space::default().chunk_shift).expect("room for a heap");
        let mut session = trees.heap().session().expect("a free session");
        trees.bytes_tree(NAME).expect("room for a tree");
        Journal::open(&trees, &mut session).expect("room for a journal");
    }

    fn open(&self, memory: Memory) -> Result<Opened, String> {
        let trees: Trees<G, M> = Trees::open(open_pool(memory).map_err(text)?, 1).map_err(text)?;
        let tree = trees.find_bytes_tree(NAME).map_err(text)?.ok_or("the tree is gone")?;
        let journal = Journal::find(&trees).map_err(text)?.ok_or("the journal is gone")?;
        let mut session = trees.heap().session().map_err(text)?;
        if M::mutant("journal.no_recovery") {
            M::mark("batch.unfinished");
        } else {
            journal.recover(&trees, &mut session).map_err(text)?;
        }
        drop(session);
        let session = |_| Ok(RefCell::new(Some(trees.heap().session()?)));
        let sessions: Result<Vec<_>, everleaf_index::AllocError> =
            (0..self.threads).map(session).collect();
        let order = WriteOrder::new(self.stripes);
        let (sessions, fills) = (sessions.map_err(text)?, self.fills);
        Ok(Opened { trees, tree, journal, order, fills, sessions })
    }

    fn give_back(&self, opened: Opened) -> Result<bool, String> {
        let Opened { trees, sessions, .. } = opened;
        drop(sessions);
        remove_trees(&trees)?;
        Ok(true)
    }

    fn contents(&self, opened: &Opened) -> Result<Vec<(u64, u64)>, String> {
        opened.sessions.iter().for_each(|session| drop(session.borrow_mut().take()));
        let single = {
            let mut session = opened.trees.heap().session().map_err(text)?;
            let mut get =
                |key: &[u8]| opened.tree.get_with(&mut session, key, number).map_err(text);
            let twins = [get(TWINS[0])?, get(TWINS[1])?];
            if twins[0] != twins[1] {
                return Err(format!("half a batch is left: {twins:?}"));
            }
            for value in 0..=VALUE_MAX {
                let [first, second] = fillers(value);
                let (first, second) = (get(&first)?, get(&second)?);
                if first != second {
                    return Err(format!("fillers of half a batch: {first:?} and {second:?}"));
                }
            }
            get(SINGLE)?
        };
        let report = opened.trees.check().map_err(text)?;
        if !report.is_clean() {
            return Err(report.problems.join("; "));
        }
        Ok(single.map(|value| (SINGLE_NUMBER, value)).into_iter().collect())
    }

    fn calls(&self, operation: &Operation, calls: &mut Vec<(u64, Call)>) {
        calls.extend(match *operation {
            Operation::Batch(value) | Operation::Put(value) => {
                Some((SINGLE_NUMBER, Call::Upsert(value)))
            }
            Operation::Get => Some((SINGLE_NUMBER, Call::Get)),
            Operation::Twins | Operation::LowerIfIdle => None,
        });
    }

    fn run(&self, opened: &Opened, thread: usize, operation: &Operation, replies: &mut Vec<Reply>) {
        let mut session = opened.sessions[thread].borrow_mut();
        let session = session.as_mut().expect("taken only when all threads have ended");
        let done = opened.replies(session, *operation, replies);
        done.unwrap_or_else(|error| panic!("{operation:?}: {error}"));
    }
}

/// A random plan: 2 or 3 threads with 1 to 3 operations each.
pub fn plan(seed: u64) -> (Batches, Plan<Operation>) {
    let mut random = Random::new(seed ^ 0x6261_7463);
    let (threads, length) = (2 + random.below(2) as usize, 1 + random.below(3));
    let stripes = 1 << random.below(3);
    let mut value = 0;
    let mut operation = || {
        value += 1;
        match random.below(12) {
            0..5 => Operation::Batch(value),
            5..7 => Operation::Put(value),
            7 => Operation::Get,
            8..11 => Operation::Twins,
            _ => Operation::LowerIfIdle,
        }
    };
    let plan = (0..threads).map(|_| (0..length).map(|_| operation()).collect()).collect();
    // Leaves that are replaced have so many crash states that only short plans are to have them.
    let fills = seed % 4 == 2 && threads as u64 * length <= 4;
    (Batches { threads, stripes, fills }, plan)
}

use Operation::{Batch, LowerIfIdle, Put, Twins};

/// Programs small enough for every order.
const SMALL: [(&str, usize, &[&[Operation]]); 6] = [
    ("batch, read", 4, &[&[Batch(1)], &[Twins]]),
    ("batch, put", 4, &[&[Batch(1)], &[Put(2), Put(3)]]),
    ("batch, batch", 2, &[&[Batch(1)], &[Batch(2)]]),
    ("batch alone, put", 1, &[&[Batch(1), Put(2), Batch(3)]]),
    ("batch, settle, put", 1, &[&[Batch(1), LowerIfIdle], &[Put(2)]]),
    ("fillers, put", 4, &[&[Batch(2), Batch(3)], &[Put(4)]]),
];

/// The case of a name: `random/NUMBER` or `small/NAME`.
fn case(name: &str) -> Option<Box<dyn Case>> {
    if let Some(seed) = name.strip_prefix("random/") {
        return Some(Prepared::boxed(plan(seed.parse().ok()?)));
    }
    let wanted = name.strip_prefix("small/")?;
    let (_, stripes, plan) = SMALL.iter().find(|(known, ..)| *known == wanted)?;
    let plan: Plan<Operation> = plan.iter().map(|thread| thread.to_vec()).collect();
    let fills = wanted.starts_with("fillers");
    Some(Prepared::boxed((Batches { threads: plan.len(), stripes: *stripes, fills }, plan)))
}

/// The small programs.
fn small() -> Vec<String> {
    SMALL.iter().map(|(name, ..)| format!("small/{name}")).collect()
}

/// The programs of this structure.
pub struct Programs;

impl structure::Programs for Programs {
    fn case(&self, name: &str) -> Option<Box<dyn Case>> {
        case(name)
    }

    fn step(&self, number: u64, random: &mut Random, fixed: Fixed) -> Step {
        let Drawn { config, values } = dimensions::draw(random, fixed);
        let program = format!("random/{}", random.below(1 << 40) << 8 | number & 255);
        Step { program, config, values }
    }

    fn dimensions(&self) -> Vec<Dimension> {
        dimensions::machines()
    }

    fn small(&self) -> Vec<String> {
        small()
    }
}
