//! Replacing a leaf: freeze, copy, commit, switch. Any number of threads help.
//!
//! 1. *Freeze*: every position gets a frozen state; none keeps a fingerprint of 0.
//! 2. *Copy*: the frozen entries go into one or two private blocks; the operation that brought the
//!    thread here may be applied on the way (carried). One candidate wins `successor`.
//! 3. *Commit*: one store in the old block's state word, durable: from now on recovery uses the
//!    new blocks. This is the durability point, also of a carried operation.
//! 4. *Switch*: `REPLACED` in `flags`: the new leaves are the authority. Linearization point of a
//!    carried operation. The thread that switched makes the new blocks `Live`; the one that takes
//!    the old leaf out of the inner nodes retires it.
//!
//! Every step is an exchange from a state that does not recur, so a late helper does no harm.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Machine, Ordering};

use super::HashedLeafTree;
use super::candidate::Candidate;
use super::layout::{DEAD, FREEZING, LeafId, LeafShape, REPLACED, Successor};
use super::merge::{ABORTED, COMMITTED};
use super::state::FROZEN_EMPTY;
use crate::api::change::Outcome;
use crate::kind::Kind;
use crate::nbtree::shared::Shared;
use crate::nbtree::state::{BlockState, EMPTY, FROZEN, LIVE, NO_BLOCK, PENDING, TOMB};
use crate::nbtree::write::Write;

/// Blocks that a split must leave: merging needs one to free two, so that without any a full pool
/// could be emptied of its keys and still have no room.
const SPARE_BLOCKS: usize = 2;

/// Turns to wait for the thread that froze the leaf, before building a candidate of our own.
const PATIENCE: u32 = 200;

impl<K: Kind<M>, G: LeafShape, M: Machine> HashedLeafTree<K, G, M> {
    /// Brings the replacement of `leaf` to its end. Returns the outcome of `carry` if the
    /// replacement performed it; otherwise the caller starts over.
    #[cold]
    #[inline(never)]
    pub(super) fn replace_leaf(
        &self,
        session: &mut Session<M>,
        leaf: LeafId,
        carry: Option<&Write<'_, K, M>>,
    ) -> Result<Option<Outcome>, AllocError> {
        if leaf.stands_in_for().is_some() {
            // What looked full is to be restored; the caller looks again.
            return Ok(None);
        }
        let mut carried = None;
        let mut no_space = None;
        let mut waits = 0;
        loop {
            // Acquire: with REPLACED, the successor's contents; pairs with the switch below.
            let flags = self.cold(leaf).flags.load(Ordering::Acquire);
            if flags & REPLACED != 0 {
                let Some(write) = carry else { return Ok(None) };
                self.try_install(session, write.key);
                if carried.is_some() && write.intent.removes() {
                    self.note_carried_removal(self.live_count(leaf));
                }
                // A write that needs no room goes on in the compacted leaf.
                return match no_space {
                    Some(error) if carried.is_none() && write.intent.inserts() => Err(error),
                    _ => Ok(carried),
                };
            }
            // Acquire: the successor is complete; pairs with its installation below.
            let successor = self.cold(leaf).successor.load(Ordering::Acquire);
            if successor.is_null() {
                // A first look: what the leaf holds by the time it is frozen decides.
                let full = self.live_count(leaf) * 2 >= G::CAPACITY;
                let grows = full && carry.is_some_and(|write| write.intent.inserts());
                let reserved = match flags & FREEZING {
                    0 => self.reserve(session, grows),
                    _ => self.reserve_for_frozen(session, grows),
                };
                if let Err(error) = reserved {
                    waits += 1;
                    if !error.lacks_space()
                        || waits > Self::FULL_PATIENCE
                        || !self.await_leader(leaf)
                    {
                        return Err(error);
                    }
                    continue;
                }
                if let Some(candidate) = self.freeze_and_propose(session, leaf, carry)? {
                    (carried, no_space) = (candidate.carried, candidate.no_space);
                }
                continue;
            }
            // SAFETY: installed successors are retired no earlier than the leaf.
            let successor = unsafe { Shared::new(successor) };
            if successor.merging.is_none() {
                self.commit_and_switch(session, leaf, successor);
            } else if let Some(candidate) = self.help_merge(session, leaf, successor, carry)? {
                (carried, no_space) = (candidate.carried, candidate.no_space);
            }
        }
    }

    /// A removal that was carried merges nothing, whatever is left of a leaf that held so many keys.
    fn note_carried_removal(&self, live_count: usize) {
        if Self::is_thin(live_count.saturating_sub(1)) {
            self.missed.note();
        }
    }

    /// How often to wait for the thread that froze a leaf when there is no space to help it.
    const FULL_PATIENCE: u32 = if M::SIMULATED { 1 } else { 100 };

    /// Without space: if another thread froze the leaf, and has space enough to replace it, gives it time.
    /// A removal must not fail only because it cannot help. Returns whether there was one.
    fn await_leader(&self, leaf: LeafId) -> bool {
        // Relaxed: only a reason to wait; the loop in `replace_leaf` looks properly.
        let frozen = self.cold(leaf).flags.load(Ordering::Relaxed) & FREEZING != 0;
        if frozen {
            M::mark("hashed.split.no_space_to_help");
            self.wait_for_leader(leaf);
        }
        frozen
    }

    /// Space for the largest replacement, before anything is frozen: a full pool must not leave
    /// frozen leaves behind. A tree that `grows` leaves some for those that make room.
    pub(super) fn reserve(&self, session: &mut Session<M>, grows: bool) -> Result<(), AllocError> {
        session.reserve_blocks_of(G::BLOCK_CLASS, if grows { 2 + SPARE_BLOCKS } else { 2 })
    }

    /// As [`Self::reserve`] for a leaf that is frozen and must not stay so: one block is enough to
    /// compact it.
    pub(super) fn reserve_for_frozen(
        &self,
        session: &mut Session<M>,
        grows: bool,
    ) -> Result<(), AllocError> {
        // First: a refusal lets others have what it has found, and this one must not go.
        session.reserve_blocks_of(G::BLOCK_CLASS, 1)?;
        match self.reserve(session, grows) {
            Err(error) if error.lacks_space() => Ok(()),
            result => result,
        }
    }

    /// Steps 1 and 2: freezes, builds a candidate, offers it.
    fn freeze_and_propose(
        &self,
        session: &mut Session<M>,
        leaf: LeafId,
        carry: Option<&Write<'_, K, M>>,
    ) -> Result<Option<Candidate<M>>, AllocError> {
        let was_frozen = self.freeze(leaf);
        if was_frozen && !M::SIMULATED && self.wait_for_leader(leaf) {
            return Ok(None);
        }
        let candidate = self.build_candidate(session, leaf, carry)?;
        // AcqRel: publishes the candidate; acquires the winner's. Pairs with the loads of
        // `successor`.
        let offer = self.cold(leaf).successor.compare_exchange(
            std::ptr::null_mut(),
            candidate.successor,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        match offer {
            Ok(_) => Ok(Some(candidate)),
            Err(_) => {
                M::mark("hashed.split.lost_offer");
                self.discard(session, candidate.successor);
                Ok(None)
            }
        }
    }

    /// Ends all change in a leaf. Returns whether somebody had begun to.
    pub(super) fn freeze(&self, leaf: LeafId) -> bool {
        // AcqRel: only says that somebody is at it; pairs with the loads of `flags`.
        let before = self.cold(leaf).flags.fetch_or(FREEZING, Ordering::AcqRel);
        let less = usize::from(M::mutant("hashed.freezes_one_less"));
        for position in G::HEADER_POSITIONS..G::POSITIONS - less {
            self.freeze_position(leaf, position);
        }
        before & FREEZING != 0
    }

    #[inline(always)]
    fn freeze_position(&self, leaf: LeafId, position: usize) {
        let cell = self.entry(leaf, position);
        let mut entry = cell.load();
        loop {
            let state = K::state(entry);
            let frozen = match state {
                TOMB | FROZEN => return,
                FROZEN_EMPTY => break,
                EMPTY if M::mutant("hashed.no_freeze_empty") => return,
                EMPTY => K::with_state(entry, FROZEN_EMPTY),
                PENDING => {
                    // An insert that is still pending is linearized here; its fingerprint comes first.
                    M::mark("hashed.split.freeze_pending");
                    self.help_fingerprint(leaf, position, entry);
                    let kill = M::mutant("hashed.freeze_kills_pending");
                    K::with_state(entry, if kill { TOMB } else { FROZEN })
                }
                LIVE => K::with_state(entry, FROZEN),
                _ if M::mutant("hashed.takes_damaged") => K::with_state(entry, FROZEN),
                // None: the leaf was damaged since it was opened. What holds no key must not come to hold one.
                _ => break,
            };
            match cell.compare_exchange(entry, frozen) {
                Ok(_) if state == EMPTY => break,
                Ok(_) => return,
                Err(now) => entry = now,
            }
        }
        if !M::mutant("hashed.freeze_leaves_zeros") {
            // Release: nobody claims the position any more. Before REPLACED in every thread's eyes, so
            // that a 0 proves that the leaf is not replaced (HL5); pairs with the loads of `flags`.
            self.fingerprints(leaf, position / G::CHUNK).store(
                position % G::CHUNK,
                DEAD,
                Ordering::Release,
            );
        }
    }

    /// Gives the thread that froze the leaf first a moment to offer its candidate.
    fn wait_for_leader(&self, leaf: LeafId) -> bool {
        for attempt in 0..PATIENCE {
            // Acquire: as in `replace_leaf`.
            if !self.cold(leaf).successor.load(Ordering::Acquire).is_null() {
                return true;
            }
            M::spin(attempt);
        }
        false
    }

    /// Steps 3 and 4 of a plain replacement.
    fn commit_and_switch(
        &self,
        session: &mut Session<M>,
        leaf: LeafId,
        successor: Shared<Successor<M>>,
    ) {
        let (left, right) = (successor.left, successor.right);
        let named = right.filter(|_| !M::mutant("hashed.commit_names_left"));
        let right_block = named.map_or(NO_BLOCK, |right| right.block::<G>());
        if M::mutant("hashed.switch_before_commit") {
            // AcqRel: as the `fetch_or` behind `commit_replaced`; the planted bug is only that it comes too early.
            self.cold(leaf).flags.fetch_or(REPLACED, Ordering::AcqRel);
        }
        self.commit_replaced(leaf, left.block::<G>(), right_block);
        // AcqRel: a thread that sees REPLACED finds the successor and its contents; pairs with the loads
        // of `flags`. Exactly one thread switches.
        let before = self.cold(leaf).flags.fetch_or(REPLACED, Ordering::AcqRel);
        if before & REPLACED != 0 {
            return;
        }
        if !M::mutant("hashed.no_finalize") {
            self.finalize(left, leaf.block::<G>());
            if let Some(right) = right {
                self.finalize(right, leaf.block::<G>());
            }
        }
        self.note_split(session, i64::from(right.is_some()));
    }

    /// The durable commit: the block's state names its replacements.
    pub(super) fn commit_replaced(&self, leaf: LeafId, left: u32, right: u32) {
        let state = &self.header(leaf).state;
        // Acquire: a helper's commit; pairs with the exchange below.
        let mut seen = state.load(Ordering::Acquire);
        let mut is_ours = false;
        let replaced = BlockState::Replaced { left, right }.encode();
        while !matches!(BlockState::decode(seen), Some(BlockState::Replaced { .. })) {
            // AcqRel: the new blocks come before the word that names them; pairs with recovery and
            // with the load above.
            match state.compare_exchange(seen, replaced, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    is_ours = true;
                    break;
                }
                Err(now) => seen = now,
            }
        }
        let leaves_it = M::mutant("hashed.helper_trusts_commit") && !is_ours;
        if !leaves_it && !M::mutant("hashed.no_commit_flush") {
            // Persist: the commit before the switch, also when somebody else wrote the word, or a
            // crash could take back what readers of the new leaf have seen (I2).
            self.medium.persist(state.as_ptr(), 8);
        }
    }

    /// Makes a replacement stand on its own, so that its origin may be reused.
    pub(super) fn finalize(&self, leaf: LeafId, origin: u32) {
        let state = &self.header(leaf).state;
        if M::mutant("hashed.finalize_overwrites") {
            // Release: a planted bug.
            state.store(BlockState::Live.encode(), Ordering::Release);
        }
        // AcqRel on success, relaxed on failure: only a block that is still `New` is made `Live`; a
        // later replacement of it has spoken already.
        let _ = state.compare_exchange(
            BlockState::New { origin }.encode(),
            BlockState::Live.encode(),
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        // Persist: `Live` before the origin is reused, or recovery would look for an origin that
        // says something else by then (I9).
        self.medium.persist(state.as_ptr(), 8);
    }

    /// Whether an aborted merge still stands in a leaf's `successor`.
    pub(super) fn is_aborted(successor: Shared<Successor<M>>) -> bool {
        // Acquire: the decision; pairs with the exchange in `merge.rs`.
        successor.status.load(Ordering::Acquire) == ABORTED
    }

    /// Whether a merge was decided to happen.
    pub(super) fn is_committed_merge(successor: Shared<Successor<M>>) -> bool {
        // Acquire: the decision; pairs with the exchange in `merge.rs`.
        successor.status.load(Ordering::Acquire) == COMMITTED
    }
}
