//! Values as byte strings: `GET`, `MGET`, `MSET`, `APPEND` and their like.

use std::borrow::Cow;
use std::ops::ControlFlow;

use everleaf::Action;

use super::at_once::with_names;
use super::context::Context;
use super::integer::integer_arg;
use crate::failure::{CommandResult, Failure};
use crate::resp::Request;

/// `GET key`
pub fn get(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let Context { keys, reply, tally, .. } = context;
    match keys.get_with(request.arg(1), |value| reply.bulk(value))? {
        Some(()) => tally.hits += 1,
        None => {
            tally.misses += 1;
            reply.null();
        }
    }
    Ok(())
}

/// `MGET key [key ...]`
pub fn mget(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let Context { keys, reply, tally, .. } = context;
    let names = request.args_from(1);
    reply.array(names.len());
    with_names(names, |names| {
        keys.get_many(names, &mut |_, value| {
            match value {
                Some(_) => tally.hits += 1,
                None => tally.misses += 1,
            }
            reply.bulk_or_null(value);
            // Behind what is too long nothing is wanted.
            if reply.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    })?;
    if reply.is_full() { Err(Failure::ReplyTooLong) } else { Ok(()) }
}

/// `SETNX key value`
pub fn setnx(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let inserted = context.keys.insert(request.arg(1), request.arg(2))?;
    context.reply.integer(i64::from(inserted));
    Ok(())
}

/// `GETSET key value`
pub fn getset(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let old = context.keys.replace(request.arg(1), request.arg(2))?;
    context.reply.bulk_or_null(old.as_deref());
    Ok(())
}

/// `GETDEL key`
pub fn getdel(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let old = context.keys.take(request.arg(1))?;
    context.reply.bulk_or_null(old.as_deref());
    Ok(())
}

/// `MSET key value [key value ...]`: all keys as one change.
pub fn mset(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let pairs = pairs(request, "mset")?;
    match pairs.as_slice() {
        [(key, value)] => context.keys.put(key, value)?,
        pairs => drop(context.keys.put_all(pairs, false)?),
    }
    context.reply.ok();
    Ok(())
}

/// `MSETNX key value [key value ...]`: all keys as one change, or nothing if any of them exists.
pub fn msetnx(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let pairs = pairs(request, "msetnx")?;
    let done = context.keys.put_all(&pairs, true)?;
    context.reply.integer(i64::from(done));
    Ok(())
}

/// A key and its value.
type KeyValue<'a> = (&'a [u8], &'a [u8]);

/// Keys and values. Of a key that is given twice, the last value counts.
fn pairs<'a>(request: &Request<'a>, command: &'static str) -> Result<Vec<KeyValue<'a>>, Failure> {
    if request.len().is_multiple_of(2) {
        return Err(Failure::WrongArity(command));
    }
    let pair = |index| (request.arg(index), request.arg(index + 1));
    Ok((1..request.len()).step_by(2).map(pair).collect())
}

const TOO_LONG: Failure =
    Failure::Text(Cow::Borrowed("ERR string exceeds maximum allowed size (proto-max-bulk-len)"));

/// `APPEND key value`
pub fn append(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let size_max = context.shared.settings.bulk_size_max();
    let size = context.keys.append(request.arg(1), request.arg(2), size_max)?.ok_or(TOO_LONG)?;
    context.reply.count(size as u64);
    Ok(())
}

/// `SETRANGE key offset value`: zeros are put in front of what lies behind the end.
pub fn setrange(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let offset = integer_arg(request.arg(2))?;
    let offset =
        usize::try_from(offset).map_err(|_| Failure::text("ERR offset is out of range"))?;
    let part = request.arg(3);
    let end = offset.checked_add(part.len());
    let end = end.filter(|end| *end <= context.shared.settings.bulk_size_max());
    let mut size = Ok(0);
    context.keys.update_with(request.arg(1), |found| {
        let old = found.map_or(&b""[..], |(old, _)| old);
        size = Ok(old.len());
        if part.is_empty() {
            return Action::Keep;
        }
        let Some(end) = end else {
            size = Err(TOO_LONG);
            return Action::Keep;
        };
        let mut value = Vec::with_capacity(old.len().max(end));
        value.extend_from_slice(old);
        value.resize(old.len().max(end), 0);
        value[offset..end].copy_from_slice(part);
        size = Ok(value.len());
        Action::Put(value)
    })?;
    context.reply.count(size? as u64);
    Ok(())
}

/// `STRLEN key`
pub fn strlen(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let size = context.keys.get_with(request.arg(1), |value| value.len())?;
    context.reply.count(size.unwrap_or(0) as u64);
    Ok(())
}

/// `GETRANGE key start end`: bytes by position, both ends included, negative from the end.
pub fn getrange(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let (start, end) = (integer_arg(request.arg(2))?, integer_arg(request.arg(3))?);
    let Context { keys, reply, .. } = context;
    let found = keys.get_with(request.arg(1), |value| {
        reply.bulk(part(value, start, end));
    })?;
    if found.is_none() {
        reply.bulk(b"");
    }
    Ok(())
}

fn part(value: &[u8], start: i64, end: i64) -> &[u8] {
    let len = value.len() as i64;
    if start < 0 && end < 0 && start > end {
        return b"";
    }
    let place = |index: i64| if index < 0 { index.saturating_add(len) } else { index };
    let start = place(start).max(0);
    let end = place(end).max(0).min(len - 1);
    if start > end {
        return b"";
    }
    // Both are between 0 and the length now.
    value.get(start as usize..=end as usize).unwrap_or(b"")
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn parts_are_cut_like_clients_expect() {
        let cases: [(i64, i64, &[u8]); 12] = [
            (0, 3, b"This"),
            (-3, -1, b"ing"),
            (0, -1, b"This is a string"),
            (10, 100, b"string"),
            (5, 3, b""),
            (100, 200, b""),
            (-100, 1, b"Th"),
            (-5, -100, b""),
            // In front of the first byte counts as the first byte, as clients know it.
            (-100, -50, b"T"),
            (0, -100, b"T"),
            (1, -100, b""),
            (i64::MIN, i64::MAX, b"This is a string"),
        ];
        for (start, end, expected) in cases {
            assert_eq!(part(b"This is a string", start, end), expected, "{start} {end}");
        }
        assert_eq!(part(b"", 0, -1), b"");
    }
}
