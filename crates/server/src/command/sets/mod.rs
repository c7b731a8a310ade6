//! Sets: members that have nothing.
//!
//! A member is one entry of the map of the members: number of the set, place in its order, member.

pub mod algebra;
pub mod random;
pub mod read;
pub mod write;

use super::stage::Staged;
use crate::failure::Result;
use crate::types::Kind;
use crate::types::collection::Collection;

/// The set of a key, if there is one.
fn find<'s, 'a>(staged: &'s mut Staged<'a>, key: &'s [u8]) -> Result<Option<Collection<'s, 'a>>> {
    Collection::find(staged, key, Kind::Set)
}

/// The set of a key, or a new one.
fn open<'s, 'a>(staged: &'s mut Staged<'a>, key: &'s [u8]) -> Result<Collection<'s, 'a>> {
    Collection::open(staged, key, Kind::Set)
}
