//! A store: the named maps of one pool.
//!
//! What is open is in `shared.rs`; how it is opened, in `opening.rs`; how it ends, in `lifecycle.rs`. A store has what
//! its maps share, and the default map, which keeps the store open as every handle does.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use everleaf_index::{BytesTree, FEATURE_RUNS_OF_LISTS, IndexError, Verify, WriteOrder};

use crate::lifecycle::Lifecycle;
use crate::maintenance::expiring::Expiring;
use crate::maintenance::saved;
use crate::map::Map;
use crate::map::reserved::{DEFAULT_MAP, is_reserved, name_is_taken, refuse_reserved};
use crate::opening::{
    OpenedTrees, is_untouched, open_rest, open_whole, remove_new, remove_unstarted, resolved,
};
use crate::pool_name::PoolName;
use crate::ranked::{Rank, RankedMutex};
use crate::shared::{Shared, thread_number};
use crate::versions::Versions;
use crate::wal::{LogDirectory, StoreLog};
use crate::watches::Watches;
use crate::{Error, Options, Rebuilt, Result};

/// An open store: an ordered map of byte strings, and any number of further named maps, in one pool
/// file.
///
/// *Thread safety*: share it by reference or `Arc`; all operations may run at once. *Durability*:
/// an operation that returned survives the death of the process at any instruction, and on
/// persistent memory also a power cut. *Fork*: a process that is forked from the one that opened the
/// store cannot use it: every operation of the child fails with [`Error::Forked`], and what it drops stays
/// as it is for the parent. Open a store after forking. On an ordinary disk the [`Durability`](crate::Durability) of
/// the store decides what a power cut or a crash of the kernel costs: with `Power` nothing, with
/// `Interval` the last moment; with `Process` such a crash is detected at the next open, and the pool
/// refused.
///
/// # Example
/// ```
/// # fn main() -> everleaf::Result<()> {
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// # let path = folder.path().join("example.pool");
/// use everleaf::{Options, Store};
/// let store = Store::open(&path, Options::new().create(true))?;
/// let trees = store.default_map();
/// trees.put("oak", "Quercus")?;
/// trees.put("beech", "Fagus")?;
/// assert_eq!(trees.get("oak")?, Some(b"Quercus".to_vec()));
/// let pairs = trees.iter().collect::<everleaf::Result<Vec<_>>>()?;
/// assert_eq!(pairs[0].0, b"beech");
/// store.map("heights")?.put("oak", "40 m")?;
/// store.close()?;
/// # Ok(())
/// # }
/// ```
pub struct Store {
    shared: Arc<Shared>,
    default: Map,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.shared.trees.heap().pool().path();
        f.debug_struct("Store").field("path", &path).finish_non_exhaustive()
    }
}

impl Options {
    /// Opens the store.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open(self, path: impl AsRef<Path>) -> Result<Store> {
        Store::open(path, self)
    }
}

impl Store {
    /// Opens the pool file at `path`. Recovery, if the last process died, is part of it: it takes
    /// tens of milliseconds per gigabyte and loses nothing that was acknowledged. With a log a snapshot is
    /// then owed: with [`Power`](crate::Durability::Power) it is written before this returns, which takes as
    /// long as reading and writing all of the store; with [`Interval`](crate::Durability::Interval) a thread
    /// writes it ([`Statistics::log_owes_snapshot`](crate::Statistics::log_owes_snapshot)).
    ///
    /// A new pool has [`Durability::Process`](crate::Durability::Process) unless the options say otherwise:
    /// it survives the death of the process, and after a crash of the machine on an ordinary disk it is
    /// refused, because recent writes may be missing or damaged.
    ///
    /// # Errors
    /// There is no pool or there is one already, depending on `options`; another process has it; it
    /// is foreign, truncated, damaged or of a newer format; the machine crashed while it was open;
    /// the disk is full. The message says which, and what to do.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Store> {
        if let Some(missing) = everleaf_index::missing_cpu_feature() {
            return Err(Error::Unsupported(missing.to_string()));
        }
        let started = Instant::now();
        let threads = match options.recovery_threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            count => count,
        };
        let path = &resolved(path.as_ref());
        let place = LogDirectory::of(path, &options);
        let OpenedTrees { trees, recovered_batches, rebuilt, is_new } =
            open_whole(path, &place, &options, threads)?;
        let is_new = is_new && is_untouched(&trees, &place);
        let (log, tree) = open_rest(&trees, &place, &options, path).map_err(|error| {
            let error = place.locate(error);
            if is_new {
                remove_new(path, &place);
            }
            error
        })?;
        let recovery = started.elapsed();
        let is_planted = |name| log.as_ref().is_some_and(|log| log.mutant(name));
        let verify_or = |unless, verify| if is_planted(unless) { Verify::Key } else { verify };
        let verify = verify_or("store.gets_unverified", options.verify_of_reads());
        let verify_scans = verify_or("store.scans_unverified", options.verify_of_scans());
        let has_upkeep = Lifecycle::has_upkeep(&options, &trees, log.is_some());
        let shared = Arc::new(Shared {
            trees,
            has_upkeep,
            order: WriteOrder::default(),
            views: Versions::new(options.view_memory_bytes),
            watches: Watches::default(),
            log,
            name: PoolName::default(),
            path: std::path::absolute(path).unwrap_or_else(|_| path.clone()),
            map_making: RankedMutex::new(Rank::MapMaking, ()),
            journal: OnceLock::new(),
            journal_making: RankedMutex::new(Rank::JournalMaking, ()),
            space_due: AtomicU32::new(0),
            sweep_paused: AtomicBool::new(false),
            swept: AtomicU64::new(0),
            verify,
            verify_scans,
            expiring: Expiring::default(),
            recovery,
            recovered_batches,
            rebuilt,
        });
        if shared.log.is_some() {
            // For good: every write keeps the order.
            shared.order.raise(shared.trees.heap());
        }
        let life = match Lifecycle::begin(shared.clone(), &options) {
            Ok(life) => life,
            Err(error) => {
                remove_unstarted(is_new.then_some(shared), path, &place);
                return Err(error);
            }
        };
        Ok(Store { default: Map::new(life, shared.clone(), tree), shared })
    }

    /// The map named [`DEFAULT_MAP`], which every store has.
    pub fn default_map(&self) -> &Map {
        &self.default
    }

    /// The map of that name, created if absent. The name has 1 to 40 bytes.
    ///
    /// # Errors
    /// [`Error::BadName`] if the name is not allowed, belongs to a map of integers, or there is no room for
    /// another name; [`Error::ReadOnly`] if there is no such map in a store that is read-only;
    /// [`Error::PoolFull`], [`Error::DiskFull`] and [`Error::LogFailed`].
    pub fn map(&self, name: &str) -> Result<Map> {
        if let Some(map) = self.existing_map(name)? {
            return Ok(map);
        }
        self.map_or_new(name, false)
    }

    /// The map of that name, made if absent. One that is there is refused if a new one is wanted.
    pub(crate) fn map_or_new(&self, name: &str, must_be_new: bool) -> Result<Map> {
        refuse_reserved(name)?;
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let mut session = self.shared.session()?;
        let _alone = self.shared.making();
        // Nobody else makes one meanwhile. One without a number was never seen: its making was cut short.
        let is_seen = |tree: &Arc<BytesTree>| self.shared.is_numbered(tree);
        if must_be_new
            && self.shared.trees.find_bytes_tree(name)?.is_some_and(|tree| is_seen(&tree))
        {
            return Err(name_is_taken(name));
        }
        self.shared.check_writes()?;
        let tree = match self.shared.trees.bytes_tree(name) {
            Err(error) if error.lacks_space() => {
                // A thread that makes a tree does so in another session, which cannot have what this one has freed.
                session.collect_all();
                session.give_back();
                self.shared.with_room(|| Ok(self.shared.trees.bytes_tree(name)?))?
            }
            result => result?,
        };
        if let Err(error) = self.shared.number_with_room(&tree, name, &mut session) {
            if error.lacks_space() && !is_seen(&tree) {
                drop(tree);
                // Nobody has seen it, and so many of them would take all names. If it stays, the next call finds it.
                let _ = self.shared.trees.unlink(&mut session, name);
                self.shared.trees.tidy_removed(&mut session);
            }
            return Err(error);
        }
        Ok(self.default.another(tree))
    }

    /// The map of that name, if there is one; `None` for names that the store reserves for itself.
    ///
    /// # Errors
    /// [`Error::BadName`] if the name belongs to a map of integers.
    pub fn existing_map(&self, name: &str) -> Result<Option<Map>> {
        if is_reserved(name) {
            return Ok(None);
        }
        self.shared.check_process()?;
        let Some(mut tree) = self.shared.trees.find_bytes_tree(name)? else { return Ok(None) };
        if let Some(log) = &self.shared.log
            && !log.is_numbered(&tree)
        {
            // Its maker is about to give it its number, or could not.
            let mut session = self.shared.session()?;
            let _alone = self.shared.making();
            let Some(found) = self.shared.trees.find_bytes_tree(name)? else { return Ok(None) };
            self.shared.number_with_room(&found, name, &mut session)?;
            tree = found;
        }
        Ok(Some(self.default.another(tree)))
    }

    /// The names of all maps, sorted; the default map is `default`. None in a process that was forked from the
    /// one that opened the store ([`Self::check_process`]).
    pub fn map_names(&self) -> Vec<String> {
        self.shared.map_names()
    }

    /// Removes a map with everything in it, atomically; false if there was none. Handles that still
    /// exist fail from then on. The default map is emptied instead.
    ///
    /// *Cost*: as [`Map::clear`].
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::BadName`] if the store reserves the name; [`Error::LogFailed`];
    /// [`Error::Corrupt`] if a view needs a value that is damaged.
    pub fn drop_map(&self, name: &str) -> Result<bool> {
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        if name == DEFAULT_MAP {
            self.default.clear()?;
            return Ok(true);
        }
        self.drop_map_if(name, |_| true)
    }

    /// Removes the map of that name if it is the one that is meant, of byte strings or not. Returns whether it was
    /// there.
    pub(crate) fn drop_map_if(
        &self,
        name: &str,
        is_meant: impl Fn(Option<&Arc<BytesTree>>) -> bool,
    ) -> Result<bool> {
        refuse_reserved(name)?;
        self.shared.check_process()?;
        let mut session = self.shared.session()?;
        // Nobody gives a number to a map that goes.
        let making = self.shared.making();
        let found = self.shared.trees.find_bytes_tree(name).unwrap_or(None);
        if !is_meant(found.as_ref()) {
            return Ok(false);
        }
        let (removed, lsn) = self.shared.alone_with(&mut session, |in_order, session| {
            self.shared.check_writes()?;
            let tree = match in_order {
                // Of a map of integers nothing is saved or logged.
                true => self.shared.trees.find_bytes_tree(name).unwrap_or(None),
                false => None,
            };
            if let Some(tree) = &tree {
                self.shared.save_all(tree, session)?;
                self.shared.watches.mark_present(tree, session);
            }
            let (Some(log), Some(tree)) = (&self.shared.log, &tree) else {
                return Ok((self.shared.trees.unlink(session, name)?, None));
            };
            log.forget_note(name, session)?;
            let reservation = log.place();
            match self.shared.trees.unlink(session, name) {
                Ok(true) => Ok((true, Some(log.forget_map(reservation, tree, name, session)?))),
                // Nothing was changed, neither if it fails.
                kept => {
                    reservation.give_up();
                    if kept.is_err() {
                        log.note_map(name, session);
                    }
                    Ok((kept?, None))
                }
            }
        })?;
        drop(making);
        if removed {
            self.shared.reached("store.frees");
            // Only now: it takes as long as there is much in it, and nobody has to wait for it.
            self.shared.trees.tidy_removed(&mut session);
        }
        drop(session);
        self.shared.note_free_space();
        self.shared.wait(lsn)?;
        Ok(removed)
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Whether the store was opened read-only.
    pub fn is_read_only(&self) -> bool {
        self.shared.trees.heap().pool().is_read_only()
    }

    /// Notes durably that lists of the server in it may have runs: programs that do not know them refuse the pool.
    ///
    /// # Errors
    /// The store is read-only; [`Error::Io`] if the disk refuses; [`Error::Corrupt`].
    #[doc(hidden)]
    pub fn note_runs_of_lists(&self) -> Result<()> {
        self.shared.check_process()?;
        let pool = self.shared.trees.heap().pool();
        if pool.features() & FEATURE_RUNS_OF_LISTS == 0 {
            pool.enable_features(FEATURE_RUNS_OF_LISTS).map_err(IndexError::from)?;
        }
        Ok(())
    }

    /// Whether that was noted.
    #[doc(hidden)]
    pub fn has_note_of_runs(&self) -> bool {
        self.shared.trees.heap().pool().features() & FEATURE_RUNS_OF_LISTS != 0
    }

    /// Writes a snapshot, while the store goes on being read and written; the log from before it is
    /// let go. Returns the number of pairs in it. Happens by itself, too
    /// ([`Options::snapshot_after_bytes`]).
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the store has no log; [`Error::SnapshotBusy`] if another snapshot is being
    /// written; [`Error::LogFailed`]; [`Error::DiskFull`] and [`Error::Io`] if the disk refuses.
    pub fn snapshot(&self) -> Result<u64> {
        self.shared.check_process()?;
        self.shared.end_owed()?;
        self.shared.snapshot()
    }

    /// Saves what there is: a [snapshot](Self::snapshot) if there is a log (and not both are gone), otherwise a backup
    /// beside the pool, `POOL.backup`; another pool's stays as `POOL.backup.replaced`. Returns the pairs.
    ///
    /// # Errors
    /// As [`Self::snapshot`] and [`Self::backup`]; the store has no file; at the place of the backup is no pool, or one
    /// that is open for writing (this one, too, if the name is a link to it), or that has a log.
    pub fn save(&self) -> Result<u64> {
        if self.shared.log.is_some() && !self.is_pool_gone() {
            return self.snapshot();
        }
        let Some(mut name) = self.shared.path().map(|path| path.as_os_str().to_owned()) else {
            return Err(Error::Unsupported("the store has no file to save beside".to_string()));
        };
        name.push(".backup");
        let place = Path::new(&name);
        // Held until the new one has the name: nobody opens the old one for writing. Another may come meanwhile.
        let _held = saved::admit(place)?;
        let (new, copied) = self.copy_to(place, false, None, &mut |_| {})?;
        let old = saved::admit(place)?;
        old.map_or(Ok(()), |old| old.keep_if_of_another(self.shared.trees.heap().pool().uuid()))?;
        new.replace()?;
        Ok(copied.keys)
    }

    /// In a store with a log, makes durable all that can be read when it is called, also with `Durability::Interval`,
    /// and what other threads are still writing. **Without a log it makes nothing durable**, and only looks for the
    /// pool's file: a crash of the machine costs what [`Durability::Process`](crate::Durability::Process) says.
    ///
    /// # Errors
    /// The log has failed; [`Error::PoolGone`].
    pub fn sync(&self) -> Result<()> {
        self.shared.check_process()?;
        // Not by a backup, which syncs as well, and is what helps then.
        self.shared.look_for_pool()?;
        self.shared.sync()
    }

    /// Lets writes of the calling thread return before they are durable, from now on and for good:
    /// nobody may be told of them before [`Self::wait_deferred`] has returned. So that many writes share one
    /// wait, as a server does for all requests of a moment. A second call forgets writes only if a wait for
    /// them has failed. A thread has this record for one store: when it asks another one to defer,
    /// [`Self::wait_deferred`] of the first waits for all that was written there, also when the first was asked to
    /// defer anew, and until then later writes wait one by one again. Without a log it does nothing.
    pub fn defer_sync(&self) {
        if let Some(log) = &self.shared.log {
            log.defer();
        }
    }

    /// Waits until the writes of the calling thread count as done, after [`Self::defer_sync`].
    ///
    /// # Errors
    /// The log has failed: of the writes since the last call, any may be lost in a crash.
    #[inline]
    pub fn wait_deferred(&self) -> Result<()> {
        self.shared.check_process()?;
        self.shared.log.as_ref().map_or(Ok(()), StoreLog::wait_deferred)
    }

    /// Whether the log has failed: then every write is refused until the store is opened anew.
    pub fn has_log_failed(&self) -> bool {
        self.shared.has_log_failed()
    }

    /// What the pool was made from when it was opened, if it was missing or could not be used.
    pub fn rebuilt(&self) -> Option<&Rebuilt> {
        self.shared.rebuilt.as_ref()
    }

    /// Returns the disk space of what is free in the pool, in whole units of 2 MiB, to the file system; the file
    /// keeps its length and has holes. Returns the bytes. Space is allocated again before it is used, so that a
    /// disk that became full meanwhile is reported by the write that needs it. Happens by itself some seconds
    /// after a map was emptied or dropped, and when much else is free, unless the store has neither a log nor a
    /// [sweep](Options::sweep).
    ///
    /// # Errors
    /// The kernel refuses. File systems that know no holes return nothing.
    pub fn return_space(&self) -> Result<u64> {
        self.shared.check_process()?;
        self.shared.return_space_but(0, || true)
    }

    /// Checks everything: the trees' invariants, every record's check sum, and that every byte of
    /// the pool is in use or free, exactly once. Writers and readers wait meanwhile, and it waits for
    /// those that are inside an operation; while it waits for a [`Self::load_map`], no other call waits.
    ///
    /// # Errors
    /// The check could not be made; so it is when a function that an operation runs asks for it. What it
    /// finds is in the report.
    pub fn check(&self) -> Result<crate::CheckReport> {
        self.shared.check_process()?;
        let mut report = self.shared.trees.check_by(Some(thread_number()))?;
        let mut session = self.shared.session()?;
        for name in self.shared.trees.names().iter().filter(|name| is_reserved(name)) {
            if let Some(tree) = self.shared.trees.find_bytes_tree(name)? {
                // The keys of its own are nobody's business.
                let keys = tree.shape_so_far(&mut session)?.keys;
                report.keys -= keys.min(report.keys);
            }
        }
        Ok(report)
    }

    /// The files of the log that were found damaged, or belong to what a log has lost, and are kept under
    /// other names (`damaged-..`, `stale-..`). Nothing reads them any more. What was acknowledged behind the damage,
    /// and the pool does not have, is only in `damaged-log-..`: keep those until that is not missed. The others can be
    /// deleted.
    ///
    /// # Errors
    /// The folder of the log cannot be read.
    pub fn put_aside_files(&self) -> Result<Vec<PathBuf>> {
        match self.shared.path() {
            Some(path) => LogDirectory::of(path, &Options::new()).put_aside(),
            None => Ok(vec![]),
        }
    }

    /// Marks the pool cleanly closed and closes it, as dropping a store does, which cannot report an error.
    ///
    /// # Errors
    /// [`Error::StillOpen`] if maps, iterators, batches, views or watches of the store are still held:
    /// the last of them closes it when it is dropped. The disk refuses a write: in memory nothing is lost, but the
    /// disk may lack what it refused, so the next opening takes the pool for one whose machine crashed: it is
    /// rebuilt from its log, or refused without one. [`Error::PoolGone`]: the file was removed or replaced, and what
    /// was in it is lost now, unless it has another name: ask [`Self::is_pool_gone`] before, and [save](Self::save). If
    /// the log could not be ended (`LogFailed`, `LogFull`, `DiskFull`), the pool has everything, and is not closed.
    pub fn close(self) -> Result<()> {
        let Store { shared, default } = self;
        shared.check_process()?;
        let (views, watches) = (shared.views.held().views, shared.watches.len());
        drop(shared);
        let life = default.into_lifecycle();
        // Ours is one of them.
        let handles = Arc::strong_count(&life) - 1;
        match Arc::into_inner(life) {
            Some(life) => life.end(),
            None => Err(Error::StillOpen { handles, views, watches }),
        }
    }
}
