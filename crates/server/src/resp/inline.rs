//! Inline requests: a line of words, as typed by hand into a terminal.
//!
//! Words are separated by white space. A word may be quoted: `"..."` knows the escapes `\n`,
//! `\r`, `\t`, `\a`, `\b`, `\xHH` and takes any other escaped byte as itself; `'...'` knows only
//! `\'`. A closing quote must be followed by white space or the end.

use super::parse::Span;

/// The quotes do not match.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unbalanced;

/// Splits `line` into words: their bytes are appended to `text`, their places to `spans`.
pub(super) fn split(
    line: &[u8],
    text: &mut Vec<u8>,
    spans: &mut Vec<Span>,
) -> Result<(), Unbalanced> {
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        let start = text.len();
        rest = word(rest, text)?.trim_ascii_start();
        spans.push(Span { start: start as u32, end: text.len() as u32 });
    }
    Ok(())
}

/// The words of a line; `None` if quotes do not match.
pub fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut words, mut rest) = (Vec::new(), line.trim_ascii_start());
    while !rest.is_empty() {
        let mut text = Vec::new();
        rest = word(rest, &mut text).ok()?.trim_ascii_start();
        words.push(text);
    }
    Some(words)
}

/// Copies the first word of `line` and returns what follows it.
fn word<'a>(line: &'a [u8], text: &mut Vec<u8>) -> Result<&'a [u8], Unbalanced> {
    let mut rest = line;
    while let Some((&byte, after)) = rest.split_first() {
        match byte {
            b'"' => return closed(double_quoted(after, text)?),
            b'\'' => return closed(single_quoted(after, text)?),
            byte if byte.is_ascii_whitespace() => return Ok(rest),
            byte => text.push(byte),
        }
        rest = after;
    }
    Ok(rest)
}

/// After a closing quote, only white space or the end.
fn closed(rest: &[u8]) -> Result<&[u8], Unbalanced> {
    match rest.first() {
        Some(byte) if !byte.is_ascii_whitespace() => Err(Unbalanced),
        _ => Ok(rest),
    }
}

fn double_quoted<'a>(text: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], Unbalanced> {
    let mut rest = text;
    loop {
        rest = match rest {
            [] => return Err(Unbalanced),
            [b'"', after @ ..] => return Ok(after),
            [b'\\', b'x', high, low, after @ ..] if hex(*high).is_some() && hex(*low).is_some() => {
                let digit = |byte: u8| hex(byte).unwrap_or(0);
                out.push(digit(*high) << 4 | digit(*low));
                after
            }
            [b'\\', escaped, after @ ..] => {
                out.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                after
            }
            [byte, after @ ..] => {
                out.push(*byte);
                after
            }
        };
    }
}

fn single_quoted<'a>(text: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], Unbalanced> {
    let mut rest = text;
    loop {
        rest = match rest {
            [] => return Err(Unbalanced),
            [b'\'', after @ ..] => return Ok(after),
            [b'\\', b'\'', after @ ..] => {
                out.push(b'\'');
                after
            }
            [byte, after @ ..] => {
                out.push(*byte);
                after
            }
        };
    }
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, Unbalanced> {
        let (mut text, mut spans) = (Vec::new(), Vec::new());
        split(line, &mut text, &mut spans)?;
        Ok(spans.iter().map(|s| text[s.start as usize..s.end as usize].to_vec()).collect())
    }

    #[test]
    fn words_are_separated_by_any_white_space() {
        assert_eq!(words(b"  SET  k\tv ").unwrap(), [&b"SET"[..], b"k", b"v"]);
        assert_eq!(words(b"").unwrap(), Vec::<Vec<u8>>::new());
        assert_eq!(words(b"   ").unwrap(), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn quotes_keep_spaces_and_escapes() {
        assert_eq!(
            words(br#"SET "a b" "\x41\n\"\q" 'it\'s \n' """#).unwrap(),
            [&b"SET"[..], b"a b", b"A\n\"q", b"it's \\n", b""]
        );
        assert_eq!(words(br#""\xZZ""#).unwrap(), [b"xZZ"]);
    }

    #[test]
    fn unbalanced_quotes_are_refused() {
        for line in [&b"SET \"a"[..], b"SET 'a", b"\"a\"b", b"'a'b", b"\"a\\", b"a\"b\"c"] {
            assert_eq!(words(line), Err(Unbalanced), "{}", line.escape_ascii());
        }
    }
}
