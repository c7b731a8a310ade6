//! Values as byte strings: `GET`, `MGET`, `MSET`, `APPEND` and their like.

use std::collections::HashMap;

use everleaf::{Action, Exchange};

use super::{Context, Failure, Outcome};
use crate::resp::Request;

/// Keys that are looked up together.
const GROUP_SIZE: usize = 64;

/// `GET key`
pub fn get(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    let Context { shared, reply, tally, .. } = context;
    match shared.store.get_with(request.arg(1), |value| reply.bulk(value))? {
        Some(()) => tally.hits += 1,
        None => {
            tally.misses += 1;
            reply.null();
        }
    }
    Ok(())
}

/// `MGET key [key ...]`
pub fn mget(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    let Context { shared, reply, tally, .. } = context;
    let mut args = request.args_from(1);
    reply.array(args.len());
    while args.len() > 0 {
        let mut keys: [&[u8]; GROUP_SIZE] = [b""; GROUP_SIZE];
        let len = args.len().min(GROUP_SIZE);
        keys.iter_mut().zip(args.by_ref().take(len)).for_each(|(place, key)| *place = key);
        shared.store.get_many(&keys[..len], |_, value| {
            match value {
                Some(_) => tally.hits += 1,
                None => tally.misses += 1,
            }
            if !reply.is_full() {
                reply.bulk_or_null(value);
            }
        })?;
        if reply.is_full() {
            return Err(Failure::ReplyTooLong);
        }
    }
    Ok(())
}

/// `SETNX key value`
pub fn setnx(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    let inserted = context.shared.store.insert(request.arg(1), request.arg(2))?;
    context.reply.integer(i64::from(inserted));
    Ok(())
}

/// `GETSET key value`
pub fn getset(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    let old = context.shared.store.replace(request.arg(1), request.arg(2))?;
    context.reply.bulk_or_null(old.as_deref());
    Ok(())
}

/// `GETDEL key`
pub fn getdel(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    let old = context.shared.store.take(request.arg(1))?;
    context.reply.bulk_or_null(old.as_deref());
    Ok(())
}

/// `MSET key value [key value ...]`: one `SET` after the other; a failure leaves the first ones
/// done.
pub fn mset(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    if request.len().is_multiple_of(2) {
        return Err(Failure::WrongArity("mset"));
    }
    for index in (1..request.len()).step_by(2) {
        context.shared.store.put(request.arg(index), request.arg(index + 1))?;
    }
    context.reply.ok();
    Ok(())
}

/// `MSETNX key value [key value ...]`: nothing if any key exists.
///
/// The keys are inserted one after the other. Should another client create one of them meanwhile,
/// those inserted so far are removed again (unless changed by then), so the promise holds in the
/// end, but others may see the state in between.
pub fn msetnx(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    if request.len().is_multiple_of(2) {
        return Err(Failure::WrongArity("msetnx"));
    }
    let store = &context.shared.store;
    // Of a key that is given twice, the last value counts.
    let mut pairs: HashMap<&[u8], &[u8]> = HashMap::new();
    for index in (1..request.len()).step_by(2) {
        pairs.insert(request.arg(index), request.arg(index + 1));
    }
    for key in pairs.keys() {
        if store.contains(key)? {
            context.reply.integer(0);
            return Ok(());
        }
    }
    let mut done: Vec<(&[u8], &[u8])> = Vec::new();
    for (&key, &value) in &pairs {
        let inserted = store.insert(key, value);
        if let Ok(true) = inserted {
            done.push((key, value));
            continue;
        }
        for (key, value) in done {
            let undone = store.compare_exchange(key, Some(value), None)?;
            if undone != Exchange::Done {
                tracing::debug!("a key of MSETNX was changed by another client: left as it is");
            }
        }
        inserted?;
        context.reply.integer(0);
        return Ok(());
    }
    context.reply.integer(1);
    Ok(())
}

/// `APPEND key value`
pub fn append(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    let suffix = request.arg(2);
    let size_max = context.shared.settings.bulk_size_max();
    let mut size = 0;
    context.shared.store.update_with(request.arg(1), |old| {
        let old = old.unwrap_or(b"");
        size = old.len() + suffix.len();
        if size > size_max { Action::Keep } else { Action::Put([old, suffix].concat()) }
    })?;
    if size > size_max {
        return Err(Failure::text("ERR string exceeds maximum allowed size (proto-max-bulk-len)"));
    }
    context.reply.count(size as u64);
    Ok(())
}

/// `STRLEN key`
pub fn strlen(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    let size = context.shared.store.get_with(request.arg(1), |value| value.len())?;
    context.reply.count(size.unwrap_or(0) as u64);
    Ok(())
}

/// `GETRANGE key start end`: bytes by position, both ends included, negative from the end.
pub fn getrange(context: &mut Context<'_>, request: &Request<'_>) -> Outcome {
    let (start, end) = (super::integer_arg(request.arg(2))?, super::integer_arg(request.arg(3))?);
    let Context { shared, reply, .. } = context;
    let found = shared.store.get_with(request.arg(1), |value| {
        reply.bulk(part(value, start, end));
    })?;
    if found.is_none() {
        reply.bulk(b"");
    }
    Ok(())
}

fn part(value: &[u8], start: i64, end: i64) -> &[u8] {
    let len = value.len() as i64;
    let place = |index: i64| if index < 0 { index.saturating_add(len) } else { index };
    let start = place(start).max(0);
    let end = place(end).min(len - 1);
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
        let cases: [(i64, i64, &[u8]); 9] = [
            (0, 3, b"This"),
            (-3, -1, b"ing"),
            (0, -1, b"This is a string"),
            (10, 100, b"string"),
            (5, 3, b""),
            (100, 200, b""),
            (-100, 1, b"Th"),
            (-5, -100, b""),
            (i64::MIN, i64::MAX, b"This is a string"),
        ];
        for (start, end, expected) in cases {
            assert_eq!(part(b"This is a string", start, end), expected, "{start} {end}");
        }
        assert_eq!(part(b"", 0, -1), b"");
    }
}
