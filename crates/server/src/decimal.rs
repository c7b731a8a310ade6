//! Decimal numbers that are added as the protocol's original server adds them: each number, and the sum,
//! is the nearest one of 64 binary digits, and is told with 17 digits behind the point.

use std::fmt;

/// Digits behind the point that are kept.
const SCALE: u32 = 17;
const ONE: u128 = 10_u128.pow(SCALE);

/// Whether a text is a number, but beyond all that can be added.
pub fn is_infinite(text: &[u8]) -> bool {
    let word = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
    word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"infinity")
}

/// A number with 17 digits behind the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal(i128);

impl Decimal {
    pub const ZERO: Decimal = Decimal(0);

    /// A number as clients write it: digits, a point, an exponent. `None` if it is none, or too large.
    pub fn parse(bytes: &[u8]) -> Option<Decimal> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (mantissa, exponent) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], i64::from(text[at + 1..].parse::<i32>().ok()?)),
            None => (text, 0),
        };
        let (is_negative, digits) = match mantissa.as_bytes().first()? {
            b'-' => (true, &mantissa[1..]),
            b'+' => (false, &mantissa[1..]),
            _ => (false, mantissa),
        };
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        let all = [whole, part].concat();
        if all.is_empty() || !all.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let shift = i64::from(SCALE) + exponent - i64::try_from(all.len() - whole.len()).ok()?;
        // The digits before the last one that counts, and the one behind it; `None` if even that is a zero
        // before all of them.
        let cut = usize::try_from(shift.min(0).unsigned_abs()).ok()?;
        let kept = all.len().checked_sub(cut);
        let mut number: i128 = 0;
        for digit in all.bytes().take(kept.unwrap_or(0)) {
            number = number.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
        }
        let next = kept.and_then(|kept| all.as_bytes().get(kept));
        if next.is_some_and(|digit| *digit >= b'5') {
            number = number.checked_add(1)?;
        }
        if number != 0 && shift > 0 {
            number = number.checked_mul(10_i128.checked_pow(u32::try_from(shift).ok()?)?)?;
        }
        Some(Decimal(if is_negative { -number } else { number }).rounded())
    }

    /// The sum, unless it is too large.
    pub fn plus(self, other: Decimal) -> Option<Decimal> {
        self.0.checked_add(other.0).map(|sum| Decimal(sum).rounded())
    }

    /// The nearest number of 64 binary digits.
    fn rounded(self) -> Decimal {
        let number = self.0.unsigned_abs();
        let (whole, part) = (number / ONE, number % ONE);
        let digits = u128::BITS - whole.leading_zeros();
        let rounded = if digits == 0 {
            // All that is told of it is kept.
            number
        } else if digits >= 64 {
            let unit = 1_u128 << (digits - 64);
            let (count, rest) = (whole / unit, (whole % unit) * ONE + part);
            let half = unit * ONE / 2;
            let up = rest > half || rest == half && count % 2 == 1;
            (count + u128::from(up)).saturating_mul(unit).saturating_mul(ONE)
        } else {
            let scale = 1_u128 << (64 - digits);
            let part = nearest(part * scale, ONE);
            whole * ONE + nearest(part * ONE, scale)
        };
        let rounded = i128::try_from(rounded).unwrap_or(i128::MAX);
        Decimal(if self.0 < 0 { -rounded } else { rounded })
    }
}

/// The quotient, rounded to the nearest, and to the even one of two.
fn nearest(dividend: u128, divisor: u128) -> u128 {
    let (quotient, rest) = (dividend / divisor, dividend % divisor);
    let up = rest > divisor - rest || rest == divisor - rest && quotient % 2 == 1;
    quotient + u128::from(up)
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, part) = (self.0.unsigned_abs() / ONE, self.0.unsigned_abs() % ONE);
        let part = format!("{part:017}");
        let part = part.trim_end_matches('0');
        let point = if part.is_empty() { "" } else { "." };
        write!(f, "{sign}{whole}{point}{part}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_decimal_numbers() {
        let sum = |a: &str, b: &str| {
            let parse = |text: &str| Decimal::parse(text.as_bytes()).unwrap();
            parse(a).plus(parse(b)).unwrap().to_string()
        };
        assert_eq!(sum("0.1", "0.2"), "0.3");
        assert_eq!(sum("10.50", "0.1"), "10.6");
        assert_eq!(sum("5.0e3", "2.0e2"), "5200");
        assert_eq!(sum("3", "-1.5"), "1.5");
        assert_eq!(sum("-0.25", "0"), "-0.25");
        assert_eq!(sum("1", "-1"), "0");
        assert_eq!(sum(".5", "5."), "5.5");
        // Of 64 binary digits.
        assert_eq!(sum("9223372036854775807", "10.5"), "9223372036854775818");
        assert_eq!(sum("1000", "0.1"), "1000.09999999999999998");
    }

    /// `9e-30` was rounded by its first digit, which is not the one behind the last that is kept, and became 1e-17.
    /// An exponent near the limit of its type, and a sum of one at the limit of the number's, overflowed: in a build
    /// that looks, a request stopped the server.
    #[test]
    fn numbers_far_below_and_above_the_digits_that_are_kept() {
        let text = |text: &str| Decimal::parse(text.as_bytes()).map(|number| number.to_string());
        for (number, expected) in [
            ("9e-30", Some("0")),
            ("9e-19", Some("0")),
            ("99e-19", Some("0.00000000000000001")),
            ("4e-18", Some("0")),
            ("5e-18", Some("0.00000000000000001")),
            ("-9e-18", Some("-0.00000000000000001")),
            ("9e-2147483648", Some("0")),
            ("0.0009e-2147483648", Some("0")),
            ("0e2147483647", Some("0")),
            ("1e2147483647", None),
            ("1.5e2147483647", None),
            // One digit more than is kept, and the largest number there is before it.
            ("1701411834604692317316.873037158841057275", None),
        ] {
            assert_eq!(text(number).as_deref(), expected, "{number}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", "-", ".", "x", "1x", " 1", "1 ", "1e", "inf", "nan", "0x10", "1e40", "--1"]
        {
            assert_eq!(Decimal::parse(text.as_bytes()), None, "{text}");
        }
    }
}
