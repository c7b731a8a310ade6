//! The tree of byte strings as a program of the simulated machine. To the judge a key is its place in
//! the universe and a value is a number, from which the bytes of the value are made.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Bound;
use std::rc::Rc;
use std::sync::Arc;

use everleaf_index::{BytesTree, Change, Geometry, IndexError, Session, Trees, Verify};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{Memory, Program};

use crate::backing::{SIZE_MIN, new_pool, open_pool};
use crate::numbers::note_scan;
use crate::operation::{Operation, Seen, Space};

const NAME: &str = "words";

/// A tree of byte strings, the keys that are used in it, and what was done to it at first.
#[derive(Clone, Debug)]
pub struct Words<G> {
    /// All keys, ascending; the operations name them by number.
    pub universe: Vec<Vec<u8>>,
    /// What was done to the tree before the threads come.
    pub history: Vec<Operation>,
    /// How many threads come.
    pub threads: usize,
    /// How much space there is.
    pub space: Space,
    /// What happened so far.
    pub seen: Rc<Seen>,
    /// Which nodes.
    pub geometry: PhantomData<G>,
}

impl<G> Words<G> {
    /// A tree with this history; `universe` in any order.
    pub fn new(universe: &[&[u8]], history: Vec<Operation>, threads: usize) -> Self {
        let mut universe: Vec<Vec<u8>> = universe.iter().map(|key| key.to_vec()).collect();
        universe.sort();
        universe.dedup();
        Words {
            universe,
            history,
            threads,
            space: Space::default(),
            seen: Rc::default(),
            geometry: PhantomData,
        }
    }

    fn key(&self, number: u64) -> &[u8] {
        &self.universe[number as usize]
    }

    fn number(&self, key: &[u8]) -> u64 {
        let found = self.universe.binary_search_by(|known| known.as_slice().cmp(key));
        found.unwrap_or_else(|_| panic!("nobody ever wrote the key {key:?}")) as u64
    }
}

/// The bytes of a value: of different lengths, so that records move between size classes.
fn encode(value: u64) -> Vec<u8> {
    let mut bytes = value.to_le_bytes().to_vec();
    bytes.extend((0..value % 3 * 11).map(|index| (value + index) as u8));
    bytes
}

/// The value of bytes that [`encode`] made.
fn decode(bytes: &[u8]) -> u64 {
    let value = u64::from_le_bytes(bytes[..8].try_into().expect("a value has 8 bytes"));
    assert_eq!(bytes, encode(value), "a value is torn");
    value
}

/// The opened tree with a session per thread.
pub struct Opened<G: Geometry> {
    tree: Arc<BytesTree<G, Simulated>>,
    /// Borrowed by its own thread only.
    sessions: Vec<RefCell<Option<Session<Simulated>>>>,
    trees: Trees<G, Simulated>,
}

impl<G: Geometry> Opened<G> {
    /// Closes the pool cleanly. Nobody writes any more.
    ///
    /// # Errors
    /// The mark cannot be written.
    pub fn close(&self) -> Result<(), IndexError> {
        self.trees.close()
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

type Pairs = Vec<(u64, u64)>;

impl<G: Geometry> Words<G> {
    fn replies(
        &self,
        tree: &BytesTree<G, Simulated>,
        session: &mut Session<Simulated>,
        operation: &Operation,
        replies: &mut Vec<Reply>,
    ) -> Result<(), IndexError> {
        let mut change = |key, change: Change<'_>| {
            tree.change(session, self.key(key), change, |_, old| old.map(decode))
        };
        let previous = match *operation {
            Operation::Insert(key, value) => change(key, Change::Insert(&encode(value)))?,
            Operation::Update(key, value) => change(key, Change::Update(&encode(value)))?,
            Operation::Upsert(key, value) => change(key, Change::Upsert(&encode(value)))?,
            Operation::Remove(key) => change(key, Change::Remove)?,
            Operation::Get(key) => tree.get_with(session, self.key(key), decode)?,
            Operation::Exchange(key, expected, new) => {
                let (old, new) = (encode(expected), encode(new));
                tree.exchange(session, self.key(key), Some(&old), Some(&new), |done, found| {
                    let found = found.map(decode);
                    assert_eq!(done, found == Some(expected), "done or not?");
                    found
                })?
            }
            Operation::GetMany => {
                let keys = self.universe.iter().map(Vec::as_slice);
                tree.get_many(session, keys, Verify::Sum, |_, value| {
                    replies.push(Reply::Previous(value.map(decode)));
                })?;
                return Ok(());
            }
            Operation::Scan(from, limit) => {
                let pairs = self.scan(tree, session, from, limit, false)?;
                note_scan(&pairs, limit, from..self.universe.len() as u64, replies);
                return Ok(());
            }
            Operation::ScanBack(from, limit) => {
                let last = from.min(self.universe.len() as u64 - 1);
                let pairs = self.scan(tree, session, last, limit, true)?;
                note_scan(&pairs, limit, (0..=last).rev(), replies);
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

    /// Up to `limit` pairs from key number `from` on, or downwards.
    fn scan(
        &self,
        tree: &BytesTree<G, Simulated>,
        session: &mut Session<Simulated>,
        from: u64,
        limit: usize,
        reverse: bool,
    ) -> Result<Pairs, IndexError> {
        let mut pairs = vec![];
        let bound = Bound::Included(self.key(from));
        let (low, high) =
            if reverse { (Bound::Unbounded, bound) } else { (bound, Bound::Unbounded) };
        tree.scan(session, low, high, reverse, |key, value| {
            pairs.push((self.number(key), decode(value)));
            pairs.len() < limit
        })?;
        Ok(pairs)
    }

    fn all(
        &self,
        tree: &BytesTree<G, Simulated>,
        session: &mut Session<Simulated>,
    ) -> Result<Pairs, String> {
        let last = self.universe.len() as u64 - 1;
        let pairs = self.scan(tree, session, 0, usize::MAX, false).map_err(text)?;
        let mut back = self.scan(tree, session, last, usize::MAX, true).map_err(text)?;
        back.reverse();
        if back != pairs {
            return Err(format!("scanned {pairs:?} upwards and {back:?} downwards"));
        }
        for (number, key) in self.universe.iter().enumerate() {
            let value = tree.get_with(session, key, decode).map_err(text)?;
            let scanned = pairs.iter().find(|(scanned, _)| *scanned == number as u64);
            if scanned.map(|(_, value)| *value) != value {
                return Err(format!("key {number} is {value:?}, scanned {scanned:?}"));
            }
        }
        Ok(pairs)
    }
}

impl<G: Geometry> Program for Words<G> {
    type Operation = Operation;
    type Instance = Opened<G>;

    fn pool_bytes(&self) -> usize {
        self.space.pool_bytes
    }

    fn format(&self, memory: Memory) {
        let pool = new_pool(memory).expect("new memory becomes a pool");
        let trees: Trees<G, Simulated> =
            Trees::create_with_chunks(pool, self.space.chunk_shift).expect("room for a heap");
        let tree = trees.bytes_tree(NAME).expect("room for a tree");
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
        let tree = trees.find_bytes_tree(NAME).map_err(text)?.ok_or("the tree is gone")?;
        let session = |_| {
            let mut session = trees.heap().session()?;
            session.reserve_blocks(self.space.blocks_at_hand)?;
            Ok(RefCell::new(Some(session)))
        };
        let sessions: Result<Vec<_>, everleaf_index::AllocError> =
            (0..self.threads).map(session).collect();
        Ok(Opened { tree, sessions: sessions.map_err(text)?, trees })
    }

    fn contents(&self, opened: &Opened<G>) -> Result<Pairs, String> {
        opened.sessions.iter().for_each(|session| drop(session.borrow_mut().take()));
        let pairs = {
            let mut session = opened.trees.heap().session().map_err(text)?;
            self.all(&opened.tree, &mut session)?
        };
        if opened.trees.heap().pool().size() > SIZE_MIN {
            self.seen.grown.set(self.seen.grown.get() + 1);
        }
        let report = opened.trees.check().map_err(text)?;
        if report.is_clean() { Ok(pairs) } else { Err(report.problems.join("; ")) }
    }

    fn calls(&self, operation: &Operation, calls: &mut Vec<(u64, Call)>) {
        let numbers: Vec<u64> = (0..self.universe.len() as u64).collect();
        operation.calls(&numbers, calls);
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
