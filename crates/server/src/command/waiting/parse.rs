//! Reading the arguments of the commands that wait.

use everleaf::{Error, KEY_SIZE_MAX};

use crate::blocking_request::{BlockingRequest, What};
use crate::command::list::pop::parse_many as parse_elements;
use crate::command::list::side_arg;
use crate::command::zset::pop::parse_many as parse_members;
use crate::failure::{Failure, Result};
use crate::resp::Request;
use crate::types::Kind;
use crate::types::list::Side;

/// What a command wishes, and how many milliseconds it waits for it; `None` is for ever. The number of
/// arguments was checked.
pub fn parse(request: &Request<'_>) -> Result<(BlockingRequest, Option<u64>)> {
    let last = request.len() - 1;
    match request.arg(0).to_ascii_lowercase().as_slice() {
        b"blpop" => single(request, Kind::List, What::Pop(Side::Left)),
        b"brpop" => single(request, Kind::List, What::Pop(Side::Right)),
        b"bzpopmin" => single(request, Kind::SortedSet, What::PopMember { reverse: false }),
        b"bzpopmax" => single(request, Kind::SortedSet, What::PopMember { reverse: true }),
        b"blmove" => {
            let (from, to) = (side_arg(request.arg(3))?, side_arg(request.arg(4))?);
            moving(request, last, from, to)
        }
        b"brpoplpush" => moving(request, last, Side::Right, Side::Left),
        b"blmpop" => {
            let (key_count, side, count) = parse_elements(request, 2)?;
            let timeout = timeout_arg(request.arg(1))?;
            let keys = request.args_from(3).take(key_count).map(<[u8]>::to_vec).collect();
            Ok((
                BlockingRequest { kind: Kind::List, keys, what: What::PopMany(side, count) },
                timeout,
            ))
        }
        b"bzmpop" => {
            let (key_count, reverse, count) = parse_members(request, 2)?;
            let timeout = timeout_arg(request.arg(1))?;
            let keys = request.args_from(3).take(key_count).map(<[u8]>::to_vec).collect();
            let what = What::PopMembers { reverse, count };
            Ok((BlockingRequest { kind: Kind::SortedSet, keys, what }, timeout))
        }
        // The table has no others of this kind.
        _ => Err(Failure::Syntax),
    }
}

/// `.. key [key ...] timeout`
fn single(request: &Request<'_>, kind: Kind, what: What) -> Result<(BlockingRequest, Option<u64>)> {
    let last = request.len() - 1;
    let timeout = timeout_arg(request.arg(last))?;
    let keys = request.args_from(1).take(last - 1).map(<[u8]>::to_vec).collect();
    Ok((BlockingRequest { kind, keys, what }, timeout))
}

/// `.. source destination .. timeout`
fn moving(
    request: &Request<'_>,
    last: usize,
    from: Side,
    to: Side,
) -> Result<(BlockingRequest, Option<u64>)> {
    let timeout = timeout_arg(request.arg(last))?;
    let destination = request.arg(2).to_vec();
    if destination.len() > KEY_SIZE_MAX {
        // There is nothing to wait for: it could never be granted.
        return Err(Failure::Store(Error::KeyTooLarge(destination.len())));
    }
    let what = What::Move { destination, from, to };
    Ok((BlockingRequest { kind: Kind::List, keys: vec![request.arg(1).to_vec()], what }, timeout))
}

/// Seconds, with a fraction, as milliseconds; 0 is for ever.
fn timeout_arg(arg: &[u8]) -> Result<Option<u64>> {
    let seconds = std::str::from_utf8(arg).ok().and_then(|text| text.parse::<f64>().ok());
    let seconds = seconds
        .filter(|seconds| !seconds.is_nan())
        .ok_or(Failure::text("ERR timeout is not a float or out of range"))?;
    let milliseconds = (seconds * 1000.0).ceil();
    // What is too large is negative in the protocol's original server.
    if milliseconds < 0.0 || milliseconds >= i64::MAX as f64 {
        return Err(Failure::text("ERR timeout is negative"));
    }
    Ok(Some(milliseconds as u64).filter(|milliseconds| *milliseconds > 0))
}

#[cfg(test)]
mod tests {
    use super::timeout_arg;

    #[test]
    fn a_timeout_is_rounded_up_and_zero_is_for_ever() {
        for (text, expected) in
            [("0", None), ("-0", None), ("-0.0001", None), ("0.0001", Some(1)), ("1.5", Some(1500))]
        {
            assert_eq!(timeout_arg(text.as_bytes()).unwrap(), expected, "{text}");
        }
        for text in ["", " 1", "1 ", "x", "nan", "-1", "-0.001", "inf", "-inf", "1e300"] {
            assert!(timeout_arg(text.as_bytes()).is_err(), "{text}");
        }
        assert!(timeout_arg(b"\xff").is_err());
    }
}
