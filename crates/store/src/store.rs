//! A store: the named maps of one pool.

use std::cell::Cell;
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use everleaf_index::{
    AllocError, BytesTree, Hardware, IndexError, Journal, Order, Pool, PoolError, Session,
    SessionGuard, Trees,
};

use crate::life::Life;
use crate::map::Map;
use crate::statistics::Statistics;
use crate::view::Views;
use crate::{Error, Options, Result};

/// The name of the map that a store is itself.
pub const DEFAULT_MAP: &str = "default";

/// How the names of maps begin that belong to the store itself.
const RESERVED: char = '\u{1}';

/// Threads that have used a store so far: each gets a number, which leads it to a session.
static THREAD_COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static THREAD_NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// A small number that stays the same for the calling thread.
#[inline]
fn thread_number() -> usize {
    THREAD_NUMBER.with(|number| {
        if number.get() == usize::MAX {
            // Relaxed: only distinct numbers are wanted.
            number.set(THREAD_COUNT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

/// What the maps of a store share.
pub(crate) struct Shared {
    pub trees: Trees,
    /// Order among writers, while somebody needs it.
    pub order: Order<Hardware>,
    pub views: Views,
    journal: OnceLock<Journal>,
    /// Held while the journal is made.
    journal_making: Mutex<()>,
    /// Keys that had expired and were removed by the sweep.
    pub swept: AtomicU64,
    pub recovery_ns: u64,
    /// Batches that opening has brought to an end.
    pub recovered_batches: u64,
}

impl Shared {
    /// A session for the calling thread, for the length of one operation.
    #[inline]
    pub fn session(&self) -> Result<SessionGuard<'_, Hardware>> {
        Ok(self.trees.sessions().enter(thread_number()).map_err(IndexError::from)?)
    }

    /// The journal of batches, made by the first of them.
    pub fn journal(&self, session: &mut Session<Hardware>) -> Result<&Journal> {
        if let Some(journal) = self.journal.get() {
            return Ok(journal);
        }
        let _alone = self.journal_making.lock().unwrap_or_else(PoisonError::into_inner);
        if self.journal.get().is_none() {
            let journal = Journal::open(&self.trees, session)?;
            return Ok(self.journal.get_or_init(|| journal));
        }
        Ok(self.journal.get().expect("it was just seen"))
    }

    /// The names of the user's maps, sorted.
    pub fn map_names(&self) -> Vec<String> {
        let mut names = self.trees.names();
        names.retain(|name| !is_reserved(name));
        names
    }

    /// Reclaims what can be reclaimed; for when space has run out.
    pub fn reclaim(&self) {
        self.trees.reclaim();
    }
}

/// An open store: an ordered map of byte strings, and any number of further named maps, in one pool
/// file.
///
/// *Thread safety*: share it by reference or `Arc`; all operations may run at once. *Durability*:
/// an operation that returned survives the death of the process at any instruction, and on
/// persistent memory also a power cut. On an ordinary disk a power cut or a crash of the kernel can
/// lose writes of the last seconds and is detected at the next open.
///
/// # Example
/// ```
/// # fn main() -> everleaf::Result<()> {
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// # let path = folder.path().join("example.pool");
/// use everleaf::{Options, Store};
/// let store = Store::open(&path, Options::new().create(true))?;
/// store.put(b"oak", b"Quercus")?;
/// store.put(b"beech", b"Fagus")?;
/// assert_eq!(store.get(b"oak")?, Some(b"Quercus".to_vec()));
/// let names: Vec<_> = store.iter().map(|(key, _)| key).collect();
/// assert_eq!(names, [b"beech".to_vec(), b"oak".to_vec()]);
/// let heights = store.map("heights")?;
/// heights.put(b"oak", b"40 m")?;
/// store.close()?;
/// # Ok(())
/// # }
/// ```
pub struct Store {
    shared: Arc<Shared>,
    default: Map,
}

/// A store is its default map: `store.get(..)`.
impl Deref for Store {
    type Target = Map;
    fn deref(&self) -> &Map {
        &self.default
    }
}

impl Store {
    /// Opens the pool file at `path`. Recovery, if the last process died, is part of it: it takes
    /// tens of milliseconds per gigabyte and loses nothing that was acknowledged.
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
        let pool = Pool::open(path.as_ref(), &options.pool)
            .map_err(|error| from_pool(error, path.as_ref()))?;
        let trees = Trees::open(pool, threads)?;
        let recovered_batches = finish_batches(&trees)?;
        if !trees.heap().pool().is_read_only() {
            trees.bytes_tree(DEFAULT_MAP)?;
        }
        let recovery_ns = started.elapsed().as_nanos() as u64;
        let tree = trees.find_bytes_tree(DEFAULT_MAP)?.ok_or_else(|| {
            Error::NotAPool(format!(
                "{} holds no map yet: open it for writing once",
                path.as_ref().display()
            ))
        })?;
        let shared = Arc::new(Shared {
            trees,
            order: Order::default(),
            views: Views::default(),
            journal: OnceLock::new(),
            journal_making: Mutex::new(()),
            swept: AtomicU64::new(0),
            recovery_ns,
            recovered_batches,
        });
        let life = Life::begin(shared.clone(), options.sweep)?;
        Ok(Store { default: Map::new(life, shared.clone(), tree), shared })
    }

    /// The map of that name, created if absent. The name has 1 to 40 bytes.
    ///
    /// # Errors
    /// A bad name, or no space.
    pub fn map(&self, name: &str) -> Result<Map> {
        if let Some(map) = self.existing_map(name)? {
            return Ok(map);
        }
        refuse_reserved(name)?;
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let tree = match self.shared.trees.bytes_tree(name) {
            Err(error) if error.is_full() => {
                self.shared.reclaim();
                self.shared.trees.bytes_tree(name)
            }
            result => result,
        }?;
        Ok(self.default.another(tree))
    }

    /// The map of that name, if there is one.
    ///
    /// # Errors
    /// The name belongs to a map of integers.
    pub fn existing_map(&self, name: &str) -> Result<Option<Map>> {
        if is_reserved(name) {
            return Ok(None);
        }
        let tree = self.shared.trees.find_bytes_tree(name)?;
        Ok(tree.map(|tree| self.default.another(tree)))
    }

    /// The names of all maps, sorted; the default map is `default`.
    pub fn map_names(&self) -> Vec<String> {
        self.shared.map_names()
    }

    /// Removes a map with everything in it, atomically; false if there was none. Handles that still
    /// exist fail from then on. The default map is emptied instead.
    ///
    /// # Errors
    /// The store is read-only.
    pub fn drop_map(&self, name: &str) -> Result<bool> {
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        if name == DEFAULT_MAP {
            self.clear()?;
            return Ok(true);
        }
        refuse_reserved(name)?;
        self.shared.alone(|in_order| {
            if in_order && let Some(tree) = self.shared.trees.find_bytes_tree(name)? {
                self.shared.save_all(&tree)?;
            }
            Ok(self.shared.trees.remove(name)?)
        })
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Whether the store was opened read-only.
    pub fn is_read_only(&self) -> bool {
        self.shared.trees.heap().pool().is_read_only()
    }

    /// Numbers about the store. Costs some microseconds, and nothing when not asked for.
    pub fn statistics(&self) -> Statistics {
        Statistics::collect(&self.shared, &self.default)
    }

    /// Checks everything: the trees' invariants, every record's check sum, and that every byte of
    /// the pool is in use or free, exactly once. Writers and readers wait meanwhile.
    ///
    /// # Errors
    /// The check could not be made. What it finds is in the report.
    pub fn check(&self) -> Result<crate::CheckReport> {
        let mut report = self.shared.trees.check()?;
        let mut session = self.shared.session()?;
        if let Some(journal) = Journal::find(&self.shared.trees)? {
            // The keys of its own are nobody's business.
            report.keys -= journal.pending(&mut session)?.1.min(report.keys);
        }
        Ok(report)
    }

    /// Marks the pool cleanly closed and closes it; if maps or iterators of it are still held, the
    /// last of them does so when it goes. Dropping a store does the same but cannot report an
    /// error.
    ///
    /// # Errors
    /// The mark cannot be written; nothing is lost.
    pub fn close(self) -> Result<()> {
        let Store { shared, default } = self;
        drop(shared);
        match Arc::into_inner(default.into_life()) {
            Some(life) => life.end(),
            None => Ok(()),
        }
    }
}

impl Shared {
    /// Saves all keys of a map for the views that are open. The caller has all stripes.
    pub fn save_all(&self, tree: &Arc<BytesTree>) -> Result<()> {
        let mut session = self.session()?;
        self.views.save_all(tree, &mut session, |key| self.order.hash_of(key))
    }

    /// Runs something that concerns all keys at once, and tells it whether order matters: then no
    /// other writer is active meanwhile.
    ///
    /// May be called by a thread that is in an operation: it waits for nobody's pin.
    pub fn alone<R>(&self, act: impl FnOnce(bool) -> Result<R>) -> Result<R> {
        let mut session = self.session()?;
        let pinned = session.pinned();
        if self.order.is_free() {
            // Whoever raises the gate waits for our pin.
            return act(false);
        }
        drop(pinned);
        let _stripes = self.order.lock_all();
        act(true)
    }
}

/// Brings batches that were cut short to their end. Returns how many.
fn finish_batches(trees: &Trees) -> Result<u64> {
    let Some(journal) = Journal::find(trees)? else { return Ok(0) };
    let mut session = trees.heap().session().map_err(IndexError::from)?;
    if trees.heap().pool().is_read_only() {
        return match journal.pending(&mut session)?.0 {
            0 => Ok(0),
            _ => Err(Error::Unfinished),
        };
    }
    Ok(journal.recover(trees, &mut session)? as u64)
}

/// Whether a name is one of ours.
fn is_reserved(name: &str) -> bool {
    name.starts_with(RESERVED)
}

fn refuse_reserved(name: &str) -> Result<()> {
    if is_reserved(name) {
        let text =
            "names of maps that begin with the character U+0001 are reserved: choose another";
        return Err(Error::BadName(text.to_string()));
    }
    Ok(())
}

fn from_pool(error: PoolError, path: &Path) -> Error {
    match error {
        PoolError::Missing { .. } => Error::NotFound(path.into()),
        PoolError::Exists { .. } => Error::AlreadyExists(path.into()),
        other => IndexError::from(other).into(),
    }
}

impl From<IndexError> for Error {
    fn from(error: IndexError) -> Self {
        let text = error.to_string();
        match error {
            IndexError::KeyTooLarge(size) => Error::KeyTooLarge(size),
            IndexError::ValueTooLarge(size) => Error::ValueTooLarge(size),
            IndexError::BatchTooLarge(size) => Error::BatchTooLarge(size),
            IndexError::ReadOnly => Error::ReadOnly,
            IndexError::OtherKind(_) | IndexError::Removed => Error::BadName(text),
            IndexError::Alloc(AllocError::Corrupt { .. }) => Error::Corrupt(text),
            IndexError::Alloc(AllocError::Pool(error)) => from_pool_error(error, text),
            _ => Error::Unsupported(text),
        }
    }
}

fn from_pool_error(error: PoolError, text: String) -> Error {
    match error {
        PoolError::DiskFull { .. } => Error::DiskFull(text),
        PoolError::PoolFull { .. } => Error::PoolFull(text),
        PoolError::Locked { .. } => Error::Locked(text),
        PoolError::ReadOnly { .. } => Error::ReadOnly,
        PoolError::MachineCrashed { .. } => Error::MachineCrashed(text),
        PoolError::RootName { .. } | PoolError::RootsFull { .. } | PoolError::RootExists { .. } => {
            Error::BadName(text)
        }
        PoolError::Empty { .. }
        | PoolError::Foreign { .. }
        | PoolError::Truncated { .. }
        | PoolError::NewerFormat { .. }
        | PoolError::UnknownFeatures { .. }
        | PoolError::NotAFile { .. }
        | PoolError::Damaged { .. } => Error::NotAPool(text),
        _ => Error::Io(text, std::io::Error::other("the pool could not be used")),
    }
}
