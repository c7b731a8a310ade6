//! The tree of 64-bit integers as a program of the simulated machine.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use everleaf_index::{AllocError, Exchange, Geometry, IndexError, Session, Trees, U64Tree};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{Memory, Program};

use super::backing::{SIZE_MIN, new_pool, open_pool};

const NAME: &str = "numbers";

/// One operation on the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Get(u64),
    /// All keys of the universe in one call.
    GetMany,
    Insert(u64, u64),
    Update(u64, u64),
    Upsert(u64, u64),
    Remove(u64),
    /// Key, expected value, new value.
    Exchange(u64, u64, u64),
    /// Everything from the key on, up to a number of pairs.
    Scan(u64, usize),
    /// Everything up to the key, downwards, up to a number of pairs.
    ScanBack(u64, usize),
    /// Empties the tree.
    Clear,
}

/// How much space the tree starts with.
#[derive(Clone, Copy, Debug)]
pub struct Space {
    /// The largest size of the pool in bytes.
    pub pool_bytes: usize,
    /// Binary logarithm of the size of a chunk.
    pub chunk_shift: u32,
    /// Blocks that each session has at hand at the start.
    pub blocks_at_hand: usize,
    /// Whether operations may fail because the pool or the volatile memory is full.
    pub may_fill: bool,
}

impl Space {
    /// Whether an operation may answer with this error.
    pub fn may_fail(&self, error: &IndexError) -> bool {
        let no_memory = matches!(error, IndexError::Alloc(AllocError::OutOfMemory));
        self.may_fill && (no_memory || error.is_full())
    }
}

impl Default for Space {
    fn default() -> Self {
        let pool_bytes = SIZE_MIN as usize;
        Space { pool_bytes, chunk_shift: 12, blocks_at_hand: 0, may_fill: false }
    }
}

/// What happened in the runs of a program.
#[derive(Debug, Default)]
pub struct Seen {
    /// Operations that found no space.
    pub refused: Cell<u64>,
    /// Pools, of runs and crash images, that were larger than at first.
    pub grown: Cell<u64>,
}

/// A tree, the keys that are used in it, and what was done to it at first.
#[derive(Clone, Debug)]
pub struct Numbers<G> {
    /// All keys of plan and history, ascending.
    pub universe: Vec<u64>,
    pub history: Vec<Operation>,
    pub threads: usize,
    pub space: Space,
    pub seen: Rc<Seen>,
    pub geometry: PhantomData<G>,
}

impl<G> Numbers<G> {
    /// A tree with this history; `universe` in any order.
    pub fn new(mut universe: Vec<u64>, history: Vec<Operation>, threads: usize) -> Self {
        universe.sort_unstable();
        universe.dedup();
        Numbers {
            universe,
            history,
            threads,
            space: Space::default(),
            seen: Rc::default(),
            geometry: PhantomData,
        }
    }
}

/// The opened tree with a session per thread.
pub struct Opened<G: Geometry> {
    tree: Arc<U64Tree<G, Simulated>>,
    /// Borrowed by its own thread only.
    sessions: Vec<RefCell<Option<Session<Simulated>>>>,
    trees: Trees<G, Simulated>,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl<G: Geometry> Numbers<G> {
    fn replies(
        &self,
        tree: &U64Tree<G, Simulated>,
        session: &mut Session<Simulated>,
        operation: &Operation,
        replies: &mut Vec<Reply>,
    ) -> Result<(), IndexError> {
        let previous = match *operation {
            Operation::Get(key) => tree.get(session, key)?,
            Operation::Insert(key, value) => tree.insert(session, key, value)?,
            Operation::Update(key, value) => tree.update(session, key, value)?,
            Operation::Upsert(key, value) => tree.upsert(session, key, value)?,
            Operation::Remove(key) => tree.remove(session, key)?,
            Operation::Exchange(key, expected, new) => {
                match tree.compare_exchange(session, key, expected, new)? {
                    Exchange::Done => Some(expected),
                    Exchange::Absent => None,
                    Exchange::Mismatch(found) => {
                        assert_ne!(found, expected, "a mismatch that is none");
                        Some(found)
                    }
                }
            }
            Operation::GetMany => {
                let mut values = vec![None; self.universe.len()];
                tree.get_many(session, &self.universe, &mut values)?;
                replies.extend(values.into_iter().map(Reply::Previous));
                return Ok(());
            }
            Operation::Scan(from, limit) => {
                let mut pairs = vec![];
                tree.scan(session, from, limit, &mut pairs)?;
                self.note_scan(
                    &pairs,
                    limit,
                    self.universe.iter().filter(|&&k| k >= from),
                    replies,
                );
                return Ok(());
            }
            Operation::ScanBack(from, limit) => {
                let mut pairs = vec![];
                tree.scan_back(session, from, limit, &mut pairs)?;
                let keys = self.universe.iter().rev().filter(|&&key| key <= from);
                self.note_scan(&pairs, limit, keys, replies);
                return Ok(());
            }
            Operation::Clear => {
                tree.clear(session)?;
                replies.extend(self.universe.iter().map(|_| Reply::Unknown));
                return Ok(());
            }
        };
        replies.push(Reply::Previous(previous));
        Ok(())
    }

    /// What a scan that passes `keys` in this order says about each of them.
    fn note_scan<'a>(
        &self,
        pairs: &[(u64, u64)],
        limit: usize,
        keys: impl Iterator<Item = &'a u64>,
        replies: &mut Vec<Reply>,
    ) {
        let mut rest = pairs.iter().peekable();
        for key in keys {
            let found = rest.next_if(|(found, _)| found == key).map(|(_, value)| *value);
            let cut = found.is_none() && rest.peek().is_none() && pairs.len() >= limit;
            replies.push(if cut { Reply::Unknown } else { Reply::Previous(found) });
        }
        assert!(rest.peek().is_none(), "a scan gives {pairs:?}: out of order, or from nowhere");
    }
}

impl<G: Geometry> Program for Numbers<G> {
    type Operation = Operation;
    type Instance = Opened<G>;

    fn pool_bytes(&self) -> usize {
        self.space.pool_bytes
    }

    fn format(&self, memory: Memory) {
        let pool = new_pool(memory).expect("new memory becomes a pool");
        let trees: Trees<G, Simulated> =
            Trees::create_with_chunks(pool, self.space.chunk_shift).expect("room for a heap");
        let tree = trees.u64_tree(NAME).expect("room for a tree");
        let mut session = trees.heap().session().expect("a free session");
        for operation in &self.history {
            match self.replies(&tree, &mut session, operation, &mut vec![]) {
                Err(error) if self.space.may_fail(&error) => {}
                done => done.expect("the history of a tree finds room"),
            }
        }
    }

    fn open(&self, memory: Memory) -> Result<Opened<G>, String> {
        let trees: Trees<G, Simulated> =
            Trees::open(open_pool(memory).map_err(text)?, 1).map_err(text)?;
        let tree = trees.find_u64_tree(NAME).map_err(text)?.ok_or("the tree is gone")?;
        let session = |_| {
            let mut session = trees.heap().session()?;
            session.reserve_blocks(self.space.blocks_at_hand)?;
            Ok(RefCell::new(Some(session)))
        };
        let sessions: Result<Vec<_>, AllocError> = (0..self.threads).map(session).collect();
        Ok(Opened { tree, sessions: sessions.map_err(text)?, trees })
    }

    fn contents(&self, opened: &Opened<G>) -> Result<Vec<(u64, u64)>, String> {
        opened.sessions.iter().for_each(|session| drop(session.borrow_mut().take()));
        let mut pairs = vec![];
        {
            let mut session = opened.trees.heap().session().map_err(text)?;
            opened.tree.scan(&mut session, 0, usize::MAX, &mut pairs).map_err(text)?;
            let mut back = vec![];
            opened.tree.scan_back(&mut session, u64::MAX, usize::MAX, &mut back).map_err(text)?;
            back.reverse();
            if back != pairs {
                return Err(format!("scanned {pairs:?} upwards and {back:?} downwards"));
            }
            for key in &self.universe {
                let value = opened.tree.get(&mut session, *key).map_err(text)?;
                let scanned = pairs.iter().find(|(scanned, _)| scanned == key);
                if scanned.map(|(_, value)| *value) != value {
                    return Err(format!("key {key} is {value:?}, scanned {scanned:?}"));
                }
            }
        }
        if opened.trees.heap().pool().size() > SIZE_MIN {
            self.seen.grown.set(self.seen.grown.get() + 1);
        }
        let report = opened.trees.check().map_err(text)?;
        if report.is_clean() { Ok(pairs) } else { Err(report.problems.join("; ")) }
    }

    fn calls(&self, operation: &Operation, calls: &mut Vec<(u64, Call)>) {
        let (key, call) = match *operation {
            Operation::Get(key) => (key, Call::Get),
            Operation::Insert(key, value) => (key, Call::Insert(value)),
            Operation::Update(key, value) => (key, Call::Update(value)),
            Operation::Upsert(key, value) => (key, Call::Upsert(value)),
            Operation::Remove(key) => (key, Call::Remove),
            Operation::Exchange(key, expected, new) => {
                (key, Call::CompareExchange { expected, new })
            }
            Operation::GetMany => {
                return calls.extend(self.universe.iter().map(|key| (*key, Call::Get)));
            }
            Operation::Scan(from, _) => {
                let keys = self.universe.iter().filter(|&&key| key >= from);
                return calls.extend(keys.map(|key| (*key, Call::Get)));
            }
            Operation::ScanBack(from, _) => {
                let keys = self.universe.iter().rev().filter(|&&key| key <= from);
                return calls.extend(keys.map(|key| (*key, Call::Get)));
            }
            Operation::Clear => {
                return calls.extend(self.universe.iter().map(|key| (*key, Call::Remove)));
            }
        };
        calls.push((key, call));
    }

    fn run(
        &self,
        opened: &Opened<G>,
        thread: usize,
        operation: &Operation,
        replies: &mut Vec<Reply>,
    ) {
        let mut session = opened.sessions[thread].borrow_mut();
        let session = session.as_mut().expect("taken only when all threads have ended");
        match self.replies(&opened.tree, session, operation, replies) {
            Ok(()) => {}
            Err(error) if self.space.may_fail(&error) => {
                self.seen.refused.set(self.seen.refused.get() + 1);
                let mut calls = vec![];
                self.calls(operation, &mut calls);
                replies.clear();
                replies.resize(calls.len(), Reply::Refused);
            }
            Err(error) => panic!("{operation:?}: {error}"),
        }
    }
}
