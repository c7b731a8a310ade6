//! Which tree holds a map: NBTree, or the one with hashed leaves.
//!
//! Everything above the nodes (loads, seals, emptying; of byte strings records, expiry, batches, scans that
//! verify) is the same for both. Which one it is was said when the tree was made, and is in the pool's
//! directory; so each operation asks once, and the branch is always the same one in a pool with trees of one
//! design.

use std::sync::Arc;

use everleaf_alloc::{AllocError, Heap, LateMarks, Recovery, Session};
use everleaf_machine::{Machine, Pair};
use everleaf_pool::FEATURE_HASHED_LEAVES;

use crate::api::change::{Intent, Outcome};
use crate::api::check_report::CheckReport;
use crate::bytes::entry::BytesKind;
use crate::geometry::Geometry;
use crate::hashed_leaf::layout::LeafShape;
use crate::hashed_leaf::{self, HashedLeafTree, Slab};
use crate::kind::Kind;
use crate::nbtree::inner::Child;
use crate::nbtree::recover::LiveBlocks;
use crate::nbtree::write::{self, Write};
use crate::nbtree::{
    Absence, CheckState, Contents, Extent, Loadable, Missed, NbTree, SweepPlace, Swept, TreeShape,
};
use crate::pool_trees::tree_cell::CellTree;

/// What trees are made by.
pub(crate) enum NodesDesign<G: Geometry, M: Machine> {
    NbTree,
    /// With the slab of the pool.
    HashedLeaf(Arc<Slab<G::Leaves, M>>),
}

impl<G: Geometry, M: Machine> Clone for NodesDesign<G, M> {
    fn clone(&self) -> Self {
        match self {
            NodesDesign::NbTree => NodesDesign::NbTree,
            NodesDesign::HashedLeaf(slab) => NodesDesign::HashedLeaf(slab.clone()),
        }
    }
}

impl<G: Geometry, M: Machine> NodesDesign<G, M> {
    /// The number in the pool's directory of trees of kind `K`.
    pub fn code<K: Kind<M>>(&self) -> u16 {
        match self {
            NodesDesign::NbTree => K::CODE,
            NodesDesign::HashedLeaf(_) => K::HASHED_CODE,
        }
    }

    /// The tree of this design with this id, from its live blocks. If there is `late`, leaves are restored later if
    /// they can, and mark there what they refer to.
    pub fn recover<K: Kind<M>>(
        &self,
        session: &mut Session<M>,
        (recovery, late): (&Recovery<M>, Option<&Arc<LateMarks<M>>>),
        id: u32,
        live: LiveBlocks,
        threads: usize,
        sealed: Option<&mut Contents>,
    ) -> Result<Nodes<K, G, M>, AllocError> {
        Ok(match self {
            NodesDesign::HashedLeaf(slab) if late.is_some() => {
                let late = late.cloned();
                let slab = slab.clone();
                let tree = HashedLeafTree::open_at_once(session, recovery, id, live, slab, late)?;
                Nodes::HashedLeaf(tree)
            }
            NodesDesign::NbTree => {
                Nodes::NbTree(NbTree::recover(session, recovery, id, live, threads, sealed)?)
            }
            NodesDesign::HashedLeaf(slab) => Nodes::HashedLeaf(HashedLeafTree::recover_from(
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

/// The nodes of a tree.
pub(crate) enum Nodes<K: Kind<M>, G: Geometry, M: Machine> {
    NbTree(NbTree<K, G, M>),
    HashedLeaf(HashedLeafTree<K, G::Leaves, M>),
}

/// The nodes of a tree of byte strings.
pub(crate) type BytesNodes<G, M, const HEADS: bool = true> = Nodes<BytesKind<HEADS>, G, M>;

/// Where a write begins: what [`Nodes::approach`] came to.
pub(crate) enum Near<G: Geometry, M: Machine> {
    NbTree(write::Near<M>),
    HashedLeaf(hashed_leaf::Near<G::Leaves>),
}

/// Does the same with either tree.
macro_rules! either {
    ($nodes:expr, $tree:ident => $what:expr) => {
        match $nodes {
            Nodes::NbTree($tree) => $what,
            Nodes::HashedLeaf($tree) => $what,
        }
    };
}

impl<K: Kind<M>, G: Geometry, M: Machine> CellTree<M> for Nodes<K, G, M> {
    type Design = NodesDesign<G, M>;

    fn id(&self) -> u32 {
        either!(self, tree => tree.id())
    }

    fn design(&self) -> NodesDesign<G, M> {
        match self {
            Nodes::HashedLeaf(tree) if !M::mutant("nodes.clear_forgets_design") => {
                NodesDesign::HashedLeaf(tree.slab().clone())
            }
            _ => NodesDesign::NbTree,
        }
    }

    fn create(
        design: &NodesDesign<G, M>,
        session: &mut Session<M>,
        id: u32,
    ) -> Result<Self, AllocError> {
        Ok(match design {
            NodesDesign::NbTree => Nodes::NbTree(NbTree::create(session, id)?),
            NodesDesign::HashedLeaf(slab) => {
                // Before the directory can name such a tree.
                session.heap().pool().enable_features(FEATURE_HASHED_LEAVES)?;
                let tree = HashedLeafTree::create_empty(session, id, slab.clone())?;
                Nodes::HashedLeaf(tree)
            }
        })
    }

    fn free_all(&self, session: &mut Session<M>) {
        match self {
            Nodes::NbTree(tree) => tree.free_all(session),
            Nodes::HashedLeaf(tree) => tree.free_tree(session),
        }
    }
}

impl<K: Kind<M>, G: Geometry, M: Machine> Loadable<K, M> for Nodes<K, G, M> {
    #[inline(always)]
    fn leaf_capacity(&self) -> usize {
        either!(self, tree => tree.leaf_capacity())
    }

    fn load_leaf(
        &self,
        session: &mut Session<M>,
        low: u64,
        high: u64,
        entries: &[Pair],
    ) -> Result<*mut (), AllocError> {
        either!(self, tree => tree.load_leaf(session, low, high, entries))
    }

    fn set_leaves(
        &self,
        session: &mut Session<M>,
        children: Vec<Child>,
        keys: u64,
    ) -> Result<(), AllocError> {
        either!(self, tree => tree.set_leaves(session, children, keys))
    }

    fn free_loaded(&self, session: &mut Session<M>, children: &[Child]) {
        either!(self, tree => tree.free_loaded(session, children));
    }
}

impl<K: Kind<M>, G: Geometry, M: Machine> Nodes<K, G, M> {
    /// A tree with this id that has no leaves yet, for loads.
    pub fn without_leaves(design: &NodesDesign<G, M>, heap: &Arc<Heap<M>>, id: u32) -> Self {
        match design {
            NodesDesign::NbTree => Nodes::NbTree(NbTree::assemble(heap.clone(), id, 0)),
            NodesDesign::HashedLeaf(slab) => {
                Nodes::HashedLeaf(HashedLeafTree::without_leaves(heap, id, slab.clone()))
            }
        }
    }

    /// The class of its blocks in the allocator.
    pub fn block_class(&self) -> usize {
        match self {
            Nodes::NbTree(_) => 0,
            Nodes::HashedLeaf(_) => <G::Leaves as LeafShape>::BLOCK_CLASS,
        }
    }

    /// # Errors
    /// Opening has left the leaf of the key, and it is damaged.
    #[inline(always)]
    pub fn get_payload(
        &self,
        session: &mut Session<M>,
        key: K::Key<'_>,
    ) -> Result<Option<u64>, AllocError> {
        match self {
            Nodes::NbTree(tree) => Ok(tree.get_payload(session, key)),
            Nodes::HashedLeaf(tree) => tree.get_payload(session, key),
        }
    }

    /// See [`NbTree::absence`].
    ///
    /// # Errors
    /// As [`Self::get_payload`].
    pub fn absence(
        &self,
        session: &mut Session<M>,
        key: K::Key<'_>,
    ) -> Result<Option<Absence>, AllocError> {
        match self {
            Nodes::NbTree(tree) => Ok(tree.absence(session, key)),
            Nodes::HashedLeaf(tree) => tree.absence(session, key),
        }
    }

    /// See [`NbTree::approach`].
    #[inline(always)]
    pub fn approach(&self, key: K::Key<'_>) -> Near<G, M> {
        match self {
            Nodes::NbTree(tree) => Near::NbTree(tree.approach(key)),
            Nodes::HashedLeaf(tree) => Near::HashedLeaf(tree.approach(key)),
        }
    }

    /// [`Self::get_payload`], begun where [`Self::approach`] of the same key came to under the same pin.
    #[inline(always)]
    pub fn get_near(
        &self,
        session: &mut Session<M>,
        near: &Near<G, M>,
        key: K::Key<'_>,
    ) -> Result<Option<u64>, AllocError> {
        match (self, near) {
            (Nodes::NbTree(tree), Near::NbTree(near)) => Ok(tree.get_near(session, near, key)),
            (nodes, _) => nodes.get_payload(session, key),
        }
    }

    /// Performs a write. The session is pinned.
    #[inline(always)]
    pub fn write(
        &self,
        session: &mut Session<M>,
        key: K::Key<'_>,
        intent: Intent,
        payload: u64,
    ) -> Result<Outcome, AllocError> {
        either!(self, tree => tree.write(session, key, intent, payload))
    }

    /// [`Self::write`], compiled once: for what writes rarely, or again.
    #[inline(never)]
    pub fn write_rarely(
        &self,
        session: &mut Session<M>,
        key: K::Key<'_>,
        intent: Intent,
        payload: u64,
    ) -> Result<Outcome, AllocError> {
        self.write(session, key, intent, payload)
    }

    /// [`Self::write`], begun where [`Self::approach`] of the same key came to under the same pin.
    #[inline(always)]
    pub fn write_near(
        &self,
        session: &mut Session<M>,
        near: Near<G, M>,
        key: K::Key<'_>,
        intent: Intent,
        payload: u64,
    ) -> Result<Outcome, AllocError> {
        match (self, near) {
            (Nodes::NbTree(tree), Near::NbTree(near)) => {
                tree.write_near(session, near, key, intent, payload)
            }
            (Nodes::HashedLeaf(tree), Near::HashedLeaf(near)) => {
                tree.write_near(session, near, key, intent, payload)
            }
            // Of another tree: from the root.
            (nodes, _) => nodes.write_rarely(session, key, intent, payload),
        }
    }

    /// See [`NbTree::write_many`].
    pub fn write_many<'w, 'k, T>(
        &self,
        session: &mut Session<M>,
        items: &'w [T],
        write_of: impl Fn(&'w T) -> &'w Write<'k, K, M>,
        done: impl FnMut(&'w T, Outcome),
    ) -> Result<(), AllocError>
    where
        'k: 'w,
    {
        either!(self, tree => tree.write_many(session, items, write_of, done))
    }

    /// `limit`: after how many pairs `visit` is expected to say that it has enough; if it is not known, all
    /// ones.
    ///
    /// # Errors
    /// Opening has left a leaf, and it is damaged.
    #[inline(always)]
    pub fn scan_forward(
        &self,
        session: &mut Session<M>,
        from: K::Key<'_>,
        limit: usize,
        extent: Extent,
        visit: impl FnMut(u64, Pair) -> bool,
    ) -> Result<(), AllocError> {
        match self {
            Nodes::NbTree(tree) => {
                tree.scan_forward(session, from, extent, visit);
                Ok(())
            }
            Nodes::HashedLeaf(tree) => tree.scan_forward(session, from, limit, extent, visit),
        }
    }

    /// # Errors
    /// As [`Self::scan_forward`].
    pub fn scan_backward(
        &self,
        session: &mut Session<M>,
        to: Option<K::Key<'_>>,
        extent: Extent,
        visit: impl FnMut(u64, Pair) -> bool,
    ) -> Result<(), AllocError> {
        match self {
            Nodes::NbTree(tree) => {
                tree.scan_backward(session, to, extent, visit);
                Ok(())
            }
            Nodes::HashedLeaf(tree) => tree.scan_backward(session, to, extent, visit),
        }
    }

    /// Adds to the count of keys what writes changed.
    #[inline(always)]
    pub fn count(&self, session: &Session<M>, delta: i64) {
        match self {
            Nodes::NbTree(tree) => tree.count(session, delta),
            Nodes::HashedLeaf(tree) => tree.note_keys(session, delta),
        }
    }

    /// How many keys there are in leaves that opening has not left, or that were restored.
    pub fn counted(&self) -> u64 {
        match self {
            Nodes::NbTree(tree) => tree.len(),
            Nodes::HashedLeaf(tree) => tree.key_count(),
        }
    }

    /// Its keys are those of [`Self::counted`].
    pub fn shape(&self, session: &mut Session<M>) -> TreeShape {
        match self {
            Nodes::NbTree(tree) => tree.shape(session),
            Nodes::HashedLeaf(tree) => tree.tree_shape(session),
        }
    }

    /// Leaves that opening has left to be restored.
    pub fn unrestored(&self) -> u64 {
        match self {
            Nodes::NbTree(_) => 0,
            Nodes::HashedLeaf(tree) => tree.unrestored_leaves(),
        }
    }

    /// Bytes of DRAM that its leaves take besides the nodes that sessions allocate. O(1).
    pub fn place_bytes(&self) -> u64 {
        match self {
            Nodes::NbTree(_) => 0,
            Nodes::HashedLeaf(tree) => tree.place_bytes(),
        }
    }

    /// See [`HashedLeafTree::restore_leaves`].
    pub fn restore_leaves(
        &self,
        session: &mut Session<M>,
        from: Option<&K::Kept>,
        leaves: usize,
        damaged: &mut Vec<AllocError>,
    ) -> Option<K::Kept> {
        match self {
            Nodes::NbTree(_) => None,
            Nodes::HashedLeaf(tree) => tree.restore_leaves(session, from, leaves, damaged),
        }
    }

    /// Restores all leaves that opening has left, and waits for the threads that restore some.
    ///
    /// # Errors
    /// A leaf is damaged; all others are restored.
    pub fn restore_all(&self, session: &mut Session<M>) -> Result<(), AllocError> {
        match self {
            Nodes::NbTree(_) => Ok(()),
            Nodes::HashedLeaf(tree) => tree.restore_all(session),
        }
    }

    /// The merges that were missed.
    pub fn missed(&self) -> &Missed<M> {
        either!(self, tree => tree.missed())
    }

    /// See [`NbTree::merge_some`].
    pub fn merge_some(&self, session: &mut Session<M>, place: &mut SweepPlace<K::Kept>) -> Swept {
        either!(self, tree => tree.merge_some(session, place))
    }

    /// Seals its leaves durably, and says what they hold. Nobody writes.
    pub fn seal(&self, session: &mut Session<M>, threads: usize) -> Contents {
        either!(self, tree => tree.seal(session, threads))
    }

    /// Walks the tree, marks in `used` what it uses, and adds to `report` what it finds.
    pub fn check(&self, session: &mut Session<M>, used: &Recovery<M>, report: &mut CheckReport) {
        match self {
            Nodes::NbTree(tree) => {
                let mut state = CheckState::default();
                tree.check(session, used, &mut state);
                state.add_to(report);
            }
            Nodes::HashedLeaf(tree) => tree.check_tree(session, used, report),
        }
    }
}
