//! The engine of `load`: one thread reads and parses, several put.
//!
//! ```text
//!   files ---> reader thread --+--> batches ---> writer 0 --\
//!             (parse, choose   +--> batches ---> writer 1 ---+--> the map
//!              by key hash)    +--> batches ---> writer n --/
//! ```
//!
//! A key always goes to the same writer, and a writer keeps the order of its batches: when a key
//! occurs several times, the last line wins (the first with `if_absent`), with any number of
//! writers. When a line is malformed, the lines before it are all put before the load stops.
//! Memory is bounded by [`BATCHES_WAITING`] batches per writer; a pair larger than a batch travels
//! alone.

mod batch;
mod writer;

use crate::failure::{Failure, code_of_store};
use crate::format::{Pair, PairReader, ReadError};
use crate::{exit_code::ExitCode, progress::Progress};
use batch::Dispatcher;
use everleaf::{KEY_SIZE_MAX, Map, Store, VALUE_SIZE_MAX};
use everleaf_server::CollectionHeaders;
use std::thread;
pub use writer::Counts;
use writer::WriterEnd;

/// Batches that may wait for each writer.
const BATCHES_WAITING: usize = 4;
/// Malformed lines that are kept to be shown.
const SHOWN_MAX: usize = 5;

/// How to load.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Writer threads, at least 1.
    pub threads: usize,
    /// Keep the value of a key that is there already.
    pub if_absent: bool,
    /// Pass over malformed lines instead of stopping at the first.
    pub skip_bad: bool,
}

/// One input: its name for messages, its reader, and how many bytes of it have been read.
pub struct Input<'a> {
    /// The name of the file.
    pub name: String,
    /// Reads its pairs; or why its header could not be read.
    pub reader: Result<Box<dyn PairReader + 'a>, ReadError>,
}

/// What was loaded, also when it ended early.
#[derive(Debug, Default)]
pub struct LoadResult {
    /// What the writers did; all of it is in the pool.
    pub counts: Counts,
    /// Malformed lines that were passed over.
    pub skipped: u64,
    /// The first few of them, as sentences.
    pub shown: Vec<String>,
    /// Why the load ended early.
    pub failure: Option<Failure>,
}

/// Loads `inputs` in order into a map of the store. `position` tells how many bytes were read so far, for
/// `progress`.
pub fn run(
    store: &Store,
    map: &Map,
    settings: Settings,
    inputs: &mut [Input<'_>],
    position: &dyn Fn() -> u64,
    progress: &Progress,
) -> LoadResult {
    let mut outcome = LoadResult::default();
    let headers = match CollectionHeaders::of(store) {
        Ok(headers) => headers,
        Err(error) => {
            outcome.failure = Some(error.into());
            return outcome;
        }
    };
    let names: Vec<String> = inputs.iter().map(|input| input.name.clone()).collect();
    let ends = thread::scope(|scope| {
        let start = |batches| {
            let write = move || writer::run(store, map, settings.if_absent, batches);
            thread::Builder::new().spawn_scoped(scope, write)
        };
        let started = Dispatcher::start(settings.threads, BATCHES_WAITING, start);
        let (mut dispatcher, writers) = match started {
            Ok(started) => started,
            Err(error) => {
                let what = "cannot start a thread that loads (raise the limit on threads)";
                outcome.failure = Some(Failure::io(what, &error));
                return vec![];
            }
        };
        let mut session =
            LoadSession { settings, outcome: &mut outcome, position, progress, headers };
        for (index, input) in inputs.iter_mut().enumerate() {
            if session.read_input(index, input, &mut dispatcher).is_err() {
                break;
            }
        }
        dispatcher.finish();
        let join = |writer: thread::ScopedJoinHandle<'_, WriterEnd>| {
            writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        writers.into_iter().map(join).collect::<Vec<_>>()
    });
    for end in &ends {
        outcome.counts.add(&end.counts);
    }
    let errors = ends.into_iter().filter_map(|end| end.error);
    if let Some(first) = errors.min_by_key(|error| error.place) {
        let (input, line) = first.place;
        let message = format!("{}:{line}: {}", names[input], first.error);
        outcome.failure = Some(Failure::new(code_of_store(&first.error), message));
    }
    outcome
}

/// The reading side has to stop; the reason is in the outcome, or with a writer.
struct Stop;

struct LoadSession<'s> {
    settings: Settings,
    outcome: &'s mut LoadResult,
    position: &'s dyn Fn() -> u64,
    progress: &'s Progress,
    headers: CollectionHeaders,
}

impl LoadSession<'_> {
    fn read_input(
        &mut self,
        index: usize,
        input: &mut Input<'_>,
        dispatcher: &mut Dispatcher,
    ) -> Result<(), Stop> {
        let name = &input.name;
        let reader = match &mut input.reader {
            Ok(reader) => reader,
            Err(ReadError::Bad { line, reason }) => {
                // A header without the chosen columns: no line of this file can be read.
                let message = format!("{name}:{line}: {reason}");
                self.outcome.failure = Some(Failure::new(ExitCode::BadInput, message));
                return Err(Stop);
            }
            Err(ReadError::Io(error)) => return self.stop_reading(name, error),
        };
        let mut pair = Pair::default();
        loop {
            let read = reader.read(&mut pair).and_then(|more| check_sizes(more, &pair));
            match read.and_then(|more| check_header(&self.headers, more, &pair)) {
                Ok(false) => return Ok(()),
                Ok(true) => {
                    let sent = dispatcher.push(&pair, index).map_err(|_| Stop)?;
                    if sent {
                        self.progress.set((self.position)());
                    }
                }
                Err(ReadError::Io(error)) => return self.stop_reading(name, &error),
                Err(ReadError::Bad { line, reason }) => {
                    self.bad_line(format!("{name}:{line}: {reason}"))?;
                }
            }
        }
    }

    fn stop_reading(&mut self, name: &str, error: &std::io::Error) -> Result<(), Stop> {
        self.outcome.failure = Some(Failure::io(&format!("cannot read {name}"), error));
        Err(Stop)
    }

    fn bad_line(&mut self, message: String) -> Result<(), Stop> {
        if !self.settings.skip_bad {
            self.outcome.failure = Some(Failure::new(ExitCode::BadInput, message));
            return Err(Stop);
        }
        self.outcome.skipped += 1;
        if self.outcome.shown.len() < SHOWN_MAX {
            self.outcome.shown.push(message);
        }
        Ok(())
    }
}

/// What an older `export` wrote of a collection is no string, and its members are not there.
fn check_header(headers: &CollectionHeaders, more: bool, pair: &Pair) -> Result<bool, ReadError> {
    match headers.kind(&pair.value) {
        Some(kind) if more => {
            let reason = format!(
                "the value is what this pool has of a {kind}, without its members: \
                 `everleaf export --format resp` writes those too"
            );
            Err(ReadError::bad(pair.line, reason))
        }
        _ => Ok(more),
    }
}

fn check_sizes(more: bool, pair: &Pair) -> Result<bool, ReadError> {
    let error = if pair.key.len() > KEY_SIZE_MAX {
        everleaf::Error::KeyTooLarge(pair.key.len())
    } else if pair.value.len() > VALUE_SIZE_MAX {
        everleaf::Error::ValueTooLarge(pair.value.len())
    } else {
        return Ok(more);
    };
    Err(ReadError::bad(pair.line, error.to_string()))
}

#[cfg(test)]
mod tests;
