//! `HSCAN`.

use crate::command::{Context, Outcome, members};
use crate::resp::Request;
use crate::types::Kind;

/// `HSCAN key cursor [MATCH pattern] [COUNT count]`
pub fn hscan(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    members::step(context, request, Kind::Hash)
}
