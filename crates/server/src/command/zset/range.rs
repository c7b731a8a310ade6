//! `ZRANGE` in all its forms, and `ZRANGESTORE`.

use std::ops::{Bound, ControlFlow};

use super::parts::{By, Told, ranks};
use super::{Form, Scored, find};
use crate::command::context::Context;
use crate::command::copy_budget::CopyBudget;
use crate::command::integer::integer_arg;
use crate::command::stage::Staged;
use crate::failure::{CommandResult, Failure, Result};
use crate::resp::Request;
use crate::types::Kind;
use crate::types::collection::Collection;

/// Bytes of members that are held at once.
const SIZE_MAX: usize = 512 << 20;

/// What a command of the family fixes, and its options choose.
struct Options {
    by: Option<By>,
    reverse: Option<bool>,
    scores: bool,
    /// Members to leave out, and to take; negative means all.
    limit: (i64, i64),
}

impl Options {
    /// The options behind key, first and last.
    fn parse(mut self, request: &Request<'_>, from: usize, stores: bool) -> Result<Self> {
        let mut index = from;
        while let Some(option) = request.get(index) {
            let rest = request.len() - index - 1;
            match option.to_ascii_lowercase().as_slice() {
                b"withscores" if !stores => self.scores = true,
                b"limit" if rest >= 2 => {
                    let (offset, count) = (request.arg(index + 1), request.arg(index + 2));
                    self.limit = (integer_arg(offset)?, integer_arg(count)?);
                    index += 2;
                }
                b"rev" if self.reverse.is_none() => self.reverse = Some(true),
                b"bylex" if self.by.is_none() => self.by = Some(By::Member),
                b"byscore" if self.by.is_none() => self.by = Some(By::Score),
                _ => return Err(Failure::Syntax),
            }
            index += 1;
        }
        let by = self.by.unwrap_or(By::Rank);
        if self.limit.1 != -1 && by == By::Rank {
            return Err(Failure::text(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if self.scores && by == By::Member {
            return Err(Failure::text(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        Ok(self)
    }
}

/// `ZRANGE key first last [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]`
pub fn zrange(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    run(context, request, None, None)
}

/// `ZREVRANGE key first last [WITHSCORES]`
pub fn zrevrange(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    run(context, request, Some(By::Rank), Some(true))
}

/// `ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]`
pub fn zrangebyscore(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    run(context, request, Some(By::Score), Some(false))
}

/// `ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]`
pub fn zrevrangebyscore(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    run(context, request, Some(By::Score), Some(true))
}

/// `ZRANGEBYLEX key min max [LIMIT offset count]`
pub fn zrangebylex(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    run(context, request, Some(By::Member), Some(false))
}

/// `ZREVRANGEBYLEX key max min [LIMIT offset count]`
pub fn zrevrangebylex(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    run(context, request, Some(By::Member), Some(true))
}

fn run(
    context: &mut Context<'_>,
    request: &Request<'_>,
    by: Option<By>,
    reverse: Option<bool>,
) -> CommandResult {
    let options = Options { by, reverse, scores: false, limit: (0, -1) };
    let options = options.parse(request, 4, false)?;
    let Context { keys, reply, .. } = context;
    let form = Form::new(reply.protocol, options.scores, false);
    let (array, mut count) = (reply.open_array(), 0);
    each(keys.staged()?, request, 1, &options, |member, score| {
        form.show(reply, member, score);
        count += 1;
        if reply.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    reply.close_array(array, form.array_len(count));
    Ok(())
}

/// `ZRANGESTORE destination source first last [BYSCORE | BYLEX] [REV] [LIMIT offset count]`
pub fn zrangestore(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let options = Options { by: None, reverse: None, scores: false, limit: (0, -1) };
    let options = options.parse(request, 5, true)?;
    let items = copied(context.keys.staged()?, request, &options, CopyBudget::new(SIZE_MAX))?;
    store(context, request.arg(1), &items)
}

/// Copies of the members that are to be stored.
fn copied(
    staged: &mut Staged<'_>,
    request: &Request<'_>,
    options: &Options,
    mut budget: CopyBudget,
) -> Result<Vec<Scored>> {
    let mut items = Vec::new();
    each(staged, request, 2, options, |member, score| {
        budget.take(member.len())?;
        items.push((member.to_vec(), score));
        ControlFlow::Continue(())
    })?;
    budget.check().map_err(Failure::of_what_is_stored)?;
    Ok(items)
}

/// Stores members with scores under a key in place of what it has, and answers with their number.
pub fn store(context: &mut Context<'_>, key: &[u8], items: &[Scored]) -> CommandResult {
    let staged = context.keys.staged()?;
    if items.is_empty() {
        staged.remove(key)?;
    } else {
        let mut set = Collection::replace(staged, key, Kind::SortedSet)?;
        for (member, score) in items {
            set.set_score(member, *score, None)?;
        }
        set.finish()?;
    }
    context.reply.count(items.len() as u64);
    Ok(())
}

/// Visits the members that a command means, in its order.
fn each(
    staged: &mut Staged<'_>,
    request: &Request<'_>,
    key_index: usize,
    options: &Options,
    mut visit: impl FnMut(&[u8], f64) -> ControlFlow<()>,
) -> Result<()> {
    let (by, reverse) = (options.by.unwrap_or(By::Rank), options.reverse.unwrap_or(false));
    let (first, last) = (request.arg(key_index + 1), request.arg(key_index + 2));
    let swapped = reverse && by != By::Rank;
    let told = if swapped { Told::parse(by, last, first) } else { Told::parse(by, first, last) }?;
    let Some(mut set) = find(staged, request.arg(key_index))? else { return Ok(()) };
    // Of ranks none is left out.
    let offset = if by == By::Rank { 0 } else { options.limit.0 };
    let Ok(mut skipped) = u64::try_from(offset) else { return Ok(()) };
    let mut wanted = u64::try_from(options.limit.1).unwrap_or(u64::MAX);
    let part = match told {
        Told::Ranks(first, last) => {
            let Some((first, last)) = ranks(first, last, set.header.count) else {
                return Ok(());
            };
            wanted = last - first + 1;
            let end = set.header.count - 1;
            let position = match if reverse { end - first } else { first } {
                // The end of the set on the side from which it is gone through.
                at if at == (if reverse { end } else { 0 }) => Bound::Unbounded,
                at => set.position_at(at)?.map_or(Bound::Unbounded, Bound::Included),
            };
            if reverse { (Bound::Unbounded, position) } else { (position, Bound::Unbounded) }
        }
        told => match told.of(&mut set)? {
            Some(part) => part,
            None => return Ok(()),
        },
    };
    if wanted == 0 {
        return Ok(());
    }
    set.walk_order(&part, reverse, |member, score| {
        if skipped > 0 {
            skipped -= 1;
            return ControlFlow::Continue(());
        }
        wanted -= 1;
        visit(member, score)?;
        if wanted == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::test_run::Bench;
    use crate::command::stage::Stage;
    use crate::databases::MapNumber;
    use crate::resp::{Limits, Parser};

    const LIMITS: Limits = Limits {
        arg_count_max: 9,
        bulk_size_max: 99,
        inline_size_max: 99,
        request_size_max: 99,
        authenticated: true,
    };

    /// What was said of too many members that are stored: that the reply would be too long, of which there is none.
    #[test]
    fn too_many_members_to_store_are_no_reply() {
        let bench = Bench::new(Bench::config());
        assert_eq!(bench.run(&mut bench.client(), "ZADD from 1 a 2 b"), ":2");
        let (mut parser, line) = (Parser::default(), b"ZRANGESTORE to from 0 -1\r\n");
        assert!(parser.parse(line, &LIMITS).is_ok_and(|size| size.is_some()));
        let request = parser.request(line);
        let (store, mut stage) = (&bench.shared.store, Stage::new(1 << 20));
        let mut staged = Staged {
            stage: &mut stage,
            source: &mut &**store,
            types: &bench.shared.types,
            databases: &bench.shared.databases,
            place: MapNumber::default(),
        };
        let options = Options { by: None, reverse: None, scores: false, limit: (0, -1) };
        let mut copy = |size| copied(&mut staged, &request, &options, CopyBudget::new(size));
        assert!(copy(1000).is_ok_and(|items| items.len() == 2));
        let told = copy(100).err();
        let is_told = |told: &Failure| matches!(told, Failure::Text(text) if text.starts_with("OOM the members"));
        assert!(told.as_ref().is_some_and(is_told));
    }
}
