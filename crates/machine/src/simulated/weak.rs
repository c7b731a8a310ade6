//! Older values of words, which loads may be given where the named orderings allow it.
//!
//! ```text
//!   a word:  older value | newest value, by a thread at a time of its clock
//!
//!   a load may be given the older value unless it happens after
//!     - the write of the newest one, or
//!     - a load that was given the newest one (of its own thread, too),
//!     or its thread has passed a full fence since that write,
//!     or the writer had, when its thread acquired something last
//! ```
//!
//! So a word is coherent, what was released and acquired is seen, and all else is left to chance, a little: a thread is
//! given the older value of a write a few times at most, for on every machine a store is seen at last. A load
//! behind a full fence is not made before it, nor one behind an acquire before that, and a store is seen by all at
//! once, at the latest when its thread passes a full fence: as on x86-64 and AArch64, not as little as the language
//! promises. One older value is kept. A locked operation is always given the newest, and so is a load that is
//! sequentially consistent.
//!
//! A heavy barrier is a full fence of each thread, but the loads of the others come behind it only where they pass a
//! light barrier or a full fence, or acquire something: without that a compiler may move them.

use std::collections::hash_map::Entry;

use super::THREADS_MAX;
use super::random::Random;
use super::raw::{AddressRange, read_raw};
use super::vector_clock::{ByAddress, Clock, forget_keys};

/// So often at most a thread is given the value before a write.
const GIVEN_MAX: u8 = 4;

/// What a word held before its last write, or a pair of words that is read and written as one.
struct Older {
    place: AddressRange,
    value: u128,
    /// What was written. If something else is there, it came past the machine, into memory that is another's now.
    newest: u128,
    /// What an acquire of the older value learns.
    clock: Clock,
    /// When each thread came to know of the write: the writer, and those that were given what it wrote. 0: it does not.
    known: [u32; THREADS_MAX],
    given: [u8; THREADS_MAX],
    /// Which write of the schedule it was, from 1 on, and by which thread.
    number: u64,
    writer: usize,
    /// Full fences before the write: a thread that is given the value before it has read that behind no others.
    fenced: Fences,
}

/// For each thread, how many writes of the schedule came before a full fence of it.
type Fences = [u64; THREADS_MAX];

/// Adds what other fences stand for.
fn add(fences: &mut Fences, others: &Fences) {
    for (mine, theirs) in fences.iter_mut().zip(others) {
        *mine = (*mine).max(*theirs);
    }
}

/// The older values of one schedule.
#[derive(Default)]
pub struct Weak {
    words: ByAddress<Older>,
    /// Writes so far.
    writes: u64,
    /// Those before each thread's last full fence.
    fenced: Fences,
    /// Those before the last full fence that the loads of a thread come behind.
    bound: Fences,
    /// The full fences that the later loads of each thread come behind, by what it has acquired.
    acquired: [Fences; THREADS_MAX],
    /// The same by what it has loaded, if an acquire fence follows.
    loaded: [Fences; THREADS_MAX],
}

/// The bits at a place of at most 16 bytes.
pub fn bits_at(place: AddressRange) -> u128 {
    if place.size <= 8 {
        return u128::from(read_raw(place));
    }
    let [low, high] = halves(place);
    u128::from(read_raw(low)) | u128::from(read_raw(high)) << 64
}

/// The words of a pair, or the word twice.
pub fn halves(place: AddressRange) -> [AddressRange; 2] {
    match place.size {
        16 => [0, 8].map(|from| AddressRange { address: place.address + from, size: 8 }),
        _ => [place; 2],
    }
}

impl Weak {
    /// Nothing was written yet.
    pub fn begin(&mut self) {
        let words = std::mem::take(&mut self.words);
        *self = Weak { words, ..Weak::default() };
        self.words.clear();
    }

    /// A thread passes a full fence.
    pub fn fence(&mut self, thread: usize) {
        self.fenced[thread] = self.writes;
        self.bound[thread] = self.writes;
    }

    /// A heavy barrier makes a thread pass a full fence, behind which its next loads need not be.
    pub fn fence_stores(&mut self, thread: usize) {
        self.fenced[thread] = self.writes;
    }

    /// The next loads of a thread come behind the full fences that it was made to pass.
    pub fn bind(&mut self, thread: usize) {
        self.bound[thread] = self.fenced[thread];
    }

    /// A thread loads the newest of something; its next loads come behind this one, or do so behind an acquire fence.
    pub fn load(&mut self, thread: usize, acquires: bool) {
        self.loaded[thread] = self.fenced;
        if acquires {
            self.acquired[thread] = self.fenced;
            self.bind(thread);
        }
    }

    /// A thread passes an acquire fence.
    pub fn acquire(&mut self, thread: usize) {
        add(&mut self.acquired[thread], &self.loaded[thread]);
        self.bind(thread);
    }

    /// A place is about to be written.
    pub fn keep(&mut self, place: AddressRange, newest: u128, clock: Clock, by: (usize, u32)) {
        let mut known = [0; THREADS_MAX];
        known[by.0] = by.1;
        let value = bits_at(place);
        self.writes += 1;
        let (given, number, writer, fenced) = ([0; THREADS_MAX], self.writes, by.0, self.fenced);
        let older = Older { place, value, newest, clock, known, given, number, writer, fenced };
        self.words.insert(place.address / 8, older);
    }

    /// The other half of a pair is about to be written by the thread that wrote the first: the pair before both is
    /// kept. False if something else came between.
    pub fn keep_still(&mut self, place: AddressRange, newest: u128, thread: usize) -> bool {
        let older = self.words.get_mut(&(place.address / 8));
        let older = older.filter(|older| {
            let is_writer = older.known[thread] != 0;
            is_writer && older.place == place && older.newest == bits_at(place)
        });
        older.map(|older| older.newest = newest).is_some()
    }

    /// What a load by a thread is given instead of the newest bits of a place, and what an acquire of it learns of
    /// the bytes that are older; none for the newest.
    pub fn older(
        &mut self,
        (thread, clock): (usize, &Clock),
        place: AddressRange,
        newest: u128,
        (random, acquires): (Option<&mut Random>, bool),
    ) -> Option<(u128, Clock)> {
        let word = place.address / 8;
        // The second word of a pair is kept with the first.
        let first = word.wrapping_sub(1);
        let of_pair = || self.words.get(&first).is_some_and(|older| older.place.size == 16);
        let key = if !self.words.contains_key(&word) && of_pair() { first } else { word };
        let Entry::Occupied(entry) = self.words.entry(key) else { return None };
        if !entry.get().place.overlaps(place) {
            return None;
        }
        if bits_at(entry.get().place) != entry.get().newest {
            entry.remove();
            return None;
        }
        let older = entry.into_mut();
        let mut known = older.known.iter().zip(clock);
        let is_known = known.any(|(since, clock)| *since != 0 && clock >= since);
        let newest_known = self.bound[thread].max(self.acquired[thread][older.writer]);
        if is_known || older.number <= newest_known {
            return None;
        }
        let is_given = random.is_some_and(|random| random.one_in(2));
        if is_given && older.given[thread] < GIVEN_MAX {
            older.given[thread] += 1;
            let behind = if acquires { &mut self.acquired } else { &mut self.loaded };
            add(&mut behind[thread], &older.fenced);
            return Some((older.over(place, newest), older.clock));
        }
        older.known[thread] = clock[thread];
        None
    }

    /// A range is another's now.
    pub fn forget(&mut self, start: usize, length: usize) {
        forget_keys(&mut self.words, start / 8..(start + length).div_ceil(8));
    }
}

impl Older {
    /// The newest bits of a place, but for those bytes that this has an older value of.
    fn over(&self, place: AddressRange, newest: u128) -> u128 {
        let mut bytes = newest.to_le_bytes();
        for (address, byte) in
            (self.place.address..).zip(self.value.to_le_bytes()).take(self.place.size)
        {
            if let Some(index) =
                address.checked_sub(place.address).filter(|index| *index < place.size)
            {
                bytes[index] = byte;
            }
        }
        u128::from_le_bytes(bytes)
    }
}
