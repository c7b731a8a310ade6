//! The descriptors of a tree: made, claimed, given back, and read by recovery.

use std::sync::Arc;

use everleaf_alloc::{AllocError, Heap, Recovery, Session};
use everleaf_index::PoolBase;
use everleaf_machine::{Atomic, Machine, Ordering};
use everleaf_pool::Medium;

use super::descriptor::{
    DESCRIPTOR_COUNT_MAX, Entry, Reference, State, Status, VALUE_MAX, WORD_COUNT_MAX,
    descriptor_size, reference,
};

/// What a descriptor has as the epoch of its end while somebody uses it.
const CLAIMED: u64 = u64::MAX;
/// After how many claims of a session the epoch is asked to advance: seldom, but where reuse is to be met.
const fn claims_per_advance<M: Machine>() -> u32 {
    if M::SIMULATED { 2 } else { 64 }
}

/// A descriptor that is the caller's.
#[derive(Debug)]
#[must_use = "a descriptor that is claimed is not used by others"]
pub(crate) struct Claim(pub(super) usize);

/// A counter on a line of its own.
#[repr(align(128))]
struct Counter<M: Machine>(Atomic<u64, M>);

/// See the module.
///
/// *Thread safety*: shared by reference; every caller's session is pinned.
pub(crate) struct Pmwcas<M: Machine> {
    base: PoolBase<M>,
    pub(super) medium: Medium<M>,
    offset: u64,
    entry_words: usize,
    pub(super) is_writable: bool,
    /// When each descriptor was used last: an epoch, or [`CLAIMED`].
    ends: Box<[Atomic<u64, M>]>,
    /// Numbers of markers, for sessions in turn.
    numbers: Box<[Counter<M>]>,
    heap: Arc<Heap<M>>,
}

// SAFETY: `base` is the pool's mapping, which `heap` keeps; everything shared is atomic.
unsafe impl<M: Machine> Send for Pmwcas<M> {}
// SAFETY: as for `Send`.
unsafe impl<M: Machine> Sync for Pmwcas<M> {}

impl<M: Machine> Pmwcas<M> {
    /// Bytes of `count` descriptors whose entries have so many words.
    pub(crate) const fn size(count: usize, entry_words: usize) -> usize {
        assert!(count <= DESCRIPTOR_COUNT_MAX && entry_words >= 3, "words have room for no more");
        count * descriptor_size(entry_words)
    }

    /// New descriptors, durable; gives their offset.
    ///
    /// # Errors
    /// No space.
    pub(crate) fn create(
        session: &mut Session<M>,
        count: usize,
        entry_words: usize,
    ) -> Result<u64, AllocError> {
        let size = Self::size(count, entry_words);
        let offset = session.allocate_record(size)?;
        let this = Self::at(session, offset, count, entry_words);
        for word in 0..size / 8 {
            this.word(offset + 8 * word as u64).write_private(0);
        }
        // Persist: the descriptors before the root object names them.
        session.medium().persist(this.word(offset).as_ptr(), size);
        Ok(offset)
    }

    /// The descriptors at an offset, none of which is in use.
    pub(crate) fn at(session: &Session<M>, offset: u64, count: usize, entry_words: usize) -> Self {
        let heap = session.heap().clone();
        let stripes = if M::SIMULATED { 4 } else { 64 };
        Pmwcas {
            base: PoolBase::of(&heap),
            medium: heap.medium(),
            offset,
            entry_words,
            is_writable: !heap.pool().is_read_only(),
            ends: (0..count).map(|_| Atomic::new(0)).collect(),
            numbers: (0..stripes).map(|_| Counter(Atomic::new(0))).collect(),
            heap,
        }
    }

    /// Where they are.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of an operation on so many words in its descriptor.
    pub(super) fn used_size(&self, count: usize) -> usize {
        super::descriptor::used_size(self.entry_words, count)
    }

    /// A word of the pool.
    #[inline(always)]
    pub(super) fn word(&self, offset: u64) -> &Atomic<u64, M> {
        let start = self.base.start().wrapping_add(offset as usize).cast();
        // SAFETY: the offset is one of a descriptor, or of a word of a node that the caller can reach, or that
        // an entry names, which does not change while a pointer leads to it (W5): inside the pool, aligned. An
        // atomic word is valid whatever its bits are.
        unsafe { &*start }
    }

    fn place(&self, index: usize) -> u64 {
        self.offset + (index * descriptor_size(self.entry_words)) as u64
    }

    /// The word of a descriptor's status.
    #[inline(always)]
    pub(super) fn status(&self, index: usize) -> &Atomic<u64, M> {
        self.word(self.place(index))
    }

    #[inline(always)]
    pub(super) fn load_status(&self, index: usize) -> Status {
        // Acquire: the entries of that life, and what was done before the decision; pairs with the release in
        // `fill` and `decide`.
        Status(self.status(index).load(Ordering::Acquire))
    }

    fn entry_place(&self, index: usize, entry: usize) -> u64 {
        self.place(index) + self.used_size(entry) as u64
    }

    /// How many words an operation has.
    pub(super) fn entry_count(&self, index: usize) -> usize {
        // Relaxed: written before the status of this life, which the caller has seen.
        let count = self.word(self.place(index) + 8).load(Ordering::Relaxed);
        (count as usize).min(WORD_COUNT_MAX)
    }

    /// An entry of a descriptor. If the descriptor's life has ended meanwhile, it may be half of another.
    #[inline(always)]
    pub(super) fn entry(&self, index: usize, entry: usize) -> Entry {
        let place = self.entry_place(index, entry);
        // Relaxed: as in `entry_count`.
        let [address, old, new] =
            [0, 8, 16].map(|at| self.word(place + at).load(Ordering::Relaxed));
        Entry { address, old, new }
    }

    /// Writes an operation to a claimed descriptor, durably; gives its life.
    pub(super) fn fill(&self, index: usize, entries: &[Entry]) -> u64 {
        // Relaxed: nobody but the owner changes it now.
        let life = Status(self.status(index).load(Ordering::Relaxed)).life() + 1;
        // Relaxed: published by the status below. A thread that still has a pointer of an earlier life reads
        // nothing that it can act on (W3).
        self.word(self.place(index) + 8).store(entries.len() as u64, Ordering::Relaxed);
        for (number, entry) in entries.iter().enumerate() {
            let place = self.entry_place(index, number);
            for (at, value) in [(0, entry.address), (8, entry.old), (16, entry.new)] {
                // Relaxed: published by the status below.
                self.word(place + at).store(value, Ordering::Relaxed);
            }
        }
        // Release: the entries; pairs with the acquire in `load_status`.
        self.status(index).store(Status::new(life, State::Undecided).0, Ordering::Release);
        if !M::mutant("pmwcas.no_descriptor_flush") {
            // Persist: the descriptor before a word leads to it, or recovery finds another life there (W1).
            self.medium.persist(self.status(index).as_ptr(), self.used_size(entries.len()));
        }
        life
    }

    /// A descriptor that nobody uses; none if all are in use, or were when the pin of a thread began that is
    /// still pinned: then the caller ends its own, and tries again.
    pub(crate) fn claim(&self, session: &mut Session<M>) -> Option<Claim> {
        let turn = session.turn();
        if turn.is_multiple_of(claims_per_advance::<M>()) {
            self.heap.advance_epoch();
        }
        let count = self.ends.len();
        // Sessions begin apart from each other.
        let start = session.stripe() * 61 + turn as usize;
        (0..count).map(|step| (start + step) % count).find(|index| self.take(*index)).map(Claim)
    }

    /// Whether some descriptor can be claimed now.
    pub(crate) fn has_free(&self) -> bool {
        // Relaxed: a hint; a thread that claims one looks again.
        let mut ends = self.ends.iter().map(|end| end.load(Ordering::Relaxed));
        ends.any(|end| end != CLAIMED && self.heap.is_expired(end))
    }

    fn take(&self, index: usize) -> bool {
        let end = &self.ends[index];
        // Relaxed: the exchange checks it again.
        let seen = end.load(Ordering::Relaxed);
        let is_free =
            seen != CLAIMED && (self.heap.is_expired(seen) || M::mutant("pmwcas.reuses_at_once"));
        // Acquire: the last life is over; pairs with the release in `give_back`. Relaxed on failure: nothing
        // is read.
        is_free && end.compare_exchange(seen, CLAIMED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Gives a descriptor back whose operation is done: used again when nobody can help it any more (W5).
    pub(super) fn give_back(&self, index: usize) {
        // Release: what was done with it; pairs with the acquire in `take`.
        self.ends[index].store(self.heap.retire_epoch(), Ordering::Release);
    }

    /// A number that no other marker has.
    pub(super) fn marker_number(&self, stripe: usize) -> u64 {
        let (count, stripe) = (self.numbers.len(), stripe % self.numbers.len());
        // Relaxed: only that numbers differ matters.
        let number = self.numbers[stripe].0.fetch_add(1, Ordering::Relaxed);
        number * count as u64 + stripe as u64
    }

    /// What a word says that was read at `address` while nobody is at work: its value, or the one that a crash
    /// leaves it with.
    ///
    /// # Errors
    /// It leads to a descriptor that knows nothing of it, or says that it is no value.
    pub(crate) fn resolved(&self, address: u64, word: u64) -> Result<u64, AllocError> {
        let (index, at, life) = match reference(word) {
            None => return Ok(word),
            Some(Reference::Marker { index, entry }) => (index, Some(entry), None),
            Some(Reference::Pointer { index, life }) => (index, None, Some(life)),
        };
        let damaged = || {
            let what = format!("the word {word:#x} leads to no descriptor of its own");
            AllocError::Corrupt { offset: address, what }
        };
        // Two bits say which of both it is, and a third one is zero.
        let is_one = word >> 63 == 0 && (at.is_none() || word >> 61 == 1);
        if index >= self.count() || !is_one {
            return Err(damaged());
        }
        let status = Status(self.status(index).read_private());
        if life.is_some_and(|life| life != status.life()) {
            return Err(damaged());
        }
        let entries = 0..self.entry_count(index);
        let found = entries
            .filter(|entry| at.is_none_or(|at| at == *entry))
            .map(|entry| self.entry(index, entry))
            .find(|entry| entry.address == address)
            .ok_or_else(damaged)?;
        // A marker is of a helper that came late, or of an operation that is undecided (W4).
        let is_done = at.is_none()
            && status.state() == State::Succeeded
            && !M::mutant("pmwcas.no_roll_forward");
        let is_done = is_done || at.is_none() && M::mutant("pmwcas.no_roll_back");
        let value = if is_done { found.new } else { found.old };
        if value > VALUE_MAX { Err(damaged()) } else { Ok(value) }
    }

    /// Marks them as in use.
    ///
    /// # Errors
    /// They cannot be where they are.
    pub(crate) fn mark(&self, used: &Recovery<M>) -> Result<(), AllocError> {
        used.mark_record(self.offset, Self::size(self.count(), self.entry_words))
    }

    /// Gives them back to the pool; nobody uses them any more.
    pub(crate) fn free(&self, session: &mut Session<M>) {
        session.free_record(self.offset, Self::size(self.count(), self.entry_words));
    }
}
