//! The log of structure changes: what must be finished after a crash, and what the search layer has not
//! learned yet.
//!
//! ```text
//!   record, 32 bytes, on one line   | stage 8 | left 8 | right 8 | 0 |
//! ```
//!
//! A record's stage is stored after the rest, on the same line. The places of the records, and the order
//! in which the search layer learns of them, are in DRAM: after a crash they follow from the sequence
//! numbers. A place is free when its stage is 0, durably.

use std::collections::VecDeque;

use everleaf_alloc::{AllocError, Session};
use everleaf_index::PoolBase;
use everleaf_machine::{Atomic, Machine, Ordering, SpinLock};
use everleaf_pool::Medium;

use super::state::{Change, Stage};

/// Bytes of a record.
const RECORD_SIZE: usize = 32;

/// Places of the log.
#[derive(Debug, Default)]
struct Places {
    free: Vec<usize>,
    /// Linked changes, the oldest first.
    linked: VecDeque<usize>,
}

/// See the module.
pub(super) struct Log<M: Machine> {
    base: PoolBase<M>,
    medium: Medium<M>,
    offset: u64,
    places: SpinLock<Places, M>,
    /// The next sequence number.
    clock: Atomic<u64, M>,
}

// SAFETY: `base` is the pool's mapping, which the tree's heap keeps; all its words are atomic.
unsafe impl<M: Machine> Send for Log<M> {}
// SAFETY: as for `Send`.
unsafe impl<M: Machine> Sync for Log<M> {}

impl<M: Machine> Log<M> {
    /// Bytes of a log of so many records.
    pub const fn size(length: usize) -> usize {
        // Of a class of records that is aligned to 32 bytes, so that no record is on two lines.
        let bytes = length * RECORD_SIZE;
        if bytes < 256 { 256 } else { bytes }
    }

    /// A new, empty log, durable.
    pub fn create(session: &mut Session<M>, length: usize) -> Result<Self, AllocError> {
        let offset = session.allocate_record(Self::size(length))?;
        let log = Self::at(session, offset, length);
        for place in 0..length {
            for word in 0..RECORD_SIZE / 8 {
                log.word(place, word).write_private(0);
            }
        }
        // Persist: the log before the root object names it.
        session.medium().persist(log.word(0, 0).as_ptr(), length * RECORD_SIZE);
        Ok(log)
    }

    /// The log at an offset, all of whose places count as free.
    pub fn at(session: &Session<M>, offset: u64, length: usize) -> Self {
        let free = (0..length).rev().collect();
        Log {
            base: PoolBase::of(session.heap()),
            medium: session.medium(),
            offset,
            places: SpinLock::new(Places { free, linked: VecDeque::new() }),
            clock: Atomic::new(1),
        }
    }

    /// Where it is.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn word(&self, place: usize, word: usize) -> &Atomic<u64, M> {
        let offset = self.offset as usize + place * RECORD_SIZE + word * 8;
        // SAFETY: inside the log, whose place recovery has checked, or which was just allocated;
        // aligned; an atomic word is valid whatever its bits are.
        unsafe { &*self.base.start().wrapping_add(offset).cast() }
    }

    /// A place that is the caller's until the search layer has learned of what it writes there.
    pub fn claim(&self) -> Option<usize> {
        self.places.lock().free.pop()
    }

    /// Gives a place back that was not written.
    pub fn unclaim(&self, place: usize) {
        self.places.lock().free.push(place);
    }

    /// Says that a change begins, durably. The caller holds the locks of its nodes.
    pub fn begin(&self, place: usize, change: Change) {
        // Relaxed: numbers differ; those of changes of one node ascend because its lock is held.
        let sequence = self.clock.fetch_add(1, Ordering::Relaxed);
        // Relaxed: published by the stage, also on the medium.
        self.word(place, 1).store(change.left, Ordering::Relaxed);
        // Relaxed: published by the stage, also on the medium.
        self.word(place, 2).store(change.right, Ordering::Relaxed);
        let stage = Stage { sequence, is_linked: false, kind: change.kind };
        // Release: after the nodes, also on the medium; recovery's view.
        self.word(place, 0).store(stage.word(), Ordering::Release);
        if !M::mutant("pactree.no_log_flush") {
            // Persist: the record before a node is changed (PT4).
            self.medium.persist(self.word(place, 0).as_ptr(), RECORD_SIZE);
        }
    }

    /// Says that list and fences of a change are durable, durably, and what the caller has flushed with
    /// it. The caller holds the locks of its nodes. The search layer is to learn of it.
    pub fn link(&self, place: usize) {
        self.set_linked(place);
        self.places.lock().linked.push_back(place);
    }

    /// The same while nobody else is active; [`Self::adopt`] comes next.
    pub fn set_linked(&self, place: usize) {
        // Persist: what the caller has flushed before the stage says that it is durable (PT4).
        self.medium.drain();
        let word = self.word(place, 0);
        if let Some(stage) = Stage::of(word.read_private()) {
            // Release: as in `begin`.
            word.store(Stage { is_linked: true, ..stage }.word(), Ordering::Release);
        }
        if !M::mutant("pactree.no_linked_flush") {
            // Persist: the stage before the locks are opened: others may then change line 0 of the nodes,
            // from which recovery tells how far a change has come (PT4).
            self.medium.persist(word.as_ptr(), 8);
        }
    }

    /// Linked changes that the search layer has not learned of.
    pub fn pending(&self) -> usize {
        self.places.lock().linked.len()
    }

    /// The oldest of them. The caller is the only thread that takes some.
    pub fn oldest(&self) -> Option<(usize, Change)> {
        let place = self.places.lock().linked.front().copied()?;
        self.change(place).map(|(_, change)| (place, change))
    }

    /// All of them, the oldest first. Nobody is active.
    pub fn all_linked(&self) -> Vec<Change> {
        let places = self.places.lock();
        places.linked.iter().filter_map(|place| self.change(*place)).map(|found| found.1).collect()
    }

    /// What the record at a place says; nobody changes it.
    pub fn change(&self, place: usize) -> Option<(Stage, Change)> {
        let stage = Stage::of(self.word(place, 0).read_private())?;
        let (left, right) =
            (self.word(place, 1).read_private(), self.word(place, 2).read_private());
        Some((stage, Change { kind: stage.kind, left, right }))
    }

    /// Forgets a change, durably.
    pub fn erase(&self, place: usize) {
        // Release: after what the change asked for, also on the medium; recovery's view.
        self.word(place, 0).store(0, Ordering::Release);
        if !M::mutant("pactree.no_erase_flush") {
            // Persist: before the place or a node of the change is used again (PT5).
            self.medium.persist(self.word(place, 0).as_ptr(), 8);
        }
    }

    /// Forgets the oldest linked change, which the search layer knows, durably.
    pub fn forget_oldest(&self, place: usize) {
        self.erase(place);
        let mut places = self.places.lock();
        let oldest = places.linked.pop_front();
        debug_assert_eq!(oldest, Some(place), "changes are learned of in order");
        places.free.push(place);
    }

    /// Adopts what a crash left, before anybody else is active: the records in the order of their
    /// numbers.
    pub fn left_over(&mut self, length: usize) -> Vec<(usize, Stage, Change)> {
        let found = |place| self.change(place).map(|(stage, change)| (place, stage, change));
        let mut all: Vec<_> = (0..length).filter_map(found).collect();
        all.sort_unstable_by_key(|(_, stage, _)| stage.sequence);
        if let Some((_, newest, _)) = all.last() {
            // Larger numbers would not fit a word, and nobody wrote them.
            self.clock.write_private((newest.sequence + 1) & (u64::MAX >> 2));
        }
        all
    }

    /// Makes a place that a crash left linked one that the search layer is to learn of.
    pub fn adopt(&mut self, place: usize) {
        let places = self.places.get_mut();
        places.free.retain(|free| *free != place);
        places.linked.push_back(place);
    }
}
