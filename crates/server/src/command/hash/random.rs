//! `HRANDFIELD`.

use crate::command::{Context, Outcome, draws};
use crate::resp::Request;
use crate::types::Kind;

/// `HRANDFIELD key [count [WITHVALUES]]`
pub fn hrandfield(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    draws::answer(context, request, Kind::Hash)
}
