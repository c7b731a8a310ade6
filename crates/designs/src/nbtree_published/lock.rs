//! A leaf's lock in the variants that have one: many readers, or one writer.

use everleaf_machine::{Atomic, Machine, Ordering};

const WRITER: u32 = 1;
const READER: u32 = 2;

/// Holds a leaf's lock until dropped; or nothing, where leaves are not locked.
pub(super) struct Held<'l, M: Machine> {
    /// The lock, and what to take off it.
    lock: Option<(&'l Atomic<u32, M>, u32)>,
}

impl<'l, M: Machine> Held<'l, M> {
    /// Holds nothing.
    #[inline(always)]
    pub fn nothing() -> Self {
        Held { lock: None }
    }

    /// Waits for the lock, alone.
    #[inline(always)]
    pub fn write(lock: &'l Atomic<u32, M>) -> Self {
        let mut attempt = 0;
        // Acquire: sees what the last holder wrote; pairs with the release in `drop`. Relaxed on
        // failure: nothing is read.
        while lock.compare_exchange(0, WRITER, Ordering::Acquire, Ordering::Relaxed).is_err() {
            M::spin(attempt);
            attempt += 1;
        }
        Held { lock: Some((lock, WRITER)) }
    }

    /// Waits for the lock, together with other readers.
    #[inline(always)]
    pub fn read(lock: &'l Atomic<u32, M>) -> Self {
        let mut attempt = 0;
        // Acquire: as in `write`.
        while lock.fetch_add(READER, Ordering::Acquire) & WRITER != 0 {
            // Relaxed: nothing was read.
            lock.fetch_sub(READER, Ordering::Relaxed);
            M::spin(attempt);
            attempt += 1;
        }
        Held { lock: Some((lock, READER)) }
    }
}

impl<M: Machine> Drop for Held<'_, M> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some((lock, part)) = self.lock {
            // Release: what we did is seen by the next holder; pairs with the acquire above.
            lock.fetch_sub(part, Ordering::Release);
        }
    }
}
