//! Recovery: from the blocks of a pool to its trees.
//!
//! Which blocks are live, and in which order, is decided as in `nbtree/recover.rs`. Then the volatile
//! half of each leaf is made, in parallel: an entry that was never linearized becomes a `TOMB`; what a
//! crash left of half a claim is cleared; positions that are free and that a key has passed are
//! given up (their line was lost while that of the key survived). A leaf that a crash left frozen is *thawed*, as in
//! `nbtree/recover.rs`. A state that is none, and an integer outside of its leaf's fences, are damage, and refuse the
//! pool. Or all that is made later (`restore.rs`).

use std::marker::PhantomData;
use std::sync::Arc;

use everleaf_alloc::{AllocError, BLOCK_SIZE, Recovery, Session};
use everleaf_machine::{AtomicPair, LINE_SIZE, Machine, Pair, SpinLock};

use super::candidate::unclaimed;
use super::layout::{DEAD, FREEZING, LeafId, LeafShape, UNKNOWN};
use super::placement::Placement;
use super::probe::usable;
use super::state::FROZEN_EMPTY;
use super::{HashedLeafTree, Slab};
use crate::kind::Kind;
use crate::nbtree::Contents;
use crate::nbtree::layout::owner_parts;
use crate::nbtree::recover::{LiveBlocks, Task, sort_blocks};
use crate::nbtree::state::{EMPTY, EMPTY_ENTRY, FROZEN, LIVE, PENDING, TOMB, holds};

/// Threads that rebuild a tree together, at most.
const SHARE_COUNT_MAX: usize = 128;

impl<K: Kind<M>, G: LeafShape, M: Machine> HashedLeafTree<K, G, M> {
    /// The tree with this id from its live blocks.
    ///
    /// If the pool is sealed, every leaf is compared with its sum, and what they hold is added to
    /// `sealed`.
    pub(crate) fn recover_from(
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        id: u32,
        live: LiveBlocks,
        slab: Arc<Slab<G, M>>,
        threads: usize,
        sealed: Option<&mut Contents>,
    ) -> Result<Self, AllocError> {
        let heap = session.heap().clone();
        let tree = Self::assemble(heap.clone(), id, slab);
        let tasks = sort_blocks::<K, M>(&heap, recovery, live)?;
        // A share has no session: only the threads that are started are bounded.
        let shares = threads.clamp(1, tasks.len()).min(SHARE_COUNT_MAX);
        let share = tasks.len().div_ceil(shares);
        let verify = sealed.is_some();
        let result = SpinLock::<_, M>::new(Ok((0, Contents::default())));
        M::parallel(shares, shares, &|index| {
            let part =
                &tasks[(index * share).min(tasks.len())..((index + 1) * share).min(tasks.len())];
            let known = || result.lock().as_ref().ok().map(|(keys, _)| *keys);
            let known = M::mutant("hashed.shares_count_apart").then(known).flatten();
            let done = tree.rebuild_leaves(recovery, part, verify);
            let mut result = result.lock();
            match (done, &mut *result) {
                (Ok((more, contents)), Ok((keys, whole))) => {
                    *keys = known.unwrap_or(*keys) + more;
                    whole.add(contents);
                }
                (Err(error), Ok(_)) => *result = Err(error),
                (_, Err(_)) => {}
            }
        });
        let mut result = result;
        let (keys, contents): (u64, _) =
            std::mem::replace(result.get_mut(), Ok((0, Contents::default())))?;
        if let Some(sealed) = sealed {
            sealed.add(contents);
        }
        tree.keys.add(0, keys as i64);
        tree.leaves.add(0, tasks.len() as i64);
        let child = |task: &Task| (task.low, tree.kept_leaf(task.block).as_child());
        let children = tasks.iter().map(child).collect();
        tree.inner.set_root(tree.inner.build_levels(session, children)?);
        Ok(tree)
    }

    /// The leaf in a block of the pool, with its placement.
    pub(super) fn kept_leaf(&self, block: u32) -> LeafId {
        let leaf = LeafId::of_block::<G>(block, Placement::HASHED);
        let placement = self.header(leaf).placement.read_private();
        LeafId { placement: Placement::from_bits(placement as u32), ..leaf }
    }

    /// The volatile half of some leaves; returns how many keys they have, and if they are to be
    /// compared with what they were sealed as, what they hold.
    fn rebuild_leaves(
        &self,
        recovery: &Recovery<M>,
        tasks: &[Task],
        verify: bool,
    ) -> Result<(u64, Contents), AllocError> {
        let (mut keys, mut contents) = (0, Contents::default());
        for (index, task) in tasks.iter().enumerate() {
            if let Some(next) = tasks.get(index + 1) {
                // Blocks lie in the pool in another order than their keys.
                let next = LeafId::of_block::<G>(next.block, Placement::HASHED);
                let block = self.block_start(next);
                for line in (0..G::BLOCK_BYTES).step_by(LINE_SIZE) {
                    M::prefetch(block.wrapping_add(line));
                }
            }
            if verify {
                contents.add(self.sealed_contents(task.block)?);
            }
            let thaws = !verify && !self.heap.pool().is_read_only();
            keys += self.rebuild_leaf(recovery, task, thaws)?;
        }
        // Persist: what was cleared and thawed above, before a seal covers it and the power fails again.
        self.medium.drain();
        Ok((keys, contents))
    }

    /// Gives a position what it has after the crash.
    fn mend(&self, cell: &AtomicPair<M>, entry: Pair) {
        cell.write_private(entry);
        if !M::mutant("hashed.no_clearing_flush") {
            // Persist: the entry before a seal of the pool, whose sum has it; drained at the end of the
            // share.
            self.medium.flush(cell.as_ptr(), 16);
        }
    }

    fn rebuild_leaf(
        &self,
        recovery: &Recovery<M>,
        task: &Task,
        thaws: bool,
    ) -> Result<u64, AllocError> {
        let leaf = self.kept_leaf(task.block);
        self.slab.prepare(leaf)?;
        let (_, skip) = owner_parts(self.header(leaf).owner.read_private());
        let writable = !self.heap.pool().is_read_only();
        let thaws = thaws && !M::mutant("hashed.recovery_keeps_frozen");
        let mut survey = Survey::<G>::new(thaws);
        for position in G::HEADER_POSITIONS..G::POSITIONS {
            let cell = self.entry(leaf, position);
            let entry = cell.read_private();
            if let Some(what) = self.damage(task.low, task.high, entry) {
                return Err(damaged::<G>(leaf, what));
            }
            if let Some(mended) = survey.take(self, leaf, task.low, position, entry)
                && writable
            {
                self.mend(cell, mended);
            }
            if holds(K::state(entry))
                && let Some(mark) = K::entry_mark(recovery, entry)?
            {
                mark.set()?;
            }
        }
        let (keys, frozen) = (survey.keys(), survey.is_frozen());
        let bytes = survey.fingerprints::<M>();
        let flags = if frozen { FREEZING } else { 0 };
        self.begin_leaf(leaf, task.low, task.high, skip, &bytes, flags);
        Ok(keys)
    }

    /// What cannot be in a leaf of this range: no crash has left it so, and a replacement would copy it.
    pub(super) fn damage(&self, low: u64, high: u64, entry: Pair) -> Option<&'static str> {
        if M::mutant("hashed.takes_damaged") {
            return None;
        }
        let state = K::state(entry);
        if !matches!(state, EMPTY | PENDING | LIVE | TOMB | FROZEN | FROZEN_EMPTY) {
            return Some("a position has a state that is none");
        }
        if !holds(state) || K::HAS_TAILS {
            return None;
        }
        let below = K::compare_fence_to_entry(self.base, low, low, entry).is_gt();
        let above = high != 0 && K::compare_fence_to_entry(self.base, high, low, entry).is_le();
        (below || above).then_some("a key is outside of its fences")
    }
}

/// The error of a leaf that is damaged within.
pub(super) fn damaged<G: LeafShape>(leaf: LeafId, what: &str) -> AllocError {
    let offset = u64::from(leaf.block::<G>()) * BLOCK_SIZE as u64;
    AllocError::Corrupt { offset, what: format!("a leaf: {what}") }
}

/// What the positions of a leaf of shape `G` are after a crash.
pub(super) struct Survey<G> {
    bytes: [[u8; LINE_SIZE]; 4],
    /// Positions of each chunk that a key has passed.
    passed: [u64; 4],
    keys: u64,
    /// Whether what is frozen is thawed.
    thaws: bool,
    frozen: bool,
    shape: PhantomData<G>,
}

impl<G: LeafShape> Survey<G> {
    /// Of no position yet. Who `thaws` what is frozen is alone with the leaf, and stores what [`Self::take`] says.
    pub fn new(thaws: bool) -> Self {
        let (bytes, passed, shape) = (unclaimed::<G>(), [0; 4], PhantomData);
        Survey { bytes, passed, keys: 0, thaws, frozen: false, shape }
    }

    /// Takes up what a position has; what it has to have instead, if a crash left it half done.
    #[inline(always)]
    pub fn take<K: Kind<M>, M: Machine>(
        &mut self,
        tree: &HashedLeafTree<K, G, M>,
        leaf: LeafId,
        low: u64,
        position: usize,
        entry: Pair,
    ) -> Option<Pair> {
        let byte = &mut self.bytes[position / G::CHUNK][position % G::CHUNK];
        let state = K::state(entry);
        let is_frozen = state == FROZEN || state == FROZEN_EMPTY;
        self.frozen |= is_frozen && !self.thaws;
        if state == FROZEN_EMPTY && self.thaws && !M::mutant("hashed.thaws_keys_only") {
            return Some(EMPTY_ENTRY);
        }
        if state == EMPTY {
            let is_half = entry != EMPTY_ENTRY && !M::mutant("hashed.recovery_keeps_half");
            return is_half.then_some(EMPTY_ENTRY);
        }
        *byte = DEAD;
        if holds(state) {
            let probe = tree.probe_of(leaf, low, entry);
            *byte = probe.fingerprint;
            self.keys += 1;
            for turn in 0..G::CHUNKS {
                let chunk = probe.chunk(turn);
                let is_own = chunk == position / G::CHUNK;
                let last = if is_own { 1 << (position % G::CHUNK) } else { 0 };
                if !is_own || !M::mutant("hashed.plugs_chunks") {
                    self.passed[chunk] |= probe.before_first(turn, last);
                }
                if is_own {
                    break;
                }
            }
        }
        if state == FROZEN && self.thaws && !M::mutant("hashed.recovery_thaws") {
            return Some(K::with_state(entry, LIVE));
        }
        let is_pending = state == PENDING && !M::mutant("hashed.recovery_keeps_pending");
        is_pending.then(|| K::with_state(entry, TOMB))
    }

    /// How many keys the leaf holds.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// Whether a position stays frozen, and so the leaf.
    pub fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// The fingerprints of all positions.
    pub fn fingerprints<M: Machine>(mut self) -> [[u8; LINE_SIZE]; 4] {
        for chunk in 0..G::CHUNKS {
            let passed = if M::mutant("hashed.no_plug") { 0 } else { self.passed[chunk] };
            let given_up = if self.frozen { u64::MAX } else { passed } & usable::<G>(chunk);
            for (within, byte) in self.bytes[chunk].iter_mut().enumerate() {
                if *byte == UNKNOWN && given_up >> within & 1 == 1 {
                    *byte = DEAD;
                }
            }
        }
        self.bytes
    }
}
