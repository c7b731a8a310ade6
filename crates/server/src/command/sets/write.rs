//! Changing sets: `SADD`, `SREM`, `SMOVE`.

use super::{find, open};
use crate::command::context::Context;
use crate::failure::CommandResult;
use crate::resp::Request;

/// `SADD key member [member ...]`: how many are new.
pub fn sadd(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let mut set = open(context.keys.staged()?, request.arg(1))?;
    let mut count = 0;
    for member in request.args_from(2) {
        count += i64::from(set.add(member)?);
    }
    if count > 0 {
        set.finish()?;
    }
    context.reply.integer(count);
    Ok(())
}

/// `SREM key member [member ...]`: how many were there.
pub fn srem(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let mut count = 0;
    if let Some(mut set) = find(context.keys.staged()?, request.arg(1))? {
        for member in request.args_from(2) {
            count += i64::from(set.remove(member)?);
        }
        if count > 0 {
            set.finish()?;
        }
    }
    context.reply.integer(count);
    Ok(())
}

/// `SMOVE source destination member`
pub fn smove(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let (source, destination, member) = (request.arg(1), request.arg(2), request.arg(3));
    let Context { keys, reply, .. } = context;
    let staged = keys.staged()?;
    let Some(mut set) = find(staged, source)? else {
        reply.integer(0);
        return Ok(());
    };
    if source == destination {
        reply.integer(i64::from(set.contains(member)?));
        return Ok(());
    }
    // The destination must be a set before anything is taken from the source.
    find(staged, destination)?;
    // It is found again: all of a stage has one time.
    let Some(mut set) = find(staged, source)? else {
        reply.integer(0);
        return Ok(());
    };
    let is_there = set.remove(member)?;
    if is_there {
        set.finish()?;
        let mut set = open(staged, destination)?;
        if set.add(member)? {
            set.finish()?;
        }
    }
    reply.integer(i64::from(is_there));
    Ok(())
}
