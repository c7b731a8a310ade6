//! Replaying the log into a new pool, by several threads.
//!
//! One thread reads the groups in order and deals their records out by key; the others change the
//! maps. The changes of a key go to one thread, in order. A change of the list of names waits until
//! everything before it is done. Groups of the log need not be done as a whole: nobody reads the
//! pool before all of them are, and after a crash it is made from the start.
//!
//! Changes that a thread has of one map go down its tree together, as those of a batch do, so that
//! the misses of one lie under those of the others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

use everleaf_index::{
    BatchOp, BytesTree, Change, Hardware, IndexError, Session, What, apply_unlogged,
};
use everleaf_log::{Lsn, Record, RecordEffect, Recovered};

use super::filling::{Filling, Names, Plants};
use super::log_folder::LogDisk;
use super::metadata_keys::NAMES;
use crate::{Error, Result};

/// Bytes in memory after which a share is handed over: the more changes it has, the closer together
/// they are when they are sorted. And the same of a small log.
const SHARE_BYTES: usize = 6 << 20;
const SMALL_SHARE_BYTES: usize = if cfg!(test) { 8 << 10 } else { 512 };
/// Shares that may wait for a thread.
const WAITING: usize = 2;
/// Changes of a map that are made together.
const GROUP: usize = 256;
const SMALL_GROUP: usize = if cfg!(test) { 16 } else { 4 };

/// What was replayed.
#[derive(Default)]
pub(super) struct Replayed {
    pub groups: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
}

/// Changes for one thread, in order. It makes them in the order of the keys, of each key the last,
/// because neighbours in a tree share what has to be fetched to find them.
#[derive(Default)]
struct Share {
    bytes: Vec<u8>,
    changes: Vec<Entry>,
}

/// A change, its key and then its value at `at` in the bytes of the share.
#[derive(Clone, Copy)]
struct Entry {
    map: u32,
    at: usize,
    /// The first bytes of the key, as a number that sorts like them.
    head: u64,
    key_size: usize,
    effect: Effect,
    expiry_ms: u64,
}

/// What a change does to the value of its key.
#[derive(Clone, Copy)]
enum Effect {
    /// The key has a value of this length.
    Put(usize),
    Remove,
    /// The key keeps the value that it has.
    Expire,
}

impl Entry {
    /// What the change and an earlier one of the same key do together.
    fn after(self, earlier: Entry, plants: Plants) -> Entry {
        match (self.effect, earlier.effect) {
            (Effect::Expire, Effect::Put(_)) if plants.loses_expiries => earlier,
            (Effect::Expire, Effect::Put(_)) => Entry { expiry_ms: self.expiry_ms, ..earlier },
            (Effect::Expire, Effect::Remove) => earlier,
            _ => self,
        }
    }
}

/// The first eight bytes of a key, with zeros behind a shorter one.
fn head_of(key: &[u8]) -> u64 {
    let mut head = [0; 8];
    let size = key.len().min(8);
    head[..size].copy_from_slice(&key[..size]);
    u64::from_be_bytes(head)
}

impl Share {
    fn key(&self, change: &Entry) -> &[u8] {
        &self.bytes[change.at..][..change.key_size]
    }

    fn order(&self, a: &Entry, b: &Entry) -> std::cmp::Ordering {
        let heads = (a.map, a.head).cmp(&(b.map, b.head));
        heads.then_with(|| self.key(a).cmp(self.key(b)))
    }

    fn change(&self, entry: &Entry) -> Change<'_> {
        let key = self.key(entry);
        match entry.effect {
            Effect::Put(size) => {
                let value = &self.bytes[entry.at + entry.key_size..][..size];
                Change::upsert(key, value).expiring(entry.expiry_ms)
            }
            Effect::Remove => Change::remove(key),
            Effect::Expire => Change::expire(key, entry.expiry_ms),
        }
    }

    /// What the changes of each key do together, in the order of maps and keys.
    fn sorted(&self, plants: Plants) -> Vec<Entry> {
        // The newest of a key comes first, and sorting leaves it there.
        let mut changes: Vec<Entry> = self.changes.iter().rev().copied().collect();
        changes.sort_by(|a, b| self.order(a, b));
        changes.dedup_by(|earlier, later| {
            let is_same = self.order(earlier, later).is_eq();
            if is_same {
                *later = later.after(*earlier, plants);
            }
            is_same
        });
        changes
    }
}

enum Work {
    Share(Share),
    /// To be answered when everything before is done.
    Answer(SyncSender<()>),
}

/// Why it cannot go on.
#[derive(Default)]
struct Failure {
    is_any: AtomicBool,
    first: Mutex<Option<Error>>,
}

impl Failure {
    fn set(&self, error: Error) {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        // Relaxed: a hint to stop; the reason is behind the lock.
        self.is_any.store(true, Ordering::Relaxed);
    }

    fn take(&self) -> Option<Error> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Replays what was logged after `from`.
pub(super) fn replay(
    filling: Filling<'_>,
    recovered: &Recovered<LogDisk>,
    from: Lsn,
    names: &mut Names,
) -> Result<Replayed> {
    let failure = Failure::default();
    // Names are changed only while all threads wait: see `Dealer::change_names`.
    let shared = std::sync::RwLock::new(names);
    let dealt = std::thread::scope(|scope| {
        let mut dealer =
            Dealer { filling, names: &shared, failure: &failure, shares: vec![], workers: vec![] };
        for number in 0..filling.threads {
            let (sender, work) = sync_channel(WAITING);
            let worker = Worker { filling, names: &shared, failure: &failure };
            let thread = std::thread::Builder::new();
            match thread.spawn_scoped(scope, move || worker.run(&work)) {
                Ok(_) => {
                    dealer.workers.push(sender);
                    dealer.shares.push(Share::default());
                }
                // A thread that cannot be started leaves its share to the others.
                Err(_) if number > 0 => break,
                Err(error) => {
                    let what =
                        "cannot start a thread that replays the log: raise the limit on threads";
                    return Err(Error::Io(what.to_string(), error));
                }
            }
        }
        dealer.deal_all(recovered, from)
    });
    // What a thread met says more than that it ended.
    failure.take().map_or(dealt, Err)
}

type SharedNames<'a, 'n> = std::sync::RwLock<&'n mut Names>;

/// Reads the log, and deals it out.
struct Dealer<'a, 'n> {
    filling: Filling<'a>,
    names: &'a SharedNames<'a, 'n>,
    failure: &'a Failure,
    /// What is being collected for each thread.
    shares: Vec<Share>,
    workers: Vec<SyncSender<Work>>,
}

impl Dealer<'_, '_> {
    /// Deals out all groups behind `from`, and waits until they are replayed.
    fn deal_all(&mut self, recovered: &Recovered<LogDisk>, from: Lsn) -> Result<Replayed> {
        let mut replayed = Replayed::default();
        recovered.replay(from, |_, records| -> Result<()> {
            replayed.groups += 1;
            records.iter().try_for_each(|record| {
                let size = record.key.len() + record.value().map_or(0, <[u8]>::len);
                replayed.bytes += size as u64;
                self.deal(record, size)
            })
        })?;
        self.wait()?;
        Ok(replayed)
    }

    #[inline]
    fn deal(&mut self, record: &Record<'_>, size: usize) -> Result<()> {
        if record.map == NAMES {
            return self.change_names(record);
        }
        let to = match self.filling.plants.deals_by_turn {
            true => size / 4,
            false => hash_of(record.map, record.key) as usize,
        };
        let to = to % self.shares.len();
        let share = &mut self.shares[to];
        let at = share.bytes.len();
        share.bytes.extend_from_slice(record.key);
        share.bytes.extend_from_slice(record.value().unwrap_or_default());
        share.changes.push(Entry {
            map: record.map,
            at,
            head: head_of(record.key),
            key_size: record.key.len(),
            effect: match record.effect {
                RecordEffect::Put(value) => Effect::Put(value.len()),
                RecordEffect::Delete => Effect::Remove,
                RecordEffect::Expire => Effect::Expire,
            },
            expiry_ms: record.expiry.unwrap_or(0),
        });
        // Small keys and values take less than what is noted of them.
        let bytes = at + size + share.changes.len() * size_of::<Entry>();
        let most = if self.filling.is_small { SMALL_SHARE_BYTES } else { SHARE_BYTES };
        if bytes >= most { self.hand_over(to) } else { Ok(()) }
    }

    fn hand_over(&mut self, to: usize) -> Result<()> {
        // Relaxed: a hint; see `Failure::set`.
        if self.failure.is_any.load(Ordering::Relaxed) {
            return Err(stopped());
        }
        let share = std::mem::take(&mut self.shares[to]);
        self.workers[to].send(Work::Share(share)).map_err(|_| stopped())
    }

    /// Waits until all that was dealt out is done.
    fn wait(&mut self) -> Result<()> {
        let mut answers = vec![];
        for to in 0..self.shares.len() {
            self.hand_over(to)?;
            let (sender, answer) = sync_channel(1);
            self.workers[to].send(Work::Answer(sender)).map_err(|_| stopped())?;
            answers.push(answer);
        }
        answers.into_iter().try_for_each(|answer| answer.recv().map_err(|_| stopped()))
    }

    fn change_names(&mut self, record: &Record<'_>) -> Result<()> {
        let changed = {
            let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
            names.change_of(record)
        };
        let Some((name, number)) = changed else { return Ok(()) };
        // What was logged before belongs to the map as it was.
        if !self.filling.plants.never_waits {
            self.wait()?;
        }
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        names.change(self.filling.trees, name, number)
    }
}

/// A number that spreads keys over threads.
fn hash_of(map: u32, key: &[u8]) -> u64 {
    const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut hash = u64::from(map);
    for chunk in key.chunks(8) {
        hash = (hash.rotate_left(29) ^ head_of(chunk)).wrapping_mul(MIX);
    }
    hash >> 32
}

/// Said only if no thread says why.
fn stopped() -> Error {
    Error::Corrupt("a thread that replayed the log ended early".to_string())
}

/// Changes the maps.
struct Worker<'a, 'n> {
    filling: Filling<'a>,
    names: &'a SharedNames<'a, 'n>,
    failure: &'a Failure,
}

impl Worker<'_, '_> {
    fn run(&self, work: &Receiver<Work>) {
        while let Ok(next) = work.recv() {
            match next {
                Work::Share(share) => {
                    if let Err(error) = self.apply(&share) {
                        self.failure.set(error);
                        return;
                    }
                }
                // A thread that asked and does not listen any more has failed.
                Work::Answer(to) => drop(to.send(())),
            }
        }
    }

    fn apply(&self, share: &Share) -> Result<()> {
        let mut session = self.filling.trees.heap().session().map_err(IndexError::from)?;
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        for changes in share.sorted(self.filling.plants).chunk_by(|a, b| a.map == b.map) {
            // `None`: of a map that was emptied or dropped later (W2).
            let Some(tree) = names.tree(changes[0].map) else { continue };
            let is_expiry = |change: &&Entry| matches!(change.effect, Effect::Expire);
            let (expiries, others): (Vec<&Entry>, Vec<&Entry>) =
                changes.iter().partition(is_expiry);
            let most = if self.filling.is_small { SMALL_GROUP } else { GROUP };
            for group in others.chunks(most) {
                share.apply_unlogged(&tree, &mut session, group)?;
            }
            share.make(&tree, &mut session, &expiries)?;
        }
        self.filling.progress.add(share.changes.len() as u64);
        Ok(())
    }
}

impl Share {
    /// Makes changes of a map, one after the other.
    fn make(
        &self,
        tree: &BytesTree,
        session: &mut Session<Hardware>,
        changes: &[&Entry],
    ) -> Result<()> {
        changes.iter().try_for_each(|entry| {
            let change = self.change(entry);
            match change.what {
                // Nobody else uses the tree. Absent: the snapshot is from behind a later record that
                // removes it.
                What::Expire => {
                    tree.set_expiry(session, change.key, change.expiry_ms).map(drop)?;
                }
                _ => drop(tree.change(session, &change)?),
            }
            Ok(())
        })
    }

    /// Makes changes of different keys of a map together.
    fn apply_unlogged(
        &self,
        tree: &BytesTree,
        session: &mut Session<Hardware>,
        changes: &[&Entry],
    ) -> Result<()> {
        let operation = |entry: &&Entry| {
            let Change { key, expiry_ms, what } = self.change(entry);
            match what {
                What::Expire => BatchOp::expire(tree, key, expiry_ms),
                _ => self.change(entry).value().map_or_else(
                    || BatchOp::remove(tree, key),
                    |value| BatchOp::put(tree, key, value, expiry_ms),
                ),
            }
        };
        let operations: Vec<BatchOp<'_>> = changes.iter().map(operation).collect();
        match apply_unlogged(session, &operations) {
            // One by one they need less space at a time; nothing was changed.
            Err(error) if error.lacks_space() => self.make(tree, session, changes),
            done => Ok(done?),
        }
    }
}
