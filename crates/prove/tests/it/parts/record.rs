//! Records of failures, written and read.

use everleaf_machine::simulated::{Abandon, Config, CrashConfig, Domain, MemoryModel};
use everleaf_prove::search::record::{Record, RecordError};
use everleaf_prove::structures::STRUCTURES;
use serde_json::{Value, json};

fn record() -> Record {
    Record {
        structure: "nbtree".to_owned(),
        program: "random/2/17".to_owned(),
        kept: Some(vec![vec![0, 2], vec![]]),
        config: Config {
            domain: Domain::Eadr,
            memory: MemoryModel::Tso,
            mutants: vec!["nbtree.no_pending"],
            abandon: Some(Abandon { thread: 1, after_points: 7 }),
            fail_allocation: Some(3),
            seed: u64::MAX,
            wide_compares: true,
            births: true,
            fail_space: Some(2),
            crash: CrashConfig { at_returns: true, ..CrashConfig::default() },
            ..Config::default()
        },
        kind: "panic".to_owned(),
        message: "a \"quoted\" message".to_owned(),
        seed: 0xFEDC_BA98_7654_3210,
        choices: vec![0, 1, 15, 2],
    }
}

#[test]
fn a_record_survives_being_written_and_read() {
    let before = record();
    let after = Record::from_text(&before.to_text()).expect("just written");
    assert_eq!(format!("{before:?}"), format!("{after:?}"));
}

#[test]
fn the_names_that_domains_had_in_older_records_are_read() {
    let whole: Value = serde_json::from_str(&record().to_text()).expect("just written");
    for (name, domain) in [("line", Domain::Adr), ("visible", Domain::Eadr)] {
        let mut changed = whole.clone();
        changed["config"]["domain"] = json!(name);
        let read = Record::from_text(&changed.to_string()).expect("as in older records");
        assert_eq!(read.config.domain, domain);
    }
}

#[test]
fn every_missing_or_mistyped_part_is_named() {
    let whole: Value = serde_json::from_str(&record().to_text()).expect("just written");
    let check = |changed: Value, name: &str| {
        let error = Record::from_text(&changed.to_string()).expect_err(name);
        let text = error.to_string();
        assert!(text.contains(name) || matches!(error, RecordError::Foreign(_)), "{text}");
    };
    for (name, _) in whole.as_object().expect("an object") {
        if name == "version" {
            continue;
        }
        let mut changed = whole.clone();
        changed.as_object_mut().expect("an object").remove(name);
        check(changed.clone(), name);
        changed[name] = json!(-1);
        check(changed, name);
    }
    for (name, _) in whole["config"].as_object().expect("an object") {
        let mut changed = whole.clone();
        changed["config"][name] = json!({});
        check(changed.clone(), name);
        changed["config"].as_object_mut().expect("an object").remove(name);
        // The first records were made before these existed.
        if ["wide_compares", "crash_at_returns", "births", "fail_space"].contains(&name.as_str()) {
            let read = Record::from_text(&changed.to_string()).expect("as the first records");
            assert!(!read.config.wide_compares || name != "wide_compares");
            assert!(!read.config.births || name != "births");
            assert!(read.config.fail_space.is_none() || name != "fail_space");
            assert!(!read.config.crash.at_returns || name != "crash_at_returns");
            continue;
        }
        check(changed, name);
    }
}

#[test]
fn foreign_files_are_called_foreign() {
    for text in ["", "PNG", "[]", "{}", "{\"format\": \"everleaf failure 9\"}"] {
        let error = Record::from_text(text).expect_err(text);
        assert!(matches!(error, RecordError::Foreign(_)), "{error}");
    }
}

#[test]
fn a_program_that_is_not_there_is_unknown() {
    for (structure, program) in [("btree", "random/2/1"), ("nbtree", "random/8/1")] {
        let record =
            Record { structure: structure.to_owned(), program: program.to_owned(), ..record() };
        assert!(matches!(record.replay(STRUCTURES), Err(RecordError::Unknown(_))));
    }
}
