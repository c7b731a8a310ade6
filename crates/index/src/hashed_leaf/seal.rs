//! Sealing, as `nbtree/seal.rs` does: a check sum in each block that goes, so that the next opening can
//! tell whether an entry or a leaf is missing.
//!
//! The sum lies in the upper half of the word that has the placement in its lower one, beside a bit that
//! says that there is one. It covers the number of the block, fence, owner, placement and all entries.

use everleaf_alloc::{AllocError, BLOCK_SIZE, Session};
use everleaf_machine::{Machine, Ordering, SpinLock};

use super::HashedLeafTree;
use super::layout::{BLOCK_HEADER_SIZE, FREEZING, LeafId, LeafShape, SEALED};
use super::placement::Placement;
use crate::kind::Kind;
use crate::nbtree::layout::Inner;
use crate::nbtree::shared::Shared;
use crate::nbtree::state::holds;
use crate::nbtree::{Contents, mixed_sum, sum_of};

/// Leaves that one thread seals at a time.
const SHARE: usize = 256;
/// The same on a simulated machine: few, so that small trees have several shares.
const SIMULATED_SHARE: usize = 2;

/// The placement word of a block with this sum.
fn sealed_word(placement: u32, sum: u64) -> u64 {
    sum << 32 | SEALED | u64::from(placement)
}

/// Whether the bytes of a block of any tree, as they are in the pool, have the sum of what they hold.
pub(crate) fn is_as_sealed(number: u32, block: &[u8]) -> bool {
    let mut bytes = block.to_vec();
    let Some(header) = bytes.first_chunk_mut::<BLOCK_HEADER_SIZE>() else { return false };
    let words = header.as_chunks_mut::<8>().0;
    words[0] = u64::from(number).to_le_bytes();
    let word = u64::from_le_bytes(words[3]);
    let placement = Placement::from_bits(word as u32).to_bits();
    words[3] = u64::from(placement).to_le_bytes();
    sealed_word(placement, sum_of(&bytes)) == word
}

impl<K: Kind<M>, G: LeafShape, M: Machine> HashedLeafTree<K, G, M> {
    /// What the block of a leaf holds, and its placement word once it is sealed.
    fn contents_of(&self, leaf: LeafId) -> (Contents, u64) {
        let header = self.header(leaf);
        let number = leaf.block::<G>();
        let placement = Placement::from_bits(header.placement.read_private() as u32).to_bits();
        let mut bytes = vec![0; BLOCK_HEADER_SIZE + 16 * G::CAPACITY];
        let mut put = |at: usize, word: u64| bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        put(0, u64::from(number));
        put(8, header.low.read_private());
        put(16, header.owner.read_private());
        put(24, u64::from(placement));
        let mut keys = 0;
        for slot in 0..G::CAPACITY {
            let entry = self.entry(leaf, slot + G::HEADER_POSITIONS).read_private();
            let at = BLOCK_HEADER_SIZE + 16 * slot;
            put(at, entry.first);
            put(at + 8, entry.second);
            keys += u64::from(holds(K::state(entry)));
        }
        let sum = sum_of(&bytes);
        (Contents { leaves: 1, keys, sum: mixed_sum(sum, number) }, sealed_word(placement, sum))
    }

    /// Seals all leaves durably, on up to `threads` threads, and says what they hold. Nobody writes.
    pub(crate) fn seal(&self, session: &mut Session<M>, threads: usize) -> Contents {
        let mut leaves = vec![];
        session.pin();
        self.collect_leaves(self.inner.root(), &mut leaves);
        let total = SpinLock::<_, M>::new(Contents::default());
        let share_size = if M::SIMULATED { SIMULATED_SHARE } else { SHARE };
        M::parallel(threads, leaves.len().div_ceil(share_size), &|share| {
            let end = leaves.len().min((share + 1) * share_size);
            let mut contents = Contents::default();
            for leaf in &leaves[share * share_size..end] {
                self.seal_chain(*leaf, &mut contents);
            }
            // Persist: the sums of the share before the pool's seal, as in `nbtree/seal.rs`.
            self.medium.drain();
            total.lock().add(contents);
        });
        session.unpin();
        let mut total = total;
        *total.get_mut()
    }

    /// The leaves that the inner nodes lead to.
    fn collect_leaves(&self, node: Shared<Inner<M>>, leaves: &mut Vec<LeafId>) {
        for (_, child) in node.children::<K>() {
            if node.level > 1 {
                // SAFETY: children above level 1 are inner nodes, read while pinned.
                self.collect_leaves(unsafe { Shared::new(child.cast()) }, leaves);
            } else {
                leaves.push(self.leaf_behind(child));
            }
        }
    }

    /// Seals the current leaves behind one that the inner nodes lead to.
    fn seal_chain(&self, leaf: LeafId, contents: &mut Contents) {
        if self.is_replaced(leaf) {
            let successor = self.successor_of(leaf);
            self.seal_chain(successor.left, contents);
            if let Some(right) = successor.right {
                self.seal_chain(right, contents);
            }
            return;
        }
        let (found, word) = self.contents_of(leaf);
        contents.add(found);
        let place = &self.header(leaf).placement;
        // Relaxed: nobody writes.
        let is_frozen = self.cold(leaf).flags.load(Ordering::Relaxed) & FREEZING != 0;
        // What is as it was at the last close is not written again; but a close that was cut off may have left the sum
        // of a frozen leaf, and a part of the block.
        if place.read_private() == word && !is_frozen {
            return;
        }
        // Relaxed: nobody writes, and a thread that reads it looks at its lower half, which stays.
        place.store(word, Ordering::Relaxed);
        if M::mutant("hashed.no_seal_flush") {
            return;
        }
        // Persist: the sum before the pool's seal, which says that it is to be believed; drained at the
        // end of the share.
        // The whole block: what froze a leaf whose replacement found no space was never flushed.
        self.medium.flush(self.block_start(leaf), G::BLOCK_BYTES);
    }

    /// What a block holds, if it is as it was sealed.
    ///
    /// # Errors
    /// It is not.
    pub(super) fn sealed_contents(&self, block: u32) -> Result<Contents, AllocError> {
        let leaf = LeafId::of_block::<G>(block, Placement::HASHED);
        let (contents, word) = self.contents_of(leaf);
        if self.header(leaf).placement.read_private() == word {
            return Ok(contents);
        }
        let offset = u64::from(block) * BLOCK_SIZE as u64;
        let what = "a leaf is not as it was when the pool was closed".to_string();
        Err(AllocError::Corrupt { offset, what })
    }
}
