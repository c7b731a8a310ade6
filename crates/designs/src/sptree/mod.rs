//! SPTree: unsorted leaves in the pool, and in DRAM all that a search needs before it: an inner tree, and
//! for each leaf a middle node with its lock, its range and a filter of its keys.
//!
//! ```text
//!   top index (DRAM)         low fence -> leaf
//!      |         |
//!   [middle]  [middle]       DRAM, 128 bytes: lock, range, filter
//!      |         |
//!   [ leaf ]->[ leaf ]->     pool, 1216 bytes: line 0, tags, entries, order
//!      ^
//!   root object (pool): tag | variant | first leaf | logs
//! ```
//!
//! A lookup of an absent key ends, 99 times of a hundred, in the middle node and reads nothing in the
//! pool. A write fills a free slot and then commits it, and the end of what it replaces, by one store of
//! the bitmap. Splits and merges need no log: all that says what a leaf holds is on its line 0, whose
//! stores become durable in their order, and every prefix of that order has exactly one repair
//! (`state.rs`).
//!
//! The *buffered* variants have a buffer of 14 entries beside each middle node (`node/write_buffer.rs`). A write is
//! a record of the log and an entry of the buffer; a full buffer goes to its leaf with two drains
//! (`flush.rs`), and line 0 then says that the records before are not needed any more. After a crash a
//! buffer is rebuilt when its leaf is first touched, for a read or a write (`restore.rs`). In the *checkpointed*
//! variant opening reads only what the log has behind the last checkpoint (`checkpoint.rs`), and need not read the
//! leaves: one is made known when it is first touched (`lazy.rs`).
//!
//! *Source*: Xingsheng Zhao, Chen Zhong, Prajwal Challa, Song Jiang, "Developing Index Structures in
//! Persistent Memory Using Spot-on Optimizations with DRAM", ICPE 2024.
//!
//! | operation | paper | function | linearizes at | durable when |
//! |---|---|---|---|---|
//! | get | 4.3 | `search.rs` `read` | last load before the version is found unchanged | it was before the lock was opened |
//! | insert, update | 4.3 | `write.rs` `put` | opening of the lock | line 0 is drained, before |
//! | remove | 4.3 | `write.rs` `apply` | same | same |
//! | scan | Alg. 1 | `scan.rs` | a leaf at a time, as get | as get |
//! | split | 4.4 | `split.rs` | no effect on contents | line 0 of the left leaf is drained |
//! | merge | 4.5 | `merge.rs` | same | same |
//! | recovery | 4.6 | `recover.rs` | - | - |
//!
//! Invariants (checked by `check.rs` and on the simulated machine):
//! - S1 an entry and its tag are durable before the bitmap names them;
//! - S2 what line 0 says is durable before the lock is opened;
//! - S3 a new leaf is durable before a link leads to it; a leaf that left the list is reused when its
//!   unlinking is durable and nobody can hold it;
//! - S4 in a split the link comes before the fence and the fence before the bitmap; in a merge the
//!   entries come before the bitmap, that before the fence, and that before the link;
//! - S5 when a fence is raised, the leaf has no masked keys: recovery clears them;
//! - S6 the list is the truth: the inner tree has exactly its leaves, each under its low fence;
//! - S7 a filter that is built has all keys of its leaf and of its buffer;
//! - S8 a leaf whose line 0 says `flushed: n` has every buffered write of its keys up to number `n`, and
//!   the log has all later ones; the numbers of a key's writes ascend, whatever leaves it was in;
//! - S9 in a linked log the later ones of a leaf that can be locked are all of its keys and have the numbers
//!   from `n + 1` on, without a gap, each linked to the one before: a chunk of the log is dropped when the
//!   leaves of its records have them, so no link that is still followed leads there. A plain log has no
//!   links: a record counts for the leaf that has its key, whichever that is when it is replayed;
//! - S10 a checkpoint that is complete and the records behind its tails lead to the newest record of each leaf that
//!   needs some: what it says of a leaf names the leaf by its low fence, which never changes;
//! - S11 as long as a checkpoint says that it leads to leaves, the leaves of its entries are in the list, in their
//!   places and with their low fences; a leaf that opening has left is made known by one thread, once, before anything
//!   else of it is read.
//!
//! *Holes of the paper and its code that are closed*, by the numbers of `docs/trees/sptree.md`:
//! - 1 *two logs, one buffer*: records of a leaf have ascending numbers, in whatever logs they are;
//! - 2 *the end of a log*: a log has one writer at a time, and check sums cover the chunk's number;
//! - 3 *unbounded log*: what pins the oldest chunk is flushed;
//! - 4 *a crash between flush and end record*: there is no end record, line 0 commits both at once, and
//!   removals go through the buffer;
//! - 5 *writes during resumption*: a write restores the buffer as a read does;
//! - 6 *fence before bitmap*: the other order drops the right half as a dummy;
//! - 8 *the order of a leaf* is tagged with the opening of the pool: after a crash nobody believes it;
//! - 9 *masked keys*: the word `covered` of line 0 says whether there are any, so that recovery still
//!   reads one line a leaf, and clears them before anybody can raise the fence.
//!
//! *Departures.* The inner tree is the one that all trees of this library share; in `sptree-art` it is an ART
//! (`node/art`), as published. Either learns of a split before the lock is opened. A leaf has 19 whole lines where
//! the published one has 1208 bytes; middle nodes have no pointers to their leaf and left neighbour, they are found
//! by its place. Two neighbours are merged if both hang below one inner node, or below an ART. What the paper calls
//! lock-free lookups waits for a writer at work on the leaf.

mod check;
mod checkpoint;
mod design;
mod filter;
mod flush;
mod layout;
mod lazy;
mod merge;
mod recover;
mod restore;
mod scan;
mod search;
mod split;
mod state;
mod top;
pub mod variant;
mod write;

use std::marker::PhantomData;
use std::sync::Arc;

use everleaf_alloc::{AllocError, Heap, Session};
use everleaf_index::build::Tally;
use everleaf_index::{Geometry, IndexError, PoolBase, Production, ROOT_OBJECT_SIZE, RootObject};
use everleaf_machine::{Atomic, Hardware, Machine, SpinLock};
use everleaf_pool::Medium;

use crate::node::head_areas::{AreaShape, HeadAreas};
use crate::node::place_table::Table;
use crate::node::write_buffer::Buffer;
use crate::node::write_log::{Logs, Shape};
use layout::{
    AREA_WORD, ENTRY_COUNT, FILTERED, HEAD_WORD, HIGH_MAX, Heading, LEAF_SIZE, LEAF_STRIDE,
    LOG_WORD, Leaf, VARIANT_WORD, tag,
};
use lazy::Unknown;
use state::Middle;
use top::TopIndex;
use variant::{
    Buffered, BufferedUnfiltered, Checkpointed, Plain, PlainUnfiltered, Radix, Unbuffered,
    Unfiltered, UnfilteredUnlogged, Unlogged, Variant,
};

/// The logs of a pool that cannot become this large have no filters.
const SMALL_POOL: u64 = 96 << 20;

/// SPTree whose writes go to the leaves.
pub type SpTree<G = Production, M = Hardware> = Tree<Unbuffered, G, M>;
/// SPTree whose writes go to the leaves, with an adaptive radix tree above them.
pub type SpTreeArt<G = Production, M = Hardware> = Tree<Radix, G, M>;
/// SPTree whose writes go to the leaves, without filters.
pub type SpTreeUnfiltered<G = Production, M = Hardware> = Tree<Unfiltered, G, M>;
/// SPTree with buffers and a linked log.
pub type SpTreeBuffered<G = Production, M = Hardware> = Tree<Buffered, G, M>;
/// SPTree with buffers and a linked log, whose heads are written to the pool now and then.
pub type SpTreeCheckpointed<G = Production, M = Hardware> = Tree<Checkpointed, G, M>;
/// SPTree with buffers and a plain log, which opening replays.
pub type SpTreePlain<G = Production, M = Hardware> = Tree<Plain, G, M>;
/// SPTree with buffers and without a log.
pub type SpTreeUnlogged<G = Production, M = Hardware> = Tree<Unlogged, G, M>;
/// SPTree with buffers and a plain log, without filters.
pub type SpTreePlainUnfiltered<G = Production, M = Hardware> = Tree<PlainUnfiltered, G, M>;
/// SPTree with buffers, without a log and without filters.
pub type SpTreeUnfilteredUnlogged<G = Production, M = Hardware> = Tree<UnfilteredUnlogged, G, M>;
/// SPTree with buffers and a linked log, without filters.
pub type SpTreeBufferedUnfiltered<G = Production, M = Hardware> = Tree<BufferedUnfiltered, G, M>;

/// The tree, in variant `V`, with nodes of geometry `G`, on machine `M`.
///
/// # Example
/// ```
/// use everleaf_designs::SpTree;
/// use everleaf_index::{Domain, OrderedIndex, Pool, SingleTreePool};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process)?;
/// let tree_pool: SingleTreePool<SpTree> = SingleTreePool::create(pool)?;
/// let mut session = tree_pool.heap().session()?;
/// assert_eq!(tree_pool.tree().insert(&mut session, 7, 70)?, None);
/// assert_eq!(tree_pool.tree().upsert(&mut session, 7, 71)?, Some(70));
/// assert_eq!(tree_pool.tree().remove(&mut session, 7)?, Some(71));
/// # Ok(())
/// # }
/// ```
pub struct Tree<V: Variant, G: Geometry, M: Machine> {
    top: V::Top<G, M>,
    table: Table<Middle<M>, M, LEAF_STRIDE>,
    buffers: Table<Buffer<M>, M, LEAF_STRIDE>,
    logs: Logs<M>,
    areas: HeadAreas<M>,
    medium: Medium<M>,
    base: PoolBase<M>,
    root_object: RootObject<M>,
    /// A number that no earlier opening of the pool had.
    generation: u32,
    is_writable: bool,
    keys: Tally<M>,
    leaves: Tally<M>,
    splits: Tally<M>,
    /// Leaves whose buffers are to be rebuilt from the log.
    unrestored: Tally<M>,
    /// Whether opening has left leaves to be made known.
    opened_at_once: bool,
    /// 1 as long as there may be leaves that are not known.
    is_lazy: Atomic<u64, M>,
    unknown: SpinLock<Unknown, M>,
    heap: Arc<Heap<M>>,
    variant: PhantomData<V>,
}

// SAFETY: `base` is the pool's mapping, which the heap keeps; everything shared is atomic.
unsafe impl<V: Variant, G: Geometry, M: Machine> Send for Tree<V, G, M> {}
// SAFETY: as for `Send`.
unsafe impl<V: Variant, G: Geometry, M: Machine> Sync for Tree<V, G, M> {}

/// A leaf and its middle node.
pub(crate) struct LeafAndMiddle<'t, M: Machine> {
    offset: u64,
    middle: &'t Middle<M>,
    leaf: &'t Leaf<M>,
}

impl<M: Machine> Clone for LeafAndMiddle<'_, M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for LeafAndMiddle<'_, M> {}

impl<V: Variant, G: Geometry, M: Machine> Tree<V, G, M> {
    /// Entries that a leaf may have: all, but in small geometries.
    const CAPACITY: usize = if G::SLOT_COUNT < 62 { G::SLOT_COUNT } else { ENTRY_COUNT };

    /// The logs: of short chunks in small geometries.
    const LOGS: Shape = if G::SLOT_COUNT < 62 { Shape::SMALL } else { Shape::USUAL };
    /// The same with filters.
    const FILTERED_LOGS: Shape =
        if G::SLOT_COUNT < 62 { Shape::SMALL_FILTERED } else { Shape::FILTERED };

    /// Whether the logs of a new tree have filters. Those of a small pool have none: all of such a log is soon read,
    /// and its space is missed.
    fn are_filtered(heap: &Heap<M>) -> bool {
        let is_small = G::SLOT_COUNT >= 62 && heap.pool().max_size() < SMALL_POOL;
        V::CHECKPOINTED && !is_small
    }

    /// The areas of checkpoints: of short blocks in small geometries.
    const AREAS: AreaShape = AreaShape {
        block_length: if G::SLOT_COUNT < 62 { 8 } else { 8184 },
        log_count: Self::LOGS.logs,
    };

    /// A tree without leaves.
    fn assemble(
        session: &mut Session<M>,
        root_object: RootObject<M>,
        are_filtered: bool,
    ) -> Result<Self, IndexError> {
        let heap = session.heap().clone();
        let is_writable = !heap.pool().is_read_only();
        let generation = if is_writable { heap.pool().next_id()? } else { u32::MAX };
        Ok(Tree {
            // A placeholder until the leaves are known.
            top: V::Top::<G, M>::load(session, &[(0, 0)])?,
            table: Table::new(heap.pool().max_size()),
            buffers: Table::new(if V::BUFFERED { heap.pool().max_size() } else { 0 }),
            logs: Logs::new(
                PoolBase::of(&heap),
                heap.medium(),
                (root_object, LOG_WORD),
                generation,
                if are_filtered { Self::FILTERED_LOGS } else { Self::LOGS },
            )
            .for_pool(heap.pool().max_size()),
            areas: HeadAreas::new(
                PoolBase::of(&heap),
                heap.medium(),
                (root_object, AREA_WORD),
                generation,
                Self::AREAS,
            ),
            medium: heap.medium(),
            base: PoolBase::of(&heap),
            root_object,
            generation,
            is_writable,
            keys: Tally::new(0),
            leaves: Tally::new(0),
            splits: Tally::new(0),
            unrestored: Tally::new(0),
            opened_at_once: false,
            is_lazy: Atomic::new(0),
            unknown: SpinLock::new(Unknown::default()),
            heap,
            variant: PhantomData,
        })
    }

    /// Makes the top index one over these leaves.
    fn load_top(
        &mut self,
        session: &mut Session<M>,
        leaves: &[(u64, u64)],
    ) -> Result<(), AllocError> {
        let top = V::Top::<G, M>::load(session, leaves)?;
        self.top.free(session);
        self.top = top;
        Ok(())
    }

    fn create_in(session: &mut Session<M>) -> Result<Self, IndexError> {
        let root_object = RootObject::create(session, tag::<V>())?;
        let made = Self::create_tree(session, root_object);
        if made.is_err() {
            root_object.free(session);
        }
        made
    }

    fn create_tree(
        session: &mut Session<M>,
        root_object: RootObject<M>,
    ) -> Result<Self, IndexError> {
        let are_filtered = Self::are_filtered(session.heap());
        let mut tree = Self::assemble(session, root_object, are_filtered)?;
        let heading =
            Heading { low: 0, high: HIGH_MAX, next: 0, bitmap: 0, covered: HIGH_MAX, flushed: 0 };
        let made = tree.new_leaf(session, heading, &[]).map(|first| first.offset);
        let made = made.and_then(|first| {
            let loaded = tree.load_top(session, &[(0, first)]);
            loaded.inspect_err(|_| session.free_record(first, LEAF_SIZE)).map(|()| first)
        });
        let first = match made {
            Ok(first) => first,
            Err(error) => {
                tree.free_volatile(session);
                return Err(error.into());
            }
        };
        tree.place(first).middle.lock.unlock();
        if V::BUFFERED {
            tree.logs.create();
        }
        let filtered = if are_filtered { FILTERED } else { 0 };
        root_object.word(VARIANT_WORD).write_private(u64::from(V::KIND) | filtered);
        root_object.word(HEAD_WORD).write_private(first);
        // Persist: leaf, then root object, before the directory names the tree.
        tree.medium.persist(root_object.word(0).as_ptr(), ROOT_OBJECT_SIZE);
        tree.leaves.add(session.stripe(), 1);
        Ok(tree)
    }

    /// The leaf at an offset: one that the list or the inner tree led to, or a new one.
    #[inline(always)]
    fn leaf(&self, offset: u64) -> &Leaf<M> {
        let start = self.base.start().wrapping_add(offset as usize).cast();
        // SAFETY: offsets come from the inner tree, from neighbours that recovery has checked or the
        // running tree has set, and from the allocator: a record of at least a leaf's size, 64-byte
        // aligned, inside the pool, made of atomic words. One that was reclaimed meanwhile is still
        // memory of the pool.
        unsafe { &*start }
    }

    /// The leaf for a key, as the top index knows it, or, if it is not known yet, as the pool does. The caller is
    /// pinned.
    ///
    /// # Errors
    /// A leaf that was not known yet is damaged, or there is no memory for it.
    #[inline(always)]
    fn leaf_for(&self, session: &mut Session<M>, key: u64) -> Result<u64, IndexError> {
        if self.is_lazy() { self.find_known(session, key) } else { Ok(self.known_leaf_for(key)) }
    }

    /// The leaf for a key, of those that are known.
    #[inline(always)]
    fn known_leaf_for(&self, key: u64) -> u64 {
        self.top.find_le(key, |leaf| self.low_of(leaf))
    }

    /// The low fence of a leaf that the top index leads to.
    #[inline(always)]
    fn low_of(&self, leaf: u64) -> u64 {
        self.table.at(leaf).low()
    }

    /// The leaf at an offset with its middle node.
    #[inline(always)]
    fn place(&self, offset: u64) -> LeafAndMiddle<'_, M> {
        LeafAndMiddle { offset, middle: self.table.at(offset), leaf: self.leaf(offset) }
    }

    /// The buffer of a leaf, in a variant that has some.
    #[inline(always)]
    fn buffer(&self, place: LeafAndMiddle<'_, M>) -> &Buffer<M> {
        self.buffers.at(place.offset)
    }

    /// Makes sure that a leaf has its parts in DRAM.
    fn make_room(&self, session: &mut Session<M>, leaf: u64) -> Result<(), AllocError> {
        if V::BUFFERED {
            self.buffers.make_room(session, leaf)?;
        }
        self.table.make_room(session, leaf)
    }

    /// A new leaf with these pairs in its first slots, durable, locked, that nobody else knows.
    fn new_leaf(
        &self,
        session: &mut Session<M>,
        heading: Heading,
        pairs: &[(u64, u64)],
    ) -> Result<LeafAndMiddle<'_, M>, AllocError> {
        let offset = session.allocate_record(LEAF_SIZE)?;
        if let Err(error) = self.make_room(session, offset) {
            session.free_record(offset, LEAF_SIZE);
            return Err(error);
        }
        let place = self.place(offset);
        let bitmap = if pairs.len() < 64 { (1 << pairs.len()) - 1 } else { u64::MAX };
        place.leaf.set_heading(Heading { bitmap, ..heading });
        for (slot, pair) in pairs.iter().enumerate() {
            place.leaf.fill_private(slot, *pair);
        }
        if !M::mutant("sptree.no_new_flush") {
            // Persist: the leaf before a link to it (S3).
            place.leaf.persist_new(self.medium, pairs.len());
        }
        place.middle.set(&heading);
        if V::BUFFERED {
            self.buffer(place).empty();
        }
        if V::FILTER {
            place.middle.build_filter(pairs.iter().map(|pair| pair.0));
        }
        Ok(place)
    }

    /// Gives the memory outside of the pool back. Nobody uses the tree any more.
    fn free_volatile(&self, session: &mut Session<M>) {
        self.top.free(session);
        self.table.free(session);
        self.buffers.free(session);
    }
}
