//! Values as numbers: `INCR` and its like.

use everleaf::Action;

use super::context::Context;
use super::integer::{integer_arg, parse_integer};
use crate::decimal::{Decimal, is_infinite};
use crate::failure::{CommandResult, Failure};
use crate::resp::{Request, integer_bytes};

/// `INCR key`
pub fn incr(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    increment(context, request.arg(1))
}

/// `INCR` of a key.
pub fn increment(context: &mut Context<'_>, key: &[u8]) -> CommandResult {
    add(context, key, 1)
}

/// `DECR key`
pub fn decr(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    add(context, request.arg(1), -1)
}

/// `INCRBY key amount`
pub fn incrby(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    add(context, request.arg(1), integer_arg(request.arg(2))?)
}

/// `DECRBY key amount`
pub fn decrby(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let amount = integer_arg(request.arg(2))?
        .checked_neg()
        .ok_or(Failure::text("ERR decrement would overflow"))?;
    add(context, request.arg(1), amount)
}

/// Adds in one atomic step; an absent key counts as 0.
fn add(context: &mut Context<'_>, key: &[u8], amount: i64) -> CommandResult {
    // The function below may run several times; the last run is the one that counts.
    let mut outcome = Err(Failure::NotInteger);
    context.keys.update_apart(key, |old| {
        outcome = sum(old, amount);
        match &outcome {
            Ok(value) => Action::Put(integer_bytes(*value)),
            Err(_) => Action::Keep,
        }
    })?;
    context.reply.integer(outcome?);
    Ok(())
}

fn sum(old: Option<&[u8]>, amount: i64) -> Result<i64, Failure> {
    let old = match old {
        None => 0,
        Some(bytes) => parse_integer(bytes).ok_or(Failure::NotInteger)?,
    };
    old.checked_add(amount).ok_or(Failure::text("ERR increment or decrement would overflow"))
}

/// `INCRBYFLOAT key amount`
pub fn incrbyfloat(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let mut result = Err(Failure::NotInteger);
    context.keys.update_with(request.arg(1), |old| {
        result = decimal_sum(old.map(|(old, _)| old), request.arg(2));
        match &result {
            Ok(sum) => Action::Put(sum.clone().into_bytes()),
            Err(_) => Action::Keep,
        }
    })?;
    context.reply.bulk(result?.as_bytes());
    Ok(())
}

/// The sum of a value, or nothing, and an amount.
fn decimal_sum(old: Option<&[u8]>, amount: &[u8]) -> Result<String, Failure> {
    const TOO_LARGE: &str = "ERR increment would produce NaN or Infinity";
    // `None`: infinite.
    let parse = |text: &[u8]| match Decimal::parse(text) {
        None if is_infinite(text) => Ok(None),
        None => Err(Failure::text("ERR value is not a valid float")),
        number => Ok(number),
    };
    let old = old.map_or(Ok(Some(Decimal::ZERO)), parse)?;
    let sum = match (old, parse(amount)?) {
        (Some(old), Some(amount)) => old.plus(amount),
        _ => None,
    };
    Ok(sum.ok_or(Failure::text(TOO_LARGE))?.to_string())
}
