//! The array of versioned entries: sorted, changed by shifting, and what a crash may leave of that.

use everleaf_machine::{Atomic, LINE_SIZE, Machine, Ordering};
use everleaf_pool::Medium;

/// Entries of a leaf: one of as many bytes as the leaves of the other trees.
pub(super) const ENTRY_COUNT: usize = 30;
/// The start of an entry that is none, and the end of one that is live.
pub(super) const NEVER: u64 = u64::MAX;

const ENTRY_SIZE: usize = 32;

/// An entry as it is read and moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Versioned {
    pub key: u64,
    pub value: u64,
    /// The first version that has it.
    pub start: u64,
    /// The first version that has it no more.
    pub end: u64,
}

impl Versioned {
    /// Whether it counts at this version.
    #[inline(always)]
    pub fn is_live(&self, version: u64) -> bool {
        self.start <= version && version < self.end
    }
}

/// 32 aligned bytes: two entries a line.
#[repr(C, align(32))]
struct VersionedEntry<M: Machine> {
    key: Atomic<u64, M>,
    value: Atomic<u64, M>,
    start: Atomic<u64, M>,
    end: Atomic<u64, M>,
}

/// The entries of a leaf.
#[repr(C, align(64))]
pub(super) struct Array<M: Machine> {
    places: [VersionedEntry<M>; ENTRY_COUNT],
}

const _: () = assert!(size_of::<Array<everleaf_machine::Hardware>>() == ENTRY_COUNT * ENTRY_SIZE);

/// Whether the entry at this place is the first of its line.
pub(super) fn starts_line(index: usize) -> bool {
    (index * ENTRY_SIZE).is_multiple_of(LINE_SIZE)
}

impl<M: Machine> Array<M> {
    /// The key at a place.
    #[inline(always)]
    pub fn key(&self, index: usize) -> u64 {
        // Relaxed: the holder of the lock reads its own words; a reader validates the lock's version.
        self.places[index].key.load(Ordering::Relaxed)
    }

    /// The entry at a place.
    #[inline(always)]
    pub fn entry(&self, index: usize) -> Versioned {
        let place = &self.places[index];
        Versioned {
            key: self.key(index),
            // Relaxed: as in `key`, all three.
            value: place.value.load(Ordering::Relaxed),
            // Relaxed: the caller holds or validates the lock, as in `key`.
            start: place.start.load(Ordering::Relaxed),
            // Relaxed: the caller holds or validates the lock, as in `key`.
            end: place.end.load(Ordering::Relaxed),
        }
    }

    /// How many of the first `count` keys are less than `key`.
    #[inline(always)]
    pub fn rank(&self, key: u64, count: usize) -> usize {
        let (mut first, mut rest) = (0, count);
        // Bisection whose only branch is the loop: which half is taken cannot be predicted.
        while rest > 0 {
            let half = rest / 2;
            let below = self.key(first + half) < key;
            first = if below { first + half + 1 } else { first };
            rest = if below { rest - half - 1 } else { half };
        }
        first
    }

    /// The place and value of the entry of `key` that is live at `version`; `Err` with the place
    /// behind all its versions if there is none.
    #[inline(always)]
    pub fn find(&self, key: u64, count: usize, version: u64) -> Result<(usize, u64), usize> {
        let mut index = self.rank(key, count);
        while index < count && self.key(index) == key {
            let entry = self.entry(index);
            if entry.is_live(version) {
                return Ok((index, entry.value));
            }
            index += 1;
        }
        Err(index)
    }

    /// Places up to the last one that is used, in a leaf that a crash may have left.
    pub fn used(&self) -> usize {
        let last = (0..ENTRY_COUNT).rev().find(|index| self.entry(*index).start != NEVER);
        last.map_or(0, |index| index + 1)
    }

    /// Makes a place hold another entry, or none, in an order of which a crash can leave any part
    /// (C2).
    fn set(&self, index: usize, entry: Versioned) {
        let place = &self.places[index];
        let first = if M::mutant("cdds.start_first") { entry.start } else { NEVER };
        // Release, all five: stores to one line reach the medium in their order, which is this one.
        place.start.store(first, Ordering::Release);
        // Release: behind the start that says never.
        place.key.store(entry.key, Ordering::Release);
        // Release: behind the key.
        place.value.store(entry.value, Ordering::Release);
        // Release: behind the value.
        place.end.store(entry.end, Ordering::Release);
        // Release: behind the end: now the entry counts.
        place.start.store(entry.start, Ordering::Release);
    }

    /// Writes a place of a leaf that nobody can reach.
    pub fn write_private(&self, index: usize, entry: Versioned) {
        let place = &self.places[index];
        place.key.write_private(entry.key);
        place.value.write_private(entry.value);
        place.start.write_private(entry.start);
        place.end.write_private(entry.end);
    }

    /// Makes the line of a place durable.
    #[track_caller]
    pub fn persist(&self, medium: Medium<M>, index: usize) {
        // Persist: as its callers say.
        medium.persist(self.places[index].key.as_ptr(), ENTRY_SIZE);
    }

    /// Puts an entry in front of those from `index` on, of `count`, durably. It counts from a version
    /// on that the leaf does not have yet.
    pub fn insert(&self, medium: Medium<M>, index: usize, count: usize, entry: Versioned) {
        for place in (index + 1..=count).rev() {
            self.set(place, self.entry(place - 1));
            if starts_line(place) && !M::mutant("cdds.no_shift_flush") {
                // Persist: the entry in its new line before its old place is written over (C3).
                self.persist(medium, place);
            }
        }
        self.set(index, entry);
        if !M::mutant("cdds.no_entry_flush") {
            // Persist: the entry before the version from which on it counts.
            self.persist(medium, index);
        }
    }

    /// Takes out an entry that is none, or is there twice: those behind it, of `count`, move down.
    pub fn close(&self, medium: Medium<M>, index: usize, count: usize) {
        for place in index..count - 1 {
            self.set(place, self.entry(place + 1));
            if starts_line(place + 1) {
                // Persist: the entry in its new line before its old place is written over (C3).
                self.persist(medium, place);
            }
        }
        // Release: as in `set`.
        self.places[count - 1].start.store(NEVER, Ordering::Release);
        // Persist: nothing is behind the end when the leaf is used.
        self.persist(medium, count - 1);
    }

    /// Ends an entry at a version, or lets it live. Not durable yet.
    pub fn set_end(&self, index: usize, end: u64) {
        // Release: as in `set`.
        self.places[index].end.store(end, Ordering::Release);
    }
}
