//! An integer index of a design by its name, in a pool of its own: for programs in other languages.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use everleaf_designs::registry;
use everleaf_index::{
    CreateMode, DesignInfo, Domain, Hardware, IndexError, OrderedIndex, Pool, PoolOptions, Session,
    Trees,
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
}

impl NamedIndex {
    /// Opens the index of the pool at `path`, or makes both if there is no file; without a path it is
    /// in memory, and gone when dropped. `max_size` is how many bytes a new pool may grow to; 0 is the
    /// pool's default.
    ///
    /// # Errors
    /// There is no such design; it is kept in DRAM and there is a path; the pool has an index of another one, or
    /// something else in it; the pool's.
    pub fn open(design: &str, path: Option<&Path>, max_size: u64) -> Result<Self, IndexError> {
        let options = PoolOptions {
            create: CreateMode::IfMissing,
            max_size_bytes: max_size,
            initial_size_bytes: FIRST_SIZE.min(max_size.max(1)),
            ..PoolOptions::default()
        };
        let pool = match path {
            Some(path) => {
                crate::design::refuse_in_file(design)?;
                Pool::open(path, &options)?
            }
            None => {
                let most = if max_size == 0 { 64 << 30 } else { max_size };
                Pool::in_memory(FIRST_SIZE.min(most), most, Domain::Process)?
            }
        };
        let trees = Trees::open_with(pool, 1, registry())?;
        let index = match trees.find_index(NAME)? {
            Some(index) if index.info().name == design => index,
            Some(_) => return Err(IndexError::OtherKind(NAME.to_string())),
            None => trees.create_index(NAME, design)?,
        };
        Ok(NamedIndex { trees, index })
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
}

impl Drop for NamedIndex {
    /// Marks the pool cleanly closed; if that fails, the next opening recovers.
    fn drop(&mut self) {
        let _ = self.trees.close();
    }
}
