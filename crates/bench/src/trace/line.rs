//! Lines of the plain format: a word, a key, a number.

use super::operations::Trace;
use crate::workload::Action;

/// Bytes of a value, at most.
const VALUE_SIZE_MAX: u32 = 1 << 20;
/// Pairs of a scan, at most.
const SCAN_LENGTH_MAX: u32 = 1_000_000;

/// Adds the operation of a line, or says why it cannot.
pub(super) fn parse(line: &[u8], trace: &mut Trace) -> Result<(), String> {
    let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let word = fields.next().unwrap_or_default().to_ascii_lowercase();
    let key = fields.next().ok_or("a key is missing after the first word")?;
    let key = unescape(key).ok_or("a backslash in a key begins \\xHH or is followed by another")?;
    let number = fields.next();
    match word.as_slice() {
        b"get" if number.is_none() => trace.add(Action::Get, 0, &key),
        b"del" if number.is_none() => trace.add(Action::Remove, 0, &key),
        b"put" => trace.add(Action::Put, parse_number("SIZE", number, 0, VALUE_SIZE_MAX)?, &key),
        b"scan" => {
            trace.add(Action::Scan, parse_number("COUNT", number, 1, SCAN_LENGTH_MAX)?, &key);
        }
        _ => {
            let text = "a line is `get KEY`, `put KEY SIZE`, `del KEY`, `scan KEY COUNT`, or one \
                        of the output of MONITOR";
            return Err(text.to_owned());
        }
    }
    match fields.next() {
        None => Ok(()),
        Some(_) => Err("there is something behind the operation".to_owned()),
    }
}

fn parse_number(name: &str, field: Option<&[u8]>, least: u32, most: u32) -> Result<u32, String> {
    let text = field.and_then(|field| std::str::from_utf8(field).ok());
    let number = text.and_then(|text| text.parse().ok());
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("{name} must be a number, {least} to {most}"))
}

fn unescape(field: &[u8]) -> Option<Vec<u8>> {
    let (mut key, mut rest) = (Vec::with_capacity(field.len()), field);
    while let [first, after @ ..] = rest {
        (rest, _) = match (first, after) {
            (b'\\', [b'\\', after @ ..]) => (after, key.push(b'\\')),
            (b'\\', [b'x', high, low, after @ ..]) => (after, key.push(hex_byte(*high, *low)?)),
            (b'\\', _) => return None,
            _ => (after, key.push(*first)),
        };
    }
    Some(key)
}

/// The byte of two hexadecimal digits.
pub(super) fn hex_byte(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(high)? << 4 | digit(low)?) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_line_is_understood() {
        let mut trace = Trace::default();
        for line in ["get a", "PUT b\\x20c 100", "del \\\\", "scan\td  7"] {
            parse(line.as_bytes(), &mut trace).unwrap();
        }
        let found: Vec<_> = trace
            .operations
            .iter()
            .map(|(step, range)| (step.action, step.length, &trace.texts[range.clone()]))
            .collect();
        assert_eq!(
            found,
            [
                (Action::Get, 0, &b"a"[..]),
                (Action::Put, 100, &b"b c"[..]),
                (Action::Remove, 0, &b"\\"[..]),
                (Action::Scan, 7, &b"d"[..]),
            ]
        );
    }
}
