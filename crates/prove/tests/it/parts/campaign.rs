//! Searches of a structure, clean and with planted bugs.

use everleaf_prove::FailureKind;
use everleaf_prove::campaign::{Budget, Settings, run};
use everleaf_prove::record::Record;
use everleaf_prove::structure::find;

fn short(mutant: Option<&'static str>) -> Settings {
    Settings { budget: Budget::Schedules(300), mutant, ..Settings::default() }
}

#[test]
fn a_structure_that_is_right_is_clean() {
    let mut told = 0;
    let structure = find("nbtree").expect("the flagship");
    let verdict = run(structure, &short(None), &mut |_| told += 1);
    assert!(verdict.is_clean(), "{:?}", verdict.failure);
    assert!(told > 0 && verdict.report.counts.schedules > 0);
}

/// Neither bug harms anybody before the second crash, and then only what reused a block: of the
/// programs by chance, one in hundreds does that. In ten thousands of schedules they were not found.
#[test]
fn a_recovery_that_is_not_durable_is_found_by_a_second_crash() {
    let structure = find("nbtree").expect("the flagship");
    for mutant in ["nbtree.recovery_keeps_marks", "nbtree.recovery_no_end_flush"] {
        let settings = Settings { budget: Budget::Schedules(20_000), ..short(Some(mutant)) };
        let verdict = run(structure, &settings, &mut |_| {});
        let (record, _) = verdict.failure.expect("a crash after recovery that is not durable");
        // Programs made from a seed crash twice as well: which of them finds it first is open.
        if record.program.starts_with("small/") {
            assert!(verdict.coverage.lives()[0][0] > 0, "{mutant}: {}", record.program);
        }
    }
}

/// What nobody gives back is missed by nobody: answers are right, and the pool is whole. Found when the
/// tree itself has gone.
#[test]
fn volatile_memory_that_leaks_is_found() {
    let structure = find("nbtree").expect("the flagship");
    let settings =
        Settings { budget: Budget::Schedules(20_000), ..short(Some("nbtree.keeps_order")) };
    let verdict = run(structure, &settings, &mut |_| {});
    let (record, failure) = verdict.failure.expect("the order of a leaf that went is left");
    assert_eq!(failure.kind, FailureKind::Leak, "{failure}");
    let replay = record.replay().expect("the program is there");
    assert_eq!(replay.failure.map(|again| again.message), Some(failure.message));
}

#[test]
fn a_planted_bug_is_found_written_replayed_and_made_small() {
    let structure = find("nbtree").expect("the flagship");
    let settings = Settings {
        budget: Budget::Schedules(20_000),
        preemptions: None,
        ..short(Some("nbtree.no_insert_flush"))
    };
    let verdict = run(structure, &settings, &mut |_| {});
    let (record, failure) = verdict.failure.expect("an insert that is not durable");
    let small = record.shrunk(&failure, 200).expect("the program is there");
    for record in [record, small] {
        let read = Record::from_text(&record.to_text()).expect("just written");
        let replay = read.replay().expect("the program is there");
        assert!(!replay.diverged);
        let again = replay.failure.expect("it fails again");
        assert_eq!(again.message, record.message);
    }
}
