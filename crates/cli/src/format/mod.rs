//! The file formats of `load` and `export`: one pair per line, in and out.
//!
//! ```text
//!   tsv     KEY<tab>VALUE              \t \n \r \\ stand for tab, line feed, carriage return
//!                                      and backslash
//!   csv     KEY,VALUE                  quoted where needed, as RFC 4180 says; any column order
//!   jsonl   {"key":"K","value":"V"}    "key_b64" / "value_b64" for what is not UTF-8
//! ```
//!
//! What a writer writes, the reader of the same format reads back unchanged, byte for byte; and a
//! file in the writer's own form, sorted by key, comes out of load and export as it was.

pub mod columns;
pub mod csv;
pub mod jsonl;
pub mod lines;
pub mod resp;
pub mod tsv;

use clap::ValueEnum;
use columns::ColumnChoice;
use std::io::{self, BufRead, Write};
use std::path::Path;

/// A format of pairs, one per line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Key, tab, value; backslash escapes (.tsv, .tab, .txt)
    Tsv,
    /// Comma-separated, quoted where needed (.csv)
    Csv,
    /// One JSON object per line (.jsonl, .ndjson, .json)
    Jsonl,
}

impl Format {
    /// The format that the extension of a file name stands for.
    pub fn of_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "tsv" | "tab" | "txt" => Some(Self::Tsv),
            "csv" => Some(Self::Csv),
            "jsonl" | "ndjson" | "json" => Some(Self::Jsonl),
            _ => None,
        }
    }

    /// A reader of this format. Errors are a header line that does not have the chosen columns.
    pub fn reader<'a>(
        self,
        input: impl BufRead + 'a,
        choice: &ColumnChoice,
    ) -> Result<Box<dyn PairReader + 'a>, ReadError> {
        Ok(match self {
            Self::Tsv => Box::new(tsv::Reader::new(input, choice)?),
            Self::Csv => Box::new(csv::Reader::new(input, choice)?),
            Self::Jsonl => Box::new(jsonl::Reader::new(input, choice.keys_only)),
        })
    }

    /// A writer of this format; `keys_only` leaves the values out.
    pub fn writer<'a>(self, output: impl Write + 'a, keys_only: bool) -> Box<dyn PairWriter + 'a> {
        match self {
            Self::Tsv => Box::new(tsv::Writer::new(output, keys_only)),
            Self::Csv => Box::new(csv::Writer::new(output, keys_only)),
            Self::Jsonl => Box::new(jsonl::Writer::new(output, keys_only)),
        }
    }
}

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
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

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

#[cfg(test)]
mod tests;
