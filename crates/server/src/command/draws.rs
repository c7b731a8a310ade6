//! `SRANDMEMBER`, `HRANDFIELD`, `ZRANDMEMBER`.
//!
//! With a negative count each draw is by itself, and there may be as many as fit into a reply: a minute's work. As one
//! step they would all be made anew whenever somebody had changed the collection meanwhile, and in the end with
//! everybody waiting. So very many are several steps of [`STEP_LENGTH`] draws, each of the collection as it is then;
//! between `MULTI` and `EXEC` they are one, as all that is done there.

use std::ops::ControlFlow;

use super::context::Context;
use super::copy_budget::CopyBudget;
use super::facts::{HRANDFIELD, SRANDMEMBER, ZRANDMEMBER};
use super::integer::parse_integer;
use super::members::{count_arg, draw};
use super::transaction::step::run_step;
use crate::failure::{CommandResult, Failure, Result};
use crate::resp::{Protocol, Reply, Request};
use crate::types::Kind;
use crate::types::collection::Collection;
use crate::types::order::score_of;

/// Draws that are one step: some milliseconds.
const STEP_LENGTH: i64 = 1 << 14;

/// A command that shows members that are drawn.
pub struct Draws<'a> {
    key: &'a [u8],
    kind: Kind,
    /// How many; negative if the same may come again. `None`: one, which stands in no array.
    count: Option<i64>,
    /// Whether it shows what members have, too.
    values: bool,
}

/// Whether a command is of several steps.
#[inline]
pub fn takes_steps(request: &Request<'_>, command: usize) -> bool {
    kind_of(command).is_some()
        && request.get(2).and_then(parse_integer).is_some_and(|count| count < -STEP_LENGTH)
}

fn kind_of(command: usize) -> Option<Kind> {
    match command {
        SRANDMEMBER => Some(Kind::Set),
        HRANDFIELD => Some(Kind::Hash),
        ZRANDMEMBER => Some(Kind::SortedSet),
        _ => None,
    }
}

/// `SRANDMEMBER key [count]`, `HRANDFIELD key [count [WITHVALUES]]`, `ZRANDMEMBER key [count [WITHSCORES]]`, as one
/// step.
pub fn answer(context: &mut Context<'_>, request: &Request<'_>, kind: Kind) -> CommandResult {
    let draws = Draws::parse(request, kind)?;
    let mut budget = CopyBudget::of(&context.reply);
    let array = draws.count.map(|_| context.reply.open_array());
    let count = draws.count.unwrap_or(1);
    let drawn = draws.draw(context, count, count, &mut budget)?;
    match array {
        Some(array) => context.reply.close_array(array, draws.items(drawn, &context.reply)),
        None if drawn == 0 => context.reply.null(),
        None => {}
    }
    Ok(())
}

/// The same in several steps.
pub fn answer_in_steps(
    context: &mut Context<'_>,
    request: &Request<'_>,
    command: usize,
) -> CommandResult {
    let draws = Draws::parse(request, kind_of(command).unwrap_or(Kind::Set))?;
    let array = context.reply.open_array();
    let (mut left, mut drawn) = (draws.count.unwrap_or(0), 0);
    while left < 0 {
        let count = left.max(-STEP_LENGTH);
        let mut found = 0;
        run_step(context, draws.key, false, &mut |inner| {
            let mut budget = CopyBudget::of(&inner.reply);
            found = draws.draw(inner, count, left, &mut budget)?;
            Ok(())
        })?;
        if context.reply.is_full() {
            return Err(Failure::ReplyTooLong);
        }
        drawn += found;
        left -= count;
        if found == 0 {
            // Nothing is there, or no more.
            break;
        }
    }
    context.reply.close_array(array, draws.items(drawn, &context.reply));
    Ok(())
}

impl<'a> Draws<'a> {
    fn parse(request: &Request<'a>, kind: Kind) -> Result<Self> {
        let option: &[u8] = match kind {
            Kind::Hash => b"withvalues",
            Kind::SortedSet => b"withscores",
            Kind::Set | Kind::List => b"",
        };
        if option.is_empty() && request.len() > 3 {
            return Err(Failure::Syntax);
        }
        let count = request.get(2).map(count_arg).transpose()?;
        let values = match request.get(3) {
            None => false,
            Some(found) if request.len() == 4 && found.eq_ignore_ascii_case(option) => true,
            Some(_) => return Err(Failure::Syntax),
        };
        let half = i64::MAX / 2;
        if values && count.is_some_and(|count| !(-half..=half).contains(&count)) {
            return Err(Failure::text("ERR value is out of range"));
        }
        Ok(Draws { key: request.arg(1), kind, count, values })
    }

    /// Shows so many members, of those that are left to be shown, for which there has to be room. Returns how many
    /// it has shown.
    fn draw(
        &self,
        context: &mut Context<'_>,
        count: i64,
        left: i64,
        budget: &mut CopyBudget,
    ) -> Result<usize> {
        let Context { keys, reply, .. } = context;
        let found = Collection::find(keys.staged()?, self.key, self.kind)?;
        let Some(mut collection) = found else { return Ok(0) };
        // That all of them fit is asked before the first.
        if left < 0 && collection.header.count > 0 {
            budget.check_count(left.unsigned_abs())?;
        }
        let mut drawn = 0;
        draw(&mut collection, count, budget, &mut |member, value| {
            drawn += 1;
            self.show(reply, member, value);
            if reply.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(drawn)
    }

    fn show(&self, reply: &mut Reply<'_>, member: &[u8], value: &[u8]) {
        if self.is_of_pairs(reply) {
            reply.array(2);
        }
        reply.bulk(member);
        match self.kind {
            Kind::SortedSet if self.values => reply.double(score_of(value)),
            _ if self.values => reply.bulk(value),
            _ => {}
        }
    }

    fn is_of_pairs(&self, reply: &Reply<'_>) -> bool {
        self.values && reply.protocol == Protocol::Resp3
    }

    /// How long the array is of so many members.
    fn items(&self, drawn: usize, reply: &Reply<'_>) -> usize {
        if self.values && !self.is_of_pairs(reply) { 2 * drawn } else { drawn }
    }
}
