//! `LPOP`, `RPOP`, `LMPOP`.

use super::{find, side_arg};
use crate::command::context::Context;
use crate::command::copy_budget::CopyBudget;
use crate::command::integer::parse_integer;
use crate::command::members::{count_option, key_count_arg};
use crate::command::stage::Staged;
use crate::failure::{CommandResult, Failure, Result};
use crate::resp::{Reply, Request};
use crate::texts::Texts;
use crate::types::list::Side;

/// `LPOP key [count]`
pub fn lpop(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    pop_one(context, request, Side::Left, "lpop")
}

/// `RPOP key [count]`
pub fn rpop(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    pop_one(context, request, Side::Right, "rpop")
}

fn pop_one(
    context: &mut Context<'_>,
    request: &Request<'_>,
    side: Side,
    name: &'static str,
) -> CommandResult {
    if request.len() > 3 {
        return Err(Failure::WrongArity(name));
    }
    let Some(count) = request.get(2) else {
        let mut budget = CopyBudget::of(&context.reply);
        let popped = pop(context.keys.staged()?, request.arg(1), 1, side, &mut budget)?;
        context.reply.bulk_or_null(popped.as_ref().and_then(Texts::first));
        return Ok(());
    };
    let count = parse_integer(count)
        .and_then(|count| u64::try_from(count).ok())
        .ok_or(Failure::text("ERR value is out of range, must be positive"))?;
    let mut budget = CopyBudget::of(&context.reply);
    match pop(context.keys.staged()?, request.arg(1), count, side, &mut budget)? {
        Some(popped) => show(&mut context.reply, &popped),
        None => {
            context.reply.null_array();
            Ok(())
        }
    }
}

pub fn show(reply: &mut Reply<'_>, elements: &Texts) -> CommandResult {
    reply.array(elements.len());
    for element in elements.iter() {
        reply.bulk(element);
        if reply.is_full() {
            return Err(Failure::ReplyTooLong);
        }
    }
    Ok(())
}

/// Removes elements at a side; `None` if there is no list.
pub fn pop(
    staged: &mut Staged<'_>,
    key: &[u8],
    count: u64,
    side: Side,
    budget: &mut CopyBudget,
) -> Result<Option<Texts>> {
    let Some(mut list) = find(staged, key)? else { return Ok(None) };
    let before = list.header;
    let popped = list.pop_many(side, count, budget)?;
    // Also if an element was missing, so that the next one comes to those behind it.
    if list.header != before {
        list.finish()?;
    }
    Ok(Some(popped))
}

/// `count key [key ...] LEFT | RIGHT [COUNT count]`, from an index on: keys, side and count.
pub fn parse_many(request: &Request<'_>, first: usize) -> Result<(usize, Side, u64)> {
    let key_count = key_count_arg(request.arg(first))?;
    let side_index = key_count.saturating_add(first + 1);
    let side = side_arg(request.get(side_index).ok_or(Failure::Syntax)?)?;
    Ok((key_count, side, count_option(request, side_index + 1)?))
}

/// `LMPOP count key [key ...] LEFT | RIGHT [COUNT count]`
pub fn lmpop(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let (key_count, side, count) = parse_many(request, 1)?;
    for key in request.args_from(2).take(key_count) {
        let mut budget = CopyBudget::of(&context.reply);
        let popped = pop(context.keys.staged()?, key, count, side, &mut budget)?;
        if let Some(popped) = popped.filter(|popped| !popped.is_empty()) {
            context.reply.array(2);
            context.reply.bulk(key);
            return show(&mut context.reply, &popped);
        }
    }
    context.reply.null_array();
    Ok(())
}
