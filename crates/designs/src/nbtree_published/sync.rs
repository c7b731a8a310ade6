//! Bringing copies up to date: the sync phase of Algorithm 2, and sync-on-write.

use everleaf_index::Geometry;
use everleaf_machine::{Machine, Ordering};

use super::NbPublished;
use super::layout::{Leaf, Slot};
use super::state::{COMMITTED, COPIED, SYNC, SYNCED, plain};
use super::variant::Variant;

/// How far the sync phase has come in one copy.
struct Cursor<'t, M: Machine> {
    copy: &'t Leaf<M>,
    slot: usize,
}

/// What became of an entry of the old leaf.
enum Matched {
    /// Its copy is up to date, or there is none any more.
    Yes,
    /// The leaf was linked meanwhile: nothing is left to do, and nothing may be done.
    Linked,
}

impl<V: Variant, G: Geometry, M: Machine> NbPublished<V, G, M> {
    /// The sync phase: entries of the old leaf and of its copies, which are in the same order, in
    /// lock-step. False if the leaf was linked meanwhile.
    pub(super) fn synchronize(&self, leaf: &Leaf<M>, left: &Leaf<M>) -> bool {
        M::mark("nbtree_published.sync");
        let block = self.block(leaf);
        let right = left.right();
        let mut cursors = vec![Cursor { copy: left, slot: 0 }];
        if !right.is_null() {
            cursors.push(Cursor { copy: self.leaf(right), slot: 0 });
        }
        // Acquire: the committed slots are written, and final since the leaf is being replaced.
        let mut rest = leaf.bitmap.load(Ordering::Acquire) & COMMITTED;
        while rest != 0 {
            let slot = &block.slots[rest.trailing_zeros() as usize];
            rest &= rest - 1;
            // Acquire: pairs with the exchange in `remove`.
            let key = slot.key.load(Ordering::Acquire);
            // Acquire: pairs with the exchanges of values.
            let value = plain(slot.value.load(Ordering::Acquire));
            if key == 0 {
                continue;
            }
            let to = self.side(left, key);
            let cursor = cursors.iter_mut().find(|cursor| std::ptr::eq(cursor.copy, to));
            let cursor = cursor.expect("a key belongs to one of the copies");
            match self.match_entry(leaf, slot, (key, value), cursor) {
                Matched::Yes => {}
                Matched::Linked => return false,
            }
        }
        for cursor in &mut cursors {
            // What is left in a copy was removed from the old leaf, if nobody has written to it.
            while let Some(slot) = self.next_entry(cursor) {
                if self.is_linked(leaf) {
                    return false;
                }
                // Acquire: pairs with the exchanges of values.
                let untouched = slot.value.load(Ordering::Acquire) & COPIED != 0;
                if untouched && !M::mutant("nbtree_published.no_tail") {
                    self.erase(slot);
                }
                cursor.slot += 1;
            }
        }
        // AcqRel: a thread that sees it finds the copies up to date; pairs with the load in `search`.
        leaf.flag.fetch_or(SYNC, Ordering::AcqRel);
        true
    }

    /// Finds the copy of an entry; on the way, entries that the old leaf has no more are erased.
    fn match_entry(
        &self,
        leaf: &Leaf<M>,
        old: &Slot<M>,
        (key, value): (u64, u64),
        cursor: &mut Cursor<'_, M>,
    ) -> Matched {
        while let Some(slot) = self.next_entry(cursor) {
            // Acquire: as in `synchronize`.
            let found = slot.key.load(Ordering::Acquire);
            if found == key {
                // Acquire: as in `synchronize`.
                let now = slot.value.load(Ordering::Acquire);
                if plain(now) != value {
                    M::mark("nbtree_published.sync.writes");
                    self.exchange(slot, now | COPIED, value | SYNCED);
                }
                cursor.slot += 1;
                return Matched::Yes;
            }
            if self.is_linked(leaf) {
                return Matched::Linked;
            }
            // Acquire: as in `synchronize`.
            if old.key.load(Ordering::Acquire) == 0 {
                // Removed after we read it, and from the copy too.
                return Matched::Yes;
            }
            M::mark("nbtree_published.sync.erases");
            self.erase(slot);
            cursor.slot += 1;
        }
        Matched::Yes
    }

    /// The next entry of a copy that has a key, among those that were copied.
    fn next_entry(&self, cursor: &mut Cursor<'_, M>) -> Option<&Slot<M>> {
        let block = self.block(cursor.copy);
        while cursor.slot < cursor.copy.copied() {
            let slot = &block.slots[cursor.slot];
            // Acquire: as in `synchronize`.
            if slot.key.load(Ordering::Acquire) != 0 {
                return Some(slot);
            }
            cursor.slot += 1;
        }
        None
    }

    /// Sync-on-write of an update of `old`: the copy's value becomes the latest one of the old
    /// leaf, unless somebody has written to the copy as to a leaf.
    #[cold]
    pub(super) fn sync_update(&self, old: &Slot<M>, copy: &Leaf<M>, key: u64) {
        M::mark("nbtree_published.sync_on_write");
        let Some(entry) = self.find(copy, key) else { return };
        let slot = &self.block(copy).slots[entry.slot];
        loop {
            // Acquire: pairs with the exchanges of values.
            let now = slot.value.load(Ordering::Acquire);
            // Acquire: pairs with the exchanges of values.
            let latest = plain(old.value.load(Ordering::Acquire));
            let is_final = now & (COPIED | SYNCED) == 0;
            if is_final || plain(now) == latest || self.exchange(slot, now, latest | SYNCED) {
                return;
            }
        }
    }

    /// Sync-on-write of a removal.
    #[cold]
    pub(super) fn sync_remove(&self, copy: &Leaf<M>, key: u64) {
        M::mark("nbtree_published.sync_on_write");
        if let Some(entry) = self.find(copy, key) {
            self.erase(&self.block(copy).slots[entry.slot]);
        }
    }

    /// Changes a value of a copy, durably, if it is still `from`.
    fn exchange(&self, slot: &Slot<M>, from: u64, to: u64) -> bool {
        // AcqRel: as every change of a value; pairs with the load in `find`. Relaxed on failure:
        // nothing is read.
        let done =
            slot.value.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if done {
            // Persist: the value before the copy is linked or the write returns.
            self.medium.persist(slot.as_ptr(), 16);
        }
        done
    }

    /// Erases an entry of a copy, durably.
    fn erase(&self, slot: &Slot<M>) {
        // Release: pairs with the load in `find`.
        slot.key.store(0, Ordering::Release);
        // SeqCst: the paper's `mfence`; the erasure is in no store buffer when we go on.
        M::fence(Ordering::SeqCst);
        // Persist: the removal before the copy is linked or the write returns.
        self.medium.persist(slot.as_ptr(), 16);
    }
}
