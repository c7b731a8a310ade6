//! Comma-separated pairs as RFC 4180 has them: fields are quoted where needed, any bytes.
//!
//! The reader drives `csv-core`, the state machine of the `csv` crate, itself, for three things
//! that the crate does not give: the line on which a record really starts, a bound on the memory
//! that a record may take, and the discovery of a quote that is never closed.

use super::columns::{ColumnChoice, Columns};
use super::lines::{LINE_SIZE_MAX, skip_line};
use super::pair::{BYTE_ORDER_MARK, Pair, PairReader, PairWriter, ReadError};
use csv_core::ReadRecordResult;
use everleaf::human_size;
use std::io::{self, BufRead, Write};

/// The most columns a record may have.
const COLUMN_COUNT_MAX: usize = 1 << 16;

/// Reads comma-separated pairs.
pub struct Reader<R> {
    records: Records<R>,
    columns: Columns,
}

impl<R: BufRead> Reader<R> {
    /// A reader that has already read the header, if `choice` says there is one.
    pub fn new(input: R, choice: &ColumnChoice) -> Result<Self, ReadError> {
        let mut records = Records::new(input, LINE_SIZE_MAX);
        let columns = if choice.needs_header() {
            records.advance()?;
            let fields = 0..records.count;
            let names: Vec<&[u8]> = fields.filter_map(|index| records.field(index)).collect();
            Columns::resolve(choice, Some(&names), records.start_line)?
        } else {
            Columns::resolve(choice, None, 1)?
        };
        Ok(Self { records, columns })
    }
}

impl<R: BufRead> PairReader for Reader<R> {
    fn read(&mut self, pair: &mut Pair) -> Result<bool, ReadError> {
        if !self.records.advance()? {
            return Ok(false);
        }
        pair.line = self.records.start_line;
        self.columns.pick(self.records.count, |index| self.records.field(index), pair)?;
        Ok(true)
    }
}

/// Records of an input, one at a time.
struct Records<R> {
    input: R,
    machine: csv_core::Reader,
    /// The unquoted bytes of the current record, one field after another.
    bytes: Vec<u8>,
    /// Where each field ends in `bytes`.
    ends: Vec<usize>,
    /// The fields of the current record.
    count: usize,
    /// The line on which the current record starts.
    start_line: u64,
    /// The line that is read next.
    line: u64,
    size_max: usize,
}

impl<R: BufRead> Records<R> {
    fn new(input: R, size_max: usize) -> Self {
        Self {
            input,
            machine: csv_core::Reader::new(),
            bytes: vec![0; 1024],
            ends: vec![0; 16],
            count: 0,
            start_line: 1,
            line: 1,
            size_max,
        }
    }

    /// A field of the current record.
    fn field(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends[..self.count].get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.bytes[start..end])
    }

    /// Reads the next record; false at the end of the input.
    fn advance(&mut self) -> Result<bool, ReadError> {
        self.count = 0;
        self.skip_line_ends()?;
        self.start_line = self.line;
        let (mut byte_count, mut field_count) = (0, 0);
        let mut started = false;
        loop {
            let buffer = self.input.fill_buf()?;
            let at_end = buffer.is_empty();
            if at_end && !started {
                return Ok(false);
            }
            // A last line without a line feed gets one; inside an open quote it ends nothing.
            let input = if at_end { b"\n" } else { buffer };
            let (bytes, ends) = (&mut self.bytes[byte_count..], &mut self.ends[field_count..]);
            let (result, used, written, ended) = self.machine.read_record(input, bytes, ends);
            self.line += memchr::memchr_iter(b'\n', &input[..used]).count() as u64;
            if !at_end {
                self.input.consume(used);
            }
            started = true;
            byte_count += written;
            field_count += ended;
            match result {
                ReadRecordResult::InputEmpty if at_end => return Err(self.never_closed()),
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull if self.bytes.len() < self.size_max => {
                    self.bytes.resize((self.bytes.len() * 2).min(self.size_max), 0);
                }
                ReadRecordResult::OutputEndsFull if self.ends.len() < COLUMN_COUNT_MAX => {
                    self.ends.resize(self.ends.len() * 2, 0);
                }
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    return Err(self.too_large());
                }
                ReadRecordResult::Record => break,
                ReadRecordResult::End => return Ok(false),
            }
        }
        self.count = field_count;
        Ok(true)
    }

    /// Passes over blank lines, and the line feed after the carriage return that ended a record.
    fn skip_line_ends(&mut self) -> io::Result<()> {
        loop {
            let buffer = self.input.fill_buf()?;
            let ends = buffer.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
            self.line += memchr::memchr_iter(b'\n', &buffer[..ends]).count() as u64;
            let is_done = ends < buffer.len() || buffer.is_empty();
            self.input.consume(ends);
            if is_done {
                return Ok(());
            }
        }
    }

    fn never_closed(&mut self) -> ReadError {
        self.machine.reset();
        let reason = "a quote is opened in this record and never closed: close it, and write a \
                      quote inside a quoted field twice";
        ReadError::bad(self.start_line, reason)
    }

    fn too_large(&mut self) -> ReadError {
        self.machine.reset();
        // An empty line: only at the very start of the input a byte order mark is none of the first key.
        let _ = self.machine.read_record(b"\n", &mut self.bytes, &mut self.ends);
        let reason = format!(
            "the record is longer than {} or has more than {COLUMN_COUNT_MAX} columns: is \
             there a quote that is never closed?",
            human_size(self.size_max as u64)
        );
        match skip_line(&mut self.input) {
            Ok(()) => self.line += 1,
            Err(error) => return error.into(),
        }
        ReadError::bad(self.start_line, reason)
    }
}

/// Writes comma-separated pairs.
pub struct Writer<W: Write> {
    records: csv::Writer<W>,
    keys_only: bool,
    at_start: bool,
}

impl<W: Write> Writer<W> {
    /// A writer that leaves the values out if `keys_only`.
    pub fn new(output: W, keys_only: bool) -> Self {
        Self { records: csv::Writer::from_writer(output), keys_only, at_start: true }
    }
}

impl<W: Write> PairWriter for Writer<W> {
    fn header(&mut self) -> io::Result<()> {
        self.write(b"key", b"value")
    }

    fn write(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let marked;
        // In quotes it is not at the very start, and nobody takes it away.
        let is_quoted = key.iter().any(|byte| b",\"\r\n".contains(byte));
        let is_at_start = std::mem::take(&mut self.at_start) && !is_quoted;
        let key = if is_at_start && key.starts_with(BYTE_ORDER_MARK) {
            marked = [BYTE_ORDER_MARK, key].concat();
            &marked
        } else {
            key
        };
        let fields = [key, value];
        let count = if self.keys_only { 1 } else { 2 };
        self.records.write_record(&fields[..count]).map_err(cause)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.records.flush()
    }
}

/// The I/O error itself: code that asks for its kind must not find a wrapper.
fn cause(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time, so that every state is left and entered again.
    fn dripping(text: &[u8]) -> impl BufRead {
        io::BufReader::with_capacity(1, text)
    }

    /// The line and the fields of a record, or the line of a malformed one.
    type Seen = Result<(u64, Vec<Vec<u8>>), u64>;

    fn all(mut records: Records<impl BufRead>) -> Vec<Seen> {
        let mut all = Vec::new();
        loop {
            match records.advance() {
                Ok(false) => return all,
                Ok(true) => {
                    let fields = 0..records.count;
                    let fields = fields.map(|index| records.field(index).unwrap().to_vec());
                    all.push(Ok((records.start_line, fields.collect())));
                }
                Err(ReadError::Bad { line, .. }) => all.push(Err(line)),
                Err(ReadError::Io(error)) => panic!("{error}"),
            }
        }
    }

    fn record(line: u64, fields: &[&str]) -> Seen {
        Ok((line, fields.iter().map(|field| field.as_bytes().to_vec()).collect()))
    }

    #[test]
    fn records_start_at_their_lines_for_any_line_end_and_buffer() {
        let text = "a,1\n\n\"b\nb\",\"\"\"2\"\nc\n\n\nd,,\n,";
        let expected = [
            record(1, &["a", "1"]),
            record(3, &["b\nb", "\"2"]),
            record(5, &["c"]),
            record(8, &["d", "", ""]),
            record(9, &["", ""]),
        ];
        assert_eq!(all(Records::new(text.as_bytes(), 1 << 20)), expected);
        assert_eq!(all(Records::new(dripping(text.as_bytes()), 1 << 20)), expected);
        let text = text.replace("\nb", "\u{1}").replace('\n', "\r\n").replace('\u{1}', "\nb");
        assert_eq!(all(Records::new(text.as_bytes(), 1 << 20)), expected);
        assert_eq!(all(Records::new(dripping(text.as_bytes()), 1 << 20)), expected);
    }

    /// What was wrong: a mark in quotes was written twice, and read so.
    #[test]
    fn a_byte_order_mark_of_the_first_key_comes_back_once() {
        for key in ["\u{feff}a", "\u{feff}a,b", "\u{feff}\"", "\u{feff}\u{feff}\n"] {
            let mut written = Vec::new();
            let mut writer = Writer::new(&mut written, false);
            writer.write(key.as_bytes(), b"1").unwrap();
            writer.flush().unwrap();
            drop(writer);
            assert_eq!(all(Records::new(&written[..], 1 << 20)), [record(1, &[key, "1"])]);
        }
    }

    #[test]
    fn a_record_too_large_is_refused_and_takes_no_more_memory() {
        let text = format!("a,1\n{},2\nb,2\n", "x".repeat(5000));
        let records = Records::new(text.as_bytes(), 2048);
        assert_eq!(all(records), [record(1, &["a", "1"]), Err(2), record(3, &["b", "2"])]);
        let text = format!("{}\nb,2\n", ",".repeat(COLUMN_COUNT_MAX));
        let records = Records::new(text.as_bytes(), 1 << 20);
        assert_eq!(all(records), [Err(1), record(2, &["b", "2"])]);
    }

    /// What was lost: the mark that a key begins with, behind a record that was too large.
    #[test]
    fn a_byte_order_mark_stays_behind_a_record_too_large() {
        let text = format!("{},1\n\u{feff}b,2\n\u{feff}c,3\n", "x".repeat(5000));
        let expected = [Err(1), record(2, &["\u{feff}b", "2"]), record(3, &["\u{feff}c", "3"])];
        assert_eq!(all(Records::new(text.as_bytes(), 2048)), expected);
        assert_eq!(all(Records::new(dripping(text.as_bytes()), 2048)), expected);
    }

    #[test]
    fn a_quote_that_is_never_closed_is_named_where_it_starts() {
        for text in ["a,1\nb,\"open\nc,3\n", "a,1\n\"open", "a,1\nb,\""] {
            assert_eq!(all(Records::new(dripping(text.as_bytes()), 1024))[1..], [Err(2)], "{text}");
        }
    }
}
