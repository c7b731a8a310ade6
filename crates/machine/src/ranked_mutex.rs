//! Locks of the standard library with a place in the order of locks, which debug builds check.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use crate::lock_rank::{self, Held, Rank};

/// A mutex with a [`Rank`]. A panic of a holder does not poison it: nothing that these locks guard is
/// left half changed by code that can panic.
#[derive(Debug)]
pub struct RankedMutex<T> {
    rank: Rank,
    mutex: Mutex<T>,
}

/// Holds a [`RankedMutex`] until dropped.
#[derive(Debug)]
pub struct RankedGuard<'a, T> {
    guard: MutexGuard<'a, T>,
    held: Held,
}

impl<T> RankedMutex<T> {
    /// With what it guards.
    pub const fn new(rank: Rank, value: T) -> Self {
        RankedMutex { rank, mutex: Mutex::new(value) }
    }

    /// Waits for the lock.
    ///
    /// # Panics
    /// In debug builds, if the thread holds a lock that comes later.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> RankedGuard<'_, T> {
        let held = Held::wait(self.rank);
        let guard = self.mutex.lock().unwrap_or_else(PoisonError::into_inner);
        RankedGuard { guard, held }
    }

    /// Takes the lock if nobody has it; in any order.
    #[inline]
    pub fn try_lock(&self) -> Option<RankedGuard<'_, T>> {
        let guard = match self.mutex.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(RankedGuard { guard, held: Held::note(Some(self.rank)) })
    }

    /// [`Self::lock`] by a thread that looks again and again as long as `looks_again`, and else waits.
    ///
    /// # Panics
    /// As [`Self::lock`].
    #[inline]
    #[track_caller]
    pub fn lock_unless(&self, looks_again: impl Fn() -> bool) -> RankedGuard<'_, T> {
        lock_rank::check(self.rank);
        loop {
            match self.try_lock() {
                Some(guard) => return guard,
                None if looks_again() => {}
                None => return self.lock(),
            }
        }
    }

    /// Locks several of one rank, in the order in which they come, which must be the same for all threads.
    ///
    /// # Panics
    /// As [`Self::lock`].
    #[track_caller]
    pub fn lock_all<'a>(
        several: impl IntoIterator<Item = &'a RankedMutex<T>>,
    ) -> Vec<RankedGuard<'a, T>>
    where
        T: 'a,
    {
        let lock = |(index, ranked): (usize, &'a RankedMutex<T>)| {
            if index == 0 {
                return ranked.lock();
            }
            let guard = ranked.mutex.lock().unwrap_or_else(PoisonError::into_inner);
            RankedGuard { guard, held: Held::note(Some(ranked.rank)) }
        };
        several.into_iter().enumerate().map(lock).collect()
    }
}

impl<'a, T> RankedGuard<'a, T> {
    /// Lets it go until it is told, and takes it again.
    #[must_use]
    pub fn wait(self, told: &Condvar) -> RankedGuard<'a, T> {
        let RankedGuard { guard, held } = self;
        RankedGuard { guard: told.wait(guard).unwrap_or_else(PoisonError::into_inner), held }
    }

    /// As [`Self::wait`], for so long at most.
    #[must_use]
    pub fn wait_timeout(self, told: &Condvar, timeout: Duration) -> RankedGuard<'a, T> {
        let RankedGuard { guard, held } = self;
        let waited = told.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner);
        RankedGuard { guard: waited.0, held }
    }
}

impl<T> Deref for RankedGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for RankedGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn several_are_taken_at_once_and_none_behind_a_later_one() {
        let turns = [(); 3].map(|()| RankedMutex::new(Rank::Turn, ()));
        let all = RankedMutex::lock_all(&turns);
        assert_eq!(all.len(), 3);
        assert!(turns[1].try_lock().is_none());
        let second = std::panic::catch_unwind(|| drop(RankedMutex::lock_all(&turns[..1])));
        assert!(second.is_err(), "what is taken later could wait in a circle");
        drop(all);
        let later = RankedMutex::new(Rank::Waiters, 7);
        let guard = later.lock();
        assert!(std::panic::catch_unwind(|| drop(RankedMutex::lock_all(&turns))).is_err());
        assert!(std::panic::catch_unwind(|| drop(turns[0].lock_unless(|| true))).is_err());
        assert!(turns[0].try_lock().is_some(), "nobody waits");
        let guard = guard.wait_timeout(&Condvar::new(), Duration::ZERO);
        assert_eq!(*guard, 7);
        drop(guard);
        assert_eq!(*later.lock_unless(|| true), 7);
    }
}
