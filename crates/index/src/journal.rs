//! Many changes as one: all or nothing, whenever the process dies.
//!
//! A batch is written down as a whole in a map of its own before its first key changes, and erased
//! after the last one has. Opening the pool does again what it finds there.
//!
//! ```text
//!   journal    session number (2 bytes, big endian) -> batch, or empty
//!
//!   batch      offset 0   check sum: CRC-32C of all that follows
//!              offset 4   number of changes
//!              offset 8   the changes, one behind the other, no padding
//!
//!   change     offset 0   id of the tree
//!              offset 4   length of the key
//!              offset 8   length of the value; all ones: the key is removed; all ones but the lowest:
//!                         it keeps its value, and only its expiry changes
//!              offset 12  expiry in milliseconds since 1970-01-01 UTC; 0: never
//!              offset 20  key, value
//! ```
//!
//! Invariants:
//! - J1 a batch is in the journal, durably, before any of its changes;
//! - J2 it is erased, durably, before another thread changes one of its keys: the caller has their
//!   stripes until `apply` returns. So repeating it never undoes a later change;
//! - J3 what a change replaces is neither freed nor reused before all changes are made. So a batch
//!   for which there is no space is rolled back;
//! - J4 every session's key is in the journal from the start and stays: entering and erasing a batch
//!   replace a value in place, for which there is always space;
//! - J5 while batches are applied, a session's record in the journal is read by nobody else: no two
//!   keys of the journal have the same head, so that a search for one never reads the record of
//!   another; no leaf of it is split or merged (J4); and it is scanned only while nobody is active. So
//!   the record that was replaced is free at once, and the next batch finds it in the cache;
//! - J6 an expiry that changes alone is changed in place behind all other changes, where the record has a place
//!   for it: that needs no space, so it is never rolled back. Where it has none, the record is written again,
//!   as a put. A reader that comes before it is flushed is told what survives: the batch is in the journal (J1);
//! - J7 a batch that comes down to one change is not in the journal, and no blocks are put by for it: a write of one
//!   key is whole by itself, and if there is no space for it, nothing was changed. So a full pool refuses no batch of
//!   one change that it would not refuse outside of one. But an expiry that changes in place where lines must be
//!   flushed (`Adr`) is entered, for the sake of readers that read it before (J6);
//! - J8 nor are blocks put by for a batch of one put and removals, which makes room: the put comes first, so that if
//!   there is no space for it, nothing was changed. Then recovery leaves the batch, too, or a full pool could not be
//!   opened; so it does if the record of the key is damaged, so that nobody can tell whether the put was made;
//! - J9 recovery writes again only what it does not find: a record with the same value and expiry, and a check sum
//!   that is right, is left where it is. So it needs no more space than the batch had put by, and a full pool can be
//!   opened. What it finds is durable, whatever the domain: stores that a killed process had not flushed are flushed by
//!   the next opening, before anything relies on them (`Pool::attach`), and those that a loss of power took are not
//!   found. What recovery itself has changed since is durable when its call returns; where it only thaws or moves an
//!   entry, the one before refers to the same record. So the batch may be erased.

mod batch_bytes;
mod batch_op;
mod changes;

use std::sync::Arc;

use everleaf_alloc::epoch::PARTICIPANT_COUNT_MAX;
use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Hardware, Machine};
use everleaf_pool::{Domain, FEATURE_BATCHES, FEATURE_EXPIRY_IN_BATCHES};

use self::batch_bytes::{encode, lengthen};
use crate::api::error::IndexError;
use crate::bytes::change::{Change, What};
use crate::bytes::record::{Record, Verify};
use crate::bytes::staged_write::{StagedWrite, free_payload};
use crate::bytes::tree::BytesTree;
use crate::geometry::{Geometry, Production};
use crate::pool_trees::trees::Trees;

pub use self::batch_bytes::decode;
pub use self::batch_op::{BatchOp, NotMade};
pub(crate) use self::changes::Changes;

/// The name of the journal in the pool's directory.
pub const NAME: &str = "\u{1}batches";
/// A batch that is longer than this, in bytes, is entered as it is or not at all.
const LENGTH_MAX: usize = 8 << 10;
/// Keys of the journal: one for every session there can be.
const fn slots<M: Machine>() -> u16 {
    if M::SIMULATED { 6 } else { PARTICIPANT_COUNT_MAX as u16 }
}

/// The map of batches that are being applied.
pub struct Journal<G: Geometry = Production, M: Machine = Hardware> {
    tree: Arc<BytesTree<G, M>>,
}

impl<G: Geometry, M: Machine> Journal<G, M> {
    /// The journal of a pool, if it has one.
    ///
    /// # Errors
    /// The name belongs to a tree of another kind.
    pub fn find(trees: &Trees<G, M>) -> Result<Option<Self>, IndexError> {
        Ok(trees.find_bytes_tree(NAME)?.map(|tree| Journal { tree }))
    }

    /// The journal of a pool, made if absent: from then on, code that knows no batches refuses the
    /// pool.
    ///
    /// # Errors
    /// No space, or the pool is read-only.
    pub fn open(trees: &Trees<G, M>, session: &mut Session<M>) -> Result<Self, IndexError> {
        trees.heap().pool().enable_features(FEATURE_BATCHES)?;
        let tree = trees.bytes_tree(NAME)?;
        if tree.len(session)? < u64::from(slots::<M>()) {
            for slot in 0..slots::<M>() {
                tree.change(session, &Change::insert(&slot.to_be_bytes(), &[]))?;
            }
        }
        Ok(Journal { tree })
    }

    /// How many batches were cut short, or are being applied now.
    ///
    /// # Errors
    /// The tree cannot be read.
    pub fn pending(&self, session: &mut Session<M>) -> Result<usize, IndexError> {
        let (from, to) = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        let mut pending = 0;
        self.tree.scan(session, from, to, false, |_, batch| {
            pending += usize::from(!batch.is_empty());
            true
        })?;
        Ok(pending)
    }

    /// How many bytes the batches have that were cut short, or are being applied now.
    ///
    /// # Errors
    /// The tree cannot be read.
    pub fn pending_size(&self, session: &mut Session<M>) -> Result<u64, IndexError> {
        let (from, to) = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        let mut size = 0;
        self.tree.scan(session, from, to, false, |_, batch| {
            size += batch.len() as u64;
            true
        })?;
        Ok(size)
    }

    /// Does again what was cut short and is not found done (J9); how many batches that were. Nobody else is active. A
    /// key whose expiry was to change alone, and whose record was damaged meanwhile, is removed if it would have
    /// expired by now. Otherwise it stays as it is, for there is no value that could be written again; and where there
    /// is no space for the one put of a batch, nor, for damage, any telling whether it was made, what the batch would
    /// remove stays (J8). Then `tell` is called with what is wrong with the record, before the batch is forgotten, and
    /// once more should that be cut short.
    ///
    /// # Errors
    /// No space, or a batch or a tree is damaged: then the batch stays where it is.
    pub fn recover(
        &self,
        trees: &Trees<G, M>,
        session: &mut Session<M>,
        tell: &mut dyn FnMut(IndexError),
    ) -> Result<usize, IndexError> {
        let mut found = vec![];
        let (from, to) = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        self.tree.scan(session, from, to, false, |key, batch| {
            if !batch.is_empty() {
                found.push((key.to_vec(), batch.to_vec()));
            }
            true
        })?;
        for (key, batch) in &found {
            if M::mutant("journal.erases_first") {
                self.tree.change(session, &Change::upsert(key, &[]))?;
            }
            let mut damaged = vec![];
            redo(trees, session, batch, &mut damaged)?;
            damaged.into_iter().for_each(&mut *tell);
            // Persist: the changes before the batch is erased (J1); each was durable when it
            // returned.
            self.tree.change(session, &Change::upsert(key, &[]))?;
            if M::mutant("journal.recovers_one") {
                break;
            }
        }
        Ok(found.len())
    }

    /// Makes all changes or none. The caller has the stripes of all keys, each key is there once, and
    /// the session is not pinned.
    ///
    /// *Durable* when it returns.
    ///
    /// # Errors
    /// No space or memory, or the kernel refuses to let the pool grow; a key or value or the batch is too
    /// large, a tree was removed: nothing was changed. A removal, once all puts are made, waits for memory.
    pub fn apply(
        &self,
        session: &mut Session<M>,
        operations: &[BatchOp<'_, G, M>],
    ) -> Result<(), IndexError> {
        self.apply_after(session, operations, || ()).map_err(|not_made| not_made.error)
    }

    /// As [`Self::apply`]; calls `before` when everything is prepared, just before the first change that
    /// others can see. If it was not called, nothing was changed; nor if the error afterwards is a lack
    /// of space or memory.
    ///
    /// # Errors
    /// As [`Self::apply`], and what was made of it meanwhile.
    pub fn apply_after(
        &self,
        session: &mut Session<M>,
        operations: &[BatchOp<'_, G, M>],
        before: impl FnOnce(),
    ) -> Result<(), NotMade> {
        if !needs_journal(session, operations) && !M::mutant("journal.enters_one") {
            return apply_whole(session, operations, before);
        }
        let result = self.write_down_and_make(session, operations, before);
        session.end_promises();
        result
    }

    /// Enters a batch, makes its changes, and erases it.
    fn write_down_and_make(
        &self,
        session: &mut Session<M>,
        operations: &[BatchOp<'_, G, M>],
        before: impl FnOnce(),
    ) -> Result<(), NotMade> {
        let mut batch = encode(session, operations)?;
        if operations.iter().any(|operation| operation.change.what == What::Expire) {
            let pool = session.heap().pool();
            // Before such a batch is written down: code that cannot read it refuses the pool.
            let is_new = pool.features() & FEATURE_EXPIRY_IN_BATCHES == 0;
            if is_new && !M::mutant("journal.no_feature") {
                pool.enable_features(FEATURE_EXPIRY_IN_BATCHES).map_err(IndexError::from)?;
            }
        }
        let slot = (session.stripe() as u16).to_be_bytes();
        let mut changes = Changes::with_capacity(operations.len());
        let entered = changes
            .prepare(session, operations)
            .and_then(|()| self.enter(session, &slot, &mut batch, operations))
            .inspect_err(|_| changes.free_rest(session));
        let erasure = entered?;
        before();
        if M::mutant("journal.early_erasure") {
            self.replace(session, &erasure)?;
            return changes.make(session);
        }
        let result = changes.make(session);
        if M::mutant("journal.no_erasure") {
            return result;
        }
        // Persist: the changes before the batch is erased (J1); each was durable when it returned.
        // There is space for it (J4).
        self.replace(session, &erasure)?;
        result
    }

    /// Enters a batch of these changes. Returns the record that will erase it.
    fn enter<'a>(
        &'a self,
        session: &mut Session<M>,
        slot: &'a [u8],
        batch: &mut Vec<u8>,
        operations: &[BatchOp<'_, G, M>],
    ) -> Result<StagedWrite<'a, G, M>, IndexError> {
        let erasure = self.tree.prepare(session, &Change::upsert(slot, &[]))?;
        if M::mutant("journal.no_entry") {
            return Ok(erasure);
        }
        let is_removal = |operation: &&BatchOp<'_, G, M>| operation.change.what == What::Remove;
        let removal = operations.iter().rfind(is_removal).filter(|_| batch.len() < LENGTH_MAX);
        let entered = loop {
            let entry = self.tree.prepare(session, &Change::upsert(slot, batch));
            match (entry, removal) {
                // A full pool may have room for longer records only, as that of an earlier batch. What removes makes
                // room, so it is tried at any length, in steps of a quarter, as the classes of records are.
                (Err(error), Some(removal)) if error.lacks_space() && batch.len() < LENGTH_MAX => {
                    M::mark("journal.lengthened");
                    let length = batch.len() * 5 / 4;
                    if let Err(error) = lengthen(session, batch, removal, length) {
                        break Err(error);
                    }
                }
                // Persist: the batch before its first change (J1).
                (entry, _) => break entry.and_then(|entry| self.replace(session, &entry)),
            }
        };
        entered.inspect_err(|_| free_payload(session, erasure.write.payload))?;
        Ok(erasure)
    }

    /// Puts a record in the place of the one its key has, which is free from then on (J5); if that
    /// fails, the new one is.
    fn replace(
        &self,
        session: &mut Session<M>,
        record: &StagedWrite<'_, G, M>,
    ) -> Result<(), IndexError> {
        let mut old = None;
        let result =
            self.tree.make(session, std::slice::from_ref(record), |replaced| old = replaced);
        let free = if result.is_ok() { old } else { Some(record.write.payload) };
        if let Some(free) = free.filter(|_| !M::mutant("journal.keeps_entry")) {
            free_payload(session, free);
        }
        result
    }
}

/// Whether a batch of these changes has to be written down before the first is made (J7).
fn needs_journal<G: Geometry, M: Machine>(
    session: &Session<M>,
    operations: &[BatchOp<'_, G, M>],
) -> bool {
    let [operation] = operations else { return operations.len() > 1 };
    operation.change.what == What::Expire
        && session.heap().medium().domain() == Domain::Adr
        && !M::mutant("journal.lone_expiry_unwritten")
}

/// Makes one put or removal, or none: as [`Journal::apply_after`], of a pool that need not have a journal.
///
/// *Durable* when it returns.
///
/// # Errors
/// As [`Journal::apply_after`].
///
/// # Panics
/// There are several changes, or one of an expiry alone.
pub fn apply_one_after<G: Geometry, M: Machine>(
    session: &mut Session<M>,
    operations: &[BatchOp<'_, G, M>],
    before: impl FnOnce(),
) -> Result<(), NotMade> {
    let needs_none = match operations {
        [] => true,
        [operation] => operation.change.what != What::Expire,
        _ => false,
    };
    assert!(needs_none, "only one put or removal needs no journal");
    apply_whole(session, operations, before)
}

/// Makes one change, or none, that is whole by itself.
fn apply_whole<G: Geometry, M: Machine>(
    session: &mut Session<M>,
    operations: &[BatchOp<'_, G, M>],
    before: impl FnOnce(),
) -> Result<(), NotMade> {
    let mut changes = Changes::with_capacity(operations.len());
    changes.prepare_without_blocks(session, operations)?;
    before();
    changes.make(session)
}

/// Makes changes as a batch makes them, but not as one: a crash may leave some of them. All of them, or
/// none if there is no space; each key is there once, and nobody else writes to it. So it needs no
/// journal, and writes nothing twice. Changes of one tree that follow each other go down it together.
///
/// *Durable* when it returns.
///
/// # Errors
/// As [`Journal::apply`], but for the size of a batch.
///
/// # Example
/// ```
/// use everleaf_index::{Domain, BatchOp, Pool, Trees, apply_unlogged};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let trees: Trees = Trees::create(Pool::in_memory(1 << 20, 1 << 30, Domain::Process)?)?;
/// let tree = trees.bytes_tree("words")?;
/// let mut session = trees.heap().session()?;
/// let put = |key| BatchOp::put(&tree, key, b"1", 0);
/// apply_unlogged(&mut session, &[put(&b"ash"[..]), put(&b"oak"[..])])?;
/// assert_eq!(tree.len(&mut session)?, 2);
/// # Ok(())
/// # }
/// ```
pub fn apply_unlogged<G: Geometry, M: Machine>(
    session: &mut Session<M>,
    operations: &[BatchOp<'_, G, M>],
) -> Result<(), IndexError> {
    let mut changes = Changes::with_capacity(operations.len());
    let prepared = changes.prepare(session, operations).inspect_err(|_| changes.free_rest(session));
    let result = prepared.and_then(|()| changes.make(session).map_err(|not_made| not_made.error));
    session.end_promises();
    result
}

/// Whether a key with this expiry is absent.
fn is_past<M: Machine>(expiry_ms: u64) -> bool {
    expiry_ms != 0 && expiry_ms <= M::wall_clock_ms()
}

fn redo<G: Geometry, M: Machine>(
    trees: &Trees<G, M>,
    session: &mut Session<M>,
    batch: &[u8],
    damaged: &mut Vec<IndexError>,
) -> Result<(), IndexError> {
    let Some(changes) = decode(batch) else {
        let what = "a batch that was cut short cannot be read: its check sum is wrong".to_string();
        return Err(AllocError::Corrupt { offset: 0, what }.into());
    };
    // Puts first, as they were made.
    let (puts, others): (Vec<_>, Vec<_>) =
        changes.into_iter().partition(|(_, change)| change.value().is_some());
    let removes_only = others.iter().all(|(_, change)| change.what == What::Remove);
    let may_be_left = puts.len() == 1 && removes_only;
    for (tree, change) in puts.into_iter().chain(others) {
        // A tree cannot have gone while a batch of it was there; if it is not to be found, the
        // pool's directory was damaged and said so when it was opened.
        let Some(tree) = trees.bytes_tree_of_id(session, tree) else { continue };
        if change.what == What::Remove && M::mutant("journal.redo_skips_removals") {
            continue;
        }
        let forgets = M::mutant("journal.redo_forgets_expiry");
        let change = if forgets { change.expiring(0) } else { change };
        // Also if the time has come that it had: when the batch was made it had not.
        if change.what == What::Expire && M::mutant("journal.redo_skips_expiries") {
            continue;
        }
        let made = is_made(&tree, session, &change);
        match &made {
            Ok(true) => continue,
            Err(error) if !is_damage(error) => return made.map(drop),
            // It is not there, or nobody can tell: a put takes its place, and an expiry is told of below.
            _ => {}
        }
        if change.what == What::Expire {
            match tree.set_expiry(session, change.key, change.expiry_ms) {
                // It would have expired by now: for that its value need not be written again.
                Err(error) if is_damage(&error) && is_past::<M>(change.expiry_ms) => {
                    tree.change(session, &Change::remove(change.key))?;
                }
                // One damaged record is no reason to refuse all others.
                Err(error) if is_damage(&error) => damaged.push(error),
                done => drop(done?),
            }
            continue;
        }
        match tree.change(session, &change) {
            // There was no space for it before either. If its record is damaged, nobody can tell whether it was made:
            // what would be removed stays (J8).
            Err(error) if may_be_left && error.lacks_space() => {
                damaged.extend(made.err());
                return Ok(());
            }
            done => drop(done?),
        }
    }
    Ok(())
}

fn is_damage(error: &IndexError) -> bool {
    matches!(error, IndexError::Alloc(AllocError::Corrupt { .. }))
}

/// Whether a put or a change of an expiry is found made (J9); never so of a removal, which needs no space.
///
/// # Errors
/// The record is damaged: nobody can tell. As a get.
fn is_made<G: Geometry, M: Machine>(
    tree: &BytesTree<G, M>,
    session: &mut Session<M>,
    change: &Change<'_>,
) -> Result<bool, IndexError> {
    if change.what == What::Remove {
        return Ok(false);
    }
    let is_so = |record: Record<'_>| {
        let is_value = change.value().is_none_or(|value| record.value == value);
        let is_value = is_value || M::mutant("journal.redo_trusts_key");
        is_value && record.expiry_ms == change.expiry_ms
    };
    // What has expired meanwhile is there as long as its record is.
    Ok(tree.get_stored(session, change.key, Verify::Sum, is_so)? == Some(true))
}

#[cfg(test)]
mod tests;
