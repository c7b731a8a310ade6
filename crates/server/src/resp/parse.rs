//! Requests: a resumable parser that copies nothing.
//!
//! ```text
//!   *3\r\n   $3\r\n SET \r\n   $3\r\n key \r\n   $5\r\n value \r\n
//!   count    size   bulk       size   bulk       size   bulk
//! ```
//!
//! The caller owns the bytes and shows them to the parser again, longer, until a request is
//! complete; the parser remembers how far it came, so only an unfinished line, of at most
//! 64 KiB, is looked through again. The arguments
//! are kept as positions relative to the first byte of the request, so the caller may move an
//! unfinished request to another buffer in between.
//!
//! Invariants: memory grows by what was received, never by what a client claims (I1); after an
//! error the stream has no meaning any more and the connection must be closed (I2).

mod kept;
mod series;

use std::fmt;

pub use self::kept::KeptRequests;
pub use self::series::Series;
use super::inline;

/// What a client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most arguments of one request.
    pub arg_count_max: usize,
    /// The longest argument, in bytes.
    pub bulk_size_max: usize,
    /// The longest inline request, in bytes.
    pub inline_size_max: usize,
    /// The longest request, in bytes; at most `u32::MAX`.
    pub request_size_max: usize,
    /// False before the password was given; only the wording of errors depends on it.
    pub authenticated: bool,
}

/// Why a stream of bytes is not a stream of requests. Shown to the client, then the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The number of arguments is not a number, or above the limit.
    ArgCount,
    /// The number of arguments is above what a client may send before the password.
    ArgCountUnauthenticated,
    /// The size of an argument is not a number, negative, or above the limit.
    BulkSize,
    /// The size of an argument is above what a client may send before the password.
    BulkSizeUnauthenticated,
    /// An argument did not start with `$` but with this byte.
    ExpectedBulk(u8),
    /// An argument did not end where its size said.
    ExpectedLineEnd,
    /// An inline request is too long.
    InlineSize,
    /// The quotes of an inline request do not match.
    InlineQuotes,
    /// The whole request is too long.
    RequestSize,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            ProtocolError::ArgCount => "invalid multibulk length",
            ProtocolError::ArgCountUnauthenticated => "unauthenticated multibulk length",
            ProtocolError::BulkSize => "invalid bulk length",
            ProtocolError::BulkSizeUnauthenticated => "unauthenticated bulk length",
            ProtocolError::ExpectedBulk(byte) => {
                return write!(f, "expected '$', got '{}'", byte.escape_ascii());
            }
            ProtocolError::ExpectedLineEnd => "expected CRLF after a bulk string",
            ProtocolError::InlineSize => "too big inline request",
            ProtocolError::InlineQuotes => "unbalanced quotes in request",
            ProtocolError::RequestSize => "too big request",
        };
        f.write_str(text)
    }
}

/// One argument: positions relative to the start of the request, or in the inline text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) end: u32,
}

/// The longest number, its sign included.
const NUMBER_SIZE_MAX: usize = 18;
/// Argument positions kept allocated between requests.
const SPAN_COUNT_KEPT: usize = 1024;

/// Takes requests off a stream of bytes. One per connection.
///
/// # Example
/// ```
/// # use everleaf_server::resp::{Limits, Parser};
/// let limits = Limits {
///     arg_count_max: 1024,
///     bulk_size_max: 1024,
///     inline_size_max: 1024,
///     request_size_max: 4096,
///     authenticated: true,
/// };
/// let mut parser = Parser::default();
/// let stream = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nPI";
/// let size = parser.parse(stream, &limits).unwrap().expect("the first request is complete");
/// assert_eq!(parser.request(stream).arg(1), b"k");
/// let rest = &stream[size..];
/// assert_eq!(parser.parse(rest, &limits), Ok(None));
/// ```
#[derive(Debug, Default)]
pub struct Parser {
    spans: Vec<Span>,
    /// The next byte to look at, relative to the start of the request; 0 = a new request.
    at: usize,
    /// Arguments still to come.
    remaining: usize,
    /// The size of the argument whose bytes come next, once known.
    bulk_size: Option<usize>,
    /// The unescaped arguments of an inline request.
    inline_text: Vec<u8>,
    is_inline: bool,
}

impl Parser {
    /// Looks at `bytes`, which must begin where the request begins, and be an extension of what
    /// the last call saw if that returned `None`. Returns the size of the request when it is
    /// complete: its arguments are in [`Parser::request`] until the next call, which starts a new
    /// request. A request may have no arguments (an empty line): ignore it.
    ///
    /// # Errors
    /// The stream is broken for good: see [`ProtocolError`].
    pub fn parse(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<usize>, ProtocolError> {
        if self.at == 0 {
            self.spans.clear();
            match bytes.first() {
                None => return Ok(None),
                Some(b'*') => {
                    if let Some(size) = self.parse_whole(bytes, limits) {
                        return Ok(Some(size));
                    }
                    self.spans.clear();
                    if !self.parse_arg_count(bytes, limits)? {
                        return Ok(None);
                    }
                }
                Some(_) => return self.parse_inline(bytes, limits),
            }
        }
        while self.remaining > 0 {
            if !self.parse_bulk(bytes, limits)? {
                return Ok(None);
            }
        }
        Ok(Some(std::mem::take(&mut self.at)))
    }

    /// The arguments of the request that [`Parser::parse`] just completed; `bytes` as it saw them.
    pub fn request<'a>(&'a self, bytes: &'a [u8]) -> Request<'a> {
        let bytes = if self.is_inline { &self.inline_text } else { bytes };
        Request { bytes, spans: &self.spans }
    }

    /// Like [`Parser::request`], but one argument that borrows from `bytes` alone. `None` if the
    /// request was an inline one or has no such argument.
    pub fn wire_arg<'b>(&self, bytes: &'b [u8], index: usize) -> Option<&'b [u8]> {
        if self.is_inline {
            return None;
        }
        let span = self.spans.get(index)?;
        bytes.get(span.start as usize..span.end as usize)
    }

    /// The number of arguments of the request that was just completed.
    pub fn arg_count(&self) -> usize {
        self.spans.len()
    }

    /// Forgets an unfinished request: the caller will show it again from its first byte.
    pub fn restart(&mut self) {
        self.at = 0;
        self.remaining = 0;
        self.bulk_size = None;
    }

    /// The size the unfinished request has at least, in bytes; 0 when nothing is known.
    pub fn size_min(&self) -> usize {
        match self.bulk_size {
            Some(size) => self.at + size + 2,
            None => 0,
        }
    }

    /// Bytes that are allocated.
    pub fn memory(&self) -> usize {
        self.spans.capacity() * size_of::<Span>() + self.inline_text.capacity()
    }

    /// Gives back what an unusually long request made the parser allocate.
    pub fn trim(&mut self) {
        if self.at == 0 {
            self.spans.clear();
        }
        if self.spans.capacity() > SPAN_COUNT_KEPT && self.spans.capacity() / 4 > self.spans.len() {
            self.spans.shrink_to(SPAN_COUNT_KEPT);
        }
        if self.inline_text.capacity() > SPAN_COUNT_KEPT {
            self.inline_text.clear();
            self.inline_text.shrink_to(SPAN_COUNT_KEPT);
        }
    }

    /// A request that is there as a whole, with numbers of three digits at most, as nearly all are. `None`: it has
    /// to be looked at more closely, from its first byte on.
    #[inline]
    fn parse_whole(&mut self, bytes: &[u8], limits: &Limits) -> Option<usize> {
        let (count, mut at) = short_number(bytes, 0, b'*')?;
        if count == 0 || count > limits.arg_count_max {
            return None;
        }
        for _ in 0..count {
            let (size, start) = short_number(bytes, at, b'$')?;
            let end = start + size;
            if size > limits.bulk_size_max || bytes.get(end..end + 2)? != b"\r\n" {
                return None;
            }
            // Both fit, or the request is too long for them, and this is forgotten.
            self.spans.push(Span { start: start as u32, end: end as u32 });
            at = end + 2;
        }
        if at > limits.request_size_max.min(u32::MAX as usize) {
            return None;
        }
        self.is_inline = false;
        Some(at)
    }

    /// `*count`. False if more bytes are needed.
    fn parse_arg_count(&mut self, bytes: &[u8], limits: &Limits) -> Result<bool, ProtocolError> {
        let Some((count, at)) = number_line(bytes, 1).map_err(|_| ProtocolError::ArgCount)? else {
            return Ok(false);
        };
        // A count of zero, or below, is an empty request.
        let count = usize::try_from(count).unwrap_or(0);
        if count > limits.arg_count_max {
            return Err(if limits.authenticated {
                ProtocolError::ArgCount
            } else {
                ProtocolError::ArgCountUnauthenticated
            });
        }
        self.is_inline = false;
        self.at = at;
        self.remaining = count;
        Ok(true)
    }

    /// `$size` and the bytes. False if more bytes are needed.
    #[inline]
    fn parse_bulk(&mut self, bytes: &[u8], limits: &Limits) -> Result<bool, ProtocolError> {
        let size = match self.bulk_size {
            Some(size) => size,
            None => match self.parse_bulk_size(bytes, limits)? {
                Some(size) => size,
                None => return Ok(false),
            },
        };
        let end = self.at + size;
        match bytes.get(end..end + 2) {
            None => {
                self.bulk_size = Some(size);
                Ok(false)
            }
            Some(b"\r\n") => {
                self.bulk_size = None;
                // Both fit: `parse_bulk_size` held the request below `u32::MAX`.
                self.spans.push(Span { start: self.at as u32, end: end as u32 });
                self.at = end + 2;
                self.remaining -= 1;
                Ok(true)
            }
            Some(_) => Err(ProtocolError::ExpectedLineEnd),
        }
    }

    #[inline]
    fn parse_bulk_size(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<Option<usize>, ProtocolError> {
        match bytes.get(self.at) {
            None => return Ok(None),
            Some(b'$') => {}
            Some(&byte) => return Err(ProtocolError::ExpectedBulk(byte)),
        }
        let line = number_line(bytes, self.at + 1).map_err(|_| ProtocolError::BulkSize)?;
        let Some((size, at)) = line else { return Ok(None) };
        let size = usize::try_from(size).map_err(|_| ProtocolError::BulkSize)?;
        if size > limits.bulk_size_max {
            return Err(if limits.authenticated {
                ProtocolError::BulkSize
            } else {
                ProtocolError::BulkSizeUnauthenticated
            });
        }
        // Cannot overflow: `at` is a position in memory, and the size was bounded just now.
        if at + size + 2 > limits.request_size_max.min(u32::MAX as usize) {
            return Err(ProtocolError::RequestSize);
        }
        self.at = at;
        Ok(Some(size))
    }

    fn parse_inline(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<Option<usize>, ProtocolError> {
        // One byte more than the limit is looked at, for the line end.
        let window = &bytes[..bytes.len().min(limits.inline_size_max + 1)];
        let Some(end) = window.iter().position(|&byte| byte == b'\n') else {
            if bytes.len() > limits.inline_size_max {
                return Err(ProtocolError::InlineSize);
            }
            return Ok(None);
        };
        let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
        self.is_inline = true;
        self.inline_text.clear();
        inline::split(line, &mut self.inline_text, &mut self.spans)
            .map_err(|_| ProtocolError::InlineQuotes)?;
        if self.spans.len() > limits.arg_count_max {
            return Err(ProtocolError::ArgCount);
        }
        Ok(Some(end + 1))
    }
}

/// A complete request: at least one argument, the first of which is the name of the command.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Request<'a> {
    /// The number of arguments, the name of the command included.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// True if there is not even a command.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The argument at `index`; 0 is the name of the command.
    ///
    /// # Panics
    /// If there is no such argument: the caller has compared with [`Request::len`].
    pub fn arg(&self, index: usize) -> &'a [u8] {
        let span = self.spans[index];
        &self.bytes[span.start as usize..span.end as usize]
    }

    /// The argument at `index`, or `None` past the last one.
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        (index < self.len()).then(|| self.arg(index))
    }

    /// The arguments from `first` on.
    pub fn args_from(&self, first: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let Request { bytes, spans } = *self;
        let first = first.min(spans.len());
        spans[first..].iter().map(move |span| &bytes[span.start as usize..span.end as usize])
    }
}

/// The number of up to three digits in the line at `at`, which begins with `mark` and is not the last of a request;
/// and where the next line starts.
#[inline(always)]
fn short_number(bytes: &[u8], at: usize, mark: u8) -> Option<(usize, usize)> {
    let line: &[u8; 6] = bytes.get(at..at + 6)?.try_into().ok()?;
    if line[0] != mark {
        return None;
    }
    let digit = |index: usize| {
        let digit = line[index].wrapping_sub(b'0');
        (digit < 10).then_some(usize::from(digit))
    };
    let first = digit(1)?;
    if line[2..4] == *b"\r\n" {
        return Some((first, at + 4));
    }
    let second = 10 * first + digit(2)?;
    if line[3..5] == *b"\r\n" {
        return Some((second, at + 5));
    }
    let third = 10 * second + digit(3)?;
    (line[4..] == *b"\r\n").then_some((third, at + 6))
}

/// Not a number.
struct BadNumber;

/// The number between `start` and the next line end, and where the next line starts. `None` if
/// the line is not complete.
#[inline]
fn number_line(bytes: &[u8], start: usize) -> Result<Option<(i64, usize)>, BadNumber> {
    let mut at = start;
    let negative = bytes.get(at) == Some(&b'-');
    if negative {
        at += 1;
    }
    let digits_start = at;
    let mut value: i64 = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte.is_ascii_digit() {
            // 18 digits cannot overflow 63 bits.
            if at - start >= NUMBER_SIZE_MAX {
                return Err(BadNumber);
            }
            value = value * 10 + i64::from(byte - b'0');
            at += 1;
            continue;
        }
        if byte != b'\r' || at == digits_start {
            return Err(BadNumber);
        }
        return match bytes.get(at + 1) {
            None => Ok(None),
            Some(b'\n') => Ok(Some((if negative { -value } else { value }, at + 2))),
            Some(_) => Err(BadNumber),
        };
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
