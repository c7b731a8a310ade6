//! `SRANDMEMBER` and `SPOP`.

use std::ops::ControlFlow;

use super::find;
use crate::command::context::Context;
use crate::command::copy_budget::CopyBudget;
use crate::command::draws;
use crate::command::integer::parse_integer;
use crate::command::members::{drawn, pop_one};
use crate::failure::{CommandResult, Failure};
use crate::resp::{Reply, Request};
use crate::types::Kind;
use crate::types::collection::Collection;

/// `SRANDMEMBER key [count]`
pub fn srandmember(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    draws::answer(context, request, Kind::Set)
}

/// Removes all members, none by itself, so that there may be any number.
fn pop_all(mut set: Collection<'_, '_>, reply: &mut Reply<'_>) -> CommandResult {
    let (array, mut count) = (reply.open_array(), 0);
    set.walk(|member, _| {
        reply.bulk(member);
        count += 1;
        if reply.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if reply.is_full() {
        return Err(Failure::ReplyTooLong);
    }
    reply.close_set(array, count);
    set.clear()
}

/// `SPOP key [count]`
pub fn spop(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    if request.len() > 3 {
        return Err(Failure::Syntax);
    }
    let count = match request.get(2) {
        None => None,
        Some(arg) => {
            let count = parse_integer(arg).filter(|count| *count >= 0);
            Some(count.ok_or(Failure::text("ERR value is out of range, must be positive"))?)
        }
    };
    let Context { keys, reply, .. } = context;
    if count.is_none() {
        let mut popped = None;
        if let Some(mut set) = find(keys.staged()?, request.arg(1))? {
            popped = pop_one(&mut set)?;
            if popped.is_some() {
                set.finish()?;
            }
        }
        reply.bulk_or_null(popped.as_deref());
        return Ok(());
    }
    let mut popped = Vec::new();
    let staged = keys.staged()?;
    let count_max = staged.stage.removal_count_max() as u64;
    if let Some(mut set) = find(staged, request.arg(1))? {
        if count.is_some_and(|count| count as u64 >= set.header.count) {
            return pop_all(set, reply);
        }
        if count.is_some_and(|count| count as u64 > count_max) {
            return Err(staged.stage.failure());
        }
        popped = drawn(&mut set, count.unwrap_or(1), &mut CopyBudget::of(reply))?;
        for member in &popped {
            set.remove_known(member)?;
        }
        if !popped.is_empty() {
            set.finish()?;
        }
    }
    reply.set(popped.len());
    popped.iter().for_each(|member| reply.bulk(member));
    Ok(())
}
