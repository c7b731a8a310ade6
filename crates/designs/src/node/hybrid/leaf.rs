//! What a tree's own leaf has to be able to do.

use everleaf_alloc::Session;
use everleaf_index::build::{Change, Outcome};
use everleaf_index::{DesignInfo, Geometry, IndexError};
use everleaf_machine::{Atomic, LINE_SIZE, Machine, Ordering};
use everleaf_pool::Medium;

use super::Hybrid;
use crate::node::inner::Found;
use crate::node::version_lock::{Retry, VersionLock};

/// The first words of every leaf.
#[repr(C)]
pub struct LeafHeader<M: Machine> {
    /// Held by the thread that changes the leaf. Not part of what recovery trusts.
    pub lock: VersionLock<M>,
    /// Offset of the right neighbour; 0 if there is none. Persistent.
    pub next: Atomic<u64, M>,
    /// The low fence: the leaf's keys are not below. Persistent; never changes (R3).
    pub low: Atomic<u64, M>,
}

/// Bytes of a header.
pub const LEAF_HEADER_SIZE: usize = 24;

impl<M: Machine> LeafHeader<M> {
    /// The right neighbour, 0 if there is none.
    #[inline(always)]
    pub fn next(&self) -> u64 {
        // Acquire: the neighbour is complete; pairs with the release in `set_next`.
        self.next.load(Ordering::Acquire)
    }

    /// Makes another leaf the right neighbour. Not durable yet; the caller holds the lock.
    pub fn set_next(&self, leaf: u64) {
        // Release: the neighbour is complete; pairs with the acquire in `next`.
        self.next.store(leaf, Ordering::Release);
    }

    /// The low fence.
    #[inline(always)]
    pub fn low(&self) -> u64 {
        // Relaxed: never changes while the leaf can be reached.
        self.low.load(Ordering::Relaxed)
    }
}

const _: () = {
    type Plain = everleaf_machine::Hardware;
    assert!(size_of::<LeafHeader<Plain>>() == LEAF_HEADER_SIZE);
};

/// What operations on leaves need to know of their tree.
pub struct TreeContext<M: Machine> {
    /// The persistence verbs.
    pub medium: Medium<M>,
    /// A number that no earlier opening of the pool had.
    pub generation: u32,
    /// Entries that a leaf may have.
    pub capacity: usize,
    /// Whether the pool may be written.
    pub is_writable: bool,
}

impl<M: Machine> Clone for TreeContext<M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for TreeContext<M> {}

/// What came of a write on a locked leaf.
pub enum Applied {
    /// It was done, durably, or had no effect.
    Done(Outcome),
    /// There is no room.
    Full,
}

/// Key-value pairs of a leaf.
pub type Pairs = Vec<(u64, u64)>;

/// The design of a leaf: the part in which the trees differ.
///
/// A *view* is what a reader takes before it reads a leaf and validates afterwards. Functions that
/// take one may be called while others change the leaf: what they return counts only after
/// [`Self::is_current`]. Functions without one are called with the leaf's lock held, on a leaf that
/// nobody else can reach, or at rest.
pub trait LeafDesign<M: Machine>: Copy + Send + Sync + Sized + 'static {
    /// Name, limits and promise of the tree.
    const INFO: DesignInfo;
    /// The first word of the tree's root object.
    const TAG: u64;
    /// Entries that a leaf has room for.
    const CAPACITY: usize;
    /// Whether a leaf is rewritten in place when it is full, so that logs need images.
    const NEEDS_IMAGES: bool;
    /// Lines of a leaf that a search or a write asks for in advance, from the first on.
    const LINES_AHEAD: usize = LINES_AT_ONCE;
    /// The leaf's bytes: a multiple of 64, [`LeafHeader`] first, only atomic words.
    type Leaf: 'static;
    /// What readers validate.
    type View: Copy;

    /// The header of a leaf.
    fn header(leaf: &Self::Leaf) -> &LeafHeader<M>;

    /// Asks for the lines that a search reads.
    #[inline(always)]
    fn prefetch(leaf: &Self::Leaf) {
        for_lines::<Self, M>(leaf, Self::LINES_AHEAD, M::prefetch);
    }

    /// The same for a write, past the larger caches: these are better used for inner nodes, which are
    /// met more often.
    #[inline(always)]
    fn prefetch_once(leaf: &Self::Leaf) {
        for_lines::<Self, M>(leaf, Self::LINES_AHEAD, M::prefetch_once);
    }

    /// Asks for the lines that a scan reads.
    #[inline(always)]
    fn prefetch_all(leaf: &Self::Leaf) {
        for_lines::<Self, M>(leaf, usize::MAX, M::prefetch);
    }

    /// Starts a read, unless the leaf is being changed or is dead.
    fn view(context: TreeContext<M>, leaf: &Self::Leaf) -> Result<Self::View, Retry>;

    /// Whether what was read since the view is good.
    fn is_current(context: TreeContext<M>, leaf: &Self::Leaf, view: Self::View) -> bool;

    /// The value of `key`.
    fn search(
        context: TreeContext<M>,
        leaf: &Self::Leaf,
        view: Self::View,
        key: u64,
    ) -> Result<Option<u64>, Retry>;

    /// Appends the pairs from `from` on, ascending, at most `limit`.
    fn collect(
        context: TreeContext<M>,
        leaf: &Self::Leaf,
        view: Self::View,
        from: u64,
        limit: usize,
        pairs: &mut Pairs,
    ) -> Result<(), Retry>;

    /// All pairs, ascending.
    fn pairs(context: TreeContext<M>, leaf: &Self::Leaf) -> Pairs;

    /// How many pairs there are, without reading them if the leaf keeps a number or a bitmap. As
    /// recovery sees it: after [`Self::repair`].
    fn key_count(context: TreeContext<M>, leaf: &Self::Leaf) -> usize {
        Self::pairs(context, leaf).len()
    }

    /// Makes these pairs, ascending, the contents of a leaf that nobody reads; not durable yet.
    fn fill(context: TreeContext<M>, leaf: &Self::Leaf, pairs: &[(u64, u64)]);

    /// Makes a new leaf the leaf of nobody: sets the words beside the header that [`Self::fill`]
    /// expects. Nobody else can reach it.
    fn initialize(_context: TreeContext<M>, _leaf: &Self::Leaf) {}

    /// Does a write under the lock.
    fn apply(context: TreeContext<M>, leaf: &Self::Leaf, change: &Change) -> Applied;

    /// Splits or compacts a leaf that is full. The caller holds its lock and opens it afterwards,
    /// unless it is dead. By default the leaf is rewritten in place.
    fn make_room<G: Geometry>(
        tree: &Hybrid<Self, G, M>,
        session: &mut Session<M>,
        leaf: u64,
    ) -> Result<(), IndexError> {
        tree.rewrite(session, leaf)
    }

    /// Turns readers away before a rewrite, beyond what the lock does.
    fn freeze(_context: TreeContext<M>, _leaf: &Self::Leaf) {}

    /// Ends [`Self::freeze`], also that of a new leaf.
    fn thaw(_context: TreeContext<M>, _leaf: &Self::Leaf) {}

    /// What to do when a leaf has become empty. The caller holds its lock; true if it is gone.
    fn drop_empty<G: Geometry>(
        _tree: &Hybrid<Self, G, M>,
        _session: &mut Session<M>,
        _leaf: u64,
    ) -> bool {
        false
    }

    /// A whole write, from descent to lock.
    #[inline(always)]
    fn write<G: Geometry>(
        tree: &Hybrid<Self, G, M>,
        session: &mut Session<M>,
        change: &Change,
    ) -> Result<Outcome, IndexError> {
        tree.write_locked(session, change)
    }

    /// Finishes a logged change that a crash cut short, other than a rewrite.
    fn redo<G: Geometry>(
        _tree: &Hybrid<Self, G, M>,
        _record: crate::node::micro_log::Record,
    ) -> Result<(), String> {
        Err("the tree does not log changes of this kind".into())
    }

    /// Recovery of one leaf: makes what is not persistent right, and checks what is. Writes to the
    /// leaf only if the context says so.
    fn repair(context: TreeContext<M>, leaf: &Self::Leaf) -> Result<(), String>;

    /// Reports what contradicts the design's invariants. Nobody else is active.
    fn check(context: TreeContext<M>, leaf: &Self::Leaf, problems: &mut Vec<String>);
}

/// A core has so many lines on their way to its first cache, and waits before it asks for more; the
/// last entries of a leaf, which is seldom full, are not worth that.
const LINES_AT_ONCE: usize = 15;

#[inline(always)]
fn for_lines<D: LeafDesign<M>, M: Machine>(leaf: &D::Leaf, most: usize, ask: fn(*const u8)) {
    let start = D::header(leaf).lock.as_ptr();
    for line in 0..(size_of::<D::Leaf>() / LINE_SIZE).min(most) {
        ask(start.wrapping_add(line * LINE_SIZE));
    }
}

/// The part of a [`LeafDesign`] that is the same for all leaves whose readers validate the version of
/// the leaf's lock. The leaf has a `header`, gives the value of a key by `get`, and appends its pairs
/// from a key on by `append`; both may read what a writer changes meanwhile.
macro_rules! read_by_version {
    () => {
        type Leaf = Leaf<M>;
        type View = $crate::node::version_lock::Version;

        #[inline(always)]
        fn header(leaf: &Leaf<M>) -> &LeafHeader<M> {
            &leaf.header
        }

        #[inline(always)]
        fn view(context: TreeContext<M>, leaf: &Leaf<M>) -> Result<Self::View, Retry> {
            leaf.header.lock.stable_or_wait(context.generation)
        }

        #[inline(always)]
        fn is_current(context: TreeContext<M>, leaf: &Leaf<M>, view: Self::View) -> bool {
            leaf.header.lock.validate(context.generation, view)
        }

        #[inline(always)]
        fn search(
            context: TreeContext<M>,
            leaf: &Leaf<M>,
            _view: Self::View,
            key: u64,
        ) -> Result<Option<u64>, Retry> {
            Ok(leaf.get(context, key))
        }

        #[inline(always)]
        fn collect(
            context: TreeContext<M>,
            leaf: &Leaf<M>,
            _view: Self::View,
            from: u64,
            limit: usize,
            pairs: &mut Pairs,
        ) -> Result<(), Retry> {
            leaf.append(context, from, limit, pairs);
            Ok(())
        }

        fn pairs(context: TreeContext<M>, leaf: &Leaf<M>) -> Pairs {
            let mut pairs = vec![];
            leaf.append(context, 0, usize::MAX, &mut pairs);
            pairs
        }
    };
}
pub(crate) use read_by_version;

/// Where a descent ended.
pub struct Target<'t, D: LeafDesign<M>, M: Machine> {
    /// The leaf.
    pub leaf: &'t D::Leaf,
    /// Its place, and the proof that it is the right one.
    pub found: Found<M>,
}
