//! What is done in the background while a store is open: snapshots that are due, space that is returned, and the sweep.
//!
//! One thread does all of it. A round of the sweep over all maps may take hours, because it rests most of the time so
//! that it costs a few percent of a CPU. Log and space do not wait for its end: while it rests, they are looked
//! after once a second.

use std::ops::{Bound, ControlFlow};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use everleaf_index::{FEATURE_EXPIRY, RestorePlace};

use crate::Error;
use crate::event::{Event, EventFn};
use crate::maintenance::expiring::Seen;
use crate::shared::Shared;

/// The sweep rests this many times as long as it has worked.
const REST: u32 = 24;
/// Between two goes, and between two rounds.
const REST_MIN: Duration = Duration::from_millis(2);
const ROUND_REST: Duration = Duration::from_secs(1);
/// Between two looks at log and space.
const LOOK_REST: Duration = Duration::from_secs(1);
/// Looks after which it is asked whether so much space is free that it should be returned.
const SPACE_ROUNDS: u32 = 60;
const SPACE_MIN: u64 = 64 << 20;
/// The part of the used space that is kept free then.
const KEPT_PART: u64 = 8;

/// Leaves that opening has left and that are restored between two looks at whether the store is closed.
const RESTORED_TOGETHER: usize = 64;

/// How often it is tried to write the snapshot that is owed, if that panics.
const OWED_TRIES: u32 = 3;

/// Tells it to end.
#[derive(Default)]
pub(crate) struct ShutdownSignal {
    is_signalled: Mutex<bool>,
    wake: Condvar,
}

impl ShutdownSignal {
    pub fn signal(&self) {
        *self.is_signalled.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wake.notify_all();
    }

    pub fn is_signalled(&self) -> bool {
        *self.is_signalled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits so long, or until it is given. Returns whether it was.
    pub fn wait(&self, rest: Duration) -> bool {
        let is_signalled = self.is_signalled.lock().unwrap_or_else(PoisonError::into_inner);
        let result =
            self.wake.wait_timeout_while(is_signalled, rest, |is_signalled| !*is_signalled);
        *result.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Works until the store is closed.
pub(crate) fn run(
    shared: &Shared,
    shutdown: &ShutdownSignal,
    sweep: bool,
    snapshot_after_bytes: u64,
    events: &EventFn,
) {
    let mut upkeep = Upkeep::new(shared, shutdown, snapshot_after_bytes, events);
    write_owed_snapshot(shared, events);
    upkeep.restore();
    if !sweep && shared.log.is_none() {
        // Nothing else is to be done in the background.
        while upkeep.is_opening && !shutdown.wait(LOOK_REST) {
            upkeep.finish_opening();
        }
        return;
    }
    while upkeep.rest(ROUND_REST).is_continue() {
        if sweep && upkeep.sweep().is_break() {
            return;
        }
    }
}

/// What there is to do besides the sweep, and when.
struct Upkeep<'s> {
    shared: &'s Shared,
    shutdown: &'s ShutdownSignal,
    snapshot_after_bytes: u64,
    next_look: Instant,
    next_snapshot: Instant,
    spare: SpareSpace,
    /// Whether something that opening has left is to be restored, or was and is not told yet.
    is_opening: bool,
    events: &'s EventFn,
    has_told_of_the_log: bool,
    has_told_of_the_pool: bool,
    /// Of one that failed, since the last one that did not.
    has_told_of_a_snapshot: bool,
}

impl<'s> Upkeep<'s> {
    fn new(
        shared: &'s Shared,
        shutdown: &'s ShutdownSignal,
        snapshot_after_bytes: u64,
        events: &'s EventFn,
    ) -> Self {
        let now = Instant::now();
        Upkeep {
            shared,
            shutdown,
            snapshot_after_bytes,
            next_look: now + LOOK_REST,
            next_snapshot: now,
            spare: SpareSpace::default(),
            is_opening: shared.trees.is_opening(),
            events,
            has_told_of_the_log: false,
            has_told_of_the_pool: false,
            has_told_of_a_snapshot: false,
        }
    }

    /// Rests so long at least, and looks after log and space meanwhile. Breaks when the store is closed.
    fn rest(&mut self, rest: Duration) -> ControlFlow<()> {
        let end = Instant::now() + rest;
        loop {
            let until = end.min(self.next_look);
            if self.shutdown.wait(until.saturating_duration_since(Instant::now())) {
                return ControlFlow::Break(());
            }
            if Instant::now() >= self.next_look {
                self.look();
                self.next_look = Instant::now() + LOOK_REST;
            }
            if Instant::now() >= end {
                // The program that was told meanwhile may have closed the store.
                return match self.shutdown.is_signalled() {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                };
            }
        }
    }

    fn look(&mut self) {
        self.finish_opening();
        self.shorten_log();
        if self.shutdown.is_signalled() {
            // The program that was told may have closed the store: the pool is left as it is.
            return;
        }
        self.spare.round(self.shared, self.shutdown);
    }

    /// Restores what opening at once has left, unless the store is closed meanwhile. The log is looked after as ever.
    fn restore(&mut self) {
        let trees = &self.shared.trees;
        let (mut place, mut damaged) = (Some(RestorePlace::default()), vec![]);
        while let Some(from) = place.filter(|_| self.is_opening) {
            if self.shutdown.is_signalled() {
                return;
            }
            if Instant::now() >= self.next_look {
                self.shorten_log();
                self.next_look = Instant::now() + LOOK_REST;
            }
            let Ok(mut session) = self.shared.session() else {
                // Others have them all, but not for long.
                place = Some(from);
                if self.shutdown.wait(LOOK_REST) {
                    return;
                }
                continue;
            };
            // Refused to nobody but in a fork, where this thread is not.
            place = trees
                .restore_next(&mut session, &from, RESTORED_TOGETHER, &mut damaged)
                .unwrap_or(None);
            drop(session);
            for damage in damaged.drain(..) {
                if self.shutdown.is_signalled() {
                    // The program that was told has closed the store.
                    return;
                }
                self.events.tell(&Event::Damage(&damage.into()));
            }
        }
        self.finish_opening();
    }

    /// Makes usable what was free when the store was opened, if everything is restored, and tells that it is. Not of a
    /// store that is being closed.
    fn finish_opening(&mut self) {
        if self.is_opening && !self.shutdown.is_signalled() && self.shared.trees.finish_opening() {
            self.is_opening = false;
            self.events.tell(&Event::Restored);
        }
    }

    /// Writes a snapshot if one is due. Looks before whether what is written is still found.
    fn shorten_log(&mut self) {
        let Some(log) = &self.shared.log else { return self.look_for_pool() };
        log.check_names();
        if let Err(error) = log.check() {
            if !std::mem::replace(&mut self.has_told_of_the_log, true) {
                self.events.tell(&Event::LogFailed(&error));
            }
            // No snapshot of it can be written any more.
            return;
        }
        let started = Instant::now();
        // Relaxed: a request, which carries nothing.
        let due = log.snapshot_due.load(Ordering::Relaxed);
        if !(due || log.is_long(self.snapshot_after_bytes)) || started < self.next_snapshot {
            return;
        }
        // Before it begins: what becomes due meanwhile may not be in it. Taken, and not only cleared: it may have
        // become due since the look above.
        // Relaxed: a request, which carries nothing.
        let due = log.snapshot_due.swap(false, Ordering::Relaxed);
        match self.shared.snapshot() {
            Ok(pairs) => {
                self.has_told_of_a_snapshot = false;
                self.events.tell(&Event::Snapshot(pairs));
            }
            Err(error) => {
                // Tried again, but most of the time is left to others; writes tell, too.
                // Relaxed: a request, which carries nothing.
                log.snapshot_due.fetch_or(due, Ordering::Relaxed);
                self.next_snapshot = Instant::now() + started.elapsed() * REST;
                // If somebody else writes one, nothing is wrong.
                let is_failure = !matches!(error, Error::SnapshotBusy(_));
                if is_failure && !std::mem::replace(&mut self.has_told_of_a_snapshot, true) {
                    self.events.tell(&Event::SnapshotFailed(&error));
                }
            }
        }
    }

    /// Without a log: what is written is only in the file of the pool.
    fn look_for_pool(&mut self) {
        if let Err(error) = self.shared.look_for_pool()
            && !std::mem::replace(&mut self.has_told_of_the_pool, true)
        {
            self.events.tell(&Event::PoolGone(&error));
        }
    }

    /// A round of the sweep: all maps, slice by slice.
    fn sweep(&mut self) -> ControlFlow<()> {
        let shared = self.shared;
        // Relaxed: a request, which carries nothing.
        let is_paused = shared.sweep_paused.load(Ordering::Relaxed);
        if is_paused || shared.trees.heap().pool().features() & FEATURE_EXPIRY == 0 {
            return ControlFlow::Continue(());
        }
        for name in shared.map_names() {
            // Of another kind, or dropped meanwhile: nothing there expires.
            let Ok(Some(tree)) = shared.trees.find_bytes_tree(&name) else { continue };
            let mut from = Some(Bound::Unbounded);
            let mut seen = Seen::default();
            while let Some(start) = from {
                let started = Instant::now();
                from = shared.sweep_slice(&tree, start, &mut seen).unwrap_or(None);
                self.rest((started.elapsed() * REST).max(REST_MIN))?;
                // Relaxed: a request, which carries nothing. A round may take hours.
                if shared.sweep_paused.load(Ordering::Relaxed) {
                    return ControlFlow::Continue(());
                }
            }
            shared.expiring.note(&tree, seen);
        }
        ControlFlow::Continue(())
    }
}

/// Writes the snapshot that is owed. If that panics, it is tried again: nobody else might do it, and nothing
/// that is logged would ever count.
pub(crate) fn write_owed_snapshot(shared: &Shared, events: &EventFn) {
    let Some(log) = &shared.log else { return };
    for _ in 0..OWED_TRIES {
        // What a panic leaves is whole: the writer of a snapshot removes its file, and the log fails if one
        // of its own steps panics.
        let written = catch_unwind(AssertUnwindSafe(|| shared.write_owed_snapshot()));
        match written {
            Ok(Ok(pairs)) => {
                if let Some(pairs) = pairs {
                    events.tell(&Event::Snapshot(pairs));
                }
                return;
            }
            // What would be written meanwhile would be said to be kept, and is not.
            Ok(Err(error)) => return log.fail_owed(&shared.trees, error),
            Err(_) => {}
        }
    }
    let text = format!("writing it panicked {OWED_TRIES} times");
    log.fail_owed(&shared.trees, Error::LogFailed(text));
}

/// When free space is returned to the system: soon after a map was emptied, and seldom otherwise.
#[derive(Default)]
struct SpareSpace {
    rounds: u32,
    /// Bytes that seemed to be returnable when the last try was over: free records that fill no chunk,
    /// and what was kept. Only what comes to them is worth another try.
    left: u64,
    /// Whether a try since the last map was emptied has returned something.
    has_returned: bool,
}

impl SpareSpace {
    fn round(&mut self, shared: &Shared, shutdown: &ShutdownSignal) {
        self.rounds += 1;
        // Relaxed: a request, which carries nothing.
        let tries = shared.space_due.load(Ordering::Relaxed);
        if tries == 0 && !self.is_worth_it(shared) {
            return;
        }
        let heap = shared.trees.heap();
        // What writes and removals in turn take and give back stays, or each would allocate it again.
        let keep = if tries > 0 { 0 } else { heap.used_bytes() / KEPT_PART };
        // What the kernel refuses stays where it is. A thread that closes the store does not wait.
        let returned = shared.return_space_but(keep, || !shutdown.is_signalled()).unwrap_or(0);
        self.left = heap.returnable_bytes();
        // Threads that read the map while it was emptied have gone, and the rest with them.
        let is_over = self.has_returned && returned == 0;
        self.has_returned = tries > 1 && !is_over && (self.has_returned || returned > 0);
        let next = if is_over { 0 } else { tries.saturating_sub(1) };
        // Relaxed: a request, which carries nothing. Not if another map was emptied meanwhile.
        let _ =
            shared.space_due.compare_exchange(tries, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Now and then: whether much has become free since the last try.
    fn is_worth_it(&mut self, shared: &Shared) -> bool {
        if !self.rounds.is_multiple_of(SPACE_ROUNDS) {
            return false;
        }
        let heap = shared.trees.heap();
        let spare = heap.returnable_bytes();
        self.left = self.left.min(spare);
        spare - self.left >= SPACE_MIN + heap.used_bytes() / KEPT_PART
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Durability, Expiry, Options, WriteBatch};

    /// What was lost: while a round of the sweep went over many keys no snapshot began, and the log grew until its disk
    /// was full.
    #[test]
    fn log_and_space_wait_for_no_round_of_the_sweep() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options::new().create(true).max_size_bytes(1 << 28).sweep(false);
        // A snapshot by its own thread is never due.
        let options = options.durability(Durability::Power).snapshot_after_bytes(u64::MAX);
        let store = options.open(folder.path().join("pool")).expect("it opens");
        let (map, mut batch) = (store.default_map(), WriteBatch::new());
        for number in 0..6000_u64 {
            batch.put(map, number.to_be_bytes(), b"value");
        }
        batch.put_with_expiry(map, b"brief", b"value", Expiry::from_unix_ms(1));
        assert!(store.write(&batch).expect("room").is_done());
        assert!(store.statistics().log_bytes > 0);
        let shutdown = ShutdownSignal::default();
        let (told, events) = told();
        let mut upkeep = Upkeep::new(store.shared(), &shutdown, 1, &events);
        upkeep.next_look = Instant::now();
        assert!(upkeep.sweep().is_continue());
        assert_eq!(store.statistics().swept_keys, 1);
        let rest = store.statistics().log_bytes;
        assert!(rest < 1000, "the log still has {rest} bytes");
        assert_eq!(upkeep.spare.rounds, 1);
        let lines: Vec<String> = told.try_iter().collect();
        assert!(lines.len() == 1 && lines[0].starts_with("wrote a snapshot of 600"), "{lines:?}");
    }

    /// Keeps the lines that are told.
    fn told() -> (std::sync::mpsc::Receiver<String>, EventFn) {
        let (tell, told) = std::sync::mpsc::channel();
        (told, EventFn::new(move |event| tell.send(event.to_string()).expect("it is kept")))
    }

    #[test]
    fn a_log_that_has_failed_is_told_of_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options::new().create(true).max_size_bytes(1 << 28).sweep(false);
        let options = options.durability(Durability::Power).snapshot_after_bytes(u64::MAX);
        let store = options.open(folder.path().join("pool")).expect("it opens");
        let (shutdown, (told, events)) = (ShutdownSignal::default(), told());
        // A snapshot is always due: none of a log that has failed is tried, and said to be tried again.
        let mut upkeep = Upkeep::new(store.shared(), &shutdown, 0, &events);
        let _ = store.default_map().put("key", "value").expect("room");
        upkeep.look();
        let lines: Vec<String> = told.try_iter().collect();
        assert!(lines.len() == 1 && lines[0].starts_with("wrote a snapshot of 1"), "{lines:?}");
        std::fs::remove_dir_all(folder.path().join("pool.log")).expect("it is there");
        upkeep.look();
        upkeep.look();
        let lines: Vec<String> = told.try_iter().collect();
        assert!(lines.len() == 1 && lines[0].contains("has removed it"), "{lines:?}");
    }

    /// What was lost: the thread ended, and with it snapshots, the return of space and the sweep.
    #[test]
    fn a_panic_of_the_function_that_is_told_ends_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options::new().create(true).max_size_bytes(1 << 28).sweep(false);
        let options = options.durability(Durability::Power).snapshot_after_bytes(u64::MAX);
        let options = options.events(|event| panic!("{event}"));
        let store = options.clone().open(folder.path().join("pool")).expect("it opens");
        let _ = store.default_map().put("key", "value").expect("room");
        let shutdown = ShutdownSignal::default();
        let events = options.events.clone();
        let mut upkeep = Upkeep::new(store.shared(), &shutdown, 0, &events);
        upkeep.look();
        store.close().expect("it is closed all the same");
        let store = options.open(folder.path().join("pool")).expect("it opens");
        assert!(store.statistics().was_clean);
    }
}
