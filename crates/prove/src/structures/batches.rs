//! Batches as a program: threads that change several keys as one, threads that change one of these
//! keys alone, and readers.
//!
//! Two keys are *twins*: only batches change them, and every batch sets both to one more than it
//! found. So a reader that reads one, and then the other without waiting, must not find the second older, and after a
//! crash both must be alike. A third key is written by batches and alone, and judged like every key
//! of a tree: so a batch that is done again too late is found. With *fillers* every batch adds two
//! keys of its own and removes those of another, so that leaves are replaced between the keys of a
//! batch; of two fillers either both are there or none.
//!
//! Each thread has two keys more of its own, in two trees, that it sets and removes by batches, with an
//! expiry: so several batches are under way at once, of more than one tree. To the judge their value is the expiry,
//! because there are batches that change it alone, of both keys, or of one while the other is put; of some times that
//! needs a record of another form. In a *crowded* pool there is
//! hardly any space, and a batch that finds none must have changed nothing. Neither must one to which
//! memory is refused.
//!
//! And each thread has a *lone* key, which is changed by batches of one change. In a *full* pool, which has only some
//! records as small as theirs, none of them is refused. Where keys *move*, each thread has a key in one of the two
//! trees, which a batch puts in the one and removes from the other, and the leaf of the first tree is full at the
//! beginning, with one of the second thread's own keys in it.
//!
//! Where keys *swap*, each thread has two of which one is there at any time: it puts the one, by itself, and then
//! removes the other. So a thread that reads both *at once*, and one of them twice, finds one at least, and of that one
//! the same, as one that reads the twins at once finds them alike, whether or not writers keep an order.

mod beginnings;
mod opened;
mod programs;
mod vanishing;

use std::cell::RefCell;
use std::sync::Arc;

use everleaf_index::{
    AllocError, BytesTree, Domain, IndexError, Journal, Record, Session, Tiny, Trees, Verify,
    WriteOrder,
};
use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{Memory, Program};
use everleaf_machine::{Machine, Simulated};

use crate::judge::leaks::remove_trees;
use crate::machine::backing::{new_pool, open_pool};
use crate::machine::space::Space;

use self::beginnings::{begin_moves, begin_swaps, crowd, fill};
pub use self::programs::{Programs, plan};

type M = Simulated;
type G = Tiny<3, 3>;

const NAME: &str = "words";
/// The tree that has the second key of each thread's own, and what fills a crowded pool.
const OTHER: &str = "other words";
const TWINS: [&[u8]; 2] = [b"twin one", b"twin two"];
const SINGLE: &[u8] = b"single";
/// Nobody puts it.
const ABSENT: &[u8] = b"absent";
/// The highest value of a batch: as many operations as a plan has.
const VALUE_MAX: u64 = 9;
/// The number of the single key to the judge.
const SINGLE_NUMBER: u64 = 2;
/// The number of the first thread's own keys to the judge; those of the others follow.
const OWN_NUMBER: u64 = 10;
/// The number of the first thread's lone key to the judge.
const LONE_NUMBER: u64 = 20;
/// The value of the lone keys of a full pool, and of keys that move.
const LONE_FIRST: u64 = 1;
/// Records as small as those of lone keys that a full pool has room for.
const SPARE: u64 = 8;
/// Longer ones that it has room for.
const SPARE_LONG: u64 = 3;
/// What expires then never expires here.
const FAR: u64 = 1 << 47;
/// A time for which a record has no expiry word: one with another has no place for it, nor it for another.
const NO_WORD: u64 = 1 << 52;
/// What fills a crowded pool.
const CROWD: [u8; 900] = [7; 900];

/// One operation of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A batch: both twins one up, the single key to this value.
    Batch(u64),
    /// Sets the single key.
    Put(u64),
    /// Reads the single key.
    Get,
    /// Reads one twin, then the other as a scan does.
    Twins,
    /// Reads both twins at once.
    TwinsAtOnce,
    /// The same among more keys: the single one between them, and one that is not there.
    TwinsAmong,
    /// Puts that of a thread's swapping keys that is absent, and then removes the other.
    Swap(usize),
    /// Reads both of a thread's swapping keys at once.
    ReadSwapping(usize),
    /// A batch: sets both keys of a thread's own, or with 0 removes them.
    Own(usize, u64),
    /// A batch: changes the expiry of both keys of a thread's own, if they are there; with an odd number, the second is
    /// put.
    Expire(usize, u64),
    /// A batch: adds a key of the thread's that nobody reads, and changes the expiry of both of its own, if they are
    /// there.
    Renew(usize, u64),
    /// Reads the first of a thread's own keys.
    GetOwn(usize),
    /// A batch of one change: sets a thread's lone key, or with 0 removes it.
    Lone(usize, u64),
    /// A batch of one change: changes the expiry of a thread's lone key, if it is there.
    LoneExpire(usize, u64),
    /// Reads a thread's lone key.
    GetLone(usize),
    /// Sets a thread's lone key by itself, or with 0 removes it.
    Alone(usize, u64),
    /// Reads a thread's lone key, the single key and one that is not there at once.
    GetTogether(usize),
    /// A batch: puts a thread's moving key where it is not, and removes it where it is.
    Move(usize),
    /// Lowers a gate that is only kept raised.
    LowerIfIdle,
}

/// What a batch of a thread's own keys does.
#[derive(Clone, Copy)]
enum OwnKind {
    Put,
    Expire,
    /// The same beside a key that is added.
    Renew,
    Remove,
}

/// How much space there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// As much as is asked for.
    Enough,
    /// Hardly any.
    Little,
    /// None but for a few small records.
    None,
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
    /// Whether keys move.
    pub moves: bool,
    /// Whether keys swap.
    pub swaps: bool,
    /// How much space there is.
    pub room: Room,
    /// Whether memory may be refused.
    pub refuses: bool,
    /// Whether all trees have hashed leaves.
    pub hashes: bool,
}

/// The opened tree with its journal.
pub struct Opened {
    trees: Trees<G, M>,
    tree: Arc<BytesTree<G, M>>,
    other: Arc<BytesTree<G, M>>,
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

/// A thread's own keys, in the one tree and the other.
fn own_keys(thread: usize) -> [Vec<u8>; 2] {
    ["own", "its own"].map(|name| format!("{name} {thread}").into_bytes())
}

fn lone_key(thread: usize) -> Vec<u8> {
    format!("lone {thread}").into_bytes()
}

/// The keys of a thread of which one is there.
fn swapping_keys(thread: usize) -> [Vec<u8>; 2] {
    ["left", "right"].map(|name| format!("{name} {thread}").into_bytes())
}

fn moving_key(thread: usize) -> Vec<u8> {
    format!("moves {thread}").into_bytes()
}

/// When a thread's own keys expire for this value of theirs.
fn time_of(value: u64) -> u64 {
    if value % 4 >= 2 { NO_WORD + value } else { FAR + value }
}

/// The value of which that is the expiry.
fn value_of(expiry_ms: u64) -> u64 {
    expiry_ms & (FAR - 1)
}

/// A key that a batch adds beside a change of expiries.
fn added_key(thread: usize) -> Vec<u8> {
    format!("new {thread}").into_bytes()
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("a value has 8 bytes"))
}

impl Program for Batches {
    type Operation = Operation;
    type Instance = Opened;

    fn pool_bytes(&self) -> usize {
        let bytes = Space::default().pool_bytes;
        if self.room == Room::Enough { 2 * bytes } else { bytes }
    }

    fn format(&self, memory: Memory) {
        let pool = new_pool(memory).expect("new memory becomes a pool");
        let trees: Trees<G, M> =
            Trees::create_with_chunks(pool, Space::default().chunk_shift).expect("room for a heap");
        if self.hashes {
            trees.make_hashed_leaves().expect("the pool can be written");
        }
        let mut session = trees.heap().session().expect("a free session");
        let tree = trees.bytes_tree(NAME).expect("room for a tree");
        let other = trees.bytes_tree(OTHER).expect("room for a tree");
        Journal::open(&trees, &mut session).expect("room for a journal");
        if self.moves {
            begin_moves(&tree, &other, &mut session, self.threads);
        }
        if self.swaps {
            begin_swaps(&tree, &mut session, self.threads);
        }
        match self.room {
            Room::Enough => {}
            Room::Little => crowd(&other, &mut session),
            Room::None => fill(&tree, &other, &mut session, self.threads),
        }
    }

    fn open(&self, memory: Memory) -> Result<Opened, String> {
        let trees: Trees<G, M> = Trees::open(open_pool(memory).map_err(text)?, 1).map_err(text)?;
        let tree = trees.find_bytes_tree(NAME).map_err(text)?.ok_or("the tree is gone")?;
        let other = trees.find_bytes_tree(OTHER).map_err(text)?.ok_or("a tree is gone")?;
        let journal = Journal::find(&trees).map_err(text)?.ok_or("the journal is gone")?;
        let mut session = trees.heap().session().map_err(text)?;
        if !M::mutant("journal.no_recovery") {
            journal.recover(&trees, &mut session, &mut |_| ()).map_err(text)?;
        }
        drop(session);
        let session = |_| Ok(RefCell::new(Some(trees.heap().session()?)));
        let sessions: Result<Vec<_>, everleaf_index::AllocError> =
            (0..self.threads).map(session).collect();
        let order = WriteOrder::new(self.stripes);
        let (sessions, fills) = (sessions.map_err(text)?, self.fills);
        Ok(Opened { trees, tree, other, journal, order, fills, sessions })
    }

    fn give_back(&self, opened: Opened) -> Result<bool, String> {
        let Opened { trees, sessions, .. } = opened;
        drop(sessions);
        remove_trees(&trees)?;
        Ok(true)
    }

    fn contents(&self, opened: &Opened) -> Result<Vec<(u64, u64)>, String> {
        opened.sessions.iter().for_each(|session| drop(session.borrow_mut().take()));
        let mut pairs = vec![];
        {
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
            pairs.extend(get(SINGLE)?.map(|value| (SINGLE_NUMBER, value)));
            for thread in 0..self.threads {
                let value = opened.own(&mut session, thread)?;
                pairs.extend(value.map(|value| (OWN_NUMBER + thread as u64, value)));
            }
            for thread in (0..self.threads).filter(|_| self.moves) {
                let key = moving_key(thread);
                let mut is_in = |tree: &BytesTree<G, M>| {
                    tree.get_with(&mut session, &key, |_| ()).map_err(text)
                };
                let (here, there) = (is_in(&opened.tree)?, is_in(&opened.other)?);
                if here == there {
                    return Err(format!("half a move of thread {thread}: {here:?} and {there:?}"));
                }
            }
            for thread in (0..self.threads).filter(|_| self.swaps) {
                let mut is_there =
                    |key: &[u8]| opened.tree.get_with(&mut session, key, |_| ()).map_err(text);
                let [left, right] = swapping_keys(thread);
                if is_there(&left)?.is_none() && is_there(&right)?.is_none() {
                    return Err(format!("no swapping key of thread {thread} is left"));
                }
            }
            for thread in 0..self.threads {
                let see = |record: Record<'_>| value_of(record.expiry_ms);
                let found =
                    opened.tree.get_verified(&mut session, &lone_key(thread), Verify::Sum, see);
                let value = found.map_err(text)?;
                pairs.extend(value.map(|value| (LONE_NUMBER + thread as u64, value)));
            }
        }
        let report = opened.trees.check().map_err(text)?;
        if !report.is_clean() {
            return Err(report.problems.join("; "));
        }
        Ok(pairs)
    }

    fn calls(&self, operation: &Operation, calls: &mut Vec<(u64, Call)>) {
        if let Operation::GetTogether(_) = operation {
            calls.push((SINGLE_NUMBER, Call::Get));
        }
        calls.extend(match *operation {
            Operation::Batch(value) | Operation::Put(value) => {
                Some((SINGLE_NUMBER, Call::Upsert(value)))
            }
            Operation::Get => Some((SINGLE_NUMBER, Call::Get)),
            Operation::Own(thread, 0) => Some((OWN_NUMBER + thread as u64, Call::Remove)),
            Operation::Own(thread, value) => {
                Some((OWN_NUMBER + thread as u64, Call::Upsert(value)))
            }
            Operation::Expire(thread, value) | Operation::Renew(thread, value) => {
                Some((OWN_NUMBER + thread as u64, Call::Update(value)))
            }
            Operation::GetOwn(thread) => Some((OWN_NUMBER + thread as u64, Call::Get)),
            Operation::Lone(thread, 0) | Operation::Alone(thread, 0) => {
                Some((LONE_NUMBER + thread as u64, Call::Remove))
            }
            Operation::Lone(thread, value) | Operation::Alone(thread, value) => {
                Some((LONE_NUMBER + thread as u64, Call::Upsert(value)))
            }
            Operation::LoneExpire(thread, value) => {
                Some((LONE_NUMBER + thread as u64, Call::Update(value)))
            }
            Operation::GetLone(thread) | Operation::GetTogether(thread) => {
                Some((LONE_NUMBER + thread as u64, Call::Get))
            }
            Operation::Twins
            | Operation::TwinsAtOnce
            | Operation::TwinsAmong
            | Operation::Swap(_)
            | Operation::ReadSwapping(_)
            | Operation::Move(_)
            | Operation::LowerIfIdle => None,
        });
    }

    fn run(&self, opened: &Opened, thread: usize, operation: &Operation, replies: &mut Vec<Reply>) {
        let mut session = opened.sessions[thread].borrow_mut();
        let session = session.as_mut().expect("taken only when all threads have ended");
        match opened.replies(session, *operation, replies) {
            Err(error) if self.may_fail(opened, operation, &error) => {
                // What only looks answers nothing.
                let mut calls = vec![];
                self.calls(operation, &mut calls);
                replies.clear();
                replies.resize(calls.len(), Reply::Refused);
            }
            done => done.unwrap_or_else(|error| panic!("{operation:?}: {error}")),
        }
    }
}

impl Batches {
    fn may_fail(&self, opened: &Opened, operation: &Operation, error: &IndexError) -> bool {
        let fits = match operation {
            Operation::Lone(..) => true,
            // It is in the journal meanwhile.
            Operation::LoneExpire(..) => opened.trees.heap().medium().domain() != Domain::Adr,
            _ => false,
        };
        let may_be_full = match self.room {
            Room::Enough => false,
            Room::Little => true,
            Room::None => !fits,
        };
        let no_memory = matches!(error, IndexError::Alloc(AllocError::OutOfMemory));
        may_be_full && error.is_full() || self.refuses && (no_memory || error.is_full())
    }
}
