//! What lives as long as a store is open: the thread of the sweep (`maintenance/upkeep.rs`), and the end.
//!
//! Every handle of a store holds the [`Lifecycle`]; the last of them ends the sweep, waits for it, and
//! marks the pool clean. The sweep holds nothing that keeps the store open. In a process that was forked
//! from the one that opened the store none of this happens: it leaves everything as it is.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use everleaf_index::{BytesTree, Hardware, Machine, Session, Trees, Verify};

use crate::event::{Event, EventFn};
use crate::maintenance::behind_damage::first_readable;
use crate::maintenance::expiring::Seen;
use crate::maintenance::upkeep::{ShutdownSignal, run};
use crate::map::pages::{PageEnd, PageLimit, Reader};
use crate::shared::Shared;
use crate::{Error, Options, Result};

/// Ends with the last handle of a store.
pub(crate) struct Lifecycle {
    /// `None` once it has ended.
    shared: Option<Arc<Shared>>,
    shutdown: Arc<ShutdownSignal>,
    sweep: Option<JoinHandle<()>>,
    events: EventFn,
}

impl Lifecycle {
    /// Begins the life of a store.
    pub fn begin(shared: Arc<Shared>, options: &Options) -> Result<Arc<Lifecycle>> {
        let shutdown = Arc::new(ShutdownSignal::default());
        let mut life = Lifecycle {
            shared: Some(shared.clone()),
            shutdown: shutdown.clone(),
            sweep: None,
            events: EventFn::default(),
        };
        let sweep = options.sweep;
        let is_opening = shared.trees.is_opening() && Self::may_work(options, &shared.trees);
        if shared.has_upkeep || is_opening {
            let (limit, events) = (options.snapshot_after_bytes, options.events.clone());
            let thread = std::thread::Builder::new().name("everleaf-sweep".to_string());
            let sweep = thread.spawn(move || run(&shared, &shutdown, sweep, limit, &events));
            let what = "cannot start the store's background thread (snapshots, free space, expired keys): \
                        raise the limit on threads";
            life.sweep = Some(sweep.map_err(|error| Error::Io(what.to_string(), error))?);
        }
        // From here on: of what was never open no end is told.
        life.events = options.events.clone();
        Ok(Arc::new(life))
    }

    /// Whether a thread works for it as long as it is open.
    pub fn has_upkeep(options: &Options, trees: &Trees, has_log: bool) -> bool {
        (options.sweep || has_log) && Self::may_work(options, trees)
    }

    fn may_work(options: &Options, trees: &Trees) -> bool {
        !trees.heap().pool().is_read_only() && !options.is_simulated()
    }

    /// Ends it, and reports what goes wrong.
    pub fn end(mut self) -> Result<()> {
        self.close()
    }

    fn close(&mut self) -> Result<()> {
        let Some(shared) = self.shared.take() else { return Ok(()) };
        if !shared.trees.heap().pool().is_of_this_process() {
            // Inherited by a fork: the store is open in another process, which ends it, and the
            // thread of the sweep is not here.
            std::mem::forget(self.sweep.take());
            return shared.check_process();
        }
        let finished = self.finish(&shared);
        // The lock of the pool goes with it: the last handle has nothing else of the pool any more, and the thread has
        // ended, unless it is this one. Only then it is told.
        drop(shared);
        self.events.tell(&match &finished {
            Ok(()) => Event::Closed,
            Err(error) => Event::CloseFailed(error),
        });
        finished
    }

    /// Ends the thread, and leaves everything in order.
    fn finish(&mut self, shared: &Shared) -> Result<()> {
        self.shutdown.signal();
        // If the function of events, in that thread, had the last handle, it cannot wait for itself: it does nothing
        // more with the pool.
        let is_other = |sweep: &JoinHandle<()>| sweep.thread().id() != std::thread::current().id();
        if let Some(sweep) = self.sweep.take().filter(is_other) {
            // If it panicked, the panic was reported, and nothing depends on it.
            let _ = sweep.join();
        }
        if let Some(log) = &shared.log {
            // The pool may count as clean only if the log has everything, too.
            // Relaxed: the thread that also looks at it has ended, or is this one.
            let is_due = log.snapshot_due.load(Ordering::Relaxed);
            let written = is_due.then(|| shared.snapshot()).transpose()?;
            let owed = shared.write_owed_snapshot()?;
            log.renumber(&shared.trees, &mut *shared.session()?)?;
            log.end(&mut *shared.session()?)?;
            shared.trees.close()?;
            for pairs in [written, owed].into_iter().flatten() {
                self.events.tell(&Event::Snapshot(pairs));
            }
            return Ok(());
        }
        shared.trees.close()?;
        // A thread that waits for the end is not to take it for kept.
        shared.look_for_pool()
    }
}

impl Drop for Lifecycle {
    fn drop(&mut self) {
        // Nobody can write any more. Without the mark the next open only knows that the store was
        // not closed.
        let _ = self.close();
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
        let (mut expired, mut seen) = (vec![], 0);
        let start = from.as_ref().map(Vec::as_slice);
        let mut session = self.session()?;
        let mut reader =
            Reader { tree, session: &mut session, verify: Verify::Sum, shows_expired: true };
        let bounds = (start, Bound::Unbounded);
        let read = reader.read(bounds, false, PageLimit::SWEEP, &mut |record| {
            if record.expiry_ms != 0 && record.expiry_ms <= now {
                expired.push(record.key.to_vec());
            } else if record.expiry_ms != 0 {
                counted.keys += 1;
                counted.rest_ms += u128::from(record.expiry_ms - now);
            }
            seen += 1;
            ControlFlow::Continue(())
        });
        let next = match read {
            Ok(PageEnd::Limit(last)) => Some(Bound::Excluded(last)),
            Ok(_) => None,
            Err(error) => match behind_damage(tree, &mut session, start, seen)? {
                None => return Err(error),
                next => next,
            },
        };
        for key in &expired {
            let purged = self.purge(tree, &mut session, key)?;
            // Relaxed: a statistic.
            self.swept.fetch_add(u64::from(purged), Ordering::Relaxed);
        }
        Ok(next)
    }

    /// Frees a key if it has expired. Views need nothing saved, and the log nothing told: what has expired is absent
    /// to both.
    pub(crate) fn purge(
        &self,
        tree: &BytesTree,
        session: &mut Session<Hardware>,
        key: &[u8],
    ) -> Result<bool> {
        let mut pinned = session.pinned();
        if self.order.is_free() {
            return Ok(tree.purge(&mut pinned, key)?);
        }
        drop(pinned);
        let _stripe = self.order.lock(key);
        Ok(tree.purge(session, key)?)
    }
}

/// Where to go on behind the first `sound` records from `start` on: the next one is damaged, and nothing is known of
/// its expiry. What is damaged is told by an operation that reads it.
fn behind_damage(
    tree: &BytesTree,
    session: &mut Session<Hardware>,
    start: Bound<&[u8]>,
    sound: usize,
) -> Result<Option<Bound<Vec<u8>>>> {
    let (mut keys, mut seen) = ([None, None], 0);
    let bounds = (start, Bound::Unbounded);
    let scanned = tree.scan_verified(session, bounds, false, Verify::Key, |record| {
        seen += 1;
        if seen >= sound {
            keys[usize::from(seen > sound)] = Some(record.key.to_vec());
        }
        seen <= sound
    });
    let [last, damaged] = keys;
    let last = match (last, start) {
        (Some(key), _) => key,
        (None, Bound::Included(key) | Bound::Excluded(key)) => key.to_vec(),
        (None, Bound::Unbounded) => Vec::new(),
    };
    let is_found = |key: &Vec<u8>, session: &mut Session<Hardware>| {
        matches!(tree.get_verified(session, key, Verify::Key, |_| ()), Ok(Some(())))
    };
    if scanned.is_ok()
        && let Some(key) = damaged.filter(|key| *key > last && is_found(key, session))
    {
        // It is found by its key, so its value is what is damaged.
        return Ok(Some(Bound::Excluded(key)));
    }
    let found = first_readable(&last, |key| {
        let from = Bound::Included(key);
        match tree.scan_records(session, from, Bound::Unbounded, false, |_| false) {
            Ok(()) => Ok(true),
            Err(error) => match Error::from(error) {
                Error::Corrupt(_) => Ok(false),
                error => Err(error),
            },
        }
    })?;
    Ok(found.map(Bound::Included))
}
