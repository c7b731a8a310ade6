//! Reading sets: `SMEMBERS`, `SISMEMBER` and their like.

use std::ops::ControlFlow;

use super::find;
use crate::command::context::Context;
use crate::command::scan_members;
use crate::failure::CommandResult;
use crate::resp::Request;
use crate::types::Kind;

/// `SMEMBERS key`
pub fn smembers(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let Context { keys, reply, .. } = context;
    let array = reply.open_array();
    let mut count = 0;
    if let Some(mut set) = find(keys.staged()?, request.arg(1))? {
        set.walk(|member, _| {
            reply.bulk(member);
            count += 1;
            if reply.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
    }
    reply.close_set(array, count);
    Ok(())
}

/// `SISMEMBER key member`
pub fn sismember(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let found = match find(context.keys.staged()?, request.arg(1))? {
        Some(mut set) => set.contains(request.arg(2))?,
        None => false,
    };
    context.reply.integer(i64::from(found));
    Ok(())
}

/// `SMISMEMBER key member [member ...]`
pub fn smismember(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let Context { keys, reply, .. } = context;
    let mut set = find(keys.staged()?, request.arg(1))?;
    reply.array(request.len() - 2);
    for member in request.args_from(2) {
        let found = match &mut set {
            Some(set) => set.contains(member)?,
            None => false,
        };
        reply.integer(i64::from(found));
    }
    Ok(())
}

/// `SCARD key`
pub fn scard(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let set = find(context.keys.staged()?, request.arg(1))?;
    context.reply.count(set.map_or(0, |set| set.header.count));
    Ok(())
}

/// `SSCAN key cursor [MATCH pattern] [COUNT count]`
pub fn sscan(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    scan_members::step(context, request, Kind::Set)
}
