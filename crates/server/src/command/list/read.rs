//! Reading lists: `LRANGE`, `LLEN`, `LINDEX`, `LPOS`.

use std::ops::ControlFlow;

use super::{find, place};
use crate::command::context::Context;
use crate::command::copy_budget::CopyBudget;
use crate::command::integer::{integer_arg, parse_integer};
use crate::command::zset::parts::ranks;
use crate::failure::{CommandResult, Failure, Result};
use crate::resp::Request;

/// `LLEN key`
pub fn llen(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let list = find(context.keys.staged()?, request.arg(1))?;
    context.reply.count(list.map_or(0, |list| list.header.count));
    Ok(())
}

/// `LINDEX key index`
pub fn lindex(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let Context { keys, reply, .. } = context;
    let mut found = None;
    if let Some(mut list) = find(keys.staged()?, request.arg(1))?
        && let Some(at) = place(integer_arg(request.arg(2))?, list.header.count)
    {
        found = list.element(at, |element| reply.bulk(element))?;
    }
    if found.is_none() {
        reply.null();
    }
    Ok(())
}

/// `LRANGE key first last`
pub fn lrange(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let (first, last) = (integer_arg(request.arg(2))?, integer_arg(request.arg(3))?);
    let Context { keys, reply, .. } = context;
    let mut list = find(keys.staged()?, request.arg(1))?;
    let part = list.as_ref().and_then(|list| ranks(first, last, list.header.count));
    let expected = part.map_or(0, |(first, last)| last - first + 1);
    let array = reply.open_array_of(usize::try_from(expected).unwrap_or(0));
    let mut count = 0;
    if let (Some(list), Some((first, last))) = (&mut list, part) {
        list.walk_elements(first, last, false, |_, element| {
            reply.bulk(element);
            count += 1;
            if reply.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
    }
    reply.close_array(array, count);
    Ok(())
}

/// The options of `LPOS`.
struct Options {
    rank: i64,
    count: Option<u64>,
    length_max: u64,
}

impl Options {
    fn parse(request: &Request<'_>) -> Result<Self> {
        let mut options = Options { rank: 1, count: None, length_max: 0 };
        let number = |arg: &[u8], error: &'static str| {
            let number = parse_integer(arg).and_then(|number| u64::try_from(number).ok());
            number.ok_or(Failure::text(error))
        };
        let mut args = request.args_from(3);
        while let Some(option) = args.next() {
            let value = args.next().ok_or(Failure::Syntax)?;
            match option.to_ascii_lowercase().as_slice() {
                b"rank" => {
                    options.rank = integer_arg(value)?;
                    if options.rank == 0 {
                        return Err(Failure::text(
                            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the \
                             second ... or use negative to start from the end of the list",
                        ));
                    }
                }
                b"count" => options.count = Some(number(value, "ERR COUNT can't be negative")?),
                b"maxlen" => options.length_max = number(value, "ERR MAXLEN can't be negative")?,
                _ => return Err(Failure::Syntax),
            }
        }
        Ok(options)
    }
}

/// Bytes that a number takes in a reply, about as many as in memory.
fn reply_size(number: u64) -> usize {
    const MARK_AND_END: usize = 3;
    MARK_AND_END + number.checked_ilog10().map_or(1, |digits| digits as usize + 1)
}

/// `LPOS key element [RANK rank] [COUNT count] [MAXLEN length]`
pub fn lpos(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let options = Options::parse(request)?;
    let element = request.arg(2);
    let wanted = match options.count.unwrap_or(1) {
        0 => u64::MAX,
        // With the lowest number all are told, as the protocol's original server does.
        _ if options.rank == i64::MIN && options.count.is_some() => u64::MAX,
        count => count,
    };
    let (mut found, mut budget) = (Vec::new(), CopyBudget::of(&context.reply));
    if let Some(mut list) = find(context.keys.staged()?, request.arg(1))? {
        let last = list.header.count.saturating_sub(1);
        // The lowest number counts as -1, as the protocol's original server has it.
        let skipped = options.rank.checked_abs().map_or(0, |rank| rank.unsigned_abs() - 1);
        let (mut skipped, mut seen) = (skipped, 0);
        list.walk_elements(0, last, options.rank < 0, |at, value| {
            seen += 1;
            if value == element {
                match skipped {
                    0 => {
                        budget.take_exactly(reply_size(at))?;
                        found.push(at);
                    }
                    _ => skipped -= 1,
                }
            }
            let is_done = found.len() as u64 >= wanted || seen == options.length_max;
            if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
    }
    budget.check()?;
    let reply = &mut context.reply;
    if options.count.is_some() {
        reply.array(found.len());
        found.iter().for_each(|at| reply.count(*at));
    } else {
        match found.first() {
            Some(at) => reply.count(*at),
            None => reply.null(),
        }
    }
    Ok(())
}
