//! Changing hashes: `HSET`, `HDEL` and their like.

use super::{find, open};
use crate::command::context::Context;
use crate::failure::{CommandResult, Failure};
use crate::resp::Request;

/// `HSET key field value [field value ...]`: how many fields are new.
pub fn hset(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let count = set_all(context, request, "hset")?;
    context.reply.count(count);
    Ok(())
}

/// `HMSET key field value [field value ...]`
pub fn hmset(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    set_all(context, request, "hmset")?;
    context.reply.ok();
    Ok(())
}

fn set_all(
    context: &mut Context<'_>,
    request: &Request<'_>,
    command: &'static str,
) -> Result<u64, Failure> {
    if !request.len().is_multiple_of(2) {
        return Err(Failure::WrongArity(command));
    }
    let mut hash = open(context.keys.staged()?, request.arg(1))?;
    let before = hash.header.count;
    let mut args = request.args_from(2);
    while let (Some(field), Some(value)) = (args.next(), args.next()) {
        hash.set(field, value)?;
    }
    let count = hash.header.count - before;
    hash.finish()?;
    Ok(count)
}

/// `HSETNX key field value`
pub fn hsetnx(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let mut hash = open(context.keys.staged()?, request.arg(1))?;
    let is_new = !hash.contains(request.arg(2))?;
    if is_new {
        hash.set(request.arg(2), request.arg(3))?;
        hash.finish()?;
    }
    context.reply.integer(i64::from(is_new));
    Ok(())
}

/// `HDEL key field [field ...]`: how many were there.
pub fn hdel(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let mut count = 0;
    if let Some(mut hash) = find(context.keys.staged()?, request.arg(1))? {
        for field in request.args_from(2) {
            count += i64::from(hash.remove(field)?);
        }
        if count > 0 {
            hash.finish()?;
        }
    }
    context.reply.integer(count);
    Ok(())
}
