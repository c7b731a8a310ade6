//! Which tree holds a map of byte strings: NBTree, or the one with hashed leaves.
//!
//! Everything above the nodes (records, expiry, batches, scans that verify) is the same for both. Which
//! one it is was said when the tree was made, and is in the pool's directory; so each operation asks once,
//! and the branch is always the same one in a pool with trees of one design.

use std::sync::Arc;

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_machine::{Machine, Pair};
use everleaf_pool::FEATURE_HASHED_LEAVES;

use crate::bytes_kind::{BytesKey, BytesKind};
use crate::change::{Intent, Outcome};
use crate::check_report::CheckReport;
use crate::geometry::Geometry;
use crate::hashed_leaf::layout::LeafShape;
use crate::hashed_leaf::{self, HashedLeafTree, Slab};
use crate::kind::Kind;
use crate::nbtree::recover::LiveBlocks;
use crate::nbtree::write::{self, Write};
use crate::nbtree::{CheckState, Contents, Extent, NbTree, TreeShape};
use crate::tree_cell::CellTree;

/// The kind of a tree with hashed leaves in the pool's directory.
pub(crate) const HASHED_BYTES_CODE: u16 = 4;

/// What trees of byte strings are made by.
pub(crate) enum BytesDesign<G: Geometry, M: Machine> {
    NbTree,
    /// With the slab of the pool.
    HashedLeaf(Arc<Slab<G::Leaves, M>>),
}

impl<G: Geometry, M: Machine> Clone for BytesDesign<G, M> {
    fn clone(&self) -> Self {
        match self {
            BytesDesign::NbTree => BytesDesign::NbTree,
            BytesDesign::HashedLeaf(slab) => BytesDesign::HashedLeaf(slab.clone()),
        }
    }
}

impl<G: Geometry, M: Machine> BytesDesign<G, M> {
    /// Its number in the pool's directory, for trees whose entries have heads.
    pub fn code(&self) -> u16 {
        match self {
            BytesDesign::NbTree => <BytesKind as Kind<M>>::CODE,
            BytesDesign::HashedLeaf(_) => HASHED_BYTES_CODE,
        }
    }

    /// The tree of this design with this id, from its live blocks.
    pub fn recover<const HEADS: bool>(
        &self,
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        id: u32,
        live: LiveBlocks,
        threads: usize,
        sealed: Option<&mut Contents>,
    ) -> Result<BytesNodes<G, M, HEADS>, AllocError> {
        Ok(match self {
            BytesDesign::NbTree => {
                BytesNodes::NbTree(NbTree::recover(session, recovery, id, live, threads, sealed)?)
            }
            BytesDesign::HashedLeaf(slab) => BytesNodes::HashedLeaf(HashedLeafTree::recover_from(
                session,
                recovery,
                id,
                live,
                slab.clone(),
                threads,
                sealed,
            )?),
        })
    }
}

/// The nodes of a tree of byte strings.
pub(crate) enum BytesNodes<G: Geometry, M: Machine, const HEADS: bool = true> {
    NbTree(NbTree<BytesKind<HEADS>, G, M>),
    HashedLeaf(HashedLeafTree<BytesKind<HEADS>, G::Leaves, M>),
}

/// Where a write begins: what [`BytesNodes::approach`] came to.
pub(crate) enum Near<G: Geometry, M: Machine> {
    NbTree(write::Near<M>),
    HashedLeaf(hashed_leaf::Near<G::Leaves>),
}

/// Does the same with either tree.
macro_rules! either {
    ($nodes:expr, $tree:ident => $what:expr) => {
        match $nodes {
            BytesNodes::NbTree($tree) => $what,
            BytesNodes::HashedLeaf($tree) => $what,
        }
    };
}

impl<G: Geometry, M: Machine, const HEADS: bool> CellTree<M> for BytesNodes<G, M, HEADS> {
    type Design = BytesDesign<G, M>;

    fn id(&self) -> u32 {
        either!(self, tree => tree.id())
    }

    fn design(&self) -> BytesDesign<G, M> {
        match self {
            BytesNodes::NbTree(_) => BytesDesign::NbTree,
            BytesNodes::HashedLeaf(tree) => BytesDesign::HashedLeaf(tree.slab().clone()),
        }
    }

    fn create(
        design: &BytesDesign<G, M>,
        session: &mut Session<M>,
        id: u32,
    ) -> Result<Self, AllocError> {
        Ok(match design {
            BytesDesign::NbTree => BytesNodes::NbTree(NbTree::create(session, id)?),
            BytesDesign::HashedLeaf(slab) => {
                // Before the directory can name such a tree.
                session.heap().pool().enable_features(FEATURE_HASHED_LEAVES)?;
                let tree = HashedLeafTree::create_empty(session, id, slab.clone())?;
                BytesNodes::HashedLeaf(tree)
            }
        })
    }

    fn free_all(&self, session: &mut Session<M>) {
        match self {
            BytesNodes::NbTree(tree) => tree.free_all(session),
            BytesNodes::HashedLeaf(tree) => tree.free_tree(session),
        }
    }
}

impl<G: Geometry, M: Machine, const HEADS: bool> BytesNodes<G, M, HEADS> {
    /// The class of its blocks in the allocator.
    pub fn block_class(&self) -> usize {
        match self {
            BytesNodes::NbTree(_) => 0,
            BytesNodes::HashedLeaf(_) => <G::Leaves as LeafShape>::BLOCK_CLASS,
        }
    }

    #[inline(always)]
    pub fn get_payload(&self, session: &mut Session<M>, key: BytesKey<'_>) -> Option<u64> {
        either!(self, tree => tree.get_payload(session, key))
    }

    pub fn get_many_payloads(
        &self,
        session: &mut Session<M>,
        keys: &[BytesKey<'_>],
        extent: Extent,
        found: impl FnMut(&mut Session<M>, usize, Option<u64>),
    ) {
        either!(self, tree => tree.get_many_payloads(session, keys, extent, found));
    }

    /// See [`NbTree::approach`].
    #[inline(always)]
    pub fn approach(&self, key: BytesKey<'_>) -> Near<G, M> {
        match self {
            BytesNodes::NbTree(tree) => Near::NbTree(tree.approach(key)),
            BytesNodes::HashedLeaf(tree) => Near::HashedLeaf(tree.approach(key)),
        }
    }

    /// [`Self::get_payload`], begun where [`Self::approach`] of the same key came to under the same pin.
    #[inline(always)]
    pub fn get_near(
        &self,
        session: &mut Session<M>,
        near: &Near<G, M>,
        key: BytesKey<'_>,
    ) -> Option<u64> {
        match (self, near) {
            (BytesNodes::NbTree(tree), Near::NbTree(near)) => tree.get_near(session, near, key),
            (nodes, _) => nodes.get_payload(session, key),
        }
    }

    /// Performs a write. The session is pinned.
    #[inline(always)]
    pub fn write(
        &self,
        session: &mut Session<M>,
        key: BytesKey<'_>,
        intent: Intent,
        payload: u64,
    ) -> Result<Outcome, AllocError> {
        either!(self, tree => tree.write(session, key, intent, payload))
    }

    /// [`Self::write`], begun where [`Self::approach`] of the same key came to under the same pin.
    #[inline(always)]
    pub fn write_near(
        &self,
        session: &mut Session<M>,
        near: Near<G, M>,
        key: BytesKey<'_>,
        intent: Intent,
        payload: u64,
    ) -> Result<Outcome, AllocError> {
        match (self, near) {
            (BytesNodes::NbTree(tree), Near::NbTree(near)) => {
                tree.write_near(session, near, key, intent, payload)
            }
            (BytesNodes::HashedLeaf(tree), Near::HashedLeaf(near)) => {
                tree.write_near(session, near, key, intent, payload)
            }
            // Of another tree: from the root.
            (nodes, _) => nodes.write(session, key, intent, payload),
        }
    }

    /// See [`NbTree::write_many`].
    pub fn write_many<'w, 'k, T>(
        &self,
        session: &mut Session<M>,
        items: &'w [T],
        write_of: impl Fn(&'w T) -> &'w Write<'k, BytesKind<HEADS>, M>,
        done: impl FnMut(&'w T, Outcome),
    ) -> Result<(), AllocError>
    where
        'k: 'w,
    {
        either!(self, tree => tree.write_many(session, items, write_of, done))
    }

    #[inline(always)]
    pub fn scan_forward(
        &self,
        session: &mut Session<M>,
        from: BytesKey<'_>,
        extent: Extent,
        visit: impl FnMut(u64, Pair) -> bool,
    ) {
        match self {
            BytesNodes::NbTree(tree) => tree.scan_forward(session, from, extent, visit),
            BytesNodes::HashedLeaf(tree) => {
                tree.scan_forward(session, from, usize::MAX, extent, visit);
            }
        }
    }

    pub fn scan_backward(
        &self,
        session: &mut Session<M>,
        to: Option<BytesKey<'_>>,
        extent: Extent,
        visit: impl FnMut(u64, Pair) -> bool,
    ) {
        either!(self, tree => tree.scan_backward(session, to, extent, visit));
    }

    /// Adds to the count of keys what writes changed.
    #[inline(always)]
    pub fn count(&self, session: &Session<M>, delta: i64) {
        match self {
            BytesNodes::NbTree(tree) => tree.count(session, delta),
            BytesNodes::HashedLeaf(tree) => tree.note_keys(session, delta),
        }
    }

    pub fn len(&self) -> u64 {
        match self {
            BytesNodes::NbTree(tree) => tree.len(),
            BytesNodes::HashedLeaf(tree) => tree.key_count(),
        }
    }

    pub fn shape(&self, session: &mut Session<M>) -> TreeShape {
        match self {
            BytesNodes::NbTree(tree) => tree.shape(session),
            BytesNodes::HashedLeaf(tree) => tree.tree_shape(session),
        }
    }

    /// Seals its leaves durably, and says what they hold. Nobody writes.
    pub fn seal(&self, session: &mut Session<M>, threads: usize) -> Contents {
        either!(self, tree => tree.seal(session, threads))
    }

    /// Walks the tree, marks in `used` what it uses, and adds to `report` what it finds.
    pub fn check(&self, session: &mut Session<M>, used: &Recovery<M>, report: &mut CheckReport) {
        match self {
            BytesNodes::NbTree(tree) => {
                let mut state = CheckState::default();
                tree.check(session, used, &mut state);
                state.add_to(report);
            }
            BytesNodes::HashedLeaf(tree) => tree.check_tree(session, used, report),
        }
    }
}
