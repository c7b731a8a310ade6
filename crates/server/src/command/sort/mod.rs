//! `SORT`, `SORT_RO`: the members of a list, set or sorted set by weights, and what belongs to them.
//!
//! What it reads beside the collection is a part of the same step. Bytes are compared, whatever the locale.

mod budget;
mod options;
mod weight;

use std::ops::{Bound, ControlFlow};

use self::budget::{spend, too_many};
use self::options::Options;
use super::context::Context;
use super::copy_budget::CopyBudget;
use super::permission::may_read_all;
use super::stage::Staged;
use crate::failure::{CommandResult, Failure, Result};
use crate::resp::Request;
use crate::types::Kind;
use crate::types::collection::Collection;
use crate::types::list::Side;

/// Bytes of members, weights and results that are held at once.
const SIZE_MAX: usize = 256 << 20;

/// `SORT key [BY pattern] [LIMIT start count] [GET pattern ...] [ASC | DESC] [ALPHA] [STORE destination]`
pub fn sort(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let options = Options::parse(request, true, || may_read_all(context, request))?;
    run(context, request, options)
}

/// `SORT_RO`, the same without `STORE`.
pub fn sort_ro(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let options = Options::parse(request, false, || may_read_all(context, request))?;
    run(context, request, options)
}

fn run(
    context: &mut Context<'_>,
    request: &Request<'_>,
    mut options: Options<'_>,
) -> CommandResult {
    let Context { keys, reply, .. } = context;
    let staged = keys.staged()?;
    let kinds = [Kind::List, Kind::Set, Kind::SortedSet];
    let kind = Collection::find_any(staged, request.arg(1), &kinds)?.map(|found| found.header.kind);
    if options.is_unsorted && kind == Some(Kind::Set) && options.destination.is_some() {
        // What is stored must not depend on the order in which a set happens to lie.
        (options.by, options.by_bytes, options.is_unsorted) = (None, true, false);
    }
    let descends = options.is_unsorted && options.descends;
    let mut budget = CopyBudget::new(SIZE_MAX);
    let mut members = match kind {
        Some(kind) => members(staged, request.arg(1), kind, descends, &mut budget)?,
        None => Vec::new(),
    };
    if !options.is_unsorted {
        members = weight::sorted(staged, members, &options, &mut budget)?;
    }
    let members = &members[options.part(members.len())];
    let Some(destination) = options.destination else {
        let items = if options.get.is_empty() { 1 } else { options.get.len() };
        reply.array(members.len() * items);
        for member in members {
            if options.get.is_empty() {
                reply.bulk(member);
            }
            for pattern in &options.get {
                let found = weight::look_up(staged, pattern, member)?;
                reply.bulk_or_null(found.as_deref());
                if reply.is_full() {
                    return Err(Failure::ReplyTooLong);
                }
            }
        }
        return Ok(());
    };
    let mut results = Vec::new();
    for member in members {
        if options.get.is_empty() {
            results.push(member.clone());
        }
        for pattern in &options.get {
            let result = weight::look_up(staged, pattern, member)?.unwrap_or_default();
            spend(&mut budget, result.len())?;
            results.push(result);
        }
    }
    store(staged, destination, &results)?;
    reply.count(results.len() as u64);
    Ok(())
}

/// Makes a list of the results, in place of what the key held.
fn store(staged: &mut Staged<'_>, key: &[u8], results: &[Vec<u8>]) -> CommandResult {
    if results.is_empty() {
        staged.remove(key)?;
        return Ok(());
    }
    let mut list = Collection::replace(staged, key, Kind::List)?;
    results.iter().try_for_each(|result| list.push(Side::Right, result))?;
    list.finish()
}

/// Copies of all members, in the order they have, or against it.
fn members(
    staged: &mut Staged<'_>,
    key: &[u8],
    kind: Kind,
    reverse: bool,
    budget: &mut CopyBudget,
) -> Result<Vec<Vec<u8>>> {
    let Some(mut collection) = Collection::find(staged, key, kind)? else { return Ok(Vec::new()) };
    let mut members = Vec::new();
    let mut take = |member: &[u8]| {
        budget.take(member.len())?;
        members.push(member.to_vec());
        ControlFlow::Continue(())
    };
    match kind {
        Kind::List => {
            if let Some(last) = collection.header.count.checked_sub(1) {
                collection.walk_elements(0, last, reverse, |_, element| take(element))?;
            }
        }
        Kind::SortedSet => {
            let all = (Bound::Unbounded, Bound::Unbounded);
            collection.walk_order(&all, reverse, |member, _| take(member))?;
        }
        Kind::Set | Kind::Hash => collection.walk(|member, _| take(member))?,
    }
    if budget.is_over() { Err(too_many()) } else { Ok(members) }
}
