//! Threads of which one runs at a time, and the others stand still where they are.
//!
//! At each point of the program that is told ([`Turns::pass`]) the turn may go to another thread, and
//! the one that has lost it may have to stand still for many turns. A seed decides. Where a thread has
//! to wait for others ([`Turns::wait`]) it hands the turn on.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use everleaf_log::simulated::Random;

/// Turns that a thread stands still for, at most.
const STOP_MAX: usize = 60;
/// So many waits in which nobody got on are a deadlock.
const WAITS_MAX: u32 = 100_000;

thread_local! {
    static ME: Cell<Option<usize>> = const { Cell::new(None) };
}

struct State {
    random: Random,
    whose: usize,
    is_there: Vec<bool>,
    /// Turns for which each still stands.
    stops: Vec<usize>,
    waits: u32,
}

pub struct Turns {
    state: Mutex<State>,
    handed_on: Condvar,
}

/// A thread that takes part, until it is dropped.
pub struct Part<'a>(&'a Turns);

/// The number of the calling thread, if it takes part.
pub fn me() -> Option<usize> {
    ME.get()
}

impl Turns {
    pub fn new(count: usize, seed: u64) -> Turns {
        let state = State {
            random: Random::new(seed),
            whose: 0,
            is_there: vec![true; count],
            stops: vec![0; count],
            waits: 0,
        };
        Turns { state: Mutex::new(state), handed_on: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calling thread takes part as number `me`, from its first turn on.
    pub fn enter(&self, me: usize) -> Part<'_> {
        ME.set(Some(me));
        drop(self.await_turn(self.lock(), me));
        Part(self)
    }

    fn await_turn<'a>(&'a self, state: MutexGuard<'a, State>, me: usize) -> MutexGuard<'a, State> {
        let is_other = |state: &mut State| state.whose != me;
        self.handed_on.wait_while(state, is_other).unwrap_or_else(PoisonError::into_inner)
    }

    /// A point of the program: perhaps the calling thread stands still here.
    pub fn pass(&self) {
        let Some(me) = me() else { return };
        let mut state = self.lock();
        state.waits = 0;
        if state.random.one_in(2) {
            if state.random.one_in(3) {
                state.stops[me] = state.random.below(STOP_MAX);
            }
            state.hand_on(None);
            self.handed_on.notify_all();
            drop(self.await_turn(state, me));
        }
    }

    /// The calling thread waits for another. True if it takes part, and others have gone on.
    pub fn wait(&self) -> bool {
        let Some(me) = me() else { return false };
        let mut state = self.lock();
        state.waits += 1;
        assert!(state.waits < WAITS_MAX, "all wait for each other");
        state.hand_on(Some(me));
        self.handed_on.notify_all();
        drop(self.await_turn(state, me));
        true
    }
}

impl State {
    /// Chooses the next thread: not `who`, if there is any other.
    fn hand_on(&mut self, who: Option<usize>) {
        let there = |state: &State| -> Vec<usize> {
            (0..state.is_there.len())
                .filter(|number| state.is_there[*number] && Some(*number) != who)
                .collect()
        };
        let others = there(self);
        if others.is_empty() {
            return;
        }
        let awake: Vec<usize> =
            others.iter().copied().filter(|number| self.stops[*number] == 0).collect();
        // When nobody else can go on, one that stands still does.
        let from = if awake.is_empty() { others } else { awake };
        self.whose = from[self.random.below(from.len())];
        self.stops[self.whose] = 0;
        self.stops.iter_mut().for_each(|stops| *stops = stops.saturating_sub(1));
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if let Some(me) = ME.take() {
            state.is_there[me] = false;
            state.waits = 0;
            state.hand_on(Some(me));
        }
        self.0.handed_on.notify_all();
    }
}
