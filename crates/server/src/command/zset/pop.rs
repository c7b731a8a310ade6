//! `ZPOPMIN`, `ZPOPMAX`, `ZMPOP`.

use std::ops::{Bound, ControlFlow};

use super::{find, show};
use crate::command::context::Context;
use crate::command::copy_budget::CopyBudget;
use crate::command::integer::parse_integer;
use crate::command::members::{count_option, key_count_arg};
use crate::command::stage::Staged;
use crate::failure::{CommandResult, Failure, Result};
use crate::resp::Request;
use crate::short_bytes::ShortBytes;
use crate::texts::Texts;
use crate::types::order::{SCORE_SIZE_MIN, at_position};

/// `ZPOPMIN key [count]`
pub fn zpopmin(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    pop_one(context, request, false)
}

/// `ZPOPMAX key [count]`
pub fn zpopmax(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    pop_one(context, request, true)
}

fn pop_one(context: &mut Context<'_>, request: &Request<'_>, reverse: bool) -> CommandResult {
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
    let (mut budget, wanted) = (CopyBudget::of(&context.reply), count.unwrap_or(1));
    if count.is_none()
        && let Some(position) =
            pop_first(context.keys.staged()?, request.arg(1), reverse, &mut budget)?
    {
        let (member, score) = at_position(&position);
        context.reply.array(2);
        context.reply.bulk(member);
        context.reply.double(score);
        return Ok(());
    }
    let items = pop(context.keys.staged()?, request.arg(1), wanted, reverse, &mut budget)?;
    if count.is_some() {
        return show(&mut context.reply, items.iter(), true, false);
    }
    // One member is never a pair of its own.
    context.reply.array(2 * items.len());
    for (member, score) in items.iter() {
        context.reply.bulk(member);
        context.reply.double(score);
    }
    Ok(())
}

/// Members that are removed, with their scores.
#[derive(Debug, Default)]
pub struct Popped {
    members: Texts,
    scores: Vec<f64>,
}

impl Popped {
    fn push(&mut self, member: &[u8], score: f64) {
        self.members.push(member);
        self.scores.push(score);
    }

    /// How many they are.
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], f64)> {
        let mut members = self.members.iter();
        self.scores.iter().map(move |score| (members.next().unwrap_or_default(), *score))
    }
}

/// Removes the first or last member of a set that has others. Returns its position; if the set has none, nothing was
/// done.
fn pop_first(
    staged: &mut Staged<'_>,
    key: &[u8],
    reverse: bool,
    budget: &mut CopyBudget,
) -> Result<Option<ShortBytes>> {
    let Some(mut set) = find(staged, key)?.filter(|set| set.header.count > 1) else {
        return Ok(None);
    };
    let Some(position) = set.end(reverse, budget)? else { return Ok(None) };
    set.remove_position(&position)?;
    set.finish()?;
    Ok(Some(position))
}

/// So many members are removed by themselves, also if they are all of a set.
const FEW_COUNT: usize = 16;

/// Removes the first or last members.
pub fn pop(
    staged: &mut Staged<'_>,
    key: &[u8],
    count: u64,
    reverse: bool,
    budget: &mut CopyBudget,
) -> Result<Popped> {
    let mut items = Popped::default();
    // Each is removed by two entries at least.
    let count_max = staged.stage.removal_count_max() as u64 / 2;
    let Some(mut set) = find(staged, key)? else { return Ok(items) };
    if count == 0 {
        return Ok(items);
    }
    if count >= set.header.count {
        // Many are not removed by themselves, so there may be any number.
        let everything = (Bound::Unbounded, Bound::Unbounded);
        set.walk_order(&everything, reverse, |member, score| {
            budget.take_packed(member.len() + SCORE_SIZE_MIN)?;
            items.push(member, score);
            ControlFlow::Continue(())
        })?;
        budget.check()?;
        // A few are removed by themselves: what is left of a set that is cleared is freed later, and a queue that
        // empties all the time would leave more than the thread behind it can free.
        if items.len() as u64 >= set.header.count && items.len() > FEW_COUNT {
            set.clear()?;
            return Ok(items);
        }
    } else if count > count_max {
        return Err(staged.stage.failure());
    } else {
        for position in &set.ends(count, reverse, budget)? {
            let (member, score) = at_position(position);
            items.push(member, score);
        }
    }
    for (member, score) in items.iter() {
        set.remove_scored(member, score)?;
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
pub fn zmpop(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let (key_count, reverse, count) = parse_many(request, 1)?;
    for key in request.args_from(2).take(key_count) {
        let mut budget = CopyBudget::of(&context.reply);
        let items = pop(context.keys.staged()?, key, count, reverse, &mut budget)?;
        if !items.is_empty() {
            context.reply.array(2);
            context.reply.bulk(key);
            return show(&mut context.reply, items.iter(), true, true);
        }
    }
    context.reply.null_array();
    Ok(())
}
