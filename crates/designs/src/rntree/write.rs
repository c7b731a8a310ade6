//! Writes: reserve an entry, make it durable, then lock and make it count.

use everleaf_alloc::Session;
use everleaf_index::build::{Change, Effect, Outcome};
use everleaf_index::{Geometry, IndexError};
use everleaf_machine::{LINE_SIZE, LineStore, Machine, Ordering};

use super::leaf::{ENTRY_COUNT, Leaf, RnLeaf, Seen, View};
use super::variant::Variant;
use crate::node::entry::ENTRY_SIZE;
use crate::node::hybrid::Hybrid;
use crate::node::hybrid::leaf::Target;
use crate::node::slot_pair::PairSlots;
use crate::node::version_lock::Retry;

/// Why a try did not succeed.
enum Failed {
    /// The leaf has changed, or somebody is in the way: from the root again.
    Again(Retry),
    /// No entry is left.
    Full,
}

type Tried<T> = Result<T, Failed>;

impl<V: Variant, G: Geometry, M: Machine> Hybrid<RnLeaf<V>, G, M> {
    /// One write.
    #[inline(always)]
    pub(super) fn write_log(
        &self,
        session: &mut Session<M>,
        change: &Change,
    ) -> Result<Outcome, IndexError> {
        let mut attempt = 0;
        loop {
            let target = self.descend_to_write(session, change.key);
            match self.try_write(&target, change) {
                Ok(outcome) => return Ok(outcome),
                Err(Failed::Again(retry)) => retry.pause::<M>(&mut attempt),
                Err(Failed::Full) => {
                    let retry = self.replace_full(session, target.found.leaf)?;
                    retry.pause::<M>(&mut attempt);
                }
            }
            M::mark("rntree.write_again");
        }
    }

    #[inline(always)]
    fn try_write(&self, target: &Target<'_, RnLeaf<V>, M>, change: &Change) -> Tried<Outcome> {
        // What the write would do, by a reader's eyes: a write without effect takes no entry, and
        // what was seen need not be searched for again under the lock if it still holds.
        let leaf = target.leaf;
        let look = |view| RnLeaf::<V>::locate(self.context, leaf, view, change.key);
        let (mut seen, view) = self.try_view(target, look).map_err(Failed::Again)?;
        match change.decide(seen.old) {
            (outcome, Effect::None) => Ok(outcome),
            (_, Effect::Put) => self.put(leaf, view, &mut seen, change),
            (_, Effect::Delete) => self.delete(leaf, view, &mut seen, change),
        }
    }

    /// Insert or update (Algorithm 1).
    #[inline(always)]
    fn put(&self, leaf: &Leaf<M>, view: View, seen: &mut Seen, change: &Change) -> Tried<Outcome> {
        let slot = self.reserve(leaf, view)?;
        let entry = leaf.entries.at(slot);
        entry.set(change.key, change.value);
        if !M::mutant("rntree.no_entry_flush") {
            // Persist: the entry before the slot array names it, and before the lock is taken, so
            // that nobody waits for it (R1).
            self.context.medium.persist(entry.as_ptr(), ENTRY_SIZE);
        }
        self.lock(leaf);
        let line = leaf.current(self.context);
        self.see_again(leaf, line, view, seen, change.key);
        // Somebody may have written the key since it was read.
        let (outcome, effect) = change.decide(seen.old);
        if effect == Effect::None && !M::mutant("rntree.no_recheck") {
            M::mark("rntree.overtaken");
            leaf.complete();
            leaf.header.lock.unlock_unchanged();
            return Ok(outcome);
        }
        match seen.found {
            Ok((place, _)) if !M::mutant("rntree.no_recheck") => seen.slots.replace(place, slot),
            Ok((place, _)) | Err(place) => seen.slots.insert(place, slot),
        }
        self.publish(leaf, line, &seen.slots);
        leaf.complete();
        leaf.header.lock.unlock();
        Ok(outcome)
    }

    /// Makes `seen` what the leaf says of the key now that its lock is held: it is that already, if
    /// nobody has changed the leaf since (R6).
    #[inline(always)]
    fn see_again(&self, leaf: &Leaf<M>, line: usize, view: View, seen: &mut Seen, key: u64) {
        if !RnLeaf::<V>::is_as_in(leaf, view) && !M::mutant("rntree.trusts_seen") {
            M::mark("rntree.searched_under_lock");
            *seen = Seen::new(leaf, leaf.slots.read(line), key);
        }
    }

    /// Remove (section 5.2.3).
    fn delete(
        &self,
        leaf: &Leaf<M>,
        view: View,
        seen: &mut Seen,
        change: &Change,
    ) -> Tried<Outcome> {
        self.lock(leaf);
        if leaf.reserved().0 != view.rewrites {
            leaf.header.lock.unlock_unchanged();
            return Err(Failed::Again(Retry::Now));
        }
        let line = leaf.current(self.context);
        let before = seen.old;
        self.see_again(leaf, line, view, seen, change.key);
        let Ok((place, _)) = seen.found else {
            leaf.header.lock.unlock_unchanged();
            if M::mutant("rntree.removes_twice") {
                return Ok(change.decide(before).0);
            }
            return Ok(Outcome { changed: false, old: None });
        };
        // The value may have changed since it was read.
        let (outcome, effect) = change.decide(seen.old);
        if effect == Effect::None {
            leaf.header.lock.unlock_unchanged();
            return Ok(outcome);
        }
        seen.slots.remove(place);
        self.publish(leaf, line, &seen.slots);
        leaf.header.lock.unlock();
        Ok(outcome)
    }

    /// Takes the next entry of a leaf (Algorithm 2) that has not been rewritten since `view` (R4).
    #[inline(always)]
    fn reserve(&self, leaf: &Leaf<M>, view: View) -> Tried<usize> {
        loop {
            let (rewrites, count) = leaf.reserved();
            if rewrites & 1 != 0 {
                return Err(Failed::Again(Retry::Wait));
            }
            if rewrites != view.rewrites && !M::mutant("rntree.no_revalidation") {
                return Err(Failed::Again(Retry::Now));
            }
            if count >= self.context.capacity {
                return Err(Failed::Full);
            }
            let word = rewrites << 32 | count as u64;
            // Relaxed: the entry is ours by the exchange alone; what it held is not read. A leaf that
            // was rewritten meanwhile has another word.
            let taken = leaf.reserved.compare_exchange(
                word,
                word + 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            if taken.is_ok() {
                return Ok(count);
            }
        }
    }

    /// Takes the leaf's lock. It is never dead: leaves are not removed.
    #[inline(always)]
    fn lock(&self, leaf: &Leaf<M>) {
        let mut attempt = 0;
        while !leaf.header.lock.try_lock(self.context.generation) {
            M::spin(attempt);
            attempt += 1;
        }
    }

    /// Makes a new version of the slot array durable and visible. The caller holds the lock.
    #[inline(always)]
    fn publish(&self, leaf: &Leaf<M>, line: usize, slots: &PairSlots) {
        debug_assert!(slots.is_valid(ENTRY_COUNT) || M::SIMULATED);
        if M::mutant("rntree.in_place") {
            leaf.slots.overwrite(line, slots);
            // Persist: the line before the lock is opened; a crash before may tear it.
            self.context.medium.persist(leaf.slots.line(line), LINE_SIZE);
            leaf.switch(self.context, line, V::DUAL);
            return;
        }
        if V::LINE_STORE.is_some_and(|how| leaf.slots.overwrite_at_once(line, slots, how)) {
            if !M::mutant("rntree.no_slot_flush") {
                // Persist: the slot line before the lock is opened, or a reader could see what a
                // crash takes back.
                self.persist_stored(leaf, line);
            }
            return;
        }
        let next = leaf.slots.publish(line, slots);
        if M::mutant("rntree.early_switch") {
            leaf.switch(self.context, next, V::DUAL);
        }
        if !M::mutant("rntree.no_slot_flush") {
            // Persist: the slot line before readers are sent to it, by the switch or by the opening
            // of the lock (R5).
            self.context.medium.persist(leaf.slots.line(next), LINE_SIZE);
        }
        leaf.switch(self.context, next, V::DUAL);
    }

    /// Makes a slot line durable that was stored at once.
    #[inline(always)]
    fn persist_stored(&self, leaf: &Leaf<M>, line: usize) {
        if V::LINE_STORE == Some(LineStore::Direct) {
            // Persist: the line before the lock is opened; it is on its way already.
            self.context.medium.drain();
        } else {
            // Persist: the line before the lock is opened.
            self.context.medium.persist(leaf.slots.line(line), LINE_SIZE);
        }
    }

    /// Splits or compacts a leaf without free entries, once the owners of all are done.
    #[cold]
    fn replace_full(&self, session: &mut Session<M>, offset: u64) -> Result<Retry, IndexError> {
        let leaf = self.leaf(offset);
        if !leaf.header.lock.try_lock(self.context.generation) {
            return Ok(Retry::Wait);
        }
        let (_, reserved) = leaf.reserved();
        let is_full = reserved >= self.context.capacity;
        let is_done = leaf.completed() >= self.context.capacity || M::mutant("rntree.early_split");
        if !(is_full && is_done) {
            M::mark("rntree.wait_for_owners");
            leaf.header.lock.unlock_unchanged();
            return Ok(if is_full { Retry::Wait } else { Retry::Now });
        }
        let done = self.rewrite(session, offset);
        leaf.header.lock.unlock();
        done.map(|()| Retry::Now)
    }
}
