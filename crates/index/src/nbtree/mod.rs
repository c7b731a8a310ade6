//! NBTree: a lock-free ordered index with its entries in the pool and everything else in DRAM.
//!
//! ```text
//!            inner nodes (DRAM, immutable but for child pointers)
//!                 |              |
//!            leaf metadata   leaf metadata      one line of fingerprints, one of words
//!                 |              |
//!   pool:   [ block 1 KiB ] [ block 1 KiB ]     62 entries each, unsorted, self-describing
//! ```
//!
//! A search reads one line of the pool, a write dirties one. Leaves are read and written without
//! locks; a full leaf is frozen, copied, committed by one durable store and switched, by however
//! many threads come along. Inner nodes are brought up to date lazily. Nothing is logged.
//!
//! *Source*: Bowen Zhang, Shengan Zheng, Zhenlin Qi, Linpeng Huang, "NBTree: a Lock-free PM-friendly
//! Persistent B+-Tree for eADR-enabled PM Systems", extended in IEEE TPDS 2024. What is kept:
//! in-place update and delete, log-structured insert, fingerprints and leaf metadata in DRAM,
//! cooperative structure modification, one pool line per operation. *Departures*: the published
//! protocol keeps two copies of a key equal by copying afterwards (sync-on-write, sync-on-read),
//! which loses updates and resurrects deletes under two threads. Here a leaf is frozen before it is
//! copied, so every key has one authority at every instant; each slot's state is durable in the
//! entry itself; there is no persistent leaf list, bitmap, ring or log; keys and values keep all
//! their 64 bits; scans, conditional writes, merging and recovery are added.
//!
//! | operation | paper | function | linearizes at | durable (`Adr`) when |
//! |---|---|---|---|---|
//! | get | IV-A, Alg. 5 | `search.rs` `get_payload` | load of the entry or of `meta` | what it saw was persisted |
//! | insert | Alg. 1 | `write.rs` `append` | `PENDING` -> `LIVE`/`FROZEN` | its line was flushed and drained |
//! | update, exchange | Alg. 3 | `write.rs` `modify` | exchange of the entry | same |
//! | remove | Alg. 4 | `write.rs` `modify` | exchange to `TOMB` | same |
//! | split, compaction | Alg. 2 | `split.rs` | no effect on contents; authority moves at `REPLACED` | state word of the old block |
//! | merge | - | `merge.rs` | same | state word of the left block |
//! | scan | - | `scan.rs` | each pair as a get | as get |
//! | recovery | IV-D | `recover.rs` | - | - |
//!
//! Invariants (checked by `check.rs` and on the simulated machine):
//! - I1 slot states only move along the arrows of `state.rs`; a payload changes only while `LIVE`;
//! - I2 committed bits only grow, never after `FREEZING`; `FREEZING` and `REPLACED` stay; a
//!   `REPLACED` leaf has a successor and its block's state is durably `Replaced`;
//! - I3 a `LIVE` slot is committed; an uncommitted one is `EMPTY` or `PENDING` (after recovery also
//!   `TOMB`);
//! - I4 per leaf at most one committed slot holds a key, or will (`PENDING`); in every crash image
//!   at most one live slot holds it;
//! - I5 every committed key is within its leaf's fences;
//! - I6 the authorities partition the key space; a split lies strictly inside;
//! - I7 once a successor is installed all committed slots are `TOMB` or `FROZEN`;
//! - I8 nobody writes to a new leaf before its predecessors are `REPLACED`;
//! - I9 in every crash image the live blocks have distinct low fences that start at the lowest; a
//!   block is not reused before its replacements are durably `Live`;
//! - I10 the unused slots of a block that becomes `New` are `EMPTY`;
//! - I11 `Adr`: what is visible and not yet durable is in flight; a cleared fingerprint means that
//!   the tombstone is durable;
//! - I12 a committed slot's fingerprint is its key's, or 0 if it is a tombstone;
//! - I13 `claimed` is at least the number of non-empty slots;
//! - I14 an inner node's fences ascend and never change (N1-N3 in `install.rs`).

mod bulk;
mod candidate;
pub(crate) mod check;
pub(crate) mod inner;
pub(crate) mod inner_tree;
mod install;
pub mod layout;
mod many;
mod merge;
mod missed;
pub(crate) mod recover;
mod scan;
mod seal;
mod search;
pub(crate) mod shared;
mod split;
mod split_point;
pub mod state;
pub(crate) mod tally;
mod thin;
pub(crate) mod write;

use std::sync::Arc;

use everleaf_alloc::{AllocError, Heap, Session};
use everleaf_machine::Machine;
use everleaf_pool::Medium;

use crate::geometry::{Geometry, Production};
use crate::kind::{Kind, U64Kind};
use crate::pool_trees::pool_base::PoolBase;
use inner_tree::InnerTree;
use state::BlockState;
use tally::Tally;

pub(crate) use bulk::{BulkLoader, Left, Loadable, Part, join};
pub(crate) use check::CheckState;
pub(crate) use many::{Approached, Run, TOGETHER, group};
pub(crate) use missed::{Look, Missed, SweepPlace, Swept};
pub(crate) use recover::find_live_blocks;
pub(crate) use scan::Extent;
pub(crate) use seal::{Contents, mixed_sum, sum_of};
pub(crate) use search::Absence;

/// How a tree is built right now. Counts are exact when no writer is active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeShape {
    /// Keys.
    pub keys: u64,
    /// Leaves.
    pub leaves: u64,
    /// Levels, leaves included.
    pub height: u64,
    /// Leaves replaced (splits and compactions) since the tree was opened.
    pub splits: u64,
    /// Pairs of leaves merged since the tree was opened.
    pub merges: u64,
}

/// The tree, over entries of kind `K` with node capacities `G`, on machine `M`.
///
/// This is the protocol; `U64Tree` and `BytesTree` are what one uses.
pub struct NbTree<K = U64Kind, G: Geometry = Production, M: Machine = everleaf_machine::Hardware> {
    inner: InnerTree<K, G, M>,
    base: PoolBase<M>,
    medium: Medium<M>,
    id: u32,
    keys: Tally<M>,
    leaves: Tally<M>,
    splits: Tally<M>,
    merges: Tally<M>,
    missed: Missed<M>,
    heap: Arc<Heap<M>>,
}

// SAFETY: `base` is the pool's mapping, which the heap keeps; everything shared is atomic or
// immutable, and reclaimed by epochs.
unsafe impl<K: Kind<M>, G: Geometry, M: Machine> Send for NbTree<K, G, M> {}
// SAFETY: as for `Send`.
unsafe impl<K: Kind<M>, G: Geometry, M: Machine> Sync for NbTree<K, G, M> {}

impl<K: Kind<M>, G: Geometry, M: Machine> NbTree<K, G, M> {
    pub(crate) fn assemble(heap: Arc<Heap<M>>, id: u32, keys: u64) -> Self {
        NbTree {
            inner: InnerTree::new(PoolBase::of(&heap)),
            base: PoolBase::of(&heap),
            medium: heap.medium(),
            id,
            keys: Tally::new(keys),
            leaves: Tally::new(0),
            splits: Tally::new(0),
            merges: Tally::new(0),
            missed: Missed::new(),
            heap,
        }
    }

    /// A new, empty tree with this id. It survives a crash once the pool's directory has the id.
    pub(crate) fn create(session: &mut Session<M>, id: u32) -> Result<Self, AllocError> {
        let tree = Self::assemble(session.heap().clone(), id, 0);
        let mut children = vec![];
        for (index, low) in K::FIRST_LOWS.iter().enumerate() {
            let high = K::FIRST_LOWS.get(index + 1).copied().unwrap_or(0);
            match tree.build_first_leaf(session, *low, high, &[]) {
                Ok(leaf) => children.push((*low, leaf.cast())),
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
        entries: &[everleaf_machine::Pair],
    ) -> Result<*mut layout::Leaf<M>, AllocError> {
        let skip = K::shared_prefix(self.base, low, high);
        let leaf = self.build_leaf(session, low, high, entries, skip, 0)?;
        // SAFETY: built just now, private to us.
        let block = self.block(unsafe { shared::Shared::new(leaf) });
        block.state.write_private(BlockState::Live.encode());
        // Persist: the leaf before the directory names its tree.
        self.medium.persist(block.state.as_ptr(), 8);
        Ok(leaf)
    }

    /// The tree's id in the pool.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The heap the tree lives in.
    pub fn heap(&self) -> &Arc<Heap<M>> {
        &self.heap
    }

    /// Number of keys. O(1); exact when no writer is active.
    pub fn len(&self) -> u64 {
        self.keys.sum()
    }

    /// Whether there are no keys. As [`Self::len`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How the tree is built. O(1).
    pub fn shape(&self, session: &mut Session<M>) -> TreeShape {
        session.pin();
        let height = u64::from(self.root().level) + 1;
        session.unpin();
        TreeShape {
            keys: self.len(),
            leaves: self.leaves.sum(),
            height,
            splits: self.splits.sum(),
            merges: self.merges.sum(),
        }
    }

    /// Adds to the count of keys what a write changed.
    #[inline(always)]
    pub(crate) fn count(&self, session: &Session<M>, delta: i64) {
        self.keys.add(session.stripe(), delta);
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
