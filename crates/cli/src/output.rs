//! The one way to the standard output: locked once, buffered, and quiet about closed pipes.
//!
//! `everleaf scan POOL | head` closes the pipe while the scan still writes. Rust programs see that
//! as an ordinary write error; here it becomes a [`Failure`] without a message and with exit code
//! 0, which ends the command at once and in silence. A copy of a pool (`export`, `backup`) is of no use in part: there
//! it is a failure like any other.
//!
//! A standard output that was closed from the start (`>&-`) is no empty one: what is written to it fails.

use crate::failure::Failure;
use everleaf::standard_output_was_closed;
use serde::Serialize;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes gathered before they are written.
const BUFFER_SIZE: usize = 64 << 10;

/// The buffered standard output of one command.
pub struct Output {
    writer: BufWriter<Standard>,
}

/// The standard output, unless it was closed when the program began.
struct Standard {
    lock: StdoutLock<'static>,
    is_closed: bool,
}

impl Write for Standard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.is_closed {
            true => Err(closed()),
            false => self.lock.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lock.flush()
    }
}

/// The answer of the system to a write to a closed descriptor.
fn closed() -> io::Error {
    io::Error::from_raw_os_error(libc::EBADF)
}

/// Why what something else prints goes nowhere, if it does.
pub fn refuse_closed() -> Result<(), Failure> {
    match standard_output_was_closed() {
        true => Err(Failure::output(&closed())),
        false => Ok(()),
    }
}

impl Default for Output {
    fn default() -> Self {
        Self::new()
    }
}

impl Output {
    /// Locks the standard output until the command ends.
    pub fn new() -> Self {
        let output =
            Standard { lock: io::stdout().lock(), is_closed: standard_output_was_closed() };
        Self { writer: BufWriter::with_capacity(BUFFER_SIZE, output) }
    }

    /// Writes bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.writer.write_all(bytes).map_err(|error| Failure::output(&error))
    }

    /// Writes one line of text.
    pub fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())?;
        self.bytes(b"\n")
    }

    /// Writes one JSON document on a line of its own. All documents have their fields in the order of the alphabet:
    /// structures declare them so.
    pub fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value).map_err(|error| Failure::output(&error.into()))?;
        self.line(&text)
    }

    /// Writes out what is still buffered.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.writer.flush().map_err(|error| Failure::output(&error))
    }

    /// As [`Self::flush`], of what is of no use in part.
    pub fn flush_whole(&mut self) -> Result<(), Failure> {
        self.writer.flush().map_err(|error| Failure::cut_off(&error))
    }

    /// True when a person, not a file or a pipe, reads the output.
    pub fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// The writer itself, for code that formats pairs; its errors go through [`Failure::output`].
    pub fn writer(&mut self) -> &mut impl Write {
        &mut self.writer
    }
}

static PROGRAM: OnceLock<&'static str> = OnceLock::new();

/// Says what the program is called in its messages, if not `everleaf`.
pub fn name_program(name: &'static str) {
    PROGRAM.get_or_init(|| name);
}

/// What the program is called in its messages.
pub fn program() -> &'static str {
    PROGRAM.get_or_init(|| "everleaf")
}

static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Has errors and remarks told as JSON from now on.
pub fn report_as_json() {
    // Relaxed: a flag of one thread, and no more than how an error looks.
    IS_JSON.store(true, Ordering::Relaxed);
}

/// Whether errors and remarks are told as JSON.
pub fn is_reported_as_json() -> bool {
    // Relaxed: a flag of one thread, as in `report_as_json`.
    IS_JSON.load(Ordering::Relaxed)
}

/// What is remarked as JSON.
#[derive(Serialize)]
struct Remark<'a> {
    remark: &'a str,
}

/// Writes a remark to the standard error, as JSON if errors are told so. A standard error that cannot be written is
/// ignored.
pub fn remark(text: &str) {
    if is_reported_as_json() {
        return remark_as_json(&Remark { remark: text });
    }
    let _ = writeln!(io::stderr().lock(), "{}: {text}", program());
}

/// Writes a JSON object in a line of the standard error. One that cannot be written is ignored.
pub fn remark_as_json(object: &impl Serialize) {
    let line = serde_json::to_string(object).map_err(io::Error::from);
    let _ = line.and_then(|line| writeln!(io::stderr().lock(), "{line}"));
}

/// A time in the unit in which it has one to three digits before the point: `0.4 ms`, `31 ms`, `2.5 s`,
/// `3 min 20 s`.
pub fn human_duration(seconds: f64) -> String {
    let milliseconds = seconds * 1e3;
    match seconds {
        ..0.01 => format!("{milliseconds:.1} ms"),
        0.01..0.9995 => format!("{milliseconds:.0} ms"),
        0.9995..10.0 => format!("{seconds:.1} s"),
        10.0..120.0 => format!("{seconds:.0} s"),
        _ => format!("{:.0} min {:.0} s", (seconds / 60.0).floor(), (seconds % 60.0).floor()),
    }
}

/// A number with its noun: "1 line", "2 lines".
pub fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::human_duration;

    #[test]
    fn times_are_shown_in_units_of_people() {
        let expected = [
            (0.0, "0.0 ms"),
            (0.000_61, "0.6 ms"),
            (0.0312, "31 ms"),
            (0.9999, "1.0 s"),
            (2.54, "2.5 s"),
            (45.4, "45 s"),
            (200.9, "3 min 20 s"),
        ];
        for (seconds, text) in expected {
            assert_eq!(human_duration(seconds), text);
        }
    }
}
