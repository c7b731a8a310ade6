//! Ordered ranges, a command of our own.
//!
//! `RANGE start end [LIMIT count] [REV] [WITHVALUES]` returns the keys from `start` to `end` in
//! byte order, or in the opposite order with `REV`; `start` is the lower end in both cases.
//! `PREFIX prefix [...]` does the same for the keys with a prefix.
//!
//! A bound is a key, and included. In front of it may stand `[` (included, as well) or `(` (not
//! included); a key that itself begins with one of these is written with `[` in front. `-` alone
//! is below all keys, and `+` above all. With `WITHVALUES`, each key is followed by its value; in
//! version 3 of the protocol the two come as an array.

use std::ops::{Bound, ControlFlow};

use super::context::Context;
use super::integer::integer_arg;
use super::walk::Bounds;
use crate::failure::{CommandResult, Failure};
use crate::resp::{Protocol, Request};

struct RangeOptions {
    limit: usize,
    reverse: bool,
    values: bool,
}

/// `RANGE start end [LIMIT count] [REV] [WITHVALUES]`
pub fn range(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let options = parse_options(request, 3)?;
    let bounds = Bounds { start: bound(request.arg(1)), end: bound(request.arg(2)) };
    // Nothing is below the lowest or above the highest.
    if request.arg(1) == b"+" || request.arg(2) == b"-" {
        context.reply.array(0);
        return Ok(());
    }
    answer(context, bounds, &options)
}

/// `PREFIX prefix [LIMIT count] [REV] [WITHVALUES]`
pub fn prefix(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let options = parse_options(request, 2)?;
    answer(context, Bounds::of_prefix(request.arg(1)), &options)
}

fn answer(context: &mut Context<'_>, bounds: Bounds, options: &RangeOptions) -> CommandResult {
    let Context { keys, reply, .. } = context;
    if options.limit == 0 {
        reply.array(0);
        return Ok(());
    }
    let pairs = options.values && reply.protocol == Protocol::Resp3;
    let types = keys.types();
    let array = reply.open_array();
    let mut count = 0;
    keys.walk(&bounds, options.reverse, |key, value| {
        if pairs {
            reply.array(2);
        }
        reply.bulk(key);
        if options.values {
            // Of other types than strings there is nothing to show.
            reply.bulk_or_null(Some(value).filter(|value| !types.is_header(value)));
        }
        count += 1;
        if count == options.limit || reply.is_full() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    if reply.is_full() {
        return Err(Failure::ReplyTooLong);
    }
    let flat = options.values && !pairs;
    reply.close_array(array, if flat { count * 2 } else { count });
    Ok(())
}

fn bound(text: &[u8]) -> Bound<Vec<u8>> {
    match text {
        b"-" | b"+" => Bound::Unbounded,
        [b'[', key @ ..] => Bound::Included(key.to_vec()),
        [b'(', key @ ..] => Bound::Excluded(key.to_vec()),
        key => Bound::Included(key.to_vec()),
    }
}

fn parse_options(request: &Request<'_>, first: usize) -> Result<RangeOptions, Failure> {
    let mut options = RangeOptions { limit: usize::MAX, reverse: false, values: false };
    let mut args = request.args_from(first);
    while let Some(option) = args.next() {
        match option.to_ascii_lowercase().as_slice() {
            b"limit" => {
                let limit = integer_arg(args.next().ok_or(Failure::Syntax)?)?;
                options.limit = usize::try_from(limit).map_err(|_| {
                    Failure::text("ERR the limit is negative: leave it out for no limit")
                })?;
            }
            b"rev" => options.reverse = true,
            b"withvalues" => options.values = true,
            _ => return Err(Failure::Syntax),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_in_front_of_a_bound_are_not_part_of_the_key() {
        assert_eq!(bound(b"-"), Bound::Unbounded);
        assert_eq!(bound(b"+"), Bound::Unbounded);
        assert_eq!(bound(b"a"), Bound::Included(b"a".to_vec()));
        assert_eq!(bound(b"[a"), Bound::Included(b"a".to_vec()));
        assert_eq!(bound(b"(a"), Bound::Excluded(b"a".to_vec()));
        assert_eq!(bound(b"[-"), Bound::Included(b"-".to_vec()));
        assert_eq!(bound(b"[(a"), Bound::Included(b"(a".to_vec()));
        assert_eq!(bound(b""), Bound::Included(Vec::new()));
    }
}
