//! What an error of a layer below is called in the store: all conversions are here.

use std::path::Path;
use std::{fmt, io};

use everleaf_index::{AllocError, IndexError, PoolError, human_size};

use crate::Error;

/// An error of opening or making the pool at `path`.
pub(crate) fn from_pool(error: PoolError, path: &Path) -> Error {
    match error {
        PoolError::Missing { .. } => Error::NotFound(path.into()),
        PoolError::Exists { .. } => Error::AlreadyExists(path.into()),
        other => IndexError::from(other).into(),
    }
}

/// An error of making the pool that is to lie at `path`, while it has another name.
pub(crate) fn from_new_pool(error: IndexError, path: &Path) -> Error {
    match error {
        IndexError::Alloc(AllocError::Pool(PoolError::PoolFull { needed, max, .. })) => {
            Error::PoolFull(format!(
                "the maximum size {} is too small for pool {}: an empty one needs {}; raise it \
                 (--max-size)",
                human_size(max),
                path.display(),
                human_size(needed)
            ))
        }
        IndexError::Alloc(AllocError::Pool(PoolError::DiskFull { needed, source, .. })) => {
            from_pool(PoolError::DiskFull { path: path.into(), needed, source }, path)
        }
        IndexError::Alloc(AllocError::Pool(error)) => from_pool(error, path),
        other => other.into(),
    }
}

/// The error of a disk or of a file system, with what was tried.
pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let what = what.into();
    move |error| Error::Io(what, error)
}

/// The kernel's refusal to give the pool space.
#[derive(Debug)]
struct NoSpaceGiven(io::Error);

impl fmt::Display for NoSpaceGiven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for NoSpaceGiven {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

impl Error {
    /// Whether the pool got no space, for whatever reason: nothing was changed, and it may be had when
    /// what can be reclaimed was.
    #[doc(hidden)]
    pub fn lacks_space(&self) -> bool {
        match self {
            Error::PoolFull(_) | Error::DiskFull(_) => true,
            Error::Io(_, error) => error.get_ref().is_some_and(|cause| cause.is::<NoSpaceGiven>()),
            _ => false,
        }
    }
}

impl Error {
    #[cold]
    pub(crate) fn out_of_memory() -> Self {
        IndexError::Alloc(AllocError::OutOfMemory).into()
    }
}

/// A copy of a key or value.
///
/// # Errors
/// [`Error::OutOfMemory`]: it may have hundreds of megabytes.
pub(crate) fn copy_of(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).map_err(|_| Error::out_of_memory())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

impl From<IndexError> for Error {
    fn from(error: IndexError) -> Self {
        let text = error.to_string();
        let is_refused = error.lacks_space() && !error.is_full();
        match error {
            IndexError::KeyTooLarge(size) => Error::KeyTooLarge(size),
            IndexError::ValueTooLarge(size) => Error::ValueTooLarge(size),
            IndexError::BatchTooLarge(size) => Error::BatchTooLarge(size),
            IndexError::ReadOnly => Error::ReadOnly,
            IndexError::OtherKind(_) => Error::BadName(text),
            IndexError::Removed => Error::MapDropped,
            IndexError::NotSorted(position) => Error::NotSorted(position),
            IndexError::Alloc(AllocError::Corrupt { .. }) => Error::Corrupt(text),
            IndexError::Alloc(AllocError::OutOfMemory) => Error::OutOfMemory(text),
            IndexError::Alloc(AllocError::Nested) => Error::Nested(text),
            IndexError::Alloc(AllocError::TooManySessions(_)) => Error::TooManySessions(text),
            IndexError::Alloc(AllocError::Pool(error)) => match from_pool_error(error, text) {
                Error::Io(what, answer) if is_refused => {
                    Error::Io(what, io::Error::new(answer.kind(), NoSpaceGiven(answer)))
                }
                other => other,
            },
            IndexError::Alloc(AllocError::DescriptorsInUse(_))
            | IndexError::OtherContents(_)
            | IndexError::UnknownDesign(_)
            | IndexError::ForeignDesign { .. } => Error::Unsupported(text),
            // What only trees of the research answer.
            IndexError::KeyOutOfRange(_)
            | IndexError::ValueOutOfRange(_)
            | IndexError::Unsupported(_)
            | IndexError::Volatile(_) => Error::Unsupported(text),
            // The compiler wants this of every crate but the enum's own: all there are stand above.
            _ => Error::Unsupported(text),
        }
    }
}

fn from_pool_error(error: PoolError, text: String) -> Error {
    match error {
        PoolError::Missing { path } => Error::NotFound(path),
        PoolError::Exists { path } => Error::AlreadyExists(path),
        PoolError::DiskFull { .. } => Error::DiskFull(text),
        PoolError::PoolFull { .. } => Error::PoolFull(text),
        PoolError::Locked { .. } => Error::Locked(text),
        PoolError::Forked { .. } => Error::Forked(text),
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
        PoolError::Io { path, action, source } => {
            Error::Io(format!("cannot {action} of pool {}", path.display()), source)
        }
        PoolError::AddressSpace { path, reserved, source } => {
            let (reserved, path) = (human_size(reserved), path.display());
            let what = format!(
                "cannot reserve {reserved} of addresses for pool {path}, of which a smaller maximum size \
                 (--max-size) needs fewer, and a higher limit on address space (ulimit -v) gives more"
            );
            Error::Io(what, source)
        }
        PoolError::Permission { path, read_only, source } => {
            let (change, advice) = if read_only {
                ("read", "")
            } else {
                ("read and write", ", or open it for reading only")
            };
            let path = path.display();
            let what = format!(
                "this user may not {change} pool {path} (change its permissions or the user{advice})"
            );
            Error::Io(what, source)
        }
        // The text says what to do.
        PoolError::NoSuchRoot { .. }
        | PoolError::RootChanged { .. }
        | PoolError::IdsExhausted { .. } => Error::Unsupported(text),
        // The compiler wants this of every crate but the enum's own: all there are stand above.
        _ => Error::Unsupported(text),
    }
}

impl From<everleaf_log::Error> for Error {
    fn from(error: everleaf_log::Error) -> Self {
        let text = error.to_string();
        match error {
            everleaf_log::Error::Full(_) => Error::DiskFull(text),
            everleaf_log::Error::Locked(_) => Error::Locked(text),
            everleaf_log::Error::Damaged(_) | everleaf_log::Error::Foreign(_) => {
                Error::Corrupt(text)
            }
            everleaf_log::Error::Failed(_) => Error::LogFailed(text),
            everleaf_log::Error::FailedFull(_) => Error::LogFull(text),
            everleaf_log::Error::Busy(_) => Error::SnapshotBusy(text),
            everleaf_log::Error::TooLarge(_) => Error::Unsupported(text),
            everleaf_log::Error::Io { what, kind, answer } => {
                Error::Io(what, io::Error::new(kind, answer))
            }
            // The compiler wants this of every crate but the enum's own: all there are stand above.
            _ => Error::LogFailed(text),
        }
    }
}

/// Whether the pool is not there, or not as a session left it that was ended: then what is in it does
/// not count if there is a log.
pub(crate) fn is_lost(error: &PoolError) -> bool {
    matches!(
        error,
        PoolError::MachineCrashed { .. }
            | PoolError::Missing { .. }
            | PoolError::Damaged { .. }
            | PoolError::Truncated { .. }
            | PoolError::Empty { .. }
            | PoolError::Foreign { .. }
    )
}
