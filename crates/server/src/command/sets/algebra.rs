//! Several sets: `SINTER`, `SUNION`, `SDIFF`, what they store, and `SINTERCARD`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::find;
use crate::command::context::Context;
use crate::command::copy_budget::CopyBudget;
use crate::command::integer::parse_integer;
use crate::command::members::{SetOperation, count_common, key_count_arg};
use crate::command::stage::Staged;
use crate::failure::{CommandResult, Failure, Result};
use crate::resp::Request;
use crate::types::Kind;
use crate::types::collection::Collection;

/// Members, each once.
type Members = BTreeSet<Vec<u8>>;

/// Bytes of members that are held at once.
const SIZE_MAX: usize = 512 << 20;

/// `SINTER key [key ...]`
pub fn sinter(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    show(context, request, SetOperation::Intersection)
}

/// `SUNION key [key ...]`
pub fn sunion(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    show(context, request, SetOperation::Union)
}

/// `SDIFF key [key ...]`
pub fn sdiff(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    show(context, request, SetOperation::Difference)
}

/// `SINTERSTORE destination key [key ...]`
pub fn sinterstore(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    store(context, request, SetOperation::Intersection)
}

/// `SUNIONSTORE destination key [key ...]`
pub fn sunionstore(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    store(context, request, SetOperation::Union)
}

/// `SDIFFSTORE destination key [key ...]`
pub fn sdiffstore(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    store(context, request, SetOperation::Difference)
}

/// `SINTERCARD count key [key ...] [LIMIT limit]`
pub fn sintercard(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let key_count = key_count_arg(request.arg(1))?;
    if key_count > request.len() - 2 {
        return Err(Failure::text("ERR Number of keys can't be greater than number of args"));
    }
    let mut limit = 0;
    let mut args = request.args_from(2 + key_count);
    while let Some(option) = args.next() {
        let value = args.next().filter(|_| option.eq_ignore_ascii_case(b"limit"));
        let value = value.ok_or(Failure::Syntax)?;
        limit = parse_integer(value)
            .and_then(|limit| u64::try_from(limit).ok())
            .ok_or(Failure::text("ERR LIMIT can't be negative"))?;
    }
    let keys: Vec<&[u8]> = request.args_from(2).take(key_count).collect();
    let count = count_common(context.keys.staged()?, &keys, &[Kind::Set], limit)?;
    context.reply.count(count);
    Ok(())
}

fn show(
    context: &mut Context<'_>,
    request: &Request<'_>,
    operation: SetOperation,
) -> CommandResult {
    let keys: Vec<&[u8]> = request.args_from(1).collect();
    let members = combine(context.keys.staged()?, &keys, operation)?;
    context.reply.set(members.len());
    for member in members {
        context.reply.bulk(&member);
        if context.reply.is_full() {
            return Err(Failure::ReplyTooLong);
        }
    }
    Ok(())
}

fn store(
    context: &mut Context<'_>,
    request: &Request<'_>,
    operation: SetOperation,
) -> CommandResult {
    let keys: Vec<&[u8]> = request.args_from(2).collect();
    let staged = context.keys.staged()?;
    let members = combine(staged, &keys, operation).map_err(Failure::of_what_is_stored)?;
    if members.is_empty() {
        staged.remove(request.arg(1))?;
    } else {
        let mut set = Collection::replace(staged, request.arg(1), Kind::Set)?;
        for member in &members {
            set.set(member, b"")?;
        }
        set.finish()?;
    }
    context.reply.count(members.len() as u64);
    Ok(())
}

/// The members of what is made of sets. Every key must be a set or nothing.
fn combine(staged: &mut Staged<'_>, keys: &[&[u8]], operation: SetOperation) -> Result<Members> {
    let mut counts = Vec::new();
    for key in keys {
        counts.push(find(staged, key)?.map_or(0, |set| set.header.count));
    }
    let Some(first) = (match operation {
        // Least is looked at if the smallest set comes first.
        SetOperation::Intersection => (0..keys.len()).min_by_key(|&index| counts[index]),
        _ => (!keys.is_empty()).then_some(0),
    }) else {
        return Ok(Members::new());
    };
    let (mut members, mut budget) = (Members::new(), CopyBudget::new(SIZE_MAX));
    add(staged, keys[first], &mut members, &mut budget)?;
    for (index, key) in keys.iter().enumerate() {
        if index == first {
            continue;
        }
        match operation {
            SetOperation::Union => add(staged, key, &mut members, &mut budget)?,
            SetOperation::Intersection => keep(staged, key, &mut members, true)?,
            SetOperation::Difference => keep(staged, key, &mut members, false)?,
        }
    }
    Ok(members)
}

fn add(
    staged: &mut Staged<'_>,
    key: &[u8],
    members: &mut Members,
    budget: &mut CopyBudget,
) -> CommandResult {
    let Some(mut set) = find(staged, key)? else { return Ok(()) };
    set.walk(|member, _| {
        if !members.contains(member) {
            budget.take(member.len())?;
            members.insert(member.to_vec());
        }
        ControlFlow::Continue(())
    })?;
    budget.check()
}

/// Keeps those that are in a set, or those that are not.
fn keep(
    staged: &mut Staged<'_>,
    key: &[u8],
    members: &mut Members,
    present: bool,
) -> CommandResult {
    let mut set = find(staged, key)?;
    let mut kept = Members::new();
    for member in std::mem::take(members) {
        let found = match &mut set {
            Some(set) => set.contains(&member)?,
            None => false,
        };
        if found == present {
            kept.insert(member);
        }
    }
    *members = kept;
    Ok(())
}
