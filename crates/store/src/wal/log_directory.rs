//! Where the log of a pool is, and what its folder says of the pool besides the log.
//!
//! ```text
//!   identity    32 hexadecimal digits: whose log this is, and that it is whole
//!   incomplete  the same of a log that is being made or removed: nobody relies on it
//!   settings    what a pool has to be like that is rebuilt from the log: its maximum size in
//!               bytes, and the interval of its durability in milliseconds (0: power), in decimal; and
//!               which pool it is, 32 hexadecimal digits, which older versions did not say
//!   tree        which tree the maps of a pool are in that is rebuilt, if it is not the usual one
//!   reached     the log's identity, and an LSN that was durable when the store was closed: a log that
//!               ends before it lacks its end
//!   generation  the log's identity, and how often the store was opened and closed (`age.rs`); synced at
//!               an opening, not at a closing
//!   salvaging   a salvage is under way: the log may lack acknowledged writes without looking damaged
//!               (`salvaging.rs`)
//! ```
//!
//! Each is a line that ends with its check sum, eight hexadecimal digits; in folders of older versions
//! there is none, and `identity` gets it at the next opening for writing. Every segment and snapshot says
//! itself whose it is, so that a damaged `identity` costs nothing.
//!
//! Invariants:
//! - LD1 what the log has is removed or replaced only when `incomplete` says durably that it is of no
//!   use, or when the pool knows the log as its own and has everything itself. Segments that were put aside
//!   stay: what a salvage went on without may be nowhere else;
//! - LD2 a folder with records that none of these files explains is refused, whatever the pool is like;
//! - LD3 of these files only one that is not there says nothing. One that cannot be read (no descriptor, a bad
//!   disk) is an error: it may be what says that the pool is an older copy, or that the log lacks its end.

use std::collections::BTreeSet;
use std::io::Result as IoResult;
use std::path::{Path, PathBuf};

use everleaf_log::{
    Disk, FileOwner, Lsn, is_file_of_log, is_put_aside, is_put_aside_segment, owner_of,
};

use super::log_folder::{Folder, LogDisk, LogFolder};
use super::small_file::{NEW, remove, remove_durably, sync_discarding, write_small};
use crate::conversion::io;
use crate::{Durability, Error, Options, Result, Tree};

const IDENTITY: &str = "identity";
const INCOMPLETE: &str = "incomplete";
const SETTINGS: &str = "settings";
const REACHED: &str = "reached";
const TREE: &str = "tree";
pub(super) const GENERATION: &str = "generation";
pub(super) const SALVAGING: &str = "salvaging";
/// The trees.
const HASHED_LEAF: &str = "hashed-leaf";
const NBTREE: &str = "nbtree";
/// More bytes than any of these files has.
const SMALL: u64 = 4096;

/// Sixteen bytes that tell a log from every other.
pub(crate) type Identity = [u8; 16];

/// Where the log of a pool is.
#[derive(Clone, Debug)]
pub(crate) struct LogDirectory {
    folder: LogFolder,
}

/// What the folder of a log says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogState {
    /// There is no log.
    Absent,
    /// There is a whole log.
    Whole(Identity),
    /// A log was being made or removed. It is of no use.
    Incomplete,
    /// There are files of these logs, and nothing says whether one is whole.
    Unexplained(Owners),
}

/// Whose the segments and snapshots of a folder are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owners {
    pub logs: BTreeSet<Identity>,
    /// Files whose beginning is damaged.
    pub damaged: Vec<String>,
}

impl Owners {
    /// The log that all files belong to that say it.
    fn only(&self) -> Option<Identity> {
        if self.logs.len() == 1 { self.logs.first().copied() } else { None }
    }

    /// Whether all of it belongs to this log.
    pub fn are(&self, identity: Identity) -> bool {
        self.damaged.is_empty() && self.logs.iter().all(|log| *log == identity)
    }
}

/// What a pool has to be like that is rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub max_size_bytes: u64,
    pub durability: Durability,
    /// The number of the pool whose log it is, if that is known.
    pub pool: Option<[u8; 16]>,
}

impl Settings {
    fn encode(self) -> String {
        let pool = self.pool.map(|pool| format!(" {}", digits(pool))).unwrap_or_default();
        sealed(&format!("{} {}{pool}", self.max_size_bytes, self.durability.interval_ms()))
    }

    fn decode(bytes: &[u8]) -> Option<Settings> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (size, rest) = unsealed(text).unwrap_or(text.trim()).split_once(' ')?;
        let (interval, pool) = match rest.split_once(' ') {
            None => (rest, None),
            Some((interval, pool)) => (interval, Some(parse_digits(pool)?)),
        };
        Some(Settings {
            max_size_bytes: size.parse().ok()?,
            durability: Durability::of_interval_ms(interval.parse().ok()?),
            pool,
        })
    }
}

/// A line with its check sum.
pub(super) fn sealed(text: &str) -> String {
    format!("{text} {:08x}\n", everleaf_log::checksum(text.as_bytes()))
}

/// A line with a number that is about a log.
pub(super) fn numbered(identity: Identity, number: u64) -> String {
    sealed(&format!("{} {number}", digits(identity)))
}

/// The text of a line if its check sum is right.
pub(super) fn unsealed(line: &str) -> Option<&str> {
    let (text, sum) = line.trim_end().rsplit_once(' ')?;
    let is_right = sum.len() == 8 && sealed(text).trim_end().ends_with(sum);
    is_right.then_some(text)
}

pub(super) fn digits(identity: Identity) -> String {
    format!("{:032x}", u128::from_be_bytes(identity))
}

pub(super) fn parse_digits(text: &str) -> Option<Identity> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u128::from_str_radix(text, 16).ok().filter(|_| is_hex)?;
    Some(number.to_be_bytes())
}

impl LogDirectory {
    /// Where the log of the pool at `pool` is.
    pub fn of(pool: &Path, options: &Options) -> LogDirectory {
        let mut name = pool.as_os_str().to_owned();
        name.push(".log");
        LogDirectory { folder: LogFolder::at(PathBuf::from(name), &options.log_disk) }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn display(&self) -> std::path::Display<'_> {
        self.folder.path().display()
    }

    /// The disk with the log. The folder is made if there is none.
    pub fn open(&self) -> Result<LogDisk> {
        Ok(self.folder.open()?)
    }

    /// What the folder says, without holding it.
    ///
    /// # Errors
    /// It cannot be read, or says two things. The message has the remedy.
    pub fn state(&self) -> Result<LogState> {
        let Some(line) = self.read(IDENTITY)? else {
            if self.read(INCOMPLETE)?.is_some() {
                return Ok(LogState::Incomplete);
            }
            let owners = self.owners()?;
            return Ok(match owners == Owners::default() {
                true => LogState::Absent,
                false => LogState::Unexplained(owners),
            });
        };
        let line = std::str::from_utf8(&line).unwrap_or_default();
        if let Some(identity) = unsealed(line).and_then(parse_digits) {
            return Ok(LogState::Whole(identity));
        }
        let owners = self.owners()?;
        match (parse_digits(line.trim_end()), owners.only()) {
            // Of an older version, without check sum: its files confirm it.
            (Some(old), _) if owners.logs.is_empty() || owners.only() == Some(old) => {
                Ok(LogState::Whole(old))
            }
            (Some(old), _) => Err(self.refused(&format!(
                "says that it is the log {}, and {}",
                digits(old),
                told(&owners)
            ))),
            // Damaged. It was there, so the log is whole, and all its files say whose.
            (None, Some(identity)) => Ok(LogState::Whole(identity)),
            (None, None) => Err(self.refused(&format!("is damaged, and {}", told(&owners)))),
        }
    }

    /// The error for a file `identity` that cannot be believed.
    fn refused(&self, why: &str) -> Error {
        let (path, identity) = (self.display(), self.folder.path().join(IDENTITY));
        Error::Corrupt(format!(
            "{} {why}; nothing was changed: if the pool is whole, move {path} away and open it again, \
             which makes a new log; otherwise restore the log's folder from a backup, or write the 32 \
             digits of the log that its files belong to into {}",
            identity.display(),
            identity.display()
        ))
    }

    /// The error for records that nothing explains, where the pool cannot explain them either.
    pub fn unexplained(&self, owners: &Owners) -> Error {
        let path = self.display();
        Error::Corrupt(format!(
            "in {path} there are files of a log, but {IDENTITY}, which says that the log is whole, is \
             missing: {}; nothing was changed: if these files are of no use, move {path} away and open \
             the pool again; if {IDENTITY} was lost, restore it from a backup of {path}, or write the \
             32 digits into it",
            told(owners)
        ))
    }

    /// Refuses to put another pool at `pool` if there is a log beside its place, from which that place
    /// may be filled.
    pub fn refuse_other(&self, pool: &Path) -> Result<()> {
        match self.state()? {
            LogState::Absent | LogState::Incomplete => Ok(()),
            LogState::Unexplained(owners) => Err(self.unexplained(&owners)),
            LogState::Whole(_) => Err(Error::Unsupported(format!(
                "there is a log in {}, which is not that of what is to be put beside it: open {} to rebuild \
                 the pool from that log, or move the log away first",
                self.display(),
                pool.display()
            ))),
        }
    }

    /// Adds to an error of a pool that its log is there, if it is.
    pub fn mention(&self, error: Error, pool: &Path) -> Error {
        let (log, pool) = (self.display(), pool.display());
        self.with_remark(
            error,
            &format!(
                "; its log in {log} has what was acknowledged: move {pool} away and open it again, which \
                 rebuilds the pool from there"
            ),
        )
    }

    /// Adds to an error of a log where it is.
    pub fn locate(&self, error: Error) -> Error {
        self.with_remark(error, &format!(" (the log in {})", self.display()))
    }

    /// Adds a remark that names the log, if there is one and the error does not name it itself.
    fn with_remark(&self, error: Error, remark: &str) -> Error {
        let is_there = || matches!(self.state(), Ok(LogState::Whole(_)));
        let text = |text: String| match text.contains(&self.display().to_string()) || !is_there() {
            true => text,
            false => text + remark,
        };
        match error {
            Error::NotAPool(what) => Error::NotAPool(text(what)),
            Error::Corrupt(what) => Error::Corrupt(text(what)),
            Error::MachineCrashed(what) => Error::MachineCrashed(text(what)),
            Error::LogFailed(what) => Error::LogFailed(text(what)),
            Error::LogFull(what) => Error::LogFull(text(what)),
            other => other,
        }
    }

    /// Whose the segments and snapshots are.
    fn owners(&self) -> Result<Owners> {
        let mut owners = Owners::default();
        for name in self.list()?.into_iter().filter(|name| is_file_of_log(name)) {
            let start = self.read(&name)?.unwrap_or_default();
            match owner_of(&name, &start) {
                FileOwner::Nobody => {}
                FileOwner::Log(identity) => drop(owners.logs.insert(identity)),
                FileOwner::Damaged => owners.damaged.push(name),
            }
        }
        Ok(owners)
    }

    /// The files that were put aside, sorted.
    pub fn put_aside(&self) -> Result<Vec<PathBuf>> {
        let mut names = self.list()?;
        names.retain(|name| is_put_aside(name));
        names.sort_unstable();
        Ok(names.into_iter().map(|name| self.folder.path().join(name)).collect())
    }

    /// The names in the folder; none if there is no folder.
    fn list(&self) -> Result<Vec<String>> {
        let listed = self.folder.list();
        listed.map_err(io(format!("cannot list the folder {} of the log", self.display())))
    }

    /// The first bytes of a file, all of a small one, if there is one; without holding the folder.
    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let read = self.folder.read(name, SMALL);
        read.map_err(io(format!("cannot read {}", self.folder.path().join(name).display())))
    }

    /// Notes durably that the log is whole from now on, and whose it is.
    pub fn write_identity(&self, disk: &LogDisk, identity: Identity) -> Result<()> {
        let line = sealed(&digits(identity));
        if self.read(IDENTITY)?.as_deref() != Some(line.as_bytes()) {
            self.write(disk, IDENTITY, &line)?;
        }
        if self.read(INCOMPLETE)?.is_some() {
            remove_durably(disk, INCOMPLETE).map_err(io(self.cannot("complete")))?;
        }
        Ok(())
    }

    /// Refuses a folder of which a small file is there and cannot be read, before anything is changed (LD3).
    pub fn refuse_unreadable(&self) -> Result<()> {
        let names = [SETTINGS, REACHED, TREE, GENERATION, SALVAGING];
        names.into_iter().try_for_each(|name| self.read(name).map(drop))
    }

    /// What the pool of this log has to be like, if it says so and is not damaged.
    pub fn settings(&self) -> Result<Option<Settings>> {
        Ok(self.read(SETTINGS)?.and_then(|line| Settings::decode(&line)))
    }

    /// Writes what the pool of this log has to be like, durably.
    pub fn write_settings(&self, disk: &LogDisk, settings: Settings) -> Result<()> {
        let line = settings.encode();
        if self.read(SETTINGS)?.as_deref() == Some(line.as_bytes()) {
            return Ok(());
        }
        self.write(disk, SETTINGS, &line)
    }

    /// Which tree the maps of its pool are in.
    pub fn tree(&self) -> Result<Tree> {
        let line = self.read(TREE)?.unwrap_or_default();
        Ok(match std::str::from_utf8(&line).ok().and_then(unsealed) {
            Some(HASHED_LEAF) => Tree::HashedLeaf,
            _ => Tree::NbTree,
        })
    }

    /// Notes durably which tree the maps of its pool are in.
    pub fn write_tree(&self, disk: &LogDisk, tree: Tree) -> Result<()> {
        if self.tree()? == tree {
            return Ok(());
        }
        let name = if tree == Tree::HashedLeaf { HASHED_LEAF } else { NBTREE };
        self.write(disk, TREE, &sealed(name))
    }

    /// An LSN of this log that was durable once; 0 if nothing is known.
    pub fn reached(&self, identity: Identity) -> Result<Lsn> {
        self.number_in(REACHED, identity)
    }

    /// What a small file says of this log in a number; 0 if it says nothing.
    pub(super) fn number_in(&self, name: &str, identity: Identity) -> Result<u64> {
        let line = self.read(name)?.unwrap_or_default();
        let text = std::str::from_utf8(&line).ok().and_then(unsealed);
        Ok(match text.and_then(|text| text.split_once(' ')) {
            Some((log, number)) if parse_digits(log) == Some(identity) => {
                number.parse().unwrap_or(0)
            }
            _ => 0,
        })
    }

    /// Notes durably that this log is durable up to an LSN.
    pub fn write_reached(&self, disk: &LogDisk, identity: Identity, lsn: Lsn) -> Result<()> {
        match self.reached(identity)? == lsn {
            true => Ok(()),
            false => self.write(disk, REACHED, &numbered(identity, lsn)),
        }
    }

    /// Adds to the error of a log whose end is missing how to go on without it.
    pub fn without_end(&self, error: Error) -> Error {
        match error {
            Error::Corrupt(text) if text.contains("cut off") => Error::Corrupt(format!(
                "{text}; to go on with the earlier state that is left, remove {}",
                self.folder.path().join(REACHED).display()
            )),
            other => other,
        }
    }

    /// Writes a small file, durably: as a whole or not at all.
    pub(super) fn write(&self, disk: &LogDisk, name: &str, text: &str) -> Result<()> {
        let what = format!("cannot write {}", self.folder.path().join(name).display());
        write_small(disk, name, text.as_bytes()).map_err(io(what))
    }

    fn cannot(&self, what: &str) -> String {
        format!("cannot {what} the log {}", self.display())
    }

    /// Empties the folder for a new log, and notes durably that there is none yet (LD1). What is there
    /// must be of no use.
    pub fn begin(&self, disk: &LogDisk) -> Result<()> {
        self.discard(disk).map_err(io(self.cannot("begin")))
    }

    fn discard(&self, disk: &LogDisk) -> IoResult<()> {
        let names = disk.list()?;
        let is_there = |name: &str| names.iter().any(|other| other == name);
        if is_there(IDENTITY) {
            disk.rename(IDENTITY, INCOMPLETE)?;
            sync_discarding(disk)?;
        } else if !is_there(INCOMPLETE) {
            write_small(disk, INCOMPLETE, sealed("new").as_bytes())?;
        } else {
            // What gave it that name may have died before it was durable.
            sync_discarding(disk)?;
        }
        let is_ours = |name: &&String| {
            let small = name.strip_suffix(NEW).unwrap_or(name);
            (is_file_of_log(name) && !is_put_aside_segment(name))
                || [SETTINGS, IDENTITY, REACHED, TREE, GENERATION, SALVAGING].contains(&small)
                || (small == INCOMPLETE && small != name.as_str())
        };
        names.iter().filter(is_ours).try_for_each(|name| remove(disk, name))
    }

    /// Removes a log that is of no use any more, durably. What else is in its folder stays.
    pub fn remove(&self) -> Result<()> {
        if !self.folder.exists().map_err(io(self.cannot("remove")))? {
            return Ok(());
        }
        let disk = self.open()?;
        let mut removed = self.discard(&disk);
        if removed.is_ok() {
            // The mark goes when what it is about is gone.
            removed = sync_discarding(&disk).and_then(|()| remove(&disk, INCOMPLETE));
        }
        removed.map_err(io(self.cannot("remove")))?;
        drop(disk);
        self.folder.remove().map_err(io(self.cannot("remove")))
    }
}

/// Whose files there are, in words.
fn told(owners: &Owners) -> String {
    let logs: Vec<String> = owners.logs.iter().map(|log| digits(*log)).collect();
    let logs = match logs.len() {
        0 => "no file says whose it is".to_string(),
        1 => format!("its files belong to the log {}", logs[0]),
        _ => format!("its files belong to the logs {}", logs.join(" and ")),
    };
    match owners.damaged.first() {
        None => logs,
        Some(damaged) => format!("{logs} ({damaged} is damaged)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_line_with_any_bit_flipped_is_not_believed() {
        let identity = [0x5A; 16];
        let line = sealed(&digits(identity));
        assert_eq!(unsealed(&line).and_then(parse_digits), Some(identity));
        for bit in 0..(line.len() - 1) * 8 {
            let mut bytes = line.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let read = std::str::from_utf8(&bytes).ok().and_then(unsealed).and_then(parse_digits);
            assert_eq!(read, None, "bit {bit}");
        }
    }

    #[test]
    fn settings_are_read_with_and_without_their_sum() {
        let settings =
            Settings { max_size_bytes: 1 << 30, durability: Durability::Power, pool: None };
        assert_eq!(Settings::decode(settings.encode().as_bytes()), Some(settings));
        let named = Settings { pool: Some([7; 16]), ..settings };
        assert_eq!(Settings::decode(named.encode().as_bytes()), Some(named));
        let unsealed = named.encode().replace(' ', "  ");
        assert_eq!(Settings::decode(unsealed.as_bytes()), None);
        assert_eq!(Settings::decode(b"1073741824 0\n"), Some(settings));
        assert_eq!(Settings::decode(b"1073741825 0 00000000\n"), None);
    }
}
