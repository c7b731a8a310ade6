//! Locks with a place in the order of locks, which debug builds check.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use everleaf_index::lock_rank::Held;
pub(crate) use everleaf_index::lock_rank::Rank;

/// A mutex with a [`Rank`]. A panic of a holder does not poison it: nothing that these locks guard is
/// left half changed by code that can panic.
pub(crate) struct RankedMutex<T> {
    rank: Rank,
    mutex: Mutex<T>,
}

/// Holds a [`RankedMutex`] until dropped.
pub(crate) struct RankedGuard<'a, T> {
    guard: MutexGuard<'a, T>,
    _held: Held,
}

impl<T> RankedMutex<T> {
    pub fn new(rank: Rank, value: T) -> Self {
        RankedMutex { rank, mutex: Mutex::new(value) }
    }

    /// Waits for the lock.
    #[track_caller]
    pub fn lock(&self) -> RankedGuard<'_, T> {
        let held = Held::wait(self.rank);
        let guard = self.mutex.lock().unwrap_or_else(PoisonError::into_inner);
        RankedGuard { guard, _held: held }
    }

    /// Takes the lock if nobody has it.
    pub fn try_lock(&self) -> Option<RankedGuard<'_, T>> {
        let guard = match self.mutex.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(RankedGuard { guard, _held: Held::note(Some(self.rank)) })
    }
}

impl<T> Deref for RankedGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for RankedGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
