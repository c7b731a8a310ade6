//! Sessions for threads that come and go: each thread hints at the slot it used before.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use everleaf_machine::{Atomic, Machine, Ordering};

use crate::error::AllocError;
use crate::heap::Heap;
use crate::session::Session;

/// One session and the flag that says whether somebody uses it.
#[repr(align(128))]
struct Slot<M: Machine> {
    busy: Atomic<u32, M>,
    session: UnsafeCell<Option<Session<M>>>,
}

/// A fixed number of sessions that threads borrow for one operation at a time.
///
/// A thread that keeps using the same hint finds its own session free and warm; the cost is one
/// uncontended exchange. Sessions are opened on first use.
pub struct SessionPool<M: Machine> {
    heap: Arc<Heap<M>>,
    slots: Box<[Slot<M>]>,
}

// SAFETY: a slot's session is reached only by the thread that set `busy` from 0 to 1.
unsafe impl<M: Machine> Sync for SessionPool<M> {}
// SAFETY: sessions may move between threads.
unsafe impl<M: Machine> Send for SessionPool<M> {}

impl<M: Machine> SessionPool<M> {
    /// A pool of at most `count` sessions of `heap`.
    pub fn new(heap: Arc<Heap<M>>, count: usize) -> Self {
        let slot = |_| Slot { busy: Atomic::new(0), session: UnsafeCell::new(None) };
        SessionPool { heap, slots: (0..count).map(slot).collect() }
    }

    /// The heap of the sessions.
    pub fn heap(&self) -> &Arc<Heap<M>> {
        &self.heap
    }

    /// Borrows a session, if possible the one of `hint`; waits when all are busy.
    ///
    /// # Errors
    /// [`AllocError::TooManySessions`] when the heap admits no further session; a pool that was
    /// inherited by a fork.
    #[inline]
    pub fn enter(&self, hint: usize) -> Result<SessionGuard<'_, M>, AllocError> {
        self.heap.pool().check_process()?;
        let mut index = hint % self.slots.len();
        let mut attempt = 0;
        loop {
            let slot = &self.slots[index];
            // Acquire: the session is as its last user left it; pairs with the release in `drop`.
            if slot.busy.swap(1, Ordering::Acquire) == 0 {
                let guard = SessionGuard { slot };
                // SAFETY: `busy` was 0 and is now ours, so nobody else refers to the session.
                let session = unsafe { &mut *slot.session.get() };
                if session.is_none() {
                    *session = Some(self.heap.session()?);
                }
                return Ok(guard);
            }
            index = (index + 1) % self.slots.len();
            attempt += 1;
            if attempt % self.slots.len() as u32 == 0 {
                M::spin(attempt);
            }
        }
    }

    /// Reclaims what sessions that nobody uses now hold back.
    pub fn collect_idle(&self) {
        for slot in &self.slots {
            // Acquire: as in `enter`.
            if slot.busy.swap(1, Ordering::Acquire) == 0 {
                let guard = SessionGuard { slot };
                // SAFETY: `busy` was 0 and is now ours.
                if let Some(session) = unsafe { &mut *slot.session.get() } {
                    session.collect_hard();
                    session.give_back();
                }
                drop(guard);
            }
        }
    }

    /// Borrows every session at once, waiting for those in use: for audits and for closing.
    pub fn enter_all(&self) -> Vec<SessionGuard<'_, M>> {
        let take = |slot| {
            let slot: &Slot<M> = slot;
            let mut attempt = 0;
            // Acquire: as in `enter`.
            while slot.busy.swap(1, Ordering::Acquire) != 0 {
                M::spin(attempt);
                attempt += 1;
            }
            SessionGuard { slot }
        };
        self.slots.iter().map(take).collect()
    }

    /// Bytes of node memory in use by all sessions and by ended ones. Waits for busy sessions.
    pub fn node_bytes(&self) -> u64 {
        let guards = self.enter_all();
        let live: i64 =
            guards.iter().filter_map(SessionGuard::opened).map(Session::node_bytes).sum();
        let rest = self.heap.depot.lock().arena.live_bytes;
        (live + rest).max(0) as u64
    }
}

/// A borrowed session; given back when dropped.
pub struct SessionGuard<'a, M: Machine> {
    slot: &'a Slot<M>,
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
        // Release: pairs with the acquire in `enter`.
        self.slot.busy.store(0, Ordering::Release);
    }
}
