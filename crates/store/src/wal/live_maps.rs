//! Which maps a pool must have.
//!
//! A map's entry in the pool's directory whose first word became zero cannot be told from one that was never
//! finished. So the pool notes each map in the map of the log, too, after it was made; and forgets the note
//! before it is dropped. A note of a map that is not there says that the map was lost. A map without a
//! note is one that an older version made, or whose dropping was cut short: it gets one when the store is opened.

use std::collections::HashSet;
use std::path::Path;

use everleaf_index::{BytesTree, Change, Hardware, IndexError, Session, Trees};

use super::metadata_keys::{NAME, map_key};
use crate::map::reserved::is_reserved;
use crate::{Error, Result};

const PREFIX: &[u8] = b"live:";

fn key(name: &str) -> Vec<u8> {
    [PREFIX, name.as_bytes()].concat()
}

/// Notes that there is a map. Where there is no space for the note, its loss could not be told: it is no
/// reason to do without the map.
pub(super) fn note(metadata: &BytesTree, session: &mut Session<Hardware>, name: &str) {
    let _ = metadata.change(session, &Change::upsert(&key(name), b""));
}

/// Forgets that there is a map, which is then dropped.
pub(super) fn forget(
    metadata: &BytesTree,
    session: &mut Session<Hardware>,
    name: &str,
) -> Result<()> {
    metadata.change(session, &Change::remove(&key(name)))?;
    Ok(())
}

/// The name of a map of which this key is the note.
pub(super) fn noted_name(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.strip_prefix(PREFIX)?).ok()
}

/// Names that are noted, and not among these.
fn missing(
    metadata: &BytesTree,
    session: &mut Session<Hardware>,
    names: &[String],
) -> Result<Vec<String>> {
    let names: HashSet<&str> = names.iter().map(String::as_str).collect();
    let mut missing = vec![];
    let (low, high) = (std::ops::Bound::Included(PREFIX), std::ops::Bound::Unbounded);
    metadata.scan(session, low, high, false, |key, _| match noted_name(key) {
        None => false,
        Some(name) => {
            if !names.contains(name) {
                missing.push(name.to_string());
            }
            true
        }
    })?;
    Ok(missing)
}

/// Notes these maps, which are all there are. What else is noted was dropped by an older version.
pub(super) fn note_all(
    metadata: &BytesTree,
    session: &mut Session<Hardware>,
    names: &[String],
) -> Result<()> {
    for name in missing(metadata, session, names)? {
        forget(metadata, session, &name)?;
    }
    names.iter().filter(|name| *name != NAME).for_each(|name| note(metadata, session, name));
    Ok(())
}

/// Refuses a pool that has lost a map; before anything is made of what is left.
///
/// # Errors
/// [`Error::Corrupt`].
pub(crate) fn refuse_lost_maps(trees: &Trees, path: &Path) -> Result<()> {
    // Of a pool that was closed its seal says it.
    if trees.heap().pool().was_clean() {
        return Ok(());
    }
    let Some(metadata) = trees.find_bytes_tree(NAME)? else { return Ok(()) };
    let mut session = trees.heap().session().map_err(IndexError::from)?;
    let missing = missing(&metadata, &mut session, &trees.names())?;
    for name in missing {
        // An older version dropped it, which knows no notes.
        let is_numbered = metadata.get_with(&mut session, &map_key(&name), |_| ())?.is_some();
        if is_numbered || is_reserved(&name) {
            return Err(Error::Corrupt(format!(
                "the map {name:?} of {} is missing and was not dropped: the pool is damaged; keep what can be \
                 proven with `everleaf repair`, or restore it from a backup",
                path.display()
            )));
        }
    }
    Ok(())
}
