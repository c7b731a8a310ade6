//! Scores: numbers of 64 bits as the protocol reads and writes them, and as eight bytes that have their order.

/// Numbers of so many digits are whole scores as they are.
const WHOLE_DIGITS_MAX: usize = 15;
const WHOLE_MAX: u64 = 10_u64.pow(WHOLE_DIGITS_MAX as u32);

/// A score as clients write it. `None` if it is none: not a number, or beyond what can be told.
pub fn parse(bytes: &[u8]) -> Option<f64> {
    if let Some(whole) = whole(bytes) {
        return Some(whole);
    }
    let score = number(bytes)?;
    let is_word = bytes.iter().any(|byte| matches!(byte, b'n' | b'N'));
    let has_digits = || {
        let mantissa = bytes.split(|byte| matches!(byte, b'e' | b'E')).next().unwrap_or(b"");
        mantissa.iter().any(|byte| matches!(byte, b'1'..=b'9'))
    };
    let is_beyond = score.is_infinite() && !is_word || score == 0.0 && has_digits();
    (!is_beyond).then_some(score)
}

/// A bound of a range, which may be empty or begin with spaces, and is infinite if it is too large.
pub fn parse_bound(bytes: &[u8]) -> Option<f64> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = bytes.iter().position(|byte| !is_space(byte));
    // There a zero byte ends it.
    let text = bytes[start.unwrap_or(0)..].split(|byte| *byte == 0).next().unwrap_or(b"");
    if text.is_empty() { (bytes.is_empty() || bytes[0] == 0).then_some(0.0) } else { number(text) }
}

/// A score that is nothing but a few digits, as most are.
fn whole(bytes: &[u8]) -> Option<f64> {
    if !(1..=WHOLE_DIGITS_MAX).contains(&bytes.len()) {
        return None;
    }
    let mut whole = 0_u64;
    for byte in bytes {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        whole = 10 * whole + u64::from(digit);
    }
    Some(whole as f64)
}

fn number(bytes: &[u8]) -> Option<f64> {
    let score: f64 = std::str::from_utf8(bytes).ok()?.parse().ok()?;
    (!score.is_nan()).then_some(score)
}

/// The score as a number without a sign, if it is one of few digits: its text is these.
pub fn as_count(score: f64) -> Option<u64> {
    let count = score as u64;
    let is_it = count as f64 == score && count < WHOLE_MAX && score.is_sign_positive();
    is_it.then_some(count)
}

/// With 17 digits, as C's `%.17g`.
pub fn format(score: f64) -> String {
    let whole = score as i64;
    let is_whole = whole as f64 == score && whole.unsigned_abs() < WHOLE_MAX;
    // A zero may have a sign.
    if is_whole && (whole != 0 || score.is_sign_positive()) {
        return whole.to_string();
    }
    if score.is_infinite() {
        return if score > 0.0 { "inf".to_string() } else { "-inf".to_string() };
    }
    let text = format!("{score:.16e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits = mantissa.replace('.', "");
    let with_point = |whole: &str, part: &str| {
        let part = part.trim_end_matches('0');
        let point = if part.is_empty() { "" } else { "." };
        format!("{sign}{whole}{point}{part}")
    };
    match exponent {
        0..17 => {
            let (whole, part) = digits.split_at(exponent as usize + 1);
            with_point(whole, part)
        }
        -4..0 => {
            let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
            with_point("0", &format!("{zeros}{digits}"))
        }
        _ => {
            let sign = if exponent < 0 { '-' } else { '+' };
            let (whole, part) = digits.split_at(1);
            format!("{}e{sign}{:02}", with_point(whole, part), exponent.unsigned_abs())
        }
    }
}

/// A number that has the order of the scores: the sign flipped, negative ones inverted. Both zeros are one.
pub fn code(score: f64) -> u64 {
    let bits = if score == 0.0 { 0 } else { score.to_bits() };
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// The score of a code.
pub fn of_code(code: u64) -> f64 {
    f64::from_bits(if code >> 63 == 1 { code ^ 1 << 63 } else { !code })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_order_of_scores() {
        let scores =
            [f64::NEG_INFINITY, -1e300, -1.5, -1.0, -1e-300, 0.0, 5e-324, 1.0, 1.5, f64::INFINITY];
        for pair in scores.windows(2) {
            assert!(code(pair[0]) < code(pair[1]), "{pair:?}");
        }
        assert_eq!(code(-0.0), code(0.0));
        assert!(scores.iter().all(|score| of_code(code(*score)) == *score));
    }

    #[test]
    fn scores_are_written_as_c_does() {
        for (score, text) in [
            (0.1, "0.10000000000000001"),
            (3.0, "3"),
            (-3.0, "-3"),
            (0.0, "0"),
            (999_999_999_999_999.0, "999999999999999"),
            (1e15, "1000000000000000"),
            (-1_234_567_890_123_456.0, "-1234567890123456"),
            (-0.0, "-0"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (1.5e-5, "1.5e-05"),
            (0.0001, "0.0001"),
            (-2.5, "-2.5"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(format(score), text);
            let is_short =
                text.len() <= WHOLE_DIGITS_MAX && text.bytes().all(|it| it.is_ascii_digit());
            let count = is_short.then(|| text.parse().unwrap());
            assert_eq!(as_count(score), count, "{text}");
        }
    }

    #[test]
    fn digits_are_read_as_every_other_number() {
        for text in
            ["0", "007", "000000012345", "999999999999999", "1000000000000000", "9007199254740993"]
        {
            assert_eq!(parse(text.as_bytes()), text.parse().ok(), "{text}");
        }
    }

    #[test]
    fn what_is_no_score_is_refused() {
        for text in ["", " 1", "1 ", "x", "nan", "1e400", "-1e400", "1e-400", "1e"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        for text in ["0", "-0", "+inf", "-Inf", "infinity", ".5", "5.", "+1e3", "0e-400"] {
            assert!(parse(text.as_bytes()).is_some(), "{text}");
        }
        assert_eq!(parse_bound(b""), Some(0.0));
        assert_eq!(parse_bound(b"1e400"), Some(f64::INFINITY));
    }
}
