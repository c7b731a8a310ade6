//! An integer index of a design by its name, in a pool of its own: for programs in other languages.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use everleaf_designs::{catalogue, registry};
use everleaf_index::{
    CreateMode, DesignInfo, Domain, Hardware, IndexError, OrderedIndex, Pool, PoolError,
    PoolOptions, Session, Trees,
};

/// The name of the index in the pool's directory.
const NAME: &str = "index";
/// Bytes of a new pool, unless the most that it may have is less.
const FIRST_SIZE: u64 = 1 << 20;

/// Threads that have used an index so far: each gets a number, which leads it to a session.
static THREAD_COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static THREAD_NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
}

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

/// An integer index of any design, shared by reference between threads.
///
/// # Example
/// ```
/// use everleaf_lab_designs::NamedIndex;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let index = NamedIndex::open("fast-fair", None, 1 << 30)?;
/// assert_eq!(index.with(|tree, session| tree.insert(session, 7, 70))?, None);
/// assert_eq!(index.with(|tree, session| tree.get(session, 7))?, Some(70));
/// # Ok(())
/// # }
/// ```
pub struct NamedIndex {
    trees: Trees,
    index: Arc<dyn OrderedIndex<Hardware>>,
    is_closed: bool,
}

/// How the file of an index is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct IndexOpening {
    /// How many bytes a new pool may grow to; 0 is the pool's default. One that is there keeps its maximum.
    pub max_size: u64,
    /// The index must not be there yet.
    pub is_new: bool,
    /// Open the pool also if the machine crashed while it was open: its contents may then be any mix of old and new.
    pub trusts_after_machine_crash: bool,
}

impl NamedIndex {
    /// Opens the index of the pool at `path`, or makes both if there is no file; without a path it is
    /// in memory, and gone when dropped. `max_size` is how many bytes a new pool may grow to; 0 is the
    /// pool's default.
    ///
    /// # Errors
    /// As [`Self::open_as`].
    pub fn open(design: &str, path: Option<&Path>, max_size: u64) -> Result<Self, IndexError> {
        let opening = IndexOpening { max_size, ..IndexOpening::default() };
        match path {
            Some(path) => Self::open_as(design, path, opening),
            None => {
                let most = if max_size == 0 { 64 << 30 } else { max_size };
                let pool = Pool::in_memory(FIRST_SIZE.min(most), most, Domain::Process)?;
                Self::in_pool(design, pool)
            }
        }
    }

    /// Opens the index of the pool at `path`, or makes both if there is no file. A pool that is refused stays as it
    /// is.
    ///
    /// # Errors
    /// There is no such design; it is kept in DRAM; the pool has an index of another one, or something else in it; the
    /// pool's.
    pub fn open_as(design: &str, path: &Path, opening: IndexOpening) -> Result<Self, IndexError> {
        let info = info_of(design)?;
        crate::design::refuse_in_file(design)?;
        let found = PoolOptions {
            trust_after_machine_crash: opening.trusts_after_machine_crash,
            ..PoolOptions::default()
        };
        let new = PoolOptions {
            create: if opening.is_new { CreateMode::New } else { CreateMode::IfMissing },
            max_size_bytes: opening.max_size,
            initial_size_bytes: FIRST_SIZE.min(opening.max_size.max(1)),
            ..found.clone()
        };
        if opening.is_new {
            return Self::in_pool(design, Pool::open(path, &new)?);
        }
        // Not even a mark is written to what is not ours.
        match Pool::open(path, &PoolOptions { read_only: true, ..found.clone() }) {
            Ok(pool) => refuse_others(&pool, &info)?,
            Err(PoolError::Missing { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let pool = match Pool::open(path, &found) {
            Err(PoolError::Missing { .. }) => Pool::open(path, &new)?,
            opened => opened?,
        };
        // Another process may have made something since the look at it.
        if let Err(error) = refuse_others(&pool, &info) {
            let _ = pool.leave_as_found();
            return Err(error);
        }
        Self::in_pool(design, pool)
    }

    /// The index of a pool that has no other one, or a new one.
    fn in_pool(design: &str, pool: Pool<Hardware>) -> Result<Self, IndexError> {
        let trees = Trees::open_with(pool, 1, registry())?;
        let found = match trees.find_index(NAME) {
            Ok(Some(index)) => Ok(index),
            Ok(None) => trees.create_index(NAME, design),
            Err(error) => Err(error),
        };
        match found {
            Ok(index) => Ok(NamedIndex { trees, index, is_closed: false }),
            Err(error) => {
                // It was not used: the next opening need not recover it.
                let _ = trees.close();
                Err(error)
            }
        }
    }

    /// What is known about its design.
    pub fn info(&self) -> DesignInfo {
        self.index.info()
    }

    /// Calls a function with the tree, and with a session for it.
    ///
    /// # Errors
    /// The function's; no memory for a session; the process is another than that which opened the pool.
    #[inline]
    pub fn with<R>(
        &self,
        call: impl FnOnce(&dyn OrderedIndex<Hardware>, &mut Session<Hardware>) -> Result<R, IndexError>,
    ) -> Result<R, IndexError> {
        let mut session = self.trees.sessions().enter(thread_number())?;
        call(&*self.index, &mut session)
    }

    /// Makes everything durable that was written before, in a design that defers that. In all others it is so already,
    /// and nothing is done.
    ///
    /// # Errors
    /// As writes; then some of it may not be durable.
    pub fn persist(&self) -> Result<(), IndexError> {
        self.with(|tree, session| tree.persist_deferred(session))
    }

    /// Marks the pool cleanly closed, with all that was deferred.
    ///
    /// # Errors
    /// The disk refuses: the next opening recovers what is durable, and what was deferred may be lost.
    pub fn close(mut self) -> Result<(), IndexError> {
        self.is_closed = true;
        self.trees.close()
    }
}

impl Drop for NamedIndex {
    /// As [`NamedIndex::close`], whose error nobody is told.
    fn drop(&mut self) {
        if !self.is_closed {
            let _ = self.trees.close();
        }
    }
}

/// What is known of a design.
fn info_of(design: &str) -> Result<DesignInfo, IndexError> {
    let found = catalogue::designs().into_iter().find(|info| info.name == design);
    found.ok_or_else(|| IndexError::UnknownDesign(design.to_string()))
}

/// Refuses a pool that has something else in it than an index of this design.
fn refuse_others(pool: &Pool<Hardware>, design: &DesignInfo) -> Result<(), IndexError> {
    for root in pool.roots() {
        if root.name != NAME {
            let what = format!("a map '{}'", root.name);
            return Err(IndexError::OtherContents(what));
        }
        if root.kind != design.kind {
            return Err(IndexError::OtherKind(NAME.to_string()));
        }
    }
    Ok(())
}
