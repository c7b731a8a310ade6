//! The file of the users: a line `user NAME rule ...` for each; empty lines are passed over, there are no comments.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use everleaf::new_file::followed;

use super::selector::{RuleError, has_space};
use super::user::{Rules, merge_selectors};
use crate::command::shown;

/// A longer file is not one of users.
const SIZE_MAX: u64 = 64 << 20;

/// The users of a file, or all mistakes of it in a line.
pub fn load(path: &Path) -> Result<BTreeMap<Vec<u8>, Rules>, String> {
    let place = path.display();
    let cannot = |error: io::Error| format!("Error loading ACLs, opening file '{place}': {error}");
    let size = fs::metadata(path).map_err(cannot)?.len();
    if size > SIZE_MAX {
        return Err(format!(
            "Error loading ACLs, file '{place}' has {size} bytes, and may have {SIZE_MAX}"
        ));
    }
    let text = fs::read(path).map_err(cannot)?;
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

/// Replaces a file as a whole: after a crash there is the old one, or the new one. What may be done with the old one may
/// be done with the new one; a new one is the owner's alone.
pub fn save(path: &Path, text: &[u8]) -> io::Result<()> {
    // Through a link, what it leads to is replaced, or made.
    let path = followed(path)?;
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".new-{}", std::process::id()));
    let new = path.with_file_name(name);
    let written = write_new(&new, &path, text).and_then(|()| fs::rename(&new, &path));
    if written.is_err() {
        // If even this fails, it lies there and harms nobody.
        let _ = fs::remove_file(&new);
    }
    written?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn write_new(new: &Path, old: &Path, text: &[u8]) -> io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(new)?;
    if let Ok(old) = fs::metadata(old) {
        file.set_permissions(old.permissions())?;
    }
    file.write_all(text)?;
    file.sync_all()
}
