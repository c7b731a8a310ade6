//! Counting and finding bits: `BITCOUNT`, `BITPOS`.

use crate::command::context::Context;
use crate::command::integer::integer_arg;
use crate::failure::{CommandResult, Failure, Result};
use crate::resp::Request;

/// Whether a part is told in bits, and not in bytes.
fn is_bits_arg(arg: Option<&[u8]>) -> Result<bool> {
    match arg.map(<[u8]>::to_ascii_lowercase).as_deref() {
        None | Some(b"byte") => Ok(false),
        Some(b"bit") => Ok(true),
        Some(_) => Err(Failure::Syntax),
    }
}

/// From which bit to which a part goes, both included: negative ends count from the end of the string.
fn part(start: i64, end: i64, is_bits: bool, size: usize) -> Option<(usize, usize)> {
    let total = if is_bits { size * 8 } else { size } as i64;
    let place = |index: i64| if index < 0 { index.saturating_add(total).max(0) } else { index };
    let (start, end) = (place(start), place(end).min(total - 1));
    if start > end {
        return None;
    }
    // Both are between 0 and the number of bits now.
    let (start, end) = (start as usize, end as usize);
    Some(if is_bits { (start, end) } else { (start * 8, end * 8 + 7) })
}

/// The bits of a byte that lie in a part.
fn mask(byte: usize, (start, end): (usize, usize)) -> u8 {
    let mut mask = u8::MAX;
    if byte == start / 8 {
        mask &= u8::MAX >> (start % 8);
    }
    if byte == end / 8 {
        mask &= u8::MAX << (7 - end % 8);
    }
    mask
}

/// The number of ones in a part of a string.
fn ones(value: &[u8], part: (usize, usize)) -> u64 {
    let (first, last) = (part.0 / 8, part.1 / 8);
    let whole: u64 = value[first..=last].iter().map(|byte| u64::from(byte.count_ones())).sum();
    let outside = |at: usize| u64::from((value[at] & !mask(at, part)).count_ones());
    whole - outside(first) - if first == last { 0 } else { outside(last) }
}

/// The first bit in a part of a string that is so.
fn find(value: &[u8], bit: bool, part: (usize, usize)) -> Option<usize> {
    let (first, last) = (part.0 / 8, part.1 / 8);
    let flip = if bit { 0 } else { u8::MAX };
    let wanted = |at: usize| (value[at] ^ flip) & mask(at, part);
    let in_byte = |at: usize| {
        let wanted = wanted(at);
        (wanted != 0).then(|| at * 8 + wanted.leading_zeros() as usize)
    };
    if let Some(found) = in_byte(first) {
        return Some(found);
    }
    let between = value.get(first + 1..last).unwrap_or(&[]);
    match between.iter().position(|byte| *byte != flip) {
        Some(at) => in_byte(first + 1 + at),
        None => in_byte(last),
    }
}

/// `BITCOUNT key [start end [BYTE | BIT]]`: nobody looks at the part where there is no such key.
pub fn bitcount(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let count = context.keys.get_with(request.arg(1), |value| {
        let (start, end, is_bits) = match request.len() {
            2 => (0, -1, false),
            4 | 5 => {
                let (start, end) = (integer_arg(request.arg(2))?, integer_arg(request.arg(3))?);
                if start < 0 && end < 0 && start > end {
                    return Ok(0);
                }
                (start, end, is_bits_arg(request.get(4))?)
            }
            _ => return Err(Failure::Syntax),
        };
        Ok(part(start, end, is_bits, value.len()).map_or(0, |part| ones(value, part)))
    })?;
    context.reply.count(count.unwrap_or(Ok(0))?);
    Ok(())
}

/// `BITPOS key bit [start [end [BYTE | BIT]]]`
pub fn bitpos(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let bit = match integer_arg(request.arg(2))? {
        0 => false,
        1 => true,
        _ => return Err(Failure::text("ERR The bit argument must be 1 or 0.")),
    };
    let found = context.keys.get_with(request.arg(1), |value| {
        if request.len() > 6 {
            return Err(Failure::Syntax);
        }
        let start = request.get(3).map_or(Ok(0), integer_arg)?;
        let is_bits = is_bits_arg(request.get(5))?;
        let end = request.get(4).map(integer_arg).transpose()?;
        let Some(part) = part(start, end.unwrap_or(-1), is_bits, value.len()) else {
            return Ok(-1);
        };
        let found = find(value, bit, part).map(|at| at as i64);
        // Zeros follow a string whose end nobody told.
        let behind = if bit || end.is_some() { -1 } else { part.1 as i64 + 1 };
        Ok(found.unwrap_or(behind))
    })?;
    context.reply.integer(found.unwrap_or(Ok(if bit { -1 } else { 0 }))?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_and_finding_agree_with_a_look_at_every_bit() {
        let value = [0x00, 0xff, 0xa5, 0x01, 0x80, 0xff, 0x00, 0x3c];
        let is_set = |at: usize| value[at / 8] >> (7 - at % 8) & 1 == 1;
        for start in 0..64 {
            for end in start..64 {
                let expected = (start..=end).filter(|at| is_set(*at)).count() as u64;
                assert_eq!(ones(&value, (start, end)), expected, "{start} {end}");
                for bit in [false, true] {
                    let expected = (start..=end).find(|at| is_set(*at) == bit);
                    assert_eq!(find(&value, bit, (start, end)), expected, "{start} {end} {bit}");
                }
            }
        }
    }

    #[test]
    fn ends_of_parts_are_clipped() {
        assert_eq!(part(0, -1, false, 0), None);
        assert_eq!(part(0, -1, false, 2), Some((0, 15)));
        assert_eq!(part(-3, 100, true, 2), Some((13, 15)));
        assert_eq!(part(i64::MIN, i64::MAX, true, 1), Some((0, 7)));
        assert_eq!(part(2, 1, false, 9), None);
    }
}
