//! What was measured, in a file: a part for each number of keys and size of pairs, with the reports of all that took
//! part. It is written after every turn of each, so that a run that was cut goes on with the turn that it was cut in.

use std::path::{Path, PathBuf};

use everleaf_bench::BenchError;
use everleaf_bench::report::{Machine, Report, Spread};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::arguments::{Arguments, Sizes};

/// What is in the file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Parts {
    parts: Vec<Part>,
}

/// What was measured in one way by one program on one machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Part {
    command: String,
    way: Way,
    machine: Machine,
    /// What it took.
    seconds: f64,
    /// As the bench writes them, each with its `what`: one for everybody who took part.
    reports: Vec<Value>,
}

/// How a part is measured: everything that its figures depend on, but the program and the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Way {
    keys: u64,
    /// Bytes of keys and of values.
    sizes: [usize; 2],
    threads: Vec<usize>,
    load_threads: Vec<usize>,
    rivals: Vec<String>,
    workloads: Vec<String>,
    rounds: usize,
    seconds: Option<f64>,
    operations: Option<u64>,
    scan_length: u32,
    seed: u64,
    has_rocksdb: bool,
}

impl Way {
    /// How the arguments have so many keys of these sizes measured.
    pub fn of(arguments: &Arguments, keys: u64, sizes: Sizes, rounds: usize) -> Self {
        Way {
            keys,
            sizes: [sizes.key, sizes.value],
            threads: arguments.threads.clone(),
            load_threads: arguments.load_threads.clone(),
            rivals: arguments.rivals.clone(),
            workloads: arguments.workloads.iter().map(|one| one.name().to_owned()).collect(),
            rounds,
            seconds: arguments.ops.is_none().then_some(arguments.seconds),
            operations: arguments.ops,
            scan_length: arguments.scan_length,
            seed: arguments.seed,
            has_rocksdb: cfg!(feature = "rocksdb"),
        }
    }
}

/// The parts that a file holds.
pub struct Kept {
    path: Option<PathBuf>,
    command: String,
    file: Parts,
}

impl Kept {
    /// What the file of the arguments holds; nothing if there is none, or if all is to be rebuilt.
    ///
    /// # Errors
    /// The file cannot be read, or is another's.
    pub fn open(arguments: &Arguments) -> Result<Self, BenchError> {
        let file = match &arguments.json {
            Some(path) if !arguments.again && path.exists() => parts_in(path)?,
            _ => Parts::default(),
        };
        Ok(Kept { path: arguments.json.clone(), command: arguments.shown(), file })
    }

    /// The place of the part that is measured in this way by this very program on this machine. Takes
    /// the place of an older one of the same keys and sizes.
    pub fn part(&mut self, way: &Way) -> usize {
        let here = Machine::here();
        let is_known = |part: &Part| part.way == *way && part.machine.is_same(&here);
        let parts = &mut self.file.parts;
        if let Some(place) = parts.iter().position(is_known) {
            return place;
        }
        parts.retain(|part| (part.way.keys, part.way.sizes) != (way.keys, way.sizes));
        let (command, way) = (self.command.clone(), way.clone());
        parts.push(Part { command, way, machine: here, seconds: 0.0, reports: vec![] });
        parts.len() - 1
    }

    /// Rounds that a part has of somebody.
    pub fn rounds(&self, part: usize, name: &str) -> usize {
        let own = self.file.parts[part].reports.iter().find(|one| one["setup"]["index"] == name);
        own.and_then(|report| report["setup"]["rounds"].as_u64()).unwrap_or(0) as usize
    }

    /// Adds one round of an index, which is `what`, to a part. The file is complete or as it was: it is written
    /// beside, then renamed.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(
        &mut self,
        part: usize,
        what: &str,
        seconds: f64,
        report: &Report,
    ) -> Result<(), BenchError> {
        let mut report = json!(report);
        report["setup"]["what"] = json!(what);
        let part = &mut self.file.parts[part];
        part.seconds += seconds;
        let name = &report["setup"]["index"];
        match part.reports.iter_mut().find(|known| known["setup"]["index"] == *name) {
            Some(known) => merge(known, &report),
            None => part.reports.push(report),
        }
        let Some(path) = &self.path else { return Ok(()) };
        let refused = |error| BenchError::Io(format!("cannot write {}", path.display()), error);
        let text = serde_json::to_vec_pretty(&self.file).map_err(|error| refused(error.into()))?;
        let partial = path.with_extension("partial");
        std::fs::write(&partial, text).map_err(refused)?;
        std::fs::rename(&partial, path).map_err(refused)
    }

    /// Everything.
    pub fn value(&self) -> Value {
        json!(self.file)
    }
}

/// What a file of ours holds.
fn parts_in(path: &Path) -> Result<Parts, BenchError> {
    Parts::deserialize(read(path)?).map_err(|error| {
        let path = path.display();
        let text = format!(
            "{path} is there and holds no parts of a run ({error}): remove it, or use --again"
        );
        BenchError::Settings(text)
    })
}

/// Adds the rounds of a report to one of the same index, measured in the same way. Latencies become the
/// means of the rounds' percentiles.
fn merge(into: &mut Value, from: &Value) {
    let before = into["setup"]["rounds"].as_f64().unwrap_or(0.0);
    into["setup"]["rounds"] = json!(before as u64 + from["setup"]["rounds"].as_u64().unwrap_or(0));
    let (Some(rows), Some(others)) = (into["rows"].as_array_mut(), from["rows"].as_array()) else {
        return;
    };
    for (row, other) in rows.iter_mut().zip(others) {
        if let (Some(rounds), Some(more)) =
            (row["rounds"].as_array_mut(), other["rounds"].as_array())
        {
            rounds.extend(more.iter().cloned());
        }
        for figure in ["per_second", "misses", "unit_ns"] {
            let rounds = row["rounds"].as_array().into_iter().flatten();
            row[figure] = json!(Spread::of(rounds.filter_map(|round| round[figure].as_f64())));
        }
        for count in ["noisy_rounds", "preempted_rounds"] {
            let sum = row[count].as_u64().unwrap_or(0) + other[count].as_u64().unwrap_or(0);
            row[count] = json!(sum);
        }
        let mean = |one: &mut Value, other: &Value| {
            if let (Some(old), Some(new)) = (one.as_f64(), other.as_f64()) {
                let mean = (old * before + new) / (before + 1.0);
                *one = if one.is_u64() { json!(mean.round() as u64) } else { json!(mean) };
            }
        };
        for figure in ["miss_before_ns", "miss_after_ns"] {
            mean(&mut row[figure], &other[figure]);
        }
        for (name, one) in row["latency"].as_object_mut().into_iter().flatten() {
            mean(one, &other["latency"][name]);
        }
        row["scaling"] = Value::Null;
    }
}

/// A JSON file.
///
/// # Errors
/// It cannot be read, or is no JSON.
pub fn read(path: &Path) -> Result<Value, BenchError> {
    let refused = |error| BenchError::Io(format!("cannot read {}", path.display()), error);
    let text = std::fs::read(path).map_err(refused)?;
    serde_json::from_slice(&text)
        .map_err(|error| BenchError::Settings(format!("{} is not JSON: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use everleaf_bench::measure::{self, Case, Length, Settings};
    use everleaf_bench::{Distribution, Workload};

    fn arguments(path: &Path, more: &[&str]) -> Arguments {
        let path = path.to_str().unwrap();
        let words = ["rivals", "--keys", "1k,2k", "--json", path];
        Arguments::try_parse_from(words.iter().chain(more)).unwrap()
    }

    fn report() -> Report {
        let (workload, distribution) = (Workload::Get, Distribution::Uniform);
        let settings = Settings {
            keys: 100,
            rounds: 1,
            length: Length::Operations(100),
            cases: vec![Case { workload, distribution, threads: 1 }],
            miss_region: 1 << 16,
            ..Settings::default()
        };
        measure::run(&settings, &mut |_| {}).unwrap()
    }

    #[test]
    fn a_cut_run_goes_on_with_the_turns_that_are_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        let own = arguments(&path, &[]);
        let [small, large] = [1000, 2000].map(|keys| Way::of(&own, keys, own.sizes[0], 3));
        let mut kept = Kept::open(&own).unwrap();
        let part = kept.part(&small);
        assert_eq!(kept.rounds(part, "u64"), 0);
        kept.add(part, "a tree", 1.0, &report()).unwrap();
        let mut again = Kept::open(&own).unwrap();
        let part = again.part(&small);
        assert_eq!((again.rounds(part, "u64"), again.rounds(part, "lmdb")), (1, 0));
        again.add(part, "a tree", 1.0, &report()).unwrap();
        assert_eq!(again.rounds(part, "u64"), 2);
        let value = again.value();
        let row = &value["parts"][part]["reports"][0]["rows"][0];
        let speeds = [0, 1].map(|round| row["rounds"][round]["per_second"].as_f64().unwrap());
        let median = row["per_second"]["median"].as_f64().unwrap();
        assert!((median - (speeds[0] + speeds[1]) / 2.0).abs() < 1e-3 * median);
        let other = again.part(&large);
        assert_eq!((other, again.rounds(other, "u64")), (1, 0));
        // Measured in another way it is another part; it takes the place of the old one.
        let changed = Way::of(&arguments(&path, &["--seed", "2"]), 1000, own.sizes[0], 3);
        let part = again.part(&changed);
        assert_eq!((part, again.rounds(part, "u64")), (1, 0));
        let mut anew = Kept::open(&arguments(&path, &["--again"])).unwrap();
        let part = anew.part(&small);
        assert_eq!(anew.rounds(part, "u64"), 0);
        let page = everleaf_lab::report::render_rivals(&read(&path).unwrap());
        assert!(page.is_err(), "nobody to compare with");
    }

    #[test]
    fn rounds_that_were_disturbed_are_added_up() {
        let own = Arguments::try_parse_from(["rivals", "--keys", "1k"]).unwrap();
        let mut kept = Kept::open(&own).unwrap();
        let part = kept.part(&Way::of(&own, 1000, own.sizes[0], 3));
        let mut disturbed = report();
        (disturbed.rows[0].noisy_rounds, disturbed.rows[0].preempted_rounds) = (1, 2);
        kept.add(part, "a tree", 1.0, &disturbed).unwrap();
        kept.add(part, "a tree", 1.0, &disturbed).unwrap();
        let value = kept.value();
        let row = &value["parts"][part]["reports"][0]["rows"][0];
        assert_eq!((&row["noisy_rounds"], &row["preempted_rounds"]), (&json!(2), &json!(4)));
        // A merged row has the fields of one round's, and no others.
        let names =
            |row: &Value| -> Vec<String> { row.as_object().unwrap().keys().cloned().collect() };
        assert_eq!(names(row), names(&json!(disturbed.rows[0])));
    }

    #[test]
    fn what_another_program_measured_is_measured_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        let own = arguments(&path, &[]);
        let small = Way::of(&own, 1000, own.sizes[0], 3);
        let mut kept = Kept::open(&own).unwrap();
        let part = kept.part(&small);
        kept.file.parts[part].machine.program = "0".to_owned();
        kept.add(part, "a tree", 1.0, &report()).unwrap();
        let mut again = Kept::open(&own).unwrap();
        let part = again.part(&small);
        assert_eq!((part, again.rounds(part, "u64")), (0, 0));
        std::fs::write(&path, "[]").unwrap();
        assert!(Kept::open(&own).is_err_and(|error| error.to_string().contains("--again")));
    }
}
