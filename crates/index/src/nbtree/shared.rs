//! A pointer to a node that epochs keep alive.

use std::ops::Deref;

/// A copyable reference to a shared node, valid while the session that obtained it stays pinned.
///
/// The type carries the proof that the construction site gave, so that the algorithms read without
/// an unsafe block per field access; it never leaves the tree's own operations, which pin for their
/// whole duration.
pub(crate) struct Shared<T>(*mut T);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

impl<T> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Shared<T> {
    /// Wraps a node.
    ///
    /// # Safety
    /// `node` is not null, was fully written before it was published, and is not reclaimed while
    /// the value is used: the session is pinned since before `node` was read from a shared place,
    /// or the node is still private to the caller.
    #[inline(always)]
    pub unsafe fn new(node: *mut T) -> Self {
        debug_assert!(!node.is_null());
        Shared(node)
    }

    /// The node's address.
    #[inline(always)]
    pub fn as_ptr(self) -> *mut T {
        self.0
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: by the promise given to `new`; shared nodes are only changed through atomics.
        unsafe { &*self.0 }
    }
}
