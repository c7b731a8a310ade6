//! The states of a leaf: which thread brings it there, and what others do about it. And the middle node, the
//! part of a leaf that is in DRAM.
//!
//! ```text
//!   middle   line 0   | lock 8 | low 8 | high 8 | next 8 | flags 8 | head 8 | sequence 8 | flushed 8 |
//!            line 1   | filter: 512 bits |
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
use crate::node::place_table::Cell;
use crate::node::version_lock::{Retry, Version, VersionLock};

/// The filter is built.
const HAS_FILTER: u64 = 1;
/// The log has writes that the buffer should have.
const NEEDS_RESTORE: u64 = 2;
/// From here on: how many of them recovery found.
const FOUND_SHIFT: u32 = 8;

/// Locks are in DRAM: they have one generation.
pub(super) const LOCK_GENERATION: u32 = 0;

/// See the module.
#[repr(C, align(128))]
pub(super) struct Middle<M: Machine> {
    /// Held by the thread that changes the leaf.
    pub lock: VersionLock<M>,
    low: Atomic<u64, M>,
    high: Atomic<u64, M>,
    next: Atomic<u64, M>,
    flags: Atomic<u64, M>,
    head: Atomic<u64, M>,
    sequence: Atomic<u64, M>,
    flushed: Atomic<u64, M>,
    /// What the leaf may have, if it is built.
    filter: Filter<M>,
}

const _: () = assert!(size_of::<Middle<everleaf_machine::Hardware>>() == 128);

impl<M: Machine> Cell for Middle<M> {
    fn clear(&self) {
        self.lock.reset_held(LOCK_GENERATION);
        let words = [&self.low, &self.high, &self.next, &self.flags];
        for word in words.into_iter().chain([&self.head, &self.sequence, &self.flushed]) {
            word.write_private(0);
        }
        self.filter.reset();
    }
}

impl<M: Machine> Middle<M> {
    /// Makes the node one of a leaf that nobody else has seen, locked.
    pub fn set(&self, heading: &Heading) {
        self.lock.reset_held(LOCK_GENERATION);
        self.low.write_private(heading.low);
        self.high.write_private(heading.high);
        self.next.write_private(heading.next);
        self.flags.write_private(0);
        self.head.write_private(0);
        self.sequence.write_private(heading.flushed);
        self.flushed.write_private(heading.flushed);
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
        (self.flags.load(Ordering::Acquire) & HAS_FILTER != 0).then_some(&self.filter)
    }

    /// Builds the filter of these keys. The caller holds the lock.
    pub fn build_filter(&self, keys: impl Iterator<Item = u64>) {
        self.filter.rebuild(keys);
        // Relaxed: only the holder of the lock writes it.
        let flags = self.flags.load(Ordering::Relaxed);
        // Release: its bits; pairs with the acquire in `filter`.
        self.flags.store(flags | HAS_FILTER, Ordering::Release);
    }

    /// Whether the log has writes that the buffer should have.
    #[inline(always)]
    pub fn needs_restore(&self) -> bool {
        // Acquire: the buffer; pairs with the release in `set_restored`.
        self.flags.load(Ordering::Acquire) & NEEDS_RESTORE != 0
    }

    /// The buffer has what the log had. The caller holds the lock.
    pub fn set_restored(&self) {
        // Relaxed: only the holder of the lock writes it.
        let flags = self.flags.load(Ordering::Relaxed);
        // Release: the buffer; pairs with the acquire in `needs_restore`.
        self.flags.store(flags & HAS_FILTER, Ordering::Release);
    }

    /// Notes a record that recovery found; true if it is the first that the leaf needs. Nobody else is
    /// active.
    pub fn find_record(&self, sequence: u64, place: u64) -> bool {
        if sequence <= self.flushed.read_private() {
            return false;
        }
        if sequence > self.sequence.read_private() || M::mutant("sptree.no_sequence") {
            self.sequence.write_private(sequence);
            self.head.write_private(place);
        }
        let flags = self.flags.read_private();
        self.flags.write_private((flags | NEEDS_RESTORE) + (1 << FOUND_SHIFT));
        flags & NEEDS_RESTORE == 0
    }

    /// Whether all records of the buffer are of keys of the leaf (S9). Not so when a crash came between
    /// a split and the end of the left half's records. Nobody else is active.
    pub fn has_own_records(&self) -> bool {
        let found = self.flags.read_private() >> FOUND_SHIFT;
        found == self.sequence.read_private() - self.flushed.read_private()
    }

    /// The place of the newest record of the buffer; 0 if there is none. The caller holds the lock, or validates.
    #[inline(always)]
    pub fn head(&self) -> u64 {
        // Relaxed: only holders of the lock write it, and readers validate.
        self.head.load(Ordering::Relaxed)
    }

    /// The number of the newest buffered write. The caller holds the lock, or validates.
    #[inline(always)]
    pub fn sequence(&self) -> u64 {
        // Relaxed: as in `head`.
        self.sequence.load(Ordering::Relaxed)
    }

    /// The number up to which the leaf has all buffered writes, durably. The caller holds the lock, or validates.
    #[inline(always)]
    pub fn flushed(&self) -> u64 {
        // Relaxed: only the holder of the lock writes it, and others validate.
        self.flushed.load(Ordering::Relaxed)
    }

    /// Notes a record that was written. The caller holds the lock.
    #[inline(always)]
    pub fn note_record(&self, sequence: u64, place: u64) {
        // Relaxed: as in `head`.
        self.sequence.store(sequence, Ordering::Relaxed);
        // Relaxed: as in `head`.
        self.head.store(place, Ordering::Relaxed);
    }

    /// Notes that the leaf has everything up to this write. The caller holds the lock.
    pub fn note_applied(&self, sequence: u64) {
        self.note_record(sequence, 0);
        // Relaxed: as in `head`.
        self.flushed.store(sequence, Ordering::Relaxed);
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
