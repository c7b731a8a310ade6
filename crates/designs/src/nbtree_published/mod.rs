//! NBTree with the protocol of its paper: two copies of a key while its leaf is being replaced,
//! kept equal by copying afterwards. **It loses writes when several threads use it**; it is here to
//! be compared with. Use [`NbTree`](everleaf_index::NbTree) instead.
//!
//! ```text
//!            inner nodes (DRAM, sorted by shifting)
//!                 |              |
//!            leaf metadata   leaf metadata      fingerprints, bitmap, num, flag, copy_ptr
//!                 |              |
//!   pool:   [ block 1 KiB ]->[ block 1 KiB ]    62 entries each, unsorted, in a list
//!                ^
//!             root object, and the words of the allocator (`calloc.rs`)
//! ```
//!
//! A search reads one line of the pool, a write dirties and flushes one. An insert claims a slot by
//! fetch-and-add, an update or removal changes one word in place. A full leaf is replaced in three
//! phases, by however many threads come along: its entries are copied, what was written to it
//! meanwhile is written to the copies, the copies are linked.
//!
//! *Source*: Bowen Zhang, Shengan Zheng, Liangxu Nie, Zhenlin Qi, Hongyi Chen, Linpeng Huang, Hong
//! Mei, "Revisiting PM-Based B+-Tree With Persistent CPU Cache", IEEE TPDS 2024: algorithms 1 to 5
//! and sections III and IV, and its variants NBTree-W, NBTree-WR and the coupled leaf
//! (`variant.rs`). *Departures*, each for a reason:
//! - read charitably: a search looks at committed slots only; a commit fails once `smo_bit` is set;
//!   the upper copy is reached through a pointer that never changes; a split key has keys on both
//!   sides, else there is one copy; what the last entries of a leaf lost is synchronised too;
//! - an insert looks first, and updates and removals are exchanges, not stores: the calls of this
//!   crate say what was there. They are no more atomic for that (`docs/trees/nbtree-published.md`);
//! - the one hardware transaction that updates the parent and sets `flag.link` is the store of
//!   `flag.link`: a thread that meets a leaf that has it goes on to its copies, and the parent follows
//!   under a lock that nobody waits for;
//! - the metadata are in no list: the inner nodes lead to a leaf's predecessor;
//! - the allocator's bitmap, rings and logs are kept and not trusted (`calloc.rs`);
//! - blocks have a low fence, new blocks are cleared and durable before they are linked, replaced
//!   ones are reused after a grace period, and everything is flushed where the domain asks for it:
//!   of none of these the paper speaks.
//!
//! | operation | paper | function | linearizes, if nobody interferes, at | durable (`Adr`) when |
//! |---|---|---|---|---|
//! | get | Alg. 5 | `search.rs` `get` | load of the entry or of the bitmap | - |
//! | insert | Alg. 1 | `write.rs` `append` | exchange of the bitmap | its entry was persisted, before |
//! | update, remove | Alg. 3, 4 | `write.rs` `update`, `remove` | exchange of the word | its entry was persisted, after |
//! | split, compaction | Alg. 2 | `split.rs`, `sync.rs`, `link.rs` | no effect on contents; authority moves at `LINK` | the link in the list was persisted, before |
//! | scan | - | `scan.rs` | each leaf at some instants | - |
//! | recovery | III-B | `recover.rs` | - | - |
//!
//! Invariants, with one thread or with locks in every crash image:
//! - NP1 the blocks of the list have ascending low fences, the first of which is 0;
//! - NP2 keys lie within their leaf's fences, and no key is there twice;
//! - NP3 a slot whose key is not 0 has its value; a slot is filled once in the life of its leaf;
//! - NP4 the leaves that the inner nodes lead to, over `LINK` and `copy`, are those of the list;
//! - NP5 nobody writes to a copy as to a leaf before the list leads to it durably and `LINK` is set;
//! - NP6 a committed slot has its key's fingerprint;
//! - NP7 at rest the bits that are set are those of the leaves in use and in rings.

mod blocks;
mod calloc;
mod check;
mod design;
mod inner;
mod install;
pub mod layout;
mod leaves;
mod link;
mod lock;
mod recover;
mod scan;
mod search;
mod split;
pub mod state;
mod sync;
pub mod variant;
mod write;

use std::marker::PhantomData;
use std::sync::Arc;

use everleaf_alloc::{AllocError, Heap, Session};
use everleaf_index::build::Tally;
use everleaf_index::{Geometry, PoolBase, Production, RootObject};
use everleaf_machine::{Atomic, Hardware, Machine, Ordering};
use everleaf_pool::Medium;

use crate::allocators::number_of;

use blocks::Blocks;
use calloc::Calloc;
use inner::InnerNodes;
use layout::{
    Block, Leaf, LeafStart, SLOT_COUNT_MAX, coupled_place, in_pool, new_leaf, record_size,
};
use leaves::Leaves;
use state::LINK;
use variant::Variant;

/// The first word of the tree's root object.
const TAG: u64 = u64::from_le_bytes(*b"nbpublsh");
/// The root object's word that names the first block.
const HEAD: usize = 1;

/// The tree, in variant `V`, with leaves of geometry `G`, on machine `M`.
pub struct NbPublished<V, G: Geometry = Production, M: Machine = Hardware> {
    inner: InnerNodes<G, M>,
    space: Leaves<M>,
    base: PoolBase<M>,
    medium: Medium<M>,
    root_object: RootObject<M>,
    is_writable: bool,
    keys: Tally<M>,
    leaves: Tally<M>,
    splits: Tally<M>,
    /// Keeps the pool open.
    _heap: Arc<Heap<M>>,
    variant: PhantomData<V>,
}

/// The tree of the paper.
pub type NbTreePublished<G = Production, M = Hardware> = NbPublished<variant::LockFree, G, M>;
/// The paper's NBTree-W.
pub type NbTreeW<G = Production, M = Hardware> = NbPublished<variant::WriteLocks, G, M>;
/// The paper's NBTree-WR.
pub type NbTreeWr<G = Production, M = Hardware> = NbPublished<variant::AllLocks, G, M>;
/// The paper's tree with coupled leaves.
pub type NbTreeCoupled<G = Production, M = Hardware> = NbPublished<variant::Coupled, G, M>;

// SAFETY: `base` is the pool's mapping, which the heap keeps; everything shared is atomic, or
// immutable while it can be reached, and reclaimed by epochs.
unsafe impl<V: Variant, G: Geometry, M: Machine> Send for NbPublished<V, G, M> {}
// SAFETY: as for `Send`.
unsafe impl<V: Variant, G: Geometry, M: Machine> Sync for NbPublished<V, G, M> {}

impl<V: Variant, G: Geometry, M: Machine> NbPublished<V, G, M> {
    /// Slots of a leaf that are used.
    const CAPACITY: usize =
        if G::SLOT_COUNT < SLOT_COUNT_MAX { G::SLOT_COUNT } else { SLOT_COUNT_MAX };
    /// Bytes of the record that a leaf has in the pool.
    const RECORD_SIZE: usize = record_size::<V>();

    fn assemble(
        heap: Arc<Heap<M>>,
        root_object: RootObject<M>,
        space: Leaves<M>,
        inner: InnerNodes<G, M>,
    ) -> Self {
        NbPublished {
            inner,
            space,
            base: PoolBase::of(&heap),
            medium: heap.medium(),
            root_object,
            is_writable: !heap.pool().is_read_only(),
            keys: Tally::new(0),
            leaves: Tally::new(0),
            splits: Tally::new(0),
            _heap: heap,
            variant: PhantomData,
        }
    }

    /// A new tree with one empty leaf, whose leaves come from Calloc.
    fn create_empty(session: &mut Session<M>) -> Result<Self, AllocError> {
        let heap = session.heap().clone();
        let root_object = RootObject::create(session, TAG)?;
        let space = Leaves::Calloc(Calloc::new(&heap, root_object, Self::RECORD_SIZE));
        Self::create_in(session, root_object, space)
    }

    /// The same with so many leaves at most, which come from the allocator of that
    /// [name](crate::allocators::names).
    ///
    /// # Errors
    /// No space.
    ///
    /// # Panics
    /// If there is no allocator of that name.
    pub fn create_on(
        session: &mut Session<M>,
        allocator: &str,
        leaves: usize,
    ) -> Result<Self, AllocError> {
        let number = number_of(allocator).expect("the name of an allocator");
        let root_object = RootObject::create(session, TAG)?;
        let record_size = Self::RECORD_SIZE;
        match Blocks::create(session, root_object, number, record_size, leaves, V::AREA_USE) {
            Ok(blocks) => Self::create_in(session, root_object, Leaves::Blocks(blocks)),
            Err(error) => {
                root_object.free(session);
                Err(error)
            }
        }
    }

    fn create_in(
        session: &mut Session<M>,
        root_object: RootObject<M>,
        space: Leaves<M>,
    ) -> Result<Self, AllocError> {
        let heap = session.heap().clone();
        match Self::create_first(session, root_object, &space) {
            Ok(inner) => {
                let tree = Self::assemble(heap, root_object, space, inner);
                tree.leaves.add(session.stripe(), 1);
                Ok(tree)
            }
            Err(error) => {
                space.free_all(session, std::iter::empty(), Self::RECORD_SIZE);
                root_object.free(session);
                Err(error)
            }
        }
    }

    /// The first leaf of a new tree, and the inner nodes above it.
    fn create_first(
        session: &mut Session<M>,
        root_object: RootObject<M>,
        space: &Leaves<M>,
    ) -> Result<InnerNodes<G, M>, AllocError> {
        let (base, medium) = (PoolBase::of(session.heap()), session.medium());
        let block = space.reserve_first(session, Self::RECORD_SIZE)?;
        let contents = block_at(base, block);
        contents.fill(0, 0, &[]);
        // Persist: the block before the root object names it, or recovery would find no leaf there (NP1).
        medium.persist(contents.next.as_ptr(), layout::BLOCK_SIZE);
        space.activate_first(session, block, root_object.word(HEAD), Self::RECORD_SIZE)?;
        let start = LeafStart { keys: &[], low: 0, high: 0, block, right: std::ptr::null_mut() };
        let made = Self::make_leaf(session, base, true, &start).and_then(|leaf| {
            InnerNodes::load(session, &[(0, leaf)]).inspect_err(|_| {
                Self::unmake_leaf(session, true, leaf);
            })
        });
        made.inspect_err(|_| space.forget_first(session, root_object.word(HEAD), Self::RECORD_SIZE))
    }

    /// Metadata for a block, private.
    fn make_leaf(
        session: &mut Session<M>,
        base: PoolBase<M>,
        is_writable: bool,
        start: &LeafStart<'_, M>,
    ) -> Result<*mut Leaf<M>, AllocError> {
        let leaf = if in_pool::<V>(is_writable) {
            coupled_place(base, start.block)
        } else {
            new_leaf(session)?
        };
        // SAFETY: memory for metadata that nobody else can reach: just allocated, or behind a block
        // that is ours; made of atomic words, valid whatever their bits.
        unsafe { &*leaf }.start(start);
        Ok(leaf)
    }

    /// Takes metadata back that nobody else can reach.
    fn unmake_leaf(session: &mut Session<M>, is_writable: bool, leaf: *mut Leaf<M>) {
        if !in_pool::<V>(is_writable) {
            // SAFETY: from `make_leaf`, which allocated them then; by the caller's promise nobody
            // can reach them.
            unsafe { session.free_node(leaf.cast(), layout::LEAF_SIZE) };
        }
    }

    /// The metadata behind a pointer that was read from the tree by the pinned operation, or are
    /// its own.
    #[inline(always)]
    fn leaf(&self, leaf: *mut Leaf<M>) -> &Leaf<M> {
        // SAFETY: never null (callers check `copy` and `right`), and not reclaimed before the
        // operation unpins.
        unsafe { &*leaf }
    }

    /// The block of a leaf.
    #[inline(always)]
    fn block(&self, leaf: &Leaf<M>) -> &Block<M> {
        block_at(self.base, leaf.block())
    }

    /// The word of the root object that names the first block.
    fn head(&self) -> &Atomic<u64, M> {
        self.root_object.word(HEAD)
    }

    /// Whether the leaf is out of the tree.
    #[inline(always)]
    fn is_linked(&self, leaf: &Leaf<M>) -> bool {
        // Acquire: the copies, and all that was done to them before; pairs with the release in
        // `link.rs`.
        leaf.flag.load(Ordering::Acquire) & LINK != 0
    }

    /// The first of the leaves that replace `leaf`, if they are decided.
    #[inline(always)]
    fn copy_of(&self, leaf: &Leaf<M>) -> Option<&Leaf<M>> {
        // Acquire: the copies are complete; pairs with the exchange in `split.rs`.
        let copy = leaf.copy.load(Ordering::Acquire);
        (!copy.is_null()).then(|| self.leaf(copy))
    }

    /// The one of two copies that has the key.
    #[inline(always)]
    fn side<'t>(&'t self, left: &'t Leaf<M>, key: u64) -> &'t Leaf<M> {
        let right = left.right();
        if right.is_null() {
            return left;
        }
        let right = self.leaf(right);
        if key >= right.low() { right } else { left }
    }
}

/// The block at an offset.
#[inline(always)]
fn block_at<'t, M: Machine>(base: PoolBase<M>, block: u64) -> &'t Block<M> {
    // SAFETY: offsets come from the allocator, from metadata, and from a list that recovery has
    // checked; the record is of a block's size, aligned, inside the pool, which stays open. Made of
    // atomic words, valid whatever their bits.
    unsafe { &*base.start().wrapping_add(block as usize).cast::<Block<M>>() }
}
