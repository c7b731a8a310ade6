//! What the published protocols of the trees beside NBTree lose. Each defect has a program
//! (`everleaf_prove::programs::anomalies`), in which it comes back when the safeguard against it is switched off;
//! a record of a failing schedule, in `records`, that repeats it; and a search through every order that
//! finds nothing when the safeguard is on.

use std::path::PathBuf;

use everleaf_prove::case::Case;
use everleaf_prove::programs::anomalies::anomalies;
use everleaf_prove::programs::directed_case::DirectedCase;
use everleaf_prove::search::record::Record;
use everleaf_prove_designs::structures::{STRUCTURES, find};

/// Schedules of a search through every order, at most.
const ALL: u64 = 3_000_000;

fn case_of(anomaly: &DirectedCase) -> Box<dyn Case> {
    let structure = find(anomaly.structure).expect("in the list");
    structure.case(&anomaly.program()).expect("its program")
}

/// Where the record of an anomaly is.
fn path_of(anomaly: &DirectedCase) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/regressions/records");
    PathBuf::from(folder).join(format!("{}.{}.json", anomaly.structure, anomaly.mutant))
}

#[test]
fn every_record_repeats_what_a_published_protocol_loses() {
    for anomaly in anomalies() {
        let path = path_of(&anomaly);
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let record = Record::from_text(&text).expect("a record");
        assert_eq!(
            (record.structure.as_str(), record.program.as_str()),
            (anomaly.structure, anomaly.program().as_str())
        );
        assert_eq!(record.config.mutants, [anomaly.mutant]);
        let failure = record.replay(STRUCTURES).expect("the program is there").failure;
        let failure = failure.unwrap_or_else(|| {
            panic!(
                "{}: the code has changed and the schedule is another one now: run \
                 `cargo test -p everleaf-prove-designs --test it write_the_records -- --ignored` \
                 and read what it writes",
                path.display()
            )
        });
        println!("{}: {failure}", path.display());
        assert_eq!(failure.kind.to_string(), record.kind);
    }
}

#[test]
fn every_anomaly_is_met_in_time_and_gone_with_the_safeguard() {
    for anomaly in anomalies() {
        let (case, name) = (case_of(&anomaly), anomaly.scenario.name);
        let (report, failure) = case.explore(&anomaly.config(true), anomaly.schedules);
        let failure = failure.unwrap_or_else(|| panic!("{}, {name}: not met", anomaly.mutant));
        let met = report.counts.schedules;
        let (report, none) = case.explore(&anomaly.config(false), ALL);
        println!(
            "{}, {name}: {} in schedule {met} of {}; none in {}",
            anomaly.mutant, failure.kind, anomaly.schedules, report.counts.schedules
        );
        assert!(none.is_none(), "{}, {name}: {none:?}", anomaly.structure);
        assert!(report.exhausted, "{name}: more than {ALL} schedules");
    }
}

#[test]
#[ignore = "by hand: writes the records anew, when the code they repeat has changed"]
fn by_hand_write_the_records() {
    for anomaly in anomalies() {
        let (config, program) = (anomaly.config(true), anomaly.program());
        let (_, failure) = case_of(&anomaly).explore(&config, anomaly.schedules);
        let failure = failure.unwrap_or_else(|| panic!("{program}: not met"));
        let record = Record::new(anomaly.structure, &program, &config, &failure);
        let small = record.shrunk(STRUCTURES, &failure, 200).expect("the program is there");
        std::fs::write(path_of(&anomaly), small.to_text()).expect("a file beside this one");
    }
}
