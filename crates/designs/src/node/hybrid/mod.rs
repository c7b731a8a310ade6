//! The trees of the hybrid kind: inner nodes in DRAM, leaves in the pool, in a list.
//!
//! ```text
//!   InnerTree (DRAM)
//!      |        |        |
//!   [ leaf ]->[ leaf ]->[ leaf ]        records in the pool, ascending low fences
//!      ^
//!   root object (pool): tag | first leaf | images | micro-logs
//! ```
//!
//! This is everything of such a tree but the leaf, which is the only thing in which the published
//! trees of this kind differ ([`LeafDesign`]): the operations' loops, scans, splits that rewrite a
//! leaf under the protection of an image or put new ones in its place, recovery and check.
//!
//! Invariants (with those of `inner` and of the design):
//! - H1 the leaves of the list have ascending low fences, the first of which is 0, in every crash
//!   image once its logs are dealt with;
//! - H2 a leaf's keys are not below its low fence and below its right neighbour's;
//! - H3 contents change only under the leaf's lock; a change is durable before the lock is opened, or
//!   before readers are sent to it;
//! - H4 the inner tree leads to a leaf whose lock is held, or to the one whose range holds the key: a
//!   new leaf is entered while it and its origin are locked, a leaf is removed likewise;
//! - H5 every leaf but the ones under construction is in the list, and nothing else of the tree is in
//!   the pool but the root object and the images.

mod check;
pub mod leaf;
mod operations;
mod recover;
mod replace;
mod rewrite;
mod scan;
#[cfg(test)]
mod tests;
mod write;

use std::marker::PhantomData;
use std::sync::Arc;

use everleaf_alloc::{AllocError, Heap, Session};
use everleaf_index::build::Tally;
use everleaf_index::{Geometry, IndexError, PoolBase, RootObject};
use everleaf_machine::{Atomic, Machine, Ordering};

use crate::node::inner::InnerTree;
use crate::node::micro_log::{LOG_COUNT, MicroLogs};
use leaf::{LeafDesign, TreeContext};

/// Words of the root object.
const HEAD: usize = 1;
const FIRST_IMAGE: usize = 2;

/// A tree with leaves of design `D`.
pub struct Hybrid<D: LeafDesign<M>, G: Geometry, M: Machine> {
    pub inner: InnerTree<G, M>,
    pub logs: MicroLogs<M>,
    pub context: TreeContext<M>,
    base: PoolBase<M>,
    root_object: RootObject<M>,
    keys: Tally<M>,
    leaves: Tally<M>,
    splits: Tally<M>,
    /// Keeps the pool open.
    _heap: Arc<Heap<M>>,
    design: PhantomData<D>,
}

// SAFETY: `base` is the pool's mapping, which the heap keeps; everything shared is atomic.
unsafe impl<D: LeafDesign<M>, G: Geometry, M: Machine> Send for Hybrid<D, G, M> {}
// SAFETY: as for `Send`.
unsafe impl<D: LeafDesign<M>, G: Geometry, M: Machine> Sync for Hybrid<D, G, M> {}

impl<D: LeafDesign<M>, G: Geometry, M: Machine> Hybrid<D, G, M> {
    /// Bytes of a leaf.
    pub const LEAF_SIZE: usize = size_of::<D::Leaf>();

    fn assemble(
        heap: Arc<Heap<M>>,
        root_object: RootObject<M>,
        context: TreeContext<M>,
        inner: InnerTree<G, M>,
    ) -> Self {
        Hybrid {
            inner,
            logs: MicroLogs::new(root_object, heap.medium()),
            context,
            base: PoolBase::of(&heap),
            root_object,
            keys: Tally::new(0),
            leaves: Tally::new(0),
            splits: Tally::new(0),
            _heap: heap,
            design: PhantomData,
        }
    }

    fn new_context(heap: &Heap<M>) -> Result<TreeContext<M>, IndexError> {
        let is_writable = !heap.pool().is_read_only();
        // Nobody locks anything in a pool that is open read-only: all locks count as open.
        let generation = if is_writable { heap.pool().next_id()? } else { u32::MAX };
        let capacity = D::CAPACITY.min(G::SLOT_COUNT);
        Ok(TreeContext { medium: heap.medium(), generation, capacity, is_writable })
    }

    /// A new tree with one empty leaf.
    pub fn create_empty(session: &mut Session<M>) -> Result<Self, IndexError> {
        let heap = session.heap().clone();
        let context = Self::new_context(&heap)?;
        let root_object = RootObject::create(session, D::TAG)?;
        let made = Self::create_parts(session, context, root_object);
        let inner = match made {
            Ok(inner) => inner,
            Err(error) => {
                Self::free_parts(session, root_object);
                return Err(error.into());
            }
        };
        let tree = Self::assemble(heap, root_object, context, inner);
        tree.leaves.add(session.stripe(), 1);
        Ok(tree)
    }

    /// Images, first leaf and inner tree; what was made before an error is named in the root object.
    fn create_parts(
        session: &mut Session<M>,
        context: TreeContext<M>,
        root_object: RootObject<M>,
    ) -> Result<InnerTree<G, M>, AllocError> {
        let images = if D::NEEDS_IMAGES { LOG_COUNT } else { 0 };
        for index in 0..images {
            let offset = session.allocate_record(Self::LEAF_SIZE)?;
            root_object.word(FIRST_IMAGE + index).write_private(offset);
        }
        let offset = session.allocate_record(Self::LEAF_SIZE)?;
        let base = PoolBase::of(session.heap());
        // SAFETY: a record just allocated has room for a leaf and is 64-byte aligned.
        let leaf = unsafe { leaf_at::<D, M>(base, offset) };
        let header = D::header(leaf);
        header.lock.reset_held(context.generation);
        header.next.write_private(0);
        header.low.write_private(0);
        D::initialize(context, leaf);
        D::fill(context, leaf, &[]);
        D::thaw(context, leaf);
        header.lock.unlock();
        // Persist: the leaf before the root object names it, or recovery would find no leaf there (H1).
        context.medium.persist(header.lock.as_ptr(), Self::LEAF_SIZE);
        root_object.word(HEAD).write_private(offset);
        // Persist: leaf, then root object, before the directory names the tree.
        context.medium.persist(root_object.word(0).as_ptr(), everleaf_index::ROOT_OBJECT_SIZE);
        InnerTree::load(session, &[(0, offset)])
    }

    /// Gives back the records that a new root object names, and the root object.
    fn free_parts(session: &mut Session<M>, root_object: RootObject<M>) {
        for index in std::iter::once(HEAD).chain(FIRST_IMAGE..FIRST_IMAGE + LOG_COUNT) {
            let offset = root_object.word(index).read_private();
            if offset != 0 {
                session.free_record(offset, Self::LEAF_SIZE);
            }
        }
        root_object.free(session);
    }

    /// The leaf at `offset`: one that the list or the inner tree led to, or a new one.
    #[inline(always)]
    pub fn leaf(&self, offset: u64) -> &D::Leaf {
        // SAFETY: offsets come from the inner tree, from neighbours that recovery has checked or the
        // running tree has set, and from the allocator. A leaf that was reclaimed meanwhile is still
        // memory of the pool, all of it atomic words.
        unsafe { leaf_at::<D, M>(self.base, offset) }
    }

    /// The word of the root object that names the first leaf.
    pub fn head(&self) -> &Atomic<u64, M> {
        self.root_object.word(HEAD)
    }

    fn first_leaf(&self) -> u64 {
        // Acquire: the leaf is complete; pairs with the release of the thread that replaces it.
        self.head().load(Ordering::Acquire)
    }

    /// The words of a leaf or of an image.
    fn words(&self, offset: u64) -> &[Atomic<u64, M>] {
        let start = self.base.start().wrapping_add(offset as usize).cast();
        // SAFETY: as in `leaf`: a record of that size, aligned, inside the pool.
        unsafe { std::slice::from_raw_parts(start, Self::LEAF_SIZE / 8) }
    }

    /// The place of a log's image.
    fn image(&self, log: usize) -> u64 {
        self.root_object.word(FIRST_IMAGE + log).read_private()
    }

    /// A new leaf that the caller holds, empty, private: its neighbour and fence are set.
    pub fn new_leaf(
        &self,
        session: &mut Session<M>,
        low: u64,
        next: u64,
    ) -> Result<u64, AllocError> {
        let offset = session.allocate_record(Self::LEAF_SIZE)?;
        let leaf = self.leaf(offset);
        let header = D::header(leaf);
        header.lock.reset_held(self.context.generation);
        header.next.write_private(next);
        header.low.write_private(low);
        D::initialize(self.context, leaf);
        Ok(offset)
    }

    /// Flushes a whole leaf and waits.
    #[track_caller]
    pub fn persist_leaf(&self, leaf: &D::Leaf) {
        self.context.medium.persist(D::header(leaf).lock.as_ptr(), Self::LEAF_SIZE);
    }

    /// Notes that a leaf was taken out of the list, and gives it back when nobody can hold it.
    pub fn retire_leaf(&self, session: &mut Session<M>, offset: u64) {
        self.leaves.add(session.stripe(), -1);
        if M::mutant("hybrid.free_at_once") {
            return session.free_record(offset, Self::LEAF_SIZE);
        }
        session.retire_record(offset, Self::LEAF_SIZE);
    }

    /// Gives back a leaf that nobody else has seen.
    pub fn discard_leaf(&self, session: &mut Session<M>, offset: u64) {
        session.free_record(offset, Self::LEAF_SIZE);
    }

    /// Notes that a leaf was split or compacted.
    pub fn note_split(&self, session: &Session<M>, added: i64) {
        self.splits.add(session.stripe(), 1);
        self.leaves.add(session.stripe(), added);
    }
}

/// The leaf at an offset.
///
/// # Safety
/// There is a record of at least a leaf's size, 64-byte aligned, inside the pool, which stays open.
#[inline(always)]
unsafe fn leaf_at<'t, D: LeafDesign<M>, M: Machine>(base: PoolBase<M>, offset: u64) -> &'t D::Leaf {
    // SAFETY: by the caller's promise; a leaf is made of atomic words, valid whatever their bits.
    unsafe { &*base.start().wrapping_add(offset as usize).cast::<D::Leaf>() }
}
