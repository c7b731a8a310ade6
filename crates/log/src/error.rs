//! What can go wrong with the log or a snapshot, in sentences.

use std::fmt;
use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// The result of an operation of the log.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the log cannot be opened, written or read. It can be cloned, because a log that has failed
/// tells everybody the same.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The log failed earlier and takes nothing more. The text has the first cause.
    Failed(String),
    /// As [`Self::Failed`], because the file system was full or the file as long as the system lets it be.
    FailedFull(String),
    /// A snapshot cannot be written at this moment, because of what others do, and nothing has changed: try
    /// again.
    Busy(String),
    /// The file system is full.
    Full(String),
    /// Another process has the folder open.
    Locked(PathBuf),
    /// Something that was durable is damaged or missing. The text says what and where.
    Damaged(String),
    /// The files belong to another store, or are of a newer version. The text says which.
    Foreign(String),
    /// A key, a value or an atomic group is larger than the log can hold. The text says which.
    TooLarge(String),
    /// The operating system refused something: what was tried, and its answer.
    Io {
        /// What was tried, and on which file.
        what: String,
        /// The kind of the answer.
        kind: io::ErrorKind,
        /// The answer.
        answer: String,
    },
}

impl Error {
    /// Takes in the operating system's answer to `what`.
    pub(crate) fn io(what: impl Into<String>, error: &io::Error) -> Error {
        let (what, kind, answer) = (what.into(), error.kind(), error.to_string());
        match kind {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full(format!(
                "{what}: {answer}: make room on the file system of the log (space or, if `df -i` shows none, \
                 inodes), then open the store again"
            )),
            io::ErrorKind::FileTooLarge => Error::Full(format!(
                "{what}: {answer}: raise the limit on file sizes, then open the store again"
            )),
            _ => Error::Io { what, kind, answer: answer + &descriptor_advice(error) },
        }
    }

    /// What everybody is told after `cause` stopped the log.
    pub(crate) fn failed_by(cause: &Error) -> Error {
        let text = || {
            format!(
                "the log has failed and takes nothing more; what was acknowledged is safe, what was \
                 not may be lost: {cause}; repair the cause, then open the store again (restart the \
                 server)"
            )
        };
        match cause {
            Error::Failed(_) | Error::FailedFull(_) => cause.clone(),
            Error::Full(_) => Error::FailedFull(text()),
            _ => Error::Failed(text()),
        }
    }
}

/// What helps where the system has no descriptor to give, to be written behind its answer; nothing for any other
/// answer.
#[doc(hidden)]
pub fn descriptor_advice(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE) => {
            let limit = getrlimit(Resource::Nofile).current;
            let limit = limit.map_or(String::new(), |limit| format!(", which is {limit} now"));
            format!(": raise the limit on open files (`ulimit -n`{limit})")
        }
        Some(Errno::NFILE) => {
            ": all programs together have as many files open as the system admits: end some, or raise its limit \
             (`sysctl fs.file-max`)"
                .to_string()
        }
        _ => String::new(),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Locked(path) => write!(
                f,
                "another process has the log at {} open: close it there first",
                path.display()
            ),
            Error::Io { what, answer, .. } => write!(f, "{what}: {answer}"),
            Error::Failed(text)
            | Error::FailedFull(text)
            | Error::Busy(text)
            | Error::Full(text)
            | Error::Damaged(text)
            | Error::Foreign(text)
            | Error::TooLarge(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_other_answers() {
        let full = Error::io("cannot write log-1", &io::ErrorKind::StorageFull.into());
        assert!(matches!(&full, Error::Full(text) if text.contains("make room")));
        let other = Error::io("cannot write log-1", &io::ErrorKind::TimedOut.into());
        assert!(matches!(other, Error::Io { kind: io::ErrorKind::TimedOut, .. }));
        let long = Error::io("cannot write log-1", &io::ErrorKind::FileTooLarge.into());
        assert!(matches!(&long, Error::Full(text) if text.contains("limit on file sizes")));
        assert!(matches!(Error::failed_by(&other), Error::Failed(_)));
        let failed = Error::failed_by(&full);
        assert!(matches!(failed, Error::FailedFull(_)));
        assert_eq!(Error::failed_by(&failed).to_string(), failed.to_string());
    }
}
