//! The protocol of Redis (version 2), as far as a client of plain commands needs it.

use std::io::Write;

/// Arrays within arrays, at most.
const DEPTH_MAX: usize = 8;

/// One reply, within the bytes that were received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply<'b> {
    Simple(&'b [u8]),
    Error(&'b [u8]),
    Integer(i64),
    Bulk(&'b [u8]),
    Nil,
    Array(Vec<Reply<'b>>),
}

/// Appends a request.
pub(super) fn encode(words: &[&[u8]], output: &mut Vec<u8>) {
    // Writing to memory cannot fail.
    let _ = write!(output, "*{}\r\n", words.len());
    for word in words {
        let _ = write!(output, "${}\r\n", word.len());
        output.extend_from_slice(word);
        output.extend_from_slice(b"\r\n");
    }
}

/// The first reply and its size in bytes; `None` if it is not there as a whole yet.
///
/// Fails with a description if the bytes are no reply.
pub(super) fn parse(input: &[u8]) -> Result<Option<(Reply<'_>, usize)>, String> {
    parse_within(input, 0)
}

fn parse_within(input: &[u8], depth: usize) -> Result<Option<(Reply<'_>, usize)>, String> {
    let Some(end) = input.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let (line, mut at) = (&input[..end], end + 2);
    let Some((kind, text)) = line.split_first() else { return Err(no_reply(line)) };
    let reply = match kind {
        b'+' => Reply::Simple(text),
        b'-' => Reply::Error(text),
        b':' => Reply::Integer(number(line)?),
        b'$' => match usize::try_from(number(line)?) {
            Err(_) => Reply::Nil,
            Ok(size) if input.len() < at + size + 2 => return Ok(None),
            Ok(size) => {
                let bulk = &input[at..at + size];
                at += size + 2;
                Reply::Bulk(bulk)
            }
        },
        b'*' if depth < DEPTH_MAX => match usize::try_from(number(line)?) {
            Err(_) => Reply::Nil,
            Ok(count) => {
                let mut replies = Vec::new();
                for _ in 0..count {
                    let Some((reply, size)) = parse_within(&input[at..], depth + 1)? else {
                        return Ok(None);
                    };
                    replies.push(reply);
                    at += size;
                }
                Reply::Array(replies)
            }
        },
        _ => return Err(no_reply(line)),
    };
    Ok(Some((reply, at)))
}

fn number(line: &[u8]) -> Result<i64, String> {
    let text = std::str::from_utf8(&line[1..]).ok();
    text.and_then(|text| text.parse().ok()).ok_or_else(|| no_reply(line))
}

fn no_reply(line: &[u8]) -> String {
    let shown = line[..line.len().min(60)].escape_ascii();
    format!("\"{shown}\", which is no reply of the protocol")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_an_array_of_bulk_strings() {
        let mut output = Vec::new();
        encode(&[b"SET", b"k\r", b""], &mut output);
        assert_eq!(output, b"*3\r\n$3\r\nSET\r\n$2\r\nk\r\r\n$0\r\n\r\n");
    }

    #[test]
    fn every_kind_of_reply_is_read_once_it_is_whole() {
        let cases: [(&[u8], Reply<'_>); 7] = [
            (b"+OK\r\n", Reply::Simple(b"OK")),
            (b"-ERR no\r\n", Reply::Error(b"ERR no")),
            (b":-12\r\n", Reply::Integer(-12)),
            (b"$-1\r\n", Reply::Nil),
            (b"*-1\r\n", Reply::Nil),
            (b"$4\r\na\r\nb\r\n", Reply::Bulk(b"a\r\nb")),
            (
                b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
                Reply::Array(vec![Reply::Bulk(b"a"), Reply::Array(vec![Reply::Integer(1)])]),
            ),
        ];
        for (bytes, reply) in cases {
            let with_more = [bytes, b"+next\r\n"].concat();
            assert_eq!(parse(&with_more), Ok(Some((reply, bytes.len()))));
            for cut in 0..bytes.len() {
                assert_eq!(parse(&bytes[..cut]), Ok(None), "{cut} of {bytes:?}");
            }
        }
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for bytes in ["HTTP/1.1 400 Bad Request\r\n", "\r\n", ":x\r\n", "$1x\r\n"] {
            assert!(parse(bytes.as_bytes()).is_err(), "{bytes}");
        }
        let deep = "*1\r\n".repeat(20);
        assert!(parse(deep.as_bytes()).unwrap_err().contains("no reply"));
    }
}
