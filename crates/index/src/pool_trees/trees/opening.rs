//! Opening all trees of a pool.

use std::sync::Arc;

use everleaf_alloc::{AllocError, Heap, Recovery};
use everleaf_machine::Machine;
use everleaf_pool::{FEATURE_SUM_OF_EMPTY, Pool, Root};

use super::restoring::Marks;
use super::seal::{compare_contents, compare_roots};
use super::{Named, Trees};
use crate::api::error::IndexError;
use crate::bytes::entry::BytesKind;
use crate::bytes::tree::BytesTree;
use crate::geometry::Geometry;
use crate::hashed_leaf::layout::LeafShape;
use crate::kind::{Kind, U64Kind};
use crate::nbtree::recover::LiveBlocks;
use crate::nbtree::{Contents, find_live_blocks};
use crate::pool_trees::registry::Registry;
use crate::u64_tree::U64Tree;

impl<G: Geometry, M: Machine> Trees<G, M> {
    /// Opens a pool with all its trees, recovering them on up to `threads` threads. A pool whose
    /// making was cut short is rebuilt.
    ///
    /// # Errors
    /// Damage that makes a tree unreadable; a tree of a design that is not this crate's.
    pub fn open(pool: Pool<M>, threads: usize) -> Result<Self, IndexError> {
        Self::open_with(pool, threads, Registry::NONE)
    }

    /// As [`Self::open`], with trees of further designs.
    ///
    /// # Errors
    /// Damage that makes a tree unreadable; a tree of a design that is unknown.
    pub fn open_with(
        pool: Pool<M>,
        threads: usize,
        designs: Registry<M>,
    ) -> Result<Self, IndexError> {
        Self::open_as(pool, threads, designs, false)
    }

    pub(super) fn open_as(
        pool: Pool<M>,
        threads: usize,
        designs: Registry<M>,
        at_once: bool,
    ) -> Result<Self, IndexError> {
        if !Heap::exists(&pool) {
            if let Some(root) = pool.roots().first() {
                // Never rebuilt over what is there: a flipped bit would cost everything.
                let what =
                    format!("the heap header is damaged, and there is a map '{}'", root.name);
                let _ = pool.leave_as_found();
                return Err(AllocError::Corrupt { offset: pool.data_start(), what }.into());
            }
            return if pool.is_read_only() {
                Err(IndexError::ReadOnly)
            } else {
                Self::create_with(pool, designs)
            };
        }
        // Its sums are of what all leaves hold.
        let at_once = at_once && pool.seal().is_none();
        let (heap, recovery) = Heap::open(pool)?;
        let marks = Marks::new(recovery, at_once);
        let opened = Self::recover(&heap, &marks, designs, threads);
        match &opened {
            // Before anything is changed.
            Ok(_) => heap.pool().end_seal(),
            Err(_) => {
                // Nothing that was sealed was changed, nor what anybody could have read: words of blocks
                // that said the same by those of others, and of a pool that was not closed what was never
                // acknowledged, and entries that were frozen, which say the same without. So the next opening
                // finds what this one has found. Without its mark the pool would count as not closed.
                let _ = heap.pool().leave_as_found();
            }
        }
        let trees = opened?;
        marks.finish(&heap);
        trees.mend_empty_pairs()?;
        Ok(trees)
    }

    /// Mends what older programs have written whose empty pairs had the check sum 0, and notes that it was
    /// done. A crash in between leaves some of them to the next opening.
    fn mend_empty_pairs(&self) -> Result<(), IndexError> {
        let pool = self.heap.pool();
        if pool.is_read_only() || pool.has_compatible(FEATURE_SUM_OF_EMPTY)? {
            return Ok(());
        }
        let mut session = self.heap.session()?;
        let named: Vec<_> = self.named.lock().iter().map(|(_, tree)| tree.clone()).collect();
        for tree in &named {
            if let Named::Bytes(tree) = tree {
                tree.mend_empty(&mut session)?;
            }
        }
        // If the disk refuses, the next opening does it again.
        let _ = pool.enable_compatible(FEATURE_SUM_OF_EMPTY);
        Ok(())
    }

    /// All trees, compared with the pool's seal if there is one in force.
    fn recover(
        heap: &Arc<Heap<M>>,
        marks: &Marks<M>,
        designs: Registry<M>,
        threads: usize,
    ) -> Result<Self, IndexError> {
        let recovery = marks.recovery();
        let roots = heap.pool().roots();
        let seal = heap.pool().seal();
        compare_roots(heap, &roots)?;
        let mut sealed = Contents::default();
        let codes = [<U64Kind as Kind<M>>::CODE, <BytesKind as Kind<M>>::CODE];
        let live = live_blocks(heap, recovery, &roots, &codes, 0, threads)?;
        let hashed_codes = [<U64Kind as Kind<M>>::HASHED_CODE, <BytesKind as Kind<M>>::HASHED_CODE];
        let class = <G::Leaves as LeafShape>::BLOCK_CLASS;
        let hashed = live_blocks(heap, recovery, &roots, &hashed_codes, class, threads)?;
        let mut trees = Self::on_heap(heap.clone(), designs, threads, seal.is_some());
        trees.late = marks.late().cloned();
        let marks = (recovery, trees.late.as_ref());
        let mut session = heap.session()?;
        for ((root, live), hashed) in roots.into_iter().zip(live).zip(hashed) {
            let is_hashed = hashed_codes.contains(&root.kind);
            let named = if is_hashed || codes.contains(&root.kind) {
                let sealed = seal.is_some().then_some(&mut sealed);
                let design = trees.nodes_design(is_hashed)?;
                let live = if is_hashed { hashed } else { live };
                let (session, id) = (&mut session, root.value);
                if root.kind == design.code::<U64Kind>() {
                    let tree = design.recover(session, marks, id, live, threads, sealed)?;
                    Named::U64(Arc::new(U64Tree::new(heap.clone(), root.index, tree)))
                } else {
                    let tree = design.recover(session, marks, id, live, threads, sealed)?;
                    Named::Bytes(Arc::new(BytesTree::new(heap.clone(), root.index, tree)))
                }
            } else {
                let Some(design) = designs.of_kind(root.kind) else {
                    return Err(IndexError::ForeignDesign { map: root.name, kind: root.kind });
                };
                let tree = (design.recover)(&mut session, recovery, root.value, threads)?;
                Named::Other(tree, root.index)
            };
            trees.named.lock().push((root.name, named));
        }
        compare_contents(heap, sealed)?;
        Ok(trees)
    }
}

/// The live blocks, of one class, of the trees of these kinds among all.
fn live_blocks<M: Machine>(
    heap: &Heap<M>,
    recovery: &Recovery<M>,
    roots: &[Root],
    codes: &[u16],
    class: usize,
    threads: usize,
) -> Result<Vec<LiveBlocks>, AllocError> {
    if !roots.iter().any(|root| codes.contains(&root.kind)) {
        return Ok(vec![LiveBlocks::default(); roots.len()]);
    }
    // The values of other designs are places, which may equal an id: no block has owner 0.
    let id = |root: &Root| if codes.contains(&root.kind) { root.value } else { 0 };
    let ids: Vec<u32> = roots.iter().map(id).collect();
    find_live_blocks(heap, recovery, &ids, class, threads)
}
