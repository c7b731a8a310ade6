//! `LPUSH`, `RPUSH` and their like, `LMOVE`, `RPOPLPUSH`.

use everleaf::{Error, KEY_SIZE_MAX};

use super::{find, open, side_arg};
use crate::command::context::Context;
use crate::command::stage::Staged;
use crate::failure::{CommandResult, Result};
use crate::resp::{Reply, Request};
use crate::types::collection::Collection;
use crate::types::list::Side;

/// `LPUSH key element [element ...]`
pub fn lpush(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    push(context, request, Side::Left)
}

/// `RPUSH key element [element ...]`
pub fn rpush(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    push(context, request, Side::Right)
}

/// `LPUSHX key element [element ...]`
pub fn lpushx(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    push_if_there(context, request, Side::Left)
}

/// `RPUSHX key element [element ...]`
pub fn rpushx(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    push_if_there(context, request, Side::Right)
}

fn push_if_there(context: &mut Context<'_>, request: &Request<'_>, side: Side) -> CommandResult {
    let Context { keys, reply, .. } = context;
    match find(keys.staged()?, request.arg(1))? {
        Some(list) => push_to(list, reply, request, side),
        None => {
            reply.integer(0);
            Ok(())
        }
    }
}

fn push(context: &mut Context<'_>, request: &Request<'_>, side: Side) -> CommandResult {
    let Context { keys, reply, .. } = context;
    push_to(open(keys.staged()?, request.arg(1))?, reply, request, side)
}

/// Adds the elements of a request, and answers how many there are.
fn push_to(
    mut list: Collection<'_, '_>,
    reply: &mut Reply<'_>,
    request: &Request<'_>,
    side: Side,
) -> CommandResult {
    for element in request.args_from(2) {
        list.push(side, element)?;
    }
    reply.count(list.header.count);
    list.finish()
}

/// `LMOVE source destination LEFT | RIGHT LEFT | RIGHT`
pub fn lmove(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let (from, to) = (side_arg(request.arg(3))?, side_arg(request.arg(4))?);
    reply_move(context, request, from, to)
}

/// `RPOPLPUSH source destination`
pub fn rpoplpush(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    reply_move(context, request, Side::Right, Side::Left)
}

fn reply_move(
    context: &mut Context<'_>,
    request: &Request<'_>,
    from: Side,
    to: Side,
) -> CommandResult {
    let moved = transfer(context.keys.staged()?, request.arg(1), request.arg(2), from, to)?;
    context.reply.bulk_or_null(moved.as_deref());
    Ok(())
}

/// Moves an element.
pub fn transfer(
    staged: &mut Staged<'_>,
    source: &[u8],
    destination: &[u8],
    from: Side,
    to: Side,
) -> Result<Option<Vec<u8>>> {
    if find(staged, source)?.is_none() {
        return Ok(None);
    }
    // The destination must be a list, or can become one, before anything is taken from the source.
    if destination.len() > KEY_SIZE_MAX {
        return Err(Error::KeyTooLarge(destination.len()).into());
    }
    find(staged, destination)?;
    let Some(mut list) = find(staged, source)? else { return Ok(None) };
    let Some(element) = list.pop(from, <[u8]>::to_vec)? else {
        // It is missing: the next one comes to those behind it.
        list.finish()?;
        return Ok(None);
    };
    if source == destination {
        list.push(to, &element)?;
        list.finish()?;
    } else {
        list.finish()?;
        let mut list = open(staged, destination)?;
        list.push(to, &element)?;
        list.finish()?;
    }
    Ok(Some(element))
}
