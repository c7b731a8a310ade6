//! A tree of 64-bit integers as a program of the simulated machine.

use std::cell::RefCell;
use std::fmt::Display;
use std::marker::PhantomData;
use std::rc::Rc;

use everleaf_alloc::{AllocError, Session};
use everleaf_index::{Exchange, IndexError};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{Domain, Memory, Program};

use crate::backing::{SIZE_MIN, new_pool, open_pool};
use crate::operation::{Operation, Seen, Space};
use crate::subject::{Pairs, Subject};

/// A tree, the keys that are used in it, and what was done to it at first.
#[derive(Clone, Debug)]
pub struct Numbers<S> {
    /// All keys of plan and history, ascending.
    pub universe: Vec<u64>,
    /// What was done to the tree before the threads come.
    pub history: Vec<Operation>,
    /// How many threads come.
    pub threads: usize,
    /// How much space there is.
    pub space: Space,
    /// Whether reads are judged also where a crash may take back what was read: as
    /// [`Subject::READS_COMMITTED`] says, unless the tree is to be held to more.
    pub judges_reads: bool,
    /// What happened so far.
    pub seen: Rc<Seen>,
    /// Which tree.
    pub subject: PhantomData<S>,
}

impl<S: Subject> Numbers<S> {
    /// A tree with this history; `universe` in any order. Keys and values that the tree does not
    /// take become the nearest ones that it does.
    pub fn new(universe: Vec<u64>, history: Vec<Operation>, threads: usize) -> Self {
        let mut universe: Vec<u64> = universe.into_iter().map(key_of::<S>).collect();
        universe.sort_unstable();
        universe.dedup();
        Numbers {
            universe,
            history: history.iter().map(fit::<S>).collect(),
            threads,
            space: Space::default(),
            judges_reads: S::READS_COMMITTED,
            seen: Rc::default(),
            subject: PhantomData,
        }
    }
}

fn key_of<S: Subject>(key: u64) -> u64 {
    key.clamp(S::KEY_MIN, S::KEY_MAX)
}

/// The operation with keys and values that the tree takes.
pub fn fit<S: Subject>(operation: &Operation) -> Operation {
    operation.map(key_of::<S>, |value| value.clamp(S::VALUE_MIN, S::VALUE_MAX))
}

/// The opened tree with a session per thread.
pub struct Opened<S: Subject> {
    /// Whether a crash may take back what could be seen.
    forgets: bool,
    /// Borrowed by its own thread only.
    sessions: Vec<RefCell<Option<Session<Simulated>>>>,
    tree: S::Opened,
}

fn text(error: impl Display) -> String {
    error.to_string()
}

impl<S: Subject> Numbers<S> {
    fn replies(
        &self,
        tree: &S::Opened,
        session: &mut Session<Simulated>,
        operation: &Operation,
        replies: &mut Vec<Reply>,
    ) -> Result<(), IndexError> {
        let previous = match *operation {
            Operation::Get(key) => S::tree(tree).get(session, key)?,
            Operation::Insert(key, value) => S::tree(tree).insert(session, key, value)?,
            Operation::Update(key, value) => S::tree(tree).update(session, key, value)?,
            Operation::Upsert(key, value) => S::tree(tree).upsert(session, key, value)?,
            Operation::Remove(key) => S::tree(tree).remove(session, key)?,
            Operation::Exchange(key, expected, new) => {
                match S::tree(tree).compare_exchange(session, key, expected, new)? {
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
                S::tree(tree).get_many(session, &self.universe, &mut values)?;
                replies.extend(values.into_iter().map(Reply::Previous));
                return Ok(());
            }
            Operation::Scan(from, limit) => {
                let mut pairs = vec![];
                S::tree(tree).scan(session, from, limit, &mut pairs)?;
                let keys = self.universe.iter().filter(|&&key| key >= from);
                note_scan(&pairs, limit, keys.copied(), replies);
                return Ok(());
            }
            Operation::ScanBack(from, limit) => {
                let mut pairs = vec![];
                S::scan_back(tree, session, from, limit, &mut pairs)?;
                let keys = self.universe.iter().rev().filter(|&&key| key <= from);
                note_scan(&pairs, limit, keys.copied(), replies);
                return Ok(());
            }
            Operation::Clear => {
                S::clear(tree, session, &self.universe)?;
                replies.extend(self.universe.iter().map(|_| Reply::Unknown));
                return Ok(());
            }
        };
        replies.push(Reply::Previous(previous));
        Ok(())
    }

    /// All pairs, found in every way there is.
    fn all(&self, tree: &S::Opened, session: &mut Session<Simulated>) -> Result<Pairs, String> {
        let (mut pairs, mut back) = (vec![], vec![]);
        S::tree(tree).scan(session, S::KEY_MIN, usize::MAX, &mut pairs).map_err(text)?;
        S::scan_back(tree, session, S::KEY_MAX, usize::MAX, &mut back).map_err(text)?;
        back.reverse();
        if back != pairs {
            return Err(format!("scanned {pairs:?} upwards and {back:?} downwards"));
        }
        for key in &self.universe {
            let value = S::tree(tree).get(session, *key).map_err(text)?;
            let scanned = pairs.iter().find(|(scanned, _)| scanned == key);
            if scanned.map(|(_, value)| *value) != value {
                return Err(format!("key {key} is {value:?}, scanned {scanned:?}"));
            }
        }
        Ok(pairs)
    }
}

/// What a scan that passes `keys` in this order says about each of them.
pub(crate) fn note_scan(
    pairs: &[(u64, u64)],
    limit: usize,
    keys: impl Iterator<Item = u64>,
    replies: &mut Vec<Reply>,
) {
    let mut rest = pairs.iter().peekable();
    for key in keys {
        let found = rest.next_if(|(found, _)| *found == key).map(|(_, value)| *value);
        let cut = found.is_none() && rest.peek().is_none() && pairs.len() >= limit;
        replies.push(if cut { Reply::Unknown } else { Reply::Previous(found) });
    }
    assert!(rest.peek().is_none(), "a scan gives {pairs:?}: out of order, or from nowhere");
}

impl<S: Subject> Program for Numbers<S> {
    type Operation = Operation;
    type Instance = Opened<S>;

    fn pool_bytes(&self) -> usize {
        self.space.pool_bytes
    }

    fn format(&self, memory: Memory) {
        let pool = new_pool(memory).expect("new memory becomes a pool");
        let tree = S::create(pool, self.space.chunk_shift).expect("room for a tree");
        let mut session = S::heap(&tree).session().expect("a free session");
        for operation in &self.history {
            match self.replies(&tree, &mut session, operation, &mut vec![]) {
                Err(error) if self.space.may_fail(&error) => {}
                done => done.expect("the history of a tree finds room"),
            }
        }
    }

    fn open(&self, memory: Memory) -> Result<Opened<S>, String> {
        let forgets = memory.domain() == Domain::Line;
        let tree = S::open(open_pool(memory).map_err(text)?)?;
        let session = |_| {
            let mut session = S::heap(&tree).session()?;
            session.reserve_blocks(self.space.blocks_at_hand)?;
            Ok(RefCell::new(Some(session)))
        };
        let sessions: Result<Vec<_>, AllocError> = (0..self.threads).map(session).collect();
        Ok(Opened { forgets, sessions: sessions.map_err(text)?, tree })
    }

    fn contents(&self, opened: &Opened<S>) -> Result<Pairs, String> {
        opened.sessions.iter().for_each(|session| drop(session.borrow_mut().take()));
        let heap = S::heap(&opened.tree);
        let pairs = {
            let mut session = heap.session().map_err(text)?;
            self.all(&opened.tree, &mut session)?
        };
        if heap.pool().size() > SIZE_MIN {
            self.seen.grown.set(self.seen.grown.get() + 1);
        }
        let problems = S::check(&opened.tree).map_err(text)?;
        if problems.is_empty() { Ok(pairs) } else { Err(problems.join("; ")) }
    }

    fn calls(&self, operation: &Operation, calls: &mut Vec<(u64, Call)>) {
        operation.calls(&self.universe, calls);
        if S::WRITES_BLINDLY {
            for (_, call) in calls {
                if let Call::Insert(value) | Call::Update(value) = *call {
                    *call = Call::Upsert(value);
                }
            }
        }
    }

    fn run(
        &self,
        opened: &Opened<S>,
        thread: usize,
        operation: &Operation,
        replies: &mut Vec<Reply>,
    ) {
        let mut session = opened.sessions[thread].borrow_mut();
        let session = session.as_mut().expect("taken only when all threads have ended");
        match self.replies(&opened.tree, session, operation, replies) {
            Ok(()) => {
                // What such a reader saw may be taken back by a crash: nothing can be said of it.
                let uncommitted = !self.judges_reads && opened.forgets && operation.is_read();
                let compares = matches!(operation, Operation::Exchange(..));
                let blind = S::WRITES_BLINDLY && !operation.is_read() && !compares;
                if uncommitted || blind {
                    replies.fill(Reply::Unknown);
                }
            }
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
