//! What lives as long as a store is open: the sweep, and the end.
//!
//! Every handle of a store holds the [`Lifecycle`]; the last of them ends the sweep, waits for it, and
//! marks the pool clean. The sweep holds nothing that keeps the store open. In a process that was forked
//! from the one that opened the store none of this happens: it leaves everything as it is.

use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use everleaf_index::{BytesTree, FEATURE_EXPIRY, Hardware, Machine, Session, Verify};

use crate::shared::Shared;
use crate::{Error, Options, Result, Store};

/// Keys that the sweep looks at in one go.
const SLICE_KEYS: usize = 2048;
/// The sweep rests this many times as long as it has worked.
const REST: u32 = 24;
/// Between two goes, and between two rounds.
const REST_MIN: Duration = Duration::from_millis(2);
const ROUND_REST: Duration = Duration::from_secs(1);
/// Rounds after which it looks whether so much space is free that it should be returned.
const SPACE_ROUNDS: u32 = 60;
const SPACE_MIN: u64 = 64 << 20;
/// How often it is tried to write the snapshot that is owed, if that panics.
const OWED_TRIES: u32 = 3;
/// The part of the used space that is kept free then.
const KEPT_PART: u64 = 8;

/// Ends with the last handle of a store.
pub(crate) struct Lifecycle {
    shared: Arc<Shared>,
    shutdown: Arc<ShutdownSignal>,
    sweep: Option<JoinHandle<()>>,
    ended: bool,
}

/// Keys that expire, by map, as the last round of the sweep has seen them. Nothing is waited for behind
/// its lock.
#[derive(Default)]
pub(crate) struct Expiring(Mutex<Vec<(Weak<BytesTree>, Seen)>>);

impl Expiring {
    /// How many keys of a map expire, and how long they had to live, on average.
    pub fn of(&self, tree: &Arc<BytesTree>) -> (u64, Duration) {
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = list.iter().find(|(known, _)| std::ptr::eq(known.as_ptr(), Arc::as_ptr(tree)));
        let (keys, rest_ms) = known.map_or((0, 0), |(_, seen)| (seen.keys, seen.rest_ms));
        (keys, Duration::from_millis((rest_ms / u128::from(keys.max(1))) as u64))
    }

    /// What a round has seen of one map; maps that are gone go.
    fn note(&self, tree: &Arc<BytesTree>, seen: Seen) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.retain(|(known, _)| {
            known.strong_count() > 0 && !std::ptr::eq(known.as_ptr(), Arc::as_ptr(tree))
        });
        list.push((Arc::downgrade(tree), seen));
    }
}

/// What a round of the sweep counts in one map.
#[derive(Default)]
pub(crate) struct Seen {
    keys: u64,
    rest_ms: u128,
}

/// Tells the sweep to end.
#[derive(Default)]
struct ShutdownSignal {
    is_signalled: Mutex<bool>,
    wake: Condvar,
}

impl ShutdownSignal {
    fn signal(&self) {
        *self.is_signalled.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wake.notify_all();
    }

    fn has_rung(&self) -> bool {
        *self.is_signalled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits so long, or until it rings. Returns whether it has rung.
    fn wait(&self, rest: Duration) -> bool {
        let is_signalled = self.is_signalled.lock().unwrap_or_else(PoisonError::into_inner);
        let result =
            self.wake.wait_timeout_while(is_signalled, rest, |is_signalled| !*is_signalled);
        *result.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Lifecycle {
    /// Begins the life of a store.
    pub fn begin(shared: Arc<Shared>, options: &Options) -> Result<Arc<Lifecycle>> {
        let shutdown = Arc::new(ShutdownSignal::default());
        let mut life = Lifecycle {
            shared: shared.clone(),
            shutdown: shutdown.clone(),
            sweep: None,
            ended: false,
        };
        let sweep = options.sweep;
        let has_work = sweep || shared.log.is_some();
        let is_fixed = shared.trees.heap().pool().is_read_only() || options.is_simulated();
        if has_work && !is_fixed {
            let limit = options.snapshot_after_bytes;
            let thread = std::thread::Builder::new().name("everleaf-sweep".to_string());
            let sweep = thread.spawn(move || run(&shared, &shutdown, sweep, limit));
            let what = "cannot start the thread that removes expired keys: lower the number of \
                        threads, or open the store without the sweep";
            life.sweep = Some(sweep.map_err(|error| Error::Io(what.to_string(), error))?);
        }
        Ok(Arc::new(life))
    }

    /// Ends it, and reports what goes wrong.
    pub fn end(mut self) -> Result<()> {
        self.close()
    }

    fn close(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(());
        }
        if !self.shared.trees.heap().pool().is_of_this_process() {
            // Inherited by a fork: the store is open in another process, which ends it, and the
            // thread of the sweep is not here.
            std::mem::forget(self.sweep.take());
            return self.shared.check_process();
        }
        self.shutdown.signal();
        if let Some(sweep) = self.sweep.take() {
            // If it panicked, the panic was reported, and nothing depends on it.
            let _ = sweep.join();
        }
        if let Some(log) = &self.shared.log {
            // The pool may count as clean only if the log has everything, too.
            // Relaxed: the thread that also looks at it has ended.
            if log.snapshot_due.load(Ordering::Relaxed) {
                self.shared.snapshot()?;
            }
            self.shared.settle_owed()?;
            log.renumber(&self.shared.trees, &mut *self.shared.session()?)?;
            log.end(&mut *self.shared.session()?)?;
        }
        Ok(self.shared.trees.close()?)
    }
}

impl Drop for Lifecycle {
    fn drop(&mut self) {
        // Nobody can write any more. Without the mark the next open only knows that the store was
        // not closed.
        let _ = self.close();
    }
}

/// Writes the snapshot that is owed. If that panics, it is tried again: nobody else might do it, and nothing
/// that is logged would ever count.
pub(crate) fn settle(shared: &Shared) {
    let Some(log) = &shared.log else { return };
    for _ in 0..OWED_TRIES {
        // What a panic leaves is whole: the writer of a snapshot removes its file, and the log fails if one
        // of its own steps panics.
        let settled = catch_unwind(AssertUnwindSafe(|| shared.settle_owed()));
        match settled {
            Ok(Ok(())) => return,
            // What would be written meanwhile would be said to be kept, and is not.
            Ok(Err(error)) => return log.fail_owed(&shared.trees, error),
            Err(_) => {}
        }
    }
    let text = format!("writing it panicked {OWED_TRIES} times");
    log.fail_owed(&shared.trees, Error::LogFailed(text));
}

impl Store {
    /// Lets the sweep ([`Options::sweep`]) rest, or go on. What has expired is absent all the same.
    pub fn pause_sweep(&self, paused: bool) {
        // Relaxed: a request, which carries nothing.
        self.shared().sweep_paused.store(paused, Ordering::Relaxed);
    }
}

/// Snapshots when they are due, and the sweep: round after round over all maps, slice by slice.
fn run(shared: &Shared, shutdown: &ShutdownSignal, sweep: bool, snapshot_after_bytes: u64) {
    let mut next_snapshot = Instant::now();
    let mut spare = SpareSpace::default();
    settle(shared);
    while !shutdown.wait(ROUND_REST) {
        if let Some(log) = &shared.log {
            let started = Instant::now();
            // Relaxed: a request, which carries nothing.
            let due = log.snapshot_due.load(Ordering::Relaxed);
            if (due || log.is_long(snapshot_after_bytes)) && started >= next_snapshot {
                // Before it begins: what becomes due meanwhile may not be in it. Taken, and not only
                // cleared: it may have become due since the look above.
                // Relaxed: as above.
                let due = log.snapshot_due.swap(false, Ordering::Relaxed);
                if shared.snapshot().is_err() {
                    // Tried again, but most of the time is left to others; writes tell, too.
                    // Relaxed: as above.
                    log.snapshot_due.fetch_or(due, Ordering::Relaxed);
                    next_snapshot = Instant::now() + started.elapsed() * REST;
                }
            }
        }
        spare.round(shared, shutdown);
        // Relaxed: a request, which carries nothing.
        if !sweep || shared.sweep_paused.load(Ordering::Relaxed) {
            continue;
        }
        if shared.trees.heap().pool().features() & FEATURE_EXPIRY == 0 {
            continue;
        }
        for name in shared.map_names() {
            // Of another kind, or dropped meanwhile: nothing there expires.
            let Ok(Some(tree)) = shared.trees.find_bytes_tree(&name) else { continue };
            let mut from = Some(Bound::Unbounded);
            let mut seen = Seen::default();
            while let Some(start) = from {
                let started = Instant::now();
                from = shared.sweep_slice(&tree, start, &mut seen).unwrap_or(None);
                if shutdown.wait((started.elapsed() * REST).max(REST_MIN)) {
                    return;
                }
            }
            shared.expiring.note(&tree, seen);
        }
    }
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
        // What the kernel refuses stays where it is. Whoever closes the store does not wait.
        let returned = shared.return_space_but(keep, || !shutdown.has_rung()).unwrap_or(0);
        self.left = heap.returnable_bytes();
        // Those who read the map while it was emptied have gone, and the rest with them.
        let is_over = self.has_returned && returned == 0;
        self.has_returned = tries > 1 && !is_over && (self.has_returned || returned > 0);
        let next = if is_over { 0 } else { tries.saturating_sub(1) };
        // Relaxed: as above. Not if another map was emptied meanwhile.
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

impl Shared {
    /// Removes what has expired in a part of a map. Returns where the next part begins.
    pub(crate) fn sweep_slice(
        &self,
        tree: &BytesTree,
        from: Bound<Vec<u8>>,
        counted: &mut Seen,
    ) -> Result<Option<Bound<Vec<u8>>>> {
        let now = Hardware::wall_clock_ms();
        let (mut expired, mut seen, mut last) = (vec![], 0, None);
        let start = from.as_ref().map(Vec::as_slice);
        let mut session = self.session()?;
        let scanned = tree.scan_records(&mut session, start, Bound::Unbounded, false, |record| {
            if record.expiry_ms != 0 && record.expiry_ms <= now {
                expired.push(record.key.to_vec());
            } else if record.expiry_ms != 0 {
                counted.keys += 1;
                counted.rest_ms += u128::from(record.expiry_ms - now);
            }
            seen += 1;
            if seen == SLICE_KEYS {
                last = Some(record.key.to_vec());
            }
            seen < SLICE_KEYS
        });
        if let Err(error) = scanned {
            last = behind_damage(tree, &mut session, start, seen)?;
            if last.is_none() {
                return Err(error.into());
            }
        }
        for key in &expired {
            // Views need nothing saved: what has expired is absent in them, too.
            let mut pinned = session.pinned();
            let purged = if self.order.is_free() {
                tree.purge(&mut pinned, key)?
            } else {
                drop(pinned);
                let _stripe = self.order.lock(key);
                tree.purge(&mut session, key)?
            };
            // Relaxed: a statistic.
            self.swept.fetch_add(u64::from(purged), Ordering::Relaxed);
        }
        Ok(last.map(Bound::Excluded))
    }
}

/// The key of the record behind the first `sound` ones from `start` on, if that can be told: its value is damaged, and
/// nothing is known of its expiry. The next part begins behind it. What is damaged is told by whoever reads it.
fn behind_damage(
    tree: &BytesTree,
    session: &mut Session<Hardware>,
    start: Bound<&[u8]>,
    sound: usize,
) -> Result<Option<Vec<u8>>> {
    let (mut key, mut seen) = (None, 0);
    let bounds = (start, Bound::Unbounded);
    let scanned = tree.scan_verified(session, bounds, false, Verify::Key, |record| {
        seen += 1;
        if seen > sound {
            key = Some(record.key.to_vec());
        }
        seen <= sound
    });
    // Where a key itself is damaged, nobody can tell where the next one begins. If it leads back, the next part would be
    // this one again, for ever.
    let leads_on = |key: &Vec<u8>| match start {
        Bound::Included(from) => key.as_slice() >= from,
        Bound::Excluded(from) => key.as_slice() > from,
        Bound::Unbounded => true,
    };
    Ok(if scanned.is_ok() { key.filter(leads_on) } else { None })
}
