//! Reading hashes: `HGET`, `HMGET`, `HGETALL` and their like.

use std::ops::ControlFlow;

use super::find;
use crate::command::context::Context;
use crate::failure::{CommandResult, Failure};
use crate::resp::Request;

/// `HGET key field`
pub fn hget(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let Context { keys, reply, tally, .. } = context;
    let mut found = false;
    if let Some(mut hash) = find(keys.staged()?, request.arg(1))? {
        found = hash.see(request.arg(2), |value| reply.bulk(value))?.is_some();
    }
    if found {
        tally.hits += 1;
    } else {
        tally.misses += 1;
        reply.null();
    }
    Ok(())
}

/// `HMGET key field [field ...]`
pub fn hmget(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let Context { keys, reply, .. } = context;
    let mut hash = find(keys.staged()?, request.arg(1))?;
    reply.array(request.len() - 2);
    for field in request.args_from(2) {
        let seen = match &mut hash {
            Some(hash) => hash.see(field, |value| reply.bulk(value))?,
            None => None,
        };
        if seen.is_none() {
            reply.null();
        }
        if reply.is_full() {
            return Err(Failure::ReplyTooLong);
        }
    }
    Ok(())
}

/// `HLEN key`
pub fn hlen(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let hash = find(context.keys.staged()?, request.arg(1))?;
    context.reply.count(hash.map_or(0, |hash| hash.header.count));
    Ok(())
}

/// `HEXISTS key field`
pub fn hexists(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let mut hash = find(context.keys.staged()?, request.arg(1))?;
    let found = match &mut hash {
        Some(hash) => hash.contains(request.arg(2))?,
        None => false,
    };
    context.reply.integer(i64::from(found));
    Ok(())
}

/// `HSTRLEN key field`
pub fn hstrlen(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let mut hash = find(context.keys.staged()?, request.arg(1))?;
    let size = match &mut hash {
        Some(hash) => hash.see(request.arg(2), <[u8]>::len)?,
        None => None,
    };
    context.reply.count(size.unwrap_or(0) as u64);
    Ok(())
}

/// What is told of each field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Field,
    Value,
    Both,
}

/// `HKEYS key`
pub fn hkeys(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    all(context, request, Part::Field)
}

/// `HVALS key`
pub fn hvals(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    all(context, request, Part::Value)
}

/// `HGETALL key`
pub fn hgetall(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    all(context, request, Part::Both)
}

fn all(context: &mut Context<'_>, request: &Request<'_>, part: Part) -> CommandResult {
    let Context { keys, reply, .. } = context;
    let array = reply.open_array();
    let mut count = 0;
    if let Some(mut hash) = find(keys.staged()?, request.arg(1))? {
        hash.walk(|field, value| {
            if part != Part::Value {
                reply.bulk(field);
            }
            if part != Part::Field {
                reply.bulk(value);
            }
            count += 1;
            if reply.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
    }
    if part == Part::Both {
        reply.close_map(array, count);
    } else {
        reply.close_array(array, count);
    }
    Ok(())
}
