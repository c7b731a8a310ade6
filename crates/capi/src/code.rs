//! The codes that functions return, and errors on their way out.

use std::ffi::{CStr, c_int};

use everleaf::Error;

/// The number of the binary interface. A program asks `el_abi_version` whether the library has the
/// same one.
pub const EL_ABI_VERSION: u32 = 0;

/// Done.
pub const EL_OK: c_int = 0;
/// There is no such key, map or pair; an iterator is at its end. Not an error.
pub const EL_NOT_FOUND: c_int = 1;
/// The key is there already, and nothing was changed. Not an error.
pub const EL_EXISTS: c_int = 2;
/// A condition did not hold, and nothing was changed. Not an error.
pub const EL_MISMATCH: c_int = 3;

/// An argument is NULL, out of range, or not valid text.
pub const EL_INVALID: c_int = -1;
/// A handle is none, is of another kind, or was freed.
pub const EL_BAD_HANDLE: c_int = -2;
/// The buffer is too small; the length that is needed was stored.
pub const EL_BUFFER_TOO_SMALL: c_int = -3;
/// The store was closed.
pub const EL_CLOSED: c_int = -4;
/// Another call is using this iterator, batch or set of options; or what was asked for cannot be done at this moment
/// (another snapshot is being written, or too many operations are under way): nothing was changed, try again.
pub const EL_BUSY: c_int = -5;
/// A bug in Everleaf: please report the text.
pub const EL_INTERNAL: c_int = -6;
/// There is no pool at the path, and `EL_CREATE` was not set.
pub const EL_NO_POOL: c_int = -7;
/// There is a pool or file at the path already.
pub const EL_ALREADY_EXISTS: c_int = -8;
/// Another process has the pool.
pub const EL_LOCKED: c_int = -9;
/// The store was opened by the process from which this one was forked.
pub const EL_FORKED: c_int = -10;
/// The file is no pool, or one that this version cannot read.
pub const EL_NOT_A_POOL: c_int = -11;
/// The machine stopped while the pool was open.
pub const EL_MACHINE_CRASHED: c_int = -12;
/// The log has failed, or its disk is full: nothing can be written any more until the store is opened again. What the
/// call was to write may be visible, and be there or not then.
pub const EL_LOG_FAILED: c_int = -13;
/// Something in the pool is damaged.
pub const EL_CORRUPT: c_int = -14;
/// The file system is full.
pub const EL_DISK_FULL: c_int = -15;
/// The pool is at its maximum size.
pub const EL_POOL_FULL: c_int = -16;
/// A key, value or batch is too large.
pub const EL_TOO_LARGE: c_int = -17;
/// A batch waits to be finished by an opening for writing.
pub const EL_UNFINISHED: c_int = -18;
/// A view was given up, because too many old values were kept.
pub const EL_VIEW_LOST: c_int = -19;
/// A map cannot have this name.
pub const EL_BAD_NAME: c_int = -20;
/// The store was opened read-only.
pub const EL_READ_ONLY: c_int = -21;
/// The machine, or this store, cannot do this.
pub const EL_UNSUPPORTED: c_int = -22;
/// The operating system refused something.
pub const EL_IO: c_int = -23;
/// The map was dropped.
pub const EL_MAP_DROPPED: c_int = -24;
/// The keys to be loaded are not in order.
pub const EL_NOT_SORTED: c_int = -25;
/// There is no memory.
pub const EL_OUT_OF_MEMORY: c_int = -26;
/// Something of the store is still held: what is freed last closes it.
pub const EL_STILL_OPEN: c_int = -27;
/// Any other error: see its text.
pub const EL_OTHER: c_int = -28;
/// The pool's file was removed, or another lies in its place: nothing can be written any more, but what there is can be
/// saved (`el_store_save`), unless it is `el_store_close` that says so.
pub const EL_POOL_GONE: c_int = -29;

/// An error on its way to the caller. It is one pointer, so that a result that is no error costs little to
/// hand on.
#[derive(Debug)]
pub struct Failure(Box<(c_int, String)>);

impl Failure {
    /// A failure with a text.
    #[cold]
    pub fn new(code: c_int, text: impl Into<String>) -> Self {
        Failure(Box::new((code, text.into())))
    }

    /// One of the negative codes.
    pub fn code(&self) -> c_int {
        self.0.0
    }

    /// What is wrong, and what to do.
    pub fn text(&self) -> &str {
        &self.0.1
    }
}

/// There is no memory.
#[cold]
pub fn out_of_memory() -> Failure {
    Failure::new(EL_OUT_OF_MEMORY, "out of memory")
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Self {
        Failure::new(code_of(&error), error.to_string())
    }
}

fn code_of(error: &Error) -> c_int {
    match error {
        Error::NotFound(_) => EL_NO_POOL,
        Error::AlreadyExists(_) => EL_ALREADY_EXISTS,
        Error::Locked(_) => EL_LOCKED,
        Error::Forked(_) => EL_FORKED,
        Error::NotAPool(_) => EL_NOT_A_POOL,
        Error::MachineCrashed(_) => EL_MACHINE_CRASHED,
        Error::LogFailed(_) | Error::LogFull(_) => EL_LOG_FAILED,
        Error::Corrupt(_) => EL_CORRUPT,
        Error::DiskFull(_) => EL_DISK_FULL,
        Error::PoolFull(_) => EL_POOL_FULL,
        Error::KeyTooLarge(_) | Error::ValueTooLarge(_) | Error::BatchTooLarge(_) => EL_TOO_LARGE,
        Error::Unfinished => EL_UNFINISHED,
        Error::ViewLost(_) => EL_VIEW_LOST,
        Error::BadName(_) => EL_BAD_NAME,
        Error::ReadOnly => EL_READ_ONLY,
        Error::SnapshotBusy(_) | Error::TooManySessions(_) => EL_BUSY,
        Error::Nested(_) | Error::OtherStore(_) | Error::Unsupported(_) => EL_UNSUPPORTED,
        Error::PoolGone(_) => EL_POOL_GONE,
        Error::Io(..) => EL_IO,
        Error::MapDropped => EL_MAP_DROPPED,
        Error::NotSorted(_) => EL_NOT_SORTED,
        Error::OutOfMemory(_) => EL_OUT_OF_MEMORY,
        Error::StillOpen { .. } => EL_STILL_OPEN,
        _ => EL_OTHER,
    }
}

/// What a code means, in a few words.
pub fn meaning(code: c_int) -> &'static CStr {
    match code {
        EL_OK => c"done",
        EL_NOT_FOUND => c"not found",
        EL_EXISTS => c"the key is there already",
        EL_MISMATCH => c"a condition did not hold",
        EL_INVALID => c"an argument is invalid",
        EL_BAD_HANDLE => c"the handle is none, of another kind, or freed",
        EL_BUFFER_TOO_SMALL => c"the buffer is too small",
        EL_CLOSED => c"the store is closed",
        EL_BUSY => c"another call is using the handle, or it is to be tried again",
        EL_INTERNAL => c"a bug in Everleaf",
        EL_NO_POOL => c"there is no pool at the path",
        EL_ALREADY_EXISTS => c"the file exists already",
        EL_LOCKED => c"another process has the pool",
        EL_FORKED => c"the store belongs to the process this one was forked from",
        EL_NOT_A_POOL => c"the file is not a pool that can be read",
        EL_MACHINE_CRASHED => c"the machine stopped while the pool was open",
        EL_LOG_FAILED => c"the log has failed",
        EL_CORRUPT => c"something in the pool is damaged",
        EL_DISK_FULL => c"the disk is full",
        EL_POOL_FULL => c"the pool is at its maximum size",
        EL_TOO_LARGE => c"a key, value or batch is too large",
        EL_UNFINISHED => c"a batch waits for an opening for writing",
        EL_VIEW_LOST => c"the view was given up",
        EL_BAD_NAME => c"the map cannot have this name",
        EL_READ_ONLY => c"the store was opened read-only",
        EL_UNSUPPORTED => c"this is not supported here",
        EL_IO => c"the operating system refused something",
        EL_MAP_DROPPED => c"the map was dropped",
        EL_NOT_SORTED => c"the keys are not in order",
        EL_OUT_OF_MEMORY => c"there is no memory",
        EL_POOL_GONE => c"the file of the pool is gone",
        EL_STILL_OPEN => c"something of the store is still held",
        _ => c"an error: see el_last_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_tried_again_has_a_code_of_its_own() {
        for error in [Error::SnapshotBusy(String::new()), Error::TooManySessions(String::new())] {
            assert_eq!(code_of(&error), EL_BUSY, "{error:?}");
        }
    }
}
