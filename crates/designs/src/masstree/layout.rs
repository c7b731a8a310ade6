//! The nodes, which all are in DRAM.

use std::mem::offset_of;

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Atomic, AtomicPointer, Hardware, LINE_SIZE, Machine, Ordering};

use super::permutation::{Permutation, SLOT_COUNT};
use super::state::VersionWord;

/// Keys of an inner node.
pub(super) const KEY_COUNT: usize = 15;

/// What both kinds of nodes begin with.
#[repr(C)]
pub(super) struct Header<M: Machine> {
    pub version: VersionWord<M>,
    /// The node above; null in the root. Changes under the lock of the node above only.
    pub parent: AtomicPointer<Inner<M>, M>,
}

/// A node with pairs.
#[repr(C, align(64))]
pub(super) struct Border<M: Machine> {
    pub header: Header<M>,
    permutation: Atomic<u64, M>,
    /// The node to the right; null in the last.
    pub next: AtomicPointer<Border<M>, M>,
    /// The smallest key that belongs here. Never changes.
    pub low: u64,
    keys: [Atomic<u64, M>; SLOT_COUNT],
    values: [Atomic<u64, M>; SLOT_COUNT],
}

/// A node above others.
#[repr(C, align(64))]
pub(super) struct Inner<M: Machine> {
    pub header: Header<M>,
    count: Atomic<u64, M>,
    keys: [Atomic<u64, M>; KEY_COUNT],
    /// The first `count + 1`.
    children: [AtomicPointer<Header<M>, M>; KEY_COUNT + 1],
}

const _: () = {
    assert!(size_of::<Border<Hardware>>() == 5 * LINE_SIZE);
    assert!(size_of::<Inner<Hardware>>() == 5 * LINE_SIZE);
    assert!(offset_of!(Border<Hardware>, header) == 0 && offset_of!(Inner<Hardware>, header) == 0);
};

/// Asks for all lines of a node.
#[inline(always)]
pub(super) fn prefetch<M: Machine>(node: *const Header<M>) {
    for line in 0..5 {
        M::prefetch(node.cast::<u8>().wrapping_add(line * LINE_SIZE));
    }
}

impl<M: Machine> Border<M> {
    /// A new node, locked, with these pairs, which ascend.
    pub fn make(
        session: &mut Session<M>,
        (low, is_root): (u64, bool),
        pairs: &[(u64, u64)],
    ) -> Result<*mut Self, AllocError> {
        let node: *mut Self = session.allocate_node(size_of::<Self>())?.cast();
        let at = |slot: usize| pairs.get(slot).copied().unwrap_or_default();
        let contents = Border {
            header: Header {
                version: VersionWord::new_locked(true, is_root),
                parent: AtomicPointer::new(std::ptr::null_mut()),
            },
            permutation: Atomic::new(Permutation::identity(pairs.len()).word()),
            next: AtomicPointer::new(std::ptr::null_mut()),
            low,
            keys: std::array::from_fn(|slot| Atomic::new(at(slot).0)),
            values: std::array::from_fn(|slot| Atomic::new(at(slot).1)),
        };
        // SAFETY: just allocated with this size, 64-byte aligned, and nobody else's.
        unsafe { node.write(contents) };
        Ok(node)
    }

    /// The permutation, for a reader.
    #[inline(always)]
    pub fn permutation(&self) -> Permutation {
        // Acquire: keys and values of the slots it names are seen; pairs with the release in `publish`.
        Permutation::from_word(self.permutation.load(Ordering::Acquire))
    }

    /// Makes a permutation the node's. The caller holds the lock.
    pub fn publish(&self, permutation: Permutation) {
        // Release: keys and values before the slots are named; pairs with the acquire in `permutation`.
        self.permutation.store(permutation.word(), Ordering::Release);
    }

    /// The key of a slot that a permutation named.
    #[inline(always)]
    pub fn key(&self, slot: usize) -> u64 {
        // Relaxed: stored before the permutation that named the slot; if the slot was used again
        // meanwhile, validation fails.
        self.keys[slot].load(Ordering::Relaxed)
    }

    /// The value of a slot that a permutation named.
    #[inline(always)]
    pub fn value(&self, slot: usize) -> u64 {
        // Acquire: for the caller, which may act on it; pairs with the release in `set_value`.
        self.values[slot].load(Ordering::Acquire)
    }

    /// Puts a pair into a slot that no permutation names. The caller holds the lock.
    pub fn fill(&self, slot: usize, key: u64, value: u64) {
        // Relaxed: made known by the permutation.
        self.keys[slot].store(key, Ordering::Relaxed);
        // Relaxed: likewise.
        self.values[slot].store(value, Ordering::Relaxed);
    }

    /// Gives a slot another value. The caller holds the lock.
    pub fn set_value(&self, slot: usize, value: u64) {
        // Release: what the writer did before; pairs with the acquire in `value`.
        self.values[slot].store(value, Ordering::Release);
    }

    /// The rank of the first key that is not smaller, and whether it is the key.
    #[inline(always)]
    pub fn find(&self, permutation: Permutation, key: u64) -> (usize, bool) {
        for rank in 0..permutation.count() {
            let found = self.key(permutation.slot(rank));
            if found >= key {
                return (rank, found == key);
            }
        }
        (permutation.count(), false)
    }

    /// All pairs, ascending. Of one instant if the node is locked; if it is validated afterwards, the keys are,
    /// and each value is of an instant of its own.
    pub fn pairs(&self) -> Vec<(u64, u64)> {
        self.permutation().slots().map(|slot| (self.key(slot), self.value(slot))).collect()
    }

    /// The node to the right; null if there is none.
    #[inline(always)]
    pub fn next(&self) -> *mut Border<M> {
        // Acquire: the node is complete; pairs with the release in `set_next`.
        self.next.load(Ordering::Acquire)
    }

    /// Links a node to the right. The caller holds the lock.
    pub fn set_next(&self, next: *mut Border<M>) {
        // Release: the node is complete; pairs with the acquire in `next`.
        self.next.store(next, Ordering::Release);
    }
}

/// A key, and the node for it and greater ones.
pub(super) type Child<M> = (u64, *mut Header<M>);

impl<M: Machine> Inner<M> {
    /// A new node, locked, without children.
    pub fn make(session: &mut Session<M>, is_root: bool) -> Result<*mut Self, AllocError> {
        let node: *mut Self = session.allocate_node(size_of::<Self>())?.cast();
        let contents = Inner {
            header: Header {
                version: VersionWord::new_locked(false, is_root),
                parent: AtomicPointer::new(std::ptr::null_mut()),
            },
            count: Atomic::new(0),
            keys: std::array::from_fn(|_| Atomic::new(0)),
            children: std::array::from_fn(|_| AtomicPointer::new(std::ptr::null_mut())),
        };
        // SAFETY: just allocated with this size, 64-byte aligned, and nobody else's.
        unsafe { node.write(contents) };
        Ok(node)
    }

    /// How many keys it has.
    #[inline(always)]
    pub fn count(&self) -> usize {
        // Acquire: what is read next was a child after this; pairs with the release in `set_children`.
        self.count.load(Ordering::Acquire) as usize
    }

    /// The key before child `index`, which is not the first.
    #[inline(always)]
    pub fn key(&self, index: usize) -> u64 {
        // Relaxed: validated, or read under the lock.
        self.keys[index - 1].load(Ordering::Relaxed)
    }

    /// A child; null only if a torn read of the node led to it.
    #[inline(always)]
    pub fn child(&self, index: usize) -> *mut Header<M> {
        // Acquire: the child is complete; pairs with the release in `set_child`.
        self.children[index].load(Ordering::Acquire)
    }

    /// The child for `key`.
    #[inline(always)]
    pub fn find(&self, key: u64) -> usize {
        let count = self.count();
        (1..=count).take_while(|index| self.key(*index) <= key).count()
    }

    /// Puts a child into a place. The caller holds the lock.
    fn set_child(&self, index: usize, (key, child): Child<M>) {
        if index > 0 {
            // Relaxed: made known by the opening of the lock; readers validate.
            self.keys[index - 1].store(key, Ordering::Relaxed);
        }
        // Release: the child is complete; pairs with the acquire in `child`.
        self.children[index].store(child, Ordering::Release);
    }

    /// Gives the node these children; of the first the key is not kept. The caller holds the lock, and
    /// has announced it.
    pub fn set_children(&self, children: &[Child<M>]) {
        for (index, child) in children.iter().enumerate() {
            // Relaxed: only the holder of the lock, the caller, stores them.
            let is_there = self.children[index].load(Ordering::Relaxed) == child.1
                && (index == 0 || self.key(index) == child.0);
            if !is_there {
                self.set_child(index, *child);
            }
        }
        // Release: the children before their number; pairs with the acquire in `count`.
        self.count.store(children.len() as u64 - 1, Ordering::Release);
    }

    /// All children with their keys; that of the first is 0. The caller holds the lock.
    pub fn children(&self) -> Vec<Child<M>> {
        let key = |index| if index == 0 { 0 } else { self.key(index) };
        (0..=self.count()).map(|index| (key(index), self.child(index))).collect()
    }
}

impl<M: Machine> Header<M> {
    /// The node above, for a thread that holds this node's lock or one above.
    pub fn parent(&self) -> *mut Inner<M> {
        // Acquire: the node is complete; pairs with the release in `set_parent`.
        self.parent.load(Ordering::Acquire)
    }

    /// Says which node is above. The caller holds the locks of the node above, and of that before.
    pub fn set_parent(&self, parent: *mut Inner<M>) {
        // Release: the node above is complete; pairs with the acquire in `parent`.
        self.parent.store(parent, Ordering::Release);
    }
}
