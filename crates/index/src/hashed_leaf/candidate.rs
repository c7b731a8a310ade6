//! Step 2 of a replacement (`split.rs`): the frozen entries go into private blocks, of which one pair wins.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Atomic, Machine, Ordering, Pair};

use super::HashedLeafTree;
use super::layout::{Cold, DEAD, LeafId, LeafShape, Successor, UNKNOWN};
use super::placement::Placement;
use super::probe::{Filling, usable};
use crate::api::change::{Effect, Outcome};
use crate::kind::{Kind, halve_entries};
use crate::nbtree::layout::owner_word;
use crate::nbtree::shared::Shared;
use crate::nbtree::state::{BlockState, EMPTY_ENTRY, FROZEN, LIVE};
use crate::nbtree::write::Write;

/// A replacement that nobody else has seen.
pub(super) struct Candidate<M: Machine> {
    pub successor: *mut Successor<M>,
    /// The outcome of the carried operation, if it is part of the new contents.
    pub carried: Option<Outcome>,
    /// Why the leaf is only compacted although it is full.
    pub no_space: Option<AllocError>,
}

/// The fingerprints of a leaf without entries.
pub(super) fn unclaimed<G: LeafShape>() -> [[u8; 64]; 4] {
    std::array::from_fn(|chunk| {
        let free = if chunk < G::CHUNKS { usable::<G>(chunk) } else { 0 };
        std::array::from_fn(|within| if free >> within & 1 == 1 { UNKNOWN } else { DEAD })
    })
}

impl<K: Kind<M>, G: LeafShape, M: Machine> HashedLeafTree<K, G, M> {
    /// The frozen contents of a leaf, as live entries in no order.
    pub(super) fn frozen_entries(&self, leaf: LeafId) -> Vec<Pair> {
        let mut entries = Vec::with_capacity(G::CAPACITY + 2);
        for position in G::HEADER_POSITIONS..G::POSITIONS {
            let entry = self.entry(leaf, position).load();
            if K::state(entry) == FROZEN {
                entries.push(K::with_state(entry, LIVE));
            }
        }
        entries
    }

    /// Step 2: a private replacement of a frozen leaf.
    pub(super) fn build_candidate(
        &self,
        session: &mut Session<M>,
        leaf: LeafId,
        carry: Option<&Write<'_, K, M>>,
    ) -> Result<Candidate<M>, AllocError> {
        let mut entries = self.frozen_entries(leaf);
        let (carried, inserted) = match carry {
            Some(write) if !M::mutant("hashed.no_carry") => {
                self.apply_carry(leaf, &mut entries, write)
            }
            _ => (None, None),
        };
        let count = entries.len();
        // What merges give up comes without a write: each of its leaves has one of the two blocks that were
        // reserved, and if one split, a full pool would be left with a frozen leaf.
        if count * 2 <= G::CAPACITY || count < 2 || carry.is_none() {
            let successor = self.build_successor(session, leaf, &entries, count, 0)?;
            return Ok(Candidate { successor, carried, no_space: None });
        }
        let at = self.split_position(leaf, &entries, inserted);
        // Only the halves matter, not the order within.
        halve_entries::<K, M>(self.base, &mut entries, at);
        let below = entries[..at]
            .iter()
            .copied()
            .max_by(|a, b| K::compare(self.base, *a, *b))
            .expect("a split leaves entries on both sides");
        let low = self.cold(leaf).low.read_private();
        // A thread that helps may have had space for one block only.
        let fence = session
            .reserve_blocks_of(G::BLOCK_CLASS, 2)
            .and_then(|()| K::make_fence(session, low, below, entries[at]));
        match fence {
            Ok(fence) => match self.build_successor(session, leaf, &entries, at, fence) {
                Ok(successor) => Ok(Candidate { successor, carried, no_space: None }),
                Err(error) => {
                    K::free_fence(session, fence);
                    Err(error)
                }
            },
            Err(error) if error.lacks_space() => {
                // No room to split: only compact the leaf, so that it is not left frozen.
                M::mark("hashed.split.no_room");
                let kept = self.frozen_entries(leaf);
                let successor = self.build_successor(session, leaf, &kept, kept.len(), 0)?;
                Ok(Candidate { successor, carried: None, no_space: Some(error) })
            }
            Err(error) => Err(error),
        }
    }

    /// Applies the carried write to the contents. Returns its outcome if it has an effect, and the
    /// entry if it inserted one.
    fn apply_carry(
        &self,
        leaf: LeafId,
        entries: &mut Vec<Pair>,
        write: &Write<'_, K, M>,
    ) -> (Option<Outcome>, Option<Pair>) {
        let skip = self.skip(leaf);
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

    /// Where to cut: in the middle, or near the end when keys arrive in order.
    fn split_position(&self, leaf: LeafId, entries: &[Pair], inserted: Option<Pair>) -> usize {
        let count = entries.len();
        let high = self.cold(leaf).high.read_private();
        let last_of_class = high == 0 || K::is_boundary(high);
        let in_order = last_of_class
            && inserted.is_some_and(|inserted| {
                entries.iter().all(|entry| K::compare(self.base, *entry, inserted).is_le())
            });
        if in_order { count - (count / 10).max(1) } else { count / 2 }
    }

    /// Leaves for `entries[..at]` and `entries[at..]`, and the successor that names them.
    fn build_successor(
        &self,
        session: &mut Session<M>,
        leaf: LeafId,
        entries: &[Pair],
        at: usize,
        split: u64,
    ) -> Result<*mut Successor<M>, AllocError> {
        let cold = self.cold(leaf);
        let (low, high) = (cold.low.read_private(), cold.high.read_private());
        let two = at < entries.len();
        let (skip, origin) = (self.skip(leaf), leaf.block::<G>());
        let middle = if two { split } else { high };
        let left = self.build_leaf(session, low, middle, &entries[..at], skip, origin)?;
        let mut right = Ok(None);
        if two {
            right = self.build_leaf(session, split, high, &entries[at..], skip, origin).map(Some);
        }
        let successor = right.and_then(|right| self.name_leaves(session, left, right, middle));
        successor.inspect_err(|_| self.discard_leaf(session, left))
    }

    /// The successor that names two leaves, or one. If there is no space for it, the right one goes.
    fn name_leaves(
        &self,
        session: &mut Session<M>,
        left: LeafId,
        right: Option<LeafId>,
        split: u64,
    ) -> Result<*mut Successor<M>, AllocError> {
        let status = Atomic::new(0);
        let contents = Successor { left, right, split, merging: None, status };
        let successor = self.new_successor(session, contents);
        if let (Err(_), Some(right)) = (&successor, right) {
            self.discard_leaf(session, right);
        }
        successor
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
    ) -> Result<LeafId, AllocError> {
        let number = session.allocate_block_of(G::BLOCK_CLASS)?;
        let leaf = LeafId::of_block::<G>(number, Placement::choose::<K, G, M>(low, high, entries));
        if let Err(error) = self.slab.prepare(leaf) {
            if !M::mutant("hashed.keeps_refused") {
                session.free_block_of(G::BLOCK_CLASS, number);
            }
            return Err(error);
        }
        let skip = K::shared_prefix(self.base, low, high);
        let header = self.header(leaf);
        // Relaxed: private. The block of a tree that was cleared still says `Live`; on the same
        // line, and so also in the pool, this comes before the owner word, or a crash in between
        // would make a leaf of ours of what the block holds (I9).
        header.state.store(BlockState::Free.encode(), Ordering::Relaxed);
        let mut filling = Filling::<G>::new();
        let mut bytes = unclaimed::<G>();
        for entry in entries {
            let entry =
                if skip == skip_before { *entry } else { K::rekey(self.base, *entry, skip) };
            let probe = self.probe_of(leaf, low, entry);
            let position = filling.take(&probe);
            self.entry(leaf, position).write_private(entry);
            bytes[position / G::CHUNK][position % G::CHUNK] = probe.fingerprint;
        }
        for position in G::HEADER_POSITIONS..G::POSITIONS {
            // What the block's last life left must not be taken for entries (I10).
            let left_over = !filling.is_taken(position)
                && self.entry(leaf, position).read_private() != EMPTY_ENTRY;
            if left_over && !M::mutant("hashed.no_clear") {
                self.entry(leaf, position).write_private(EMPTY_ENTRY);
            }
        }
        header.low.write_private(low);
        header.placement.write_private(u64::from(leaf.placement.to_bits()));
        // Release: after the store of `Free` to the state; the order counts in the pool: recovery reads both after a
        // crash.
        header.owner.store(owner_word(self.id, skip), Ordering::Release);
        // Release: where a visible store is durable, the contents come first; recovery's view.
        header.state.store(BlockState::New { origin }.encode(), Ordering::Release);
        if !M::mutant("hashed.no_build_flush") {
            // Persist: the whole block before the state word of its origin names it, or recovery
            // would find a live block without its entries (I9).
            self.medium.persist(self.block_start(leaf), G::BLOCK_BYTES);
        }
        self.begin_leaf(leaf, low, high, skip, &bytes, 0);
        Ok(leaf)
    }

    /// Writes the volatile half of a leaf that nobody can reach.
    pub(super) fn begin_leaf(
        &self,
        leaf: LeafId,
        low: u64,
        high: u64,
        skip: usize,
        fingerprints: &[[u8; 64]; 4],
        flags: u64,
    ) {
        self.slab.note_use(leaf);
        for (chunk, bytes) in fingerprints.iter().enumerate().take(G::CHUNKS) {
            let line = self.fingerprints(leaf, chunk);
            for (within, byte) in bytes.iter().enumerate() {
                line.write_private(within, *byte);
            }
        }
        let cold: &Cold<M> = self.cold(leaf);
        cold.flags.write_private(flags);
        cold.successor.write_private(std::ptr::null_mut());
        cold.order.write_private(0);
        cold.low.write_private(low);
        cold.high.write_private(high);
        cold.skip.write_private(skip as u64);
        cold.in_flight.write_private(0);
    }

    /// Gives up a candidate that lost.
    pub(super) fn discard(&self, session: &mut Session<M>, successor: *mut Successor<M>) {
        // SAFETY: the candidate was never published.
        let candidate = unsafe { Shared::new(successor) };
        let (left, right) = (candidate.left, candidate.right);
        if let Some(right) = right {
            if !M::mutant("hashed.discard_keeps_right") {
                self.discard_leaf(session, right);
            }
            K::free_fence(session, candidate.split);
        }
        self.discard_leaf(session, left);
        // SAFETY: allocated with this size, never published.
        unsafe { session.free_node(successor.cast(), size_of::<Successor<M>>()) };
    }

    /// Gives up a leaf that nobody else has seen.
    pub(super) fn discard_leaf(&self, session: &mut Session<M>, leaf: LeafId) {
        // Relaxed: nobody else looks at the block; a crash before it is durable leaves a `New` that
        // its origin does not name.
        self.header(leaf).state.store(BlockState::Free.encode(), Ordering::Relaxed);
        session.free_block_of(G::BLOCK_CLASS, leaf.block::<G>());
    }
}
