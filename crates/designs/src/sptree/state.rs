//! The states of a leaf: who brings it there, and what others do about it. And the middle node, the
//! part of a leaf that is in DRAM.
//!
//! ```text
//!   middle   line 0   | lock 8 | low 8 | high 8 | next 8 | has_filter 8 | 0 24 |
//!            line 1   | filter: 512 bits                                       |
//! ```
//!
//! What a crash leaves of a leaf `L` and the one that its link names, `R`, is told from line 0 of both:
//!
//! | state | where | left by | recovery |
//! |---|---|---|---|
//! | whole | `L.high == R.low`, `L.covered == L.high` | - | nothing |
//! | `R` is a dummy | `L.high > R.low` | a split whose fence is not durable, a merge whose link is not | `L.next = R.next` |
//! | masked keys | `L.covered != L.high` | a split whose bitmap is not durable, a merge whose fence is not | clears the keys from `L.high` on |
//! | damaged | `L.high < R.low` | nobody | refuses |
//!
//! Both repairs may be due at once, and may be cut and repeated.

use everleaf_machine::{Atomic, Machine, Ordering};

use super::filter::Filter;
use super::layout::Heading;
use crate::node::version_lock::{Retry, Version, VersionLock};

/// Locks are in DRAM: they have one generation.
pub(super) const LOCK_GENERATION: u32 = 0;

/// See the module.
#[repr(C, align(128))]
pub(super) struct Middle<M: Machine> {
    /// Held by whoever changes the leaf.
    pub lock: VersionLock<M>,
    low: Atomic<u64, M>,
    high: Atomic<u64, M>,
    next: Atomic<u64, M>,
    has_filter: Atomic<u64, M>,
    unused: [Atomic<u64, M>; 3],
    /// What the leaf may have, if it is built.
    filter: Filter<M>,
}

const _: () = assert!(size_of::<Middle<everleaf_machine::Hardware>>() == 128);

impl<M: Machine> Middle<M> {
    /// Makes memory that nobody else has seen a middle node of no leaf.
    pub fn clear(&self) {
        self.lock.reset_held(LOCK_GENERATION);
        for word in
            [&self.low, &self.high, &self.next, &self.has_filter].into_iter().chain(&self.unused)
        {
            word.write_private(0);
        }
        self.filter.reset();
    }

    /// Makes the node one of a leaf that nobody else has seen, locked.
    pub fn set(&self, heading: &Heading) {
        self.lock.reset_held(LOCK_GENERATION);
        self.low.write_private(heading.low);
        self.high.write_private(heading.high);
        self.next.write_private(heading.next);
        self.has_filter.write_private(0);
    }

    /// Starts a read, unless the leaf is being changed or is dead.
    #[inline(always)]
    pub fn view(&self) -> Result<Version, Retry> {
        self.lock.stable_or_wait(LOCK_GENERATION)
    }

    /// Whether what was read since the view is good.
    #[inline(always)]
    pub fn is_current(&self, version: Version) -> bool {
        M::mutant("sptree.no_validation") || self.lock.validate(LOCK_GENERATION, version)
    }

    /// The low fence.
    #[inline(always)]
    pub fn low(&self) -> u64 {
        // Relaxed: never changes while the leaf can be reached.
        self.low.load(Ordering::Relaxed)
    }

    /// The high fence.
    #[inline(always)]
    pub fn high(&self) -> u64 {
        // Relaxed: validated with the lock.
        self.high.load(Ordering::Relaxed)
    }

    /// The right neighbour; 0 if there is none.
    #[inline(always)]
    pub fn next(&self) -> u64 {
        // Acquire: the neighbour's middle node; pairs with the release in `set_right`.
        self.next.load(Ordering::Acquire)
    }

    /// Moves the right end. The caller holds the lock.
    pub fn set_right(&self, high: u64, next: u64) {
        // Relaxed: readers validate.
        self.high.store(high, Ordering::Relaxed);
        // Release: the neighbour is complete; pairs with the acquire in `next`.
        self.next.store(next, Ordering::Release);
    }

    /// The filter, if it is built.
    #[inline(always)]
    pub fn filter(&self) -> Option<&Filter<M>> {
        // Acquire: its bits; pairs with the release in `build_filter`.
        (self.has_filter.load(Ordering::Acquire) != 0).then_some(&self.filter)
    }

    /// Builds the filter of these keys. The caller holds the lock.
    pub fn build_filter(&self, keys: impl Iterator<Item = u64>) {
        self.filter.rebuild(keys);
        // Release: its bits; pairs with the acquire in `filter`.
        self.has_filter.store(1, Ordering::Release);
    }

    /// Asks for both lines.
    #[inline(always)]
    pub fn prefetch(&self, filter: bool) {
        M::prefetch(self.lock.as_ptr());
        if filter {
            M::prefetch(self.filter.as_ptr());
        }
    }
}
