//! The making of a pool as a program: nothing is there, one thread makes the pool and its heap, with the first write
//! a tree, and closes, and the power fails at any step. What is left opens, or is no pool yet, and then it is made
//! anew.
//!
//! To the judge the pool itself is a key, which its making inserts: a pool that was made and does not open is gone.

use std::cell::RefCell;

use everleaf_alloc::Heap;
use everleaf_index::{IndexError, Session, Tiny, Trees};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{Memory, Plan, Program};
use everleaf_pool::Pool;

use crate::case::{Case, PlannedCase};
use crate::machine::backing::{new_pool, open_pool};
use crate::machine::space::Space;
use crate::tree::nbtree::SHARES;

type M = Simulated;
type G = Tiny<3, 3>;

const NAME: &str = "made";
/// The pool, to the judge, and what it holds.
const POOL: u64 = 100;
const MADE: u64 = 1;

/// One operation, on a key and a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Makes the pool, if there is none.
    Make,
    /// Sets a key, if there is a pool.
    Put(u64, u64),
    /// Takes a key out, if there is a pool.
    Remove(u64),
    /// Seals and closes the pool; the last operation of all.
    Close,
}

/// A pool that is not there yet.
#[derive(Clone, Copy, Debug)]
pub struct Creation {
    /// Whether its trees have hashed leaves.
    pub hashes: bool,
}

/// What was made or found.
pub struct Opened {
    memory: Memory,
    made: RefCell<Option<Made>>,
}

struct Made {
    session: Option<Session<M>>,
    trees: Trees<G, M>,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Made {
    fn of(trees: Trees<G, M>) -> Result<Self, IndexError> {
        Ok(Made { session: Some(trees.heap().session()?), trees })
    }

    fn new(memory: Memory, hashes: bool) -> Result<Self, IndexError> {
        let pool = new_pool(memory)?;
        let trees = Trees::create_with_chunks(pool, Space::default().chunk_shift)?;
        if hashes {
            trees.make_hashed_leaves()?;
        }
        Made::of(trees)
    }

    fn write(&mut self, key: u64, value: Option<u64>) -> Result<Option<u64>, IndexError> {
        let session = self.session.as_mut().expect("taken only when all is done");
        let tree = self.trees.u64_tree(NAME)?;
        match value {
            Some(value) => tree.upsert(session, key, value),
            None => tree.remove(session, key),
        }
    }
}

/// The trees of a pool. What was made before its heap gets one, as by [`Trees::open`], but of small chunks.
fn found(pool: Pool<M>) -> Result<Trees<G, M>, IndexError> {
    if !Heap::exists(&pool) && pool.roots().is_empty() {
        return Trees::create_with_chunks(pool, Space::default().chunk_shift);
    }
    Trees::open(pool, SHARES)
}

impl Program for Creation {
    type Operation = Operation;
    type Instance = Opened;

    fn pool_bytes(&self) -> usize {
        Space::default().pool_bytes
    }

    fn format(&self, _memory: Memory) {}

    fn open(&self, memory: Memory) -> Result<Opened, String> {
        // A header is written when all else of an empty pool is: without it there is none.
        let made = match open_pool(memory) {
            Ok(pool) => Some(Made::of(found(pool).map_err(text)?).map_err(text)?),
            Err(_) => None,
        };
        Ok(Opened { memory, made: RefCell::new(made) })
    }

    fn contents(&self, opened: &Opened) -> Result<Vec<(u64, u64)>, String> {
        let mut made = opened.made.borrow_mut();
        let Some(made) = made.as_mut() else { return Ok(vec![]) };
        drop(made.session.take());
        let mut pairs = vec![];
        if let Some(tree) = made.trees.find_u64_tree(NAME).map_err(text)? {
            let mut session = made.trees.heap().session().map_err(text)?;
            tree.scan(&mut session, 0, usize::MAX, &mut pairs).map_err(text)?;
        }
        pairs.push((POOL, MADE));
        let report = made.trees.check().map_err(text)?;
        if report.is_clean() { Ok(pairs) } else { Err(report.problems.join("; ")) }
    }

    fn calls(&self, operation: &Operation, calls: &mut Vec<(u64, Call)>) {
        match *operation {
            Operation::Make => calls.push((POOL, Call::Insert(MADE))),
            Operation::Put(key, value) => calls.push((key, Call::Upsert(value))),
            Operation::Remove(key) => calls.push((key, Call::Remove)),
            Operation::Close => {}
        }
    }

    fn run(&self, opened: &Opened, _: usize, operation: &Operation, replies: &mut Vec<Reply>) {
        let mut place = opened.made.borrow_mut();
        let reply = match (*operation, place.as_mut()) {
            (Operation::Make, Some(_)) => Ok(Some(Reply::Done(false))),
            (Operation::Make, None) => Made::new(opened.memory, self.hashes).map(|made| {
                *place = Some(made);
                Some(Reply::Done(true))
            }),
            (Operation::Put(..) | Operation::Remove(_), None) => Ok(Some(Reply::Refused)),
            (Operation::Put(key, value), Some(made)) => {
                made.write(key, Some(value)).map(|old| Some(Reply::Previous(old)))
            }
            (Operation::Remove(key), Some(made)) => {
                made.write(key, None).map(|old| Some(Reply::Previous(old)))
            }
            (Operation::Close, Some(made)) => made.trees.close().map(|()| None),
            (Operation::Close, None) => Ok(None),
        };
        replies.extend(reply.unwrap_or_else(|error| panic!("{operation:?}: {error}")));
    }
}

use Operation::{Close, Make, Put, Remove};

/// Each with one thread: nobody knows of a pool that is being made.
const ALL: [(&str, &[Operation]); 4] = [
    ("make", &[Make]),
    ("make, put", &[Make, Put(1, 10), Put(2, 20)]),
    ("make, fill, remove", &[Make, Put(1, 10), Put(2, 20), Put(3, 30), Put(4, 40), Remove(2)]),
    ("make, put, close", &[Make, Put(1, 10), Close]),
];

/// The names of the programs.
pub fn names() -> Vec<String> {
    let of = |kind| ALL.iter().map(move |(name, _)| format!("creation/{kind}/{name}"));
    of("slots").chain(of("hashed")).collect()
}

/// The case of a name, if it is one of these.
pub fn case(name: &str) -> Option<Box<dyn Case>> {
    let (kind, wanted) = name.strip_prefix("creation/")?.split_once('/')?;
    let (_, operations) = ALL.iter().find(|(known, _)| *known == wanted)?;
    let hashes = match kind {
        "slots" => false,
        "hashed" => true,
        _ => return None,
    };
    let plan: Plan<Operation> = vec![operations.to_vec()];
    Some(PlannedCase::boxed((Creation { hashes }, plan)))
}
