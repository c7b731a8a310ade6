//! The trees of a pool as a program: threads make trees by name, load, empty and remove them, while
//! others read and write what is in them, and the pool is closed with a seal.
//!
//! To the judge a key is the tree's number and the key within it. A call on a tree that was removed
//! meanwhile finds nothing: there was a moment at which it was gone. A tree that is not there is empty.
//!
//! A thread that finds the pool full reclaims and tries again, as the store does. (Without that a program ended
//! before its threads came, with trees of either design: a removed tree of integers leaves eight blocks or more to
//! the session that freed it, and a thread that makes a tree does so in a session of its own, which cannot have
//! them. A history of three removals held 26 blocks so, of the 39 in a pool of 128 KiB, of which the trees had
//! three.)

mod damage;
mod loads;
mod names;
pub(crate) mod programs;
mod readers;

use std::cell::RefCell;
use std::ops::Bound;

use everleaf_index::{
    AllocError, BytesTree, Change, IndexError, Record, Session, Tiny, Trees, Verify,
};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{Memory, Plan, Program, Random};

pub(crate) use self::damage::{bytes_of, copy_of};
use self::loads::{load, loaded};
use self::names::{KEYS, MAPS, STRIDE, is_integers, key_of, name_of, word_of};
use crate::judge::leaks::remove_trees;
use crate::machine::backing::{new_pool, open_pool};
use crate::machine::space::Space;
use crate::tree::nbtree::SHARES;

type M = Simulated;
pub(crate) type G = Tiny<3, 3>;

/// One operation on the trees, of a tree's number, a key, a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads a key.
    Get(u64, u64),
    /// Sets a key; makes the tree if it is not there.
    Put(u64, u64, u64),
    /// Takes a key out.
    Remove(u64, u64),
    /// Makes a tree of all keys, each with a value from this one on, if there is none of the name (`loads.rs`).
    Load(u64, u64),
    /// Counts the keys of a tree that has all of them, and in which nobody writes.
    Count(u64),
    /// Empties a tree.
    Clear(u64),
    /// Removes a tree.
    Drop(u64),
    /// Frees what removed trees have left, and merges what removals have.
    Reclaim,
    /// Seals and closes the pool; the last operation of all.
    Close,
}

/// Threads around a few trees.
#[derive(Clone, Debug)]
pub struct Maps {
    /// Whether all trees have hashed leaves.
    pub hashes: bool,
    /// Whether they are opened at once and restored later.
    pub at_once: bool,
    /// What was done to the pool before it was closed and opened again.
    pub history: Vec<Operation>,
    /// Whether it was closed with a seal.
    pub is_sealed: bool,
    /// How many threads come.
    pub threads: usize,
    /// Whether operations may find no memory.
    pub may_refuse: bool,
}

/// The opened trees.
pub struct Opened {
    pub(crate) trees: Trees<G, M>,
    /// Whether the pool was closed with a seal.
    pub(crate) was_sealed: bool,
    /// Borrowed by its own thread only.
    pub(crate) sessions: Vec<RefCell<Option<Session<M>>>>,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("a value has 8 bytes"))
}

fn keys_of(map: u64) -> impl Iterator<Item = u64> {
    (0..KEYS).map(move |key| map * STRIDE + key)
}

/// A call that found its tree removed: there was nothing.
fn gone(result: Result<Option<u64>, IndexError>) -> Result<Option<u64>, IndexError> {
    match result {
        Err(IndexError::Removed) => Ok(None),
        result => result,
    }
}

/// Reads a key.
fn get(
    trees: &Trees<G, M>,
    session: &mut Session<M>,
    map: u64,
    key: u64,
) -> Result<Option<u64>, IndexError> {
    let name = name_of(map);
    if is_integers(map) {
        let Some(tree) = trees.find_u64_tree(&name)? else { return Ok(None) };
        return gone(tree.get(session, key));
    }
    let Some(tree) = trees.find_bytes_tree(&name)? else { return Ok(None) };
    gone(tree.get_with(session, &word_of(key), number))
}

/// Sets a key; nothing if the tree was removed meanwhile.
fn put(
    trees: &Trees<G, M>,
    session: &mut Session<M>,
    (map, key, value): (u64, u64, u64),
) -> Result<Reply, IndexError> {
    let name = name_of(map);
    let done = if is_integers(map) {
        trees.u64_tree(&name)?.upsert(session, key, value)
    } else {
        let (word, bytes) = (word_of(key), value.to_le_bytes());
        let tree = trees.bytes_tree(&name)?;
        tree.change_seeing(session, &Change::upsert(&word, &bytes), |_, old| old.map(number))
    };
    match done {
        Err(IndexError::Removed) => Ok(Reply::Refused),
        done => Ok(Reply::Previous(done?)),
    }
}

/// Takes a key out.
fn remove(
    trees: &Trees<G, M>,
    session: &mut Session<M>,
    map: u64,
    key: u64,
) -> Result<Option<u64>, IndexError> {
    let name = name_of(map);
    if is_integers(map) {
        let Some(tree) = trees.find_u64_tree(&name)? else { return Ok(None) };
        return gone(tree.remove(session, key));
    }
    let Some(tree) = trees.find_bytes_tree(&name)? else { return Ok(None) };
    gone(tree.change_seeing(session, &Change::remove(&word_of(key)), |_, old| old.map(number)))
}

fn clear(trees: &Trees<G, M>, session: &mut Session<M>, map: u64) -> Result<(), IndexError> {
    let name = name_of(map);
    let done = if is_integers(map) {
        let Some(tree) = trees.find_u64_tree(&name)? else { return Ok(()) };
        tree.clear(session)
    } else {
        let Some(tree) = trees.find_bytes_tree(&name)? else { return Ok(()) };
        tree.clear(session)
    };
    match done {
        Err(IndexError::Removed) => Ok(()),
        done => done,
    }
}

/// Does one operation; if the pool is full, frees what can be freed and does it once more.
fn perform(
    trees: &Trees<G, M>,
    session: &mut Session<M>,
    operation: Operation,
    replies: &mut Vec<Reply>,
) -> Result<(), IndexError> {
    match perform_once(trees, session, operation, replies) {
        Err(error) if error.is_full() => {
            session.collect_all();
            session.give_back();
            trees.reclaim();
            trees.merge_thin(0, &mut |_| true);
            perform_once(trees, session, operation, replies)
        }
        done => done,
    }
}

/// Does one operation. If it fails, there is no reply of it.
fn perform_once(
    trees: &Trees<G, M>,
    session: &mut Session<M>,
    operation: Operation,
    replies: &mut Vec<Reply>,
) -> Result<(), IndexError> {
    let all = |reply| std::iter::repeat_n(reply, KEYS as usize);
    match operation {
        Operation::Get(map, key) => {
            replies.push(Reply::Previous(get(trees, session, map, key)?));
        }
        Operation::Put(map, key, value) => replies.push(put(trees, session, (map, key, value))?),
        Operation::Remove(map, key) => {
            replies.push(Reply::Previous(remove(trees, session, map, key)?));
        }
        Operation::Load(map, value) => {
            let is_made = load(trees, map, value)?;
            replies.extend(all(if is_made { Reply::Previous(None) } else { Reply::Refused }));
        }
        Operation::Count(map) => {
            let tree = trees.find_bytes_tree(&name_of(map))?.expect("it is there");
            assert_eq!(tree.len(session)?, KEYS, "keys that are counted");
        }
        Operation::Clear(map) => {
            clear(trees, session, map)?;
            replies.extend(all(Reply::Unknown));
        }
        Operation::Drop(map) => {
            if trees.unlink(session, &name_of(map))? {
                trees.tidy_removed(session);
            }
            replies.extend(all(Reply::Unknown));
        }
        Operation::Reclaim => {
            trees.reclaim();
            trees.merge_thin(0, &mut |_| true);
        }
        Operation::Close => trees.close()?,
    }
    Ok(())
}

/// What is demanded of trees that were emptied.
const MERGED: &str = "what removals had to leave is merged later";

/// Empties all trees, and demands that none has more leaves than a new one. Nobody else is there.
fn demand_merged(trees: &Trees<G, M>) -> Result<(), String> {
    let mut session = trees.heap().session().map_err(text)?;
    for (map, key) in (0..MAPS).flat_map(|map| (0..KEYS).map(move |key| (map, key))) {
        remove(trees, &mut session, map, key).map_err(text)?;
    }
    session.collect_all();
    session.give_back();
    trees.merge_thin(0, &mut |_| true);
    for map in 0..MAPS {
        let name = name_of(map);
        let leaves = if is_integers(map) {
            let tree = trees.find_u64_tree(&name).map_err(text)?;
            tree.map(|tree| tree.shape(&mut session)).transpose().map_err(text)?
        } else {
            let tree = trees.find_bytes_tree(&name).map_err(text)?;
            tree.map(|tree| tree.shape(&mut session)).transpose().map_err(text)?
        }
        .map_or(0, |shape| shape.leaves);
        // Integers have one for each class.
        if leaves > if is_integers(map) { 8 } else { 1 } {
            return Err(format!("{leaves} leaves of '{name}', which is empty"));
        }
    }
    Ok(())
}

/// Whether every key of a tree expires when what it was loaded with says.
fn judge_expiries(tree: &BytesTree<G, M>, session: &mut Session<M>) -> Result<(), String> {
    (0..KEYS).try_for_each(|key| {
        let see = |record: Record<'_>| (number(record.value), record.expiry_ms);
        let found = tree.get_verified(session, &word_of(key), Verify::Sum, see).map_err(text)?;
        let wrong = found.filter(|(value, expiry_ms)| !loads::fits(*value, *expiry_ms));
        wrong.map_or(Ok(()), |found| Err(format!("key {key} has value and expiry {found:?}")))
    })
}

impl Maps {
    fn may_fail(&self, error: &IndexError) -> bool {
        let no_memory = matches!(error, IndexError::Alloc(AllocError::OutOfMemory));
        self.may_refuse && (no_memory || error.is_full())
    }
}

impl Program for Maps {
    type Operation = Operation;
    type Instance = Opened;

    fn pool_bytes(&self) -> usize {
        2 * Space::default().pool_bytes
    }

    fn format(&self, memory: Memory) {
        let pool = new_pool(memory).expect("new memory becomes a pool");
        let trees: Trees<G, M> =
            Trees::create_with_chunks(pool, Space::default().chunk_shift).expect("room for a heap");
        if self.hashes {
            trees.make_hashed_leaves().expect("the pool can be written");
        }
        let mut session = trees.heap().session().expect("a free session");
        for operation in &self.history {
            perform(&trees, &mut session, *operation, &mut vec![]).expect("there is room");
        }
        drop(session);
        if self.is_sealed {
            trees.close().expect("it can be closed");
        }
    }

    fn open(&self, memory: Memory) -> Result<Opened, String> {
        let pool = open_pool(memory).map_err(text)?;
        if pool.was_clean() && pool.seal().is_none() {
            return Err("closed cleanly, and the seal is gone".to_owned());
        }
        let was_sealed = pool.was_clean();
        let open = if self.at_once { Trees::open_at_once } else { Trees::open };
        let trees: Trees<G, M> = open(pool, SHARES).map_err(text)?;
        let session = |_| Ok(RefCell::new(Some(trees.heap().session()?)));
        let sessions: Result<Vec<_>, AllocError> = (0..self.threads).map(session).collect();
        Ok(Opened { sessions: sessions.map_err(text)?, was_sealed, trees })
    }

    fn contents(&self, opened: &Opened) -> Result<Vec<(u64, u64)>, String> {
        opened.sessions.iter().for_each(|session| drop(session.borrow_mut().take()));
        let mut pairs = vec![];
        {
            let mut session = opened.trees.heap().session().map_err(text)?;
            for name in opened.trees.names() {
                let map = name.strip_prefix("map ").and_then(|number| number.parse().ok());
                let map: u64 = map.ok_or_else(|| format!("nobody made a tree '{name}'"))?;
                let mut add = |key: Option<u64>, value| {
                    pairs.push((map * STRIDE + key.unwrap_or(STRIDE - 1), value));
                    true
                };
                if is_integers(map) {
                    let mut found = vec![];
                    let tree = opened.trees.find_u64_tree(&name).map_err(text)?;
                    let tree = tree.ok_or("a tree is gone")?;
                    tree.scan(&mut session, 0, usize::MAX, &mut found).map_err(text)?;
                    for (key, value) in found {
                        add(Some(key), value);
                    }
                    continue;
                }
                let tree = opened.trees.find_bytes_tree(&name).map_err(text)?;
                let tree = tree.ok_or("a tree is gone")?;
                let (from, to) = (Bound::Unbounded, Bound::Unbounded);
                let add = |word: &[u8], value: &[u8]| add(key_of(word), number(value));
                tree.scan(&mut session, from, to, false, add).map_err(text)?;
                judge_expiries(&tree, &mut session)?;
            }
        }
        pairs.sort_unstable();
        let report = opened.trees.check().map_err(text)?;
        if report.is_clean() { Ok(pairs) } else { Err(report.problems.join("; ")) }
    }

    fn give_back(&self, opened: Opened) -> Result<bool, String> {
        let Opened { trees, sessions, .. } = opened;
        drop(sessions);
        trees.reclaim();
        demand_merged(&trees).map_err(|error| format!("{MERGED}: {error}"))?;
        remove_trees(&trees)?;
        Ok(true)
    }

    fn calls(&self, operation: &Operation, calls: &mut Vec<(u64, Call)>) {
        match *operation {
            Operation::Get(map, key) => calls.push((map * STRIDE + key, Call::Get)),
            Operation::Put(map, key, value) => {
                calls.push((map * STRIDE + key, Call::Upsert(value)));
            }
            Operation::Remove(map, key) => calls.push((map * STRIDE + key, Call::Remove)),
            Operation::Load(map, value) => {
                let call = |key| (key, Call::Upsert(loaded(value, key - map * STRIDE)));
                calls.extend(keys_of(map).map(call));
            }
            Operation::Clear(map) | Operation::Drop(map) => {
                calls.extend(keys_of(map).map(|key| (key, Call::Remove)));
            }
            Operation::Count(_) | Operation::Reclaim | Operation::Close => {}
        }
    }

    fn run(&self, opened: &Opened, thread: usize, operation: &Operation, replies: &mut Vec<Reply>) {
        let mut session = opened.sessions[thread].borrow_mut();
        let session = session.as_mut().expect("taken only when all threads have ended");
        match perform(&opened.trees, session, *operation, replies) {
            Err(error) if self.may_fail(&error) => {
                let mut calls = vec![];
                self.calls(operation, &mut calls);
                replies.clear();
                replies.resize(calls.len(), Reply::Refused);
            }
            done => done.unwrap_or_else(|error| panic!("{operation:?}: {error}")),
        }
    }
}

/// A random plan: two or three threads that meet at a few trees, or one that closes the pool at last.
pub fn plan(seed: u64) -> (Maps, Plan<Operation>) {
    plan_of(seed, false)
}

/// The same; in a tiny one each thread has one or two operations.
fn plan_of(seed: u64, is_tiny: bool) -> (Maps, Plan<Operation>) {
    let random = &mut Random::new(seed ^ 0x6D61_7073);
    let threads = [1, 2, 2, 3][random.below(4) as usize];
    let (mut length, maps) = ([6, 4, 3][threads - 1], 1 + random.below(MAPS));
    if is_tiny {
        length = 2;
    }
    let may_refuse = is_refusing(seed);
    let mut value = 0;
    let mut operation = |random: &mut Random| {
        value += 10;
        let (map, key) = (random.below(maps), random.below(KEYS));
        match random.below(16) {
            0..5 => Operation::Put(map, key, value),
            5 | 6 => Operation::Get(map, key),
            7 | 8 => Operation::Remove(map, key),
            9..11 => Operation::Load(map, value),
            11 | 12 => Operation::Clear(map),
            13 | 14 => Operation::Drop(map),
            _ => Operation::Reclaim,
        }
    };
    let history = (0..random.below(12)).map(|_| operation(random)).collect();
    let mut plan: Plan<Operation> = (0..threads)
        .map(|_| (0..1 + random.below(length)).map(|_| operation(random)).collect())
        .collect();
    if let [alone] = &mut plan[..] {
        alone.push(Operation::Close);
    }
    let is_sealed = random.one_in(2);
    (Maps { hashes: false, at_once: false, history, is_sealed, threads, may_refuse }, plan)
}

/// Whether operations of a random program may find no memory.
pub(crate) fn is_refusing(seed: u64) -> bool {
    seed % 4 == 3
}

use Operation::{Clear, Close, Count, Drop as Unname, Get, Load, Put, Remove};

/// A name, a history, a plan.
type SmallProgram = (&'static str, &'static [Operation], &'static [&'static [Operation]]);
/// Programs small enough for every order.
const SMALL: [SmallProgram; 10] = [
    ("make, make", &[], &[&[Put(0, 1, 1)], &[Put(0, 2, 2)]]),
    ("put, drop", &[Put(0, 1, 1)], &[&[Put(0, 1, 2), Get(0, 1)], &[Unname(0)]]),
    ("drop, make", &[Load(1, 10)], &[&[Unname(1), Put(1, 2, 5)], &[Get(1, 2)]]),
    // Opened at once, the first thread to come to a leaf restores it: two do so below one node.
    ("read, read and drop", &[Load(1, 10)], &[&[Get(1, 0)], &[Get(1, 5), Unname(1)]]),
    ("read, count", &[Load(1, 10)], &[&[Get(1, 0)], &[Count(1)]]),
    ("clear, put", &[Load(0, 10)], &[&[Clear(0)], &[Put(0, 3, 5), Get(0, 4)]]),
    ("load, load", &[], &[&[Load(1, 10)], &[Load(1, 20)]]),
    ("refused, load", &[], &[&[Load(1, 30)], &[Load(1, 50)]]),
    ("close", &[Load(0, 10), Put(1, 1, 1)], &[&[Put(0, 2, 5), Remove(0, 4), Put(1, 2, 7), Close]]),
    ("drop, close", &[Load(0, 10), Load(1, 20)], &[&[Unname(0), Put(1, 9 % KEYS, 3), Close]]),
];

/// The names of the small programs.
pub(crate) fn small() -> impl Iterator<Item = String> {
    SMALL.iter().map(|(name, ..)| format!("small/{name}"))
}

/// The program and the plan of a name: `random/NUMBER`, `tiny/NUMBER` or `small/NAME`.
pub(crate) fn program(name: &str) -> Option<(Maps, Plan<Operation>)> {
    if let Some(seed) = name.strip_prefix("random/") {
        return Some(plan(seed.parse().ok()?));
    }
    if let Some(seed) = name.strip_prefix("tiny/") {
        return Some(plan_of(seed.parse().ok()?, true));
    }
    let wanted = name.strip_prefix("small/")?;
    let (_, history, plan) = SMALL.iter().find(|(known, ..)| *known == wanted)?;
    let plan: Plan<Operation> = plan.iter().map(|thread| thread.to_vec()).collect();
    let (history, is_sealed) = (history.to_vec(), wanted.ends_with("close"));
    let threads = plan.len();
    let maps =
        Maps { hashes: false, at_once: false, history, is_sealed, threads, may_refuse: false };
    Some((maps, plan))
}
