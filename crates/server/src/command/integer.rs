//! Integers as arguments and as values.

use crate::failure::Failure;

/// The most digits of an integer behind its first one.
const DIGITS_MAX: usize = 18;

/// An integer in its one canonical spelling: no sign but `-`, no leading zeros, no spaces.
pub fn parse_integer(bytes: &[u8]) -> Option<i64> {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    match digits {
        b"0" => return (bytes == b"0").then_some(0),
        [b'1'..=b'9', rest @ ..] if rest.len() <= DIGITS_MAX => {}
        _ => return None,
    }
    let mut size = 0_u64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // Nineteen digits are below 2^64.
        size = 10 * size + u64::from(digit);
    }
    match bytes.len() > digits.len() {
        true => 0_i64.checked_sub_unsigned(size),
        false => i64::try_from(size).ok(),
    }
}

/// An integer argument.
pub fn integer_arg(bytes: &[u8]) -> Result<i64, Failure> {
    parse_integer(bytes).ok_or(Failure::NotInteger)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_spelling_is_an_integer() {
        for value in [0, 1, -1, 10, i64::MAX, i64::MIN] {
            assert_eq!(parse_integer(value.to_string().as_bytes()), Some(value));
        }
        let bad = ["", "-", "-0", "+1", "01", "1 ", " 1", "1.0", "x", "9223372036854775808"];
        let bad = bad.into_iter().chain(["-9223372036854775809", "9999999999999999999", "--1"]);
        let bad = bad.chain(["10000000000000000000", "18446744073709551617", "1-", "12345/", "1:"]);
        for text in bad {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text}");
        }
    }
}
