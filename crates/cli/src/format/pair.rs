//! What is read from a line and written to one, in every format.

use std::io;

/// One key and its value as read from a line; reused from line to line.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// The key.
    pub key: Vec<u8>,
    /// The value; empty when only keys are read.
    pub value: Vec<u8>,
    /// The line it starts on; the first line of a file is 1.
    pub line: u64,
}

/// Why a reader could not give the next pair.
#[derive(Debug)]
pub enum ReadError {
    /// This line is malformed; the next call goes on after it.
    Bad {
        /// The line; the first line of a file is 1.
        line: u64,
        /// What is wrong and what to do.
        reason: String,
    },
    /// The input cannot be read any further.
    Io(io::Error),
}

impl ReadError {
    /// A malformed line.
    pub fn bad(line: u64, reason: impl Into<String>) -> Self {
        Self::Bad { line, reason: reason.into() }
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The mark that some editors put at the start of a UTF-8 file. Readers leave it out; a writer
/// whose first key starts with it writes it once more, so that the key survives.
pub(super) const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Reads pairs, one at a time. Blank lines are passed over in every format.
pub trait PairReader {
    /// Reads the next pair into `pair`; false at the end of the input.
    fn read(&mut self, pair: &mut Pair) -> Result<bool, ReadError>;
}

/// Writes pairs, one per line.
pub trait PairWriter {
    /// Writes the line that names the columns; nothing in a format that has no such line.
    fn header(&mut self) -> io::Result<()>;
    /// Writes one pair.
    fn write(&mut self, key: &[u8], value: &[u8]) -> io::Result<()>;
    /// Writes out what is still buffered.
    fn flush(&mut self) -> io::Result<()>;
}
