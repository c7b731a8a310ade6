//! What can go wrong, and what to do about it.

use std::fmt;
use std::path::PathBuf;

use everleaf_index::human_size;
use everleaf_log::descriptor_advice;

/// The longest key, in bytes.
pub const KEY_SIZE_MAX: usize = 64 << 10;
/// The longest value, in bytes.
pub const VALUE_SIZE_MAX: usize = 512 << 20;

/// The result of a store operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Everything that can go wrong in a store. The message says what, where, and what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// There is no pool at this path, and [`crate::Options::create`] was not set.
    NotFound(PathBuf),
    /// There is a pool already, and [`crate::Options::create_new`] asked for a new one.
    AlreadyExists(PathBuf),
    /// Another process holds the pool. The text names it.
    Locked(String),
    /// The store was opened by another process, from which this one was forked. The text names the pool.
    Forked(String),
    /// The file is not a pool, is truncated, damaged, or of a newer format. The text says which.
    NotAPool(String),
    /// The machine stopped while the pool was open and the medium is not persistent memory.
    MachineCrashed(String),
    /// The log of the store has failed, and nothing can be written any more; reads go on. What
    /// [`Store::wait_deferred`](crate::Store::wait_deferred), [`Store::sync`](crate::Store::sync) or a write
    /// with [`Durability::Power`](crate::Durability::Power) has acknowledged is safe. The text has the cause.
    /// The change of a call that failed so may be visible, and be there or not when the store is opened again: look
    /// before you repeat it.
    LogFailed(String),
    /// As [`Self::LogFailed`], because the file system of the log is full, or its file as long as the system lets it
    /// be.
    LogFull(String),
    /// The file of a pool without a log was removed, or another has its place, while the store was open: what is
    /// written would be lost when the process ends, unless the file has another name. No more is written; reads go on,
    /// and what there is can be saved
    /// ([`Store::save`](crate::Store::save), [`Store::backup`](crate::Store::backup)). It is noticed within some
    /// seconds; in a store without a [sweep](crate::Options::sweep) by [`Store::sync`](crate::Store::sync), and when
    /// it is closed.
    PoolGone(String),
    /// A snapshot cannot be written at this moment: another is being written, or a batch was rolled back that it
    /// may have a part of. Nothing was changed: try again.
    SnapshotBusy(String),
    /// Something inside the pool is damaged. The text says what and where.
    Corrupt(String),
    /// The file system is full. Nothing acknowledged is lost; reads go on, and so do removals (with a log: as
    /// long as its disk has room).
    DiskFull(String),
    /// The pool is at its maximum size. Nothing acknowledged is lost; reads go on, and so do removals (with a
    /// log: as long as its disk has room).
    PoolFull(String),
    /// A key is longer than [`KEY_SIZE_MAX`]. Holds its length in bytes.
    KeyTooLarge(usize),
    /// A value is longer than [`VALUE_SIZE_MAX`]. Holds its length in bytes.
    ValueTooLarge(usize),
    /// A batch is longer than [`VALUE_SIZE_MAX`], keys and values and a little for each taken
    /// together. Holds its length in bytes.
    BatchTooLarge(usize),
    /// A batch was being written when the last process died, and a store that is opened read-only
    /// cannot bring it to its end.
    Unfinished,
    /// A view cannot be read any more: old values for it and others took more than
    /// [`crate::Options::view_memory_bytes`]. Holds that limit, in bytes.
    ViewLost(u64),
    /// A map name is empty, longer than 40 bytes, reserved, taken, of another kind of map, or there is no room
    /// for another name.
    BadName(String),
    /// The map was dropped.
    MapDropped,
    /// The pairs for a new map are not in strictly ascending key order: this one, counted from 0, is
    /// not above the one before it.
    NotSorted(usize),
    /// The value to be added to is not an integer as [`Map::fetch_add`](crate::Map::fetch_add) writes it.
    NotAnInteger,
    /// The sum is beyond the range of `i64`.
    Overflow,
    /// [`Store::close`](crate::Store::close) found the store in use; it is closed when the last of
    /// these is dropped.
    StillOpen {
        /// Handles of maps, iterators, batches, views and watches that are held.
        handles: usize,
        /// Views among them.
        views: u64,
        /// Watches among them.
        watches: usize,
    },
    /// The system has no memory to give. The text says for what.
    OutOfMemory(String),
    /// The store was opened read-only.
    ReadOnly,
    /// What waits for all operations that are running was called by a function that one of them runs, and
    /// would wait for itself: call it when that operation has returned. Or a function that decides on a key
    /// ([`Map::update_with`](crate::Map::update_with)) has written this key itself.
    Nested(String),
    /// More threads are in the store at once, or more operations of theirs inside of one another, than it
    /// admits. Nothing was changed: try again when some have ended.
    TooManySessions(String),
    /// A map, or a key of a batch, belongs to another store than the one that was asked.
    OtherStore(String),
    /// What was asked for cannot be done here: on this machine, in this store or with this map. The text says
    /// which, and what to do.
    Unsupported(String),
    /// The operating system refused something. The text says what was tried.
    Io(String, std::io::Error),
}

/// Says that something is larger than it may be, and what to do.
fn too_large(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    size: usize,
    limit: usize,
    advice: &str,
) -> fmt::Result {
    let (human, limit) = (human_size(size as u64), human_size(limit as u64));
    write!(f, "the {what} has {human} ({size} bytes) and the limit is {limit}: {advice}")
}

/// What helps with what the kernel answered; where it refused space that is kept within another error.
fn advice_for(error: &std::io::Error) -> String {
    let within = error.get_ref().and_then(|cause| cause.source());
    descriptor_advice(within.and_then(|source| source.downcast_ref()).unwrap_or(error))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotFound(path) => write!(
                f,
                "there is no pool at {}: create one with `everleaf create {}`, or check the path",
                path.display(),
                path.display()
            ),
            Error::AlreadyExists(path) => write!(
                f,
                "{} exists already: choose another path, or open it instead of creating it",
                path.display()
            ),
            Error::KeyTooLarge(size) => {
                let advice = "use a shorter key, for example a hash of the long part";
                too_large(f, "key", *size, KEY_SIZE_MAX, advice)
            }
            Error::ValueTooLarge(size) => {
                too_large(f, "value", *size, VALUE_SIZE_MAX, "split it over several keys")
            }
            Error::BatchTooLarge(size) => {
                too_large(f, "batch", *size, VALUE_SIZE_MAX, "write it in several batches")
            }
            Error::Unfinished => f.write_str(
                "the last process died while it wrote a batch: open the pool for writing once, which \
                 finishes the batch; any command that writes does, such as `everleaf put`",
            ),
            Error::ViewLost(limit) => write!(
                f,
                "the view was given up, because the old values that open views keep took more than \
                 {}: hold views for a shorter time, or raise Options::view_memory_bytes",
                human_size(*limit)
            ),
            Error::MapDropped => f.write_str("the map was dropped: ask the store for it again"),
            Error::NotSorted(position) => write!(
                f,
                "the pairs must be in strictly ascending key order, and number {position} is not above \
                 the one before it: sort them, or put them one by one"
            ),
            Error::NotAnInteger => f.write_str(
                "the value is not an integer: only a decimal integer of 64 bits without `+`, leading zeros or \
                 blanks can be added to",
            ),
            Error::Overflow => f.write_str("the sum does not fit into a signed 64-bit integer"),
            Error::StillOpen { handles, views, watches } => write!(
                f,
                "the store is still open: {handles} handles are held (views: {views}, watches: {watches}, the \
                 rest maps, iterators and batches); drop them, then close it"
            ),
            Error::ReadOnly => {
                write!(f, "the store was opened read-only: open it for writing to change it")
            }
            Error::Io(what, error) => write!(f, "{what}: {error}{}", advice_for(error)),
            Error::Locked(text)
            | Error::Forked(text)
            | Error::NotAPool(text)
            | Error::MachineCrashed(text)
            | Error::Corrupt(text)
            | Error::LogFailed(text)
            | Error::LogFull(text)
            | Error::PoolGone(text)
            | Error::SnapshotBusy(text)
            | Error::DiskFull(text)
            | Error::PoolFull(text)
            | Error::BadName(text)
            | Error::OutOfMemory(text)
            | Error::Nested(text)
            | Error::TooManySessions(text)
            | Error::OtherStore(text)
            | Error::Unsupported(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io(_, error) => Some(error),
            _ => None,
        }
    }
}
