//! What another program once did, read from a file and done again.
//!
//! Two kinds of lines are understood, also in one file. Empty lines, and lines that begin with `#`,
//! say nothing.
//!
//! ```text
//!   get KEY                 reads the value of a key, which may be absent
//!   put KEY SIZE            sets the value of a key to SIZE bytes
//!   del KEY                 removes a key, which may be absent
//!   scan KEY COUNT          reads up to COUNT pairs from KEY on
//!
//!   1339518083.107412 [0 127.0.0.1:60866] "set" "key" "value"          what `MONITOR` of Redis prints
//! ```
//!
//! Fields are separated by spaces or tabs. In a key, `\xHH` is the byte of this hexadecimal number
//! and `\\` a backslash, so that a key may have any bytes.
//!
//! A trace says what was done, not what was there before. So the keys that it reads before it
//! writes them are loaded beforehand, with values of the size of the settings. Operations of one key
//! are done by one thread, in the order of the file; so which reads find something is known
//! beforehand, and checked. The times in a capture are not used: a rate can be given instead.

mod line;
mod monitor;
mod operations;

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::error::BenchError;
use crate::keys::{KeyList, hash};
use crate::stream::{OwnStreams, Plan, Stream};
use crate::workload::Action;
pub use operations::Trace;

impl Trace {
    /// The trace in a file.
    ///
    /// # Errors
    /// The file cannot be read, has a line that means nothing, or no operation at all.
    pub fn read(path: &Path) -> Result<Self, BenchError> {
        let refused = |error| BenchError::Io(format!("cannot read {}", path.display()), error);
        let file = File::open(path).map_err(refused)?;
        Self::parse(BufReader::new(file), &path.display().to_string())
    }

    /// The trace in a text that is called `name` in errors.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn parse(mut lines: impl BufRead, name: &str) -> Result<Self, BenchError> {
        let (mut trace, mut line, mut number) = (Trace::default(), Vec::new(), 0);
        loop {
            line.clear();
            number += 1;
            let read = lines.read_until(b'\n', &mut line);
            if read.map_err(|error| BenchError::Io(format!("cannot read {name}"), error))? == 0 {
                break;
            }
            let wrong = |why| BenchError::Settings(format!("{name}, line {number}: {why}"));
            let line = line.trim_ascii();
            match line.first() {
                None | Some(b'#') => {}
                Some(b'0'..=b'9') => monitor::parse(line, &mut trace).map_err(wrong)?,
                // A capture begins with the answer to the command that started it.
                Some(_) if line == b"OK" => {}
                Some(_) => line::parse(line, &mut trace).map_err(wrong)?,
            }
        }
        if trace.operations.is_empty() {
            let text = format!("{name} has no operation on single keys that could be replayed");
            return Err(BenchError::Settings(text));
        }
        Ok(trace)
    }
}

/// Distributes a trace over the threads of the plan.
pub(crate) fn draw<K: KeyList>(
    trace: &Trace,
    plan: &Plan,
    new_keys: impl Fn(usize) -> K,
) -> OwnStreams<K> {
    let mut fill = Stream::plain(new_keys(0), 0);
    let new_stream = || Stream { expected: Some(0), ..Stream::plain(new_keys(0), 0) };
    let mut streams: Vec<Stream<K>> = (0..plan.threads).map(|_| new_stream()).collect();
    let mut presence: HashMap<&[u8], bool> = HashMap::new();
    for (step, range) in &trace.operations {
        let key = &trace.texts[range.clone()];
        let stream = &mut streams[(hash(key) % plan.threads as u64) as usize];
        stream.keys.push_text(key);
        stream.steps.push(*step);
        stream.timed += 1;
        if step.action == Action::Scan {
            continue;
        }
        let is_present = presence.entry(key).or_insert_with(|| {
            let is_read_first = step.action != Action::Put;
            if is_read_first {
                fill.keys.push_text(key);
                fill.timed += 1;
            }
            is_read_first
        });
        match step.action {
            Action::Put => *is_present = true,
            Action::Remove => *is_present = false,
            _ => {}
        }
        if step.action == Action::Get && *is_present {
            stream.expected = stream.expected.map(|count| count + 1);
        }
    }
    let population = presence.values().filter(|is_present| **is_present).count() as u64;
    for (thread, stream) in streams.iter_mut().enumerate() {
        stream.due = Plan { timed: stream.timed, ..*plan }.due(thread);
    }
    OwnStreams { fill, streams, population }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Distribution;
    use crate::keys::BytesKeys;
    use crate::workload::Workload;

    fn plan(threads: usize) -> Plan {
        Plan {
            workload: Workload::Trace,
            distribution: Distribution::Uniform,
            threads,
            population: 0,
            warm_up: 0,
            timed: 0,
            scan_length: 1,
            arrivals: None,
            seed: 1,
        }
    }

    #[test]
    fn what_is_read_before_it_is_written_is_there_beforehand() {
        let text = b"get a\nput b 3\nget b\ndel c\nget c\nscan d 5\nput c 1\n";
        let trace = Trace::parse(&text[..], "t").unwrap();
        let drawn = draw(&trace, &plan(1), |_| BytesKeys::new(8, 0));
        assert_eq!(drawn.fill.timed, 2);
        assert_eq!((drawn.fill.keys.key(0), drawn.fill.keys.key(1)), (&b"a"[..], &b"c"[..]));
        assert_eq!(drawn.streams[0].expected, Some(2), "a and b are found, c is not");
        assert_eq!(drawn.population, 3, "a, b, c");
    }

    #[test]
    fn the_operations_of_a_key_stay_on_one_thread_in_order() {
        let text: String = (0..300).map(|at| format!("put key{} {at}\n", at * at % 37)).collect();
        let trace = Trace::parse(text.as_bytes(), "t").unwrap();
        let drawn = draw(&trace, &plan(3), |_| BytesKeys::new(8, 0));
        let mut owner = HashMap::new();
        for (thread, stream) in drawn.streams.iter().enumerate() {
            assert!(stream.timed > 30, "{}", stream.timed);
            for at in 0..stream.timed {
                let place = owner.entry(stream.keys.key(at).to_vec()).or_insert((thread, 0));
                assert!(place.0 == thread && place.1 <= stream.steps[at].length);
                place.1 = stream.steps[at].length;
            }
        }
        assert_eq!(drawn.streams.iter().map(|stream| stream.timed).sum::<usize>(), 300);
    }

    #[test]
    fn a_file_that_cannot_be_replayed_is_refused_by_its_line() {
        for (text, part) in [
            ("# nothing\n\n", "no operation"),
            ("get a\nfetch b\n", "t, line 2"),
            ("put a\n", "SIZE"),
            ("scan a 0\n", "1 to 1000000"),
            ("get a b\n", "line 1"),
            ("get \\xg1\n", "\\xHH"),
            ("1.0 [0 :1] \"ping\"\n", "no operation"),
            ("1.0 \"get\" \"a\"\n", "MONITOR"),
        ] {
            let error = Trace::parse(text.as_bytes(), "t").unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
