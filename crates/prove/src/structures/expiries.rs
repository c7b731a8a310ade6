//! Expiries that are changed in place, as a program: threads that change the expiry of a key, replace its
//! value and keep the expiry, write or remove the key, and readers.
//!
//! To the judge the value of the key is its expiry: what is said of values holds for expiries. The bytes
//! of the value only have to be whole. The calendar stands still: in some programs before all times, so that
//! nothing ever expires, in others between them, so that a key written with an early time is gone at once
//! although its record is there.

mod new_life;
mod programs;

use std::cell::RefCell;
use std::ops::Bound;
use std::sync::Arc;

use everleaf_index::{
    BytesTree, Change, Decision, ExpiryChange, IndexError, Session, Tiny, Trees, Verify, WriteOrder,
};
use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{Memory, Program};
use everleaf_machine::{Machine, Simulated};

use crate::judge::leaks::remove_trees;
use crate::machine::backing::{new_pool, open_pool};
use crate::machine::space::Space;

pub use self::programs::{Programs, plan};

type M = Simulated;
type G = Tiny<3, 3>;

const NAME: &str = "words";
/// The key, in most programs; in others it is empty.
const KEY: &[u8] = b"the key";
/// The number of the key to the judge.
const KEY_NUMBER: u64 = 0;
/// What times come behind that fit an expiry word, and such that do not.
const FAR: u64 = 1 << 47;
const BEHIND_VALUES: u64 = 1 << 52;

/// Lines of which a value that begins behind a record's header and an expiry fills four.
const LINES: usize = 4 * 64 - 16;

/// The expiry of what never expires.
const NEVER: u64 = 0;

/// One operation of a thread; the numbers are expiries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes the key with a new value.
    Put(u64),
    /// Changes the expiry in place.
    Expire(u64),
    /// Replaces the value, and keeps the expiry that is found.
    Rewrite,
    /// The same, and writes the key if it is absent: then it never expires.
    Keep,
    /// Removes the key.
    Remove,
    /// Reads the key.
    Get,
    /// Removes what is left of the key if it has expired.
    Purge,
    /// Writes the key if it is absent; with a time that has not come.
    Insert(u64),
    /// Writes the key if it is there.
    Update(u64),
    /// Lowers a gate that is only kept raised.
    LowerIfIdle,
}

/// Threads around one key.
#[derive(Clone, Copy, Debug)]
pub struct Expiries {
    /// How many threads come.
    pub threads: usize,
    /// How many of the times have come.
    pub now: u64,
    /// What all times come behind.
    pub far: u64,
    /// Whether the tree has hashed leaves.
    pub hashes: bool,
    /// The key.
    pub key: &'static [u8],
}

impl Default for Expiries {
    fn default() -> Self {
        Expiries { threads: 2, now: 0, far: FAR, hashes: false, key: KEY }
    }
}

/// The opened tree.
pub struct Opened {
    trees: Trees<G, M>,
    tree: Arc<BytesTree<G, M>>,
    order: WriteOrder<M>,
    now: u64,
    far: u64,
    key: &'static [u8],
    /// Borrowed by its own thread only.
    sessions: Vec<RefCell<Option<Session<M>>>>,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Values of several lengths, so that records are of several classes, and few have chunks of their own. Some are empty,
/// and some records end one byte behind a line.
fn value(number: u64) -> Vec<u8> {
    let length = match number % 8 {
        7 => 5000,
        6 => 0,
        5 => LINES - KEY.len() + 1,
        odd if odd % 2 == 1 => 40,
        _ => 8,
    };
    vec![number as u8; length]
}

/// A value is all of one byte.
fn check(value: &[u8]) {
    assert!(value.iter().all(|byte| Some(byte) == value.first()), "half a value: {value:?}");
}

impl Opened {
    /// Writes the key as a store does.
    fn write<R>(
        &self,
        session: &mut Session<M>,
        write: impl FnOnce(&mut Session<M>) -> Result<R, IndexError>,
    ) -> Result<R, IndexError> {
        let mut pinned = session.pinned();
        if self.order.is_free() || M::mutant("expiry.writers_pass") {
            return write(&mut pinned);
        }
        drop(pinned);
        let _stripe = self.order.lock(self.key);
        write(session)
    }

    /// Reads the key as a store does.
    fn read(&self, session: &mut Session<M>) -> Result<Option<u64>, IndexError> {
        self.order.read(session, self.key, |session, single| {
            let seen = self.tree.get_verified(session, self.key, Verify::Sum, |record| {
                check(record.value);
                single.may_be_shown().then_some(record.expiry_ms)
            });
            seen.map(Option::flatten)
        })
    }

    /// Changes the expiry as a store does. Returns what it was.
    fn expire(&self, session: &mut Session<M>, expiry_ms: u64) -> Result<Option<u64>, IndexError> {
        if self.now > 0 && expiry_ms % 2 == 1 {
            self.demand_no_new_life(session, expiry_ms)?;
        }
        loop {
            let Some(found) = self.read(session)? else { return Ok(None) };
            if !self.tree.changes_expiries_in_place() {
                let write = |session: &mut _| self.write_again(session, found, expiry_ms);
                if self.write(session, write)? == ExpiryChange::Done {
                    return Ok(Some(found));
                }
                continue;
            }
            self.order.raise(self.trees.heap());
            let stripes = self.order.lock_many([self.order.stripe_of(self.key)]);
            let mut done =
                self.tree.change_expiry(session, self.key, found, expiry_ms, Verify::Key);
            if let Ok(ExpiryChange::NoPlace) = done {
                done = self.write_again(session, found, expiry_ms);
            }
            drop(stripes);
            self.order.lower_after_batch();
            match done? {
                ExpiryChange::Done => return Ok(Some(found)),
                ExpiryChange::Mismatch => M::mark("expiry.changed_meanwhile"),
                ExpiryChange::NoPlace => unreachable!("it was written again"),
            }
        }
    }

    /// Writes the record with this expiry again, with another. The caller writes in order.
    fn write_again(
        &self,
        session: &mut Session<M>,
        found: u64,
        expiry_ms: u64,
    ) -> Result<ExpiryChange, IndexError> {
        M::mark("expiry.written_again");
        let mut is_same = false;
        self.tree.decide_record(session, self.key, |record| {
            let same = record.filter(|record| record.expiry_ms == found);
            is_same = same.is_some();
            same.map_or(Decision::Keep, |record| {
                Decision::PutExpiring(record.value.to_vec(), expiry_ms)
            })
        })?;
        Ok(if is_same { ExpiryChange::Done } else { ExpiryChange::Mismatch })
    }

    /// Changes the key by what is found. Returns what its expiry was.
    fn decide(
        &self,
        session: &mut Session<M>,
        decision: &Decision,
    ) -> Result<Option<u64>, IndexError> {
        let mut before = None;
        self.write(session, |session| {
            self.tree.decide_record(session, self.key, |found| {
                before = found.map(|record| record.expiry_ms);
                match decision {
                    Decision::Put(_) if found.is_none() => Decision::Keep,
                    other => other.clone(),
                }
            })
        })?;
        Ok(before)
    }

    /// Writes the key, keeping the expiry that is found. Returns whether the key is new.
    fn keep(&self, session: &mut Session<M>) -> Result<bool, IndexError> {
        let mut is_new = false;
        self.write(session, |session| {
            self.tree.decide_record(session, self.key, |found| {
                is_new = found.is_none();
                Decision::Put(value(3))
            })
        })?;
        Ok(is_new)
    }

    /// Writes the key by whether it is there. Returns whether it did.
    fn change(
        &self,
        session: &mut Session<M>,
        change: Change<'_>,
        expiry: u64,
    ) -> Result<bool, IndexError> {
        let change = change.expiring(self.far + expiry);
        self.write(session, |session| Ok(self.tree.change(session, &change)?.changed))
    }

    fn reply(
        &self,
        session: &mut Session<M>,
        operation: Operation,
    ) -> Result<Option<Reply>, IndexError> {
        let done = match operation {
            Operation::Insert(expiry) => {
                self.change(session, Change::insert(self.key, &value(expiry)), expiry)?
            }
            Operation::Update(expiry) => {
                self.change(session, Change::update(self.key, &value(expiry)), expiry)?
            }
            Operation::Keep => self.keep(session)?,
            other => return Ok(self.previous(session, other)?.map(Reply::Previous)),
        };
        Ok(Some(Reply::Done(done)))
    }

    fn previous(
        &self,
        session: &mut Session<M>,
        operation: Operation,
    ) -> Result<Option<Option<u64>>, IndexError> {
        let previous = match operation {
            Operation::Put(expiry) => {
                self.decide(session, &Decision::PutExpiring(value(expiry), self.far + expiry))?
            }
            Operation::Expire(expiry) => self.expire(session, self.far + expiry)?,
            Operation::Rewrite => self.decide(session, &Decision::Put(value(3)))?,
            Operation::Remove => self.decide(session, &Decision::Remove)?,
            Operation::Get => self.read(session)?,
            Operation::Purge => {
                let purged = self.write(session, |session| self.tree.purge(session, self.key))?;
                assert!(!purged || self.now > 0, "it has not expired");
                return Ok(None);
            }
            Operation::Insert(_) | Operation::Update(_) | Operation::Keep => {
                unreachable!("done by `reply`")
            }
            Operation::LowerIfIdle => {
                self.order.lower_if_idle();
                return Ok(None);
            }
        };
        Ok(Some(previous))
    }
}

impl Program for Expiries {
    type Operation = Operation;
    type Instance = Opened;

    fn pool_bytes(&self) -> usize {
        Space::default().pool_bytes
    }

    fn format(&self, memory: Memory) {
        let pool = new_pool(memory).expect("new memory becomes a pool");
        let trees: Trees<G, M> =
            Trees::create_with_chunks(pool, Space::default().chunk_shift).expect("room for a heap");
        if self.hashes {
            trees.make_hashed_leaves().expect("nothing in the pool is of an older kind");
        }
        trees.bytes_tree(NAME).expect("room for a tree");
    }

    fn open(&self, memory: Memory) -> Result<Opened, String> {
        let trees: Trees<G, M> = Trees::open(open_pool(memory).map_err(text)?, 1).map_err(text)?;
        let tree = trees.find_bytes_tree(NAME).map_err(text)?.ok_or("the tree is gone")?;
        let session = |_| Ok(RefCell::new(Some(trees.heap().session()?)));
        let sessions: Result<Vec<_>, everleaf_index::AllocError> =
            (0..self.threads).map(session).collect();
        let sessions = sessions.map_err(text)?;
        Ok(Opened {
            trees,
            tree,
            order: WriteOrder::new(1),
            now: self.now,
            far: self.far,
            key: self.key,
            sessions,
        })
    }

    fn give_back(&self, opened: Opened) -> Result<bool, String> {
        let Opened { trees, sessions, .. } = opened;
        drop(sessions);
        remove_trees(&trees)?;
        Ok(true)
    }

    fn contents(&self, opened: &Opened) -> Result<Vec<(u64, u64)>, String> {
        opened.sessions.iter().for_each(|session| drop(session.borrow_mut().take()));
        let mut found = vec![];
        {
            let mut session = opened.trees.heap().session().map_err(text)?;
            let all = (Bound::Unbounded, Bound::Unbounded);
            let scan = opened.tree.scan_records(&mut session, all.0, all.1, false, |record| {
                check(record.value);
                if record.expiry_ms == NEVER || record.expiry_ms > self.wall_clock_ms() {
                    found.push((KEY_NUMBER, record.expiry_ms));
                }
                true
            });
            scan.map_err(text)?;
            let (mut scanned, mut gotten) = (0, 0);
            let visit = |_: &[u8], _: &[u8]| {
                scanned += 1;
                true
            };
            opened.tree.scan(&mut session, all.0, all.1, true, visit).map_err(text)?;
            let see = |_, value: Option<&[u8]>| gotten += usize::from(value.is_some());
            opened.tree.get_many(&mut session, [self.key], Verify::Sum, see).map_err(text)?;
            let single = opened.tree.get_with(&mut session, self.key, |_| ()).map_err(text)?;
            let all = [scanned, gotten, usize::from(single.is_some())];
            if all != [found.len(); 3] {
                return Err(format!("{found:?} is there by its time, {all:?} by reads"));
            }
        }
        let report = opened.trees.check().map_err(text)?;
        if !report.is_clean() {
            return Err(report.problems.join("; "));
        }
        Ok(found)
    }

    fn wall_clock_ms(&self) -> u64 {
        if self.now == 0 { 0 } else { self.far + self.now }
    }

    fn calls(&self, operation: &Operation, calls: &mut Vec<(u64, Call)>) {
        let call = match *operation {
            // A thread that writes what has expired by then removes the key.
            Operation::Put(expiry) | Operation::Expire(expiry) | Operation::Update(expiry)
                if expiry <= self.now =>
            {
                Call::Remove
            }
            Operation::Put(expiry) => Call::Upsert(self.far + expiry),
            Operation::Insert(expiry) => Call::Insert(self.far + expiry),
            Operation::Expire(expiry) | Operation::Update(expiry) => {
                Call::Update(self.far + expiry)
            }
            Operation::Keep => Call::Insert(NEVER),
            Operation::Rewrite | Operation::Get => Call::Get,
            Operation::Remove => Call::Remove,
            Operation::Purge | Operation::LowerIfIdle => return,
        };
        calls.push((KEY_NUMBER, call));
    }

    fn run(&self, opened: &Opened, thread: usize, operation: &Operation, replies: &mut Vec<Reply>) {
        let mut session = opened.sessions[thread].borrow_mut();
        let session = session.as_mut().expect("taken only when all threads have ended");
        match opened.reply(session, *operation) {
            Ok(reply) => replies.extend(reply),
            Err(error) => panic!("{operation:?}: {error}"),
        }
    }
}
