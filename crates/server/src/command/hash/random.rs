//! `HRANDFIELD`.

use crate::command::context::Context;
use crate::command::draws;
use crate::failure::CommandResult;
use crate::resp::Request;
use crate::types::Kind;

/// `HRANDFIELD key [count [WITHVALUES]]`
pub fn hrandfield(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    draws::answer(context, request, Kind::Hash)
}
