//! Lines of bounded length, with their numbers.

use super::pair::{BYTE_ORDER_MARK, ReadError};
use everleaf::human_size;
use std::io::{self, BufRead, Read};

/// The longest line, in bytes: room for the longest key and value even when every byte is escaped.
pub const LINE_SIZE_MAX: usize = 2 * (everleaf::KEY_SIZE_MAX + everleaf::VALUE_SIZE_MAX) + 1024;

/// Splits an input into lines; memory is bounded by the longest line allowed.
pub struct Lines<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
    size_max: usize,
}

impl<R: BufRead> Lines<R> {
    /// Lines of at most [`LINE_SIZE_MAX`] bytes.
    pub fn new(input: R) -> Self {
        Self::with_size_max(input, LINE_SIZE_MAX)
    }

    /// Lines of at most `size_max` bytes, the line end not counted.
    pub fn with_size_max(input: R, size_max: usize) -> Self {
        Self { input, line: Vec::new(), number: 0, size_max }
    }

    /// The next line that is not blank, and its number, without its line end (`\n` or `\r\n`).
    ///
    /// # Errors
    /// A line that is too long is malformed (the rest of it is passed over); otherwise what reading
    /// the input gives.
    pub fn next(&mut self) -> Result<Option<(u64, &[u8])>, ReadError> {
        loop {
            self.line.clear();
            let limit = self.size_max as u64 + 2;
            let read = (&mut self.input).take(limit).read_until(b'\n', &mut self.line)?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            if self.number == 1 && self.line.starts_with(BYTE_ORDER_MARK) {
                self.line.drain(..BYTE_ORDER_MARK.len());
            }
            let ended = self.line.last() == Some(&b'\n');
            self.strip_line_end();
            if self.line.len() > self.size_max {
                if !ended {
                    skip_line(&mut self.input)?;
                }
                let reason =
                    format!("the line is longer than {}", human_size(self.size_max as u64));
                return Err(ReadError::bad(self.number, reason));
            }
            if !self.line.is_empty() {
                break;
            }
        }
        Ok(Some((self.number, &self.line)))
    }

    fn strip_line_end(&mut self) {
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
            if self.line.last() == Some(&b'\r') {
                self.line.pop();
            }
        }
    }
}

/// Passes over the rest of a line, with its line end.
pub fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        let found = memchr::memchr(b'\n', buffer);
        let used = found.map_or(buffer.len(), |at| at + 1);
        let at_end = buffer.is_empty();
        input.consume(used);
        if found.is_some() || at_end {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_and_blank_lines_are_left_out_but_counted() {
        let mut lines = Lines::new(&b"a\r\n\n\r\nb\rc\n\nlast"[..]);
        assert_eq!(lines.next().unwrap(), Some((1, &b"a"[..])));
        assert_eq!(lines.next().unwrap(), Some((4, &b"b\rc"[..])));
        assert_eq!(lines.next().unwrap(), Some((6, &b"last"[..])));
        assert_eq!(lines.next().unwrap(), None);
    }

    #[test]
    fn a_line_too_long_is_refused_and_the_next_one_is_read() {
        let mut lines = Lines::with_size_max(&b"12345\n123456\r\n1234567890\nok\n1234567"[..], 5);
        assert_eq!(lines.next().unwrap(), Some((1, &b"12345"[..])));
        for number in [2, 3] {
            match lines.next() {
                Err(ReadError::Bad { line, reason }) => {
                    assert_eq!(line, number);
                    assert!(reason.contains("longer than 5 bytes"), "{reason}");
                }
                other => panic!("line {number}: {other:?}"),
            }
        }
        assert_eq!(lines.next().unwrap(), Some((4, &b"ok"[..])));
        assert!(matches!(lines.next(), Err(ReadError::Bad { line: 5, .. })));
        assert_eq!(lines.next().unwrap(), None);
    }
}
