//! The seam: the [`Machine`] trait and the words it moves.
//!
//! A machine is a zero-sized type; its operations are associated functions, so that the hardware
//! side is inlined to single instructions and nothing has to be carried around.

use std::alloc::Layout;
use std::fmt::Debug;
use std::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

use crate::atomic::{AtomicLine, FingerprintLine};
use crate::line_store::{LINE_SIZE, LineStore};

/// A value that fits one machine word and is read and written atomically.
///
/// The `raw_*` functions are the plain hardware operations; only a [`Machine`] calls them.
pub trait Word: Copy + Eq + Debug + 'static {
    /// The standard atomic that holds the word, same size and alignment.
    type Cell: Send + Sync + 'static;
    /// A cell that holds `self`.
    fn into_cell(self) -> Self::Cell;
    /// The word widened to 64 bits.
    fn to_bits(self) -> u64;
    /// The word from its 64-bit form, inverse of [`Word::to_bits`].
    fn from_bits(bits: u64) -> Self;
    /// Plain atomic load.
    fn raw_load(cell: &Self::Cell, order: Ordering) -> Self;
    /// Plain atomic store.
    fn raw_store(cell: &Self::Cell, value: Self, order: Ordering);
    /// Plain atomic exchange.
    fn raw_swap(cell: &Self::Cell, value: Self, order: Ordering) -> Self;
    /// Plain compare-and-exchange (strong).
    fn raw_compare_exchange(
        cell: &Self::Cell,
        current: Self,
        new: Self,
        success: Ordering,
        failure: Ordering,
    ) -> Result<Self, Self>;
}

/// A [`Word`] with arithmetic.
pub trait Integer: Word {
    /// Plain atomic add, wrapping; returns the previous value.
    fn raw_fetch_add(cell: &Self::Cell, value: Self, order: Ordering) -> Self;
    /// Plain atomic or; returns the previous value.
    fn raw_fetch_or(cell: &Self::Cell, value: Self, order: Ordering) -> Self;
    /// Plain atomic and; returns the previous value.
    fn raw_fetch_and(cell: &Self::Cell, value: Self, order: Ordering) -> Self;
    /// Wrapping negation, so that subtraction is addition of the negative.
    fn wrapping_negate(self) -> Self;
    /// Wrapping sum.
    fn wrapping_sum(self, other: Self) -> Self;
    /// Bitwise or.
    fn bit_or(self, other: Self) -> Self;
    /// Bitwise and.
    fn bit_and(self, other: Self) -> Self;
}

macro_rules! word {
    ($($type:ty => $cell:ty),*) => {$(
        impl Word for $type {
            type Cell = $cell;
            #[inline(always)] fn into_cell(self) -> $cell { <$cell>::new(self) }
            #[inline(always)] fn to_bits(self) -> u64 { self as u64 }
            #[inline(always)] fn from_bits(bits: u64) -> Self { bits as $type }
            #[inline(always)] fn raw_load(cell: &$cell, order: Ordering) -> Self { cell.load(order) }
            #[inline(always)] fn raw_store(cell: &$cell, value: Self, order: Ordering) { cell.store(value, order) }
            #[inline(always)]
            fn raw_swap(cell: &$cell, value: Self, order: Ordering) -> Self { cell.swap(value, order) }
            #[inline(always)]
            fn raw_compare_exchange(
                cell: &$cell,
                current: Self,
                new: Self,
                success: Ordering,
                failure: Ordering,
            ) -> Result<Self, Self> {
                cell.compare_exchange(current, new, success, failure)
            }
        }
        impl Integer for $type {
            #[inline(always)]
            fn raw_fetch_add(cell: &$cell, value: Self, order: Ordering) -> Self { cell.fetch_add(value, order) }
            #[inline(always)]
            fn raw_fetch_or(cell: &$cell, value: Self, order: Ordering) -> Self { cell.fetch_or(value, order) }
            #[inline(always)]
            fn raw_fetch_and(cell: &$cell, value: Self, order: Ordering) -> Self { cell.fetch_and(value, order) }
            #[inline(always)] fn wrapping_negate(self) -> Self { self.wrapping_neg() }
            #[inline(always)] fn wrapping_sum(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)] fn bit_or(self, other: Self) -> Self { self | other }
            #[inline(always)] fn bit_and(self, other: Self) -> Self { self & other }
        }
    )*};
}
word!(u8 => AtomicU8, u16 => AtomicU16, u32 => AtomicU32, u64 => AtomicU64, usize => AtomicUsize);

impl Word for *mut () {
    type Cell = AtomicPtr<()>;
    #[inline(always)]
    fn into_cell(self) -> Self::Cell {
        AtomicPtr::new(self)
    }
    #[inline(always)]
    fn to_bits(self) -> u64 {
        self.expose_provenance() as u64
    }
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        std::ptr::with_exposed_provenance_mut(bits as usize)
    }
    #[inline(always)]
    fn raw_load(cell: &Self::Cell, order: Ordering) -> Self {
        cell.load(order)
    }
    #[inline(always)]
    fn raw_store(cell: &Self::Cell, value: Self, order: Ordering) {
        cell.store(value, order)
    }
    #[inline(always)]
    fn raw_swap(cell: &Self::Cell, value: Self, order: Ordering) -> Self {
        cell.swap(value, order)
    }
    #[inline(always)]
    fn raw_compare_exchange(
        cell: &Self::Cell,
        current: Self,
        new: Self,
        success: Ordering,
        failure: Ordering,
    ) -> Result<Self, Self> {
        cell.compare_exchange(current, new, success, failure)
    }
}

/// Two words that are read and compare-exchanged as one: a leaf's entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Pair {
    /// The word at the lower address: the key word of an entry.
    pub first: u64,
    /// The word at the higher address: the value word of an entry.
    pub second: u64,
}

/// The memory of one [`Pair`].
///
/// The two halves are standard atomics, so that the simulated side can treat them as words.
#[derive(Debug, Default)]
#[repr(C, align(16))]
pub struct PairCell {
    /// The half at the lower address.
    pub first: AtomicU64,
    /// The half at the higher address.
    pub second: AtomicU64,
}

/// What Everleaf needs of a machine: the only way to a shared word, a cache line, memory or time.
///
/// *Orderings* are the source's claim about real memory models; a simulated machine executes
/// sequential consistency, total store order or a weak memory, where a load may be given the value before the last
/// write, and treats every access as a scheduling point.
///
/// *Persistence.* [`Machine::flush`] starts the write-back of one line and orders nothing;
/// [`Machine::drain`] waits until every line this thread flushed is durable. What a crash keeps of
/// lines that were not drained is the persistence model's business (`docs/persistency.md`).
pub trait Machine: Copy + Default + Send + Sync + 'static {
    /// Whether this is the simulated side. Branches on it vanish at compile time.
    const SIMULATED: bool;

    /// Atomic load.
    #[track_caller]
    fn load<W: Word>(cell: &W::Cell, order: Ordering) -> W;
    /// Atomic store.
    #[track_caller]
    fn store<W: Word>(cell: &W::Cell, value: W, order: Ordering);
    /// Atomic exchange; returns the previous value.
    #[track_caller]
    fn swap<W: Word>(cell: &W::Cell, value: W, order: Ordering) -> W;
    /// Strong compare-and-exchange.
    #[track_caller]
    fn compare_exchange<W: Word>(
        cell: &W::Cell,
        current: W,
        new: W,
        success: Ordering,
        failure: Ordering,
    ) -> Result<W, W>;
    /// Atomic wrapping add; returns the previous value.
    #[track_caller]
    fn fetch_add<W: Integer>(cell: &W::Cell, value: W, order: Ordering) -> W;
    /// Atomic or; returns the previous value.
    #[track_caller]
    fn fetch_or<W: Integer>(cell: &W::Cell, value: W, order: Ordering) -> W;
    /// Atomic and; returns the previous value.
    #[track_caller]
    fn fetch_and<W: Integer>(cell: &W::Cell, value: W, order: Ordering) -> W;

    /// Reads a word that no other thread can write now (unpublished or immutable): no scheduling
    /// point, no ordering.
    #[track_caller]
    fn read_private<W: Word>(cell: &W::Cell) -> W;
    /// Writes a word that no other thread can reach yet: no scheduling point, no ordering. If the
    /// word is persistent the persistence model still sees the write.
    #[track_caller]
    fn write_private<W: Word>(cell: &W::Cell, value: W);

    /// Atomic load of both halves at one instant (acquire).
    #[track_caller]
    fn load_pair(cell: &PairCell) -> Pair;
    /// Compare-and-exchange of both halves at one instant (acquire and release).
    ///
    /// In persistent memory a caller must change only one of the halves: 8 bytes are what a crash
    /// keeps whole. The simulated machine enforces it.
    #[track_caller]
    fn compare_exchange_pair(cell: &PairCell, current: Pair, new: Pair) -> Result<Pair, Pair>;
    /// As [`Machine::compare_exchange_pair`], but both halves may change: in persistent memory they may
    /// reach the medium in either order, so a crash may keep one of them without the other.
    #[track_caller]
    fn claim_pair(cell: &PairCell, current: Pair, new: Pair) -> Result<Pair, Pair> {
        Self::compare_exchange_pair(cell, current, new)
    }
    /// Writes a pair no other thread may act on yet. Both halves may reach the medium in either
    /// order; visible like two relaxed stores, `second` first.
    #[track_caller]
    fn store_pair(cell: &PairCell, value: Pair);

    /// A memory fence.
    #[track_caller]
    fn fence(order: Ordering);
    /// The cheap half of an asymmetric fence: orders this thread's earlier stores before its later
    /// loads as seen by a thread that runs [`Machine::heavy_barrier`].
    fn light_barrier();
    /// The expensive half of an asymmetric fence: every other thread behaves as if it had executed a
    /// full fence at some point during this call.
    fn heavy_barrier();

    /// The slots of `line` whose byte equals `byte`, as a bit mask (bit i = byte i).
    fn match_bytes(line: &FingerprintLine<Self>, byte: u8) -> u64;

    /// The same of a line of words.
    fn match_words(line: &AtomicLine<Self>, byte: u8) -> u64 {
        line.matches_by_words(byte)
    }

    /// Which of 64 entries of 16 bytes begin with the word `key`, as a bit mask; `None` if this machine
    /// has no fast way. Each word is read once, relaxed, in any order; a word that is stored to
    /// meanwhile may be read as anything, so the caller validates.
    ///
    /// # Safety
    /// 1024 readable bytes at a multiple of 64, all of them atomic words or parts of such.
    unsafe fn match_entries(entries: *const u8, key: u64) -> Option<u64> {
        let _ = (entries, key);
        None
    }

    /// Which of 32 words are at most `key`, as a bit mask; `None` if this machine has no fast way. Read
    /// as in [`Self::match_entries`].
    ///
    /// # Safety
    /// 256 readable bytes at a multiple of 64, all of them atomic words, or parts of such, or what
    /// never changes.
    unsafe fn match_at_most(words: *const u8, key: u64) -> Option<u32> {
        let _ = (words, key);
        None
    }

    /// Starts the write-back of the line that holds `address`.
    #[track_caller]
    fn flush(address: *const u8);
    /// Waits until all lines flushed by this thread are durable.
    #[track_caller]
    fn drain();

    /// Copies `source` into memory that no other thread can reach yet. Order within the copy is
    /// unspecified; the persistence model may keep any subset of its 8-byte words.
    ///
    /// # Safety
    /// `destination .. destination + source.len()` must be writable and owned by the caller; on a
    /// simulated machine also 8-byte aligned at its start.
    #[track_caller]
    unsafe fn write_bytes(destination: *mut u8, source: &[u8]);
    /// Announces that `source .. source + length` is about to be read as plain bytes. The bytes
    /// must not change while they are read; a simulated machine checks that.
    ///
    /// # Safety
    /// The range must be readable.
    #[track_caller]
    unsafe fn read_bytes(source: *const u8, length: usize);

    /// Whether a whole line can be stored in this way.
    fn has_line_store(how: LineStore) -> bool {
        let _ = how;
        false
    }
    /// Stores a whole line, which no other thread stores to now, after all earlier stores of this
    /// thread; false if nothing was stored ([`AtomicLine::store_at_once`]).
    #[track_caller]
    fn store_line(line: &AtomicLine<Self>, words: &[u64; LINE_SIZE / 8], how: LineStore) -> bool {
        let _ = (line, words, how);
        false
    }

    /// Asks for the line at `address` to be brought near; no effect on meaning.
    fn prefetch(address: *const u8);
    /// The same for a line that is likely to be used only once: it does not displace others where the
    /// machine can tell.
    fn prefetch_once(address: *const u8) {
        Self::prefetch(address);
    }
    /// The same for a line that will be stored to soon.
    fn prefetch_write(address: *const u8) {
        Self::prefetch(address);
    }
    /// One turn of a waiting loop; `attempt` counts from 0. Hardware pauses and yields in the end;
    /// a simulated machine runs somebody else until memory changes.
    fn spin(attempt: u32);

    /// Memory for volatile nodes; null when there is none.
    fn allocate(layout: Layout) -> *mut u8;
    /// As [`Machine::allocate`], all zero. Large memory comes so from the system, and is not touched.
    fn allocate_zeroed(layout: Layout) -> *mut u8 {
        let memory = Self::allocate(layout);
        if !memory.is_null() {
            // SAFETY: allocated just now with this size, and nobody else's.
            unsafe { memory.write_bytes(0, layout.size()) }
        }
        memory
    }
    /// As [`Machine::allocate_zeroed`], of which little may ever be touched: only small pages that are take memory,
    /// until [`Machine::join_pages`].
    fn allocate_sparse(layout: Layout) -> *mut u8 {
        Self::allocate_zeroed(layout)
    }
    /// Much of some memory is used that was thought to be sparse: it gets huge pages, if the system has any, and what
    /// is in it stays. No effect on meaning. It may take milliseconds.
    fn join_pages(start: *mut u8, size: usize) {
        let _ = (start, size);
    }
    /// Returns memory to the machine.
    ///
    /// # Safety
    /// `pointer` came from [`Machine::allocate`], or another of those above, with the same layout and is not used
    /// afterwards.
    unsafe fn deallocate(pointer: *mut u8, layout: Layout);

    /// Tells the machine that words go out of use with what they are part of, and their memory may be
    /// anybody's from now on. Only where there is a simulated machine, and nothing on others.
    #[inline(always)]
    fn drop_words(start: *const u8, length: usize) {
        let _ = (start, length);
    }

    /// Tells the machine that a range of persistent memory was handed out (`live`) or taken back.
    /// A simulated machine fails a thread that touches a range that was taken back.
    fn lifetime(start: *const u8, length: usize, live: bool);

    /// Whether the calling thread is one whose every access is a step of a simulated machine, which fails one that
    /// leads nowhere. Never on others.
    #[inline(always)]
    fn is_stepped() -> bool {
        false
    }

    /// Whether space of the pool that the calling thread asks for is to be refused, as if the pool were full: on a
    /// simulated machine that refuses one request of a schedule. Never on others.
    #[inline(always)]
    fn refuses_space() -> bool {
        false
    }

    /// A coverage mark on a rare branch: nothing on hardware, recorded by a simulated machine.
    fn mark(name: &'static str);
    /// Tells the machine that this thread has taken a lock or opened one: a counting machine tells flushes under a
    /// lock from others.
    #[inline(always)]
    fn holds_lock(_is_held: bool) {}
    /// Whether the planted bug `name` is switched on: never on hardware, a constant there.
    fn mutant(name: &'static str) -> bool;

    /// Runs `task(0) .. task(count - 1)`, on as many threads as asked where the machine has them;
    /// returns when all are done. A simulated machine runs them one after the other, but for the recoveries
    /// of some lives after a crash.
    fn parallel(threads: usize, count: usize, task: &(dyn Fn(usize) + Sync)) {
        let _ = threads;
        (0..count).for_each(task);
    }

    /// Nanoseconds of a monotonic clock.
    fn now_ns() -> u64;
    /// Milliseconds since 1970-01-01 UTC, by the clock of the system: it may be set, also back. A
    /// machine without a calendar stands at 0, where nothing expires.
    fn wall_clock_ms() -> u64 {
        0
    }
}
