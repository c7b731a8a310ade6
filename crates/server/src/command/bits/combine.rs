//! Rows of bits, combined: `BITOP`.

use std::collections::BTreeMap;

use crate::command::context::Context;
use crate::failure::{CommandResult, Failure, Result};
use crate::resp::Request;

/// How bytes are combined.
type Combine = fn(u8, u8) -> u8;

/// The operation of a name; `None` is the negation of a single string.
fn operation(name: &[u8]) -> Result<Option<Combine>> {
    Ok(match name.to_ascii_lowercase().as_slice() {
        b"and" => Some(|a, b| a & b),
        b"or" => Some(|a, b| a | b),
        b"xor" => Some(|a, b| a ^ b),
        b"not" => None,
        _ => return Err(Failure::Syntax),
    })
}

/// Combines a string with what there is so far; the shorter one is followed by zeros.
fn combine(sum: &mut Vec<u8>, value: &[u8], with: Combine) {
    sum.resize(sum.len().max(value.len()), 0);
    for (index, byte) in sum.iter_mut().enumerate() {
        *byte = with(*byte, value.get(index).copied().unwrap_or(0));
    }
}

/// `BITOP AND | OR | XOR | NOT destination key [key ...]`: as one step. Returns the length of the result;
/// one of no bytes removes the destination.
pub fn bitop(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let operation = operation(request.arg(1))?;
    if operation.is_none() && request.len() != 4 {
        return Err(Failure::text("ERR BITOP NOT must be called with a single source key."));
    }
    // However often a key is named, its string is read once: what is read is no more than what there is.
    let mut counts: BTreeMap<&[u8], usize> = BTreeMap::new();
    request.args_from(3).for_each(|key| *counts.entry(key).or_default() += 1);
    let is_xor = request.arg(1).eq_ignore_ascii_case(b"xor");
    let mut sum: Option<Vec<u8>> = None;
    for (key, count) in counts {
        // A key that is not there is an empty string.
        let mut value = context.keys.get_with(key, <[u8]>::to_vec)?.unwrap_or_default();
        if is_xor && count % 2 == 0 {
            value.fill(0);
        }
        match (&mut sum, operation) {
            (None, Some(_)) => sum = Some(value),
            (None, None) => sum = Some(value.iter().map(|byte| !byte).collect()),
            (Some(sum), with) => combine(sum, &value, with.unwrap_or(|a, _| a)),
        }
    }
    let sum = sum.unwrap_or_default();
    if sum.is_empty() {
        context.keys.remove(request.arg(2))?;
    } else {
        context.keys.put(request.arg(2), &sum)?;
    }
    context.reply.count(sum.len() as u64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_string_is_followed_by_zeros() {
        let combined = |name: &[u8], a: &[u8], b: &[u8]| {
            let mut sum = a.to_vec();
            combine(&mut sum, b, operation(name).unwrap().unwrap());
            sum
        };
        assert_eq!(combined(b"AND", b"\xff\x0f\xff", b"\xf0\xff"), b"\xf0\x0f\x00");
        assert_eq!(combined(b"or", b"\x01", b"\x02\x03"), b"\x03\x03");
        assert_eq!(combined(b"Xor", b"\xff\x0f", b"\xf0"), b"\x0f\x0f");
        assert!(operation(b"not").unwrap().is_none() && operation(b"nand").is_err());
    }
}
