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
//!   for which there is no space is taken back;
//! - J4 every session's key is in the journal from the start and stays: entering and erasing a batch
//!   replace a value in place, for which there is always space;
//! - J5 while batches are applied, a session's record in the journal is read by nobody else: no two
//!   keys of the journal have the same head, so that a search for one never reads the record of
//!   another; no leaf of it is split or merged (J4); and it is scanned only while nobody is active. So
//!   the record that was replaced is free at once, and the next batch finds it in the cache;
//! - J6 an expiry that changes alone is changed in place behind all other changes, where the record has a place
//!   for it: that needs no space, so it is never taken back. Where it has none, the record is written again,
//!   as a put. Whoever reads it before it is flushed is told what survives: the batch is in the journal (J1).

mod batch_bytes;

use std::sync::Arc;

use everleaf_alloc::epoch::PARTICIPANT_COUNT_MAX;
use everleaf_alloc::layout::BLOCK_CLASS_COUNT;
use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Hardware, Machine};
use everleaf_pool::{FEATURE_BATCHES, FEATURE_EXPIRY_IN_BATCHES};

use self::batch_bytes::encode;
use crate::api::error::IndexError;
use crate::bytes::change::{Change, What};
use crate::bytes::staged_write::{StagedChange, StagedExpiry, StagedWrite, free_payload};
use crate::bytes::tree::BytesTree;
use crate::geometry::{Geometry, Production};
use crate::pool_trees::trees::Trees;

pub use self::batch_bytes::decode;

/// The name of the journal in the pool's directory.
pub const NAME: &str = "\u{1}batches";
/// Keys of the journal: one for every session there can be.
const fn slots<M: Machine>() -> u16 {
    if M::SIMULATED { 6 } else { PARTICIPANT_COUNT_MAX as u16 }
}
/// Leaf blocks that are put by before a batch begins, at most.
const RESERVE_MAX: usize = 256;
/// Changes that are made under one pin: what a batch replaces can be used again by the same batch, so
/// that it needs no more space than its changes one by one.
const PIN_LENGTH: usize = 256;

/// So many of them: few on a simulated machine, so that batches have several pins.
const fn pin_length<M: Machine>() -> usize {
    if M::SIMULATED { 2 } else { PIN_LENGTH }
}

/// One change of a batch: a put, a removal, or a change of an expiry alone.
pub struct BatchOp<'a, G: Geometry = Production, M: Machine = Hardware> {
    tree: &'a BytesTree<G, M>,
    /// An upsert, a removal or a change of the expiry: nothing else is written down (see the table above).
    change: Change<'a>,
}

impl<'a, G: Geometry, M: Machine> BatchOp<'a, G, M> {
    /// Gives a key of a tree this value, until `expiry_ms` (milliseconds since 1970-01-01 UTC; 0 for never).
    pub fn put(tree: &'a BytesTree<G, M>, key: &'a [u8], value: &'a [u8], expiry_ms: u64) -> Self {
        BatchOp { tree, change: Change::upsert(key, value).expiring(expiry_ms) }
    }

    /// Removes a key of a tree.
    pub fn remove(tree: &'a BytesTree<G, M>, key: &'a [u8]) -> Self {
        BatchOp { tree, change: Change::remove(key) }
    }

    /// Lets a key of a tree expire at this time (as [`Self::put`]) if its record is there, whether it has expired
    /// meanwhile or not: whoever makes the batch has looked.
    pub fn expire(tree: &'a BytesTree<G, M>, key: &'a [u8], expiry_ms: u64) -> Self {
        BatchOp { tree, change: Change::expire(key, expiry_ms) }
    }

    /// Of which tree.
    pub fn tree(&self) -> &'a BytesTree<G, M> {
        self.tree
    }

    /// What is changed: an upsert, a removal or a change of the expiry.
    pub fn change(&self) -> Change<'a> {
        self.change
    }
}

/// Why a batch was not made.
#[derive(Debug)]
pub struct NotMade {
    /// What went wrong. If it is a lack of space or memory, nothing is changed.
    pub error: IndexError,
    /// How many of its puts, from the first, and behind them of its changes of expiries, at most, were made and taken
    /// back: others may have read them.
    pub taken_back: usize,
}

impl From<IndexError> for NotMade {
    fn from(error: IndexError) -> NotMade {
        NotMade { error, taken_back: 0 }
    }
}

/// What became of batches that were cut short.
#[derive(Debug, Default)]
pub struct Redone {
    /// How many were done again.
    pub batches: usize,
    /// Of each key that keeps the expiry it had, because its record is damaged, what is wrong with it. Whoever verifies
    /// what it reads is told the same.
    pub damaged: Vec<IndexError>,
}

/// The map of batches that are being applied.
pub struct Journal<G: Geometry = Production, M: Machine = Hardware> {
    tree: Arc<BytesTree<G, M>>,
}

/// The changes of a batch, those that need space first.
pub(crate) struct Changes<'a, G: Geometry, M: Machine> {
    all: Vec<StagedWrite<'a, G, M>>,
    /// How many of them are puts.
    puts: usize,
    /// Expiries that are changed in place when all of these are made.
    expiries: Vec<StagedExpiry<'a, G, M>>,
    /// What those that were made replaced.
    olds: Vec<Option<u64>>,
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

    /// Does again what was cut short. Nobody else is active. A key whose expiry was to change alone, and whose record
    /// was damaged meanwhile, stays as it is: there is no value that could be written again.
    ///
    /// # Errors
    /// No space, or a batch or a tree is damaged: then the batch stays where it is.
    pub fn recover(
        &self,
        trees: &Trees<G, M>,
        session: &mut Session<M>,
    ) -> Result<Redone, IndexError> {
        let mut redone = Redone::default();
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
            redo(trees, session, batch, &mut redone.damaged)?;
            // Persist: the changes before the batch is erased (J1); each was durable when it
            // returned.
            self.tree.change(session, &Change::upsert(key, &[]))?;
            if M::mutant("journal.recovers_one") {
                break;
            }
        }
        redone.batches = found.len();
        Ok(redone)
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
        let batch = encode(session, operations)?;
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
            .and_then(|()| self.enter(session, &slot, &batch))
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

    /// Enters a batch. Returns the record that will erase it.
    fn enter<'a>(
        &'a self,
        session: &mut Session<M>,
        slot: &'a [u8],
        batch: &[u8],
    ) -> Result<StagedWrite<'a, G, M>, IndexError> {
        let erasure = self.tree.prepare(session, &Change::upsert(slot, &[]))?;
        if M::mutant("journal.no_entry") {
            return Ok(erasure);
        }
        let entry = self.tree.prepare(session, &Change::upsert(slot, batch));
        // Persist: the batch before its first change (J1).
        let entered = entry.and_then(|entry| self.replace(session, &entry));
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

impl<'a, G: Geometry, M: Machine> Changes<'a, G, M> {
    pub(crate) fn with_capacity(count: usize) -> Self {
        Changes {
            all: Vec::with_capacity(count),
            puts: 0,
            expiries: vec![],
            olds: Vec::with_capacity(count),
        }
    }

    /// Everything that needs space: the records of all values, and some blocks. Whatever was prepared
    /// when it fails stays here.
    fn prepare(
        &mut self,
        session: &mut Session<M>,
        operations: &[BatchOp<'a, G, M>],
    ) -> Result<(), IndexError> {
        self.prepare_without_blocks(session, operations)?;
        for (class, puts) in self.puts_by_class(session)?.into_iter().enumerate() {
            if let Some(puts) = puts {
                session.reserve_blocks_of(class, (2 * puts + 2).min(RESERVE_MAX >> class))?;
            }
        }
        Ok(())
    }

    /// The records of all values. Behind the puts come the expiries that have to be written again, and removals last: they
    /// need no space, so nothing that was removed ever has to be taken back.
    pub(crate) fn prepare_without_blocks(
        &mut self,
        session: &mut Session<M>,
        operations: &[BatchOp<'a, G, M>],
    ) -> Result<(), IndexError> {
        let (mut expiries, mut removals) = (0, 0);
        for BatchOp { tree, change } in operations {
            match change.what {
                What::Expire => expiries += 1,
                What::Remove => removals += 1,
                _ => self.all.push(tree.prepare(session, change)?),
            }
        }
        if expiries > 0 {
            self.prepare_expiries(session, operations)?;
        }
        self.puts = self.all.len();
        if removals > 0 && !M::mutant("journal.forgets_removals") {
            let is_removal = |operation: &&BatchOp<'a, G, M>| operation.change.what == What::Remove;
            for operation in operations.iter().filter(is_removal) {
                self.all.push(operation.tree.prepare(session, &operation.change)?);
            }
        }
        Ok(())
    }

    #[cold]
    fn prepare_expiries(
        &mut self,
        session: &mut Session<M>,
        operations: &[BatchOp<'a, G, M>],
    ) -> Result<(), IndexError> {
        let is_expiry = |operation: &&BatchOp<'a, G, M>| operation.change.what == What::Expire;
        for BatchOp { tree, change } in operations.iter().filter(is_expiry) {
            match tree.prepare_expiry(session, change.key, change.expiry_ms)? {
                Some(StagedChange::InPlace(expiry)) => {
                    if M::mutant("journal.expires_first") {
                        expiry.make(session)?;
                    }
                    self.expiries.push(expiry);
                }
                Some(StagedChange::Write(write)) => {
                    M::mark("journal.expiry_written_again");
                    self.all.push(write);
                }
                None => {}
            }
        }
        Ok(())
    }

    /// How many puts go to trees whose blocks are of each class; none where no change does.
    fn puts_by_class(
        &self,
        session: &mut Session<M>,
    ) -> Result<[Option<usize>; BLOCK_CLASS_COUNT], IndexError> {
        let (mut counts, mut last) = ([None; BLOCK_CLASS_COUNT], 0);
        for (index, change) in self.all.iter().enumerate() {
            let before = index.checked_sub(1).map(|before| self.all[before].tree);
            let again = before.is_some_and(|before| std::ptr::eq(before, change.tree));
            let class = if again { last } else { change.tree.block_class(session)? };
            last = class;
            *counts[class].get_or_insert(0) += usize::from(index < self.puts);
        }
        Ok(counts)
    }

    /// Frees the records that are in no tree.
    fn free_rest(&mut self, session: &mut Session<M>) {
        for StagedWrite { write, .. } in self.all.drain(self.olds.len()..) {
            if !write.intent.removes() {
                free_payload(session, write.payload);
            }
        }
    }

    /// Makes all changes, or none if there is no space for a put.
    pub(crate) fn make(&mut self, session: &mut Session<M>) -> Result<(), NotMade> {
        let mut refusals = 0;
        while self.olds.len() < self.all.len() {
            let rest = &self.all[self.olds.len()..];
            let near = rest.iter().take(pin_length::<M>());
            let mixes = M::mutant("journal.mixes_trees");
            let length =
                near.take_while(|next| mixes || std::ptr::eq(next.tree, rest[0].tree)).count();
            let (olds, before) = (&mut self.olds, self.all.len() - rest.len());
            let result = rest[0].tree.make(session, &rest[..length], |old| olds.push(old));
            if M::mutant("journal.retires_each_pin") {
                self.retire_olds(session, before);
            }
            let Err(error) = result else { continue };
            if self.olds.len() < self.puts {
                self.free_rest(session);
                let taken_back = self.olds.len();
                self.roll_back(session)?;
                return Err(NotMade { error, taken_back });
            }
            match error {
                // A tree that is gone has no keys.
                IndexError::Removed if !M::mutant("journal.stops_at_removed") => {
                    self.olds.push(None);
                }
                error => await_space::<M>(error, &mut refusals)?,
            }
        }
        for expiry in &self.expiries {
            M::mark("journal.expires_in_place");
            match expiry.make(session) {
                // A tree that is gone has no keys.
                Err(IndexError::Removed) if !M::mutant("journal.expiry_needs_tree") => {}
                Ok(()) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if !M::mutant("journal.retires_each_pin") {
            self.retire_olds(session, 0);
        }
        Ok(())
    }

    /// Retires what the changes from this one on have replaced.
    fn retire_olds(&self, session: &mut Session<M>, first: usize) {
        for (change, old) in self.all.iter().zip(&self.olds).skip(first) {
            if let Some(old) = *old {
                change.tree.retire_payload(session, old);
            }
        }
    }

    /// Puts back what the changes replaced, the last one first (J3).
    fn roll_back(&mut self, session: &mut Session<M>) -> Result<(), IndexError> {
        M::mark("journal.taken_back");
        let mut refusals = 0;
        for (change, old) in self.all.iter().zip(self.olds.drain(..)).rev() {
            while let Err(error) = change.tree.roll_back(session, change, old) {
                if matches!(error, IndexError::Removed) {
                    // It took its records along.
                    break;
                }
                await_space::<M>(error, &mut refusals)?;
            }
        }
        Ok(())
    }
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
    changes.prepare(session, operations).inspect_err(|_| changes.free_rest(session))?;
    changes.make(session).map_err(|not_made| not_made.error)
}

/// Waits a little if a removal, or what needs no more space than one, was refused for lack of space, or
/// because the kernel refused to give some: that is so only while another thread, which has the space
/// for it, replaces the leaf. So too where memory was refused to replace a leaf that somebody froze: half a
/// batch would be worse than waiting.
fn await_space<M: Machine>(error: IndexError, refusals: &mut u32) -> Result<(), IndexError> {
    let no_memory = matches!(error, IndexError::Alloc(AllocError::OutOfMemory));
    let waits = no_memory && !M::mutant("journal.stops_without_memory");
    if !waits && !error.lacks_space() {
        return Err(error);
    }
    M::mark("journal.refused_without_space");
    M::spin(*refusals);
    *refusals = refusals.wrapping_add(1);
    Ok(())
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
    for (tree, change) in changes {
        // A tree cannot have gone while a batch of it was there; if it is not to be found, the
        // pool's directory was damaged and said so when it was opened.
        let Some(tree) = trees.bytes_tree_of_id(session, tree) else { continue };
        if change.what == What::Remove && M::mutant("journal.redo_skips_removals") {
            continue;
        }
        let forgets = M::mutant("journal.redo_forgets_expiry");
        let change = if forgets { change.expiring(0) } else { change };
        if change.what == What::Expire {
            // Also if the time has come that it had: when the batch was made it had not.
            if M::mutant("journal.redo_skips_expiries") {
                continue;
            }
            match tree.set_expiry(session, change.key, change.expiry_ms) {
                // One damaged record is no reason to refuse all others.
                Err(error @ IndexError::Alloc(AllocError::Corrupt { .. })) => damaged.push(error),
                done => drop(done?),
            }
            continue;
        }
        tree.change(session, &change)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
