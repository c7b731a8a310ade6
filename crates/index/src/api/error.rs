//! What can go wrong in an index.

use std::fmt;

use everleaf_alloc::AllocError;
use everleaf_pool::{PoolError, human_size};

/// Everything that can go wrong in an index operation.
#[derive(Debug)]
#[non_exhaustive]
pub enum IndexError {
    /// No space, no memory, or damage found by the allocator.
    Alloc(AllocError),
    /// The key is longer than the limit. Holds the length in bytes.
    KeyTooLarge(usize),
    /// The value is longer than the limit. Holds the length in bytes.
    ValueTooLarge(usize),
    /// A batch is longer than a value may be. Holds its length in bytes.
    BatchTooLarge(usize),
    /// Sorted input was not sorted, or held a key twice. Holds the position of the bad pair.
    NotSorted(usize),
    /// The pool is open read-only.
    ReadOnly,
    /// The tree was removed from the pool while this handle was kept.
    Removed,
    /// A tree of that name exists, with keys of another kind.
    OtherKind(String),
    /// A pool that is to have one tree, or none yet, has something else in it. Holds what.
    OtherContents(String),
    /// The tree's design cannot hold this key.
    KeyOutOfRange(u64),
    /// The tree's design cannot hold this value.
    ValueOutOfRange(u64),
    /// The tree's design cannot do this. Holds what, as a noun.
    Unsupported(&'static str),
    /// The tree was in DRAM and is gone. Holds the name of its design.
    Volatile(&'static str),
    /// The program knows no design of that name.
    UnknownDesign(String),
    /// The pool holds a tree of a design that the program does not know.
    ForeignDesign {
        /// The name of the tree.
        map: String,
        /// The design's number in the pool's directory.
        kind: u16,
    },
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = || human_size(crate::VALUE_SIZE_MAX as u64);
        let human = |size: &usize| human_size(*size as u64);
        match self {
            IndexError::Alloc(error) => error.fmt(f),
            IndexError::KeyTooLarge(size) => {
                let limit = human_size(crate::KEY_SIZE_MAX as u64);
                write!(f, "a key of {} ({size} bytes) is longer than {limit}", human(size))
            }
            IndexError::ValueTooLarge(size) => {
                write!(f, "a value of {} ({size} bytes) is longer than {}", human(size), limit())
            }
            IndexError::BatchTooLarge(size) => write!(
                f,
                "a batch of {} ({size} bytes) is longer than {}: write it in several batches",
                human(size),
                limit()
            ),
            IndexError::NotSorted(position) => write!(
                f,
                "the input of a bulk load must be sorted and without duplicates: pair {position} \
                 is not greater than the one before"
            ),
            IndexError::Removed => {
                f.write_str("the map was removed from the pool: look it up or create it again")
            }
            IndexError::OtherKind(name) => write!(
                f,
                "the map '{name}' exists with keys of another kind (integers or byte strings): \
                 choose another name"
            ),
            IndexError::OtherContents(what) => write!(
                f,
                "the pool has something else in it: {what}; nothing was changed: open it with what made \
                 it, or choose another file"
            ),
            IndexError::KeyOutOfRange(key) => {
                write!(f, "this design cannot hold the key {key}: see the limits of the index")
            }
            IndexError::ValueOutOfRange(value) => {
                write!(f, "this design cannot hold the value {value}: see the limits of the index")
            }
            IndexError::Unsupported(what) => {
                write!(f, "this design has no {what}: choose another index for that")
            }
            IndexError::Volatile(name) => write!(
                f,
                "the pool had a tree of the design '{name}', which is kept in DRAM and ended with \
                 the program that made it: make the pool anew"
            ),
            IndexError::UnknownDesign(name) => write!(
                f,
                "there is no index design '{name}': `everleaf-lab bench --help` names the designs"
            ),
            IndexError::ForeignDesign { map, kind } => write!(
                f,
                "the map '{map}' is kept in an index design (number {kind}) that this program \
                 does not have: use `everleaf-lab check`, which has the published designs, or a \
                 newer version"
            ),
            IndexError::ReadOnly => f.write_str("the pool is open read-only"),
        }
    }
}

impl std::error::Error for IndexError {}

impl From<AllocError> for IndexError {
    fn from(error: AllocError) -> Self {
        IndexError::Alloc(error)
    }
}

impl From<PoolError> for IndexError {
    fn from(error: PoolError) -> Self {
        IndexError::Alloc(AllocError::Pool(error))
    }
}

impl IndexError {
    /// Whether space was not to be had; see [`AllocError::lacks_space`].
    pub fn lacks_space(&self) -> bool {
        matches!(self, IndexError::Alloc(error) if error.lacks_space())
    }

    /// Whether a batch that fails so was rolled back as a whole: for want of space or of memory; see
    /// [`NotMade`](crate::NotMade).
    pub fn leaves_nothing(&self) -> bool {
        self.lacks_space() || matches!(self, IndexError::Alloc(AllocError::OutOfMemory))
    }

    /// Whether the error says that there is no space left.
    pub fn is_full(&self) -> bool {
        matches!(self, IndexError::Alloc(error) if error.is_full())
    }
}
