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
mod pair;
pub mod resp;
pub mod tsv;

use clap::ValueEnum;
use columns::ColumnChoice;
use std::io::{BufRead, Write};
use std::path::Path;

pub use pair::{Pair, PairReader, PairWriter, ReadError};

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

#[cfg(test)]
mod tests;
