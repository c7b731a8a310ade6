//! Step 2 of a replacement (`split.rs`): the frozen entries go into private blocks, of which one pair wins.

use everleaf_alloc::{AllocError, BLOCK_SIZE, Session};
use everleaf_machine::{Atomic, AtomicPointer, FingerprintLine, Machine, Ordering, Pair};

use super::NbTree;
use super::layout::{Block, Leaf, SLOT_COUNT_MAX, Successor, owner_word};
use super::shared::Shared;
use super::split_point::split_point;
use super::state::{BlockState, EMPTY, EMPTY_ENTRY, LIVE, holds};
use super::write::Write;
use crate::api::change::{Effect, Outcome};
use crate::geometry::Geometry;
use crate::kind::{Kind, halve_entries};

/// A replacement that nobody else has seen.
pub(super) struct Candidate<M: Machine> {
    pub successor: *mut Successor<M>,
    /// The outcome of the carried operation, if it is part of the new contents.
    pub carried: Option<Outcome>,
    /// Why the leaf is only compacted although it is full.
    pub no_space: Option<AllocError>,
}

impl<K: Kind<M>, G: Geometry, M: Machine> NbTree<K, G, M> {
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
        halve_entries::<K, M>(self.base, &mut entries, at);
        let from = if M::mutant("bytes.split_below_any") { at - 1 } else { 0 };
        let below = entries[from..at]
            .iter()
            .copied()
            .max_by(|a, b| K::compare(self.base, *a, *b))
            .expect("a split leaves entries on both sides");
        // A thread that helps may have had space for one block only.
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
}

/// Gives up a block that nobody else has seen.
fn discard_block<M: Machine>(session: &mut Session<M>, block: Shared<Block<M>>, number: u32) {
    // Relaxed: nobody else looks at the block; a crash before it is durable leaves a `New` that its
    // origin does not name.
    block.state.store(BlockState::Free.encode(), Ordering::Relaxed);
    session.free_block(number);
}
