//! Two runs side by side: what got slower beyond noise.
//!
//! A count that is exact differs if it differs by more than a thousandth. A time is slower if the
//! interval of its ratio lies above 1 by more than a tolerance, where the intervals of all times that
//! are compared hold together in 95 of 100 cases: one of a hundred rows is always the luckiest. If the
//! machine disturbed either run, or one has fewer than three rounds, that is said, and nothing is
//! concluded.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use everleaf_bench::BenchError;
use everleaf_bench::report::Machine;
use everleaf_bench::statistics::{Ratio, median};
use everleaf_bench::table::aligned;

use super::saved::{reports_in, series_of};
use crate::experiment::{Folder, Series, has_changed};

/// Rounds from which on an interval can be relied on.
const ROUNDS_MIN: usize = 3;

/// What became of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Speed {
    /// It got worse beyond noise.
    Slower,
    /// It got better beyond noise.
    Faster,
    /// No difference was shown.
    Even,
    /// It changed, but the machine disturbed one of the runs, or one has fewer than three rounds.
    Doubtful,
}

/// A measurement of both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// What was measured.
    pub name: String,
    /// The unit.
    pub unit: String,
    /// The median of the old run.
    pub old: f64,
    /// The median of the new run.
    pub new: f64,
    /// How much more it costs now; of what is better when larger, how much less there is.
    pub cost: Ratio,
    /// The conclusion.
    pub change: Speed,
}

/// What a file or a folder holds that runs can be compared by.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// The measurements.
    pub series: Vec<Series>,
    /// The machines and programs that made them, each once.
    pub machines: Vec<Machine>,
}

/// Two runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// What a reader must know before believing it: runs of several programs, or of two machines.
    pub remarks: Vec<String>,
    /// What both have, the worst first.
    pub compared: Vec<Compared>,
    /// What only the old one has.
    pub gone: Vec<String>,
    /// What only the new one has.
    pub added: Vec<String>,
}

impl Comparison {
    /// Whether something got slower beyond noise.
    pub fn has_slower(&self) -> bool {
        self.compared.iter().any(|one| one.change == Speed::Slower)
    }
}

/// Everything in a file, or in the files of a folder, that runs can be compared by.
///
/// # Errors
/// It cannot be read, or there is nothing.
pub fn read(path: &Path) -> Result<Run, BenchError> {
    let values = match path.is_dir() {
        true => Folder::open(path)?.files()?.into_iter().map(|(_, value)| value).collect(),
        false => vec![crate::experiment::read_json(path)?],
    };
    let series: Vec<Series> = values.iter().flat_map(series_in).collect();
    if series.is_empty() {
        let path = path.display();
        return Err(BenchError::Settings(format!(
            "{path} holds nothing to compare: give findings of `everleaf-lab run` or the output of \
             `everleaf bench --json`"
        )));
    }
    let mut machines: Vec<Machine> = Vec::new();
    for machine in values.iter().flat_map(machines_in) {
        let is_known =
            |known: &Machine| known.program == machine.program && known.is_same_machine(&machine);
        if !machines.iter().any(is_known) {
            machines.push(machine);
        }
    }
    Ok(Run { series, machines })
}

/// The machines in a JSON value: those of findings, and those of reports of the bench.
fn machines_in(value: &Value) -> Vec<Machine> {
    let reports = reports_in(value).into_iter().map(|report| report.machine);
    let of_finding = |finding: &Value| {
        finding.get("series").and_then(|_| serde_json::from_value(finding["machine"].clone()).ok())
    };
    reports.chain(findings_in(value).iter().filter_map(of_finding)).collect()
}

/// A finding, or a list of them.
fn findings_in(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    }
}

/// The series in a JSON value: those of findings, and those of reports of the bench.
fn series_in(value: &Value) -> Vec<Series> {
    let mut found: Vec<Series> = reports_in(value).iter().flat_map(series_of).collect();
    for finding in findings_in(value) {
        let id = finding["id"].as_str().unwrap_or_default();
        let series: Vec<Series> =
            serde_json::from_value(finding["series"].clone()).unwrap_or_default();
        let scale = finding["scale"].as_str().unwrap_or_default();
        let is_noisy = is_noisy(finding);
        let named = |one: Series| Series {
            name: format!("{id} ({scale}): {}", one.name),
            is_disturbed: one.is_disturbed || !one.is_exact && is_noisy,
            ..one
        };
        found.extend(series.into_iter().map(named));
    }
    found
}

/// Whether the machine changed its speed while an experiment ran, as far as a file of its finding says so: of times
/// that have no rounds of the bench nothing else does.
fn is_noisy(finding: &Value) -> bool {
    let miss = |name: &str| finding[name].as_f64();
    match (miss("miss_before_ns"), miss("miss_after_ns")) {
        (Some(before), Some(after)) => has_changed(before, after),
        _ => false,
    }
}

/// Compares. `tolerance` is the share below which a difference does not matter, such as 0.02.
pub fn compare(old: &Run, new: &Run, tolerance: f64) -> Comparison {
    let remarks = remarks(&old.machines, &new.machines);
    Comparison { remarks, ..compare_series(&old.series, &new.series, tolerance) }
}

/// What is odd about where two runs come from.
fn remarks(old: &[Machine], new: &[Machine]) -> Vec<String> {
    let mut remarks = Vec::new();
    for (name, machines) in [("old", old), ("new", new)] {
        if machines.len() > 1 {
            remarks.push(format!(
                "the {name} run was put together from runs of {} programs or machines: what is \
                 compared may be of different versions",
                machines.len()
            ));
        }
    }
    let is_elsewhere = |one: &&Machine| old.iter().all(|other| !other.is_same_machine(one));
    if let (Some(other), Some(one)) = (old.first(), new.iter().find(is_elsewhere)) {
        let text = |machine: &Machine| {
            format!("{}, {} CPUs, {}", machine.cpu, machine.cpu_count, machine.system)
        };
        remarks.push(format!(
            "the runs were made on different machines ({}; {}): only exact counts mean something",
            text(other),
            text(one)
        ));
    }
    remarks
}

fn compare_series(old: &[Series], new: &[Series], tolerance: f64) -> Comparison {
    let mut comparison = Comparison::default();
    let pairs = paired(old, new);
    let times = pairs.iter().filter(|(before, after)| !before.is_exact && after.is_some()).count();
    for (before, after) in pairs {
        match after {
            Some(after) => comparison.compared.extend(judge(before, after, tolerance, times)),
            None => comparison.gone.push(before.name.clone()),
        }
    }
    let added = paired(new, old).into_iter().filter(|(_, before)| before.is_none());
    comparison.added = added.map(|(after, _)| after.name.clone()).collect();
    comparison.compared.sort_by(|one, other| other.cost.ratio.total_cmp(&one.cost.ratio));
    comparison
}

/// Each series of a run with the same one of another run. What has the same name and unit several times, for its file
/// does not tell what differs, is taken in the order of the file.
fn paired<'s>(run: &'s [Series], other: &'s [Series]) -> Vec<(&'s Series, Option<&'s Series>)> {
    let mut left: Vec<&Series> = other.iter().collect();
    let mut pair = |one: &'s Series| {
        let at = left.iter().position(|other| other.name == one.name && other.unit == one.unit);
        (one, at.map(|at| left.remove(at)))
    };
    run.iter().map(&mut pair).collect()
}

/// Judges one of `count` times that are compared, or a count.
fn judge(before: &Series, after: &Series, tolerance: f64, count: usize) -> Option<Compared> {
    let (old, new) = (median(&before.values)?, median(&after.values)?);
    let (values, base) = match before.more_is_better {
        true => (&before.values, &after.values),
        false => (&after.values, &before.values),
    };
    let exact = Ratio::exact(median(values)?, median(base)?);
    let cost = match before.is_exact {
        true => exact,
        // From nothing to nothing, or to something.
        false => Ratio::one_of(count, values, base).unwrap_or(exact),
    };
    let tolerance = if before.is_exact { 0.001 } else { tolerance };
    let is_doubtful = |series: &Series| {
        series.is_disturbed || (!series.is_exact && series.values.len() < ROUNDS_MIN)
    };
    let in_doubt = is_doubtful(before) || is_doubtful(after);
    let (is_slower, is_faster) = (cost.low > 1.0 + tolerance, cost.high < 1.0 - tolerance);
    let change = match (is_slower, is_faster) {
        (false, false) => Speed::Even,
        _ if in_doubt => Speed::Doubtful,
        (is_slower, _) => {
            if is_slower {
                Speed::Slower
            } else {
                Speed::Faster
            }
        }
    };
    let (name, unit) = (before.name.clone(), before.unit.clone());
    Some(Compared { name, unit, old, new, cost, change })
}

/// The comparison as lines of text.
pub fn render(comparison: &Comparison) -> String {
    let heading = ["measurement", "old", "new", "unit", "cost", "interval", ""].map(str::to_owned);
    let mut rows = vec![heading.to_vec()];
    let shown = comparison.compared.iter().filter(|one| one.change != Speed::Even);
    for one in shown {
        let word = match one.change {
            Speed::Slower => "SLOWER",
            Speed::Faster => "faster",
            Speed::Even => "",
            Speed::Doubtful => "in doubt",
        };
        let number = crate::experiment::number;
        rows.push(vec![
            one.name.clone(),
            number(one.old),
            number(one.new),
            one.unit.clone(),
            format!("{:.3}x", one.cost.ratio),
            format!("{:.3}-{:.3}", one.cost.low, one.cost.high),
            word.to_owned(),
        ]);
    }
    let mut text = String::new();
    if rows.len() > 1 {
        text.push_str(&aligned(&rows, &[true, false, false, true, false, true, true]));
        text.push('\n');
    }
    let count = |change| comparison.compared.iter().filter(|one| one.change == change).count();
    text.push_str(&format!(
        "{} compared: {} slower, {} faster, {} even, {} in doubt; {} gone, {} new\n",
        comparison.compared.len(),
        count(Speed::Slower),
        count(Speed::Faster),
        count(Speed::Even),
        count(Speed::Doubtful),
        comparison.gone.len(),
        comparison.added.len(),
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, values: &[f64]) -> Series {
        Series {
            is_exact: false,
            unit: "dm".to_owned(),
            ..Series { values: values.to_vec(), ..Series::count(name, "dm", 0.0) }
        }
    }

    fn change(old: &Series, new: &Series) -> Speed {
        let comparison = compare_series(std::slice::from_ref(old), std::slice::from_ref(new), 0.02);
        assert_eq!(comparison.has_slower(), comparison.compared[0].change == Speed::Slower);
        comparison.compared[0].change
    }

    const NOISY: [f64; 7] = [10.0, 10.4, 9.8, 10.1, 10.2, 9.9, 10.3];

    #[test]
    fn slower_means_beyond_noise_and_a_disturbed_run_proves_nothing() {
        let old = series("get", &NOISY);
        let times = |factor: f64| series("get", &NOISY.map(|value| value * factor));
        assert_eq!(change(&old, &times(1.0)), Speed::Even);
        assert_eq!(change(&old, &times(1.02)), Speed::Even);
        assert_eq!(change(&old, &times(1.3)), Speed::Slower);
        assert_eq!(change(&old, &times(0.7)), Speed::Faster);
        let disturbed = Series { is_disturbed: true, ..times(1.3) };
        assert_eq!(change(&old, &disturbed), Speed::Doubtful);
        assert_eq!(change(&old, &Series { is_disturbed: true, ..times(0.7) }), Speed::Doubtful);
        let short = |series: &Series, rounds: usize| Series {
            values: series.values[..rounds].to_vec(),
            ..series.clone()
        };
        assert_eq!(change(&old, &short(&times(1.3), 3)), Speed::Slower);
        assert_eq!(change(&old, &short(&times(3.0), 2)), Speed::Doubtful);
        assert_eq!(change(&short(&old, 2), &times(3.0)), Speed::Doubtful);
    }

    /// Each of the old run was compared with the first of its name in the new one: a run with itself was slower, and
    /// what became slower in the second was not seen.
    #[test]
    fn what_has_a_name_twice_is_compared_in_its_order() {
        let of = |factor: f64| series("scan", &NOISY.map(|value| value * factor));
        let run = [of(1.0), of(3.0)];
        let same = compare_series(&run, &run, 0.02);
        assert!(same.compared.iter().all(|one| one.change == Speed::Even), "{same:?}");
        let slower = compare_series(&run, &[of(1.0), of(4.0)], 0.02);
        let changes: Vec<_> = slower.compared.iter().map(|one| one.change).collect();
        assert_eq!(changes, [Speed::Slower, Speed::Even]);
        let more = compare_series(&run, &[of(1.0), of(3.0), of(5.0)], 0.02);
        assert_eq!((more.added.len(), more.gone.len()), (1, 0));
        let less = compare_series(&run, &run[..1], 0.02);
        assert_eq!((less.added.len(), less.gone.len()), (0, 1));
    }

    /// Of times that are no rounds of the bench, none was ever disturbed: a slow hour of the machine was slower code.
    #[test]
    fn what_was_measured_while_the_machine_changed_is_disturbed() {
        let finding = |after: f64| {
            let all = [series("opening", &NOISY), Series::count("flushes", "lines", 1.0)];
            let of = serde_json::json!({ "id": "x", "series": all, "miss_before_ns": 100.0 });
            let mut of = of;
            of["miss_after_ns"] = after.into();
            series_in(&of).iter().map(|one| one.is_disturbed).collect::<Vec<_>>()
        };
        assert_eq!(finding(110.0), [false, false]);
        assert_eq!(finding(120.0), [true, false]);
    }

    /// The more is compared, the more a single row has to show.
    #[test]
    fn one_row_of_many_is_slower_only_beyond_all_chance() {
        let old: Vec<Series> = (0..200).map(|at| series(&format!("get {at}"), &NOISY)).collect();
        let by = |factor: f64| {
            let mut new = old.clone();
            new[7].values.iter_mut().for_each(|value| *value *= factor);
            compare_series(&old, &new, 0.02)
        };
        assert!(!by(1.08).has_slower() && by(1.3).has_slower());
        let one = series("get", &NOISY);
        assert_eq!(change(&one, &series("get", &NOISY.map(|value| value * 1.08))), Speed::Slower);
    }

    #[test]
    fn of_what_is_better_when_larger_less_is_slower() {
        let speed = |factor: f64| {
            let values = NOISY.map(|value| value * factor);
            Series { more_is_better: true, ..series("get", &values) }
        };
        assert_eq!(change(&speed(1.0), &speed(0.7)), Speed::Slower);
        assert_eq!(change(&speed(1.0), &speed(1.4)), Speed::Faster);
    }

    #[test]
    fn exact_counts_have_no_noise() {
        let count = |value| Series::count("flushes", "lines", value);
        assert_eq!(change(&count(4.198), &count(4.198)), Speed::Even);
        assert_eq!(change(&count(4.198), &count(4.21)), Speed::Slower);
        assert_eq!(change(&count(0.0), &count(0.0)), Speed::Even);
        assert_eq!(change(&count(0.0), &count(1.0)), Speed::Slower);
    }

    #[test]
    fn what_is_in_one_run_only_is_named() {
        let comparison = compare_series(
            &[series("a", &NOISY), series("b", &NOISY)],
            &[series("b", &NOISY), series("c", &NOISY)],
            0.02,
        );
        assert_eq!(
            (comparison.gone.as_slice(), comparison.added.as_slice()),
            (&["a".to_owned()][..], &["c".to_owned()][..])
        );
        let text = render(&comparison);
        assert!(text.contains("1 compared: 0 slower") && text.contains("1 gone, 1 new"), "{text}");
    }

    #[test]
    fn findings_hold_series_under_the_name_of_the_experiment() {
        let one = Series::count("nbtree insert", "flushes", 1.0);
        let finding = serde_json::json!({ "id": "a.b", "scale": "quick", "series": [one] });
        for value in [finding.clone(), serde_json::json!([finding])] {
            let found = series_in(&value);
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].name, "a.b (quick): nbtree insert");
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.json");
        std::fs::write(&path, "{}").unwrap();
        assert!(super::read(&path).unwrap_err().to_string().contains("nothing to compare"));
        std::fs::write(&path, finding.to_string()).unwrap();
        assert_eq!(super::read(&path).unwrap(), super::read(directory.path()).unwrap());
    }

    #[test]
    fn runs_of_several_programs_or_of_two_machines_are_said_to_be() {
        let machine = |cpu: &str, program: &str| Machine {
            cpu: cpu.to_owned(),
            program: program.to_owned(),
            ..Machine::default()
        };
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, machine: Machine| {
            let one = Series::count("insert", "flushes", 1.0);
            let finding = serde_json::json!({ "id": name, "series": [one], "machine": machine });
            std::fs::write(directory.path().join(name), finding.to_string()).unwrap();
        };
        let read = |name: &str| super::read(&directory.path().join(name)).unwrap();
        write("a.json", machine("here", "1"));
        write("b.json", machine("here", "2"));
        write("c.json", machine("there", "2"));
        // Comparing two programs is what runs are compared for.
        assert_eq!(compare(&read("a.json"), &read("b.json"), 0.02).remarks, [""; 0]);
        let elsewhere = compare(&read("a.json"), &read("c.json"), 0.02).remarks;
        assert!(elsewhere.len() == 1 && elsewhere[0].contains("different machines"));
        let mixed = super::read(directory.path()).unwrap();
        assert_eq!(mixed.machines.len(), 3);
        let remarks = compare(&mixed, &read("a.json"), 0.02).remarks;
        assert!(remarks.len() == 1 && remarks[0].starts_with("the old run"), "{remarks:?}");
    }
}
