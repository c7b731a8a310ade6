//! Where things are in the pool: the root object and the node.
//!
//! ```text
//!   root object   word 0       1            2..32
//!           | "EVLUTRE1" | first node | zero |
//!
//!   node, 32 bytes, on one line
//!           | lock 8 | next 8 | key 8 | value 8 |
//! ```
//!
//! The first node has key 0 and no pair.

use everleaf_machine::{Atomic, Machine, Ordering};

use crate::node::version_lock::VersionLock;

/// First word of a root object: "EVLUTRE1".
pub(super) const TAG: u64 = u64::from_le_bytes(*b"EVLUTRE1");
/// The root object's word that names the first node.
pub(super) const HEAD_WORD: usize = 1;
/// Bytes of a node.
pub(super) const NODE_SIZE: usize = 32;
/// The key of the first node, which is no key of a pair.
pub(super) const HEAD_KEY: u64 = 0;

/// See the module.
#[repr(C, align(32))]
pub(super) struct Node<M: Machine> {
    pub lock: VersionLock<M>,
    next: Atomic<u64, M>,
    key: Atomic<u64, M>,
    value: Atomic<u64, M>,
}

const _: () = assert!(size_of::<Node<everleaf_machine::Hardware>>() == NODE_SIZE);

/// What the inner tree keeps of a node: its leaves are multiples of 64.
#[inline(always)]
pub(super) fn leaf_of(node: u64) -> u64 {
    node * 2
}

/// The inverse of [`leaf_of`].
#[inline(always)]
pub(super) fn node_of(leaf: u64) -> u64 {
    leaf / 2
}

impl<M: Machine> Node<M> {
    /// Makes a record that nobody else has seen a node, locked by the caller.
    pub fn build(&self, generation: u32, next: u64, key: u64, value: u64) {
        self.lock.reset_held(generation);
        self.next.write_private(next);
        self.key.write_private(key);
        self.value.write_private(value);
    }

    /// The key. It never changes.
    #[inline(always)]
    pub fn key(&self) -> u64 {
        // Relaxed: written before anybody could find the node; a thread that found it by a link or in
        // the tree has seen that.
        self.key.load(Ordering::Relaxed)
    }

    /// The value, good if the version is found unchanged afterwards.
    #[inline(always)]
    pub fn value(&self) -> u64 {
        // Relaxed: validated with the lock.
        self.value.load(Ordering::Relaxed)
    }

    /// The right neighbour; 0 if there is none.
    #[inline(always)]
    pub fn next(&self) -> u64 {
        // Acquire: the node it leads to; pairs with the release in `set_next`.
        self.next.load(Ordering::Acquire)
    }

    /// Stores another value; not durable yet. The caller holds the lock.
    pub fn set_value(&self, value: u64) {
        // Relaxed: readers validate the version.
        self.value.store(value, Ordering::Relaxed);
    }

    /// Stores another link; not durable yet. The caller holds the lock.
    pub fn set_next(&self, next: u64) {
        // Release: the node it leads to; pairs with the acquire in `next`.
        self.next.store(next, Ordering::Release);
    }

    /// The first byte.
    pub fn as_ptr(&self) -> *const u8 {
        self.lock.as_ptr()
    }
}
