//! Why a command did not do what was asked: one sentence for a person, one code for a script.

use crate::exit_code::ExitCode;
use crate::output::{is_reported_as_json, program};
use everleaf::Error;
use serde::Serialize;
use std::io::{self, ErrorKind, Write};

/// Why a command stopped. The message says what is wrong, where, and what to do.
#[derive(Debug)]
pub struct Failure {
    /// What the process ends with.
    pub code: ExitCode,
    /// The sentence to show; empty when there is nothing to say (the reader of a pipe went away).
    pub message: String,
}

impl Failure {
    /// A failure with this code and sentence.
    pub fn new(code: ExitCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The command line is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Usage, message)
    }

    /// A key or map is absent, or a condition did not hold.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ExitCode::NotFound, message)
    }

    /// The operating system refused `what` (for example "cannot read words.tsv").
    pub fn io(what: &str, error: &io::Error) -> Self {
        let advice = everleaf::descriptor_advice(error);
        Self::new(code_of_io(error), format!("{what}: {error}{advice}"))
    }

    /// Writing the standard output failed. A reader that went away is no failure at all.
    pub fn output(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::BrokenPipe => Self::new(ExitCode::Success, ""),
            _ => Self::io("cannot write the output", error),
        }
    }

    /// Writing the standard output failed, of something that is of no use in part.
    pub fn cut_off(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::BrokenPipe => Self::new(
                ExitCode::Io,
                "the output is cut off: the program that read it went away before its end",
            ),
            _ => Self::output(error),
        }
    }

    /// Writes the sentence to the standard error, as text or as a JSON object.
    ///
    /// A standard error that cannot be written leaves only the exit code to tell; that is ignored.
    pub fn report(&self, json: bool) {
        if self.message.is_empty() {
            return;
        }
        let mut stderr = io::stderr().lock();
        let _ = if json || is_reported_as_json() {
            let told = Told { code: self.code as u8, error: &self.message };
            let object = serde_json::to_string(&told).map_err(io::Error::from);
            object.and_then(|object| writeln!(stderr, "{object}"))
        } else {
            writeln!(stderr, "{}: {}", program(), self.message)
        };
    }
}

/// What is told as JSON.
#[derive(Serialize)]
struct Told<'a> {
    code: u8,
    error: &'a str,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(code_of_store(&error), error.to_string())
    }
}

/// The exit code for an error of the store.
pub fn code_of_store(error: &Error) -> ExitCode {
    match error {
        Error::NotFound(_)
        | Error::AlreadyExists(_)
        | Error::NotAPool(_)
        | Error::MachineCrashed(_)
        | Error::Corrupt(_)
        | Error::Unfinished => ExitCode::Pool,
        Error::Locked(_) => ExitCode::Locked,
        Error::DiskFull(_) | Error::PoolFull(_) | Error::LogFull(_) => ExitCode::Full,
        Error::KeyTooLarge(_)
        | Error::ValueTooLarge(_)
        | Error::BatchTooLarge(_)
        | Error::NotSorted(_) => ExitCode::BadInput,
        Error::BadName(_) | Error::MapDropped => ExitCode::Usage,
        Error::Io(_, error) => code_of_io(error),
        _ => ExitCode::Io,
    }
}

fn code_of_io(error: &io::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => ExitCode::Full,
        // The system's, and not ours of what is too long to be read.
        ErrorKind::FileTooLarge if error.raw_os_error().is_some() => ExitCode::Full,
        _ => ExitCode::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_of_store_error_has_its_own_code() {
        let text = || "why".to_string();
        let cases = [
            (Error::NotFound("p".into()), ExitCode::Pool),
            (Error::AlreadyExists("p".into()), ExitCode::Pool),
            (Error::NotAPool(text()), ExitCode::Pool),
            (Error::MachineCrashed(text()), ExitCode::Pool),
            (Error::Corrupt(text()), ExitCode::Pool),
            (Error::Locked(text()), ExitCode::Locked),
            (Error::DiskFull(text()), ExitCode::Full),
            (Error::PoolFull(text()), ExitCode::Full),
            (Error::LogFull(text()), ExitCode::Full),
            (Error::LogFailed(text()), ExitCode::Io),
            (Error::PoolGone(text()), ExitCode::Io),
            (Error::Io(text(), io::Error::from_raw_os_error(27)), ExitCode::Full),
            (Error::Io(text(), ErrorKind::FileTooLarge.into()), ExitCode::Io),
            (Error::KeyTooLarge(1), ExitCode::BadInput),
            (Error::ValueTooLarge(1), ExitCode::BadInput),
            (Error::BadName(text()), ExitCode::Usage),
            (Error::ReadOnly, ExitCode::Io),
            (Error::Unsupported(text()), ExitCode::Io),
            (Error::TooManySessions(text()), ExitCode::Io),
            (Error::Io(text(), ErrorKind::PermissionDenied.into()), ExitCode::Io),
            (Error::Io(text(), ErrorKind::StorageFull.into()), ExitCode::Full),
        ];
        for (error, code) in cases {
            assert_eq!(code_of_store(&error), code, "{error:?}");
        }
    }

    #[test]
    fn a_reader_that_went_away_is_a_silent_success() {
        let failure = Failure::output(&ErrorKind::BrokenPipe.into());
        assert_eq!(failure.code, ExitCode::Success);
        assert!(failure.message.is_empty());
        assert_eq!(Failure::output(&ErrorKind::StorageFull.into()).code, ExitCode::Full);
    }
}
