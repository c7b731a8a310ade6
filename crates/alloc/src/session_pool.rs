//! Sessions for threads that come and go: each thread hints at the slot it used before.
//!
//! A thread that is inside an operation may begin another one: the function that it gave to the first
//! uses the pool, too. Such a thread does not wait for one of the sessions that all threads share,
//! because their holders may wait in the same way: it takes one of the *spare* ones.
//!
//! Invariants:
//! - Q1 a slot's session is reached only by the thread that changed `holder` from 0;
//! - Q2 a thread with a spare session has a shared one, too, or one that is released only later. So a
//!   thread that has all shared ones has waited for all others;
//! - Q3 a thread that has a session waits for none: spare ones are there, or it gets an error.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use everleaf_machine::lock_rank::{Held, Rank};
use everleaf_machine::{Atomic, Machine, Ordering};

use crate::epoch::PARTICIPANT_COUNT_MAX;
use crate::error::AllocError;
use crate::heap::Heap;
use crate::session::Session;

/// Sessions that are left to callers that do not take them from a pool.
const UNPOOLED_COUNT: usize = 64;
/// What [`SessionPool::enter_all`] notes as the holder when the caller did not name its thread.
const NOBODY: u64 = u64::MAX;

/// One session and the thread that uses it.
#[repr(align(128))]
struct SessionSlot<M: Machine> {
    /// The hint of the thread that uses the session, plus 1; 0 if nobody does.
    holder: Atomic<u64, M>,
    /// Not 0 while [`SessionPool::enter_all`] waits for the slot: a thread that has none lets it go first.
    /// On a simulated machine it is not looked at: there the scheduler is fair.
    is_wanted: Atomic<u64, M>,
    session: UnsafeCell<Option<Session<M>>>,
}

/// A number of sessions that threads borrow for one operation at a time.
///
/// A thread that keeps using the same hint finds its own session free and warm; the cost is one
/// uncontended exchange. Sessions are opened on first use.
pub struct SessionPool<M: Machine> {
    heap: Arc<Heap<M>>,
    /// The shared ones, then the spare ones.
    slots: Box<[SessionSlot<M>]>,
    shared_count: usize,
}

// SAFETY: a slot's session is reached only by the thread that changed `holder` from 0 (Q1).
unsafe impl<M: Machine> Sync for SessionPool<M> where Session<M>: Send {}

impl<M: Machine> SessionSlot<M> {
    /// Takes the slot if nobody has it.
    #[inline(always)]
    fn take(&self, holder: u64) -> Option<SessionGuard<'_, M>> {
        // Acquire: the session is as its last user left it; pairs with the release in `drop`. Relaxed
        // on failure: nothing is read.
        let taken = self.holder.compare_exchange(0, holder, Ordering::Acquire, Ordering::Relaxed);
        let rank = (!M::SIMULATED).then_some(Rank::Session);
        taken.ok().map(|_| SessionGuard { slot: self, _rank: Held::note(rank) })
    }

    /// [`Self::take`], behind a thread that waits for all.
    #[inline(always)]
    fn take_politely(&self, holder: u64) -> Option<SessionGuard<'_, M>> {
        // Relaxed: a hint for fairness; a thread that misses it takes the slot once more.
        let is_wanted = !M::SIMULATED && self.is_wanted.load(Ordering::Relaxed) != 0;
        if is_wanted { None } else { self.take(holder) }
    }

    /// Takes the slot, and has others let it go before they take it again.
    fn take_in_turn(&self, holder: u64) -> SessionGuard<'_, M> {
        let mut attempt = 0;
        loop {
            if let Some(guard) = self.take(holder) {
                // Relaxed: as in `take_politely`.
                self.is_wanted.store(0, Ordering::Relaxed);
                return guard;
            }
            // Relaxed: a hint, as in `take_politely`. Each time, since another thread that waited for it may have
            // cleared it.
            self.is_wanted.store(1, Ordering::Relaxed);
            M::spin(attempt);
            attempt += 1;
        }
    }

    fn is_held_by(&self, holder: u64) -> bool {
        // Relaxed: a thread knows what it holds itself.
        self.holder.load(Ordering::Relaxed) == holder
    }
}

impl<M: Machine> SessionPool<M> {
    /// A pool of at most `count` sessions of `heap` for threads that hold none, and spare ones for
    /// those that do.
    pub fn new(heap: Arc<Heap<M>>, count: usize) -> Self {
        // A simulated machine has few threads, and those of most programs do not nest.
        let spare = if M::SIMULATED { 0 } else { PARTICIPANT_COUNT_MAX - UNPOOLED_COUNT - count };
        Self::with_spare(heap, count, spare)
    }

    /// As [`Self::new`], with so many spare ones.
    pub fn with_spare(heap: Arc<Heap<M>>, count: usize, spare: usize) -> Self {
        let slot = |_| SessionSlot {
            holder: Atomic::new(0),
            is_wanted: Atomic::new(0),
            session: UnsafeCell::new(None),
        };
        let slots = (0..count + spare).map(slot).collect();
        SessionPool { heap, slots, shared_count: count }
    }

    /// The heap of the sessions.
    pub fn heap(&self) -> &Arc<Heap<M>> {
        &self.heap
    }

    /// Borrows a session, if possible the one of `hint`, which no other thread gives at the same time;
    /// waits when all are busy, but not if the caller has one of them already.
    ///
    /// # Errors
    /// [`AllocError::TooManySessions`] when the heap admits no further session; a pool that was
    /// inherited by a fork.
    #[inline]
    pub fn enter(&self, hint: usize) -> Result<SessionGuard<'_, M>, AllocError> {
        self.heap.pool().check_process()?;
        if !M::SIMULATED {
            everleaf_machine::lock_rank::check(Rank::Session);
        }
        // Few programs have more threads than there are sessions: a comparison is less than a division.
        let index = if hint < self.shared_count { hint } else { hint % self.shared_count };
        let slot = &self.slots[index];
        match slot.take_politely(hint as u64 + 1) {
            Some(guard) => self.opened(guard),
            None => self.enter_another(hint),
        }
    }

    /// The session of a slot, opened if it was not.
    #[inline]
    fn opened<'a>(&'a self, guard: SessionGuard<'a, M>) -> Result<SessionGuard<'a, M>, AllocError> {
        // SAFETY: the slot is ours, and nobody else refers to its session (Q1).
        let session = unsafe { &mut *guard.slot.session.get() };
        if session.is_none() {
            *session = Some(self.heap.session()?);
        }
        Ok(guard)
    }

    /// [`Self::enter`] when the slot of the hint is taken.
    #[cold]
    #[inline(never)]
    fn enter_another(&self, hint: usize) -> Result<SessionGuard<'_, M>, AllocError> {
        let holder = hint as u64 + 1;
        let mut attempt = 0;
        loop {
            for offset in 1..=self.shared_count {
                let index = (hint + offset) % self.shared_count;
                if let Some(guard) = self.slots[index].take_politely(holder) {
                    return self.opened(guard);
                }
            }
            if self.held_by(hint) > 0 && !M::mutant("sessions.waits_nested") {
                let spare = self.slots[self.shared_count..].iter();
                let guard = spare.filter_map(|slot| slot.take(holder)).next();
                return self.opened(guard.ok_or_else(too_many)?);
            }
            M::spin(attempt);
            attempt += 1;
        }
    }

    /// Borrows any session that is free, without waiting.
    pub fn try_enter(&self, hint: usize) -> Option<SessionGuard<'_, M>> {
        let mut guards = self.slots.iter().filter_map(|slot| slot.take(hint as u64 + 1));
        self.opened(guards.next()?).ok()
    }

    /// How many sessions of the pool the thread with this hint has now.
    pub fn held_by(&self, hint: usize) -> usize {
        self.slots.iter().filter(|slot| slot.is_held_by(hint as u64 + 1)).count()
    }

    /// Reclaims what sessions that nobody uses now hold back.
    pub fn collect_idle(&self) {
        for slot in &self.slots {
            if let Some(guard) = slot.take(NOBODY) {
                // SAFETY: the slot is ours (Q1).
                if let Some(session) = unsafe { &mut *slot.session.get() } {
                    session.collect_all();
                    session.give_back();
                }
                drop(guard);
            }
        }
    }

    /// Borrows every session at once, waiting for those in use: for audits and for closing; the first to be dropped are
    /// the spare ones. `hint`: of the caller, if it may be inside an operation.
    ///
    /// # Errors
    /// [`AllocError::Nested`] if the caller has one of the sessions: it would wait for itself.
    pub fn enter_all(&self, hint: Option<usize>) -> Result<Vec<SessionGuard<'_, M>>, AllocError> {
        if hint.is_some_and(|hint| self.held_by(hint) > 0) {
            return Err(AllocError::Nested);
        }
        let holder = hint.map_or(NOBODY, |hint| hint as u64 + 1);
        let mut guards: Vec<_> = self.slots.iter().map(|slot| slot.take_in_turn(holder)).collect();
        if !M::mutant("sessions.shared_first") {
            // The spare ones go first: a thread that gets a shared one and wants a spare one must not find them all
            // taken (Q3).
            guards.reverse();
        }
        Ok(guards)
    }

    /// Bytes of node memory in use by all sessions of the heap and by ended ones. Waits for nobody's
    /// operation, so it may be asked for inside of one; what moves meanwhile may be missed.
    pub fn node_bytes(&self) -> u64 {
        let rest = self.heap.depot.lock().arena.live_bytes;
        (self.heap.epochs.node_bytes() + rest).max(0) as u64
    }
}

fn too_many() -> AllocError {
    AllocError::TooManySessions(PARTICIPANT_COUNT_MAX)
}

/// A borrowed session; given back when dropped.
pub struct SessionGuard<'a, M: Machine> {
    slot: &'a SessionSlot<M>,
    _rank: Held,
}

impl<M: Machine> SessionGuard<'_, M> {
    /// The session, if it was ever opened.
    pub fn opened(&self) -> Option<&Session<M>> {
        // SAFETY: this guard is the only user of the slot.
        unsafe { &*self.slot.session.get() }.as_ref()
    }
}

impl<M: Machine> Deref for SessionGuard<'_, M> {
    type Target = Session<M>;
    #[inline(always)]
    fn deref(&self) -> &Session<M> {
        self.opened().expect("`enter` opened the session")
    }
}

impl<M: Machine> DerefMut for SessionGuard<'_, M> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Session<M> {
        // SAFETY: this guard is the only user of the slot, and it is borrowed mutably.
        let session = unsafe { &mut *self.slot.session.get() };
        session.as_mut().expect("`enter` opened the session")
    }
}

impl<M: Machine> Drop for SessionGuard<'_, M> {
    #[inline(always)]
    fn drop(&mut self) {
        // Release: pairs with the acquire in `take`.
        self.slot.holder.store(0, Ordering::Release);
    }
}
