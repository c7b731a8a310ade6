//! The append buffers: a thread takes a place in the log, changes the store, and fills the place,
//! without a system call.
//!
//! A place is an LSN. It is taken by one addition, *before* the change that its records tell of can be
//! seen; so a thread that has seen the change takes a later one. Its records are left in a buffer when the
//! change is made. In between nothing behind the place may become durable without it.
//!
//! So that this holds nobody up, places belong to one of two *halves* in turn. A collection turns: it
//! changes, in the word that gives LSNs, the half to which places belong from then on. It then waits
//! until all places of the other half are filled, and takes what is there; threads that come meanwhile
//! use the new half. What one collection takes is *dense*: every LSN from the one before up to its
//! turn, and no other.
//!
//! Invariants:
//! - B1 a place is filled in the half it was taken in, once;
//! - B2 nobody turns before everything of the turn before was taken: the half that is turned to is
//!   empty, and of a place that is not filled at most one turn was made.

use std::sync::Condvar;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use everleaf_machine::lock_rank::Rank;
use everleaf_machine::ranked_mutex::{RankedGuard, RankedMutex};
use everleaf_machine::{LINE_SIZE, prefetch_write};

use crate::record::encode_entry;
use crate::{Disk, Error, Lsn, Record, Result};

/// What everybody is told when a place was neither filled nor given up.
pub(crate) const BROKEN_OFF: &str = "a write ended between its change of the store and its record in the log: the \
    log takes nothing more, since it would lack that change; open the store again";

/// How many bytes may wait in one buffer before the threads that wait help to write them.
const PATIENT_SIZE: usize = 4 << 20;
/// The space that an emptied buffer keeps.
const SPARE_CAPACITY: usize = 1 << 20;
/// How far ahead lines are asked for, at most.
const AHEAD_SIZE_MAX: usize = 8 * LINE_SIZE;
/// The bit of the word of LSNs that says which half places belong to.
const HALF: u64 = 1 << 63;
/// How often a collection looks again, and how long it spins each time, before it sleeps: a write that
/// is not interrupted takes less.
const LOOKS: u32 = 8;
const SPINS: u32 = 40;

/// What was left of one half.
#[derive(Default)]
struct Filled {
    bytes: Vec<u8>,
    /// Places that were filled.
    count: u64,
}

#[derive(Default)]
struct State {
    halves: [Filled; 2],
    /// A collection sleeps until places of this half are filled.
    awaited: Option<usize>,
    /// A place was left neither filled nor given up.
    is_broken: bool,
}

/// Two cache lines, because the prefetcher fetches them in pairs.
#[repr(align(128))]
struct Buffer(RankedMutex<State>);

impl Default for Buffer {
    fn default() -> Self {
        Buffer(RankedMutex::new(Rank::LogBuffer, State::default()))
    }
}

impl Buffer {
    /// A panic between `encode_entry` and the unlock is impossible but for lack of memory, which
    /// aborts; so what the lock protects is whole.
    #[inline]
    fn lock(&self) -> RankedGuard<'_, State> {
        self.0.lock()
    }
}

/// A place that was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) lsn: Lsn,
    half: usize,
}

/// All append buffers of a log.
pub(crate) struct Buffers {
    buffers: Box<[Buffer]>,
    /// The next LSN, and in [`HALF`] the half it belongs to.
    next: AtomicU64,
    /// Every change up to this LSN was made when its place was filled, and was collected.
    collected: AtomicU64,
    /// A buffer has more than [`PATIENT_SIZE`] bytes.
    is_crowded: AtomicBool,
    /// Whether a place was filled for which a collection sleeps.
    has_come: RankedMutex<bool>,
    comes: Condvar,
}

/// What a collection found.
pub(crate) struct Collected {
    /// LSN of the first group.
    pub(crate) first: Lsn,
    /// Number of groups; 0 if nothing was appended.
    pub(crate) count: u64,
}

impl Buffers {
    /// `count` empty buffers; the first place gets LSN `next`.
    pub(crate) fn new(count: usize, next: Lsn) -> Self {
        Buffers {
            buffers: (0..count).map(|_| Buffer::default()).collect(),
            next: AtomicU64::new(next),
            collected: AtomicU64::new(next - 1),
            is_crowded: AtomicBool::new(false),
            has_come: RankedMutex::new(Rank::LogComes, false),
            comes: Condvar::new(),
        }
    }

    /// The LSN taken last and not given back.
    pub(crate) fn last_lsn(&self) -> Lsn {
        // Acquire: a thread that uses this LSN as a bound has seen what was done before it was taken, and
        // a thread that has seen a change finds its LSN here; pairs with the AcqRel in `take`.
        (self.next.load(Ordering::Acquire) & !HALF) - 1
    }

    /// Every change up to this LSN is made and collected.
    pub(crate) fn collected(&self) -> Lsn {
        // Acquire: a thread that reads the store from here on finds these changes; pairs with the Release in
        // `collect`.
        self.collected.load(Ordering::Acquire)
    }

    /// Takes the next place. It must be filled, given up or broken off, whatever happens.
    #[inline]
    pub(crate) fn take(&self) -> Taken {
        // AcqRel: a thread that has seen a change made behind a place takes a later one; what was done before an
        // LSN was taken is seen by a thread that takes a later one or reads it. Pairs with itself and with the
        // Acquire in `last_lsn`.
        let word = self.next.fetch_add(1, Ordering::AcqRel);
        Taken { lsn: word & !HALF, half: usize::from(word & HALF != 0) }
    }

    /// Puts a group of `size` bytes into buffer `index` (modulo their number), at the place that was
    /// taken for it; returns the bytes that wait in that buffer.
    pub(crate) fn fill(
        &self,
        index: usize,
        place: Taken,
        size: usize,
        records: &[Record<'_>],
    ) -> usize {
        let mut state = self.buffers[index % self.buffers.len()].lock();
        let filled = &mut state.halves[place.half];
        let start = filled.bytes.len();
        encode_entry(&mut filled.bytes, place.lsn, size, records);
        ask_ahead(&mut filled.bytes, start);
        filled.count += 1;
        let waiting = filled.bytes.len();
        let is_awaited = state.awaited == Some(place.half);
        drop(state);
        if is_awaited {
            self.wake();
        }
        if waiting > PATIENT_SIZE {
            // Relaxed: a hint, see `is_crowded`.
            self.is_crowded.store(true, Ordering::Relaxed);
        }
        waiting
    }

    /// Takes a place back that is not needed; false if others have taken one since, or a collection
    /// counts on it: then it must be filled, with nothing.
    pub(crate) fn give_back(&self, place: Taken) -> bool {
        let half = if place.half == 0 { 0 } else { HALF };
        let (after, before) = ((place.lsn + 1) | half, place.lsn | half);
        // AcqRel: as in `take`; the same LSN is taken again. Relaxed on failure: nothing is read. The
        // half is a part of the word, so no collection has turned since (B2).
        let given = self.next.compare_exchange(after, before, Ordering::AcqRel, Ordering::Relaxed);
        given.is_ok()
    }

    /// Says that nobody will ever fill this place, though its change may have been made: no
    /// collection succeeds any more.
    pub(crate) fn break_off(&self, index: usize) {
        self.buffers[index % self.buffers.len()].lock().is_broken = true;
        self.wake();
    }

    fn come(&self) -> RankedGuard<'_, bool> {
        self.has_come.lock()
    }

    fn wake(&self) {
        *self.come() = true;
        self.comes.notify_one();
    }

    /// Whether more bytes wait than memory should be spent on.
    pub(crate) fn is_crowded(&self) -> bool {
        // Relaxed: a hint. A thread that misses it helps with the next commit.
        self.is_crowded.load(Ordering::Relaxed)
    }

    /// Takes everything for which a place was taken before the call, and appends it to `bytes`; waits
    /// for places that are not filled. One thread at a time may do so.
    ///
    /// `spare` lends an empty buffer and its space; it is for the same caller's next call.
    ///
    /// # Errors
    /// [`Error::Failed`] if a place was broken off.
    pub(crate) fn collect<D: Disk>(
        &self,
        disk: &D,
        spare: &mut Vec<u8>,
        bytes: &mut Vec<u8>,
    ) -> Result<Collected> {
        // Relaxed: only the caller stores it.
        let collected = self.collected.load(Ordering::Relaxed);
        if self.last_lsn() == collected {
            return Ok(Collected { first: collected + 1, count: 0 });
        }
        // Relaxed: a hint, and what was crowded is empty soon.
        self.is_crowded.store(false, Ordering::Relaxed);
        // AcqRel: as in `take`. Places belong to the other half from here on.
        let word = self.next.fetch_xor(HALF, Ordering::AcqRel);
        let (half, last) = (usize::from(word & HALF != 0), (word & !HALF) - 1);
        let mut missing = last - collected;
        let mut looks = 0;
        loop {
            let sleeps = looks >= LOOKS;
            missing -= self.gather(half, sleeps, spare, bytes)?;
            if missing == 0 || disk.mutant("log.takes_what_is_there") {
                break;
            }
            looks += 1;
            if disk.waits("log.awaits_places") {
                continue;
            }
            match sleeps {
                true => self.sleep(),
                false => (0..SPINS).for_each(|_| std::hint::spin_loop()),
            }
        }
        // Release: a thread that begins to read the store from here on finds all these changes; pairs with the
        // Acquire in `collected`. Each was made before its place was filled, under a lock that was held
        // here since.
        self.collected.store(last, Ordering::Release);
        Ok(Collected { first: collected + 1, count: last - collected })
    }

    /// Takes what has been left of one half; returns for how many places. With `sleeps`, a thread that
    /// fills another wakes the caller.
    fn gather(
        &self,
        half: usize,
        sleeps: bool,
        spare: &mut Vec<u8>,
        bytes: &mut Vec<u8>,
    ) -> Result<u64> {
        let mut count = 0;
        for buffer in &self.buffers {
            let mut state = buffer.lock();
            if state.is_broken {
                return Err(Error::Failed(BROKEN_OFF.into()));
            }
            state.awaited = sleeps.then_some(half);
            let filled = &mut state.halves[half];
            if filled.count == 0 {
                continue;
            }
            count += std::mem::take(&mut filled.count);
            std::mem::swap(&mut filled.bytes, spare);
            drop(state);
            bytes.append(spare);
            spare.shrink_to(SPARE_CAPACITY);
        }
        Ok(count)
    }

    /// Until a place is filled that was missing when the buffers were looked at.
    fn sleep(&self) {
        let mut has_come = self.come();
        while !*has_come {
            has_come = has_come.wait(&self.comes);
        }
        *has_come = false;
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
    use crate::simulated::{Faults, SimulatedDisk};

    fn disk() -> SimulatedDisk {
        SimulatedDisk::new(Faults::default(), 1)
    }

    /// The LSNs that a collection takes, sorted.
    fn lsns(buffers: &Buffers, spare: &mut Vec<u8>) -> Vec<Lsn> {
        let mut bytes = Vec::new();
        let found = buffers.collect(&disk(), spare, &mut bytes).unwrap();
        let mut lsns: Vec<_> =
            decode_entries(&bytes).unwrap().iter().map(|entry| entry.lsn).collect();
        lsns.sort_unstable();
        assert_eq!(lsns, (found.first..found.first + found.count).collect::<Vec<_>>());
        lsns
    }

    #[test]
    fn what_is_collected_is_dense_whatever_the_threads_do() {
        const THREADS: usize = 4;
        const EACH: usize = 2000;
        let buffers = Buffers::new(3, 1);
        let given_back = AtomicUsize::new(0);
        let (mut collected, mut spare) = (0, Vec::new());
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|index| {
                    let (buffers, given_back) = (&buffers, &given_back);
                    scope.spawn(move || {
                        for number in 0..EACH {
                            let place = buffers.take();
                            if number % 5 == 0 {
                                std::thread::yield_now();
                            }
                            if number % 3 == 0 && buffers.give_back(place) {
                                // Relaxed: read when the threads have ended.
                                given_back.fetch_add(1, Ordering::Relaxed);
                            } else {
                                buffers.fill(index, place, 0, &[]);
                            }
                        }
                    })
                })
                .collect();
            loop {
                let are_done = threads.iter().all(|thread| thread.is_finished());
                collected += lsns(&buffers, &mut spare).len();
                if are_done {
                    break;
                }
            }
        });
        // Relaxed: the threads have ended.
        let taken = THREADS * EACH - given_back.load(Ordering::Relaxed);
        assert_eq!(collected, taken);
        assert_eq!(buffers.last_lsn(), taken as Lsn);
    }

    #[test]
    fn a_place_is_given_back_only_while_nobody_counts_on_it() {
        let (buffers, mut spare) = (Buffers::new(2, 1), Vec::new());
        let first = buffers.take();
        assert!(buffers.give_back(first));
        assert_eq!((buffers.last_lsn(), buffers.take().lsn), (0, 1));
        let second = buffers.take();
        assert!(!buffers.give_back(first), "another was taken since");
        buffers.fill(0, first, 0, &[]);
        assert!(buffers.give_back(second));
        assert_eq!(lsns(&buffers, &mut spare), [1]);
        // In the second half, since one collection has turned.
        let third = buffers.take();
        std::thread::scope(|scope| {
            let collection = scope.spawn(|| lsns(&buffers, &mut Vec::new()));
            // Relaxed: it only has to be seen some time.
            while buffers.next.load(Ordering::Relaxed) & HALF != 0 {
                std::thread::yield_now();
            }
            assert!(!buffers.give_back(third), "a collection waits for it");
            buffers.fill(1, third, 0, &[]);
            assert_eq!(collection.join().unwrap(), [2]);
        });
    }

    #[test]
    fn a_collection_sleeps_until_the_last_place_is_filled() {
        let buffers = Buffers::new(2, 1);
        let (early, late) = (buffers.take(), buffers.take());
        std::thread::scope(|scope| {
            let collection = scope.spawn(|| lsns(&buffers, &mut Vec::new()));
            while buffers.buffers[1].lock().awaited.is_none() {
                std::thread::yield_now();
            }
            buffers.fill(1, late, 0, &[]);
            // One that comes later does not have to be waited for.
            let next = buffers.take();
            buffers.fill(0, early, 0, &[]);
            assert_eq!(collection.join().unwrap(), [1, 2]);
            buffers.fill(0, next, 0, &[]);
        });
        assert_eq!(lsns(&buffers, &mut Vec::new()), [3]);
    }

    #[test]
    fn a_place_that_is_broken_off_ends_all_collections() {
        let buffers = Buffers::new(2, 1);
        let _ = buffers.take();
        std::thread::scope(|scope| {
            let collection =
                scope.spawn(|| buffers.collect(&disk(), &mut Vec::new(), &mut Vec::new()).is_err());
            while buffers.buffers[1].lock().awaited.is_none() {
                std::thread::yield_now();
            }
            buffers.break_off(0);
            assert!(collection.join().unwrap());
        });
        assert!(buffers.collect(&disk(), &mut Vec::new(), &mut Vec::new()).is_err());
    }
}
