//! Hashes: fields, each with a string.
//!
//! A field is one entry of the map of the members: number of the hash, place in its order, field.

pub mod number;
pub mod random;
pub mod read;
pub mod scan;
pub mod write;

use super::stage::Staged;
use crate::failure::Result;
use crate::types::Kind;
use crate::types::collection::Collection;

/// The hash of a key, if there is one.
fn find<'s, 'a>(staged: &'s mut Staged<'a>, key: &'s [u8]) -> Result<Option<Collection<'s, 'a>>> {
    Collection::find(staged, key, Kind::Hash)
}

/// The hash of a key, or a new one.
fn open<'s, 'a>(staged: &'s mut Staged<'a>, key: &'s [u8]) -> Result<Collection<'s, 'a>> {
    Collection::open(staged, key, Kind::Hash)
}
