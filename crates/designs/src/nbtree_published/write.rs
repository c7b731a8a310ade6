//! Insert, update, remove: Algorithms 1, 3 and 4.

use everleaf_alloc::{AllocError, Session};
use everleaf_index::Geometry;
use everleaf_index::build::{Change, Effect, Intent, Outcome};
use everleaf_machine::{Machine, Ordering};

use super::NbPublished;
use super::layout::{Leaf, fingerprint};
use super::search::Entry;
use super::state::{SMO, plain};
use super::variant::Variant;

impl<V: Variant, G: Geometry, M: Machine> NbPublished<V, G, M> {
    /// Performs a write. The session is pinned.
    #[inline]
    pub(super) fn write(
        &self,
        session: &mut Session<M>,
        change: &Change,
    ) -> Result<Outcome, AllocError> {
        loop {
            let leaf = self.find_leaf(session, change.key);
            let Some(_held) = self.hold_for_write(leaf) else { continue };
            if let Some(outcome) = self.write_in(session, leaf, change)? {
                return Ok(outcome);
            }
        }
    }

    /// One attempt in the leaf that was found. `None`: the leaf was replaced, start over.
    #[inline(always)]
    fn write_in(
        &self,
        session: &mut Session<M>,
        leaf: &Leaf<M>,
        change: &Change,
    ) -> Result<Option<Outcome>, AllocError> {
        let found = self.find(leaf, change.key);
        let (outcome, effect) = change.decide(found.map(|entry| plain(entry.value)));
        match (effect, found) {
            (Effect::Put, None) => self.append(session, leaf, change),
            (Effect::Put, Some(entry)) => Ok(Some(self.update(leaf, entry, change))),
            (Effect::Delete, Some(entry)) => Ok(Some(self.remove(leaf, entry, change.key))),
            (Effect::None, _) | (Effect::Delete, None) => Ok(Some(outcome)),
        }
    }

    /// Claims a slot, fills it and commits it. `None`: start over.
    #[inline(always)]
    fn append(
        &self,
        session: &mut Session<M>,
        leaf: &Leaf<M>,
        change: &Change,
    ) -> Result<Option<Outcome>, AllocError> {
        // Relaxed: a look that saves the counter from growing without bound.
        let is_full = leaf.num.load(Ordering::Relaxed) as usize >= Self::CAPACITY;
        // Relaxed: the add alone decides which thread owns the slot; contents are ordered by the commit.
        let claimed = || leaf.num.fetch_add(1, Ordering::Relaxed) as usize;
        let slot = if is_full { usize::MAX } else { claimed() };
        if slot >= Self::CAPACITY {
            // AcqRel: no commit may follow, and a thread that sees the bit sees what was committed; pairs
            // with the commit below.
            leaf.bitmap.fetch_or(SMO, Ordering::AcqRel);
            self.replace(session, leaf)?;
            return Ok(None);
        }
        let entry = &self.block(leaf).slots[slot];
        if M::mutant("nbtree_published.key_first") {
            // Release: as the store of the key behind the value; the planted bug is only that it comes too early.
            entry.key.store(change.key, Ordering::Release);
        }
        // Relaxed: ordered by the key.
        entry.value.store(change.value, Ordering::Relaxed);
        // Release: the value before the key, for a crash as for readers (NP3).
        entry.key.store(change.key, Ordering::Release);
        if !M::mutant("nbtree_published.no_insert_flush") {
            // Persist: the entry before it can be seen.
            self.medium.persist(entry.as_ptr(), 16);
        }
        // Relaxed: published with the slot by the commit.
        leaf.fingerprints.store(slot, fingerprint::<M>(change.key), Ordering::Relaxed);
        // Relaxed: the exchange checks it again.
        let mut bitmap = leaf.bitmap.load(Ordering::Relaxed);
        loop {
            if bitmap & SMO != 0 && !M::mutant("nbtree_published.late_commit") {
                // The slot stays behind, used up.
                M::mark("nbtree_published.commit_failed");
                self.replace(session, leaf)?;
                return Ok(None);
            }
            // AcqRel: publishes entry and fingerprint to a thread that sees the bit; pairs with the loads
            // of the bitmap. Relaxed on failure: looked at again.
            match leaf.bitmap.compare_exchange(
                bitmap,
                bitmap | 1 << slot,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(Some(Outcome { changed: true, old: None })),
                Err(now) => bitmap = now,
            }
        }
    }

    /// Replaces the value in place.
    #[inline(always)]
    fn update(&self, leaf: &Leaf<M>, entry: Entry, change: &Change) -> Outcome {
        let slot = &self.block(leaf).slots[entry.slot];
        let old = if let Intent::Exchange(expected) = change.intent {
            let mut now = entry.value;
            loop {
                if plain(now) != expected {
                    return Outcome { changed: false, old: Some(plain(now)) };
                }
                // AcqRel: as every change of a value; pairs with the load in `find`.
                match slot.value.compare_exchange(
                    now,
                    change.value,
                    Ordering::AcqRel,
                    Ordering::Acquire,
                ) {
                    Ok(old) => break old,
                    Err(other) => now = other,
                }
            }
        } else {
            // AcqRel: pairs with the load in `find`. Whatever is there, as published; the exchange only says what it
            // was.
            slot.value.swap(change.value, Ordering::AcqRel)
        };
        if !M::mutant("nbtree_published.no_update_flush") {
            // Persist: the value before we say that it is there.
            self.medium.persist(slot.as_ptr(), 16);
        }
        if let Some(left) = self.copy_of(leaf)
            && !M::mutant("nbtree_published.no_sync_on_write")
        {
            self.sync_update(slot, self.side(left, change.key), change.key);
        }
        Outcome { changed: true, old: Some(plain(old)) }
    }

    /// Removes the key in place.
    #[inline(always)]
    fn remove(&self, leaf: &Leaf<M>, entry: Entry, key: u64) -> Outcome {
        let slot = &self.block(leaf).slots[entry.slot];
        // AcqRel: of several removers in this leaf one gets the key; pairs with the load in `find`.
        // Where the leaf has been replaced meanwhile, somebody may take the key from the copy too,
        // and both say that they removed it: as published, nothing looks again.
        let is_gone = slot.key.swap(0, Ordering::AcqRel) == 0;
        if is_gone && !M::mutant("nbtree_published.removes_twice") {
            M::mark("nbtree_published.removed_already");
            return Outcome { changed: false, old: None };
        }
        // Acquire: pairs with the exchanges of values.
        let old = slot.value.load(Ordering::Acquire);
        if !M::mutant("nbtree_published.no_update_flush") {
            // Persist: the removal before we say that it happened.
            self.medium.persist(slot.as_ptr(), 16);
        }
        if let Some(left) = self.copy_of(leaf)
            && !M::mutant("nbtree_published.no_sync_on_write")
        {
            self.sync_remove(self.side(left, key), key);
        }
        Outcome { changed: true, old: Some(plain(old)) }
    }
}
