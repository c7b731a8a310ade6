//! Insert, update, upsert, remove, compare-and-exchange: one loop for all.
//!
//! An existing entry is changed by one compare-and-exchange of the entry. A new one is claimed at the
//! first free position of its key, given its fingerprint, and made `LIVE`. A leaf that is full or
//! frozen is replaced first, and the replacement may carry the operation with it (`split.rs`).

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Machine, Ordering, Pair};

use super::HashedLeafTree;
use super::aim::Aim;
use super::layout::{DEAD, LeafId, LeafShape};
use super::probe::{Probe, fingerprint};
use super::search::WriteTarget;
use super::state::FROZEN_EMPTY;
use crate::api::change::{Intent, Outcome};
use crate::kind::Kind;
use crate::nbtree::state::{EMPTY_ENTRY, FROZEN, LIVE, PENDING, TOMB};
use crate::nbtree::write::Write;
use crate::once::once;

/// `Adr` domain: while it exists, readers of the leaf persist what they read.
///
/// It begins before anything of the write can be seen, and ends after the write is durable (I11).
struct InFlight<'t, K: Kind<M>, G: LeafShape, M: Machine> {
    tree: &'t HashedLeafTree<K, G, M>,
    leaf: LeafId,
}

impl<'t, K: Kind<M>, G: LeafShape, M: Machine> InFlight<'t, K, G, M> {
    #[inline(always)]
    fn begin(tree: &'t HashedLeafTree<K, G, M>, leaf: LeafId) -> Self {
        if tree.medium.needs_flush() {
            // AcqRel: before the write in every thread's eyes; pairs with the load in `observe`.
            tree.cold(leaf).in_flight.fetch_add(1, Ordering::AcqRel);
        }
        InFlight { tree, leaf }
    }

    #[inline(always)]
    fn end(self) {
        if self.tree.medium.needs_flush() {
            // Release: after the persist; pairs with the load in `observe`.
            self.tree.cold(self.leaf).in_flight.fetch_sub(1, Ordering::Release);
        }
    }
}

/// What became of an attempt.
enum Attempt {
    Done(Outcome),
    /// Look again in the same leaf.
    Again,
    /// The leaf is being replaced, or is full: help, and carry the operation along.
    Replace,
    /// The leaf is no authority any more.
    Replaced,
}

/// A leaf that the inner nodes gave for a key, and the key's way through it, of which the first lines are
/// on their way to the cache.
pub(crate) struct Near<G> {
    leaf: LeafId,
    probe: Probe<G>,
}

const NOTHING: Outcome = Outcome { changed: false, old: None };

impl<K: Kind<M>, G: LeafShape, M: Machine> HashedLeafTree<K, G, M> {
    /// Goes down to the leaf for `key`, for a write that follows under the same pin: what is done
    /// before it overlaps with the cache misses of the leaf.
    #[inline(always)]
    pub(crate) fn approach(&self, key: K::Key<'_>) -> Near<G> {
        let (leaf, probe) = self.descend(key, Aim::Write);
        Near { leaf, probe }
    }

    /// [`Self::write`], begun where [`Self::approach`] of the same key came to under the same pin.
    #[inline(always)]
    pub(crate) fn write_near(
        &self,
        session: &mut Session<M>,
        near: Near<G>,
        key: K::Key<'_>,
        intent: Intent,
        payload: u64,
    ) -> Result<Outcome, AllocError> {
        self.write_from(session, near.leaf, near.probe, &Write { key, intent, payload })
    }

    /// Performs a write. The session is pinned.
    ///
    /// *Linearizes*: at the exchange of the entry; for a carried write at the leaf's switch.
    /// *Durable* (`Adr`): when it returns; otherwise when it linearizes.
    #[inline(always)]
    pub(crate) fn write(
        &self,
        session: &mut Session<M>,
        key: K::Key<'_>,
        intent: Intent,
        payload: u64,
    ) -> Result<Outcome, AllocError> {
        let (leaf, probe) = self.descend(key, Aim::Write);
        self.write_from(session, leaf, probe, &Write { key, intent, payload })
    }

    /// [`Self::write`] from the leaf on that the inner nodes gave.
    #[inline(always)]
    pub(super) fn write_from(
        &self,
        session: &mut Session<M>,
        leaf: LeafId,
        probe: Probe<G>,
        write: &Write<'_, K, M>,
    ) -> Result<Outcome, AllocError> {
        if M::SIMULATED {
            return once(|| self.write_from_here(session, leaf, probe, write));
        }
        self.write_from_here(session, leaf, probe, write)
    }

    /// [`Self::write_from`], compiled into its caller.
    #[inline(always)]
    fn write_from_here(
        &self,
        session: &mut Session<M>,
        mut leaf: LeafId,
        mut probe: Probe<G>,
        write: &Write<'_, K, M>,
    ) -> Result<Outcome, AllocError> {
        loop {
            match self.attempt(session, leaf, &probe, write) {
                Attempt::Done(outcome) => return Ok(outcome),
                Attempt::Again => continue,
                Attempt::Replace => {
                    if let Some(outcome) = self.replace_leaf(session, leaf, Some(write))? {
                        return Ok(outcome);
                    }
                }
                Attempt::Replaced => {}
            }
            leaf = self.resolve(session, write.key)?;
            let keeps = M::mutant("hashed.many_keeps_probe") && write.intent.removes();
            if !M::mutant("hashed.old_way") && !keeps {
                probe = self.probe(leaf, write.key);
            }
        }
    }

    #[inline(always)]
    fn attempt(
        &self,
        session: &mut Session<M>,
        leaf: LeafId,
        probe: &Probe<G>,
        write: &Write<'_, K, M>,
    ) -> Attempt {
        match self.seek(leaf, write.key, probe, write.intent.inserts()) {
            WriteTarget::Live(position, entry) => {
                self.modify(session, leaf, position, entry, write)
            }
            WriteTarget::Free(position) => self.claim(leaf, position, probe, write),
            WriteTarget::Frozen(entry) => {
                let old = K::payload(entry);
                match write.intent.declines(old) {
                    true => Attempt::Done(Outcome { changed: false, old: Some(old) }),
                    false => Attempt::Replace,
                }
            }
            WriteTarget::Full => Attempt::Replace,
            WriteTarget::Absent => Attempt::Done(NOTHING),
            WriteTarget::Replaced => Attempt::Replaced,
        }
    }

    /// Inserts at a position that was free.
    #[inline(always)]
    fn claim(
        &self,
        leaf: LeafId,
        position: usize,
        probe: &Probe<G>,
        write: &Write<'_, K, M>,
    ) -> Attempt {
        let cell = self.entry(leaf, position);
        let entry = K::entry(write.key, self.skip(leaf), write.payload, PENDING);
        let late = M::mutant("hashed.late_in_flight");
        let in_flight = (!late).then(|| InFlight::begin(self, leaf));
        if let Err(now) = cell.claim(EMPTY_ENTRY, entry) {
            if let Some(in_flight) = in_flight {
                in_flight.end();
            }
            return self.lost_claim(leaf, position, now);
        }
        let live = K::with_state(entry, LIVE);
        let (chunk, within) = (position / G::CHUNK, position % G::CHUNK);
        let fingerprints = self.fingerprints(leaf, chunk);
        // Relaxed: a planted bug.
        let weak = M::mutant("hashed.fingerprint_relaxed").then_some(Ordering::Relaxed);
        // Release: a thread that sees the fingerprint finds the entry; pairs with the load of the entry,
        // whose address follows from the fingerprint.
        let order = weak.unwrap_or(Ordering::Release);
        fingerprints.store(within, probe.fingerprint, order);
        // Linearization point, unless a helper or the freezer was faster: then this fails, rightly.
        let _ = cell.compare_exchange(entry, live);
        let in_flight = in_flight.unwrap_or_else(|| InFlight::begin(self, leaf));
        if !M::mutant("hashed.no_insert_flush") {
            // Persist: the entry before we say that it is there (I11).
            self.medium.persist(cell.as_ptr(), 16);
        }
        in_flight.end();
        Attempt::Done(Outcome { changed: true, old: None })
    }

    /// Somebody else has claimed the position, or frozen it.
    #[cold]
    #[inline(never)]
    fn lost_claim(&self, leaf: LeafId, position: usize, now: Pair) -> Attempt {
        M::mark("hashed.write.lost_claim");
        if K::state(now) == FROZEN_EMPTY || K::state(now) == FROZEN {
            return Attempt::Replace;
        }
        if !M::mutant("hashed.no_lost_help") {
            self.help_fingerprint(leaf, position, now);
        }
        Attempt::Again
    }

    /// Stores the fingerprint of an entry that has a key, as its owner would.
    pub(super) fn help_fingerprint(&self, leaf: LeafId, position: usize, entry: Pair) {
        let low = self.cold(leaf).low.read_private();
        let mut byte = fingerprint(K::entry_hash(low, entry));
        if M::mutant("hashed.wrong_help") {
            byte = DEAD;
        }
        // Release: as in `claim`.
        self.fingerprints(leaf, position / G::CHUNK).store(
            position % G::CHUNK,
            byte,
            Ordering::Release,
        );
    }

    /// Applies a write to an existing entry.
    #[inline(always)]
    fn modify(
        &self,
        session: &mut Session<M>,
        leaf: LeafId,
        position: usize,
        mut entry: Pair,
        write: &Write<'_, K, M>,
    ) -> Attempt {
        let cell = self.entry(leaf, position);
        let old = K::payload(entry);
        if write.intent.declines(old) {
            // What we saw is our answer's reason.
            self.observe(leaf, position);
            return Attempt::Done(Outcome { changed: false, old: Some(old) });
        }
        let removes = write.intent.removes();
        let in_flight = InFlight::begin(self, leaf);
        let attempt = loop {
            let old = K::payload(entry);
            let new = if removes {
                K::with_state(entry, TOMB)
            } else {
                K::with_payload(entry, write.payload)
            };
            if removes && M::mutant("hashed.hides_first") {
                // Relaxed: a planted bug.
                self.fingerprints(leaf, position / G::CHUNK).store(
                    position % G::CHUNK,
                    DEAD,
                    Ordering::Relaxed,
                );
            }
            match cell.compare_exchange(entry, new) {
                Ok(_) => break Attempt::Done(Outcome { changed: true, old: Some(old) }),
                Err(now)
                    if K::state(now) == LIVE
                        && (!write.intent.declines(K::payload(now))
                            || M::mutant("hashed.exchange_checks_once")) =>
                {
                    entry = now;
                }
                // Removed, frozen, or another value than what was to be replaced.
                Err(_) => break Attempt::Again,
            }
        };
        let Attempt::Done(outcome) = attempt else {
            in_flight.end();
            return attempt;
        };
        if removes && M::mutant("hashed.hides_unflushed") {
            // Relaxed: a planted bug.
            self.fingerprints(leaf, position / G::CHUNK).store(
                position % G::CHUNK,
                DEAD,
                Ordering::Relaxed,
            );
        }
        if !M::mutant("hashed.no_update_flush") {
            // Persist: the change before we say that it happened (I11).
            self.medium.persist(cell.as_ptr(), 16);
        }
        if removes {
            // Release: behind the removal, for readers that never come to the entry; pairs with the fences
            // in `Look::is_unchanged` and in `get_many_unchanged`. To others it is a hint that saves a look: a
            // new entry of the key has a position of its own (HL1).
            self.fingerprints(leaf, position / G::CHUNK).store(
                position % G::CHUNK,
                DEAD,
                Ordering::Release,
            );
        }
        in_flight.end();
        let chunk = position / G::CHUNK;
        if removes && Self::is_thin(self.live_in_chunk(leaf, chunk)) {
            self.after_remove(session, leaf, chunk, write.key);
        }
        Attempt::Done(outcome)
    }
}
