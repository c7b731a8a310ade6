//! `ZRANDMEMBER`.

use crate::command::context::Context;
use crate::command::draws;
use crate::failure::Outcome;
use crate::resp::Request;
use crate::types::Kind;

/// `ZRANDMEMBER key [count [WITHSCORES]]`
pub fn zrandmember(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    draws::answer(context, request, Kind::SortedSet)
}
