//! A B+-tree whose leaves are hash tables: the line of an entry follows from its key.
//!
//! A leaf is a block of the pool with up to 254 entries, which lie where the hash of their key says, or its
//! place in the leaf's range (`placement.rs`; linear probing, the same 256 bytes first), and a byte of fingerprint a
//! position in DRAM. The number of a leaf tells where its block, its fingerprints and its metadata are, so that a
//! search asks for fingerprints and entry at the same time and waits for one cache miss below the inner nodes. Inner
//! nodes, freeze-copy-commit-switch, block states and recovery of blocks are those of `nbtree`.
//!
//! ```text
//!                 Inner (nbtree): fences, numbers of leaves
//!                    |
//!         number ----+-------------------+---------------------+
//!                    v                   v                     v
//!          fingerprints (DRAM)     metadata (DRAM)        block (pool)
//! ```
//!
//! *Source*: fingerprints are FPTree's (Oukid and others, SIGMOD 2016); blocks that are frozen, copied
//! and committed by one word of their own are `nbtree`'s. Hashing within a leaf of an ordered tree is
//! old (hashed leaves of bounded-disorder files, Litwin and Lomet, ICDE 1986). *Departures*: there the
//! leaf is locked; here a key has a fixed probe order in a leaf, positions never become free again while the
//! leaf lives, and a fingerprint is there before its entry counts. So two inserts of a key meet at the
//! same position, and no word of a leaf is shared by writers of different keys.
//!
//! | operation | function | linearizes at | durable (`Adr`) when |
//! |---|---|---|---|
//! | get | `search.rs` `look_up` | load of the entry; a miss at the load of a fingerprint | what it saw was persisted |
//! | insert | `write.rs` `claim` | `PENDING` -> `LIVE`/`FROZEN` | its line was flushed and drained |
//! | update, exchange | `write.rs` `modify` | exchange of the entry | same |
//! | remove | `write.rs` `modify` | exchange to `TOMB` | same |
//! | split, compaction | `split.rs` | no effect on contents; authority moves at `REPLACED` | state word of the old block |
//! | merge | `merge.rs` | same | state word of the left block |
//! | scan | `scan.rs` | each pair as a get | as get |
//! | many gets, writes | `many.rs` | each as a separate one | likewise |
//! | load | `bulk.rs` | when the directory names the tree | likewise |
//! | seal | `seal.rs` | no effect on contents | the pool's seal, behind all sums |
//! | recovery | `recover.rs`, `restore.rs` | - | - |
//!
//! Invariants (checked by `check.rs` and on the simulated machine):
//! - HL1 a position goes `EMPTY -> PENDING -> LIVE -> TOMB`, or from any of the first three to a frozen
//!   state; its key never changes; a payload changes only while `LIVE`;
//! - HL2 at most one position of a leaf is `PENDING`, `LIVE` or `FROZEN` with a key: an insert claims the
//!   first position of its key's probe order whose fingerprint is 0, having looked at all before it whose
//!   fingerprint is its own, and a thread that loses a claim gives the position its fingerprint first;
//! - HL3 an entry that is `LIVE` or `FROZEN` has its fingerprint; a fingerprint never becomes 0 again;
//! - HL4 no position that comes before that of a key in the key's order has a fingerprint that is 0, so a 0 ends a
//!   search, and a key is at none of the positions behind;
//! - HL5 when a leaf is `REPLACED` it has no fingerprint that is 0 and all entries are `TOMB` or frozen:
//!   a thread that sees a 0 has seen the authority, and one that does not, or sees a frozen entry, looks at the flags;
//! - HL6 after a crash a `PENDING` entry is a `TOMB`, and no position is free that a key has passed;
//! - HL7 a block is retired when no inner node leads to it any more, after its replacements are durably
//!   `Live`; its number, and with it the place of its metadata, is not reused before;
//! - HL8 what an entry refers to is followed only if the entry was not a `TOMB` when it was loaded, and, if it
//!   was frozen, its leaf not replaced afterwards: the thread that removes or replaces it retires the record after
//!   that, and so after the reader was pinned. A `LIVE` or `PENDING` entry proves the same by HL5. A fence is
//!   retired when no inner node has it and both leaves that it divided are out of the tree;
//! - HL9 to HL11 of `restore.rs`; and I5, I6, I8 to I11 and I14 of `nbtree`.

mod ahead;
mod aim;
mod bulk;
mod candidate;
mod check;
mod index;
mod install;
pub mod layout;
mod many;
mod merge;
mod order;
mod placement;
mod probe;
mod recover;
mod restore;
mod scan;
pub(crate) mod seal;
mod search;
mod slab;
mod sort;
mod split;
pub mod state;
#[cfg(test)]
mod tests;
mod thin;
mod write;

use std::sync::Arc;

use everleaf_alloc::{AllocError, Heap, LateMarks, Session};
use everleaf_machine::{AtomicPair, FingerprintLine, Hardware, LINE_SIZE, Machine, Pair, SpinLock};
use everleaf_pool::Medium;

use crate::geometry::Production;
use crate::kind::{Kind, U64Kind};
use crate::nbtree::inner_tree::InnerTree;
use crate::nbtree::state::BlockState;
use crate::nbtree::tally::Tally;
use crate::nbtree::{Missed, TreeShape};
use crate::pool_trees::pool_base::PoolBase;
use layout::{BLOCK_HEADER_SIZE, Cold, Header, LeafId, LeafShape, OrderPlace};
pub(crate) use slab::Slab;
pub(crate) use write::Near;

/// The tree, over entries of kind `K` in leaves of shape `G`, on machine `M`.
pub struct HashedLeafTree<K = U64Kind, G: LeafShape = Production, M: Machine = Hardware> {
    inner: InnerTree<K, G, M>,
    /// Where the volatile half of its leaves is; trees of one pool may share it.
    slab: Arc<Slab<G, M>>,
    base: PoolBase<M>,
    medium: Medium<M>,
    id: u32,
    keys: Tally<M>,
    leaves: Tally<M>,
    /// Leaves that have an order.
    ordered: Tally<M>,
    splits: Tally<M>,
    merges: Tally<M>,
    missed: Missed<M>,
    /// Leaves that opening has left to be restored.
    unrestored: Tally<M>,
    /// Whether opening has left any.
    opened_at_once: bool,
    /// Held while a leaf is thawed that opening has left.
    thawing: SpinLock<(), M>,
    /// Where threads that restore a leaf mark what its entries refer to, if these refer to anything.
    late: Option<Arc<LateMarks<M>>>,
    heap: Arc<Heap<M>>,
}

// SAFETY: `base` is the pool's mapping, which the heap keeps; everything shared is atomic or
// immutable, and reclaimed by epochs.
unsafe impl<K: Kind<M>, G: LeafShape, M: Machine> Send for HashedLeafTree<K, G, M> {}
// SAFETY: as for `Send`.
unsafe impl<K: Kind<M>, G: LeafShape, M: Machine> Sync for HashedLeafTree<K, G, M> {}

impl<K: Kind<M>, G: LeafShape, M: Machine> HashedLeafTree<K, G, M> {
    fn assemble(heap: Arc<Heap<M>>, id: u32, slab: Arc<Slab<G, M>>) -> Self {
        HashedLeafTree {
            inner: InnerTree::new(PoolBase::of(&heap)),
            slab,
            base: PoolBase::of(&heap),
            medium: heap.medium(),
            id,
            keys: Tally::new(0),
            leaves: Tally::new(0),
            ordered: Tally::new(0),
            splits: Tally::new(0),
            merges: Tally::new(0),
            missed: Missed::new(),
            unrestored: Tally::new(0),
            opened_at_once: false,
            thawing: SpinLock::new(()),
            late: None,
            heap,
        }
    }

    /// A new, empty tree with this id. It survives a crash once the pool's directory has the id.
    pub(crate) fn create_empty(
        session: &mut Session<M>,
        id: u32,
        slab: Arc<Slab<G, M>>,
    ) -> Result<Self, AllocError> {
        let tree = Self::assemble(session.heap().clone(), id, slab);
        let mut children = vec![];
        for (index, low) in K::FIRST_LOWS.iter().enumerate() {
            let high = K::FIRST_LOWS.get(index + 1).copied().unwrap_or(0);
            match tree.build_first_leaf(session, *low, high, &[]) {
                Ok(leaf) => children.push((*low, leaf.as_child())),
                Err(error) => {
                    tree.free_leaves(session, &children);
                    return Err(error);
                }
            }
        }
        tree.leaves.add(0, children.len() as i64);
        match tree.inner.build_levels(session, children.clone()) {
            Ok(root) => tree.inner.set_root(root),
            Err(error) => {
                tree.free_leaves(session, &children);
                return Err(error);
            }
        }
        Ok(tree)
    }

    /// A leaf of a tree that nobody else has seen: its block is `Live` at once.
    fn build_first_leaf(
        &self,
        session: &mut Session<M>,
        low: u64,
        high: u64,
        entries: &[Pair],
    ) -> Result<LeafId, AllocError> {
        let skip = K::shared_prefix(self.base, low, high);
        let leaf = self.build_leaf(session, low, high, entries, skip, 0)?;
        let state = &self.header(leaf).state;
        state.write_private(BlockState::Live.encode());
        if !M::mutant("hashed.first_unflushed") {
            // Persist: the leaf before the directory names its tree.
            self.medium.persist(state.as_ptr(), 8);
        }
        Ok(leaf)
    }

    /// Bytes of DRAM that a leaf has a place for in the slab.
    const PLACE_SIZE: u64 = (G::CHUNKS * LINE_SIZE + size_of::<Cold<M>>()) as u64;

    /// Bytes of DRAM that its leaves have in the slab: their places, and those of the orders of leaves that were
    /// scanned. O(1).
    pub(crate) fn place_bytes(&self) -> u64 {
        let orders = self.ordered.sum().saturating_mul(size_of::<OrderPlace<M>>() as u64);
        // The places of those that are not restored were not touched.
        let leaves = self.leaves.sum().saturating_sub(self.unrestored_leaves());
        leaves.saturating_mul(Self::PLACE_SIZE) + orders
    }

    /// A line of the fingerprints of a leaf.
    #[inline(always)]
    fn fingerprints(&self, leaf: LeafId, chunk: usize) -> &FingerprintLine<M> {
        self.slab.fingerprints(leaf, chunk)
    }

    /// The metadata of a leaf.
    #[inline(always)]
    fn cold(&self, leaf: LeafId) -> &Cold<M> {
        self.slab.cold(leaf)
    }

    /// The first byte of a leaf's block.
    #[inline(always)]
    fn block_start(&self, leaf: LeafId) -> *mut u8 {
        self.base.start().wrapping_add(leaf.number as usize * G::BLOCK_BYTES)
    }

    /// What a leaf's block begins with.
    #[inline(always)]
    fn header(&self, leaf: LeafId) -> &Header<M> {
        // SAFETY: leaves have numbers of blocks inside the pool, whose mapping the heap keeps; a header
        // is made of atomic words.
        unsafe { &*self.block_start(leaf).cast() }
    }

    /// The address of a position.
    #[inline(always)]
    fn entry_place(&self, leaf: LeafId, position: usize) -> *const u8 {
        let within =
            BLOCK_HEADER_SIZE + (position - G::HEADER_POSITIONS) * size_of::<AtomicPair<M>>();
        self.block_start(leaf).wrapping_add(within)
    }

    /// The entry at a position.
    #[inline(always)]
    fn entry(&self, leaf: LeafId, position: usize) -> &AtomicPair<M> {
        debug_assert!((G::HEADER_POSITIONS..G::POSITIONS).contains(&position));
        // SAFETY: as for the header; a position lies inside the block (`layout.rs`).
        unsafe { &*self.entry_place(leaf, position).cast() }
    }

    /// Bytes of prefix that the key words of a leaf skip.
    #[inline(always)]
    fn skip(&self, leaf: LeafId) -> usize {
        if K::HAS_TAILS { self.cold(leaf).skip.read_private() as usize } else { 0 }
    }

    /// The tree's id in the pool.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Where the volatile half of its leaves is.
    pub(crate) fn slab(&self) -> &Arc<Slab<G, M>> {
        &self.slab
    }

    /// Adds to the count of keys what writes changed.
    #[inline(always)]
    pub(crate) fn note_keys(&self, session: &Session<M>, delta: i64) {
        self.keys.add(session.stripe(), delta);
    }

    /// Number of keys. O(1); exact when no writer is active, and all leaves are restored: those of leaves that
    /// opening at once has left are not counted ([`OrderedIndex::len`](crate::OrderedIndex::len) restores them first).
    pub fn key_count(&self) -> u64 {
        self.keys.sum()
    }

    /// How the tree is built. O(1); its keys are those of [`Self::key_count`].
    pub fn tree_shape(&self, session: &mut Session<M>) -> TreeShape {
        session.pin();
        let height = u64::from(self.inner.root().level) + 1;
        session.unpin();
        TreeShape {
            keys: self.key_count(),
            leaves: self.leaves.sum(),
            height,
            splits: self.splits.sum(),
            merges: self.merges.sum(),
        }
    }

    fn note_split(&self, session: &Session<M>, added: i64) {
        self.splits.add(session.stripe(), 1);
        self.leaves.add(session.stripe(), added);
    }

    fn note_merge(&self, session: &Session<M>) {
        self.merges.add(session.stripe(), 1);
        self.leaves.add(session.stripe(), -1);
    }
}
