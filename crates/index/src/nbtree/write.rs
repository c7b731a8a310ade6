//! Insert, update, upsert, remove, compare-and-exchange: one loop for all.
//!
//! An existing entry is changed by one compare-and-exchange of the entry. A new one is claimed,
//! written as `PENDING`, committed in `meta` by a compare-and-exchange that validates that no other
//! committed slot holds the key, and then made `LIVE`. A leaf that is full or freezing is replaced
//! first, and the replacement may carry the operation with it (`split.rs`).

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Machine, Ordering, Pair};

use super::NbTree;
use super::layout::{BLOCK_HEADER_SIZE, Leaf};
use super::shared::Shared;
use super::state::{COMMITTED, FREEZING, FROZEN, LIVE, PENDING, TOMB};
use crate::api::change::{Intent, Outcome};
use crate::geometry::Geometry;
use crate::kind::Kind;
use crate::once::once;

/// One write: the key, what to do, and the payload to store.
pub(crate) struct Write<'k, K: Kind<M>, M: Machine> {
    pub key: K::Key<'k>,
    pub intent: Intent,
    pub payload: u64,
}

/// `Adr` domain: while it exists, readers of the leaf persist what they read.
///
/// It begins before anything of the write can be seen, and ends after the write is durable (I11).
struct InFlight<M: Machine> {
    leaf: Option<Shared<Leaf<M>>>,
}

impl<M: Machine> InFlight<M> {
    #[inline(always)]
    fn begin(leaf: Shared<Leaf<M>>, needed: bool) -> Self {
        if needed {
            // AcqRel: before the write in every thread's eyes; pairs with the load in `observe`.
            leaf.in_flight.fetch_add(1, Ordering::AcqRel);
        }
        InFlight { leaf: needed.then_some(leaf) }
    }

    #[inline(always)]
    fn end(self) {
        if let Some(leaf) = self.leaf {
            // Release: after the persist; pairs with the load in `observe`.
            leaf.in_flight.fetch_sub(1, Ordering::Release);
        }
    }
}

/// What became of an attempt on an existing entry.
enum Attempt {
    Done(Outcome),
    /// The key was removed meanwhile.
    Gone,
    /// The leaf is being replaced.
    Frozen,
}

/// A leaf that the inner nodes gave for a key, of which the first lines are on their way to the cache.
pub(crate) struct Near<M: Machine>(Shared<Leaf<M>>);

impl<K: Kind<M>, G: Geometry, M: Machine> NbTree<K, G, M> {
    /// Goes down to the leaf for `key`, for a write that follows under the same pin: what is done
    /// before it overlaps with the cache misses of the leaf.
    #[inline(always)]
    pub(crate) fn approach(&self, key: K::Key<'_>) -> Near<M> {
        Near(self.descend(key))
    }

    /// [`Self::get_payload`], begun where [`Self::approach`] of the same key came to under the same pin.
    #[inline(always)]
    pub(crate) fn get_near(
        &self,
        session: &mut Session<M>,
        near: &Near<M>,
        key: K::Key<'_>,
    ) -> Option<u64> {
        let (leaf, meta) = self.resolve_from(session, near.0, key);
        self.get_in_leaf(leaf, meta, key)
    }

    /// Performs a write. The session is pinned.
    ///
    /// *Linearizes*: at the exchange of the entry; for a carried write at the leaf's switch.
    /// *Durable* (`Adr`): when it returns; otherwise when it linearizes.
    ///
    /// The parts of the write come one by one, so that the way down starts with a key in registers:
    /// from memory it would be one load of what two stores have just left, which a CPU cannot
    /// forward, and would wait until every store before, such as those of a new record, is in the
    /// cache.
    #[inline(always)]
    pub(crate) fn write(
        &self,
        session: &mut Session<M>,
        key: K::Key<'_>,
        intent: Intent,
        payload: u64,
    ) -> Result<Outcome, AllocError> {
        let near = self.approach(key);
        self.write_near(session, near, key, intent, payload)
    }

    /// [`Self::write`], begun where [`Self::approach`] of the same key came to under the same pin.
    #[inline(always)]
    pub(crate) fn write_near(
        &self,
        session: &mut Session<M>,
        near: Near<M>,
        key: K::Key<'_>,
        intent: Intent,
        payload: u64,
    ) -> Result<Outcome, AllocError> {
        let (leaf, meta) = self.resolve_from(session, near.0, key);
        if intent.inserts() {
            self.prefetch_claim(leaf);
        }
        self.write_from(session, leaf, meta, &Write { key, intent, payload })
    }

    /// Asks for the line of the block that an insertion will write to.
    #[inline(always)]
    fn prefetch_claim(&self, leaf: Shared<Leaf<M>>) {
        if M::SIMULATED {
            // It would only be one more step of the schedule.
            return;
        }
        // Relaxed: a hint.
        let claimed = leaf.claimed.load(Ordering::Relaxed) as usize;
        let block = self.block(leaf).as_ptr().cast::<u8>();
        M::prefetch(block.wrapping_add(BLOCK_HEADER_SIZE + claimed.min(G::SLOT_COUNT - 1) * 16));
    }

    /// [`Self::write`], begun in a leaf that was the authority for the key when `meta` was read, at
    /// or after the pin.
    #[inline(always)]
    pub(super) fn write_from(
        &self,
        session: &mut Session<M>,
        leaf: Shared<Leaf<M>>,
        meta: u64,
        write: &Write<'_, K, M>,
    ) -> Result<Outcome, AllocError> {
        if M::SIMULATED {
            return once(|| self.write_from_here(session, leaf, meta, write));
        }
        self.write_from_here(session, leaf, meta, write)
    }

    /// [`Self::write_from`], compiled into its caller.
    #[inline(always)]
    fn write_from_here(
        &self,
        session: &mut Session<M>,
        mut leaf: Shared<Leaf<M>>,
        mut meta: u64,
        write: &Write<'_, K, M>,
    ) -> Result<Outcome, AllocError> {
        loop {
            if let Some(outcome) = self.attempt(session, leaf, meta, write)? {
                return Ok(outcome);
            }
            (leaf, meta) = self.resolve(session, write.key);
        }
    }

    /// One attempt of a write. `None`: start over.
    #[inline(always)]
    fn attempt(
        &self,
        session: &mut Session<M>,
        leaf: Shared<Leaf<M>>,
        meta: u64,
        write: &Write<'_, K, M>,
    ) -> Result<Option<Outcome>, AllocError> {
        if meta & FREEZING != 0 {
            // Polite: help the freezer instead of fighting it.
            return self.replace_leaf(session, leaf, Some(write));
        }
        let bits = meta & COMMITTED;
        match self.find_live(leaf, bits, write.key, write.intent.inserts()) {
            Some((slot, entry)) => match self.modify(leaf, slot, entry, write) {
                Attempt::Done(outcome) => {
                    if outcome.changed && write.intent.removes() {
                        self.after_remove(session, leaf, write.key);
                    }
                    Ok(Some(outcome))
                }
                Attempt::Gone if M::mutant("nbtree.gone_is_done") => {
                    Ok(Some(Outcome { changed: false, old: None }))
                }
                Attempt::Gone if write.intent.inserts() => Ok(None),
                Attempt::Gone => Ok(Some(Outcome { changed: false, old: None })),
                Attempt::Frozen => self.replace_leaf(session, leaf, Some(write)),
            },
            None if !write.intent.inserts() => Ok(Some(Outcome { changed: false, old: None })),
            None => self.append(session, leaf, bits, write),
        }
    }

    /// Claims a slot, writes the entry and commits it. `None`: start over.
    #[inline(always)]
    fn append(
        &self,
        session: &mut Session<M>,
        leaf: Shared<Leaf<M>>,
        checked: u64,
        write: &Write<'_, K, M>,
    ) -> Result<Option<Outcome>, AllocError> {
        // Relaxed: only a hint that saves the counter from growing without bound.
        let full = leaf.claimed.load(Ordering::Relaxed) as usize >= G::SLOT_COUNT;
        // Relaxed: the add alone decides which thread owns the slot; contents are ordered by the commit.
        let slot =
            if full { usize::MAX } else { leaf.claimed.fetch_add(1, Ordering::Relaxed) as usize };
        if slot >= G::SLOT_COUNT + usize::from(M::mutant("nbtree.one_slot_more")) {
            return self.replace_leaf(session, leaf, Some(write));
        }
        let block = self.block(leaf);
        let state = if M::mutant("nbtree.no_pending") { LIVE } else { PENDING };
        let entry = K::entry(write.key, leaf.skip as usize, write.payload, state);
        block.entries[slot].store(entry);
        // Relaxed: published with the slot by the commit below.
        if !M::mutant("nbtree.fingerprint_late") {
            leaf.fingerprints.store(slot, K::fingerprint(write.key), Ordering::Relaxed);
        }
        let late = M::mutant("nbtree.late_in_flight");
        let in_flight = InFlight::begin(leaf, self.medium.needs_flush() && !late);
        if let Some((slot, entry)) = match self.commit_slot(leaf, slot, checked, write) {
            Commit::Done => None,
            Commit::Exists(slot, entry) => Some((slot, entry)),
            Commit::Freezing => {
                in_flight.end();
                return self.replace_leaf(session, leaf, Some(write));
            }
        } {
            in_flight.end();
            return self.lost_race(session, leaf, (slot, entry), write);
        }
        if M::mutant("nbtree.fingerprint_late") {
            // Relaxed: a planted bug.
            leaf.fingerprints.store(slot, K::fingerprint(write.key), Ordering::Relaxed);
        }
        let in_flight =
            if late { InFlight::begin(leaf, self.medium.needs_flush()) } else { in_flight };
        // Linearization point, unless a helper or the freezer was faster: then this fails, rightly.
        let _ = block.entries[slot].compare_exchange(entry, K::with_state(entry, LIVE));
        if !M::mutant("nbtree.no_insert_flush") {
            // Persist: the entry before we say that it is there (I11).
            self.medium.persist(block.entries[slot].as_ptr(), 16);
        }
        in_flight.end();
        Ok(Some(Outcome { changed: true, old: None }))
    }

    /// Somebody else committed the key first: our slot stays a dead claim.
    #[cold]
    #[inline(never)]
    fn lost_race(
        &self,
        session: &mut Session<M>,
        leaf: Shared<Leaf<M>>,
        (slot, entry): (usize, Pair),
        write: &Write<'_, K, M>,
    ) -> Result<Option<Outcome>, AllocError> {
        M::mark("nbtree.write.lost_race");
        match self.modify(leaf, slot, entry, write) {
            Attempt::Done(outcome) => Ok(Some(outcome)),
            Attempt::Gone if M::mutant("nbtree.lost_race_is_done") => {
                Ok(Some(Outcome { changed: true, old: None }))
            }
            Attempt::Gone => Ok(None),
            Attempt::Frozen => self.replace_leaf(session, leaf, Some(write)),
        }
    }

    /// The live entry of a key among slots that were committed meanwhile.
    #[cold]
    #[inline(never)]
    fn find_new(&self, leaf: Shared<Leaf<M>>, new: u64, key: K::Key<'_>) -> Option<(usize, Pair)> {
        self.find_live(leaf, new, key, true)
    }

    /// Validates that no committed slot holds the key, and commits `slot`, as one step.
    #[inline(always)]
    fn commit_slot(
        &self,
        leaf: Shared<Leaf<M>>,
        slot: usize,
        mut checked: u64,
        write: &Write<'_, K, M>,
    ) -> Commit {
        // Acquire: entries committed meanwhile are written; pairs with the exchange below.
        let mut meta = leaf.meta.load(Ordering::Acquire);
        loop {
            if meta & FREEZING != 0 && !M::mutant("nbtree.commit_ignores_freeze") {
                M::mark("nbtree.write.frozen_claim");
                return Commit::Freezing;
            }
            let new = meta & COMMITTED & !checked;
            if new != 0 && !M::mutant("nbtree.no_validate") {
                if let Some((slot, entry)) = self.find_new(leaf, new, write.key) {
                    return Commit::Exists(slot, entry);
                }
                checked =
                    if M::mutant("nbtree.validates_once") { COMMITTED } else { meta & COMMITTED };
            }
            // Relaxed: a planted bug.
            let weak = M::mutant("nbtree.commit_relaxed").then_some(Ordering::Relaxed);
            // AcqRel: publishes the slot's entry and fingerprint to a thread that sees the bit; acquires
            // theirs. Pairs with every acquire load of `meta`.
            match leaf.meta.compare_exchange(
                meta,
                meta | 1 << slot,
                weak.unwrap_or(Ordering::AcqRel),
                Ordering::Acquire,
            ) {
                Ok(_) => return Commit::Done,
                Err(now) => meta = now,
            }
        }
    }

    /// Applies a write to an existing entry.
    #[inline(always)]
    fn modify(
        &self,
        leaf: Shared<Leaf<M>>,
        slot: usize,
        mut entry: Pair,
        write: &Write<'_, K, M>,
    ) -> Attempt {
        let block = self.block(leaf);
        let mut in_flight = None;
        let attempt = loop {
            let state = K::state(entry);
            if state == TOMB {
                // First: the payload of a tombstone means nothing.
                break Attempt::Gone;
            }
            let old = K::payload(entry);
            let again = in_flight.is_some() && M::mutant("nbtree.declines_once");
            if write.intent.declines(old) && !again {
                break Attempt::Done(Outcome { changed: false, old: Some(old) });
            }
            if state == FROZEN && !M::mutant("nbtree.modify_ignores_freeze") {
                break Attempt::Frozen;
            }
            if in_flight.is_none() {
                in_flight = Some(InFlight::begin(leaf, self.medium.needs_flush()));
            }
            let new = if write.intent.removes() {
                K::with_state(entry, TOMB)
            } else {
                K::with_payload(entry, write.payload)
            };
            if write.intent.removes() && M::mutant("nbtree.hides_first") {
                // Relaxed: a planted bug.
                leaf.fingerprints.store(slot, 0, Ordering::Relaxed);
            }
            match block.entries[slot].compare_exchange(entry, new) {
                Ok(_) => {
                    if M::mutant("nbtree.in_flight_ends_early")
                        && let Some(in_flight) = in_flight.take()
                    {
                        in_flight.end();
                    }
                    if write.intent.removes() && M::mutant("nbtree.hides_unflushed") {
                        // Relaxed: a planted bug.
                        leaf.fingerprints.store(slot, 0, Ordering::Relaxed);
                    }
                    if !M::mutant("nbtree.no_update_flush") {
                        // Persist: the change before we say that it happened (I11).
                        self.medium.persist(block.entries[slot].as_ptr(), 16);
                    }
                    if write.intent.removes() {
                        // Release: behind the removal, for readers that never come to the entry; pairs with
                        // the fences in `Look::is_unchanged` and in `get_many_unchanged`. To others it is a
                        // hint that saves a look: a new entry of the key has a slot of its own (I12).
                        leaf.fingerprints.store(slot, 0, Ordering::Release);
                    }
                    if let Some(in_flight) = in_flight.take() {
                        in_flight.end();
                    }
                    return Attempt::Done(Outcome { changed: true, old: Some(old) });
                }
                Err(now) => entry = now,
            }
        };
        if let Some(in_flight) = in_flight {
            in_flight.end();
        }
        if !M::mutant("nbtree.modify_no_observe") {
            // What we saw is our answer's reason.
            self.observe(leaf, block, slot);
        }
        attempt
    }
}

/// What became of a commit.
enum Commit {
    Done,
    /// Another slot holds the key.
    Exists(usize, Pair),
    Freezing,
}
