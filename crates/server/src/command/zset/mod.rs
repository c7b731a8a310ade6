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

use super::stage::Staged;
use crate::failure::{Failure, Result};
use crate::resp::{Protocol, Reply};
use crate::types::Kind;
use crate::types::collection::Collection;

/// The sorted set of a key, if there is one.
fn find<'s, 'a>(staged: &'s mut Staged<'a>, key: &'s [u8]) -> Result<Option<Collection<'s, 'a>>> {
    Collection::find(staged, key, Kind::SortedSet)
}

/// A member with its score.
type Scored = (Vec<u8>, f64);

/// How members are shown.
#[derive(Clone, Copy)]
pub struct Form {
    scores: bool,
    /// Each with its score in an array of its own.
    nested: bool,
}

impl Form {
    /// Members, or members with scores: these are pairs in version 3, or if `nested` is wanted.
    pub fn new(protocol: Protocol, scores: bool, nested: bool) -> Self {
        Form { scores, nested: scores && (nested || protocol == Protocol::Resp3) }
    }

    /// The length of the array that so many members are.
    pub fn array_len(self, count: usize) -> usize {
        if self.scores && !self.nested { 2 * count } else { count }
    }

    /// Shows one.
    pub fn show(self, reply: &mut Reply<'_>, member: &[u8], score: f64) {
        if self.nested {
            reply.array(2);
        }
        reply.bulk(member);
        if self.scores {
            reply.double(score);
        }
    }
}

/// Answers with members ([`Form::new`]).
pub fn show<'m>(
    reply: &mut Reply<'_>,
    items: impl ExactSizeIterator<Item = (&'m [u8], f64)>,
    scores: bool,
    nested: bool,
) -> Result<()> {
    let form = Form::new(reply.protocol, scores, nested);
    reply.array(form.array_len(items.len()));
    for (member, score) in items {
        form.show(reply, member, score);
        if reply.is_full() {
            return Err(Failure::ReplyTooLong);
        }
    }
    Ok(())
}

/// What [`show`] takes, of members that are copies of their own.
pub fn each(items: &[Scored]) -> impl ExactSizeIterator<Item = (&[u8], f64)> {
    items.iter().map(|(member, score)| (&member[..], *score))
}
