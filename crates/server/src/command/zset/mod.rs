//! Sorted sets: members with scores, in the order of these.
//!
//! A member is two entries of the map of the members; how ranks come of them is told in `types/order.rs`.

pub mod add;
pub mod algebra;
pub mod parts;
pub mod pop;
pub mod random;
pub mod range;
pub mod read;
pub mod remove;

use super::Failure;
use super::keys::Result;
use super::stage::Staged;
use crate::resp::{Protocol, Reply};
use crate::types::Kind;
use crate::types::collection::Collection;

/// The sorted set of a key, if there is one.
fn find<'s, 'a>(staged: &'s mut Staged<'a>, key: &'s [u8]) -> Result<Option<Collection<'s, 'a>>> {
    Collection::find(staged, key, Kind::SortedSet)
}

/// A member with its score.
type Scored = (Vec<u8>, f64);

/// Answers with members, or members with scores: these are pairs in version 3, or if `nested` is wanted.
pub fn show(reply: &mut Reply<'_>, items: &[Scored], scores: bool, nested: bool) -> Result<()> {
    let nested = scores && (nested || reply.protocol == Protocol::Resp3);
    reply.array(if scores && !nested { 2 * items.len() } else { items.len() });
    for (member, score) in items {
        if nested {
            reply.array(2);
        }
        reply.bulk(member);
        if scores {
            reply.double(*score);
        }
        if reply.is_full() {
            return Err(Failure::ReplyTooLong);
        }
    }
    Ok(())
}
