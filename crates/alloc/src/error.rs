//! What can go wrong with space.

use std::fmt;

use everleaf_pool::PoolError;

/// Everything that can go wrong when space is taken, found or recovered.
#[derive(Debug)]
#[non_exhaustive]
pub enum AllocError {
    /// The pool could not be grown, or refused something else.
    Pool(PoolError),
    /// The machine has no memory left for volatile nodes.
    OutOfMemory,
    /// All session slots are taken: more threads use the heap at once than it admits.
    TooManySessions(usize),
    /// All descriptors of multi-word exchanges are in use, or wait for a thread that stands still within an
    /// operation. Holds how many there are.
    DescriptorsInUse(usize),
    /// What waits for all operations was called inside of one.
    Nested,
    /// Something persistent is not what it must be. Offset in bytes from the start of the pool.
    Corrupt {
        /// Where.
        offset: u64,
        /// What is wrong.
        what: String,
    },
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllocError::Pool(error) => error.fmt(f),
            AllocError::OutOfMemory => f.write_str(
                "the machine is out of memory: nothing was changed; free memory and try again",
            ),
            AllocError::TooManySessions(limit) => write!(
                f,
                "more than {limit} threads, or operations inside others, use the pool at once: use fewer \
                 threads, or try again when some have ended"
            ),
            AllocError::DescriptorsInUse(count) => write!(
                f,
                "all {count} descriptors of the index are in use, or some thread stands still within an \
                 operation: nothing was changed; let that thread go on, and try again"
            ),
            AllocError::Nested => f.write_str(
                "this waits for all operations that are running, and was called by a function that \
                 one of them runs: call it when that operation has returned",
            ),
            AllocError::Corrupt { offset, what } => write!(
                f,
                "the pool is damaged at offset {offset}: {what}; run `everleaf check`, and if it confirms \
                 the damage restore a backup, or keep what can be proven with `everleaf repair`"
            ),
        }
    }
}

impl AllocError {
    /// Whether the error says that space was not to be had, for whatever reason: there is none, or the
    /// kernel refused to let the pool grow. Then nothing was changed, and what needs no new space goes
    /// on.
    pub fn lacks_space(&self) -> bool {
        let is_refusal = |error: &PoolError| {
            matches!(error, PoolError::Io { .. } | PoolError::AddressSpace { .. })
        };
        self.is_full() || matches!(self, AllocError::Pool(error) if is_refusal(error))
    }

    /// Whether the error says that there is no space (rather than that something is wrong).
    pub fn is_full(&self) -> bool {
        match self {
            AllocError::Pool(error) => {
                matches!(error, PoolError::DiskFull { .. } | PoolError::PoolFull { .. })
            }
            _ => false,
        }
    }
}

impl std::error::Error for AllocError {}

impl From<PoolError> for AllocError {
    fn from(error: PoolError) -> Self {
        AllocError::Pool(error)
    }
}
