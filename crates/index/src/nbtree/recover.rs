//! Recovery: from the blocks of a pool to its trees.
//!
//! 1. Every leaf block of the pool is classified by its state word (`state.rs`), in parallel. A live
//!    block that leans on another one's word is made `Live`, a dead one that leans on its merge
//!    partner's is made `Free`; only these stores are made, and they are what the running system
//!    would have done, so recovery can be cut and repeated anywhere.
//! 2. The live blocks of a tree are sorted by their low fences, which must start at the lowest and
//!    be distinct.
//! 3. Each block's leaf metadata is rebuilt, in parallel: slots that hold keys are committed,
//!    pending and removed ones are not. A leaf that a crash left frozen is *thawed*: it was not
//!    replaced, or its block were not live, and nobody is at it any more. To complete its replacement
//!    would need a block, which others may have taken by then, and removals must not need space. In a
//!    pool that was sealed nothing is changed: there such a leaf, which had found no memory, is frozen
//!    again, as in one that is only read, and the first writer completes its replacement.
//! 4. The inner nodes are built bottom-up.

use everleaf_alloc::{AllocError, BLOCK_SIZE, Heap, Mark, Recovery, Session};
use everleaf_machine::{FingerprintLine, LINE_SIZE, Machine, Pair, SpinLock};

use super::NbTree;
use super::inner::Child;
use super::layout::{Block, Leaf, owner_parts};
use super::seal::Contents;
use super::shared::Shared;
use super::state::{BlockState, EMPTY, FREEZING, FROZEN, LIVE, NO_BLOCK, PENDING, holds};
use crate::geometry::Geometry;
use crate::kind::Kind;
use crate::pool_trees::pool_base::PoolBase;

/// Threads that rebuild a tree together, at most.
const SHARE_COUNT_MAX: usize = 128;

/// Headers are asked for so many blocks before they are read.
const AHEAD: usize = 16;

/// The live blocks of one tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveBlocks {
    /// Low fence and number of each block, in no order.
    pub blocks: Vec<(u64, u32)>,
}

/// A block of the pool, for as long as the heap lives.
pub(super) fn block_at<M: Machine>(heap: &Heap<M>, number: u32) -> Shared<Block<M>> {
    // SAFETY: callers pass numbers of blocks inside the pool, whose mapping the heap keeps.
    unsafe { Shared::new(heap.base().wrapping_add(number as usize * BLOCK_SIZE).cast()) }
}

/// Step 1: the live blocks, of one class, of the trees with these ids.
pub(crate) fn find_live_blocks<M: Machine>(
    heap: &Heap<M>,
    recovery: &Recovery<M>,
    ids: &[u32],
    class: usize,
    threads: usize,
) -> Result<Vec<LiveBlocks>, AllocError> {
    let ranges = recovery.blocks_of(class);
    let merged = SpinLock::<_, M>::new(Ok(vec![LiveBlocks::default(); ids.len()]));
    M::parallel(threads, ranges.len(), &|index| {
        let mut found = vec![LiveBlocks::default(); ids.len()];
        let blocks = ranges[index].clone();
        let mut asked = blocks.clone().skip(AHEAD);
        let mut blocks = blocks.inspect(|_| {
            // No hardware asks for the first line of the block behind this one.
            if let Some(ahead) = asked.next() {
                M::prefetch(block_at(heap, ahead).as_ptr().cast());
            }
        });
        let result =
            blocks.try_for_each(|number| classify(heap, recovery, ids, class, number, &mut found));
        let mut merged = merged.lock();
        match (result, &mut *merged) {
            (Ok(()), Ok(all)) => {
                for (all, found) in all.iter_mut().zip(found) {
                    all.blocks.extend(found.blocks);
                }
            }
            (Err(error), Ok(_)) => *merged = Err(error),
            (_, Err(_)) => {}
        }
    });
    let mut merged = merged;
    std::mem::replace(merged.get_mut(), Ok(vec![]))
}

/// Notes `number` under its tree if it is live.
fn classify<M: Machine>(
    heap: &Heap<M>,
    recovery: &Recovery<M>,
    ids: &[u32],
    class: usize,
    number: u32,
    found: &mut [LiveBlocks],
) -> Result<(), AllocError> {
    let block = block_at(heap, number);
    let offset = u64::from(number) * BLOCK_SIZE as u64;
    let corrupt = |what: &str| AllocError::Corrupt { offset, what: what.to_string() };
    let state = read_state(heap, number).ok_or_else(|| corrupt("a leaf's state word is none"))?;
    let other_state = |other: u32| {
        // Its place may hold records by now, with any bytes in them.
        recovery.is_block(class, other).then(|| read_state(heap, other)).flatten()
    };
    let live = match state {
        BlockState::Live => true,
        BlockState::New { origin } => match other_state(origin) {
            Some(BlockState::Replaced { left, right }) => {
                left == number || right == number || M::mutant("nbtree.recovery_takes_any_new")
            }
            _ => false,
        },
        BlockState::Merging { partner, target } => {
            let moved = BlockState::Replaced { left: target, right: NO_BLOCK };
            other_state(partner) != Some(moved) || M::mutant("nbtree.recovery_revives_merged")
        }
        BlockState::Free | BlockState::Replaced { .. } => false,
    };
    let ended = !live && matches!(state, BlockState::Merging { .. });
    if ended && !heap.pool().is_read_only() && !M::mutant("nbtree.recovery_keeps_marks") {
        block.state.write_private(BlockState::Free.encode());
        if !M::mutant("nbtree.recovery_no_end_flush") {
            // Persist: the end of the mark before the partner it leans on is reused, or the next
            // recovery would find another word there and take the block for live (I9).
            heap.medium().persist(block.state.as_ptr(), 8);
        }
    }
    let (owner, _) = owner_parts(block.owner.read_private());
    let tree = ids.iter().position(|id| *id == owner).filter(|_| live);
    if let Some(tree) = tree {
        let leans = state != BlockState::Live && !M::mutant("nbtree.recovery_leans");
        if leans && !heap.pool().is_read_only() {
            block.state.write_private(BlockState::Live.encode());
            if !M::mutant("nbtree.recovery_no_live_flush") {
                // Persist: `Live` before the word it leant on may be reused (I9).
                heap.medium().persist(block.state.as_ptr(), 8);
            }
        }
        recovery.mark_block(class, number)?;
        found[tree].blocks.push((block.low.read_private(), number));
    }
    Ok(())
}

fn read_state<M: Machine>(heap: &Heap<M>, number: u32) -> Option<BlockState> {
    BlockState::decode(block_at(heap, number).state.read_private())
}

/// One leaf to be rebuilt.
pub(crate) struct Task {
    pub low: u64,
    pub high: u64,
    pub block: u32,
}

/// Step 2: the blocks in order of their fences, with the upper fence of each.
pub(crate) fn sort_blocks<K: Kind<M>, M: Machine>(
    heap: &Heap<M>,
    recovery: &Recovery<M>,
    live: LiveBlocks,
) -> Result<Vec<Task>, AllocError> {
    let base = PoolBase::of(heap);
    let mut blocks = live.blocks;
    // What all fences but the lowest begin with: heads are read behind it.
    let mut shared = None;
    for (index, (low, number)) in blocks.iter().enumerate() {
        if let Some((ahead, _)) = blocks.get(index + AHEAD).filter(|_| K::HAS_TAILS) {
            // Fences of byte strings are records, of which this is the place.
            M::prefetch(base.start().wrapping_add(*ahead as usize));
        }
        K::mark_fence(heap, recovery, *low).map_err(|error| match error {
            AllocError::Corrupt { what, .. } => {
                let offset = u64::from(*number) * BLOCK_SIZE as u64;
                AllocError::Corrupt { offset, what: format!("low fence: {what}") }
            }
            other => other,
        })?;
        if *low != 0 {
            let (first, length) = shared.unwrap_or((*low, usize::MAX));
            shared = Some((first, length.min(K::shared_prefix(base, first, *low))));
        }
    }
    // One that is alone has no more in common with others than it has bytes.
    let skip = shared.map_or(0, |(_, length)| length);
    let head = |low: u64| if low == 0 { 0 } else { K::fence_head(base, low, skip) };
    // The heads apart: then most pairs are compared without a look at a record.
    let mut heads: Vec<_> = blocks.iter().map(|block| (head(block.0), *block)).collect();
    heads.sort_unstable_by(|(head, (low, _)), (other_head, (other_low, _))| {
        head.cmp(other_head).then_with(|| K::compare_fences(base, *low, *other_low))
    });
    blocks.clear();
    blocks.extend(heads.into_iter().map(|(_, block)| block));
    let corrupt = |number: u32, what: &str| AllocError::Corrupt {
        offset: u64::from(number) * BLOCK_SIZE as u64,
        what: what.to_string(),
    };
    for pair in blocks.windows(2) {
        if K::compare_fences(base, pair[0].0, pair[1].0).is_eq() {
            return Err(corrupt(pair[1].1, "two leaves have the same low fence"));
        }
    }
    for low in K::FIRST_LOWS {
        let at = blocks.partition_point(|block| K::compare_fences(base, block.0, *low).is_lt());
        if blocks.get(at).is_none_or(|block| block.0 != *low) {
            let number = blocks.first().map_or(0, |block| block.1);
            return Err(corrupt(number, "the leaf with a first low fence is missing"));
        }
    }
    let highs = blocks.iter().skip(1).map(|block| block.0).chain([0]);
    let task = |((low, block), high): (&(u64, u32), u64)| Task { low: *low, high, block: *block };
    Ok(blocks.iter().zip(highs).map(task).collect())
}

impl<K: Kind<M>, G: Geometry, M: Machine> NbTree<K, G, M> {
    /// Steps 2 to 4: the tree with this id from its live blocks. If the pool is sealed, every leaf is
    /// compared with its sum, and what they hold is added to `sealed`.
    pub(crate) fn recover(
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        id: u32,
        live: LiveBlocks,
        threads: usize,
        mut sealed: Option<&mut Contents>,
    ) -> Result<Self, AllocError> {
        let heap = session.heap().clone();
        let tree = Self::assemble(heap.clone(), id, 0);
        let tasks = sort_blocks::<K, M>(&heap, recovery, live)?;
        // Each share has a session, of which a heap admits few.
        let shares = threads.clamp(1, tasks.len()).min(SHARE_COUNT_MAX);
        let share = tasks.len().div_ceil(shares);
        let nothing = (0..shares).map(|_| None).collect::<Vec<_>>();
        let results = SpinLock::<_, M>::new(nothing);
        let verify = sealed.is_some();
        M::parallel(shares, shares, &|index| {
            let part =
                &tasks[(index * share).min(tasks.len())..((index + 1) * share).min(tasks.len())];
            let result = heap
                .session()
                .and_then(|mut session| tree.rebuild_leaves(&mut session, recovery, part, verify));
            results.lock()[index] = Some(result);
        });
        let mut results = results;
        let parts = std::mem::take(results.get_mut());
        let mut children: Vec<Child> = Vec::with_capacity(tasks.len());
        for part in parts.into_iter().flatten() {
            let Rebuilt { children: part, keys, contents } = part?;
            children.extend(part.into_iter().map(|(low, leaf)| (low, leaf.0)));
            tree.keys.add(0, keys as i64);
            if let Some(sealed) = &mut sealed {
                sealed.add(contents);
            }
        }
        tree.leaves.add(0, children.len() as i64);
        tree.inner.set_root(tree.inner.build_levels(session, children)?);
        Ok(tree)
    }

    /// Step 3 for some leaves; also counts their keys.
    fn rebuild_leaves(
        &self,
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        tasks: &[Task],
        verify: bool,
    ) -> Result<Rebuilt, AllocError> {
        let mut children = Vec::with_capacity(tasks.len());
        let mut marks = Vec::with_capacity(G::SLOT_COUNT);
        let (mut keys, mut contents) = (0, Contents::default());
        for (index, task) in tasks.iter().enumerate() {
            if let Some(next) = tasks.get(index + 1) {
                // Blocks lie in the pool in another order than their keys.
                let block = block_at(&self.heap, next.block).as_ptr().cast::<u8>();
                for line in (0..BLOCK_SIZE).step_by(LINE_SIZE) {
                    M::prefetch(block.wrapping_add(line));
                }
            }
            if verify {
                contents.add(Self::sealed_contents(&self.heap, task.block)?);
            }
            let thaws = !verify && !self.heap.pool().is_read_only();
            let (leaf, count) = self.rebuild_leaf(session, recovery, task, thaws, &mut marks)?;
            children.push((task.low, SendPointer(leaf.cast())));
            keys += count;
        }
        // Persist: what was thawed, before a seal covers it and the power fails again.
        self.medium.drain();
        Ok(Rebuilt { children, keys, contents })
    }

    /// Makes a frozen slot one that holds its key and may change. A crash before that is durable has it thawed again.
    fn thaw(&self, block: Shared<Block<M>>, slot: usize, entry: Pair) {
        if M::mutant("nbtree.recovery_thaws") {
            return;
        }
        let cell = &block.entries[slot];
        cell.write_private(K::with_state(entry, LIVE));
        if !M::mutant("nbtree.no_thaw_flush") {
            // Persist: the entry before a seal of the pool, whose sum has it; drained at the end of the share.
            self.medium.flush(cell.as_ptr(), 16);
        }
    }

    fn rebuild_leaf<'r>(
        &self,
        session: &mut Session<M>,
        recovery: &'r Recovery<M>,
        task: &Task,
        thaws: bool,
        marks: &mut Vec<Mark<'r, M>>,
    ) -> Result<(*mut Leaf<M>, u64), AllocError> {
        let block = block_at(&self.heap, task.block);
        let (_, skip) = owner_parts(block.owner.read_private());
        let fingerprints = FingerprintLine::new();
        let mut committed = 0u64;
        let mut claimed = 0;
        let mut frozen = false;
        let thaws = thaws && !M::mutant("nbtree.recovery_keeps_frozen");
        for slot in 0..G::SLOT_COUNT {
            let entry = block.entries[slot].read_private();
            let state = K::state(entry);
            let skips = state == super::state::TOMB && M::mutant("nbtree.recovery_forgets_removed");
            if state != EMPTY && !skips {
                claimed = slot + 1;
            }
            let taken = state == PENDING && M::mutant("nbtree.recovery_takes_pending");
            if holds(state) || taken {
                committed |= 1 << slot;
                if state == FROZEN && thaws {
                    self.thaw(block, slot, entry);
                } else {
                    frozen |= state == FROZEN;
                }
                fingerprints.write_private(slot, K::entry_fingerprint(task.low, entry));
                if let Some(mark) = K::entry_mark(recovery, entry)? {
                    marks.push(mark);
                }
            }
        }
        // Found above, set here: by now they are in the cache.
        marks.drain(..).try_for_each(Mark::set)?;
        if M::mutant("nbtree.recovery_claims_fewer") {
            claimed = committed.count_ones() as usize;
        }
        let leaf =
            self.new_leaf(session, task.low, task.high, task.block, skip, claimed, fingerprints)?;
        // SAFETY: built just now, private to us.
        let shared = unsafe { Shared::new(leaf) };
        shared.meta.write_private(committed | if frozen { FREEZING } else { 0 });
        Ok((leaf, u64::from(committed.count_ones())))
    }
}

/// Some leaves, with their low fences.
struct Rebuilt {
    children: Vec<(u64, SendPointer)>,
    keys: u64,
    contents: Contents,
}

/// A pointer on its way from the thread that built it to the one that assembles the tree.
struct SendPointer(*mut ());

// SAFETY: the node is private to the recovery and handed over whole.
unsafe impl Send for SendPointer {}
