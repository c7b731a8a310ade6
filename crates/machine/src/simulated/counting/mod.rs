//! Counting: what each operation of a structure costs in flushes, lines, cache misses and media
//! bytes, on a model of caches and persistent memory. Counts, not times.
//!
//! ```text
//!   access -> L1 -> L2 -> L3 -> DRAM
//!                            +-> write-combining buffer of 256-byte blocks -> media
//!   flush  -> the line, if dirty, to the buffer
//! ```
//!
//! One thread at a time, on one core's caches. Code runs unchanged over [`Simulated`] and at near
//! plain speed; only what runs inside [`Counting::operation`] or [`Counting::warm_up`] is seen.
//!
//! [`Simulated`]: super::Simulated

mod cache;
mod counter;
mod dram;
mod media;

use std::cell::{Cell, RefCell};
use std::ptr;

use super::config::Domain;
use super::raw::AddressRange;
use super::region::{Memory, OwnedMemory};
pub use cache::CacheShape;
use counter::Counter;
pub use counter::{Access, Tally};
pub use media::MediaShape;

/// The machine to count on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountingConfig {
    /// First-level data cache.
    pub l1: CacheShape,
    /// Second-level cache.
    pub l2: CacheShape,
    /// Last-level cache.
    pub l3: CacheShape,
    /// Persistent memory behind the caches.
    pub media: MediaShape,
    /// What the pool is told about the machine; [`Domain::Eadr`] has no use for flushes.
    pub domain: Domain,
}

impl Default for CountingConfig {
    /// One socket of an Ice Lake server with one persistent-memory module.
    fn default() -> Self {
        CountingConfig {
            l1: CacheShape { bytes: 48 << 10, ways: 12 },
            l2: CacheShape { bytes: 1280 << 10, ways: 20 },
            l3: CacheShape { bytes: 42 << 20, ways: 12 },
            media: MediaShape { modules: 1, buffer_blocks: 64 },
            domain: Domain::Adr,
        }
    }
}

thread_local! {
    static CURRENT: Cell<*const RefCell<Counter>> = const { Cell::new(ptr::null()) };
}

/// A counting machine with a pool of its own.
///
/// # Example
/// ```
/// use everleaf_machine::simulated::counting::{Counting, CountingConfig};
/// use everleaf_machine::{Atomic, Machine, Ordering, Simulated};
/// let counting = Counting::new(CountingConfig::default(), 4096);
/// // SAFETY: the first word of the pool, aligned and zero.
/// let word = unsafe { &*counting.memory().base().cast::<Atomic<u64, Simulated>>() };
/// counting.operation("set", || {
///     word.store(1, Ordering::Release);
///     Simulated::flush(word.as_ptr());
///     Simulated::drain();
/// });
/// let tally = counting.tally("set");
/// assert_eq!((tally.flushes, tally.drains, tally.pool_lines_written), (1, 1, 1));
/// ```
pub struct Counting {
    memory: OwnedMemory,
    counter: RefCell<Counter>,
}

impl Counting {
    /// A machine with cold caches and a zeroed pool of `pool_bytes` bytes, a multiple of 64.
    ///
    /// # Panics
    /// If `pool_bytes` is 0 or no multiple of 64, or a cache has no whole number of sets.
    pub fn new(config: CountingConfig, pool_bytes: usize) -> Self {
        Self::on(config, OwnedMemory::new(pool_bytes, config.domain))
    }

    /// A machine for another OS thread on the pool of this one, with cold caches of its own. Outside
    /// of a [`Runner`](super::Runner) the operations are the plain ones, so that threads may share a
    /// structure; each counts what it does itself.
    pub fn sharing(config: CountingConfig, memory: &OwnedMemory) -> Self {
        Self::on(config, memory.clone())
    }

    fn on(config: CountingConfig, owned: OwnedMemory) -> Self {
        let memory = owned.memory();
        let counter = Counter::new(&config, memory.base().addr(), memory.size());
        Counting { memory: owned, counter: RefCell::new(counter) }
    }

    /// The pool. It lives as long as the machine.
    pub fn memory(&self) -> Memory {
        self.memory.memory()
    }

    /// The pool, kept until the last holder is gone.
    pub fn owned_memory(&self) -> OwnedMemory {
        self.memory.clone()
    }

    /// Runs `work` as one operation of kind `kind` and counts it.
    ///
    /// # Panics
    /// If another operation is being counted on this OS thread.
    pub fn operation<T>(&self, kind: &'static str, work: impl FnOnce() -> T) -> T {
        self.counter.borrow_mut().begin(Some(kind));
        let result = self.watch(work);
        self.counter.borrow_mut().end();
        result
    }

    /// Runs `work` so that it fills the caches, without counting it.
    ///
    /// # Panics
    /// As [`Counting::operation`].
    pub fn warm_up<T>(&self, work: impl FnOnce() -> T) -> T {
        self.counter.borrow_mut().begin(None);
        let result = self.watch(work);
        self.counter.borrow_mut().end();
        result
    }

    /// Runs `work` so that only the memory which it allocates and frees is seen: what makes the structure whose
    /// operations are counted.
    ///
    /// # Panics
    /// As [`Counting::operation`].
    pub fn set_up<T>(&self, work: impl FnOnce() -> T) -> T {
        self.counter.borrow_mut().only_memory(true);
        let result = self.watch(work);
        self.counter.borrow_mut().only_memory(false);
        result
    }

    fn watch<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Reset;
        impl Drop for Reset {
            fn drop(&mut self) {
                CURRENT.set(ptr::null());
            }
        }
        assert!(CURRENT.replace(&raw const self.counter).is_null(), "operations do not nest");
        let _reset = Reset;
        work()
    }

    /// The counts of all operations of a kind so far; zeros if there were none.
    pub fn tally(&self, kind: &str) -> Tally {
        self.counter.borrow().tally(kind)
    }

    /// All kinds met, in order of first appearance, with their counts.
    pub fn tallies(&self) -> Vec<(&'static str, Tally)> {
        self.counter.borrow().tallies().to_vec()
    }

    /// The coverage marks met inside counted operations, with counts, in order of first appearance.
    pub fn marks(&self) -> Vec<(&'static str, u64)> {
        self.counter.borrow().marks().to_vec()
    }

    /// Forgets all counts; caches stay as they are.
    pub fn clear(&self) {
        self.counter.borrow_mut().clear();
    }

    /// Forgets where memory other than the pool is: a crash has taken it, and what is allocated now is new.
    pub fn lose_memory(&self) {
        self.counter.borrow_mut().lose_memory();
    }

    /// Writes everything back to the media, caches first, and empties caches and buffer. Gives the
    /// media bytes (read, written) that took; they belong to no operation.
    pub fn write_back_all(&self) -> (u64, u64) {
        self.counter.borrow_mut().write_back_all()
    }
}

/// Notes an access if this OS thread is counting.
#[inline(always)]
pub(super) fn note(access: Access, place: AddressRange) {
    let current = CURRENT.get();
    if !current.is_null() {
        note_on(current, access, place);
    }
}

#[cold]
fn note_on(current: *const RefCell<Counter>, access: Access, place: AddressRange) {
    // SAFETY: set by `Counting::watch` for the time of its closure, during which the counter, a
    // field of the borrowed `Counting`, stays.
    let counter = unsafe { &*current };
    counter.borrow_mut().access(access, place.address, place.size);
}

/// Notes that a node is freed if this OS thread is counting.
pub(super) fn free(node: AddressRange) {
    let current = CURRENT.get();
    if !current.is_null() {
        // SAFETY: as in `note_on`.
        unsafe { &*current }.borrow_mut().free(node);
    }
}

/// Notes a lock that was taken or opened if this OS thread is counting.
pub(super) fn holds_lock(is_held: bool) {
    let current = CURRENT.get();
    if !current.is_null() {
        // SAFETY: as in `note_on`.
        unsafe { &*current }.borrow_mut().holds_lock(is_held);
    }
}

/// Notes a coverage mark if this OS thread is counting.
pub(super) fn mark(name: &'static str) {
    let current = CURRENT.get();
    if !current.is_null() {
        // SAFETY: as in `note_on`.
        unsafe { &*current }.borrow_mut().mark(name);
    }
}
