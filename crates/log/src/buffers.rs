//! The append buffers: a thread takes an LSN and leaves its records, without a system call.
//!
//! An LSN is taken under the lock of the buffer that gets the records. Whoever collects takes the
//! locks of all buffers at once, and so finds every LSN that was taken and not collected before, and
//! no other: what one collection finds is dense.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use everleaf_machine::{LINE_SIZE, prefetch_write};

use crate::record::encode_entry;
use crate::{Lsn, Record};

/// How many bytes may wait in one buffer before those who wait help to write them.
const PATIENT_SIZE: usize = 4 << 20;
/// The space that an emptied buffer keeps.
const SPARE_CAPACITY: usize = 1 << 20;

/// How far ahead lines are asked for, at most.
const AHEAD_SIZE_MAX: usize = 8 * LINE_SIZE;

/// Two cache lines, because the prefetcher fetches them in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Buffer(Mutex<Vec<u8>>);

impl Buffer {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        // A panic between `encode_entry` and the unlock is impossible but for lack of memory, which
        // aborts; so what the lock protects is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All append buffers of a log.
pub(crate) struct Buffers {
    buffers: Box<[Buffer]>,
    next: AtomicU64,
    /// A buffer has more than [`PATIENT_SIZE`] bytes.
    is_crowded: AtomicBool,
}

/// What a collection found.
pub(crate) struct Collected {
    /// LSN of the first group.
    pub(crate) first: Lsn,
    /// Number of groups; 0 if nothing was appended.
    pub(crate) count: u64,
}

impl Buffers {
    /// `count` empty buffers; the first append gets LSN `next`.
    pub(crate) fn new(count: usize, next: Lsn) -> Self {
        Buffers {
            buffers: (0..count).map(|_| Buffer::default()).collect(),
            next: AtomicU64::new(next),
            is_crowded: AtomicBool::new(false),
        }
    }

    /// The LSN taken last.
    pub(crate) fn last_lsn(&self) -> Lsn {
        // Acquire: whoever uses this LSN as a bound has seen what was done before it was taken;
        // pairs with the AcqRel in `append`.
        self.next.load(Ordering::Acquire) - 1
    }

    /// Puts a group of `size` bytes into buffer `index` (modulo their number); returns its LSN and
    /// the bytes that wait in that buffer.
    pub(crate) fn append(&self, index: usize, size: usize, records: &[Record<'_>]) -> (Lsn, usize) {
        let mut buffer = self.buffers[index % self.buffers.len()].lock();
        // AcqRel: what was done before an LSN was taken is seen by who takes a later one or reads
        // it; pairs with itself and with the Acquire in `last_lsn`.
        let lsn = self.next.fetch_add(1, Ordering::AcqRel);
        let start = buffer.len();
        encode_entry(&mut buffer, lsn, size, records);
        ask_ahead(&mut buffer, start);
        if buffer.len() > PATIENT_SIZE {
            // Relaxed: a hint, see `is_crowded`.
            self.is_crowded.store(true, Ordering::Relaxed);
        }
        (lsn, buffer.len())
    }

    /// Whether more bytes wait than memory should be spent on.
    pub(crate) fn is_crowded(&self) -> bool {
        // Relaxed: a hint. Who misses it helps with the next commit.
        self.is_crowded.load(Ordering::Relaxed)
    }

    /// Takes everything that waits and appends it to `bytes`. One thread at a time may do so;
    /// `collected` is the last LSN of the collection before.
    ///
    /// `spares` lends empty buffers and their space; it is for the same caller's next call.
    pub(crate) fn collect(
        &self,
        collected: Lsn,
        spares: &mut Vec<Vec<u8>>,
        bytes: &mut Vec<u8>,
    ) -> Collected {
        spares.resize_with(self.buffers.len(), Vec::new);
        let mut held: Vec<_> = self.buffers.iter().map(Buffer::lock).collect();
        // Relaxed: LSNs are taken under the locks that are held here.
        let next = self.next.load(Ordering::Relaxed);
        // Relaxed: a hint, and what was crowded is empty as soon as the locks are free.
        self.is_crowded.store(false, Ordering::Relaxed);
        for (buffer, spare) in held.iter_mut().zip(spares.iter_mut()) {
            std::mem::swap(&mut **buffer, spare);
        }
        drop(held);
        bytes.reserve(spares.iter().map(Vec::len).sum());
        for spare in spares {
            bytes.append(spare);
            spare.shrink_to(SPARE_CAPACITY);
        }
        Collected { first: collected + 1, count: next - 1 - collected }
    }
}

/// Asks for the lines behind the group that begins at `start`: the next will be written there, and
/// if they are still where the collector read them, its unlocking waits for all of them.
#[inline(always)]
fn ask_ahead(buffer: &mut Vec<u8>, start: usize) {
    let size = (buffer.len() - start).min(AHEAD_SIZE_MAX) + LINE_SIZE;
    for byte in buffer.spare_capacity_mut().iter().take(size).step_by(LINE_SIZE) {
        prefetch_write(byte.as_ptr().cast());
    }
}

/// The number of the calling thread, counted from its first call.
pub(crate) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        // Relaxed: only that numbers differ matters.
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::decode_entries;

    #[test]
    fn what_is_collected_is_dense_whatever_the_threads_do() {
        const THREADS: usize = 4;
        const EACH: usize = 2000;
        let buffers = Buffers::new(3, 1);
        let mut collected = 0;
        let mut spares = Vec::new();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|index| {
                    let buffers = &buffers;
                    scope.spawn(move || {
                        for _ in 0..EACH {
                            buffers.append(index, 0, &[]);
                        }
                    })
                })
                .collect();
            loop {
                let are_done = threads.iter().all(|thread| thread.is_finished());
                let mut bytes = Vec::new();
                let found = buffers.collect(collected, &mut spares, &mut bytes);
                let mut lsns: Vec<_> =
                    decode_entries(&bytes).unwrap().iter().map(|entry| entry.lsn).collect();
                lsns.sort_unstable();
                let expected: Vec<_> = (found.first..found.first + found.count).collect();
                assert_eq!(lsns, expected);
                collected += found.count;
                if are_done {
                    break;
                }
            }
        });
        assert_eq!(collected, (THREADS * EACH) as u64);
        assert_eq!(buffers.last_lsn(), collected);
    }
}
