//! The file of the users: a line `user NAME rule ...` for each; empty lines are passed over, there are no comments.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use everleaf::new_file::followed;
use everleaf::regular_file::{is_pool, open_regular, read_regular};

use super::selector::{RuleError, has_space};
use super::user::{Rules, merge_selectors};
use crate::shown::shown;

/// A longer file is not one of users.
const SIZE_MAX: u64 = 64 << 20;
/// Names for a new file that may be taken.
const ATTEMPTS: u32 = 100;

/// The users of a file, or all mistakes of it in a line.
pub fn load(path: &Path) -> Result<BTreeMap<Vec<u8>, Rules>, String> {
    let place = path.display();
    let cannot = |error: io::Error| format!("Error loading ACLs, opening file '{place}': {error}");
    let text = read_regular(path, SIZE_MAX).map_err(cannot)?;
    let (mut users, mut errors) = (BTreeMap::new(), String::new());
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let at = format!("{place}:{}", index + 1);
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        match words.as_slice() {
            [b"user", name, ..] if has_space(name) => {
                let name = shown(name);
                errors.push_str(&format!("'{at}: username '{name}' contains invalid characters. "));
            }
            [b"user", name, ..] if users.contains_key(*name) => {
                let (name, line) = (shown(name), index + 1);
                errors
                    .push_str(&format!("WARNING: Duplicate user '{name}' found on line {line}. "));
            }
            [b"user", name, rules @ ..] => {
                users.insert(name.to_vec(), parse(rules, &at, &mut errors));
            }
            _ => errors.push_str(&format!(
                "{at} should start with user keyword followed by the username. "
            )),
        }
    }
    if errors.is_empty() {
        return Ok(users);
    }
    errors.push_str(
        "WARNING: ACL errors detected, no change to the previously active ACL rules was performed",
    );
    Err(errors)
}

fn parse(words: &[&[u8]], at: &str, errors: &mut String) -> Rules {
    let mut rules = Rules::new();
    let Ok(merged) = merge_selectors(words) else {
        errors.push_str(&format!("{at}: Unmatched parenthesis in selector definition."));
        return rules;
    };
    let mut told = false;
    for rule in merged {
        match rules.apply(rule.trim_ascii()) {
            Ok(()) => {}
            // It can hold no secret.
            Err(RuleError::Unknown) => {
                let (rule, why) = (shown(&rule), RuleError::Unknown.text());
                errors.push_str(&format!("{at}: Error in applying operation '{rule}': {why}. "));
            }
            Err(error) if !told => {
                told = true;
                errors.push_str(&format!("{at}: {}. ", error.text()));
            }
            Err(_) => {}
        }
    }
    rules
}

/// Replaces a file as a whole: after a crash there is the old one, or the new one. What may be done with the old one
/// may be done with the new one, which has its owner and group, as far as it can be given them; a new one is the
/// owner's alone. Neither a device is replaced nor a pool, to which the
/// name may be a link. Nor is a file written that would be too long to be [loaded](load).
pub fn save(path: &Path, text: &[u8]) -> io::Result<()> {
    if text.len() as u64 > SIZE_MAX {
        let (size, most) = (text.len() >> 20, SIZE_MAX >> 20);
        let text =
            format!("it would have {size} MiB, and a file of more than {most} MiB is not read");
        return Err(io::Error::new(ErrorKind::FileTooLarge, text));
    }
    // Through a link, what it leads to is replaced, or made.
    let path = followed(path)?;
    refuse_pool(open_regular(&path))?;
    // Before anything is changed: there may be no descriptor left, or no right to read it.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = File::open(folder.unwrap_or(Path::new(".")))?;
    let (new, file) = make_beside(&path)?;
    let written = write_new(file, &path, text).and_then(|()| fs::rename(&new, &path));
    if written.is_err() {
        // If even this fails, it lies there and harms nobody.
        let _ = fs::remove_file(&new);
    }
    written?;
    folder.sync_all()
}

/// Refuses to replace a pool, or what cannot be read and may be one.
fn refuse_pool(old: io::Result<File>) -> io::Result<()> {
    match old.and_then(|old| is_pool(&old)) {
        Ok(false) => Ok(()),
        Ok(true) => {
            let text = "it is an Everleaf pool, which is not replaced";
            Err(io::Error::new(ErrorKind::InvalidInput, text))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::InvalidInput => Err(error),
        Err(error) => {
            let text =
                format!("{error}: it cannot be read, and may be a pool, which is not replaced");
            Err(io::Error::new(error.kind(), text))
        }
    }
}

/// A new file beside another one. What has its name already is neither opened nor followed: it may be a link that
/// somebody put there, or be what a process left that was killed; then the next name is taken.
fn make_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut attempt = 0;
    loop {
        let new = temporary(path, attempt);
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && attempt < ATTEMPTS => {
                attempt += 1;
            }
            made => return Ok((new, made?)),
        }
    }
}

/// The name under which a file is written before it gets its own.
fn temporary(path: &Path, attempt: u32) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".new-{}-{attempt}", std::process::id()));
    path.with_file_name(name)
}

fn write_new(mut file: File, old: &Path, text: &[u8]) -> io::Result<()> {
    if let Ok(old) = fs::metadata(old) {
        let new = file.metadata()?;
        let is_same = (new.uid(), new.gid()) == (old.uid(), old.gid());
        let is_given = is_same || fchown(&file, Some(old.uid()), Some(old.gid())).is_ok();
        // What a group may do is not for another one.
        let mode = old.mode() & if is_given { 0o777 } else { 0o700 };
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    file.write_all(text)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// What was lost: a pool, to which the name was a link. What could not be read was replaced.
    #[test]
    fn what_cannot_be_read_may_be_a_pool_and_is_not_replaced() {
        let kinds = [ErrorKind::PermissionDenied, ErrorKind::Interrupted, ErrorKind::Other];
        for kind in kinds {
            let error = refuse_pool(Err(kind.into())).unwrap_err();
            assert_eq!(error.kind(), kind);
            assert!(error.to_string().contains("may be a pool"), "{error}");
        }
        // A file that is open to be written cannot be read.
        let folder = tempfile::tempdir().unwrap();
        let unreadable = File::create(folder.path().join("file")).unwrap();
        assert!(refuse_pool(Ok(unreadable)).is_err());
        assert!(refuse_pool(Err(ErrorKind::NotFound.into())).is_ok());
        fs::write(folder.path().join("pool"), [&b"EVERLEAF"[..], &[0; 5000]].concat()).unwrap();
        assert!(save(&folder.path().join("pool"), b"user").is_err());
    }

    /// What was written followed a link that had the name of the new file.
    #[test]
    fn a_link_with_the_name_of_the_new_file_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("victim"), "kept").unwrap();
        fs::write(path("users"), "old").unwrap();
        symlink(path("victim"), temporary(&path("users"), 0)).unwrap();
        symlink(path("missing"), temporary(&path("users"), 1)).unwrap();
        save(&path("users"), b"new").unwrap();
        assert_eq!(fs::read(path("users")).unwrap(), b"new");
        assert!(!path("users").is_symlink() && !path("missing").exists());
        assert_eq!(fs::read(path("victim")).unwrap(), b"kept");
        let left = (0..ATTEMPTS + 1)
            .filter(|attempt| fs::symlink_metadata(temporary(&path("users"), *attempt)).is_ok());
        assert_eq!(left.count(), 2, "only what was there before");
        (2..=ATTEMPTS).for_each(|attempt| {
            symlink(path("victim"), temporary(&path("users"), attempt)).unwrap();
        });
        assert_eq!(save(&path("users"), b"none").unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read(path("users")).unwrap(), b"new");
    }

    /// The members of the group could read it no more, and those of the server's own could.
    #[test]
    fn a_file_that_is_replaced_keeps_its_owner_and_group() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        if std::os::unix::fs::chown(&path, Some(12345), Some(12346)).is_err() {
            println!("only root can give it away: nothing was tested");
            return;
        }
        save(&path, b"new").unwrap();
        let found = fs::metadata(&path).unwrap();
        let (owner, mode) = ((found.uid(), found.gid()), found.mode() & 0o777);
        assert_eq!((owner, mode), ((12345, 12346), 0o640));
    }
}
