//! Merges that were missed, and how far a thread is that makes up for them.

use everleaf_machine::{Atomic, Machine, Ordering};

use super::inner_tree::{InnerTree, Path};
use crate::geometry::Geometry;
use crate::kind::Kind;
use crate::pool_trees::pool_base::PoolBase;

/// Merges that were missed.
pub(crate) struct Missed<M: Machine> {
    missed: Atomic<u64, M>,
    /// So many of them were tried again.
    retried: Atomic<u64, M>,
}

impl<M: Machine> Missed<M> {
    /// One: which were missed before the tree was opened nobody knows.
    pub fn new() -> Self {
        Missed { missed: Atomic::new(1), retried: Atomic::new(0) }
    }

    /// Notes that a thin leaf was left.
    #[cold]
    pub fn note(&self) {
        // Release: a thread that sees the count sees the leaf thin; pairs with the load in `owed`.
        self.missed.fetch_add(1, Ordering::Release);
    }

    /// How many were missed, if not all were tried again.
    pub fn owed(&self) -> Option<u64> {
        // Acquire: the leaves are seen thin; pairs with the addition in `note`.
        let missed = self.missed.load(Ordering::Acquire);
        // Relaxed: only a reason not to go through the leaves.
        (missed > self.retried.load(Ordering::Relaxed)).then_some(missed)
    }

    /// Notes that all leaves were gone through since [`Self::owed`] said so many.
    pub fn retried(&self, missed: u64) {
        // Relaxed (all): it carries nothing.
        let mut seen = self.retried.load(Ordering::Relaxed);
        while seen < missed {
            let done =
                self.retried.compare_exchange(seen, missed, Ordering::Relaxed, Ordering::Relaxed);
            match done {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }
}

/// What a step through the leaves has done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Swept {
    /// Leaves that were looked at.
    pub looked: usize,
    pub merged: usize,
    /// Leaves whose space was given up: those that were merged, and those that only the inner nodes still led to.
    pub freed: usize,
    /// Whether a leaf was replaced, so that what is there now was not looked at.
    pub is_unsure: bool,
}

/// What became of a leaf that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// It stays, or its merge was missed and noted.
    Stays,
    Merged,
    /// It was replaced, by one leaf or two, which are in the tree now.
    Installed,
    /// It was replaced, and somebody is at work there.
    Busy,
}

impl Swept {
    /// Counts a leaf. Returns whether the step ends, at this leaf.
    pub fn ends_at(&mut self, look: Look) -> bool {
        self.looked += 1;
        self.merged += usize::from(look == Look::Merged);
        self.is_unsure |= matches!(look, Look::Installed | Look::Busy);
        let is_freed = matches!(look, Look::Merged | Look::Installed);
        self.freed += usize::from(is_freed);
        is_freed
    }
}

/// How far somebody has gone through the leaves of a tree.
pub(crate) enum SweepPlace<T> {
    First,
    /// The leaf of this key is next.
    At(T),
    End,
}

impl<T> SweepPlace<T> {
    pub fn is_end(&self) -> bool {
        matches!(self, SweepPlace::End)
    }

    /// The way to the leaf that is next. The session is pinned.
    pub fn path<K: Kind<M, Kept = T>, G: Geometry, M: Machine>(
        &self,
        inner: &InnerTree<K, G, M>,
    ) -> Option<Path<M>> {
        match self {
            SweepPlace::First => Some(inner.descend_first().0),
            SweepPlace::At(kept) => Some(inner.descend_path(K::kept_as_key(kept), false).0),
            SweepPlace::End => None,
        }
    }

    /// Behind a leaf with this upper bound. A copy: when the pin ends the fence may be gone.
    pub fn behind<K: Kind<M, Kept = T>, M: Machine>(base: PoolBase<M>, high: u64) -> Self {
        if high == 0 { SweepPlace::End } else { SweepPlace::At(K::keep_fence(base, high)) }
    }
}
