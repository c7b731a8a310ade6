//! `ZPOPMIN`, `ZPOPMAX`, `ZMPOP`.

use super::{Scored, find, show};
use crate::command::allowance::Allowance;
use crate::command::keys::Result;
use crate::command::members::{count_option, key_count_arg};
use crate::command::stage::Staged;
use crate::command::{Context, Failure, Outcome, parse_integer};
use crate::resp::Request;
use crate::types::order::at_position;

/// `ZPOPMIN key [count]`
pub fn zpopmin(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    pop_one(context, request, false)
}

/// `ZPOPMAX key [count]`
pub fn zpopmax(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    pop_one(context, request, true)
}

fn pop_one(context: &mut Context<'_>, request: &Request<'_>, reverse: bool) -> Outcome {
    if request.len() > 3 {
        return Err(Failure::Syntax);
    }
    let out_of_range = Failure::text("ERR value is out of range, must be positive");
    let count = match request.get(2) {
        None => None,
        Some(arg) => {
            let count = parse_integer(arg).and_then(|count| u64::try_from(count).ok());
            Some(count.ok_or(out_of_range)?)
        }
    };
    let (mut allowance, wanted) = (Allowance::of(&context.reply), count.unwrap_or(1));
    let items = pop(context.keys.staged()?, request.arg(1), wanted, reverse, &mut allowance)?;
    if count.is_some() {
        return show(&mut context.reply, &items, true, false);
    }
    // One member is never a pair of its own.
    context.reply.array(2 * items.len());
    for (member, score) in &items {
        context.reply.bulk(member);
        context.reply.double(*score);
    }
    Ok(())
}

/// Removes the first or last members.
pub fn pop(
    staged: &mut Staged<'_>,
    key: &[u8],
    count: u64,
    reverse: bool,
    allowance: &mut Allowance,
) -> Result<Vec<Scored>> {
    let Some(mut set) = find(staged, key)? else { return Ok(Vec::new()) };
    if count == 0 {
        return Ok(Vec::new());
    }
    let positions = set.ends(count, reverse, allowance)?;
    let scored = |position: &Vec<u8>| {
        let (member, score) = at_position(position);
        (member.to_vec(), score)
    };
    let items: Vec<Scored> = positions.iter().map(scored).collect();
    if items.len() as u64 == set.header.count {
        set.clear()?;
        return Ok(items);
    }
    for (member, score) in &items {
        set.remove_scored(member, *score)?;
    }
    set.finish()?;
    Ok(items)
}

/// `count key [key ...] MIN | MAX [COUNT count]`, from an index on: keys, whether it is the last members,
/// and count.
pub fn parse_many(request: &Request<'_>, first: usize) -> Result<(usize, bool, u64)> {
    let key_count = key_count_arg(request.arg(first))?;
    let where_index = key_count.saturating_add(first + 1);
    let reverse = match request.get(where_index) {
        Some(side) if side.eq_ignore_ascii_case(b"min") => false,
        Some(side) if side.eq_ignore_ascii_case(b"max") => true,
        _ => return Err(Failure::Syntax),
    };
    Ok((key_count, reverse, count_option(request, where_index + 1)?))
}

/// `ZMPOP count key [key ...] MIN | MAX [COUNT count]`
pub fn zmpop(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    let (key_count, reverse, count) = parse_many(request, 1)?;
    for key in request.args_from(2).take(key_count) {
        let mut allowance = Allowance::of(&context.reply);
        let items = pop(context.keys.staged()?, key, count, reverse, &mut allowance)?;
        if !items.is_empty() {
            context.reply.array(2);
            context.reply.bulk(key);
            return show(&mut context.reply, &items, true, true);
        }
    }
    context.reply.null_array();
    Ok(())
}
