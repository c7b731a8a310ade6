//! JSON lines: `{"key":"K","value":"V"}`, one object per line.
//!
//! A key or value that is not UTF-8, or a long one of which most is control characters, is written, and may always be
//! read, as base64 under `"key_b64"` or `"value_b64"`. Other members of an object are passed over.

use super::lines::Lines;
use super::{Pair, PairReader, PairWriter, ReadError};
use data_encoding::BASE64;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::io::{self, BufRead, Write};

/// Up to so many bytes a text may be as long as it likes.
const SHORT: usize = 100;

/// Reads JSON lines.
pub struct Reader<R> {
    lines: Lines<R>,
    keys_only: bool,
}

impl<R: BufRead> Reader<R> {
    /// A reader that expects no values if `keys_only`.
    pub fn new(input: R, keys_only: bool) -> Self {
        Self { lines: Lines::new(input), keys_only }
    }
}

/// The members of an object that matter.
#[derive(Deserialize)]
struct Object {
    key: Option<String>,
    key_b64: Option<String>,
    value: Option<String>,
    value_b64: Option<String>,
}

impl<R: BufRead> PairReader for Reader<R> {
    fn read(&mut self, pair: &mut Pair) -> Result<bool, ReadError> {
        loop {
            let Some((number, line)) = self.lines.next()? else { return Ok(false) };
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            pair.line = number;
            let bad = |reason: String| ReadError::bad(number, reason);
            let no_object = |why: &str| {
                bad(format!(
                    "{why}: each line must be one object like {{\"key\":\"K\",\"value\":\"V\"}}"
                ))
            };
            // An array would be taken for the members in their order.
            if line.trim_ascii_start().first() != Some(&b'{') {
                return Err(no_object("this is none"));
            }
            let object: Object =
                serde_json::from_slice(line).map_err(|error| no_object(&describe(&error)))?;
            pair.key = decode("key", object.key, object.key_b64).map_err(bad)?;
            pair.value = match self.keys_only {
                true => Vec::new(),
                false => decode("value", object.value, object.value_b64).map_err(bad)?,
            };
            return Ok(true);
        }
    }
}

/// The parser counts lines within the line, always 1; only the column helps.
fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    format!("{} at column {}", &text[..end], error.column())
}

fn decode(name: &str, text: Option<String>, base64: Option<String>) -> Result<Vec<u8>, String> {
    match (text, base64) {
        (Some(text), None) => Ok(text.into_bytes()),
        (None, Some(base64)) => BASE64
            .decode(base64.as_bytes())
            .map_err(|error| format!("\"{name}_b64\" is not base64: {error}")),
        (None, None) => {
            Err(format!("the object has neither \"{name}\" nor \"{name}_b64\": add one of them"))
        }
        (Some(_), Some(_)) => {
            Err(format!("the object has both \"{name}\" and \"{name}_b64\": leave one of them out"))
        }
    }
}

/// Adds a key or value to an object: as text if it is UTF-8, otherwise in base64.
pub fn insert(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_string(), text.into()),
        Err(_) => object.insert(format!("{name}_b64"), BASE64.encode(bytes).into()),
    };
}

/// Whether a text would be more than twice as long as a string of JSON, where six characters stand for a control
/// character: the longest line of a reader has room for less. A short one is left to be read by people.
fn is_mostly_escaped(text: &str) -> bool {
    let more = |byte: u8| match byte {
        0x08 | b'\t' | b'\n' | 0x0c | b'\r' | b'"' | b'\\' => 1,
        ..0x20 => 5,
        _ => 0,
    };
    text.len() > SHORT && text.bytes().map(more).sum::<usize>() > text.len()
}

/// Writes JSON lines.
pub struct Writer<W> {
    output: W,
    keys_only: bool,
}

impl<W: Write> Writer<W> {
    /// A writer that leaves the values out if `keys_only`.
    pub fn new(output: W, keys_only: bool) -> Self {
        Self { output, keys_only }
    }

    /// Writes the members by hand: a derived form would copy every value to say of it that it is no text.
    fn member(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        match std::str::from_utf8(bytes) {
            Ok(text) if !is_mostly_escaped(text) => {
                write!(self.output, "\"{name}\":")?;
                serde_json::to_writer(&mut self.output, text).map_err(io::Error::from)
            }
            _ => write!(self.output, "\"{name}_b64\":\"{}\"", BASE64.encode_display(bytes)),
        }
    }
}

impl<W: Write> PairWriter for Writer<W> {
    fn header(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn write(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.output.write_all(b"{")?;
        self.member("key", key)?;
        if !self.keys_only {
            self.output.write_all(b",")?;
            self.member("value", value)?;
        }
        self.output.write_all(b"}\n")
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
