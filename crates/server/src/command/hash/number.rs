//! Fields as numbers: `HINCRBY`, `HINCRBYFLOAT`.

use super::open;
use crate::command::context::Context;
use crate::command::integer::{integer_arg, parse_integer};
use crate::decimal::{Decimal, is_infinite};
use crate::failure::{CommandResult, Failure};
use crate::resp::Request;

/// `HINCRBY key field amount`
pub fn hincrby(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let amount = integer_arg(request.arg(3))?;
    let mut hash = open(context.keys.staged()?, request.arg(1))?;
    let old = match hash.see(request.arg(2), parse_integer)? {
        None => 0,
        Some(Some(old)) => old,
        Some(None) => return Err(Failure::text("ERR hash value is not an integer")),
    };
    let new = old
        .checked_add(amount)
        .ok_or(Failure::text("ERR increment or decrement would overflow"))?;
    hash.set(request.arg(2), new.to_string().as_bytes())?;
    hash.finish()?;
    context.reply.integer(new);
    Ok(())
}

/// `HINCRBYFLOAT key field amount`
pub fn hincrbyfloat(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let amount = match Decimal::parse(request.arg(3)) {
        Some(amount) => amount,
        None if is_infinite(request.arg(3)) => {
            return Err(Failure::text("ERR value is NaN or Infinity"));
        }
        None => return Err(Failure::text("ERR value is not a valid float")),
    };
    let mut hash = open(context.keys.staged()?, request.arg(1))?;
    let see = |old: &[u8]| (Decimal::parse(old), is_infinite(old));
    let sum = match hash.see(request.arg(2), see)? {
        None => Some(amount),
        Some((Some(old), _)) => old.plus(amount),
        Some((None, true)) => None,
        Some((None, false)) => return Err(Failure::text("ERR hash value is not a float")),
    };
    let new = sum.ok_or(Failure::text("ERR increment would produce NaN or Infinity"))?.to_string();
    hash.set(request.arg(2), new.as_bytes())?;
    hash.finish()?;
    context.reply.bulk(new.as_bytes());
    Ok(())
}
