//! Finding the leaf for a key, the entry in the leaf, and sync-on-read.

use everleaf_alloc::Session;
use everleaf_index::Geometry;
use everleaf_machine::{LINE_SIZE, Machine, Ordering};

use super::NbPublished;
use super::layout::{Leaf, fingerprint};
use super::lock::Held;
use super::state::{COMMITTED, COPIED, SYNC, SYNCED, plain};
use super::variant::Variant;

/// A slot that holds a key, and its value word.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub slot: usize,
    /// With the bits of the protocol.
    pub value: u64,
}

impl<V: Variant, G: Geometry, M: Machine> NbPublished<V, G, M> {
    /// The leaf for `key` at some instant of this call.
    #[inline(always)]
    pub(super) fn find_leaf(&self, session: &mut Session<M>, key: u64) -> &Leaf<M> {
        let place = self.inner.find(key);
        M::prefetch(place.cast());
        M::prefetch(place.cast::<u8>().wrapping_add(LINE_SIZE));
        let leaf = self.leaf(place);
        if self.is_linked(leaf) { self.follow(session, leaf, key) } else { leaf }
    }

    /// From a leaf that was replaced, and not yet in the inner nodes, to the one that has the key.
    #[cold]
    fn follow<'t>(
        &'t self,
        session: &mut Session<M>,
        mut leaf: &'t Leaf<M>,
        key: u64,
    ) -> &'t Leaf<M> {
        M::mark("nbtree_published.follow");
        self.try_install(session, key);
        while self.is_linked(leaf) {
            let copy = self.copy_of(leaf).expect("a leaf is linked when it has copies");
            leaf = self.side(copy, key);
        }
        leaf
    }

    /// Locks the leaf for a write, in the variants that do. `None`: it is out of the tree by now.
    #[inline(always)]
    pub(super) fn hold_for_write<'l>(&self, leaf: &'l Leaf<M>) -> Option<Held<'l, M>> {
        if !V::WRITERS_LOCK {
            return Some(Held::nothing());
        }
        let held = Held::write(&leaf.lock);
        let missing = self.is_linked(leaf) && !M::mutant("nbtree_published.no_recheck");
        (!missing).then_some(held)
    }

    /// As [`Self::hold_for_write`], for a read.
    #[inline(always)]
    pub(super) fn hold_for_read<'l>(&self, leaf: &'l Leaf<M>) -> Option<Held<'l, M>> {
        if !V::READERS_LOCK {
            return Some(Held::nothing());
        }
        let held = Held::read(&leaf.lock);
        (!self.is_linked(leaf)).then_some(held)
    }

    /// The entry of `key` among the committed slots of the leaf.
    #[inline(always)]
    pub(super) fn find(&self, leaf: &Leaf<M>, key: u64) -> Option<Entry> {
        // Acquire: committed slots and their fingerprints are written; pairs with the commit in
        // `write.rs`.
        let bitmap = leaf.bitmap.load(Ordering::Acquire);
        let mut hits = leaf.fingerprints.matches(fingerprint::<M>(key)) & bitmap & COMMITTED;
        if hits == 0 {
            return None;
        }
        let block = self.block(leaf);
        while hits != 0 {
            let slot = hits.trailing_zeros() as usize;
            hits &= hits - 1;
            let entry = &block.slots[slot];
            // Acquire: what a remover did before is seen; pairs with the exchange in `write.rs`.
            if entry.key.load(Ordering::Acquire) == key {
                // Acquire: pairs with the exchanges of values.
                return Some(Entry { slot, value: entry.value.load(Ordering::Acquire) });
            }
        }
        None
    }

    /// The value of `key`.
    #[inline]
    pub(super) fn get(&self, session: &mut Session<M>, key: u64) -> Option<u64> {
        loop {
            let leaf = self.find_leaf(session, key);
            let Some(_held) = self.hold_for_read(leaf) else { continue };
            if V::WRITERS_LOCK {
                // Nobody writes to a leaf and its copies at a time: there is nothing to
                // synchronise.
                return self.find(leaf, key).map(|entry| plain(entry.value));
            }
            return self.search(leaf, key);
        }
    }

    /// The value of `key` in a leaf that may be about to be replaced: Algorithm 5.
    #[inline(always)]
    fn search<'t>(&'t self, mut leaf: &'t Leaf<M>, key: u64) -> Option<u64> {
        loop {
            let found = self.find(leaf, key);
            let Some(left) = self.copy_of(leaf) else {
                return found.map(|entry| plain(entry.value));
            };
            let copy = self.side(left, key);
            // Acquire: the copies are up to date; pairs with the release in `sync.rs`.
            if leaf.flag.load(Ordering::Acquire) & SYNC == 0 {
                return self.sync_on_read(copy, key, found);
            }
            leaf = copy;
        }
    }

    /// Makes the copy's entry that of the old leaf, as it was found there, and answers from the
    /// copy.
    #[cold]
    fn sync_on_read(&self, copy: &Leaf<M>, key: u64, found: Option<Entry>) -> Option<u64> {
        M::mark("nbtree_published.sync_on_read");
        let new = self.find(copy, key)?;
        let slot = &self.block(copy).slots[new.slot];
        match found {
            None => {
                M::mark("nbtree_published.sync_on_read.erases");
                // Release: pairs with the load in `find`.
                slot.key.store(0, Ordering::Release);
                // SeqCst: the paper's `mfence`; the erasure is in no store buffer when we answer.
                M::fence(Ordering::SeqCst);
            }
            Some(old) if plain(old.value) != plain(new.value) => {
                M::mark("nbtree_published.sync_on_read.writes");
                let (from, to) = (new.value | COPIED, plain(old.value) | SYNCED);
                // AcqRel: as every change of a value; pairs with the load in `find`. Relaxed on
                // failure: nothing is read.
                let _ = slot.value.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
            }
            Some(_) => {}
        }
        // Persist: what we answer, for the copy may be in the list by now.
        self.medium.persist(slot.as_ptr(), 16);
        // Acquire: as in `find`.
        if slot.key.load(Ordering::Acquire) == 0 {
            return None;
        }
        // Acquire: as in `find`.
        Some(plain(slot.value.load(Ordering::Acquire)))
    }
}
