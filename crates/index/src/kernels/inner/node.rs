//! One inner node: its bytes, and the search in it.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Atomic, AtomicPointer, LINE_SIZE, Machine, Ordering};

use crate::geometry::Geometry;
use crate::kernels::version_lock::VersionLock;

use super::GENERATION;

/// Children that a node has room for: so few that a node right above the leaves, which is seldom in
/// the cache, can be asked for whole.
pub(super) const CHILD_COUNT_MAX: usize = 32;

/// Keys of a line.
const LINE_KEYS: usize = LINE_SIZE / 8;

/// A low fence and what is below it: a node, or the number of a leaf.
pub type Child = (u64, *mut ());

/// See the module above.
#[repr(C, align(64))]
pub struct Node<M: Machine> {
    pub lock: VersionLock<M>,
    count: Atomic<u32, M>,
    /// 1 above leaves. Never changes.
    pub level: u32,
    reserved: [u64; 6],
    keys: [Atomic<u64, M>; CHILD_COUNT_MAX],
    children: [AtomicPointer<(), M>; CHILD_COUNT_MAX],
}

const _: () = assert!(size_of::<Node<everleaf_machine::Hardware>>() == LINE_SIZE * 9);

/// Children that a node may have.
pub(super) fn child_count<G: Geometry>() -> usize {
    G::CHILD_COUNT.min(CHILD_COUNT_MAX)
}

impl<M: Machine> Node<M> {
    /// A new node over `children`, private to the caller.
    pub fn build(
        session: &mut Session<M>,
        level: u32,
        children: &[Child],
    ) -> Result<*mut Self, AllocError> {
        debug_assert!((1..=CHILD_COUNT_MAX).contains(&children.len()));
        let node: *mut Self = session.allocate_node(size_of::<Self>())?.cast();
        let child = |index: usize| children.get(index).copied();
        let contents = Node {
            lock: VersionLock::new(GENERATION),
            count: Atomic::new(children.len() as u32),
            level,
            reserved: [0; 6],
            keys: std::array::from_fn(|index| Atomic::new(child(index).map_or(0, |it| it.0))),
            children: std::array::from_fn(|index| {
                AtomicPointer::new(child(index).map_or(std::ptr::null_mut(), |it| it.1))
            }),
        };
        // SAFETY: the memory is ours, large enough and aligned.
        unsafe { node.write(contents) };
        Ok(node)
    }

    /// Children.
    #[inline(always)]
    pub fn count(&self) -> usize {
        // Relaxed: validated by the version, or the caller holds the lock.
        self.count.load(Ordering::Relaxed) as usize
    }

    /// The low fence of a child.
    #[inline(always)]
    pub fn key(&self, index: usize) -> u64 {
        // Relaxed: as in `count`.
        self.keys[index].load(Ordering::Relaxed)
    }

    /// A child; null or stale if the node changes meanwhile.
    #[inline(always)]
    pub fn child(&self, index: usize) -> *mut () {
        // Acquire: a node is complete; pairs with the release in `set`.
        self.children[index].load(Ordering::Acquire)
    }

    fn set(&self, index: usize, (key, child): Child) {
        // Relaxed: readers validate the version.
        self.keys[index].store(key, Ordering::Relaxed);
        // Release: the child is complete; pairs with the acquire in `child`.
        self.children[index].store(child, Ordering::Release);
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
        if M::SIMULATED {
            // The same by fewer loads: each is a step of the schedule.
            return (1..count).map(passed).sum();
        }
        // First which line, then which key of it: no load waits for the comparison before it, as in
        // a bisection, and nothing is branched on.
        let line: usize =
            (1..CHILD_COUNT_MAX / LINE_KEYS).map(|line| passed(line * LINE_KEYS)).sum();
        let start = line * LINE_KEYS;
        let rank = start + (0..LINE_KEYS).map(|place| passed(start + place)).sum::<usize>();
        rank.max(1) - 1
    }

    /// Asks for all lines.
    #[inline(always)]
    pub fn prefetch(&self) {
        let start: *const u8 = (&raw const *self).cast();
        for line in 0..size_of::<Self>() / LINE_SIZE {
            M::prefetch(start.wrapping_add(line * LINE_SIZE));
        }
    }

    /// All children with their fences. The caller holds the lock.
    pub fn entries(&self) -> Vec<Child> {
        (0..self.count()).map(|index| (self.key(index), self.child(index))).collect()
    }

    /// Adds a child. The caller holds the lock; there is room.
    pub fn insert(&self, index: usize, child: Child) {
        let count = self.count();
        for place in (index..count).rev() {
            self.set(place + 1, (self.key(place), self.child(place)));
        }
        self.set(index, child);
        self.set_count(count + 1);
    }

    /// Puts another child in the place of one. The caller holds the lock.
    pub fn replace(&self, index: usize, child: Child) {
        self.set(index, child);
    }

    /// Takes a child out. The caller holds the lock.
    pub fn remove(&self, index: usize) {
        let count = self.count();
        for place in index + 1..count {
            self.set(place - 1, (self.key(place), self.child(place)));
        }
        self.set_count(count - 1);
    }

    /// Keeps the first `count` children. The caller holds the lock.
    pub fn truncate(&self, count: usize) {
        self.set_count(count);
    }
}
