//! What the protocol of NBTree's paper loses when several threads use a tree
//! (`docs/trees/nbtree-published.md`, A1 to A16): each defect has a program, a search that meets it
//! within a bounded number of schedules, and a record of a schedule that repeats it (`records`).
//! Where leaves are locked, the same programs are right in all the orders of that search.

use std::path::PathBuf;
use std::time::Instant;

use crate::marks::assert_all_met;
use everleaf_designs::{NbTreePublished, NbTreeW, NbTreeWr};

use everleaf_index::{Design, Tiny};
use everleaf_machine::Simulated;
use everleaf_machine::simulated::{Failure, FailureKind, Report};
use everleaf_prove::Of;
use everleaf_prove::case::{Case, SearchResult, explore};
use everleaf_prove::programs::published::{Anomaly, Meeting, anomalies};
use everleaf_prove::search::record::Record;
use everleaf_prove::tree::operation::Operation;
use everleaf_prove_designs::structures::{STRUCTURES, find};

/// The trees that have them.
const TREES: [&str; 2] = ["nbtree-published", "nbtree-coupled"];

/// Rare branches that a search comes to only where something is lost.
const BESIDE_LOSSES: [&str; 2] =
    ["nbtree_published.sync_on_read.erases", "nbtree_published.sync_on_read.writes"];

/// Leaves of the slots that an anomaly asks for, as `published::case` has them.
type Two = Tiny<2, 3>;
type Three = Tiny<3, 3>;

fn case_of(structure: &str, anomaly: &Anomaly) -> Box<dyn Case> {
    find(structure).expect("in the list").case(&anomaly.program()).expect("its program")
}

/// Where the record of an anomaly is.
fn path_of(anomaly: &Anomaly) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/regressions/records");
    let words = anomaly.scenario.name.replace(' ', "_");
    PathBuf::from(folder).join(format!("nbtree-published.{}.{words}.json", anomaly.number))
}

/// Either an answer is wrong, or the tree is: a lost key is counted still.
fn is_loss(failure: &Failure) -> bool {
    matches!(
        failure.kind,
        FailureKind::NotLinearizable | FailureKind::NotDurable | FailureKind::Recovery
    )
}

#[test]
fn every_anomaly_of_nbtree_is_met_and_its_schedule_repeats_it() {
    assert_all_met(&meet_all(TREES[0]), &BESIDE_LOSSES);
}

#[test]
#[ignore = "guards a landing"]
fn landing_every_anomaly_is_met_in_the_coupled_tree() {
    meet_all(TREES[1]);
}

fn meet_all(structure: &str) -> Report {
    let mut total = Report::default();
    for anomaly in anomalies() {
        let (program, case) = (anomaly.program(), case_of(structure, &anomaly));
        let met = anomaly.meet(&*case);
        let met = met.unwrap_or_else(|| panic!("{structure}, {program}: not met"));
        let Meeting { config, report, failure } = met;
        let schedules = report.counts.schedules;
        total.add(&report);
        let (number, bound) = (anomaly.number, anomaly.schedules);
        println!("{structure} {number}: {program}: {} in {schedules} of {bound}", failure.kind);
        assert!(is_loss(&failure), "{failure}");
        let replay = case.replay(&config, failure.seed, &failure.choices).expect("it opens");
        assert!(!replay.diverged);
        let again = replay.failure.expect("it fails again");
        assert_eq!((again.kind, again.message), (failure.kind, failure.message));
    }
    total
}

#[test]
fn every_record_repeats_what_the_protocol_of_nbtree_loses() {
    for anomaly in anomalies() {
        let path = path_of(&anomaly);
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let record = Record::from_text(&text).expect("a record");
        assert_eq!((&*record.structure, &*record.program), (TREES[0], &*anomaly.program()));
        let failure = record.replay(STRUCTURES).expect("the program is there").failure;
        let failure = failure.unwrap_or_else(|| {
            panic!(
                "{}: the code has changed and the schedule is another one now: run \
                 `cargo test -p everleaf-prove-designs --test it write_the_records -- --ignored` \
                 and read what it writes",
                path.display()
            )
        });
        assert!(is_loss(&failure), "{failure}");
    }
}

#[test]
#[ignore = "by hand: writes the records anew, when the code they repeat has changed"]
fn by_hand_write_the_records_of_nbtree() {
    for anomaly in anomalies() {
        let program = anomaly.program();
        let met = anomaly.meet(&*case_of(TREES[0], &anomaly));
        let met = met.unwrap_or_else(|| panic!("{program}: not met"));
        let record = Record::new(TREES[0], &program, &met.config, &met.failure);
        std::fs::write(path_of(&anomaly), record.to_text()).expect("a file beside this one");
    }
}

/// Schedules that a search through all orders may take.
const ALL: u64 = 4_000_000;

/// What the search of an anomaly meets in a tree.
fn search<T: Design<Simulated>>(anomaly: &Anomaly) -> SearchResult {
    let (program, plan) = anomaly.strict::<Of<T>>();
    explore(program, plan, &anomaly.config(), ALL)
}

/// Searches all orders of an anomaly in a tree that locks, with the preemptions that the tree
/// without locks fails with, and asserts that this does; and that the tree that locks is right, or
/// fails too where locks do not help.
fn is_right<Locked: Design<Simulated>, Bare: Design<Simulated>>(anomaly: &Anomaly) {
    let name = format!("{}, {}: {}", Locked::INFO.name, anomaly.number, anomaly.scenario.name);
    let started = Instant::now();
    let (report, failure) = search::<Locked>(anomaly);
    if anomaly.remains_in.contains(&Locked::INFO.name) {
        let failure = failure.unwrap_or_else(|| panic!("{name}: locks help"));
        assert!(is_loss(&failure), "{failure}");
    } else {
        assert!(failure.is_none(), "{name}: {failure:?}");
        assert!(report.exhausted, "{name}: more than {ALL} schedules");
    }
    let (_, failure) = search::<Bare>(anomaly);
    let failure = failure.unwrap_or_else(|| panic!("{name}: right without locks too"));
    assert!(is_loss(&failure), "{failure}");
    let seconds = started.elapsed().as_secs_f64();
    println!("{name}: {} schedules, {seconds:.2} s", report.counts.schedules);
}

/// The trees whose writers lock, and whose readers do too.
const LOCKED: [&str; 2] = ["nbtree-w", "nbtree-wr"];

/// Trees and anomalies whose searches take most of the time of all: programs of some two hundred thousand orders.
/// They run at night.
const SLOW: [(&str, &str); 3] = [(LOCKED[0], "A5"), (LOCKED[0], "A8"), (LOCKED[1], "A8")];

fn is_slow(tree: &str, anomaly: &Anomaly) -> bool {
    SLOW.contains(&(tree, anomaly.number))
}

fn is_right_if_writers_lock(anomaly: &Anomaly) {
    match anomaly.scenario.slots {
        2 => is_right::<NbTreeW<Two, Simulated>, NbTreePublished<Two, Simulated>>(anomaly),
        3 => is_right::<NbTreeW<Three, Simulated>, NbTreePublished<Three, Simulated>>(anomaly),
        slots => panic!("no tree has {slots} slots here"),
    }
}

fn is_right_if_readers_lock(anomaly: &Anomaly) {
    match anomaly.scenario.slots {
        2 => is_right::<NbTreeWr<Two, Simulated>, NbTreePublished<Two, Simulated>>(anomaly),
        3 => is_right::<NbTreeWr<Three, Simulated>, NbTreePublished<Three, Simulated>>(anomaly),
        slots => panic!("no tree has {slots} slots here"),
    }
}

/// The programs for trees that lock: there nobody may stop for ever.
fn with_locks() -> impl Iterator<Item = Anomaly> {
    anomalies().into_iter().filter(|anomaly| !anomaly.stops)
}

/// Whether a program has a read: without one `nbtree-wr` does what `nbtree-w` does, step by step.
fn reads(anomaly: &Anomaly) -> bool {
    anomaly.scenario.plan.iter().flatten().any(Operation::is_read)
}

/// The programs of a tree that locks whose searches are slow, or the others.
fn of_locked(tree: &str, are_slow: bool) -> Vec<Anomaly> {
    with_locks()
        .filter(|anomaly| tree == LOCKED[0] || reads(anomaly))
        .filter(|anomaly| is_slow(tree, anomaly) == are_slow)
        .collect()
}

#[test]
#[ignore = "guards a landing"]
fn landing_programs_that_fail_otherwise_hold_if_writers_lock() {
    of_locked(LOCKED[0], false).iter().for_each(is_right_if_writers_lock);
}

#[test]
#[ignore = "guards a landing"]
fn landing_programs_that_fail_otherwise_hold_if_readers_lock() {
    of_locked(LOCKED[1], false).iter().for_each(is_right_if_readers_lock);
}

#[test]
#[ignore = "a long run"]
fn programs_of_many_orders_hold_if_writers_or_readers_lock() {
    of_locked(LOCKED[0], true).iter().for_each(is_right_if_writers_lock);
    of_locked(LOCKED[1], true).iter().for_each(is_right_if_readers_lock);
}

/// Each of the list is a program that there is, so that none is in no tier.
#[test]
fn every_slow_search_is_one_of_a_tree_that_locks() {
    let slow: usize = LOCKED.iter().map(|tree| of_locked(tree, true).len()).sum();
    assert_eq!(slow, SLOW.len());
}
