//! A small lock for rare paths (growing the pool, moving free lists): never on a tree operation's
//! ordinary path.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;

use crate::lock_rank::{self, Held, Rank};
use crate::{Atomic, Machine};

/// Mutual exclusion by spinning, then yielding. Not fair, not reentrant, not poisoned by panics.
///
/// # Example
/// ```
/// use everleaf_machine::{Hardware, SpinLock};
/// let lock: SpinLock<Vec<u32>, Hardware> = SpinLock::new(vec![]);
/// lock.lock().push(7);
/// assert_eq!(*lock.lock(), [7]);
/// ```
pub struct SpinLock<T, M: Machine> {
    held: Atomic<u32, M>,
    #[cfg(debug_assertions)]
    rank: Option<Rank>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a guard, and `held` admits one guard at a time.
unsafe impl<T: Send, M: Machine> Sync for SpinLock<T, M> {}
// SAFETY: owning the lock is owning the value.
unsafe impl<T: Send, M: Machine> Send for SpinLock<T, M> {}

impl<T, M: Machine> SpinLock<T, M> {
    /// An open lock around `value`, of which nobody watches the order.
    pub fn new(value: T) -> Self {
        Self::with_rank(None, value)
    }

    /// An open lock around `value`, with its place in the [order of locks](lock_rank).
    pub fn ranked(rank: Rank, value: T) -> Self {
        Self::with_rank(Some(rank), value)
    }

    fn with_rank(rank: Option<Rank>, value: T) -> Self {
        let _ = rank;
        SpinLock {
            held: Atomic::new(0),
            #[cfg(debug_assertions)]
            rank: rank.filter(|_| !M::SIMULATED),
            value: UnsafeCell::new(value),
        }
    }

    #[inline(always)]
    fn rank(&self) -> Option<Rank> {
        #[cfg(debug_assertions)]
        return self.rank;
        #[cfg(not(debug_assertions))]
        None
    }

    /// Waits for the lock.
    #[track_caller]
    pub fn lock(&self) -> SpinGuard<'_, T, M> {
        if let Some(rank) = self.rank() {
            lock_rank::check(rank);
        }
        let mut attempt = 0;
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            M::spin(attempt);
            attempt += 1;
        }
    }

    /// Takes the lock if it is open.
    #[track_caller]
    pub fn try_lock(&self) -> Option<SpinGuard<'_, T, M>> {
        // Relaxed on failure: nothing is read. Acquire: sees what the last holder wrote; pairs with
        // the release store in `SpinGuard::drop`.
        self.held
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|_| SpinGuard { lock: self, _rank: Held::note(self.rank()) })
    }

    /// The value, when the caller owns the lock outright.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

/// Holds a [`SpinLock`] until dropped.
pub struct SpinGuard<'a, T, M: Machine> {
    lock: &'a SpinLock<T, M>,
    _rank: Held,
}

impl<T, M: Machine> Deref for SpinGuard<'_, T, M> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this guard exists, so `held` is 1 and no other guard does.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T, M: Machine> DerefMut for SpinGuard<'_, T, M> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; the guard is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T, M: Machine> Drop for SpinGuard<'_, T, M> {
    fn drop(&mut self) {
        // Release: the holder's writes are seen by the next; pairs with the acquire in `try_lock`.
        self.lock.held.store(0, Ordering::Release);
    }
}
