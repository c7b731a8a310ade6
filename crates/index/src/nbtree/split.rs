//! Replacing a leaf: freeze, copy, commit, switch. Any number of threads help.
//!
//! 1. *Freeze*: `FREEZING` in `meta` ends commits; every committed slot is turned `FROZEN`.
//! 2. *Copy*: the frozen entries go, sorted, into one or two private blocks; the operation that
//!    brought the thread here may be applied on the way (carried). One candidate wins `successor`.
//! 3. *Commit*: one store in the old block's state word, durable: from now on recovery uses the
//!    new blocks. This is the durability point, also of a carried operation.
//! 4. *Switch*: `REPLACED` in `meta`: the new leaves are the authority. Linearization point of a
//!    carried operation. The thread that switched makes the new blocks `Live` and retires the old.
//!
//! Every step is an exchange from a state that does not recur, so a late helper does no harm.

use everleaf_alloc::{AllocError, BLOCK_SIZE, Session};
use everleaf_machine::{Atomic, AtomicPointer, FingerprintLine, Machine, Ordering, Pair};

use super::NbTree;
use super::layout::{Block, Leaf, SLOT_COUNT_MAX, Successor, owner_word};
use super::merge::{ABORTED, COMMITTED as MERGE_COMMITTED, live_count};
use super::shared::Shared;
use super::split_point::split_point;
use super::state::{
    BlockState, COMMITTED, EMPTY, EMPTY_ENTRY, FREEZING, FROZEN, LIVE, NO_BLOCK, PENDING, REPLACED,
    TOMB, holds,
};
use super::write::Write;
use crate::api::change::{Effect, Outcome};
use crate::geometry::Geometry;
use crate::kind::Kind;

/// Blocks that a split must leave: merging needs one to free two, so that without any a full pool
/// could be emptied of its keys and still have no room.
const SPARE_BLOCKS: usize = 2;

/// Turns to wait for the thread that froze the leaf, before building a candidate of our own.
const PATIENCE: u32 = 200;

/// A replacement that nobody else has seen.
pub(super) struct Candidate<M: Machine> {
    pub successor: *mut Successor<M>,
    /// The outcome of the carried operation, if it is part of the new contents.
    pub carried: Option<Outcome>,
    /// Why the leaf is only compacted although it is full.
    pub no_space: Option<AllocError>,
}

impl<K: Kind<M>, G: Geometry, M: Machine> NbTree<K, G, M> {
    /// Brings the replacement of `leaf` to its end. Returns the outcome of `carry` if the
    /// replacement performed it; otherwise the caller starts over.
    #[cold]
    #[inline(never)]
    pub(super) fn replace_leaf(
        &self,
        session: &mut Session<M>,
        leaf: Shared<Leaf<M>>,
        carry: Option<&Write<'_, K, M>>,
    ) -> Result<Option<Outcome>, AllocError> {
        let mut carried = None;
        let mut no_space = None;
        let mut waits = 0;
        loop {
            // Acquire: with REPLACED, the successor's contents; pairs with the switch below.
            let meta = leaf.meta.load(Ordering::Acquire);
            if meta & REPLACED != 0 {
                let Some(write) = carry else { return Ok(None) };
                self.try_install(session, write.key);
                // A write that needs no room goes on in the compacted leaf.
                return match no_space {
                    Some(error) if carried.is_none() && write.intent.inserts() => Err(error),
                    _ => Ok(carried),
                };
            }
            // Acquire: the successor is complete; pairs with its installation below.
            let successor = leaf.successor.load(Ordering::Acquire);
            if successor.is_null() {
                // A first look: what the leaf holds by the time it is frozen decides.
                let full = live_count(leaf) * 2 >= G::SLOT_COUNT;
                let grows = full && carry.is_some_and(|write| write.intent.inserts());
                let reserved = match meta & FREEZING {
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
            if successor.merge_left.is_null() {
                self.commit_and_switch(session, leaf, successor);
            } else if let Some(candidate) = self.help_merge(session, leaf, successor, carry)? {
                (carried, no_space) = (candidate.carried, candidate.no_space);
            }
        }
    }

    /// How often to wait for the thread that froze a leaf when there is no space to help it.
    const FULL_PATIENCE: u32 = if M::SIMULATED { 1 } else { 100 };

    /// Without space: if somebody froze the leaf, who has space enough to replace it, gives it time.
    /// A removal must not fail only because it cannot help. Returns whether there was one.
    fn await_leader(&self, leaf: Shared<Leaf<M>>) -> bool {
        // Relaxed: only a reason to wait; the loop in `replace_leaf` looks properly.
        let frozen = leaf.meta.load(Ordering::Relaxed) & FREEZING != 0;
        if frozen {
            M::mark("nbtree.split.no_space_to_help");
            self.wait_for_leader(leaf);
        }
        frozen
    }

    /// Space for the largest replacement, before anything is frozen: a full pool must not leave
    /// frozen leaves behind. A tree that `grows` leaves some for those that make room.
    pub(super) fn reserve(&self, session: &mut Session<M>, grows: bool) -> Result<(), AllocError> {
        session.reserve_blocks(if grows { 2 + SPARE_BLOCKS } else { 2 })
    }

    /// As [`Self::reserve`] for a leaf that is frozen and must not stay so: one block is enough to
    /// compact it.
    pub(super) fn reserve_for_frozen(
        &self,
        session: &mut Session<M>,
        grows: bool,
    ) -> Result<(), AllocError> {
        match self.reserve(session, grows) {
            Err(error) if error.lacks_space() => session.reserve_blocks(1).map_err(|_| error),
            result => result,
        }
    }

    /// Steps 1 and 2: freezes, builds a candidate, offers it.
    fn freeze_and_propose(
        &self,
        session: &mut Session<M>,
        leaf: Shared<Leaf<M>>,
        carry: Option<&Write<'_, K, M>>,
    ) -> Result<Option<Candidate<M>>, AllocError> {
        let (committed, was_frozen) = self.freeze(leaf);
        if was_frozen && !M::SIMULATED && self.wait_for_leader(leaf) {
            return Ok(None);
        }
        let candidate = self.build_candidate(session, leaf, committed, carry)?;
        // AcqRel: publishes the candidate; acquires the winner's. Pairs with the loads of
        // `successor`.
        let offer = leaf.successor.compare_exchange(
            std::ptr::null_mut(),
            candidate.successor,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        match offer {
            Ok(_) => Ok(Some(candidate)),
            Err(_) => {
                M::mark("nbtree.split.lost_offer");
                self.discard(session, leaf, candidate.successor);
                Ok(None)
            }
        }
    }

    /// Ends all change in a leaf. Returns the committed slots, and whether somebody had begun.
    pub(super) fn freeze(&self, leaf: Shared<Leaf<M>>) -> (u64, bool) {
        // AcqRel: no commit after; acquires the committed slots. Pairs with `append`'s exchange of `meta`.
        let before = leaf.meta.fetch_or(FREEZING, Ordering::AcqRel);
        let mut slots = before & COMMITTED;
        if M::mutant("nbtree.freezes_one_less") {
            slots &= (1 << (G::SLOT_COUNT - 1)) - 1;
        }
        let block = self.block(leaf);
        while slots != 0 && !M::mutant("nbtree.no_freeze_slots") {
            let slot = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            let mut entry = block.entries[slot].load();
            loop {
                let state = K::state(entry);
                if state == TOMB || state == FROZEN || state == EMPTY {
                    break;
                }
                // A committed insert that is still pending is linearized here.
                if state == PENDING {
                    M::mark("nbtree.split.freeze_pending");
                }
                let kill = state == PENDING && M::mutant("nbtree.freeze_kills_pending");
                let frozen = K::with_state(entry, if kill { TOMB } else { FROZEN });
                match block.entries[slot].compare_exchange(entry, frozen) {
                    Ok(_) => break,
                    Err(now) => entry = now,
                }
            }
        }
        (before & COMMITTED, before & FREEZING != 0)
    }

    /// Gives the thread that froze the leaf first a moment to offer its candidate.
    fn wait_for_leader(&self, leaf: Shared<Leaf<M>>) -> bool {
        for attempt in 0..PATIENCE {
            // Acquire: as in `replace_leaf`.
            if !leaf.successor.load(Ordering::Acquire).is_null() {
                return true;
            }
            M::spin(attempt);
        }
        false
    }

    /// The frozen contents of a leaf, as live entries in no order.
    pub(super) fn frozen_entries(&self, leaf: Shared<Leaf<M>>, committed: u64) -> Vec<Pair> {
        let block = self.block(leaf);
        let mut slots = committed;
        let mut entries = Vec::with_capacity(SLOT_COUNT_MAX + 2);
        while slots != 0 {
            let slot = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            let entry = block.entries[slot].load();
            if holds(K::state(entry)) {
                entries.push(K::with_state(entry, LIVE));
            }
        }
        entries
    }

    /// Step 2: a private replacement of a frozen leaf.
    pub(super) fn build_candidate(
        &self,
        session: &mut Session<M>,
        leaf: Shared<Leaf<M>>,
        committed: u64,
        carry: Option<&Write<'_, K, M>>,
    ) -> Result<Candidate<M>, AllocError> {
        let mut entries = self.frozen_entries(leaf, committed);
        let (carried, inserted) = match carry {
            Some(write) if !M::mutant("nbtree.no_carry") => {
                self.apply_carry(leaf, &mut entries, write)
            }
            _ => (None, None),
        };
        let count = entries.len();
        // What merges give up comes without a write: each of its leaves has one of the two blocks that were
        // reserved, and if one split, a full pool would be left with a frozen leaf.
        if count * 2 <= G::SLOT_COUNT || count < 2 || carry.is_none() {
            let successor = self.build_successor(session, leaf, &entries, count, leaf.high)?;
            return Ok(Candidate { successor, carried, no_space: None });
        }
        let is_last = leaf.high == 0 || K::is_boundary(leaf.high);
        let at = split_point::<K, M>(self.base, &entries, inserted, is_last);
        // Only the halves matter, not the order within.
        entries.select_nth_unstable_by(at, |a, b| K::compare(self.base, *a, *b));
        let below = entries[..at]
            .iter()
            .copied()
            .max_by(|a, b| K::compare(self.base, *a, *b))
            .expect("a split leaves entries on both sides");
        // Who helps may have had space for one block only.
        let fence = session
            .reserve_blocks(2)
            .and_then(|()| K::make_fence(session, leaf.low, below, entries[at]));
        match fence {
            Ok(fence) => match self.build_successor(session, leaf, &entries, at, fence) {
                Ok(successor) => Ok(Candidate { successor, carried, no_space: None }),
                Err(error) => {
                    if !M::mutant("bytes.split_keeps_fence") {
                        K::free_fence(session, fence);
                    }
                    Err(error)
                }
            },
            Err(error) if error.lacks_space() => {
                // No room to split: only compact the leaf, so that it is not left frozen.
                M::mark("nbtree.split.no_room");
                let kept = self.frozen_entries(leaf, committed);
                let successor =
                    self.build_successor(session, leaf, &kept, kept.len(), leaf.high)?;
                Ok(Candidate { successor, carried: None, no_space: Some(error) })
            }
            Err(error) => Err(error),
        }
    }

    /// Applies the carried write to the contents. Returns its outcome if it has an effect, and the
    /// entry if it inserted one.
    fn apply_carry(
        &self,
        leaf: Shared<Leaf<M>>,
        entries: &mut Vec<Pair>,
        write: &Write<'_, K, M>,
    ) -> (Option<Outcome>, Option<Pair>) {
        let skip = leaf.skip as usize;
        let found = entries.iter().position(|entry| K::is_of(self.base, write.key, skip, *entry));
        let old = found.map(|index| K::payload(entries[index]));
        let (outcome, effect) = write.intent.decide(old);
        let mut inserted = None;
        match (effect, found) {
            (Effect::None, _) | (Effect::Delete, None) => return (None, None),
            (Effect::Put, Some(index)) => {
                entries[index] = K::with_payload(entries[index], write.payload);
            }
            (Effect::Put, None) => {
                let entry = K::entry(write.key, skip, write.payload, LIVE);
                entries.push(entry);
                inserted = Some(entry);
            }
            (Effect::Delete, Some(index)) => drop(entries.swap_remove(index)),
        }
        (Some(outcome), inserted)
    }

    /// Leaves for `entries[..at]` and `entries[at..]`, and the successor that names them.
    fn build_successor(
        &self,
        session: &mut Session<M>,
        leaf: Shared<Leaf<M>>,
        entries: &[Pair],
        at: usize,
        split: u64,
    ) -> Result<*mut Successor<M>, AllocError> {
        let two = at < entries.len();
        let skip = leaf.skip as usize;
        let middle = if two { split } else { leaf.high };
        let left = self.build_leaf(session, leaf.low, middle, &entries[..at], skip, leaf.block)?;
        let mut right = Ok(std::ptr::null_mut());
        if two {
            right = self.build_leaf(session, split, leaf.high, &entries[at..], skip, leaf.block);
        }
        let offered = right.and_then(|right| {
            let contents = Successor {
                left,
                right,
                split: middle,
                merge_left: std::ptr::null_mut(),
                merge_right: std::ptr::null_mut(),
                status: Atomic::new(0),
            };
            self.new_successor(session, contents).inspect_err(|_| {
                if two {
                    self.discard_leaf(session, right);
                }
            })
        });
        offered.inspect_err(|_| self.discard_leaf(session, left))
    }

    pub(super) fn new_successor(
        &self,
        session: &mut Session<M>,
        contents: Successor<M>,
    ) -> Result<*mut Successor<M>, AllocError> {
        let node: *mut Successor<M> = session.allocate_node(size_of::<Successor<M>>())?.cast();
        // SAFETY: the memory is ours, large enough and aligned.
        unsafe { node.write(contents) };
        Ok(node)
    }

    /// A private leaf with a private block in state `New`, durable.
    pub(super) fn build_leaf(
        &self,
        session: &mut Session<M>,
        low: u64,
        high: u64,
        entries: &[Pair],
        skip_before: usize,
        origin: u32,
    ) -> Result<*mut Leaf<M>, AllocError> {
        let number = session.allocate_block()?;
        let skip = K::shared_prefix(self.base, low, high);
        let address = self.base.start().wrapping_add(number as usize * BLOCK_SIZE);
        // SAFETY: a block just allocated is inside the pool and private to us.
        let block: Shared<Block<M>> = unsafe { Shared::new(address.cast()) };
        // Relaxed: private. The block of a tree that was cleared still says `Live`; on the same
        // line, and so also in the pool, this comes before the owner word, or a crash in between
        // would make a leaf of ours of what the block holds (I9).
        block.state.store(BlockState::Free.encode(), Ordering::Relaxed);
        let fingerprints = FingerprintLine::new();
        for (slot, entry) in entries.iter().enumerate() {
            let entry =
                if skip == skip_before { *entry } else { K::rekey(self.base, *entry, skip) };
            block.entries[slot].write_private(entry);
            fingerprints.write_private(slot, K::entry_fingerprint(low, entry));
        }
        let last = usize::from(M::mutant("nbtree.clears_one_less"));
        for slot in entries.len()..G::SLOT_COUNT - last {
            // What the block's last life left must not be taken for entries (I10).
            let left_over = K::state(block.entries[slot].read_private()) != EMPTY;
            if left_over && !M::mutant("nbtree.no_clear") {
                block.entries[slot].write_private(EMPTY_ENTRY);
            }
        }
        block.low.write_private(low);
        // Release: after the store of `Free` to the state; the order counts in the pool: `find_live_blocks` reads
        // both after a crash.
        block.owner.store(owner_word(self.id, skip), Ordering::Release);
        // Release: where a visible store is durable, the contents come first; recovery's view.
        block.state.store(BlockState::New { origin }.encode(), Ordering::Release);
        if !M::mutant("nbtree.no_build_flush") {
            // Persist: the whole block before the state word of its origin names it, or recovery
            // would find a live block without its entries (I9).
            let short = M::mutant("nbtree.flush_ends_early");
            let length = if short { 16 + entries.len() * 16 } else { BLOCK_SIZE };
            self.medium.persist(address, length);
        }
        self.new_leaf(session, low, high, number, skip, entries.len(), fingerprints)
            .inspect_err(|_| discard_block(session, block, number))
    }

    #[expect(clippy::too_many_arguments, reason = "a leaf has these parts")]
    pub(super) fn new_leaf(
        &self,
        session: &mut Session<M>,
        low: u64,
        high: u64,
        block: u32,
        skip: usize,
        count: usize,
        fingerprints: FingerprintLine<M>,
    ) -> Result<*mut Leaf<M>, AllocError> {
        let node: *mut Leaf<M> = session.allocate_node(size_of::<Leaf<M>>())?.cast();
        let contents = Leaf {
            fingerprints,
            meta: Atomic::new((1 << count) - 1),
            successor: AtomicPointer::new(std::ptr::null_mut()),
            order: AtomicPointer::new(std::ptr::null_mut()),
            low,
            high,
            block,
            skip: skip as u32,
            claimed: Atomic::new(count as u32),
            in_flight: Atomic::new(0),
        };
        // SAFETY: the memory is ours, large enough and aligned to 128.
        unsafe { node.write(contents) };
        Ok(node)
    }

    /// Gives up a candidate that lost.
    pub(super) fn discard(
        &self,
        session: &mut Session<M>,
        origin: Shared<Leaf<M>>,
        successor: *mut Successor<M>,
    ) {
        // SAFETY: the candidate was never published.
        let candidate = unsafe { Shared::new(successor) };
        let (left, right) = (candidate.left, candidate.right);
        if !right.is_null() {
            if !M::mutant("nbtree.discard_keeps_right") {
                self.discard_leaf(session, right);
            }
            if !M::mutant("bytes.discard_keeps_fence") {
                K::free_fence(session, candidate.split);
            }
        }
        debug_assert!(right.is_null() || candidate.split != origin.high);
        self.discard_leaf(session, left);
        // SAFETY: allocated with this size, never published.
        unsafe { session.free_node(successor.cast(), size_of::<Successor<M>>()) };
    }

    pub(super) fn discard_leaf(&self, session: &mut Session<M>, leaf: *mut Leaf<M>) {
        // SAFETY: never published.
        let shared = unsafe { Shared::new(leaf) };
        discard_block(session, self.block(shared), shared.block);
        // SAFETY: allocated with this size, never published.
        unsafe { session.free_node(leaf.cast(), size_of::<Leaf<M>>()) };
    }

    /// Steps 3 and 4 of a plain replacement.
    fn commit_and_switch(
        &self,
        session: &mut Session<M>,
        leaf: Shared<Leaf<M>>,
        successor: Shared<Successor<M>>,
    ) {
        let (left, right) = self.successor_leaves(successor);
        let named = right.filter(|_| !M::mutant("nbtree.commit_names_left"));
        let right_block = named.map_or(NO_BLOCK, |right| right.block);
        if M::mutant("nbtree.switch_before_commit") {
            // AcqRel: as below; the planted bug is only that it comes too early.
            leaf.meta.fetch_or(REPLACED, Ordering::AcqRel);
        }
        self.commit_replaced(leaf, left.block, right_block);
        // AcqRel: whoever sees REPLACED finds the successor and its contents; pairs with the loads
        // of `meta`. Exactly one thread switches.
        let before = leaf.meta.fetch_or(REPLACED, Ordering::AcqRel);
        if before & REPLACED != 0 && !M::mutant("nbtree.both_retire") {
            M::mark("nbtree.split.helped_switch");
            return;
        }
        if !M::mutant("nbtree.no_finalize") {
            self.finalize(left, leaf.block);
            if let Some(right) = right.filter(|_| !M::mutant("nbtree.finalizes_left_only")) {
                self.finalize(right, leaf.block);
            }
        }
        session.retire_block(leaf.block);
        self.note_split(session, i64::from(right.is_some()));
    }

    pub(super) fn successor_leaves(
        &self,
        successor: Shared<Successor<M>>,
    ) -> (Shared<Leaf<M>>, Option<Shared<Leaf<M>>>) {
        // SAFETY: a successor's leaves are complete and retired no earlier than it.
        let left = unsafe { Shared::new(successor.left) };
        let right = (!successor.right.is_null())
            // SAFETY: complete, and retired no earlier than the successor.
            .then(|| unsafe { Shared::new(successor.right) });
        (left, right)
    }

    /// The durable commit: the block's state names its replacements.
    pub(super) fn commit_replaced(&self, leaf: Shared<Leaf<M>>, left: u32, right: u32) {
        let block = self.block(leaf);
        // Acquire: a helper's commit; pairs with the exchange below.
        let mut seen = block.state.load(Ordering::Acquire);
        let mut is_ours = false;
        let replaced = BlockState::Replaced { left, right }.encode();
        while !matches!(BlockState::decode(seen), Some(BlockState::Replaced { .. })) {
            // AcqRel: the new blocks come before the word that names them; pairs with recovery and
            // with the load above.
            match block.state.compare_exchange(seen, replaced, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => {
                    is_ours = true;
                    break;
                }
                Err(now) => seen = now,
            }
        }
        let leaves_it = M::mutant("nbtree.helper_trusts_commit") && !is_ours;
        if !leaves_it && !M::mutant("nbtree.no_commit_flush") {
            // Persist: the commit before the switch, also when somebody else wrote the word, or a
            // crash could take back what readers of the new leaf have seen (I2).
            self.medium.persist(block.state.as_ptr(), 8);
        }
    }

    /// Makes a replacement stand on its own, so that its origin may be reused.
    pub(super) fn finalize(&self, leaf: Shared<Leaf<M>>, origin: u32) {
        let block = self.block(leaf);
        // AcqRel on success, relaxed on failure: only a block that is still `New` is made `Live`; a
        // later replacement of it has spoken already.
        let _ = block.state.compare_exchange(
            BlockState::New { origin }.encode(),
            BlockState::Live.encode(),
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        if !M::mutant("nbtree.finalize_unflushed") {
            // Persist: `Live` before the origin is reused, or recovery would look for an origin that
            // says something else by then (I9).
            self.medium.persist(block.state.as_ptr(), 8);
        }
    }

    /// Whether an aborted merge still stands in a leaf's `successor`.
    pub(super) fn is_aborted(successor: Shared<Successor<M>>) -> bool {
        // Acquire: the decision; pairs with the exchange in `merge.rs`.
        successor.status.load(Ordering::Acquire) == ABORTED
    }

    /// Whether a merge was decided to happen.
    pub(super) fn is_committed_merge(successor: Shared<Successor<M>>) -> bool {
        // Acquire: the decision; pairs with the exchange in `merge.rs`.
        successor.status.load(Ordering::Acquire) == MERGE_COMMITTED
    }
}

/// Gives up a block that nobody else has seen.
fn discard_block<M: Machine>(session: &mut Session<M>, block: Shared<Block<M>>, number: u32) {
    // Relaxed: nobody else looks at the block; a crash before it is durable leaves a `New` that its
    // origin does not name.
    block.state.store(BlockState::Free.encode(), Ordering::Relaxed);
    session.free_block(number);
}
