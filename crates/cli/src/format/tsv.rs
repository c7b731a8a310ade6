//! Tab-separated pairs: `KEY<tab>VALUE`, one per line, any bytes.
//!
//! Four escapes keep every byte string on one line and in one column: `\t` tab, `\n` line feed,
//! `\r` carriage return, `\\` backslash. A reader refuses any other escape. A carriage return right
//! before the line feed belongs to the line end (files from Windows).

use super::columns::{ColumnChoice, Columns};
use super::lines::Lines;
use super::pair::{BYTE_ORDER_MARK, Pair, PairReader, PairWriter, ReadError};
use std::io::{self, BufRead, Write};

/// Reads tab-separated pairs.
pub struct Reader<R> {
    lines: Lines<R>,
    columns: Columns,
}

impl<R: BufRead> Reader<R> {
    /// A reader that has already read the header, if `choice` says there is one.
    pub fn new(input: R, choice: &ColumnChoice) -> Result<Self, ReadError> {
        let mut lines = Lines::new(input);
        let columns = if choice.needs_header() {
            let (number, header) = lines.next()?.unwrap_or((1, b""));
            let names: Vec<&[u8]> = header.split(|byte| *byte == b'\t').collect();
            Columns::resolve(choice, Some(&names), number)?
        } else {
            Columns::resolve(choice, None, 1)?
        };
        Ok(Self { lines, columns })
    }
}

impl<R: BufRead> PairReader for Reader<R> {
    fn read(&mut self, pair: &mut Pair) -> Result<bool, ReadError> {
        let Some((number, line)) = self.lines.next()? else { return Ok(false) };
        pair.line = number;
        if self.columns.is_plain_pair() {
            let (key, value) = split_plain(number, line)?;
            unescape_into(number, key, &mut pair.key)?;
            unescape_into(number, value, &mut pair.value)?;
            return Ok(true);
        }
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b'\t').collect();
        self.columns.pick(fields.len(), |index| fields.get(index).copied(), pair)?;
        for field in [&mut pair.key, &mut pair.value] {
            if memchr::memchr(b'\\', field).is_some() {
                let escaped = std::mem::take(field);
                unescape_into(number, &escaped, field)?;
            }
        }
        Ok(true)
    }
}

fn split_plain(number: u64, line: &[u8]) -> Result<(&[u8], &[u8]), ReadError> {
    let Some(tab) = memchr::memchr(b'\t', line) else {
        let reason = "there is no tab between key and value: write KEY<tab>VALUE, or load with \
                      --keys-only if the lines are keys alone";
        return Err(ReadError::bad(number, reason));
    };
    let (key, value) = (&line[..tab], &line[tab + 1..]);
    if memchr::memchr(b'\t', value).is_some() {
        let reason = "there is more than one tab: write a tab inside a key or value as \\t, or \
                      choose columns with --key-column and --value-column";
        return Err(ReadError::bad(number, reason));
    }
    Ok((key, value))
}

fn unescape_into(number: u64, field: &[u8], out: &mut Vec<u8>) -> Result<(), ReadError> {
    out.clear();
    let mut rest = field;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let byte = match rest.get(at + 1) {
            Some(b't') => b'\t',
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b'\\') => b'\\',
            other => {
                let found = other.map_or_else(String::new, |byte| byte.escape_ascii().to_string());
                let reason = format!(
                    "\\{found} is not an escape (these are: \\t \\n \\r \\\\): write a backslash \
                     as \\\\"
                );
                return Err(ReadError::bad(number, reason));
            }
        };
        out.push(byte);
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// Writes tab-separated pairs.
pub struct Writer<W> {
    output: W,
    keys_only: bool,
    at_start: bool,
}

impl<W: Write> Writer<W> {
    /// A writer that leaves the values out if `keys_only`.
    pub fn new(output: W, keys_only: bool) -> Self {
        Self { output, keys_only, at_start: true }
    }
}

impl<W: Write> PairWriter for Writer<W> {
    fn header(&mut self) -> io::Result<()> {
        self.write(b"key", b"value")
    }

    fn write(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        if std::mem::take(&mut self.at_start) && key.starts_with(BYTE_ORDER_MARK) {
            self.output.write_all(BYTE_ORDER_MARK)?;
        }
        write_field(&mut self.output, key)?;
        if !self.keys_only {
            self.output.write_all(b"\t")?;
            write_field(&mut self.output, value)?;
        }
        self.output.write_all(b"\n")
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// Writes one key or value with its escapes.
pub fn write_field(output: &mut impl Write, field: &[u8]) -> io::Result<()> {
    let mut rest = field;
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b'\\'))
    {
        output.write_all(&rest[..at])?;
        output.write_all(match rest[at] {
            b'\t' => b"\\t",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            _ => b"\\\\",
        })?;
        rest = &rest[at + 1..];
    }
    output.write_all(rest)
}
