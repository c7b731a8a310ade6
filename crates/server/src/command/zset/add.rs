//! `ZADD` and `ZINCRBY`.

use crate::command::context::Context;
use crate::failure::{CommandResult, Failure, Result};
use crate::resp::Request;
use crate::score;
use crate::types::Kind;
use crate::types::collection::Collection;

/// The options of `ZADD`.
#[derive(Default)]
struct Options {
    only_new: bool,
    only_there: bool,
    only_greater: bool,
    only_less: bool,
    changed: bool,
    increment: bool,
}

impl Options {
    /// The options before the scores, and the index of the first score.
    fn parse(request: &Request<'_>, increment: bool) -> Result<(Self, usize)> {
        let mut options = Options { increment, ..Options::default() };
        let mut index = 2;
        // What is longer or shorter than all options is a score.
        while let Some(arg) = request.get(index).filter(|arg| matches!(arg.len(), 2 | 4)) {
            match arg.to_ascii_lowercase().as_slice() {
                b"nx" => options.only_new = true,
                b"xx" => options.only_there = true,
                b"gt" => options.only_greater = true,
                b"lt" => options.only_less = true,
                b"ch" => options.changed = true,
                b"incr" => options.increment = true,
                _ => break,
            }
            index += 1;
        }
        let count = request.len() - index;
        if count == 0 || !count.is_multiple_of(2) {
            return Err(Failure::Syntax);
        }
        if options.only_new && options.only_there {
            return Err(Failure::text("ERR XX and NX options at the same time are not compatible"));
        }
        let (new, greater, less) = (options.only_new, options.only_greater, options.only_less);
        if [new, greater, less].iter().filter(|is_set| **is_set).count() > 1 {
            return Err(Failure::text(
                "ERR GT, LT, and/or NX options at the same time are not compatible",
            ));
        }
        if options.increment && count > 2 {
            return Err(Failure::text("ERR INCR option supports a single increment-element pair"));
        }
        Ok((options, index))
    }

    /// The score that a member gets; `None` if it stays as it is.
    fn decide(&self, score: f64, old: Option<f64>) -> Result<Option<f64>> {
        let Some(old) = old else { return Ok((!self.only_there).then_some(score)) };
        if self.only_new {
            return Ok(None);
        }
        let new = if self.increment { old + score } else { score };
        if new.is_nan() {
            return Err(Failure::text("ERR resulting score is not a number (NaN)"));
        }
        let is_refused = self.only_less && new >= old || self.only_greater && new <= old;
        Ok((!is_refused).then_some(new))
    }
}

/// `ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]`
pub fn zadd(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    add(context, request, false)
}

/// `ZINCRBY key increment member`
pub fn zincrby(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    add(context, request, true)
}

fn add(context: &mut Context<'_>, request: &Request<'_>, increment: bool) -> CommandResult {
    let (options, first) = Options::parse(request, increment)?;
    let pairs = || request.args_from(first).zip(request.args_from(first + 1)).step_by(2);
    for (score, _) in pairs() {
        score::parse(score).ok_or(Failure::text("ERR value is not a valid float"))?;
    }
    let mut set = Collection::open(context.keys.staged()?, request.arg(1), Kind::SortedSet)?;
    let (mut added, mut updated, mut last) = (0, 0, None);
    for (score, member) in pairs() {
        let place = set.place_of(member);
        let old = if set.header.count == 0 { None } else { set.score_at(&place)? };
        last = options.decide(score::parse(score).unwrap_or(0.0), old)?;
        if let Some(new) = last.filter(|new| old.is_none_or(|old| old != *new)) {
            set.set_score_at(&place, member, new, old)?;
            *(if old.is_some() { &mut updated } else { &mut added }) += 1;
        }
    }
    if added + updated > 0 {
        set.finish()?;
    }
    match last {
        Some(score) if options.increment => context.reply.double(score),
        None if options.increment => context.reply.null(),
        _ => context.reply.integer(if options.changed { added + updated } else { added }),
    }
    Ok(())
}
