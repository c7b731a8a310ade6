//! `HRANDFIELD`.

use crate::command::context::Context;
use crate::command::draws;
use crate::failure::Outcome;
use crate::resp::Request;
use crate::types::Kind;

/// `HRANDFIELD key [count [WITHVALUES]]`
pub fn hrandfield(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    draws::answer(context, request, Kind::Hash)
}
