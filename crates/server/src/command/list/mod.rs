//! Lists: elements by their index (`types/list.rs`).

pub mod change;
pub mod pop;
pub mod push;
pub mod read;

use super::stage::Staged;
use crate::failure::{Failure, Result};
use crate::types::Kind;
use crate::types::collection::Collection;
use crate::types::list::Side;

/// The list of a key, if there is one.
fn find<'s, 'a>(staged: &'s mut Staged<'a>, key: &'s [u8]) -> Result<Option<Collection<'s, 'a>>> {
    Collection::find(staged, key, Kind::List)
}

/// The list of a key, or a new one.
fn open<'s, 'a>(staged: &'s mut Staged<'a>, key: &'s [u8]) -> Result<Collection<'s, 'a>> {
    Collection::open(staged, key, Kind::List)
}

/// A side by its name.
pub fn side_arg(arg: &[u8]) -> Result<Side> {
    match arg {
        _ if arg.eq_ignore_ascii_case(b"left") => Ok(Side::Left),
        _ if arg.eq_ignore_ascii_case(b"right") => Ok(Side::Right),
        _ => Err(Failure::Syntax),
    }
}

/// The place of an index that counts from the end if it is negative.
fn place(index: i64, count: u64) -> Option<u64> {
    let count = i64::try_from(count).ok()?;
    let at = if index < 0 { count + index } else { index };
    (0..count).contains(&at).then_some(at.unsigned_abs())
}
