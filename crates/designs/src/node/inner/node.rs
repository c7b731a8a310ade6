//! One inner node: its bytes, and the search in it.

use std::mem::ManuallyDrop;

use everleaf_alloc::{AllocError, Session};
use everleaf_index::Geometry;
use everleaf_machine::keys::WORD_TABLE_SIZE;
use everleaf_machine::{Atomic, AtomicPointer, LINE_SIZE, Machine, Ordering};

use crate::node::version_lock::VersionLock;

/// Locks of nodes are in DRAM: they have one generation.
pub(super) const GENERATION: u32 = 0;

/// Children that a node has room for: so few that a node right above the leaves, which is seldom in
/// the cache, can be asked for whole.
pub(super) const CHILD_COUNT_MAX: usize = 31;

/// Keys that stand in a node.
const KEY_COUNT_MAX: usize = CHILD_COUNT_MAX - 1;

/// Keys of a line.
const LINE_KEYS: usize = LINE_SIZE / 8;

/// Keys that the first line has no room for.
const HEADER_KEYS: usize = 2;

/// Lines of a node right above the leaves without the last part.
const NARROW_LINES: usize = 6;

/// What is below a node.
pub enum Below<M: Machine> {
    /// A node of the next level.
    Node(*mut Node<M>),
    /// A leaf: its offset in the pool, a multiple of 64.
    Leaf(u64),
}

impl<M: Machine> Clone for Below<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Below<M> {}

/// A low fence and what is below it.
pub type Child<M> = (u64, Below<M>);

/// See the module above.
#[repr(C, align(64))]
pub struct Node<M: Machine> {
    pub lock: VersionLock<M>,
    count: Atomic<u32, M>,
    /// 1 above leaves. Never changes.
    pub level: u16,
    /// Whether leaves can have upper halves. Never changes.
    is_wide: bool,
    reserved: u8,
    /// Those of all children but the first.
    keys: [Atomic<u64, M>; KEY_COUNT_MAX],
    children: Children<M>,
}

/// What it is depends on the level.
#[repr(C)]
union Children<M: Machine> {
    nodes: ManuallyDrop<[AtomicPointer<Node<M>, M>; CHILD_COUNT_MAX + 1]>,
    leaves: ManuallyDrop<Leaves<M>>,
}

/// Offsets of leaves in units of a line.
#[repr(C)]
struct Leaves<M: Machine> {
    low: [Atomic<u32, M>; CHILD_COUNT_MAX + 1],
    /// The upper halves, which all are 0 in a pool of up to 256 GiB: not read there, so that the lines
    /// are not asked for.
    high: [Atomic<u32, M>; CHILD_COUNT_MAX + 1],
}

const _: () = {
    type Plain = Node<everleaf_machine::Hardware>;
    assert!(size_of::<Plain>() == LINE_SIZE * 8);
    let low_end = std::mem::offset_of!(Plain, children) + 4 * (CHILD_COUNT_MAX + 1);
    assert!(low_end == LINE_SIZE * NARROW_LINES);
    assert!(std::mem::offset_of!(Plain, keys) == 8 * HEADER_KEYS);
    assert!(std::mem::offset_of!(Plain, children) == WORD_TABLE_SIZE);
};

/// Bytes of a pool from which on offsets in units of a line do not fit 32 bits.
const WIDE_FROM: u64 = (LINE_SIZE as u64) << 32;

/// Whether offsets in a pool that grows to `max_size` bytes need upper halves.
pub(super) fn is_wide(max_size: u64) -> bool {
    max_size > WIDE_FROM
}

/// Children that a node may have.
pub(super) fn child_count<G: Geometry>() -> usize {
    G::CHILD_COUNT.min(CHILD_COUNT_MAX)
}

impl<M: Machine> Node<M> {
    /// A new node over `children`, private to the caller.
    pub fn build(
        session: &mut Session<M>,
        level: u16,
        is_wide: bool,
        children: &[Child<M>],
    ) -> Result<*mut Self, AllocError> {
        debug_assert!((1..=CHILD_COUNT_MAX).contains(&children.len()));
        let node: *mut Self = session.allocate_node(size_of::<Self>())?.cast();
        let below = |index: usize| children.get(index).map(|child| child.1);
        let leaf_half = |index: usize, half: fn(u64) -> u32| match below(index) {
            Some(Below::Leaf(leaf)) => Atomic::new(half(leaf)),
            _ => Atomic::new(0),
        };
        let node_at = |index: usize| match below(index) {
            Some(Below::Node(node)) => AtomicPointer::new(node),
            _ => AtomicPointer::new(std::ptr::null_mut()),
        };
        let contents = Node {
            lock: VersionLock::new(GENERATION),
            count: Atomic::new(children.len() as u32),
            level,
            is_wide,
            reserved: 0,
            keys: std::array::from_fn(|index| {
                Atomic::new(children.get(index + 1).map_or(0, |child| child.0))
            }),
            children: if level == 1 {
                let low = std::array::from_fn(|index| leaf_half(index, low_half));
                let high = std::array::from_fn(|index| leaf_half(index, high_half));
                Children { leaves: ManuallyDrop::new(Leaves { low, high }) }
            } else {
                Children { nodes: ManuallyDrop::new(std::array::from_fn(node_at)) }
            },
        };
        // SAFETY: the memory is ours, large enough and aligned.
        unsafe { node.write(contents) };
        Ok(node)
    }

    #[inline(always)]
    fn nodes(&self) -> &[AtomicPointer<Self, M>; CHILD_COUNT_MAX + 1] {
        debug_assert!(self.level > 1);
        // SAFETY: built so for this level, which never changes.
        unsafe { &self.children.nodes }
    }

    #[inline(always)]
    fn leaves(&self) -> &Leaves<M> {
        debug_assert!(self.level == 1);
        // SAFETY: built so for this level, which never changes.
        unsafe { &self.children.leaves }
    }

    /// Children.
    #[inline(always)]
    pub fn count(&self) -> usize {
        // Relaxed: validated by the version, or the caller holds the lock.
        self.count.load(Ordering::Relaxed) as usize
    }

    /// The low fence of a child that is not the first.
    #[inline(always)]
    pub fn key(&self, index: usize) -> u64 {
        // Relaxed: as in `count`.
        self.keys[index - 1].load(Ordering::Relaxed)
    }

    /// A child of a node above level 1; null or stale if the node changes meanwhile.
    #[inline(always)]
    pub fn child(&self, index: usize) -> *mut Self {
        // Acquire: a node is complete; pairs with the release in `set`.
        self.nodes()[index].load(Ordering::Acquire)
    }

    /// A leaf below a node of level 1; anything if the node changes meanwhile.
    #[inline(always)]
    pub fn leaf(&self, index: usize) -> u64 {
        // Acquire: the leaf is complete; pairs with the release in `set`.
        let low = self.leaves().low[index].load(Ordering::Acquire);
        // Relaxed: a half that does not belong to the other is found out by the version.
        let high = if self.is_wide { self.leaves().high[index].load(Ordering::Relaxed) } else { 0 };
        (u64::from(high) << u32::BITS | u64::from(low)) * LINE_SIZE as u64
    }

    fn below(&self, index: usize) -> Below<M> {
        if self.level == 1 { Below::Leaf(self.leaf(index)) } else { Below::Node(self.child(index)) }
    }

    fn set(&self, index: usize, (key, below): Child<M>) {
        assert!(matches!(below, Below::Leaf(_)) == (self.level == 1), "a child of another level");
        if index > 0 {
            // Relaxed: readers validate the version.
            self.keys[index - 1].store(key, Ordering::Relaxed);
        }
        match below {
            // Release: the child is complete; pairs with the acquire in `child`.
            Below::Node(node) => self.nodes()[index].store(node, Ordering::Release),
            Below::Leaf(leaf) => {
                debug_assert!(self.is_wide || high_half(leaf) == 0);
                if self.is_wide {
                    // Relaxed: readers validate the version.
                    self.leaves().high[index].store(high_half(leaf), Ordering::Relaxed);
                }
                // Release: the leaf is complete; pairs with the acquire in `leaf`.
                self.leaves().low[index].store(low_half(leaf), Ordering::Release);
            }
        }
    }

    fn set_count(&self, count: usize) {
        // Relaxed: readers validate the version.
        self.count.store(count as u32, Ordering::Relaxed);
    }

    /// The last child whose fence is at most `key`, or the first. Any index below the capacity while
    /// the node changes.
    #[inline(always)]
    pub fn find(&self, key: u64) -> usize {
        let count = self.count().clamp(1, CHILD_COUNT_MAX);
        // What lies behind the last child is left over, in no order.
        let passed = |index: usize| usize::from((index < count) & (self.key(index) <= key));
        // SAFETY: a node is aligned to a line, and begins with 256 bytes of atomic words and of what
        // never changes (asserted above).
        if let Some(passed) = unsafe { M::match_at_most(std::ptr::from_ref(self).cast(), key) } {
            let passed = passed >> HEADER_KEYS & ((1 << (count - 1)) - 1);
            // They ascend: those that are passed are the first ones.
            return passed.trailing_ones() as usize;
        }
        if M::SIMULATED {
            // The same by fewer loads: each is a step of the schedule.
            return (1..count).map(passed).sum();
        }
        // First which line, then which key of it: no load waits for the comparison before it, as in
        // a bisection, and nothing is branched on.
        let lines = CHILD_COUNT_MAX.div_ceil(LINE_KEYS);
        let line: usize = (1..lines).map(|line| passed(line * LINE_KEYS + 1 - HEADER_KEYS)).sum();
        // The first line has fewer keys: with some of the next, which are not passed.
        let start = (line * LINE_KEYS).saturating_sub(HEADER_KEYS);
        start + (1..=LINE_KEYS).map(|place| passed(start + place)).sum::<usize>()
    }

    /// Asks for the lines that a search in a node of this level reads.
    #[inline(always)]
    pub fn prefetch(node: *const Self, level: u16, is_wide: bool) {
        let start: *const u8 = node.cast();
        for line in 0..NARROW_LINES {
            M::prefetch(start.wrapping_add(line * LINE_SIZE));
        }
        // Two loops, each of a fixed length: the end of one whose length varies is predicted wrongly.
        if level > 1 || is_wide {
            for line in NARROW_LINES..size_of::<Self>() / LINE_SIZE {
                M::prefetch(start.wrapping_add(line * LINE_SIZE));
            }
        }
    }

    /// All children with their fences; that of the first is any. The caller holds the lock.
    pub fn entries(&self) -> Vec<Child<M>> {
        let fence = |index| if index == 0 { 0 } else { self.key(index) };
        (0..self.count()).map(|index| (fence(index), self.below(index))).collect()
    }

    /// Adds a child, not as the first. The caller holds the lock; there is room.
    pub fn insert(&self, index: usize, child: Child<M>) {
        let count = self.count();
        for place in (index..count).rev() {
            self.set(place + 1, (self.key(place), self.below(place)));
        }
        self.set(index, child);
        self.set_count(count + 1);
    }

    /// Puts another child in the place of one. The caller holds the lock.
    pub fn replace(&self, index: usize, child: Child<M>) {
        self.set(index, child);
    }

    /// Takes a child out, not the first. The caller holds the lock.
    pub fn remove(&self, index: usize) {
        let count = self.count();
        for place in index + 1..count {
            self.set(place - 1, (self.key(place), self.below(place)));
        }
        self.set_count(count - 1);
    }

    /// Keeps the first `count` children. The caller holds the lock.
    pub fn truncate(&self, count: usize) {
        self.set_count(count);
    }
}

/// The lower half of a leaf's offset in units of a line.
fn low_half(leaf: u64) -> u32 {
    debug_assert!(leaf.is_multiple_of(LINE_SIZE as u64));
    (leaf / LINE_SIZE as u64) as u32
}

/// The upper half.
fn high_half(leaf: u64) -> u32 {
    ((leaf / LINE_SIZE as u64) >> u32::BITS) as u32
}
