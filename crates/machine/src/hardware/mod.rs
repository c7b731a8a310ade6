//! The hardware side: every operation of [`Machine`] as plain instructions.

mod barrier;
mod line;
mod memory;
mod pair;
#[cfg(feature = "simulated")]
mod set_clock;
mod write_back;

use std::alloc::Layout;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::atomic::{AtomicLine, FingerprintLine};
use crate::fingerprint::match_line;
#[cfg(target_arch = "x86_64")]
use crate::keys;
use crate::line_store::LineStore;
use crate::seam::{Integer, Machine, Pair, PairCell, Word};

pub use memory::prefetch_write;

/// How long the calling thread has had a processor: what other work leaves of the clock's time does not
/// count.
pub fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    // Never negative, and below 10^9 nanoseconds.
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The machine this process runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hardware;

#[cfg(feature = "simulated")]
impl Hardware {
    /// Sets the wall clock of the calling thread to so many milliseconds since 1970-01-01 UTC; `None`: it is that
    /// of the system again. For tests.
    pub fn set_wall_clock_ms(ms: Option<u64>) {
        set_clock::set(ms);
    }
}

impl Machine for Hardware {
    const SIMULATED: bool = false;

    #[inline(always)]
    fn load<W: Word>(cell: &W::Cell, order: Ordering) -> W {
        W::raw_load(cell, order)
    }

    #[inline(always)]
    fn store<W: Word>(cell: &W::Cell, value: W, order: Ordering) {
        W::raw_store(cell, value, order)
    }

    #[inline(always)]
    fn swap<W: Word>(cell: &W::Cell, value: W, order: Ordering) -> W {
        W::raw_swap(cell, value, order)
    }

    #[inline(always)]
    fn compare_exchange<W: Word>(
        cell: &W::Cell,
        current: W,
        new: W,
        success: Ordering,
        failure: Ordering,
    ) -> Result<W, W> {
        W::raw_compare_exchange(cell, current, new, success, failure)
    }

    #[inline(always)]
    fn fetch_add<W: Integer>(cell: &W::Cell, value: W, order: Ordering) -> W {
        W::raw_fetch_add(cell, value, order)
    }

    #[inline(always)]
    fn fetch_or<W: Integer>(cell: &W::Cell, value: W, order: Ordering) -> W {
        W::raw_fetch_or(cell, value, order)
    }

    #[inline(always)]
    fn fetch_and<W: Integer>(cell: &W::Cell, value: W, order: Ordering) -> W {
        W::raw_fetch_and(cell, value, order)
    }

    #[inline(always)]
    fn read_private<W: Word>(cell: &W::Cell) -> W {
        // Relaxed: no other thread writes the word now.
        W::raw_load(cell, Ordering::Relaxed)
    }

    #[inline(always)]
    fn write_private<W: Word>(cell: &W::Cell, value: W) {
        // Relaxed: no other thread can reach the word yet; its publication orders it.
        W::raw_store(cell, value, Ordering::Relaxed)
    }

    #[inline(always)]
    fn load_pair(cell: &PairCell) -> Pair {
        pair::load(cell)
    }

    #[inline(always)]
    fn compare_exchange_pair(cell: &PairCell, current: Pair, new: Pair) -> Result<Pair, Pair> {
        pair::compare_exchange(cell, current, new)
    }

    #[inline(always)]
    fn store_pair(cell: &PairCell, value: Pair) {
        // Relaxed: nobody acts on the pair before its publication; `second` first by the contract.
        cell.second.store(value.second, Ordering::Relaxed);
        // Release: a thread that sees the new first half sees the second; pairs with `load_pair`.
        cell.first.store(value.first, Ordering::Release);
    }

    #[inline(always)]
    fn fence(order: Ordering) {
        std::sync::atomic::fence(order)
    }

    #[inline(always)]
    fn light_barrier() {
        barrier::light()
    }

    fn heavy_barrier() {
        barrier::heavy()
    }

    #[inline(always)]
    fn match_bytes(line: &FingerprintLine<Self>, byte: u8) -> u64 {
        // SAFETY: a `FingerprintLine` is a readable, 64-byte aligned line of byte atomics.
        unsafe { match_line(line.as_ptr(), byte) }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn match_words(line: &AtomicLine<Self>, byte: u8) -> u64 {
        line::match_words(line, byte).unwrap_or_else(|| line.matches_by_words(byte))
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn match_entries(entries: *const u8, key: u64) -> Option<u64> {
        // SAFETY: the caller's promise.
        unsafe { keys::match_entries(entries, key) }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn match_at_most(words: *const u8, key: u64) -> Option<u32> {
        // SAFETY: the caller's promise.
        unsafe { keys::match_at_most(words, key) }
    }

    #[inline(always)]
    fn flush(address: *const u8) {
        write_back::flush(address)
    }

    #[inline(always)]
    fn drain() {
        write_back::drain()
    }

    #[inline(always)]
    unsafe fn write_bytes(destination: *mut u8, source: &[u8]) {
        // SAFETY: the caller owns the destination; a private range cannot overlap a live slice.
        unsafe { std::ptr::copy_nonoverlapping(source.as_ptr(), destination, source.len()) }
    }

    #[inline(always)]
    unsafe fn read_bytes(_source: *const u8, _length: usize) {}

    #[inline(always)]
    fn has_line_store(how: LineStore) -> bool {
        crate::cpu::has_line_store(how)
    }

    #[inline]
    fn store_line(line: &AtomicLine<Self>, words: &[u64; 8], how: LineStore) -> bool {
        crate::cpu::has_line_store(how) && line::store(line, words, how)
    }

    #[inline(always)]
    fn prefetch(address: *const u8) {
        memory::prefetch(address)
    }

    #[inline(always)]
    fn prefetch_write(address: *const u8) {
        memory::prefetch_write(address)
    }

    #[inline(always)]
    fn prefetch_once(address: *const u8) {
        memory::prefetch_once(address)
    }

    #[inline]
    fn spin(attempt: u32) {
        // A holder may have lost its CPU: after a short while give ours up.
        if attempt < 64 { std::hint::spin_loop() } else { std::thread::yield_now() }
    }

    fn allocate(layout: Layout) -> *mut u8 {
        memory::allocate(layout)
    }

    fn allocate_zeroed(layout: Layout) -> *mut u8 {
        memory::allocate_zeroed(layout)
    }

    fn allocate_sparse(layout: Layout) -> *mut u8 {
        memory::allocate_sparse(layout)
    }

    fn join_pages(start: *mut u8, size: usize) {
        memory::join_pages(start, size);
    }

    unsafe fn deallocate(pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller returns what `allocate` gave.
        unsafe { memory::deallocate(pointer, layout) }
    }

    #[inline(always)]
    fn lifetime(_start: *const u8, _length: usize, _live: bool) {}

    #[inline(always)]
    fn mark(_name: &'static str) {}

    #[inline(always)]
    fn mutant(_name: &'static str) -> bool {
        false
    }

    fn parallel(threads: usize, count: usize, task: &(dyn Fn(usize) + Sync)) {
        let threads = threads.min(count);
        if threads <= 1 {
            return (0..count).for_each(task);
        }
        let next = std::sync::atomic::AtomicUsize::new(0);
        let work = || loop {
            // Relaxed: only hands out numbers; the scope's join orders the tasks' effects.
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                break;
            }
            task(index);
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // A thread that cannot be started leaves its share to the others.
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
    }

    fn now_ns() -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    #[inline]
    fn wall_clock_ms() -> u64 {
        #[cfg(feature = "simulated")]
        if let Some(ms) = set_clock::set_ms() {
            return ms;
        }
        // A clock before 1970 has not been set yet: nothing expires by it.
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| since.as_millis() as u64)
    }
}
