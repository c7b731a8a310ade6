//! Lets a command be run while no other is.
//!
//! Each event loop has a lock of its own, which it holds while it runs the requests of one read, and which nobody else
//! wants: it costs a few nanoseconds. A thread that must be alone (`SWAPDB`, `FLUSHALL`) leaves, and takes the locks of
//! all loops, in order; only one does so at a time. So there is no deadlock: a thread that waits for others holds
//! nothing that they want. The locks come before all others.

use std::sync::atomic::{AtomicBool, Ordering};

use everleaf::ranked::{Rank, RankedGuard, RankedMutex};

/// Which threads run commands. Thread-safe.
#[derive(Debug)]
pub struct Exclusion {
    /// How often a thread was alone.
    #[cfg(test)]
    alone_count: std::sync::atomic::AtomicUsize,
    /// Held by the thread that is alone.
    alone: RankedMutex<()>,
    /// Whether a thread has all that it needs to be alone.
    is_alone: AtomicBool,
    loops: Box<[RankedMutex<()>]>,
}

/// A thread that has entered: no other is alone meanwhile.
#[must_use]
pub struct Entered<'a> {
    _lock: RankedGuard<'a, ()>,
}

/// A thread that is alone: no other has entered meanwhile.
#[must_use]
pub struct Alone<'a> {
    is_alone: &'a AtomicBool,
    _loops: Vec<RankedGuard<'a, ()>>,
    _alone: RankedGuard<'a, ()>,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        // Relaxed: see `is_alone`. Before the locks go.
        self.is_alone.store(false, Ordering::Relaxed);
    }
}

impl Exclusion {
    /// For so many event loops.
    pub fn new(loop_count: usize) -> Self {
        Exclusion {
            #[cfg(test)]
            alone_count: Default::default(),
            alone: RankedMutex::new(Rank::ServerAlone, ()),
            is_alone: AtomicBool::new(false),
            loops: (0..loop_count).map(|_| RankedMutex::new(Rank::ServerLoop, ())).collect(),
        }
    }

    /// Waits until nobody is alone.
    #[inline]
    pub fn enter(&self, loop_index: usize) -> Entered<'_> {
        Entered { _lock: self.loops[loop_index].lock() }
    }

    /// Waits until all others have left. The caller has left.
    pub fn be_alone(&self) -> Alone<'_> {
        let alone = self.alone.lock();
        // Relaxed: the locks order what is counted.
        #[cfg(test)]
        self.alone_count.fetch_add(1, Ordering::Relaxed);
        let loops = RankedMutex::lock_all(&self.loops);
        // Relaxed: see `is_alone`.
        self.is_alone.store(true, Ordering::Relaxed);
        Alone { is_alone: &self.is_alone, _loops: loops, _alone: alone }
    }

    /// Whether the caller is alone, or has only entered.
    pub fn is_alone(&self) -> bool {
        // Relaxed: changed by a thread that has the locks of all loops, of which the caller has one at least.
        self.is_alone.load(Ordering::Relaxed)
    }

    /// How often a thread was alone.
    #[cfg(test)]
    pub fn alone_count(&self) -> usize {
        // Relaxed: read by the thread that did what it asks for.
        self.alone_count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn a_thread_that_is_alone_meets_nobody() {
        const LOOP_COUNT: usize = 3;
        let (exclusion, inside) = (Exclusion::new(LOOP_COUNT), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for index in 0..LOOP_COUNT {
                let (exclusion, inside) = (&exclusion, &inside);
                scope.spawn(move || {
                    for round in 0..3_000 {
                        if round % 7 == index {
                            let _alone = exclusion.be_alone();
                            // SeqCst throughout: a test of the locks, not of this.
                            assert_eq!(inside.fetch_add(100, Ordering::SeqCst), 0);
                            assert!(exclusion.is_alone());
                            inside.fetch_sub(100, Ordering::SeqCst);
                        } else {
                            let _entered = exclusion.enter(index);
                            assert!(inside.fetch_add(1, Ordering::SeqCst) < LOOP_COUNT);
                            assert!(!exclusion.is_alone());
                            inside.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
    }
}
