//! What has become of the name of an open file, by what the system says of both.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::io::Errno;

use super::FileName;
use crate::uuid::{uuid_in, uuid_of};

/// How the names begin that file systems give to a file that is removed while it is open (NFS, FUSE).
const HIDDEN: [&str; 2] = [".nfs", ".fuse_hidden"];

/// What was seen of an open file, and of what has its name now.
struct Seen {
    /// Whether it had a name when it was opened: a new one gets it later.
    had_name: bool,
    /// How many names it has.
    links: u64,
    /// The device of an inode, and its number there.
    own: (u64, u64),
    /// The same of the file that has its name now.
    found: Option<(u64, u64)>,
}

impl Seen {
    /// `is_hidden` says whether the file system has given it a name of its own, `is_its_pool` whether the file that is
    /// found has the same pool.
    fn judge(&self, is_hidden: impl Fn() -> bool, is_its_pool: impl Fn() -> bool) -> FileName {
        let (_, own) = self.own;
        match self.found {
            // A name without a file stays where that one file is a mount of its own.
            Some(found) if found == self.own && self.links == 0 && self.had_name => {
                FileName::Removed
            }
            Some(found) if found == self.own => FileName::Kept,
            // The same file system by another device: it was mounted anew.
            Some((_, found)) if found == own && self.links > 0 && is_its_pool() => FileName::Kept,
            Some(_) if self.links == 0 || is_hidden() => FileName::Replaced,
            Some(_) => FileName::Displaced,
            None if self.links == 0 || is_hidden() => FileName::Removed,
            None => FileName::Kept,
        }
    }
}

/// Looks what has become of the name of an open file; `place` is where it was.
pub fn look(file: &File, place: Option<&Path>, had_name: bool) -> FileName {
    let own = match file.metadata() {
        Ok(own) => own,
        Err(error) if is_stale(&error) => return FileName::Removed,
        // Of what cannot be looked at nothing is said.
        Err(_) => return FileName::Kept,
    };
    let id = |of: &Metadata| (of.dev(), of.ino());
    let found = place.and_then(|place| std::fs::metadata(place).ok()).filter(Metadata::is_file);
    let seen = Seen { had_name, links: own.nlink(), own: id(&own), found: found.as_ref().map(id) };
    let is_its_pool = || {
        let found = place.and_then(uuid_of);
        found.is_some() && found == place.and_then(|place| uuid_in(file, place))
    };
    seen.judge(|| is_hidden(file), is_its_pool)
}

/// Whether a file had a name when it was opened.
pub fn has_name(file: &File) -> bool {
    // Of what cannot be looked at nothing is said later either.
    file.metadata().is_ok_and(|own| own.nlink() > 0)
}

/// What NFS answers of a file that another machine has removed.
fn is_stale(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::STALE)
}

/// Whether the only name of a file is one that its file system has given to it because it was removed.
fn is_hidden(file: &File) -> bool {
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    let name = std::fs::read_link(link).ok();
    let name = name.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
    name.is_some_and(|name| HIDDEN.iter().any(|hidden| name.starts_with(hidden)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was not noticed: a file that is removed on a network file system, or whose one name is a mount. What was
    /// told and not so: one whose file system was mounted anew.
    #[test]
    fn what_is_seen_tells_what_has_become_of_the_name() {
        use FileName::{Displaced, Kept, Removed, Replaced};
        let (here, elsewhere, other) = ((1, 7), (2, 7), (1, 8));
        // Names, what has its name, whether it is hidden, whether that is its pool.
        for (links, found, hidden, same, expected) in [
            (1, Some(here), false, true, Kept),
            (2, Some(here), false, true, Kept),
            // A mount of this one file, which was removed behind it.
            (0, Some(here), false, true, Removed),
            (1, Some(other), false, false, Displaced),
            (0, Some(other), false, false, Replaced),
            (1, Some(other), true, false, Replaced),
            // A copy has another number, whatever is in it.
            (1, Some(other), false, true, Displaced),
            (1, None, false, false, Kept),
            (0, None, false, false, Removed),
            // NFS and FUSE give it a name of their own.
            (1, None, true, false, Removed),
            // Mounted anew, or another device that has this number, too.
            (1, Some(elsewhere), false, true, Kept),
            (1, Some(elsewhere), false, false, Displaced),
            (0, Some(elsewhere), false, true, Replaced),
        ] {
            let seen = Seen { had_name: true, links, own: here, found };
            let judged = seen.judge(|| hidden, || same);
            assert_eq!(judged, expected, "{links} {found:?} {hidden} {same}");
        }
        // Made without a name, and looked at before it has one.
        let seen = Seen { had_name: false, links: 0, own: here, found: Some(here) };
        assert_eq!(seen.judge(|| false, || true), Kept);
    }

    #[test]
    fn names_of_file_systems_for_removed_files_are_known() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, expected) in
            [(".nfs0000000000a1", true), (".fuse_hidden0001", true), ("pool", false)]
        {
            let file = File::create(folder.path().join(name)).expect("room");
            assert_eq!((is_hidden(&file), has_name(&file)), (expected, true), "{name}");
        }
        assert!(is_stale(&Errno::STALE.into()) && !is_stale(&Errno::IO.into()));
    }
}
