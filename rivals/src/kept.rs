//! What was measured, in a file: a part for each number of keys and size of pairs, with the reports of
//! all who took part. It is written after every turn of everybody, so that a run that was cut goes on
//! with the turn that it was cut in.

use std::path::{Path, PathBuf};

use everleaf_bench::BenchError;
use everleaf_bench::report::{Machine, Report, Spread};
use serde_json::{Value, json};

use crate::arguments::{Arguments, Sizes};

/// The parts that a file holds.
pub struct Kept {
    path: Option<PathBuf>,
    command: String,
    /// The `parts`: each the `command` and the `way` that it was made by, the `seconds` that it took, and
    /// its `reports`.
    value: Value,
}

impl Kept {
    /// What the file of the arguments holds; nothing if there is none, or if all is to be rebuilt.
    ///
    /// # Errors
    /// The file cannot be read, or is another's.
    pub fn open(arguments: &Arguments) -> Result<Self, BenchError> {
        let value = match &arguments.json {
            Some(path) if !arguments.again && path.exists() => read(path)?,
            _ => json!({ "parts": [] }),
        };
        if !value["parts"].is_array() {
            let path = arguments.json.as_deref().unwrap_or(Path::new("")).display();
            let text =
                format!("{path} is there and holds no parts of a run: remove it, or use --again");
            return Err(BenchError::Settings(text));
        }
        Ok(Kept { path: arguments.json.clone(), command: arguments.shown(), value })
    }

    /// The place of the part that is measured in this way by this very program on this machine. Takes
    /// the place of an older one of the same keys and sizes.
    pub fn part(&mut self, way: &Value) -> usize {
        let here = Machine::here();
        let is_known = |part: &Value| {
            let machine = serde_json::from_value::<Machine>(part["machine"].clone());
            part["way"] == *way && machine.is_ok_and(|machine| machine.is_same(&here))
        };
        let parts = self.value["parts"].as_array_mut().expect("checked when it was opened");
        if let Some(place) = parts.iter().position(is_known) {
            return place;
        }
        parts.retain(|part| ["keys", "sizes"].iter().any(|name| part["way"][name] != way[name]));
        let command = &self.command;
        parts.push(json!({ "command": command, "way": way, "machine": here, "seconds": 0.0, "reports": [] }));
        parts.len() - 1
    }

    /// Rounds that a part has of somebody.
    pub fn rounds(&self, part: usize, name: &str) -> usize {
        let reports = self.value["parts"][part]["reports"].as_array();
        let own = reports.and_then(|all| all.iter().find(|one| one["setup"]["index"] == name));
        own.and_then(|report| report["setup"]["rounds"].as_u64()).unwrap_or(0) as usize
    }

    /// Adds one round of somebody, who is `what`, to a part. The file is complete or as it was: it is written beside,
    /// then renamed.
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
        let part = &mut self.value["parts"][part];
        part["seconds"] = json!(part["seconds"].as_f64().unwrap_or(0.0) + seconds);
        let reports = part["reports"].as_array_mut().expect("made with the part");
        let name = &report["setup"]["index"];
        match reports.iter_mut().find(|known| known["setup"]["index"] == *name) {
            Some(known) => merge(known, &report),
            None => reports.push(report),
        }
        let Some(path) = &self.path else { return Ok(()) };
        let refused = |error| BenchError::Io(format!("cannot write {}", path.display()), error);
        let text = serde_json::to_vec_pretty(&self.value).map_err(|error| refused(error.into()))?;
        let partial = path.with_extension("partial");
        std::fs::write(&partial, text).map_err(refused)?;
        std::fs::rename(&partial, path).map_err(refused)
    }

    /// Everything.
    pub fn value(&self) -> &Value {
        &self.value
    }
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
        for count in ["unsteady_rounds", "hindered_rounds"] {
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

/// How a part is measured: everything that its figures depend on, but the program and the machine.
pub fn way(arguments: &Arguments, keys: u64, sizes: Sizes, rounds: usize) -> Value {
    let workloads: Vec<&str> = arguments.workloads.iter().map(|one| one.name()).collect();
    json!({
        "keys": keys,
        "sizes": [sizes.key, sizes.value],
        "threads": arguments.threads,
        "load_threads": arguments.load_threads,
        "rivals": arguments.rivals,
        "workloads": workloads,
        "rounds": rounds,
        "seconds": arguments.ops.is_none().then_some(arguments.seconds),
        "operations": arguments.ops,
        "scan_length": arguments.scan_length,
        "seed": arguments.seed,
        "has_rocksdb": cfg!(feature = "rocksdb"),
    })
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
        let [small, large] = [1000, 2000].map(|keys| way(&own, keys, own.sizes[0], 3));
        let mut kept = Kept::open(&own).unwrap();
        let part = kept.part(&small);
        assert_eq!(kept.rounds(part, "u64"), 0);
        kept.add(part, "a tree", 1.0, &report()).unwrap();
        let mut again = Kept::open(&own).unwrap();
        let part = again.part(&small);
        assert_eq!((again.rounds(part, "u64"), again.rounds(part, "lmdb")), (1, 0));
        again.add(part, "a tree", 1.0, &report()).unwrap();
        assert_eq!(again.rounds(part, "u64"), 2);
        let row = &again.value()["parts"][part]["reports"][0]["rows"][0];
        let speeds = [0, 1].map(|round| row["rounds"][round]["per_second"].as_f64().unwrap());
        let median = row["per_second"]["median"].as_f64().unwrap();
        assert!((median - (speeds[0] + speeds[1]) / 2.0).abs() < 1e-3 * median);
        let other = again.part(&large);
        assert_eq!((other, again.rounds(other, "u64")), (1, 0));
        // Measured in another way it is another part; it takes the place of the old one.
        let changed = way(&arguments(&path, &["--seed", "2"]), 1000, own.sizes[0], 3);
        let part = again.part(&changed);
        assert_eq!((part, again.rounds(part, "u64")), (1, 0));
        let mut anew = Kept::open(&arguments(&path, &["--again"])).unwrap();
        let part = anew.part(&small);
        assert_eq!(anew.rounds(part, "u64"), 0);
        let page = everleaf_lab::report::render_rivals(&read(&path).unwrap());
        assert!(page.is_err(), "nobody to compare with");
    }

    #[test]
    fn what_another_program_measured_is_measured_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        let own = arguments(&path, &[]);
        let small = way(&own, 1000, own.sizes[0], 3);
        let mut kept = Kept::open(&own).unwrap();
        let part = kept.part(&small);
        kept.value["parts"][part]["machine"]["program"] = json!("0");
        kept.add(part, "a tree", 1.0, &report()).unwrap();
        let mut again = Kept::open(&own).unwrap();
        let part = again.part(&small);
        assert_eq!((part, again.rounds(part, "u64")), (0, 0));
        std::fs::write(&path, "[]").unwrap();
        assert!(Kept::open(&own).is_err_and(|error| error.to_string().contains("--again")));
    }
}
