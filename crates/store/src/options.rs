//! How to open a store: settings only. What they mean for a pool and its log is decided in `opening.rs` and
//! `wal/open.rs`.

use std::sync::Arc;
use std::time::Duration;

use everleaf_index::{CreateMode, Hardware, IndexError, Pool, PoolOptions, Trees, Verify};

use crate::event::{Event, EventFn};
use crate::wal::{Folder, LogFolder};
use crate::{Domain, Durability};

/// How to open a store. Each setting says what it does and what it is by default.
///
/// # Example
/// ```
/// # fn main() -> everleaf::Result<()> {
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// # let path = folder.path().join("example.pool");
/// let store = everleaf::Options::new().create(true).max_size_bytes(1 << 30).open(&path)?;
/// store.default_map().put("key", "value")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) pool: PoolOptions,
    pub(crate) recovery_threads: usize,
    pub(crate) open_at_once: bool,
    pub(crate) salvage_log: bool,
    pub(crate) sweep: bool,
    pub(crate) verify_reads: bool,
    pub(crate) verify_scans: bool,
    pub(crate) durability: Option<Durability>,
    pub(crate) durability_of_new: Option<Durability>,
    pub(crate) interval_of_last: Option<Duration>,
    pub(crate) tree: Option<Tree>,
    pub(crate) snapshot_after_bytes: u64,
    pub(crate) view_memory_bytes: u64,
    pub(crate) rebuild_progress: Option<ProgressFn>,
    pub(crate) events: EventFn,
    /// Of the files of the log; 0 for what is usual.
    pub(crate) segment_size_bytes: u64,
    /// Binary logarithm of the chunks of a new pool whose log is on a simulated disk; 0 for what is usual.
    pub(crate) chunk_shift: u32,
    /// The disk of the log, if it can be another.
    pub(crate) log_disk: <LogFolder as Folder>::Choice,
}

/// The tree that the maps of a pool are in. What they promise is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tree {
    /// NBTree: leaves of 1 KiB, written one entry behind the other.
    #[default]
    NbTree,
    /// A B+-tree whose leaves of 4 KiB are hash tables: a search waits for one cache miss less. Older
    /// versions refuse a pool that was ever made so.
    HashedLeaf,
}

impl Tree {
    /// Says that the maps of a new pool are in this tree, before it has any.
    pub(crate) fn choose_for(self, trees: &Trees) -> std::result::Result<(), IndexError> {
        match self {
            Tree::NbTree => Ok(()),
            Tree::HashedLeaf => trees.make_hashed_leaves(),
        }
    }
}

/// What is called with how far something is.
#[derive(Clone)]
pub(crate) struct ProgressFn(pub Arc<dyn Fn(u64) + Send + Sync>);

impl std::fmt::Debug for ProgressFn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ProgressFn")
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// The defaults: an existing pool, for writing, in the domain that is detected.
    pub fn new() -> Self {
        Options {
            pool: PoolOptions::default(),
            recovery_threads: 0,
            open_at_once: false,
            salvage_log: false,
            sweep: true,
            verify_reads: false,
            verify_scans: true,
            durability: None,
            durability_of_new: None,
            interval_of_last: None,
            tree: None,
            snapshot_after_bytes: 1 << 30,
            view_memory_bytes: 0,
            rebuild_progress: None,
            events: EventFn::default(),
            segment_size_bytes: 0,
            chunk_shift: 0,
            log_disk: Default::default(),
        }
    }

    /// Create the pool if there is none. Default: no.
    pub fn create(mut self, yes: bool) -> Self {
        self.pool.create = if yes { CreateMode::IfMissing } else { CreateMode::Never };
        self
    }

    /// Create the pool, and fail if there is one. The last of [`Self::create`] and this one counts. Default: no.
    ///
    /// A pool that was made and then cannot be opened, for want of a descriptor for instance, stays: it is whole
    /// and empty, and another process may have it open already. It is opened without this option.
    pub fn create_new(mut self, yes: bool) -> Self {
        self.pool.create = if yes { CreateMode::New } else { CreateMode::Never };
        self
    }

    /// Change nothing in the file; several readers may share it while no writer has it. Default: no.
    pub fn read_only(mut self, yes: bool) -> Self {
        self.pool.read_only = yes;
        self
    }

    /// Size of a new file, in bytes; it grows in place as needed. At least 128 KiB, rounded up to
    /// 64 KiB. Default: 1 MiB.
    pub fn initial_size_bytes(mut self, size: u64) -> Self {
        self.pool.initial_size_bytes = size;
        self
    }

    /// Ceiling of the file's growth, in bytes: address space is reserved for it, memory and disk are
    /// not. A pool holds 1 TiB at most, whatever this says. Default: 64 GiB for a new pool, what the pool says
    /// otherwise.
    pub fn max_size_bytes(mut self, size: u64) -> Self {
        self.pool.max_size_bytes = size;
        self
    }

    /// The persistence domain: what a write must reach to survive. Default: detected. On persistent memory a
    /// domain that promises more than the platform keeps (`Eadr` where it is `Adr`) loses acknowledged writes
    /// at a power cut.
    pub fn domain(mut self, domain: Domain) -> Self {
        self.pool.domain = Some(domain);
        self
    }

    /// Open a pool although the machine stopped while it was open on an ordinary disk, so that some
    /// of its last writes may be lost and some of its bytes torn. Run [`Store::check`](crate::Store::check) afterwards.
    /// A pool with a log is rebuilt from there all the same. Default: no.
    pub fn trust_after_machine_crash(mut self, yes: bool) -> Self {
        self.pool.trust_after_machine_crash = yes;
        self
    }

    /// Go on although the log is damaged or shorter than it was, with what can be proven of it: what was logged
    /// behind the damage is lost, if the pool is lost as well. What was found is in
    /// [`Rebuilt::damages`](crate::Rebuilt::damages), or replaced by a snapshot of the pool; files from behind
    /// the damage are kept in the folder of the log under other names. Default: no, which is an error.
    pub fn salvage_log(mut self, yes: bool) -> Self {
        self.salvage_log = yes;
        self
    }

    /// Threads that recovery may use; 0 for one per CPU. Default: 0.
    pub fn recovery_threads(mut self, count: usize) -> Self {
        self.recovery_threads = count;
        self
    }

    /// Open a pool of which the last process died as soon as it is known which leaves there are, and read what is in
    /// a leaf when it is first touched, and in the background
    /// ([`Statistics::unrestored_leaves`](crate::Statistics::unrestored_leaves)). Maps in [`Tree::HashedLeaf`] only;
    /// a pool that was closed is opened as ever, and one whose log owes a snapshot is read wholly for that. Until all
    /// is read
    /// - space that was free is not used: the pool may grow, and a write that finds no space waits until all is read;
    /// - [`Map::len`](crate::Map::len) and closing wait until all of the map, or of the store, is read; statistics
    ///   count the keys that were read;
    /// - a leaf that is damaged is [`Error::Corrupt`](crate::Error::Corrupt) for an operation that touches it, and an
    ///   [`Event::Damage`]; the others can be used. Otherwise the store would not open. What was free is not used
    ///   then, and closing fails.
    ///
    /// Of a damaged pool this promises less than an opening that reads all: two entries that refer to one record are
    /// told once ([`Event::Damage`](crate::Event::Damage)), and both are served; clearing or dropping such a map would
    /// free the record twice. Once damage is told, close the store, and repair the pool. A store that is only read has
    /// no thread in the background: what nobody touches is not looked at.
    ///
    /// Default: no.
    pub fn open_at_once(mut self, yes: bool) -> Self {
        self.open_at_once = yes;
        self
    }

    /// Remove keys that have expired, in the background, at a few percent of a CPU. Without it they
    /// are absent all the same, but keep their space until they are written again. In a store without a log
    /// "no" also ends what else is done in the background: returning space
    /// ([`Store::return_space`](crate::Store::return_space)), and the look once a second whether the pool still has its
    /// file ([`Error::PoolGone`](crate::Error::PoolGone)): then only [`Store::sync`](crate::Store::sync) and closing
    /// notice that what is written is lost. Default: yes.
    pub fn sweep(mut self, yes: bool) -> Self {
        self.sweep = yes;
        self
    }

    /// Compare the check sum of what a get finds, at some nanoseconds per hundred bytes. Without it a
    /// get only makes sure that the key is the right one and that the lengths fit the pool, and a
    /// value whose bytes have changed on the disk is returned as it is. Backups, compaction, snapshots,
    /// batches' conditions and the values that conditional writes see are verified always; for ranges
    /// see [`Self::verify_scans`]. Default: no (the program and its server: yes).
    pub fn verify_reads(mut self, yes: bool) -> Self {
        self.verify_reads = yes;
        self
    }

    /// Compare the check sum of every pair that a range, a scan or a view's range comes to, and that
    /// the keys ascend. Costs little where the values are looked at anyway: their bytes are then in the
    /// cache. A scan that needs the keys only, of pairs with long values, is several times as fast
    /// without. Default: yes.
    pub fn verify_scans(mut self, yes: bool) -> Self {
        self.verify_scans = yes;
        self
    }

    /// What is to survive. With anything but [`Durability::Process`] there is a log beside the pool, in
    /// a folder with its name and `.log` behind it, and a pool whose machine crashed is rebuilt
    /// from there when it is opened; it has the maximum size and the durability of the one that was
    /// lost. A pool that had a log and is opened with `Process` has none any more. Default: as the
    /// pool was opened last; `Process` for a new one.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// The [durability](Self::durability) of a pool that is created on an ordinary disk, if none is
    /// given; one that is there keeps its own, and persistent memory needs no log. Default:
    /// [`Durability::Process`].
    pub fn durability_of_new(mut self, durability: Durability) -> Self {
        self.durability_of_new = Some(durability);
        self
    }

    /// The interval of a pool that is opened with [`Durability::Interval`] because it was so the last time; no other
    /// durability has one, and one that is [given](Self::durability) has its own. Default: as the pool was opened
    /// last.
    pub fn interval_of_last(mut self, interval: Duration) -> Self {
        self.interval_of_last = Some(interval);
        self
    }

    /// The tree that maps are in: of a pool that is created, that is rebuilt from its log, or that
    /// [`Self::compact`] writes. One that is there keeps its own. Default: [`Tree::NbTree`] for a new
    /// pool; for one that is rebuilt or compacted, the tree it had.
    pub fn tree(mut self, tree: Tree) -> Self {
        self.tree = Some(tree);
        self
    }

    /// Bytes of keys and values in the log after which a snapshot is written in the background, which
    /// lets the log before it go; also when its files have grown by four times as much, as they do by
    /// small writes that are waited for one by one. Default: 1 GiB.
    pub fn snapshot_after_bytes(mut self, bytes: u64) -> Self {
        self.snapshot_after_bytes = bytes;
        self
    }

    /// Bytes of DRAM that old values may take, which are kept for open views. When a write would exceed
    /// that, the oldest views are given up until it does not: reading them then fails with
    /// [`Error::ViewLost`](crate::Error::ViewLost). Without a limit what is kept is at most one old value
    /// per view and key that changed since. Default: 0, no limit.
    pub fn view_memory_bytes(mut self, bytes: u64) -> Self {
        self.view_memory_bytes = bytes;
        self
    }

    /// While opening rebuilds the pool from its log, `tell` is called from time to time with the
    /// number of pairs and changes done so far, by any of the threads that do it: one call at a time, in
    /// ascending numbers. The rebuilding waits for it, and it must not open this store. Default: nobody is
    /// told.
    pub fn rebuild_progress(mut self, tell: impl Fn(u64) + Send + Sync + 'static) -> Self {
        self.rebuild_progress = Some(ProgressFn(Arc::new(tell)));
        self
    }

    /// `tell` is called with what the store does without being asked, and with its end, by the thread that
    /// does it: of the store's own, or whichever opens it or drops its last handle; so two threads may call it at
    /// once. It must not use the store. A panic in `tell` is caught. Of a store that [`Self::compact`] or
    /// [`Self::upgrade`] opens [`Event::BatchLeft`], [`Event::MaximumRaised`], [`Event::Rebuilt`] and
    /// [`Event::LogSalvaged`] alone are told. Default: nobody is told.
    ///
    /// ```
    /// # fn main() -> Result<(), everleaf::Error> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// let (tell, told) = std::sync::mpsc::channel();
    /// let options = everleaf::Options::new().create(true);
    /// let options = options.events(move |event| drop(tell.send(event.to_string())));
    /// drop(options.open(folder.path().join("p"))?);
    /// assert_eq!(told.recv().as_deref(), Ok("closed"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn events(mut self, tell: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        self.events = EventFn::new(tell);
        self
    }

    /// For a store that is opened for a moment, and that the caller never has.
    pub(crate) fn untold(mut self) -> Self {
        self.events = self.events.of_opening();
        self
    }

    pub(crate) fn verify_of_reads(&self) -> Verify {
        if self.verify_reads { Verify::Sum } else { Verify::Key }
    }

    pub(crate) fn verify_of_scans(&self) -> Verify {
        if self.verify_scans { Verify::Sum } else { Verify::Key }
    }

    /// Whether the log is on a simulated disk: then nothing happens but what the run does.
    pub(crate) fn is_simulated(&self) -> bool {
        LogFolder::is_simulated(&self.log_disk)
    }

    /// The trees of a new pool, none yet.
    pub(crate) fn make_trees(
        &self,
        pool: Pool<Hardware>,
    ) -> std::result::Result<Trees, IndexError> {
        match self.chunk_shift {
            shift if shift > 0 && self.is_simulated() => Trees::create_with_chunks(pool, shift),
            _ => Trees::create(pool),
        }
    }
}
