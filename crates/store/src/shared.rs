//! What the maps of a store share, and the sessions of threads.
//!
//! | part | has | written by |
//! |---|---|---|
//! | `trees` | the pool, its heap, its sessions and trees | every call, through a session |
//! | `order` | the gate and the stripes | writes in order (`ordered_write.rs`), batches, views, watches |
//! | `views`, `watches` | old values; marks | a write that has the stripe of its key |
//! | `log` | places, append buffers, numbers of maps | a write that has the stripe of its key |
//! | `journal` | batches under way | a batch, in the record of its session |
//! | the rest | counts, and words that are set once when the store is opened | see there |
//!
//! *Thread safety*: shared by `Arc` among maps, views and the sweep; what is ranked is taken in the order of
//! `docs/concurrency.md`. *Session*: a thread has one while it is inside a call; nothing here waits for the disk with a
//! session or a stripe held.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use everleaf_index::{
    AllocError, BytesTree, Hardware, IndexError, Journal, Session, SessionGuard, Trees, Verify,
    WriteOrder, lock_rank,
};
use everleaf_log::Lsn;

use crate::maintenance::expiring::Expiring;
use crate::map::reserved::is_reserved;
use crate::pool_name::PoolName;
use crate::ranked::{RankedGuard, RankedMutex};
use crate::versions::Versions;
use crate::wal::StoreLog;
use crate::watches::Watches;
use crate::{Error, Rebuilt, Result};

/// Threads that have used a store so far: each gets a number, which leads it to a session.
static THREAD_COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static THREAD_NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// How often it is tried to return the space of a map that went, which others may still be reading.
const SPACE_TRIES: u32 = 10;

/// Merges before a batch is tried for the first time while leaves are merged.
pub(crate) const BATCH_MERGES: usize = 256;

pub(crate) fn lacks_space<R>(result: &Result<R>) -> bool {
    result.as_ref().is_err_and(Error::lacks_space)
}

/// A small number that stays the same for the calling thread.
#[inline]
pub(crate) fn thread_number() -> usize {
    THREAD_NUMBER.with(|number| {
        if number.get() == usize::MAX {
            // Relaxed: only distinct numbers are wanted.
            number.set(THREAD_COUNT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

/// When something is tried again while leaves are merged.
pub(crate) struct MergesDue {
    /// Merges since it was last tried.
    merged: usize,
    /// How many there must be.
    due: usize,
    /// Whether the number doubles with each try.
    doubles: bool,
}

impl MergesDue {
    /// Behind each merge if `first` is 1; else behind so many, then behind twice as many more, and so on.
    pub fn new(first: usize) -> Self {
        MergesDue { merged: 0, due: first, doubles: first > 1 }
    }

    /// Counts merges. Returns whether it is time to try again.
    pub fn count(&mut self, merged: usize) -> bool {
        self.merged += merged;
        let is_time = self.merged >= self.due;
        if is_time {
            self.merged = 0;
            self.due <<= u32::from(self.doubles);
        }
        is_time
    }

    /// Whether there were merges since it was last tried.
    pub fn has_more(&self) -> bool {
        self.merged > 0
    }
}

/// What the maps of a store share.
pub(crate) struct Shared {
    pub trees: Trees,
    /// Order among writers, while somebody needs it.
    pub order: WriteOrder<Hardware>,
    pub views: Versions,
    pub watches: Watches,
    /// The log, unless the store is to survive its process only.
    pub log: Option<StoreLog>,
    /// Whether the file of the pool can be found.
    pub name: PoolName,
    /// Where the pool was opened, from the root: a process may change its folder.
    pub path: PathBuf,
    /// Held while a map is made.
    pub map_making: RankedMutex<()>,
    pub journal: OnceLock<Journal>,
    /// Held while the journal is made.
    pub journal_making: RankedMutex<()>,
    /// How often it is to be tried to return space to the system, because a map was emptied.
    pub space_due: AtomicU32,
    /// Whether a thread of the store looks after space.
    pub has_upkeep: bool,
    /// The sweep rests.
    pub sweep_paused: AtomicBool,
    /// Keys that had expired and were removed by the sweep.
    pub swept: AtomicU64,
    /// What the sweep has seen of keys that expire.
    pub expiring: Expiring,
    /// How long opening took.
    pub recovery: Duration,
    /// How closely a get looks at what it returns.
    pub verify: Verify,
    /// How closely a range or a scan does.
    pub verify_scans: Verify,
    /// Batches that opening has brought to an end.
    pub recovered_batches: u64,
    /// What opening made the pool from, if it was missing or could not be used.
    pub rebuilt: Option<Rebuilt>,
}

impl Shared {
    /// Where the pool was opened, from the root; `None` if it has no file.
    pub fn path(&self) -> Option<&Path> {
        self.trees.heap().pool().path().map(|_| &*self.path)
    }

    /// Refuses the use of a store that was inherited by a fork. Whatever takes a session is refused
    /// there; this is for what takes a lock first, or none.
    #[inline]
    pub fn check_process(&self) -> Result<()> {
        Ok(self.trees.heap().pool().check_process().map_err(IndexError::from)?)
    }

    /// What tells this store from others that are open in the process.
    #[inline(always)]
    pub fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// A session for the calling thread, for the length of one operation.
    #[inline]
    pub fn session(&self) -> Result<SessionGuard<'_, Hardware>> {
        lock_rank::check_apart(self.address());
        Ok(self.trees.sessions().enter(thread_number()).map_err(IndexError::from)?)
    }

    /// Numbers of a moment, from a session that nobody has to be waited for.
    pub fn glance<R>(&self, look: impl FnOnce(&mut Session<Hardware>) -> R) -> Option<R> {
        match self.trees.sessions().try_enter(thread_number()) {
            Some(mut session) => Some(look(&mut session)),
            None => self.trees.heap().session().ok().map(|mut session| look(&mut session)),
        }
    }

    /// Raises the gate for a batch or a view, by a thread that has so many sessions of its own for it.
    ///
    /// # Errors
    /// The thread is inside an operation for which it would have to wait.
    pub fn raise(&self, own_sessions: usize) -> Result<()> {
        let is_inside = || self.trees.sessions().held_by(thread_number()) > own_sessions;
        if self.order.try_raise(self.trees.heap(), is_inside) {
            return Ok(());
        }
        Err(IndexError::from(AllocError::Nested).into())
    }

    /// The journal of batches, made by the first of them.
    pub fn journal(&self, session: &mut Session<Hardware>) -> Result<&Journal> {
        if let Some(journal) = self.journal.get() {
            return Ok(journal);
        }
        let _alone = self.journal_making.lock();
        if self.journal.get().is_none() {
            let journal = Journal::open(&self.trees, session)?;
            if let Some(log) = &self.log {
                log.note_map(everleaf_index::journal::NAME, session);
            }
            return Ok(self.journal.get_or_init(|| journal));
        }
        Ok(self.journal.get().expect("it was just seen"))
    }

    /// How many batches were rolled back since the store was opened.
    pub fn rollback_count(&self) -> u64 {
        self.order.rollback_count()
    }

    /// The names of the user's maps, sorted.
    pub fn map_names(&self) -> Vec<String> {
        if self.check_process().is_err() {
            return vec![];
        }
        let mut names = self.trees.names();
        names.retain(|name| !is_reserved(name) && self.is_for_all(name));
        names
    }

    /// Whether a map may be seen: one that is being made has its place in the log first.
    fn is_for_all(&self, name: &str) -> bool {
        if self.log.is_none() {
            return true;
        }
        match self.trees.find_bytes_tree(name) {
            Ok(Some(tree)) => self.is_numbered(&tree),
            // Gone meanwhile, or one of integers.
            found => found.is_err(),
        }
    }

    /// Reclaims what can be reclaimed; for when space has run out.
    pub fn reclaim(&self) {
        self.trees.reclaim();
    }

    /// Tries again what has found no space: when all was reclaimed that nobody uses, and, if that was not enough,
    /// while the leaves are merged that removals from a full pool have left.
    pub fn with_room<R>(&self, again: impl FnMut() -> Result<R>) -> Result<R> {
        self.with_room_behind(1, again)
    }

    /// The same of what costs much: while leaves are merged it is tried first behind so many merges, then behind twice
    /// as many more, and so on.
    #[cold]
    #[inline(never)]
    pub fn with_room_behind<R>(
        &self,
        first: usize,
        mut again: impl FnMut() -> Result<R>,
    ) -> Result<R> {
        self.reclaim();
        let mut result = again();
        if lacks_space(&result) {
            let mut due = MergesDue::new(first);
            self.trees.merge_thin(thread_number(), &mut |merged| {
                if due.count(merged) {
                    result = again();
                }
                lacks_space(&result)
            });
            if due.has_more() && lacks_space(&result) {
                self.trees.sessions().collect_idle();
                result = again();
            }
        }
        result
    }
}

impl Shared {
    /// Waits until a write counts as done.
    #[inline]
    pub fn wait(&self, lsn: Option<Lsn>) -> Result<()> {
        match (&self.log, lsn) {
            (Some(log), Some(lsn)) if !log.defers(lsn) => log.wait(lsn),
            _ => Ok(()),
        }
    }

    /// Whether the planted bug of this name is to be shown: never, except on a simulated disk.
    pub fn mutant(&self, name: &'static str) -> bool {
        self.log.as_ref().is_some_and(|log| log.mutant(name))
    }

    /// Tells a simulated run where a thread is.
    pub fn reached(&self, point: &'static str) {
        self.log.iter().for_each(|log| log.reached(point));
    }

    /// Held while a map is made, gets its number, or goes. Not by a thread that has a stripe.
    /// One that uses a session meanwhile has taken it before.
    pub fn making(&self) -> RankedGuard<'_, ()> {
        self.map_making.lock()
    }

    /// Refuses a change that could not be logged, or that nobody would find.
    pub fn check_writes(&self) -> Result<()> {
        self.name.check()?;
        self.log.as_ref().map_or(Ok(()), StoreLog::check)
    }

    /// A map was emptied or dropped: its space is returned soon.
    pub fn note_free_space(&self) {
        // Relaxed: a request, which carries nothing.
        self.space_due.store(SPACE_TRIES, Ordering::Relaxed);
    }

    /// Frees what can be freed, and returns its space to the system but for about `keep` bytes, while
    /// `goes_on` says so. Returns the bytes.
    pub fn return_space_but(&self, keep: u64, mut goes_on: impl FnMut() -> bool) -> Result<u64> {
        if self.trees.heap().pool().is_read_only() {
            return Ok(0);
        }
        self.trees.reclaim();
        self.trees.merge_thin(thread_number(), &mut |_| goes_on());
        Ok(self.trees.heap().return_space_but(keep, goes_on).map_err(IndexError::from)?)
    }

    /// Whether a map has its number in the log, or needs none: nobody has seen it before.
    pub fn is_numbered(&self, tree: &Arc<BytesTree>) -> bool {
        self.log.as_ref().is_none_or(|log| log.is_numbered(tree))
    }

    /// Gives a map its number in the log, if it has none. The caller has [`Self::making`].
    pub fn number(
        &self,
        tree: &Arc<BytesTree>,
        name: &str,
        session: &mut Session<Hardware>,
    ) -> Result<()> {
        match &self.log {
            Some(log) if !log.is_numbered(tree) => {
                log.check()?;
                let lsn = log.give_number(tree, name, session)?;
                log.wait(lsn)
            }
            _ => Ok(()),
        }
    }

    /// [`Self::number`], tried again with what can be reclaimed.
    pub fn number_with_room(
        &self,
        tree: &Arc<BytesTree>,
        name: &str,
        session: &mut Session<Hardware>,
    ) -> Result<()> {
        match self.number(tree, name, session) {
            Err(error) if error.lacks_space() && !self.is_numbered(tree) => {
                session.collect_all();
                session.give_back();
                self.with_room(|| self.number(tree, name, session))
            }
            numbered => numbered,
        }
    }

    /// Saves all keys of a map for the views that are open. The caller has all stripes.
    pub fn save_all(&self, tree: &Arc<BytesTree>, session: &mut Session<Hardware>) -> Result<()> {
        self.views.save_all(tree, session, |key| self.order.hash_of(key))
    }
}
