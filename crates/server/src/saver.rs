//! `SAVE` and `BGSAVE`: one at a time, in a thread of its own or not.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use everleaf::Store;

use crate::wall_clock::now_ms;

/// What became of saves.
#[derive(Debug)]
pub struct State {
    busy: AtomicBool,
    failed: AtomicBool,
    /// When the last one that succeeded ended, in seconds since 1970; at first when the server
    /// began.
    last_s: AtomicU64,
}

/// Makes snapshots or backups, one at a time. Waits for one that is running when it goes.
#[derive(Debug)]
pub struct Saver {
    state: Arc<State>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Another save is running.
pub struct Busy;

impl Saver {
    pub fn new() -> Self {
        let state = State {
            busy: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            last_s: AtomicU64::new(now_ms() / 1000),
        };
        Saver { state: Arc::new(state), thread: Mutex::new(None) }
    }

    /// Saves, and returns when it is done.
    ///
    /// # Errors
    /// [`Busy`]; inside of it the store's own answer.
    pub fn save(&self, store: &Store) -> Result<everleaf::Result<u64>, Busy> {
        self.state.begin()?;
        Ok(self.state.run(|| store.save()))
    }

    /// Begins to save.
    ///
    /// # Errors
    /// [`Busy`]; inside of it the system's answer if it starts no thread.
    pub fn begin(&self, store: &Arc<Store>) -> Result<io::Result<()>, Busy> {
        self.begin_in(std::thread::Builder::new().name("everleaf-save".into()), store)
    }

    /// The same in a thread that is made so.
    fn begin_in(&self, thread: Builder, store: &Arc<Store>) -> Result<io::Result<()>, Busy> {
        self.state.begin()?;
        let (state, store) = (Arc::clone(&self.state), Arc::clone(store));
        // Held until it is kept: the save may have ended before, and another begun.
        let mut kept = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let started = thread.spawn(move || {
            // It drops the store before the next save can be begun, and that one is waited for.
            if let Err(error) = state.run(move || store.save()) {
                tracing::error!("saving in the background failed: {error}");
            }
        });
        match started {
            Ok(thread) => {
                // The one before has ended, and has let the store go: only one can be busy.
                *kept = Some(thread);
            }
            Err(error) => {
                tracing::error!("no thread to save in the background: {error}");
                self.state.end(false);
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }

    /// Whether a save is running.
    pub fn is_busy(&self) -> bool {
        // Relaxed: a statistic.
        self.state.busy.load(Ordering::Relaxed)
    }

    /// Whether the last save failed.
    pub fn has_failed(&self) -> bool {
        // Relaxed: a statistic.
        self.state.failed.load(Ordering::Relaxed)
    }

    /// When the last save that succeeded ended, in seconds since 1970.
    pub fn last_s(&self) -> u64 {
        // Relaxed: a statistic.
        self.state.last_s.load(Ordering::Relaxed)
    }
}

impl Drop for Saver {
    fn drop(&mut self) {
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the thread that saved in the background panicked");
        }
    }
}

impl State {
    fn begin(&self) -> Result<(), Busy> {
        // AcqRel: what the save before did is over; pairs with the store in `end`.
        if self.busy.swap(true, Ordering::AcqRel) { Err(Busy) } else { Ok(()) }
    }

    fn run(&self, save: impl FnOnce() -> everleaf::Result<u64>) -> everleaf::Result<u64> {
        let result = catch_unwind(AssertUnwindSafe(save));
        // Also if it panics: what was begun leaves nothing behind, and the next one must not find it running.
        self.end(matches!(result, Ok(Ok(_))));
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn end(&self, is_ok: bool) {
        // Relaxed: statistics.
        self.failed.store(!is_ok, Ordering::Relaxed);
        if is_ok {
            // Relaxed: a statistic.
            self.last_s.store(now_ms() / 1000, Ordering::Relaxed);
        }
        // Release: pairs with the swap in `begin`.
        self.busy.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was answered that saving had started.
    #[test]
    fn a_save_without_a_thread_is_told_and_the_next_can_be_begun() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let options = everleaf::Options::new().create(true).initial_size_bytes(16 << 20);
        let store = options.open(folder.path().join("pool")).expect("it can be made");
        let (saver, store) = (Saver::new(), Arc::new(store));
        // No address space has room for its stack.
        let begun = saver.begin_in(Builder::new().stack_size(1 << 60), &store);
        assert!(matches!(begun, Ok(Err(_))));
        assert!(saver.has_failed() && !saver.is_busy());
        assert!(matches!(saver.begin(&store), Ok(Ok(()))));
    }

    /// The thread of a save could be kept in the place of the next one, which nobody then waited for.
    #[test]
    fn the_last_save_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let options = everleaf::Options::new().create(true).initial_size_bytes(1 << 20);
        let store = Arc::new(options.open(folder.path().join("pool")).expect("it can be made"));
        for _ in 0..20 {
            let saver = Saver::new();
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| (0..10).for_each(|_| drop(saver.begin(&store))));
                }
            });
            drop(saver);
            assert_eq!(Arc::strong_count(&store), 1);
        }
    }

    /// What has ended might still have held the store, so that it could not be closed cleanly.
    #[test]
    fn a_save_that_has_ended_holds_no_store() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let options = everleaf::Options::new().create(true).initial_size_bytes(1 << 20);
        let store = Arc::new(options.open(folder.path().join("pool")).expect("it can be made"));
        let saver = Saver::new();
        for _ in 0..100 {
            assert!(matches!(saver.begin(&store), Ok(Ok(()))));
            while saver.state.begin().is_err() {
                std::hint::spin_loop();
            }
            assert_eq!(Arc::strong_count(&store), 1);
            saver.state.end(true);
        }
    }

    /// A save that panicked was running for ever: every later one was refused until the server was started again.
    #[test]
    fn a_save_that_panics_has_failed_and_the_next_can_be_begun() {
        let saver = Saver::new();
        assert!(saver.state.begin().is_ok() && saver.state.begin().is_err());
        let saved = catch_unwind(AssertUnwindSafe(|| saver.state.run(|| panic!("as by a fault"))));
        assert!(saved.is_err() && saver.has_failed() && !saver.is_busy());
        assert!(saver.state.begin().is_ok());
        assert!(matches!(saver.state.run(|| Ok(7)), Ok(7)));
        assert!(!saver.has_failed() && !saver.is_busy());
    }
}
