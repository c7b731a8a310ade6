//! Do the orderings that the source names suffice? Vector clocks, after FastTrack.
//!
//! The simulated memory itself is stronger than the source asks for, so a forgotten `Release` does no
//! harm in it. This check follows the *named* orderings: a private read must happen after the last
//! write of its word by that order, and a thread that sees a private write must have it ordered before.
//!
//! A thread that frees memory must have all that others did with it behind itself by that order, too: on another
//! machine a read that nothing holds back may come after the free, and find what is there by then.
//!
//! No thread may use memory before it was handed out to one, by that order: a thread that gets to it has not what its
//! owner left in it by plain stores either, which no judge sees. So a node is missed that is published too
//! weakly.
//!
//! A full fence is taken to order all full fences one after the other, and a heavy barrier to be a
//! full fence of every thread: a little more than the language promises, so that what is reported is
//! not a matter of taste.

use std::panic::Location;
use std::sync::atomic::Ordering;

use super::THREADS_MAX;
use super::random::Random;
use super::raw::AddressRange;
use super::vector_clock::{ByAddress, Clock, forget_keys, join};
use super::weak::{Weak, halves};
use crate::LINE_SIZE;

type At = &'static Location<'static>;

fn acquires(order: Ordering) -> bool {
    matches!(order, Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst)
}

fn releases(order: Ordering) -> bool {
    matches!(order, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst)
}

/// The last write of 8 bytes.
#[derive(Clone, Copy)]
struct Write {
    thread: usize,
    epoch: u32,
    is_private: bool,
    at: At,
}

/// What was done to 8 bytes since they were handed out.
#[derive(Default)]
struct Word {
    /// The last access of each thread: when, and where in the source.
    uses: [Option<(u32, At)>; THREADS_MAX],
    /// The last write.
    write: Option<Write>,
    /// What an acquire of what begins at the first byte learns.
    learnt: Clock,
}

/// The state of the check in one schedule.
#[derive(Default)]
pub struct Races {
    clocks: [Clock; THREADS_MAX],
    /// The clock at the last release fence.
    released: [Clock; THREADS_MAX],
    /// What relaxed loads saw, for the next acquire fence.
    seen: [Clock; THREADS_MAX],
    /// The latest full fence.
    fence: Clock,
    /// The latest heavy barrier, where memory is weak.
    heavy: [Clock; THREADS_MAX],
    /// By the address divided by 8.
    words: ByAddress<Word>,
    /// What an acquire learns of what begins at another byte than the first of 8, by its address.
    parts: ByAddress<Clock>,
    /// Which thread was handed out a line, and when: those lines that belong to nobody else.
    births: ByAddress<(usize, u32)>,
    /// What loads may be given that is older, where memory is weak.
    weak: Option<Weak>,
    /// What the operations that have returned did, where memory is weak.
    returned: Clock,
}

impl Races {
    /// A check of a machine whose memory is weak or not.
    pub fn new(is_weak: bool) -> Self {
        Races { weak: is_weak.then(Weak::default), ..Races::default() }
    }

    /// Nothing has happened yet but what all threads know.
    pub fn begin(&mut self) {
        let Races { mut words, mut parts, mut births, mut weak, .. } = std::mem::take(self);
        words.clear();
        parts.clear();
        births.clear();
        if let Some(weak) = &mut weak {
            weak.begin();
        }
        *self = Races { words, parts, births, weak, ..Races::default() };
        for thread in 0..THREADS_MAX {
            self.clocks[thread][thread] = 1;
        }
    }

    /// Thread 0 has opened the pool, or has others help it: all it did happened before them.
    pub fn start_others(&mut self) {
        let first = self.clocks[0];
        self.clocks.iter_mut().for_each(|clock| join(clock, &first));
        self.clocks[0][0] += 1;
    }

    /// A thread has done a part of what thread 0 does: that happened before thread 0 goes on.
    pub fn end_helper(&mut self, thread: usize) {
        let clock = self.clocks[thread];
        join(&mut self.clocks[0], &clock);
        self.clocks[thread][thread] += 1;
    }

    /// A thread calls an operation. Where memory is weak, it knows of all that have returned: a thread that can tell
    /// that one came after another has heard of it.
    pub fn call(&mut self, thread: usize) {
        if self.weak.is_some() {
            let returned = self.returned;
            join(&mut self.clocks[thread], &returned);
        }
    }

    /// A thread's operation returns.
    pub fn give_answer(&mut self, thread: usize) {
        if self.weak.is_some() {
            let clock = self.release(thread);
            join(&mut self.returned, &clock);
        }
    }

    /// What an acquire of the word at an address learns.
    fn learnt(&self, address: usize) -> Option<&Clock> {
        match address % 8 {
            0 => self.words.get(&(address / 8)).map(|word| &word.learnt),
            _ => self.parts.get(&address),
        }
    }

    /// The same, to be changed.
    fn learnt_mut(&mut self, address: usize) -> &mut Clock {
        match address % 8 {
            0 => &mut self.words.entry(address / 8).or_default().learnt,
            _ => self.parts.entry(address).or_default(),
        }
    }

    /// A place is about to be written: what it holds is kept, where memory is weak.
    pub fn keep_older(&mut self, thread: usize, place: AddressRange, newest: u128) {
        if self.weak.is_none() {
            return;
        }
        let mut clock = Clock::default();
        for half in halves(place) {
            if let Some(word) = self.learnt(half.address) {
                join(&mut clock, word);
            }
        }
        let Some(weak) = &mut self.weak else { return };
        weak.keep(place, newest, clock, (thread, self.clocks[thread][thread]));
    }

    /// The other half of a pair is about to be written, too.
    pub fn keep_older_still(&mut self, thread: usize, place: AddressRange, newest: u128) {
        if self.weak.as_mut().is_some_and(|weak| !weak.keep_still(place, newest, thread)) {
            self.keep_older(thread, place, newest);
        }
    }

    /// A load that may be given an older value, if `random` is given; none if it is given the newest.
    pub fn read_older(
        &mut self,
        thread: usize,
        place: AddressRange,
        newest: u128,
        order: Ordering,
        random: Option<&mut Random>,
        at: At,
    ) -> Option<(u128, Result<(), String>)> {
        let weak = self.weak.as_mut()?;
        let random = random.filter(|_| order != Ordering::SeqCst);
        let clock = &self.clocks[thread];
        let (value, clock) =
            weak.older((thread, clock), place, newest, (random, acquires(order)))?;
        let known = if acquires(order) { &mut self.clocks } else { &mut self.seen };
        join(&mut known[thread], &clock);
        let write = self.note_use(thread, place, at).write;
        Some((value, self.check(thread, (place, write), false, "reads", at)))
    }

    /// What a thread reads next by an address that follows from these bytes comes behind them, on every machine.
    pub fn learn_bytes(&mut self, thread: usize, place: AddressRange) {
        if let Some(weak) = &mut self.weak {
            weak.load(thread, true);
            for address in place.address..place.address + place.size {
                if let Some(word) = self.learnt(address).copied() {
                    join(&mut self.clocks[thread], &word);
                }
            }
        }
    }

    /// Whether the last write of the word is fit to be met by an access.
    fn check(
        &self,
        thread: usize,
        (place, write): (AddressRange, Option<Write>),
        is_private: bool,
        verb: &str,
        at: At,
    ) -> Result<(), String> {
        self.check_birth(thread, place, at)?;
        let Some(write) = write else { return Ok(()) };
        let ordered = self.clocks[thread][write.thread] >= write.epoch;
        if ordered || write.thread == thread || !(is_private || write.is_private) {
            return Ok(());
        }
        let kind = |is_private| if is_private { "privately " } else { "" };
        Err(format!(
            "T{thread} {}{verb} at {at} what T{} {}wrote at {}, and nothing orders the two",
            kind(is_private),
            write.thread,
            kind(write.is_private),
            write.at
        ))
    }

    /// Whether the memory was handed out before it is used.
    fn check_birth(&self, thread: usize, place: AddressRange, at: At) -> Result<(), String> {
        let Some(&(owner, epoch)) = self.births.get(&(place.address / LINE_SIZE)) else {
            return Ok(());
        };
        if owner == thread || self.clocks[thread][owner] >= epoch {
            return Ok(());
        }
        Err(format!(
            "T{thread} uses at {at} memory that T{owner} was handed out, and nothing orders the two"
        ))
    }

    /// A read; without an order it is private.
    pub fn read(
        &mut self,
        thread: usize,
        place: AddressRange,
        order: Option<Ordering>,
        at: At,
    ) -> Result<(), String> {
        let word = self.note_use(thread, place, at);
        let (write, mut learnt) = (word.write, word.learnt);
        if !place.address.is_multiple_of(8) {
            learnt = self.parts.get(&place.address).copied().unwrap_or_default();
        }
        // First learn what this very read synchronises with.
        if let Some(order) = order {
            let known = if acquires(order) { &mut self.clocks } else { &mut self.seen };
            join(&mut known[thread], &learnt);
        }
        if let (Some(order), Some(weak)) = (order, &mut self.weak) {
            weak.load(thread, acquires(order));
            if acquires(order) {
                self.bind(thread);
            }
        }
        self.check(thread, (place, write), order.is_none(), "reads", at)
    }

    /// A store; without an order it is private.
    pub fn write(
        &mut self,
        thread: usize,
        place: AddressRange,
        order: Option<Ordering>,
        at: At,
    ) -> Result<(), String> {
        let write = self.words.get(&(place.address / 8)).and_then(|word| word.write);
        self.check(thread, (place, write), order.is_none(), "overwrites", at)?;
        self.note_write(thread, place, order.is_none(), at);
        let word =
            if order.is_some_and(releases) { self.release(thread) } else { self.released[thread] };
        *self.learnt_mut(place.address) = word;
        Ok(())
    }

    /// A locked operation that changed its word.
    pub fn exchange(
        &mut self,
        thread: usize,
        place: AddressRange,
        order: Ordering,
        at: At,
    ) -> Result<(), String> {
        self.read(thread, place, Some(order), at)?;
        self.note_write(thread, place, false, at);
        let mine = if releases(order) { self.release(thread) } else { self.released[thread] };
        // It continues the release sequence it read from.
        join(self.learnt_mut(place.address), &mine);
        Ok(())
    }

    fn note_write(&mut self, thread: usize, place: AddressRange, is_private: bool, at: At) {
        let epoch = self.clocks[thread][thread];
        let word = self.note_use(thread, place, at);
        word.write = Some(Write { thread, epoch, is_private, at });
    }

    fn note_use(&mut self, thread: usize, place: AddressRange, at: At) -> &mut Word {
        let epoch = self.clocks[thread][thread];
        let word = self.words.entry(place.address / 8).or_default();
        word.uses[thread] = Some((epoch, at));
        word
    }

    /// A range is given up: whatever others did with it is over.
    pub fn free(&self, thread: usize, start: usize, length: usize) -> Result<(), String> {
        for word in start / 8..(start + length).div_ceil(8) {
            let Some(word) = self.words.get(&word) else { continue };
            for (other, last) in word.uses.iter().enumerate() {
                let Some((epoch, at)) = *last else { continue };
                if other != thread && self.clocks[thread][other] < epoch {
                    return Err(format!(
                        "T{thread} frees what T{other} has used at {at}, and nothing orders the two"
                    ));
                }
            }
        }
        Ok(())
    }

    /// The clock others get; what comes after is a new epoch.
    fn release(&mut self, thread: usize) -> Clock {
        let clock = self.clocks[thread];
        self.clocks[thread][thread] += 1;
        clock
    }

    /// A fence.
    pub fn fence(&mut self, thread: usize, order: Ordering) {
        if acquires(order) {
            let seen = self.seen[thread];
            join(&mut self.clocks[thread], &seen);
            if let Some(weak) = &mut self.weak {
                weak.acquire(thread);
            }
            self.bind(thread);
        }
        if order == Ordering::SeqCst {
            let fence = self.fence;
            join(&mut self.clocks[thread], &fence);
            self.fence = self.clocks[thread];
            if let Some(weak) = &mut self.weak {
                weak.fence(thread);
            }
        }
        if releases(order) {
            self.released[thread] = self.release(thread);
        }
    }

    /// A full fence of every thread, by one of them. Where memory is weak, what the others load next need not come
    /// behind it.
    pub fn heavy_barrier(&mut self, by: usize, threads: usize) {
        let Some(weak) = &mut self.weak else {
            for _ in 0..2 {
                (0..threads).for_each(|thread| self.fence(thread, Ordering::SeqCst));
            }
            return;
        };
        for thread in 0..threads {
            weak.fence_stores(thread);
            join(&mut self.fence, &self.clocks[thread]);
        }
        self.fence(by, Ordering::SeqCst);
        for thread in 0..threads {
            self.heavy[thread] = self.fence;
            self.released[thread] = self.release(thread);
        }
    }

    /// A thread passes a light barrier.
    pub fn light_barrier(&mut self, thread: usize) {
        if let Some(weak) = &mut self.weak {
            weak.bind(thread);
            self.bind(thread);
        }
    }

    /// What a thread does next comes behind the heavy barriers so far.
    fn bind(&mut self, thread: usize) {
        let heavy = self.heavy[thread];
        join(&mut self.clocks[thread], &heavy);
    }

    /// A range is handed out to a thread.
    pub fn hand_out(&mut self, thread: usize, start: usize, length: usize) {
        let epoch = self.clocks[thread][thread];
        for line in start.div_ceil(LINE_SIZE)..(start + length) / LINE_SIZE {
            self.births.insert(line, (thread, epoch));
        }
    }

    /// A range was handed out anew: what was written in its earlier life is forgotten.
    pub fn forget(&mut self, start: usize, length: usize) {
        self.forget_older(start, length);
        let end = start + length;
        forget_keys(&mut self.births, start / LINE_SIZE..end.div_ceil(LINE_SIZE));
        forget_keys(&mut self.words, start / 8..end.div_ceil(8));
        forget_keys(&mut self.parts, start / 8 * 8..end.next_multiple_of(8));
    }

    /// Words of a range are no more.
    pub fn forget_older(&mut self, start: usize, length: usize) {
        if let Some(weak) = &mut self.weak {
            weak.forget(start, length);
        }
    }
}
