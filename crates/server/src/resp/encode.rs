//! Replies, written straight into the send buffer.
//!
//! The same call writes what the connection's protocol version wants: a map is a map in version 3
//! and a flat array in version 2, absence is `_` or `$-1`.

use crate::failure::Failure;

/// The version of the protocol a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// What every client knows; the version a connection starts with.
    #[default]
    Resp2,
    /// Adds maps, null, and more; chosen with `HELLO 3`.
    Resp3,
}

impl Protocol {
    /// 2 or 3.
    pub fn number(self) -> i64 {
        match self {
            Protocol::Resp2 => 2,
            Protocol::Resp3 => 3,
        }
    }
}

/// Room for the header of an array whose length is not known yet: `*`, 20 digits, line end.
const OPEN_HEADER_SIZE: usize = 23;
/// Digits of the largest number.
const DIGIT_COUNT_MAX: usize = 20;

/// An array that was opened before its length was known. Must be given to [`Reply::close_array`].
#[must_use]
#[derive(Debug)]
pub struct OpenArray {
    start: usize,
    /// Where its items begin.
    items: usize,
}

/// The end of a send buffer, where replies are appended.
///
/// # Example
/// ```
/// # use everleaf_server::resp::{Protocol, Reply};
/// let mut out = Vec::new();
/// let mut reply = Reply::new(&mut out, Protocol::Resp2, usize::MAX);
/// reply.array(2);
/// reply.bulk(b"a");
/// reply.integer(-7);
/// assert_eq!(out, b"*2\r\n$1\r\na\r\n:-7\r\n");
/// ```
#[derive(Debug)]
pub struct Reply<'a> {
    out: &'a mut Vec<u8>,
    /// What the connection speaks.
    pub protocol: Protocol,
    size_max: usize,
    /// Something was left out.
    is_cut: bool,
}

impl<'a> Reply<'a> {
    /// Appends to `out`. Once that has more than `size_max` bytes, what would follow is left out (see
    /// [`Reply::is_full`]).
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol, size_max: usize) -> Self {
        Reply { out, protocol, size_max, is_cut: false }
    }

    /// True when the buffer reached its limit: give up what is being written. It stays so if something was left out,
    /// though an array that is closed becomes shorter.
    pub fn is_full(&self) -> bool {
        self.is_cut || self.out.len() > self.size_max
    }

    /// Fails if something was left out, so that it is no reply.
    pub fn check(&self) -> Result<(), Failure> {
        if self.is_cut { Err(Failure::ReplyTooLong) } else { Ok(()) }
    }

    /// Bytes that may follow.
    pub fn room(&self) -> usize {
        self.size_max.saturating_sub(self.out.len())
    }

    /// The same, for what ends before this goes on.
    pub fn here(&mut self) -> Reply<'_> {
        let Reply { protocol, size_max, .. } = *self;
        Reply { out: &mut *self.out, protocol, size_max, is_cut: false }
    }

    /// The bytes in the buffer, those of earlier replies included.
    pub fn size(&self) -> usize {
        self.out.len()
    }

    /// Takes back everything after the first `size` bytes of the buffer.
    pub fn truncate(&mut self, size: usize) {
        self.out.truncate(size);
        self.is_cut = false;
    }

    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// A status without line ends.
    pub fn status(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error: a code such as `ERR`, a space, a sentence. Line ends become spaces.
    pub fn error(&mut self, text: &str) {
        self.line(b'-', text.as_bytes());
    }

    /// An integer.
    #[inline]
    pub fn integer(&mut self, value: i64) {
        // From behind, so that it is appended at once: mark, sign, digits, and the line end.
        let mut text = [0; 24];
        let mut start = text.len() - 2;
        text[start..].copy_from_slice(b"\r\n");
        let mut rest = value.unsigned_abs();
        loop {
            start -= 1;
            text[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if value < 0 {
            start -= 1;
            text[start] = b'-';
        }
        start -= 1;
        text[start] = b':';
        self.out.extend_from_slice(&text[start..]);
    }

    /// A count or a size, as an integer.
    pub fn count(&mut self, value: u64) {
        self.integer(i64::try_from(value).unwrap_or(i64::MAX));
    }

    /// A number with a point; in version 2 it is text.
    pub fn double(&mut self, value: f64) {
        let mut buffer = [0; DIGIT_COUNT_MAX];
        let long;
        let text = match crate::score::as_count(value) {
            Some(count) => digits_of(count, &mut buffer),
            None => {
                long = crate::score::format(value);
                long.as_bytes()
            }
        };
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => self.line(b',', text),
        }
    }

    /// Bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        if self.is_full() {
            self.is_cut = true;
            return;
        }
        if bytes.len() < 10 {
            return self.short_bulk(bytes);
        }
        // A header of at most 23 bytes, and the line end.
        self.out.reserve(bytes.len() + 25);
        self.header(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Fewer than ten bytes, with one write of a known size.
    #[inline]
    fn short_bulk(&mut self, bytes: &[u8]) {
        let (start, end) = (self.out.len(), 4 + bytes.len());
        let mut text = *b"$0\r\n            ";
        text[1] += bytes.len() as u8;
        text[4..end].copy_from_slice(bytes);
        text[end..end + 2].copy_from_slice(b"\r\n");
        self.out.extend_from_slice(&text);
        self.out.truncate(start + end + 2);
    }

    /// Bytes, or absence.
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// Text meant for people: in version 3 it says so.
    pub fn verbatim(&mut self, text: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                self.header(b'=', text.len() + 4);
                self.out.extend_from_slice(b"txt:");
                self.out.extend_from_slice(text.as_bytes());
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Absence.
    #[inline]
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Absence where an array was expected.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// The header of an array: `len` items must follow.
    pub fn array(&mut self, len: usize) {
        self.header(b'*', len);
    }

    /// The header of a set: `len` items must follow.
    pub fn set(&mut self, len: usize) {
        let mark = if self.protocol == Protocol::Resp3 { b'~' } else { b'*' };
        self.header(mark, len);
    }

    /// The header of a map: `len` keys must follow, each with a value behind it.
    pub fn map(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', len * 2),
            Protocol::Resp3 => self.header(b'%', len),
        }
    }

    /// Something that was encoded before, as it is.
    pub fn encoded(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Starts an array whose length will be known when it is closed.
    pub fn open_array(&mut self) -> OpenArray {
        let start = self.out.len();
        self.out.resize(start + OPEN_HEADER_SIZE, 0);
        OpenArray { start, items: self.out.len() }
    }

    /// The same where it is most likely to have `len` items: then nothing is moved.
    pub fn open_array_of(&mut self, len: usize) -> OpenArray {
        let start = self.out.len();
        self.array(len);
        OpenArray { start, items: self.out.len() }
    }

    /// Ends an array as a map of `len` pairs.
    pub fn close_map(&mut self, array: OpenArray, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.close(array, b'*', len * 2),
            Protocol::Resp3 => self.close(array, b'%', len),
        }
    }

    /// Ends an array as a set of `len` items.
    pub fn close_set(&mut self, array: OpenArray, len: usize) {
        let mark = if self.protocol == Protocol::Resp3 { b'~' } else { b'*' };
        self.close(array, mark, len);
    }

    /// Ends an array after `len` items. Costs one move of the items over the unused header bytes.
    pub fn close_array(&mut self, array: OpenArray, len: usize) {
        self.close(array, b'*', len);
    }

    fn close(&mut self, array: OpenArray, mark: u8, len: usize) {
        // The command that wrote the items may have stopped for this.
        self.is_cut |= self.is_full();
        let OpenArray { start, items } = array;
        let mut header = Vec::with_capacity(OPEN_HEADER_SIZE);
        header.push(mark);
        push_decimal(&mut header, len as u64);
        header.extend_from_slice(b"\r\n");
        if header.len() == items - start {
            self.out[start..items].copy_from_slice(&header);
        } else {
            self.out.splice(start..items, header);
        }
    }

    #[inline]
    fn header(&mut self, mark: u8, len: usize) {
        if len < 10 {
            self.out.extend_from_slice(&[mark, b'0' + len as u8, b'\r', b'\n']);
        } else {
            self.out.push(mark);
            push_decimal(self.out, len as u64);
            self.out.extend_from_slice(b"\r\n");
        }
    }

    fn line(&mut self, mark: u8, text: &[u8]) {
        self.out.push(mark);
        let clean = |&byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte };
        self.out.extend(text.iter().map(clean));
        self.out.extend_from_slice(b"\r\n");
    }
}

/// An integer as text.
pub(crate) fn integer_bytes(value: i64) -> Vec<u8> {
    let mut text = Vec::with_capacity(20);
    if value < 0 {
        text.push(b'-');
    }
    push_decimal(&mut text, value.unsigned_abs());
    text
}

#[inline]
fn push_decimal(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(digits_of(value, &mut [0; DIGIT_COUNT_MAX]));
}

/// The digits of a number, at the end of a buffer.
#[inline]
fn digits_of(mut value: u64, buffer: &mut [u8; DIGIT_COUNT_MAX]) -> &[u8] {
    let mut start = buffer.len();
    loop {
        start -= 1;
        buffer[start] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    &buffer[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(protocol: Protocol, write: impl FnOnce(&mut Reply<'_>)) -> String {
        let mut out = Vec::new();
        write(&mut Reply::new(&mut out, protocol, usize::MAX));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integers_of_every_size_are_written_in_full() {
        for value in [0, 9, 10, -1, 1_000_000, i64::MAX, i64::MIN] {
            let text = written(Protocol::Resp2, |reply| reply.integer(value));
            assert_eq!(text, format!(":{value}\r\n"));
            assert_eq!(integer_bytes(value), value.to_string().into_bytes());
        }
    }

    #[test]
    fn bulks_carry_their_size() {
        assert_eq!(written(Protocol::Resp2, |reply| reply.bulk(b"")), "$0\r\n\r\n");
        let text = "x".repeat(12_345);
        for size in (0..200).chain([text.len()]) {
            let bulk = written(Protocol::Resp2, |reply| reply.bulk(&text.as_bytes()[..size]));
            assert_eq!(bulk, format!("${size}\r\n{}\r\n", &text[..size]));
        }
    }

    #[test]
    fn nothing_follows_once_it_is_full() {
        let mut out = b"+OK\r\n".to_vec();
        let mut reply = Reply::new(&mut out, Protocol::Resp2, 10);
        reply.bulk(b"abc");
        assert!(reply.is_full() && reply.check().is_ok() && reply.room() == 0);
        reply.bulk(&[b'x'; 1000]);
        assert!(reply.check().is_err());
        assert_eq!(reply.size(), 14);
        reply.truncate(5);
        assert!(reply.check().is_ok() && reply.room() == 5);
    }

    #[test]
    fn the_protocol_decides_how_maps_and_absence_look() {
        let both = |write: fn(&mut Reply<'_>)| {
            (written(Protocol::Resp2, write), written(Protocol::Resp3, write))
        };
        assert_eq!(both(|reply| reply.null()), ("$-1\r\n".into(), "_\r\n".into()));
        assert_eq!(both(|reply| reply.null_array()), ("*-1\r\n".into(), "_\r\n".into()));
        assert_eq!(both(|reply| reply.map(6)), ("*12\r\n".into(), "%6\r\n".into()));
        assert_eq!(both(|reply| reply.set(2)), ("*2\r\n".into(), "~2\r\n".into()));
        assert_eq!(
            both(|reply| reply.verbatim("hi")),
            ("$2\r\nhi\r\n".into(), "=6\r\ntxt:hi\r\n".into())
        );
    }

    #[test]
    fn an_error_cannot_smuggle_a_line_end() {
        let text = written(Protocol::Resp2, |reply| reply.error("ERR a\r\n+OK\nb"));
        assert_eq!(text, "-ERR a  +OK b\r\n");
    }

    #[test]
    fn an_array_of_unknown_length_leaves_no_gap() {
        for len in [0usize, 1, 9, 10, 250] {
            let text = written(Protocol::Resp2, |reply| {
                reply.ok();
                let array = reply.open_array();
                for item in 0..len {
                    reply.integer(item as i64);
                }
                reply.close_array(array, len);
                reply.ok();
            });
            for expected in [0, 3, len, len + 1, 1_000_000] {
                let known = written(Protocol::Resp2, |reply| {
                    reply.ok();
                    let array = reply.open_array_of(expected);
                    (0..len).for_each(|item| reply.integer(item as i64));
                    reply.close_array(array, len);
                    reply.ok();
                });
                assert_eq!(known, text, "{expected} were expected");
            }
            let items: String = (0..len).map(|item| format!(":{item}\r\n")).collect();
            assert_eq!(text, format!("+OK\r\n*{len}\r\n{items}+OK\r\n"));
        }
    }
}
