//! What the arguments of commands mean.

use std::ops::Bound;

use crate::call::{Call, Refusal};
use crate::entry::EXPIRY_MAX;
use crate::map::Bounds;

const SYNTAX: &str = "ERR syntax error";
const NOT_A_NUMBER: &str = "ERR value is not an integer or out of range";
/// Entries that a step of a scan looks at unless it is told otherwise.
const SCAN_COUNT: u64 = 10;

/// Whether an entry must be there before it is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Either way.
    None,
    /// `NX`.
    Absent,
    /// `XX`.
    Present,
}

/// When an entry that is put expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// Never.
    None,
    /// As it did: `KEEPTTL`.
    Keep,
    /// Then, in milliseconds since 1970.
    At(u64),
}

/// The options of `EL.PUT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutOptions {
    /// Whether the entry must be there.
    pub condition: Condition,
    /// When it expires.
    pub time: Time,
}

/// The options of a list of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The greatest first.
    pub reverse: bool,
    /// Entries at most.
    pub limit: u64,
    /// Names and values, or names only.
    pub values: bool,
}

/// A step of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan<'a> {
    /// Names greater than this one.
    pub after: Option<&'a [u8]>,
    /// Names that begin so.
    pub prefix: Option<&'a [u8]>,
    /// Entries looked at, at most.
    pub count: u64,
    /// Names and values, or names only.
    pub values: bool,
}

/// The options of `EL.PUT` from argument `at` on.
pub fn put_options(call: &Call<'_>, mut at: usize) -> Result<PutOptions, Refusal> {
    let mut options = PutOptions { condition: Condition::None, time: Time::None };
    while at < call.len() {
        let word = call.argument(at).to_ascii_uppercase();
        let is_free = options.time == Time::None;
        match word.as_slice() {
            b"NX" if options.condition == Condition::None => options.condition = Condition::Absent,
            b"XX" if options.condition == Condition::None => options.condition = Condition::Present,
            b"KEEPTTL" if is_free => options.time = Time::Keep,
            b"EX" | b"PX" | b"EXAT" | b"PXAT" if is_free && at + 1 < call.len() => {
                at += 1;
                let unit = if word[0] == b'P' { 1 } else { 1000 };
                let is_absolute = word.ends_with(b"AT");
                // What comes by replication is absolute, so the clock is this server's.
                let base = if is_absolute { 0 } else { call.clock() };
                let time = time(call.argument(at), unit, base)?;
                options.time = Time::At(time);
            }
            _ => return Err(Refusal::plain(SYNTAX)),
        }
        at += 1;
    }
    Ok(options)
}

/// The options of a list from argument `at` on.
pub fn listing(call: &Call<'_>, mut at: usize) -> Result<Listing, Refusal> {
    let mut listing = Listing { reverse: false, limit: u64::MAX, values: true };
    while at < call.len() {
        match call.argument(at).to_ascii_uppercase().as_slice() {
            b"REV" => listing.reverse = true,
            b"NOVALUES" => listing.values = false,
            b"LIMIT" if at + 1 < call.len() => {
                at += 1;
                listing.limit = count(call.argument(at))?;
            }
            _ => return Err(Refusal::plain(SYNTAX)),
        }
        at += 1;
    }
    Ok(listing)
}

/// The cursor at argument `at` and the options behind it.
pub fn scan<'a>(call: &Call<'a>, mut at: usize) -> Result<Scan<'a>, Refusal> {
    let after = match call.argument(at) {
        b"0" => None,
        [b'>', name @ ..] => Some(name),
        _ => {
            return Err(Refusal::plain(
                "ERR invalid cursor: begin with 0, go on with what was answered",
            ));
        }
    };
    let mut scan = Scan { after, prefix: None, count: SCAN_COUNT, values: true };
    at += 1;
    while at < call.len() {
        match call.argument(at).to_ascii_uppercase().as_slice() {
            b"NOVALUES" => scan.values = false,
            b"PREFIX" if at + 1 < call.len() => {
                at += 1;
                scan.prefix = Some(call.argument(at));
            }
            b"COUNT" if at + 1 < call.len() => {
                at += 1;
                scan.count = count(call.argument(at))?;
                if scan.count == 0 {
                    return Err(Refusal::plain(SYNTAX));
                }
            }
            _ => return Err(Refusal::plain(SYNTAX)),
        }
        at += 1;
    }
    Ok(scan)
}

/// The range between `-`, `[name` or `(name` and `+`, `[name` or `(name`; `None` if nothing can lie in it.
pub fn range<'a>(from: &'a [u8], to: &'a [u8]) -> Result<Option<Bounds<'a>>, Refusal> {
    let bounds = (bound(from)?, bound(to)?);
    let is_empty = from == b"+" || to == b"-" || !is_range(bounds);
    Ok((!is_empty).then_some(bounds))
}

fn bound(argument: &[u8]) -> Result<Bound<&[u8]>, Refusal> {
    match argument {
        b"-" | b"+" => Ok(Bound::Unbounded),
        [b'[', name @ ..] => Ok(Bound::Included(name)),
        [b'(', name @ ..] => Ok(Bound::Excluded(name)),
        _ => Err(Refusal::plain("ERR min or max is not -, +, [entry or (entry")),
    }
}

/// Whether anything can lie between two bounds.
pub fn is_range(bounds: Bounds<'_>) -> bool {
    match bounds {
        (Bound::Included(from), Bound::Included(to)) => from <= to,
        (
            Bound::Included(from) | Bound::Excluded(from),
            Bound::Included(to) | Bound::Excluded(to),
        ) => from < to,
        _ => true,
    }
}

/// The smallest name greater than all that begin with `prefix`, if there is one.
pub fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xFF)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// A signed number as the server writes it: no space, no plus, no leading zero.
pub fn integer(bytes: &[u8]) -> Result<i64, Refusal> {
    let parsed = std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<i64>().ok());
    parsed
        .filter(|number| number.to_string().as_bytes() == bytes)
        .ok_or(Refusal::plain(NOT_A_NUMBER))
}

/// A time in units of so many milliseconds behind `base`, in milliseconds since 1970. What is before 1970
/// is over as well as the first millisecond is.
pub fn time(bytes: &[u8], unit: i64, base: u64) -> Result<u64, Refusal> {
    let invalid = || Refusal::plain("ERR invalid expire time");
    let time = integer(bytes)?.checked_mul(unit).ok_or_else(invalid)?;
    if base != 0 && time <= 0 {
        return Err(invalid());
    }
    let time =
        i64::try_from(base).ok().and_then(|base| time.checked_add(base)).ok_or_else(invalid)?;
    let time = u64::try_from(time.max(1)).unwrap_or(1);
    if time > EXPIRY_MAX { Err(invalid()) } else { Ok(time) }
}

fn count(bytes: &[u8]) -> Result<u64, Refusal> {
    u64::try_from(integer(bytes)?).map_err(|_| Refusal::plain(NOT_A_NUMBER))
}
