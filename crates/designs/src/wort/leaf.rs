//! The records: a key and a value.

use everleaf_alloc::{AllocError, Session};
use everleaf_index::PoolBase;
use everleaf_machine::{Atomic, Machine, Ordering};
use everleaf_pool::Medium;

/// Bytes of a record.
pub(super) const RECORD_SIZE: usize = 16;
/// A value with this bit is not known to be durable.
const DIRTY: u64 = 1 << 63;
/// The largest value.
pub(super) const VALUE_MAX: u64 = DIRTY - 1;

/// The records of one pool.
pub(super) struct Records<M: Machine> {
    base: PoolBase<M>,
    medium: Medium<M>,
}

// SAFETY: `base` is the pool's mapping, which the tree's heap keeps; all its words are atomic.
unsafe impl<M: Machine> Send for Records<M> {}
// SAFETY: as for `Send`.
unsafe impl<M: Machine> Sync for Records<M> {}

impl<M: Machine> Records<M> {
    /// The records of the session's pool.
    pub fn new(session: &Session<M>) -> Self {
        Records { base: PoolBase::of(session.heap()), medium: session.medium() }
    }

    #[inline(always)]
    fn word(&self, offset: u64) -> &Atomic<u64, M> {
        let start = self.base.start().wrapping_add(offset as usize).cast();
        // SAFETY: offsets come from the allocator and from the tree: inside a record of the pool,
        // aligned; one that was reclaimed meanwhile is still memory of the pool. An atomic word is
        // valid whatever its bits are.
        unsafe { &*start }
    }

    /// A new record, on its way to the medium.
    pub fn make(&self, session: &mut Session<M>, key: u64, value: u64) -> Result<u64, AllocError> {
        let record = session.allocate_record(RECORD_SIZE)?;
        self.word(record).write_private(key);
        self.word(record + 8).write_private(value);
        if !M::mutant("wort.no_record_flush") {
            // Persist: by the caller's drain, before the link to the record (W1).
            self.medium.flush(self.word(record).as_ptr(), RECORD_SIZE);
        }
        Ok(record)
    }

    /// The value of a record, durably.
    #[inline(always)]
    pub fn read(&self, record: u64) -> u64 {
        // Acquire: for the caller, which may act on the value; pairs with the release in `set`.
        let word = self.word(record + 8).load(Ordering::Acquire);
        if word & DIRTY != 0 && !M::mutant("wort.reads_dirty") {
            self.help_persist(record);
        }
        word & VALUE_MAX
    }

    /// Makes a value durable that another thread is about to.
    #[cold]
    fn help_persist(&self, record: u64) {
        M::mark("wort.help_persist");
        // Persist: the value before the reader acts on it (W2). It stays dirty: a thread that cleaned it here
        // could clean the next one that is the same.
        self.medium.persist(self.word(record + 8).as_ptr(), 8);
    }

    /// The value of a record while nobody else writes it.
    pub fn read_locked(&self, record: u64) -> u64 {
        // Relaxed: only the holder of the tree's lock, the caller, stores it, and what it stored before
        // is durable.
        self.word(record + 8).load(Ordering::Relaxed) & VALUE_MAX
    }

    /// Gives a record another value, durably. The caller holds the tree's lock.
    pub fn set(&self, record: u64, value: u64) {
        let word = self.word(record + 8);
        let dirty = if self.medium.needs_flush() { DIRTY } else { 0 };
        if M::mutant("wort.no_exchange") {
            // Release: pairs with the acquire in `read`; the planted bug is only that it is no exchange.
            word.store(value | dirty, Ordering::Release);
        } else {
            // AcqRel: for the reader's sake; pairs with the acquire in `read`. An exchange, because the
            // write takes effect here: it must not wait in a store buffer when the call has returned (W3).
            word.swap(value | dirty, Ordering::AcqRel);
        }
        if !M::mutant("wort.no_value_flush") {
            // Persist: the value before it is clean (W2), and before the writer returns.
            self.medium.persist(word.as_ptr(), 8);
        }
        if dirty != 0 {
            // Release: pairs with the acquire in `read`.
            word.store(value, Ordering::Release);
        }
    }

    /// Key of a record, which is clean afterwards if it may be written. Nobody else is active.
    pub fn clean(&self, record: u64, is_writable: bool) -> u64 {
        let word = self.word(record + 8);
        let value = word.read_private();
        if value & DIRTY != 0 && is_writable {
            // Relaxed: nobody else is active. What a crash left is durable.
            word.store(value & VALUE_MAX, Ordering::Relaxed);
        }
        self.word(record).read_private()
    }
}
