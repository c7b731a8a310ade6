//! `ZRANDMEMBER`.

use crate::command::context::Context;
use crate::command::draws;
use crate::failure::CommandResult;
use crate::resp::Request;
use crate::types::Kind;

/// `ZRANDMEMBER key [count [WITHSCORES]]`
pub fn zrandmember(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    draws::answer(context, request, Kind::SortedSet)
}
