//! Names of maps that the store keeps for itself.

use crate::{Error, Result};

/// The name of the map that every store has: [`Store::default_map`](crate::Store::default_map).
pub const DEFAULT_MAP: &str = "default";

/// How they begin.
const RESERVED: char = '\u{1}';

/// Whether a name is one of ours.
pub(crate) fn is_reserved(name: &str) -> bool {
    name.starts_with(RESERVED)
}

/// Refuses a name of ours that a user wants.
pub(crate) fn refuse_reserved(name: &str) -> Result<()> {
    if is_reserved(name) {
        let text =
            "names of maps that begin with the character U+0001 are reserved: choose another";
        return Err(Error::BadName(text.to_string()));
    }
    Ok(())
}

/// What is said to a program that makes a map of a name that there is.
pub(crate) fn name_is_taken(name: &str) -> Error {
    Error::BadName(format!(
        "there is a map named '{name}': choose another name, or drop that map first"
    ))
}
