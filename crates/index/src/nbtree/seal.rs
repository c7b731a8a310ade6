//! Sealing: a check sum in each leaf block, and their total, so that the next opening can tell whether
//! an entry or a leaf is missing.
//!
//! Nothing is sealed while the tree is written to. When the pool is closed every leaf whose sum is not
//! that of its contents gets it, durably; then the total goes into the pool's seal
//! (`crates/pool/src/pool/seal.rs`), which alone says that the sums are to be believed. So a sum that a
//! crash has left behind its leaf is no damage, and a leaf whose sum does fit is as it was at a clean
//! close.
//!
//! The sum covers the number of the block, fence, owner and all entries; not the state word, which
//! opening a pool may change, and which cannot be damaged without being told.

use everleaf_alloc::{AllocError, BLOCK_SIZE, Heap, Session};
use everleaf_machine::{LINE_SIZE, Machine, Ordering, SpinLock};

use super::NbTree;
use super::layout::{BLOCK_HEADER_SIZE, Block, Inner, Leaf};
use super::recover::block_at;
use super::shared::Shared;
use super::state::{FREEZING, REPLACED, holds};
use crate::geometry::Geometry;
use crate::kind::Kind;

/// Leaves that one thread seals at a time.
const SHARE: usize = 1024;
/// The same on a simulated machine: few, so that small trees have several shares.
const SIMULATED_SHARE: usize = 2;

/// What some leaves hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub leaves: u64,
    pub keys: u64,
    /// The sums of the leaves, mixed so that none can stand for another, and added up.
    pub sum: u64,
}

impl Contents {
    pub fn add(&mut self, other: Contents) {
        self.leaves += other.leaves;
        self.keys += other.keys;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

/// What a block holds, and the sum of it.
pub(super) fn contents_of<K: Kind<M>, G: Geometry, M: Machine>(
    block: Shared<Block<M>>,
    number: u32,
) -> (Contents, u64) {
    let mut bytes = [0; BLOCK_SIZE];
    let mut put = |at: usize, word: u64| bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    put(0, u64::from(number));
    put(8, block.low.read_private());
    put(16, block.owner.read_private());
    let mut keys = 0;
    for slot in 0..G::SLOT_COUNT {
        let entry = block.entries[slot].read_private();
        let at = BLOCK_HEADER_SIZE + 16 * slot;
        put(at, entry.first);
        put(at + 8, entry.second);
        keys += u64::from(holds(K::state(entry)));
    }
    let sum = sum_of(&bytes[..BLOCK_HEADER_SIZE + 16 * G::SLOT_COUNT]);
    (Contents { leaves: 1, keys, sum: mixed_sum(sum, number) }, sum)
}

/// The sum of a block in the sum of all: no other block's can stand for it.
pub(crate) fn mixed_sum(sum: u64, number: u32) -> u64 {
    let mixed = (sum ^ u64::from(number) << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ mixed >> 32
}

/// The sum of a block, of which the first word is its number instead of its state, and the fourth,
/// where the sum is, 0.
pub(crate) fn sum_of(bytes: &[u8]) -> u64 {
    // Never 0, which is what a block has that was not sealed yet.
    1 << 32 | u64::from(crc32c::crc32c(bytes))
}

impl<K: Kind<M>, G: Geometry, M: Machine> NbTree<K, G, M> {
    /// Seals all leaves durably, on up to `threads` threads, and says what they hold. Nobody writes.
    pub(crate) fn seal(&self, session: &mut Session<M>, threads: usize) -> Contents {
        let mut leaves = vec![];
        session.pin();
        self.collect_leaves(self.root(), &mut leaves);
        let total = SpinLock::<_, M>::new(Contents::default());
        let share_size = if M::SIMULATED { SIMULATED_SHARE } else { SHARE };
        M::parallel(threads, leaves.len().div_ceil(share_size), &|share| {
            let end = match M::mutant("nbtree.seals_first_share") {
                true => leaves.len().min(share_size),
                false => leaves.len().min((share + 1) * share_size),
            };
            let mut contents = Contents::default();
            for (index, (_, leaf)) in leaves[..end].iter().enumerate().skip(share * share_size) {
                if let Some((_, next)) = leaves.get(index + 1) {
                    M::prefetch(next.0.cast::<u8>().wrapping_add(LINE_SIZE));
                }
                // SAFETY: children of level 1 are leaves, and the caller of `seal` is pinned.
                self.seal_chain(unsafe { Shared::new(leaf.0.cast()) }, &mut contents);
            }
            // Persist: the sums of the share before the pool's seal, or a seal would speak of sums that are lost.
            self.medium.drain();
            total.lock().add(contents);
        });
        session.unpin();
        let mut total = total;
        *total.get_mut()
    }

    /// The leaves that the inner nodes lead to.
    fn collect_leaves(&self, node: Shared<Inner<M>>, leaves: &mut Vec<(u64, SendLeaf)>) {
        for (fence, child) in node.children::<K>() {
            if node.level > 1 {
                // SAFETY: children above level 1 are inner nodes, read while pinned.
                self.collect_leaves(unsafe { Shared::new(child.cast()) }, leaves);
            } else {
                leaves.push((fence, SendLeaf(child)));
            }
        }
    }

    /// Seals the current leaves behind one that the inner nodes lead to.
    fn seal_chain(&self, leaf: Shared<Leaf<M>>, contents: &mut Contents) {
        // Acquire: as in `resolve`.
        let meta = leaf.meta.load(Ordering::Acquire);
        if meta & REPLACED == 0 {
            let block = self.block(leaf);
            let (found, sum) = contents_of::<K, G, M>(block, leaf.block);
            contents.add(found);
            // What is as it was at the last close is not written again.
            if block.sum.read_private() != sum {
                block.sum.write_private(sum);
                if !M::mutant("nbtree.no_seal_flush") {
                    // Persist: the sum before the pool's seal, which says that it is to be
                    // believed; drained at the end of the share.
                    self.medium.flush(block.sum.as_ptr(), 8);
                }
            }
            if meta & FREEZING != 0 && !M::mutant("nbtree.no_frozen_flush") {
                // Persist: what froze a leaf whose replacement found no space, before the pool's seal, whose sum has
                // it; it was never flushed. Drained likewise. Also where the sum is there already: a close that was
                // cut off may have left it, and a part of the block.
                self.medium.flush(block.as_ptr().cast(), BLOCK_SIZE);
            }
            return;
        }
        // Acquire: the successor is complete; pairs with its installation.
        let successor = leaf.successor.load(Ordering::Acquire);
        // SAFETY: a replaced leaf has a successor, retired no earlier than the leaf, and the caller is pinned.
        let (left, right) = self.successor_leaves(unsafe { Shared::new(successor) });
        self.seal_chain(left, contents);
        if let Some(right) = right {
            self.seal_chain(right, contents);
        }
    }

    /// What the block of a leaf holds, if it is as it was sealed.
    ///
    /// # Errors
    /// It is not.
    pub(super) fn sealed_contents(heap: &Heap<M>, number: u32) -> Result<Contents, AllocError> {
        let block = block_at(heap, number);
        let (contents, sum) = contents_of::<K, G, M>(block, number);
        if block.sum.read_private() == sum {
            return Ok(contents);
        }
        let offset = u64::from(number) * BLOCK_SIZE as u64;
        let what = "a leaf is not as it was when the pool was closed".to_string();
        Err(AllocError::Corrupt { offset, what })
    }

    /// Whether a leaf is as it was at some clean close.
    pub(super) fn is_proven(&self, leaf: Shared<Leaf<M>>) -> bool {
        Self::sealed_contents(&self.heap, leaf.block).is_ok()
    }
}

/// A leaf on its way to the thread that seals it.
#[derive(Clone, Copy)]
struct SendLeaf(*mut ());

// SAFETY: read by threads that end before the session that pinned it is unpinned.
unsafe impl Send for SendLeaf {}
// SAFETY: as for `Send`.
unsafe impl Sync for SendLeaf {}
