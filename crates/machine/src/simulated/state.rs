//! All that changes while a schedule runs. Nothing here suspends a fiber: [`Core`](super::core::Core)
//! does, between calls.

use std::collections::VecDeque;

use super::THREADS_MAX;
use super::config::{Config, Domain, MemoryModel};
use super::failure::FailureKind;
use super::fault::Faults;
use super::persistence::Persistence;
use super::races::Races;
use super::random::Random;
use super::raw::{AddressRange, read_raw, write_raw};
use super::report::Counts;
use super::scheduler::{Candidates, Scheduler};
use super::sites::Sites;
use super::space::{DEAD, Space};

/// What waits in a store buffer.
#[derive(Clone, Copy)]
pub enum Buffered {
    /// A store.
    Store(AddressRange, u64),
    /// The write-back of the line at this address.
    Flush(usize),
}

/// A line with the log position a flush captured.
pub type Flushed = (u32, u32);

/// One logical thread.
#[derive(Default)]
pub struct Thread {
    pub finished: bool,
    /// Not allowed to start yet.
    pub held: bool,
    /// Does a part of what thread 0 does.
    helps: bool,
    /// Waits for those that do.
    joins: bool,
    /// Stopped for ever in the middle of its work.
    pub abandoned: bool,
    /// In [`Machine::spin`](crate::Machine::spin) until somebody else's store becomes visible.
    asleep: bool,
    /// Stores of others that were visible when its last wait ended.
    baseline: u64,
    /// Its own stores that became visible.
    own: u64,
    points: u64,
    pub buffer: VecDeque<Buffered>,
    pub flushes: Vec<Flushed>,
    /// A store that a planted fault lets come late.
    pub late: Option<(AddressRange, u64)>,
}

/// What a scheduling point comes to.
pub enum Decision {
    /// The running thread goes on.
    Continue,
    /// Thread `State::next` goes on.
    Switch,
    /// The oldest entry of this thread's store buffer becomes visible; then decide again.
    Drain(usize),
    /// Nobody is left to run: all others ended, and this thread stops for ever.
    End,
    /// The schedule failed.
    Fail(FailureKind, String),
}

/// The machine in the middle of a schedule.
pub struct State {
    pub config: Config,
    pub space: Space,
    pub persistence: Persistence,
    pub threads: Vec<Thread>,
    /// The logical thread that runs.
    pub current: usize,
    /// The one that runs next.
    pub next: usize,
    pub steps: u64,
    /// Stores that became visible, of all threads.
    pub version: u64,
    pub scheduler: Scheduler,
    pub choices: Vec<u8>,
    /// Chance of memory (order of bulk copies) and of crash images.
    pub random: Random,
    pub failure: Option<(FailureKind, String)>,
    /// The readable trace, when one is wanted.
    pub trace: Option<Vec<String>>,
    /// A hash of all accesses so far.
    pub fingerprint: u64,
    /// The check of named orderings, when it is wanted.
    pub races: Option<Races>,
    pub sites: Sites,
    pub faults: Faults,
    pub marks: Vec<(&'static str, u64)>,
    pub counts: Counts,
}

impl State {
    pub fn new(config: Config, pool_bytes: usize) -> Self {
        State {
            space: Space::new(pool_bytes, config.arena_bytes),
            persistence: Persistence::new(config.domain, pool_bytes),
            threads: Vec::new(),
            current: 0,
            next: 0,
            steps: 0,
            version: 0,
            scheduler: Scheduler::replay(Vec::new()),
            choices: Vec::new(),
            random: Random::new(0),
            failure: None,
            trace: None,
            fingerprint: 0,
            races: match config.memory {
                MemoryModel::Sc => config.races.then(|| Races::new(false)),
                MemoryModel::Tso => None,
                MemoryModel::Weak => Some(Races::new(true)),
            },
            sites: Sites::new(config.ablate),
            faults: Faults::new(config.fault, config.lists_faults),
            marks: Vec::new(),
            counts: Counts::default(),
            config,
        }
    }

    /// Everything but memory as at the start of a schedule.
    pub fn begin(&mut self, threads: usize, seed: u64) {
        self.threads.resize_with(threads, Thread::default);
        for thread in &mut self.threads {
            let (mut buffer, mut flushes) =
                (std::mem::take(&mut thread.buffer), std::mem::take(&mut thread.flushes));
            buffer.clear();
            flushes.clear();
            *thread = Thread { buffer, flushes, baseline: u64::MAX, ..Thread::default() };
        }
        (self.current, self.next, self.steps, self.version) = (0, 0, 0, 0);
        self.choices.clear();
        self.random = Random::new(seed ^ 0x6D65_6D6F_7279);
        self.failure = None;
        self.fingerprint = 0;
        self.faults.begin();
        if let Some(races) = &mut self.races {
            races.begin();
        }
    }

    /// Whether stores wait in buffers.
    #[inline]
    pub fn is_tso(&self) -> bool {
        self.config.memory == MemoryModel::Tso
    }

    fn foreign(&self, thread: usize) -> u64 {
        self.version - self.threads[thread].own
    }

    fn can_run(&self, thread: usize) -> bool {
        let state = &self.threads[thread];
        let stopped = state.finished || state.held || state.abandoned;
        let waits = state.asleep && state.baseline == self.foreign(thread)
            || state.joins && self.has_helpers();
        !stopped && !waits
    }

    /// Whether a thread does a part of what thread 0 does.
    pub fn has_helpers(&self) -> bool {
        self.threads.iter().any(|thread| thread.helps)
    }

    /// Thread 0 has so many others do a part of what it does: all of it until now happened before that.
    pub fn start_helpers(&mut self, count: usize) {
        for thread in &mut self.threads[1..=count] {
            (thread.held, thread.helps) = (false, true);
        }
        if let Some(races) = &mut self.races {
            races.start_others();
        }
    }

    /// A thread has done its part, all of which happens before thread 0 goes on.
    pub fn end_helper(&mut self, thread: usize) {
        (self.threads[thread].held, self.threads[thread].helps) = (true, false);
        if let Some(races) = &mut self.races {
            races.end_helper(thread);
        }
    }

    /// Whether thread 0 waits for those that do a part.
    pub fn wait_for_helpers(&mut self, waits: bool) {
        self.threads[0].joins = waits;
    }

    /// Chooses the thread that runs first.
    pub fn decide_first(&mut self) -> usize {
        // Nothing is buffered yet and nobody can fail: only threads can be chosen.
        let _ = self.decide();
        self.next
    }

    /// Chooses what acts next: a thread, or the store buffer of one.
    pub fn decide(&mut self) -> Decision {
        self.steps += 1;
        if self.steps > self.config.step_limit {
            let text = format!("no end after {} scheduling points", self.config.step_limit);
            return Decision::Fail(FailureKind::Livelock, text);
        }
        self.abandon_if_due();
        let threads = self.threads.len();
        let mut actors = [0u8; 2 * THREADS_MAX];
        let mut count = 0;
        let current_first = self.can_run(self.current);
        if current_first {
            actors[0] = self.current as u8;
            count = 1;
        }
        for thread in 0..threads {
            if thread != self.current && self.can_run(thread) {
                actors[count] = thread as u8;
                count += 1;
            }
        }
        if self.is_tso() {
            for thread in 0..threads {
                if !self.threads[thread].buffer.is_empty() {
                    actors[count] = (threads + thread) as u8;
                    count += 1;
                }
            }
        }
        match count {
            0 if self.all_done() => Decision::End,
            0 => Decision::Fail(FailureKind::Deadlock, self.describe_deadlock()),
            1 => self.go(actors[0] as usize),
            _ => {
                let actors = &actors[..count];
                let step = self.steps;
                let candidates = Candidates { actors, threads, current_first, step };
                let actor = actors[self.scheduler.choose(&candidates)];
                self.choices.push(actor);
                self.draw_memory_anew(actor);
                self.go(actor as usize)
            }
        }
    }

    /// What loads are given on weak memory follows from all choices so far: an exhaustive search has one seed for all
    /// orders, and would have the same loads, by number, given older values in each.
    fn draw_memory_anew(&mut self, actor: u8) {
        if self.config.memory == MemoryModel::Weak {
            self.random = Random::new(self.random.next() ^ u64::from(actor));
        }
    }

    fn abandon_if_due(&mut self) {
        let current = &mut self.threads[self.current];
        current.points += 1;
        if let Some(abandon) = self.config.abandon
            && abandon.thread == self.current
            && current.points > abandon.after_points
        {
            current.abandoned = true;
        }
    }

    fn go(&mut self, actor: usize) -> Decision {
        if actor >= self.threads.len() {
            return Decision::Drain(actor - self.threads.len());
        }
        self.next = actor;
        self.counts.switches += u64::from(actor != self.current);
        if actor == self.current { Decision::Continue } else { Decision::Switch }
    }

    /// Whether all threads came to their end.
    pub fn all_done(&self) -> bool {
        self.threads.iter().all(|thread| thread.finished || thread.abandoned)
    }

    /// The running thread waits until a store of another thread becomes visible, unless one did
    /// since its last wait.
    pub fn fall_asleep(&mut self) {
        let foreign = self.foreign(self.current);
        let thread = &mut self.threads[self.current];
        thread.asleep = thread.baseline == foreign;
    }

    /// The running thread's wait is over.
    pub fn wake_up(&mut self) {
        let foreign = self.foreign(self.current);
        let thread = &mut self.threads[self.current];
        thread.asleep = false;
        thread.baseline = foreign;
    }

    /// The running thread starts an operation: its next wait is its first.
    pub fn forget_waits(&mut self) {
        self.threads[self.current].baseline = u64::MAX;
    }

    /// Fails an access to memory that may not be touched.
    #[inline]
    pub fn check(&mut self, place: AddressRange, write: bool) -> Result<(), (FailureKind, String)> {
        let Some(offset) = self.space.offset(place.address) else { return Ok(()) };
        if self.space.flags(offset) & DEAD != 0 {
            return Err((FailureKind::UseAfterFree, self.describe_dead(place.address, write)));
        }
        if write {
            self.space.written(offset);
        }
        Ok(())
    }

    /// The value the running thread sees at `place`: its own newest buffered store, else memory.
    /// None if buffered stores overlap the place without covering it exactly.
    #[inline]
    pub fn value_at(&self, place: AddressRange) -> Option<u64> {
        if self.is_tso() {
            for buffered in self.threads[self.current].buffer.iter().rev() {
                if let Buffered::Store(stored, bits) = *buffered
                    && stored.overlaps(place)
                {
                    return (stored == place).then_some(bits);
                }
            }
        }
        Some(read_raw(place))
    }

    /// Whether a store of the running thread to this range still waits.
    pub fn has_buffered(&self, range: AddressRange) -> bool {
        self.threads[self.current]
            .buffer
            .iter()
            .any(|entry| matches!(entry, Buffered::Store(stored, _) if stored.overlaps(range)))
    }

    /// Forgets the stores that wait for words that are no more. On hardware they come before the memory
    /// is anybody else's: the thread that gives it back has its own stores in order, and others have
    /// let go of it by an exchange. Nobody can see whether they came. Pool and arena stay, with an
    /// account of their own of what was freed.
    pub fn drop_words(&mut self, place: AddressRange) {
        if self.space.offset(place.address).is_some() {
            return;
        }
        if let Some(races) = &mut self.races {
            races.forget_older(place.address, place.size);
        }
        for thread in &mut self.threads {
            thread.buffer.retain(
                |entry| !matches!(entry, Buffered::Store(stored, _) if stored.overlaps(place)),
            );
            thread.late.take_if(|(stored, _)| stored.overlaps(place));
        }
    }

    /// Makes a store of `thread` visible; true if it calls for a crash point.
    pub fn commit(&mut self, thread: usize, place: AddressRange, bits: u64) -> bool {
        write_raw(place, bits);
        self.version += 1;
        self.threads[thread].own += 1;
        match self.space.offset(place.address) {
            Some(offset) if offset < self.space.pool_bytes => {
                let word = offset / 8;
                let value = self.space.region().read(word);
                self.persistence.record(word, value);
                self.config.crash.enabled && self.config.domain != Domain::Adr
            }
            _ => false,
        }
    }

    /// Lets a crash keep the last store to the line at `address` only with the next one.
    pub fn glue(&mut self, address: usize) {
        if let Some(offset) = self.space.offset(address)
            && offset < self.space.pool_bytes
        {
            self.persistence.glue_last(offset / 64);
        }
    }

    /// Notes the write-back of the line at `address` for `thread`.
    pub fn flush_now(&mut self, thread: usize, address: usize) {
        if let Some(offset) = self.space.offset(address)
            && offset < self.space.pool_bytes
        {
            let line = offset / 64;
            let position = self.persistence.capture(line);
            self.threads[thread].flushes.push((line as u32, position));
        }
    }

    /// Whether completing the running thread's flushes would make anything durable.
    pub fn would_drain(&self) -> bool {
        let flushes = &self.threads[self.current].flushes;
        flushes.iter().any(|&(line, position)| self.persistence.is_pending(line as usize, position))
    }

    /// Completes the running thread's flushes.
    pub fn drain_flushes(&mut self) {
        let mut flushes = std::mem::take(&mut self.threads[self.current].flushes);
        for (line, position) in flushes.drain(..) {
            self.persistence.make_durable(line as usize, position);
        }
        self.threads[self.current].flushes = flushes;
    }

    /// What volatile memory is left, in words.
    pub fn find_leak(&self) -> Option<String> {
        let count = self.space.live();
        let first = if count == 0 { None } else { self.space.first_live() }?;
        let name = self.space.name(self.space.region().base().addr() + first);
        Some(format!(
            "at the end: pieces of volatile memory are left: {count}, the first at {name}"
        ))
    }

    /// Counts a coverage mark.
    pub fn mark(&mut self, name: &'static str) {
        match self.marks.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => self.marks.push((name, 1)),
        }
    }
}
