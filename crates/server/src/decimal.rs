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

/// Numbers of more digits before the point are refused.
const ORDER_MAX: i64 = 21;
/// Smaller numbers than with so many zeros behind the point change no sum.
const ORDER_MIN: i64 = -60;
/// More digits than any number half way between two of 64 binary digits has.
const DIGITS_MAX: usize = 800;

/// A number of 64 binary digits: `mantissa * 2^exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    is_negative: bool,
    /// Its highest bit is set, unless the number is zero.
    mantissa: u64,
    exponent: i32,
}

impl Decimal {
    pub const ZERO: Decimal = Decimal { is_negative: false, mantissa: 0, exponent: 0 };

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
        let exponent = exponent - i64::try_from(part.len()).ok()?;
        let digits = all.trim_start_matches('0');
        let order = i64::try_from(digits.len()).ok()? + exponent;
        if digits.is_empty() || order < ORDER_MIN {
            return Some(Decimal { is_negative, ..Decimal::ZERO });
        }
        if order > ORDER_MAX {
            return None;
        }
        let (kept, cut) = digits.split_at(digits.len().min(DIGITS_MAX));
        let exponent = exponent + i64::try_from(cut.len()).ok()?;
        let is_cut = cut.bytes().any(|digit| digit != b'0');
        Some(Decimal { is_negative, ..nearest(kept, i32::try_from(exponent).ok()?, is_cut) })
    }

    /// The sum, unless it is too large.
    pub fn plus(self, other: Decimal) -> Option<Decimal> {
        let (large, small) = match self.place() >= other.place() {
            true => (self, other),
            false => (other, self),
        };
        if small.mantissa == 0 {
            return large.in_range();
        }
        // Far enough below the last digit it changes nothing.
        let distance = u32::try_from(large.exponent - small.exponent).ok()?;
        if distance > 66 {
            return large.in_range();
        }
        // Room for a carry, and for the digits that are rounded.
        const ROOM: u32 = 62;
        let (a, b) = (u128::from(large.mantissa) << ROOM, u128::from(small.mantissa) << ROOM);
        let (b, rest) = (b >> distance, b & ((1 << distance) - 1) != 0);
        let sum = match large.is_negative == small.is_negative {
            true => a + b,
            false if b <= a => a - b - u128::from(rest),
            // Both have the same exponent: nothing was cut.
            false => b - a,
        };
        let is_negative = if a < b { small.is_negative } else { large.is_negative };
        let sum = rounded(sum, rest, large.exponent - ROOM as i32);
        Decimal { is_negative, ..sum }.in_range()
    }

    /// Compares numbers but for their last 63 digits: zero is below all.
    fn place(self) -> (bool, i32) {
        (self.mantissa != 0, self.exponent)
    }

    fn in_range(self) -> Option<Decimal> {
        (self.units() / ONE < 10_u128.pow(ORDER_MAX as u32)).then_some(self)
    }

    /// How many units of the last digit that is told it is, rounded to the nearest, and to the even one of two.
    fn units(self) -> u128 {
        let units = u128::from(self.mantissa) * ONE;
        match u32::try_from(self.exponent) {
            // At most 10^21 have 70 binary digits, and these 57.
            Ok(up) if up <= 6 => units << up,
            Ok(_) => u128::MAX,
            Err(_) => match self.exponent.unsigned_abs() {
                down @ ..=127 => {
                    let (count, rest) = (units >> down, units & ((1 << down) - 1));
                    let half = 1 << (down - 1);
                    count + u128::from(rest > half || rest == half && count % 2 == 1)
                }
                _ => 0,
            },
        }
    }
}

/// The nearest number of 64 binary digits to `digits * 10^exponent`, and a little more if digits were cut.
fn nearest(digits: &str, exponent: i32, is_cut: bool) -> Decimal {
    let mut number = Long::default();
    digits.bytes().for_each(|digit| number.multiply_add(10, u32::from(digit - b'0')));
    let (mut shift, mut has_rest) = (0, is_cut);
    if exponent >= 0 {
        (0..exponent).for_each(|_| number.multiply_add(10, 0));
    } else {
        // At least 66 digits are left behind the division.
        shift = 70 + exponent.unsigned_abs() * 10 / 3;
        number.shift_up(shift);
        (0..exponent.unsigned_abs()).for_each(|_| has_rest |= number.divide(10) != 0);
    }
    let (top, rest, exponent) = number.top();
    rounded(top, rest || has_rest, exponent - shift as i32)
}

/// The nearest number of 64 binary digits to `number * 2^exponent`, and a little more if there is a rest.
fn rounded(number: u128, has_rest: bool, exponent: i32) -> Decimal {
    let size = u128::BITS - number.leading_zeros();
    let Some(cut) = size.checked_sub(64).filter(|cut| *cut > 0) else {
        // Nothing is cut, and nothing was.
        let mantissa = number as u64;
        let up = mantissa.leading_zeros() % 64;
        return Decimal {
            is_negative: false,
            mantissa: mantissa << up,
            exponent: exponent - up as i32,
        };
    };
    let (mut count, rest) = (number >> cut, number & ((1 << cut) - 1));
    let half = 1 << (cut - 1);
    let up = rest > half || rest == half && (has_rest || count % 2 == 1);
    count += u128::from(up);
    let mut exponent = exponent + cut as i32;
    if count >> 64 != 0 {
        (count, exponent) = (count >> 1, exponent + 1);
    }
    Decimal { is_negative: false, mantissa: count as u64, exponent }
}

/// A whole number of any size, its lowest part first.
#[derive(Default)]
struct Long(Vec<u32>);

impl Long {
    fn multiply_add(&mut self, factor: u32, summand: u32) {
        let mut carry = u64::from(summand);
        for part in &mut self.0 {
            carry += u64::from(*part) * u64::from(factor);
            *part = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    fn shift_up(&mut self, count: u32) {
        self.multiply_add(1 << (count % 32), 0);
        self.0.splice(0..0, (0..count / 32).map(|_| 0));
    }

    /// Divides, and returns what remains.
    fn divide(&mut self, divisor: u32) -> u32 {
        let mut rest = 0_u64;
        for part in self.0.iter_mut().rev() {
            let dividend = rest << 32 | u64::from(*part);
            *part = (dividend / u64::from(divisor)) as u32;
            rest = dividend % u64::from(divisor);
        }
        rest as u32
    }

    /// Its highest parts, whether there is more below, and by how many binary digits they were shifted down.
    fn top(&self) -> (u128, bool, i32) {
        let used = self.0.iter().rposition(|part| *part != 0).map_or(0, |at| at + 1);
        let (low, high) = self.0[..used].split_at(used.saturating_sub(4));
        let top = high.iter().rev().fold(0, |top, part| top << 32 | u128::from(*part));
        (top, low.iter().any(|part| *part != 0), 32 * low.len() as i32)
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = self.units();
        let sign = if self.is_negative && units > 0 { "-" } else { "" };
        let (whole, part) = (units / ONE, units % ONE);
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
        // What was one binary digit off: half way between two numbers the even one is taken.
        assert_eq!(
            sum("-7.9722446507448e+06", "-6908956.670883008"),
            "-14881201.32162780799990287"
        );
        assert_eq!(sum("-438391190.671", "-2e+08"), "-638391190.67099999997299165");
        assert_eq!(sum("8.949e-16", "-0.0002066390506984397"), "-0.00020663905069754");
        assert_eq!(sum("5e-18", "-2.84045156e+00"), "-2.84045156");
        assert_eq!(sum("3.091183e-12", "4.2636202722e-11"), "0.00000000004572739");
        assert_eq!(sum("5.", "4.9999e-18"), "5.00000000000000001");
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
            ("5e-18", Some("0")),
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
