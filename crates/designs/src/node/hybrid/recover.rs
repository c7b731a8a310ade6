//! Recovery: from a root object to a tree.
//!
//! 1. The micro-logs: a rewrite is taken back from its image, other changes are finished.
//! 2. The list of leaves is walked: each is marked, checked, and what it keeps that is not persistent
//!    is made right.
//! 3. The inner tree is built over the leaves' fences.
//!
//! Step 1 can be cut and repeated anywhere: a log is cleared after what it asks for is durable. What
//! step 2 writes nobody relies on after a crash.

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::{Geometry, IndexError, RootObject};
use everleaf_machine::{LINE_SIZE, Machine};

use super::leaf::LeafDesign;
use super::{FIRST_IMAGE, HEAD, Hybrid};
use crate::node::inner::InnerTree;
use crate::node::micro_log::{LOG_COUNT, Record};

impl<D: LeafDesign<M>, G: Geometry, M: Machine> Hybrid<D, G, M> {
    /// The tree of this root value.
    pub(super) fn open(
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        root: u32,
    ) -> Result<Self, IndexError> {
        let heap = session.heap().clone();
        let context = Self::new_context(&heap)?;
        let root_object = RootObject::open(&heap, recovery, root, D::TAG)?;
        // A placeholder until the leaves are known.
        let inner = InnerTree::load(session, &[(0, 0)])?;
        let mut tree = Self::assemble(heap, root_object, context, inner);
        let restored = tree.restore(session, recovery);
        let placeholder = &tree.inner;
        placeholder.free(session);
        tree.inner = restored?;
        Ok(tree)
    }

    /// The three steps; gives the inner nodes.
    fn restore(
        &self,
        session: &mut Session<M>,
        recovery: &Recovery<M>,
    ) -> Result<InnerTree<G, M>, IndexError> {
        self.mark_images(recovery)?;
        self.replay(recovery)?;
        Ok(InnerTree::load(session, &self.walk(recovery)?)?)
    }

    fn mark_images(&self, recovery: &Recovery<M>) -> Result<(), AllocError> {
        if D::NEEDS_IMAGES {
            for index in 0..LOG_COUNT {
                self.check_place(recovery, self.image(index))?;
                recovery.mark_record(self.image(index), Self::LEAF_SIZE)?;
            }
        }
        Ok(())
    }

    fn corrupt(&self, offset: u64, what: impl Into<String>) -> AllocError {
        AllocError::Corrupt { offset, what: what.into() }
    }

    /// Refuses a place where no leaf can be.
    fn check_place(&self, recovery: &Recovery<M>, offset: u64) -> Result<(), AllocError> {
        let room = recovery.record_room(offset).filter(|_| offset.is_multiple_of(LINE_SIZE as u64));
        if room.is_some_and(|room| room >= Self::LEAF_SIZE) {
            Ok(())
        } else {
            Err(self.corrupt(offset, "a leaf was expected here"))
        }
    }

    /// Step 1.
    fn replay(&self, recovery: &Recovery<M>) -> Result<(), IndexError> {
        let at = self.root_object.root_value().into();
        let pending = self.logs.pending().map_err(|what| self.corrupt(at, what))?;
        if !pending.is_empty() && !self.context.is_writable {
            return Err(IndexError::ReadOnly);
        }
        for (index, record) in pending {
            match record {
                Record::Rewrite { leaf } if D::NEEDS_IMAGES => {
                    M::mark("hybrid.rolled_back");
                    self.check_place(recovery, leaf)?;
                    self.copy(self.image(index), leaf);
                    if !M::mutant("hybrid.no_restore_flush") {
                        // Persist: the old contents before the record is cleared.
                        self.persist_leaf(self.leaf(leaf));
                    }
                }
                Record::Split { leaf, new: other } | Record::Unlink { leaf, left: other } => {
                    self.check_place(recovery, leaf)?;
                    self.check_place(recovery, other)?;
                    D::redo(self, record).map_err(|what| self.corrupt(leaf, what))?;
                }
                Record::Rewrite { leaf } => {
                    return Err(self.corrupt(leaf, "a rewrite is logged without image").into());
                }
            }
            if !M::mutant("hybrid.replay_again") {
                self.logs.clear(index);
            }
        }
        Ok(())
    }

    /// Step 2: fences and places of all leaves.
    fn walk(&self, recovery: &Recovery<M>) -> Result<Vec<(u64, u64)>, AllocError> {
        let mut leaves: Vec<(u64, u64)> = vec![];
        let mut keys = 0;
        let mut offset = self.head().read_private();
        loop {
            self.check_place(recovery, offset)?;
            recovery.mark_record(offset, Self::LEAF_SIZE)?;
            let leaf = self.leaf(offset);
            let header = D::header(leaf);
            let (low, next) = (header.low.read_private(), header.next.read_private());
            let follows = match leaves.last() {
                None => low == 0,
                Some((last, _)) => low > *last,
            };
            if !follows {
                return Err(
                    self.corrupt(offset, format!("the leaf's low fence {low} is misplaced"))
                );
            }
            D::repair(self.context, leaf).map_err(|what| self.corrupt(offset, what))?;
            keys += D::key_count(self.context, leaf);
            leaves.push((low, offset));
            if next == 0 {
                break;
            }
            offset = next;
        }
        self.keys.add(0, keys as i64);
        self.leaves.add(0, leaves.len() as i64);
        Ok(leaves)
    }

    /// Marks what the tree uses.
    pub(super) fn mark_all(&self, used: &Recovery<M>) -> Result<(), AllocError> {
        self.root_object.mark(used)?;
        self.mark_images(used)?;
        let mut offset = self.first_leaf();
        while offset != 0 {
            used.mark_record(offset, Self::LEAF_SIZE)?;
            offset = D::header(self.leaf(offset)).next();
        }
        Ok(())
    }
}

const _: () = assert!(HEAD < FIRST_IMAGE && FIRST_IMAGE + LOG_COUNT <= 8);
