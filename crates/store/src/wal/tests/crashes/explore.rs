//! Run after run, by several threads, until enough crashes were seen.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::run;
use crate::wal::simulated::crashes::Counts;

/// Between two lines that say how far it is.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// What to run.
pub struct Explore {
    /// The number of the first run; the others follow.
    pub first: u64,
    /// Crashes and deaths that are to be seen.
    pub wanted: u64,
    pub threads: u64,
    /// Whether it says how far it is.
    pub tells: bool,
}

/// How far it is.
struct Done {
    counts: Counts,
    runs: u64,
    told: Instant,
}

impl Explore {
    /// Runs, and gives what was seen.
    ///
    /// # Panics
    /// A run failed: its number is told.
    pub fn go(&self) -> Counts {
        let (next, started) = (AtomicU64::new(self.first), Instant::now());
        let failed = AtomicBool::new(false);
        let done = Mutex::new(Done { counts: Counts::default(), runs: 0, told: started });
        std::thread::scope(|scope| {
            for _ in 0..self.threads {
                // Relaxed: a hint to stop.
                scope.spawn(|| {
                    while !failed.load(Ordering::Relaxed) {
                        // Relaxed: only distinct numbers are wanted.
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Ok(counts) = catch_unwind(AssertUnwindSafe(|| run(number, None)))
                        else {
                            // Relaxed: a hint to stop.
                            failed.store(true, Ordering::Relaxed);
                            panic!("run {number} failed: STORE_RUN={number} repeats it");
                        };
                        if self.note(&done, counts, started) {
                            return;
                        }
                    }
                });
            }
        });
        done.into_inner().unwrap_or_else(PoisonError::into_inner).counts
    }

    /// Adds what a run saw. Returns whether that is enough.
    fn note(&self, done: &Mutex<Done>, counts: Counts, started: Instant) -> bool {
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        done.counts.add(counts);
        done.runs += 1;
        let seen = done.counts.seen();
        if self.tells && done.told.elapsed() >= TELL_EVERY {
            done.told = Instant::now();
            let seconds = started.elapsed().as_secs_f64();
            let left = self.wanted.saturating_sub(seen) as f64 * seconds / seen.max(1) as f64;
            println!(
                "{seen} of {} crashes in {} runs from {} on, {seconds:.0} s, {left:.0} s to go",
                self.wanted, done.runs, self.first
            );
        }
        seen >= self.wanted
    }
}
