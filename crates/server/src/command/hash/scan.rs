//! `HSCAN`.

use crate::command::context::Context;
use crate::command::scan_members;
use crate::failure::CommandResult;
use crate::resp::Request;
use crate::types::Kind;

/// `HSCAN key cursor [MATCH pattern] [COUNT count]`
pub fn hscan(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    scan_members::step(context, request, Kind::Hash)
}
