//! Requests of the protocol of Redis: arrays of byte strings.

use std::io::{self, ErrorKind};

/// Words of a request, at most.
const WORD_COUNT_MAX: usize = 8;
/// Bytes of a word, at most.
const WORD_SIZE_MAX: usize = 1024;
/// Bytes of a line that announces words or a word, at most.
const LINE_SIZE_MAX: usize = 16;

/// The words of a request, and its size in bytes.
type Request<'b> = (Vec<&'b [u8]>, usize);

/// The first request; `None` if it is not there as a whole yet.
///
/// # Errors
/// The bytes are no request, or one that is larger than any that is answered.
pub(super) fn parse(input: &[u8]) -> io::Result<Option<Request<'_>>> {
    let Some((count, mut at)) = announced(input, b'*', WORD_COUNT_MAX)? else { return Ok(None) };
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let Some((size, line)) = announced(&input[at..], b'$', WORD_SIZE_MAX)? else {
            return Ok(None);
        };
        let Some(word) = input[at + line..].get(..size + 2) else { return Ok(None) };
        if !word.ends_with(b"\r\n") {
            return Err(ErrorKind::InvalidData.into());
        }
        words.push(&word[..size]);
        at += line + size + 2;
    }
    Ok(Some((words, at)))
}

/// The number in a line that begins with this letter, and the size of the line.
fn announced(input: &[u8], letter: u8, most: usize) -> io::Result<Option<(usize, usize)>> {
    let seen = &input[..input.len().min(LINE_SIZE_MAX)];
    let Some(end) = seen.windows(2).position(|pair| pair == b"\r\n") else {
        let is_too_long = seen.len() == LINE_SIZE_MAX;
        return if is_too_long { Err(ErrorKind::InvalidData.into()) } else { Ok(None) };
    };
    let digits =
        seen[..end].strip_prefix(&[letter]).and_then(|text| std::str::from_utf8(text).ok());
    let number = digits.and_then(|text| text.parse().ok()).filter(|number| *number <= most);
    number.map(|number| Some((number, end + 2))).ok_or_else(|| ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_whole_or_awaited_or_refused() {
        let whole = b"*2\r\n$3\r\nGET\r\n$5\r\nk\r\n 1\r\n";
        let (words, size) = parse(whole).expect("a request").expect("as a whole");
        assert_eq!((words, size), (vec![b"GET".as_slice(), b"k\r\n 1"], whole.len()));
        for end in 0..whole.len() {
            assert!(parse(&whole[..end]).expect("a beginning").is_none(), "{end}");
        }
        let wrong: [&[u8]; 6] = [
            b"GET k\r\n",
            b"*-1\r\n",
            b"*9\r\n",
            b"*1\r\n$1025\r\n",
            b"*1\r\n$1\r\nabc",
            b"*0000000000000001",
        ];
        for bytes in wrong {
            assert!(parse(bytes).is_err(), "{}", bytes.escape_ascii());
        }
    }
}
