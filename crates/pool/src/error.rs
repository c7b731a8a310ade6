//! What can go wrong with a pool, in sentences.

use std::fmt;
use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::{RootIndex, human_size};

/// A process that has a pool open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process id.
    pub pid: u32,
    /// The name of its command; empty if not known.
    pub command: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        if self.command.is_empty() { Ok(()) } else { write!(f, " ({})", self.command) }
    }
}

/// Why a pool could not be opened, grown or changed.
///
/// `path` is the pool's, `(memory)` for one without a file. The texts say what is wrong, where,
/// and what to do about it.
#[derive(Debug)]
#[non_exhaustive]
pub enum PoolError {
    /// There is no such file, and none was to be created.
    Missing {
        /// The pool.
        path: PathBuf,
    },
    /// A new pool was asked for, but something is there.
    Exists {
        /// The pool.
        path: PathBuf,
    },
    /// The path leads to a directory, a device or another thing that is no regular file.
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// This user may not open the file so.
    Permission {
        /// The pool.
        path: PathBuf,
        /// Whether it was to be opened for reading only.
        read_only: bool,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The file has no bytes.
    Empty {
        /// The pool.
        path: PathBuf,
    },
    /// The file is something else than a pool.
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file ends before the pool does.
    Truncated {
        /// The pool.
        path: PathBuf,
        /// Bytes in the file.
        length: u64,
        /// Bytes in the pool.
        needed: u64,
    },
    /// The pool was written by a newer version of Everleaf.
    NewerFormat {
        /// The pool.
        path: PathBuf,
        /// Its format version.
        version: u32,
    },
    /// The pool uses features that this version of Everleaf does not know.
    UnknownFeatures {
        /// The pool.
        path: PathBuf,
        /// The bits of the unknown features.
        features: u64,
    },
    /// A part of the pool's own records is damaged beyond its copies.
    Damaged {
        /// The pool.
        path: PathBuf,
        /// Where, in bytes from the start of the file.
        offset: u64,
        /// What it is and what is wrong with it.
        what: String,
    },
    /// Another open of the pool, in this or another process, excludes this one.
    Locked {
        /// The pool.
        path: PathBuf,
        /// The processes that have it open; empty if the kernel does not tell.
        holders: Vec<Holder>,
        /// Whether it was to be opened for reading only.
        read_only: bool,
    },
    /// The pool was opened by another process, from which this one was forked.
    Forked {
        /// The pool.
        path: PathBuf,
    },
    /// The pool is open for reading only.
    ReadOnly {
        /// The pool.
        path: PathBuf,
        /// What was asked for.
        action: &'static str,
    },
    /// The disk has no space for the pool to grow.
    DiskFull {
        /// The pool.
        path: PathBuf,
        /// The size it was to get, in bytes.
        needed: u64,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The pool has its maximum size.
    PoolFull {
        /// The pool.
        path: PathBuf,
        /// The size it was to get, in bytes.
        needed: u64,
        /// The most it may have, in bytes.
        max: u64,
    },
    /// The machine stopped while the pool was in use, and stores that were not yet on the disk may
    /// be lost, in any order.
    MachineCrashed {
        /// The pool.
        path: PathBuf,
        /// How it is known.
        evidence: &'static str,
        /// Whether it is; otherwise the machine may as well have gone on.
        is_certain: bool,
    },
    /// The addresses for the pool could not be reserved or the file not be mapped there.
    AddressSpace {
        /// The pool.
        path: PathBuf,
        /// Bytes of addresses asked for.
        reserved: u64,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The name is not allowed for a root.
    RootName {
        /// The name.
        name: String,
    },
    /// There is a root of this name already.
    RootExists {
        /// The name.
        name: String,
    },
    /// All entries of the root directory are taken.
    RootsFull {
        /// The pool.
        path: PathBuf,
        /// How many there are.
        count: u16,
    },
    /// There is no root at this index.
    NoSuchRoot {
        /// The index.
        index: RootIndex,
    },
    /// The value of a root is not the one the caller expected to replace.
    RootChanged {
        /// The index of the root.
        index: RootIndex,
        /// The value the caller expected.
        expected: u32,
        /// The value it has.
        found: u32,
    },
    /// All 2^32 - 1 ids were handed out.
    IdsExhausted {
        /// The pool.
        path: PathBuf,
    },
    /// Anything else the operating system refused.
    Io {
        /// The pool.
        path: PathBuf,
        /// What was tried, as a verb with its object: "read the header".
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use PoolError::*;
        match self {
            Missing { .. }
            | Exists { .. }
            | NotAFile { .. }
            | Permission { .. }
            | Forked { .. }
            | Locked { .. } => self.write_access(f),
            Empty { .. }
            | Foreign { .. }
            | Truncated { .. }
            | NewerFormat { .. }
            | UnknownFeatures { .. }
            | Damaged { .. }
            | MachineCrashed { .. } => self.write_content(f),
            ReadOnly { path, action } => write!(
                f,
                "cannot {action}: pool {} is open for reading only; open it for writing",
                path.display()
            ),
            DiskFull { .. } | PoolFull { .. } | AddressSpace { .. } => self.write_space(f),
            RootName { .. }
            | RootExists { .. }
            | RootsFull { .. }
            | NoSuchRoot { .. }
            | RootChanged { .. } => self.write_root(f),
            IdsExhausted { path } => write!(
                f,
                "pool {} has handed out all its ids: `everleaf compact` makes a pool that begins anew",
                path.display()
            ),
            Io { path, action, source } => {
                write!(f, "cannot {action} of pool {}: {source}", path.display())
            }
        }
    }
}

/// [`PoolError::finding`].
struct Finding<'a>(&'a PoolError);

impl fmt::Display for Finding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write_finding(f)
    }
}

impl PoolError {
    /// What is wrong with the file, without what can be done about it: for a caller that has better
    /// advice, as beside a log.
    pub fn finding(&self) -> impl fmt::Display {
        Finding(self)
    }

    /// The pool could not be reached.
    fn write_access(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use PoolError::*;
        match self {
            Missing { .. } => {
                self.write_finding(f)?;
                f.write_str(": check the path, or create one there")
            }
            Exists { path } => write!(
                f,
                "cannot create pool {}: a file of that name exists; open it, or choose another name",
                path.display()
            ),
            NotAFile { path } => {
                write!(f, "{} is not a regular file: give the path of a pool file", path.display())
            }
            Permission { path, read_only: true, source } => write!(
                f,
                "this user may not read pool {} ({source}): change its permissions or the user",
                path.display()
            ),
            Permission { path, read_only: false, source } => write!(
                f,
                "this user may not read and write pool {} ({source}): change its permissions or the \
                 user, or open it for reading only",
                path.display()
            ),
            Forked { path } => write!(
                f,
                "pool {} was opened before this process was forked, and belongs to its parent: open \
                 it in the process that uses it, after the fork; one process at a time may write",
                path.display()
            ),
            Locked { path, holders, read_only } => write_locked(f, path, holders, *read_only),
            _ => Ok(()),
        }
    }

    /// The file is not a sound pool of this version.
    fn write_content(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use PoolError::*;
        self.write_finding(f)?;
        f.write_str(match self {
            Empty { .. } => ": delete it and create the pool anew",
            Foreign { .. } => ": check the path; the file was left as it is",
            Truncated { .. } => {
                "; restore it from a backup, copy it again, or keep what can be proven with \
                 `everleaf repair`"
            }
            Damaged { .. } => {
                "; restore it from a backup, or keep what can be proven with `everleaf repair`"
            }
            NewerFormat { .. } | UnknownFeatures { .. } => ": use a newer Everleaf",
            MachineCrashed { .. } => {
                ", so recent writes may be missing or damaged: restore a backup, keep what can be \
                 proven with `everleaf repair`, or open it as it is with --trust-after-machine-crash \
                 and check it"
            }
            _ => "",
        })
    }

    /// What is wrong with the file, as [`Self::finding`] gives it.
    fn write_finding(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use PoolError::*;
        match self {
            Missing { path } => write!(f, "there is no pool {}", path.display()),
            Empty { path } => write!(f, "{} is an empty file, not a pool", path.display()),
            Foreign { path } => write!(
                f,
                "{} is not an Everleaf pool (its first bytes are something else)",
                path.display()
            ),
            Truncated { path, length, needed } => write!(
                f,
                "pool {} is cut short: it has {} and must have {} ({length} and {needed} bytes)",
                path.display(),
                human_size(*length),
                human_size(*needed)
            ),
            NewerFormat { path, version } => write!(
                f,
                "pool {} has format version {version}, and this Everleaf reads versions up to {}",
                path.display(),
                crate::layout::FORMAT_VERSION
            ),
            UnknownFeatures { path, features } => write!(
                f,
                "pool {} uses features this Everleaf does not know (bits {features:#x})",
                path.display()
            ),
            Damaged { path, offset, what } => {
                write!(f, "pool {} is damaged at offset {offset}: {what}", path.display())
            }
            MachineCrashed { path, evidence, .. } => write!(
                f,
                "the machine or the disk stopped while pool {} was in use ({evidence})",
                path.display()
            ),
            other => fmt::Display::fmt(other, f),
        }
    }

    /// Something is full.
    fn write_space(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use PoolError::*;
        match self {
            DiskFull { path, needed, source } => write!(
                f,
                "disk full: pool {} cannot grow to {} ({source}): free space on that disk, or raise \
                 the limit on file sizes, and try again; nothing was lost",
                path.display(),
                human_size(*needed)
            ),
            PoolFull { path, needed, max } => write!(
                f,
                "pool {} is full: it cannot grow to {}, its maximum size is {}: remove something, or \
                 raise the maximum (`everleaf serve` or `everleaf load` with --max-size; in a program \
                 `Options::max_size_bytes`)",
                path.display(),
                human_size(*needed),
                human_size(*max)
            ),
            AddressSpace { path, reserved, source } => write!(
                f,
                "cannot reserve {} of addresses for pool {} ({source}): choose a smaller maximum size \
                 (--max-size), or raise the limit on address space (ulimit -v)",
                human_size(*reserved),
                path.display()
            ),
            _ => Ok(()),
        }
    }

    /// The root directory does not allow it.
    fn write_root(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use PoolError::*;
        match self {
            RootName { name } => write!(
                f,
                "{name:?} cannot name a root: a name has 1 to {} bytes, this one {}",
                crate::layout::ROOT_NAME_MAX,
                name.len()
            ),
            RootExists { name } => {
                write!(f, "there is a root {name:?} already: use it, or choose another name")
            }
            RootsFull { path, .. } => {
                write!(f, "pool {} has no room for another map: drop one first", path.display())
            }
            NoSuchRoot { index } => write!(f, "there is no root at index {index}: it was removed"),
            RootChanged { index, expected, found } => write!(
                f,
                "the root at index {index} has value {found}, not {expected} as expected: read it \
                 again"
            ),
            _ => Ok(()),
        }
    }
}

fn write_locked(
    f: &mut fmt::Formatter<'_>,
    path: &std::path::Path,
    holders: &[Holder],
    read_only: bool,
) -> fmt::Result {
    write!(f, "pool {} is in use by ", path.display())?;
    match holders {
        [] => f.write_str(
            "another process that the kernel does not name (perhaps one that was forked by a process which has ended)",
        )?,
        holders => {
            for (index, holder) in holders.iter().enumerate() {
                write!(f, "{}{holder}", if index == 0 { "" } else { ", " })?;
                // The kernel names the process that took the lock; it belongs to the one that has the open
                // file.
                if has_ended(holder.pid) {
                    f.write_str(
                        " (which has ended; a process that it forked may hold the lock until that one ends, too)",
                    )?;
                }
            }
        }
    }
    if holders.iter().any(|holder| holder.pid == std::process::id()) {
        f.write_str(", which is this process: close the pool where it is open first; what was made of it (iterators, \
             views, batches) keeps it open while it is held")
    } else if read_only {
        f.write_str(": it can be read when its writer has closed it")
    } else {
        f.write_str(
            ": end that process first; only one may write a pool, and none while others read",
        )
    }
}

/// Whether there is no such process any more.
fn has_ended(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

impl std::error::Error for PoolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PoolError::Permission { source, .. }
            | PoolError::DiskFull { source, .. }
            | PoolError::AddressSpace { source, .. }
            | PoolError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_error_names_all_holders_and_says_what_to_do() {
        let holder = |pid, command: &str| Holder { pid, command: command.to_owned() };
        let error = |holders, read_only| {
            PoolError::Locked { path: "p.pool".into(), holders, read_only }.to_string()
        };
        let text = error(vec![holder(1, "init"), holder(4_000_000_000, "")], false);
        assert!(text.contains("process 1 (init), process 4000000000: end that process"), "{text}");
        // More than a process can have, and than one had.
        let ended = error(vec![holder(i32::MAX as u32, "")], false);
        assert!(ended.contains("forked may hold the lock"), "{ended}");
        assert!(!text.contains("forked"), "{text}");
        let own = error(vec![holder(std::process::id(), "test")], true);
        assert!(own.contains("this process"), "{own}");
        assert!(error(vec![], true).contains("does not name"));
    }
}
