//! Runs of every call (`simulated/crashes/calling.rs`), of two threads that meet (`meeting.rs`), of calls that are
//! refused (`refusing.rs`), of threads that race (`racing.rs`), and of damage (`damaging.rs`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use everleaf_log::simulated::{Faults, SimulatedDisk};

use crate::wal::simulated::crashes::calls::make::Hands;
use crate::wal::simulated::crashes::calls::{Call, Decided, NAMES, State, What};
use crate::wal::simulated::crashes::model::Contents;
use crate::wal::simulated::crashes::world::{folder, options};
use crate::wal::simulated::crashes::{
    Counts, brief, calls, damaging, meeting, racing, refusing, run, threads,
};

type Kind = fn(u64, &[&'static str]) -> Counts;

fn of_threads(number: u64, mutants: &[&'static str]) -> Counts {
    threads(number, mutants).unwrap_or_else(|text| panic!("{text}"));
    Counts::default()
}

/// All kinds, with the parts of a search that each has, as in the prover.
const KINDS: [(&str, Kind, u64); 8] = [
    ("run", run, 1),
    ("brief", brief, 5),
    ("threads", of_threads, 3),
    ("calls", calls, 2),
    ("meeting", meeting, 10),
    ("refusing", refusing, 3),
    ("racing", racing, 2),
    ("damaging", damaging, 2),
];

/// Whether the environment picks one run.
fn is_given() -> bool {
    super::given("CALLED_RUN").is_some()
}

/// Runs that many of one kind, or the one that the environment picks.
fn go(name: &str, count: u64) -> Counts {
    let (_, kind, _) = KINDS.iter().find(|(of, ..)| *of == name).expect("a kind");
    let (first, count) = match super::given("CALLED_RUN") {
        Some(number) => (number, 1),
        None => (0, count),
    };
    let mut seen = Counts::default();
    for number in first..first + count {
        let Ok(counts) = catch_unwind(AssertUnwindSafe(|| kind(number, &[]))) else {
            panic!("CALLED_RUN={number} repeats it");
        };
        seen.add(counts);
    }
    println!("{seen:?}");
    seen
}

/// Two megabytes for a few records were most of the work of a run: to give them to the pool, to copy them and to take
/// them back.
#[test]
fn a_simulated_store_has_a_small_pool() {
    let (folder, disk) = (folder(), SimulatedDisk::new(Faults::default(), 1));
    let path = |name: &str| folder.path().join(name);
    let size = |name: &str| std::fs::metadata(path(name)).expect("it is there").len();
    let store = options(&disk).open(path("pool")).expect("it opens");
    for number in 0..30_u8 {
        store.default_map().put([number], [number; 200]).expect("room");
    }
    store.sync().expect("the disk works");
    let left = options(&disk.crashed(1)).open(path("left")).expect("it opens");
    assert_eq!(left.default_map().get([7]).expect("readable"), Some(vec![7; 200]));
    assert_eq!([size("pool"), size("left")], [512 << 10; 2]);
}

/// A pair that has expired is counted until it is freed, which some calls do and others do not.
#[test]
fn the_model_counts_what_has_expired_as_the_store_does() {
    let (folder, disk) = (folder(), SimulatedDisk::new(Faults::default(), 1));
    let store = options(&disk).open(folder.path().join("pool")).expect("it opens");
    let (name, value) = (NAMES[0].to_string(), || b"1".to_vec());
    let behind_it = [
        What::Remove,
        What::RemoveExpired,
        What::Take,
        What::Update(value()),
        What::Insert(value()),
        What::Expire(1 << 45),
        What::Persist,
        What::Get,
        What::Exchange(None, Some(value())),
        What::Decide(0, Decided::Remove),
    ];
    let (mut state, mut hands) = (State::new(), Hands::default());
    for (index, what) in (0..).zip(behind_it) {
        let key = |what| Call::Key { name: name.clone(), key: vec![index], what };
        let count = Call::Look { name: name.clone(), from: vec![], to: vec![], way: 9 };
        for call in [key(What::Put(value(), 1)), count.clone(), key(what), count] {
            let answer = call.make(&store, &mut hands).expect("nothing is refused");
            assert_eq!(answer, state.apply(&call, 1 << 41), "{call:?} of key {index}");
        }
    }
}

/// What had expired could be missing whether or not anything had removed it: that a key whose time had come was
/// logged as gone was not found.
#[test]
fn the_model_keeps_what_has_expired_until_it_is_removed() {
    let (name, key, now_ms) = (NAMES[0].to_string(), vec![7], 1 << 41);
    let mut state = State::new();
    let what = What::Put(b"1".to_vec(), 1);
    let _ = state.apply(&Call::Key { name: name.clone(), key: key.clone(), what }, now_ms);
    let there = Contents::from([(name.clone(), [(key, (b"1".to_vec(), 1))].into())]);
    let gone = Contents::from([(name.clone(), [].into())]);
    assert!(state.fits(&there, now_ms) && !state.fits(&gone, now_ms));
    let _ = state.apply(&Call::Sweep(name), now_ms);
    assert!(state.fits(&there, now_ms) && state.fits(&gone, now_ms));
}

/// A map that is loaded is written in batches where there is a log, and a crash may leave some of them: no more than
/// the empty map was to be left, and so a map whose second batch the pool had no space for counted as a failure. Found
/// by the plain search of the store.
#[test]
fn a_map_that_is_loaded_may_be_left_in_part() {
    let seen = refusing(613_473_708_408, &[]);
    assert!(seen.crashes > 0, "{seen:?}");
}

#[test]
fn every_call_answers_and_leaves_what_it_must() {
    let seen = go("calls", 8);
    assert!(is_given() || seen.crashes > 20 && seen.kills > 20, "{seen:?}");
    assert!(is_given() || seen.passed > 20, "{seen:?}");
}

#[test]
fn calls_that_meet_have_one_order() {
    let seen = go("meeting", 60);
    assert!(is_given() || seen.crashes > 80 && seen.kills > 10, "{seen:?}");
}

#[test]
fn calls_that_are_refused_leave_all_or_nothing() {
    let seen = go("refusing", 12);
    assert!(is_given() || seen.crashes > 10, "{seen:?}");
}

#[test]
fn threads_that_race_lose_nothing() {
    let _ = go("racing", 3);
}

#[test]
fn what_is_damaged_is_right_or_refused() {
    let seen = go("damaging", 24);
    assert!(is_given() || seen.crashes > 5 && seen.kills > 5, "{seen:?}");
}

/// Goes through all kinds from a round on until something is wrong or the time is up: what is wrong, by what.
fn search(first: u64, seconds: u64, mutants: &[&'static str]) -> Option<String> {
    let (began, mut spent) = (Instant::now(), [0.0; KINDS.len()]);
    for round in first.. {
        for (index, (name, kind, parts)) in KINDS.iter().enumerate() {
            for number in round * parts..(round + 1) * parts {
                let from = Instant::now();
                let done = catch_unwind(AssertUnwindSafe(|| kind(number, mutants)));
                spent[index] += from.elapsed().as_secs_f64();
                if done.is_err() {
                    return Some(format!("{name}/{number} behind {:.1?}", began.elapsed()));
                }
            }
        }
        if began.elapsed().as_secs() >= seconds {
            println!("{} rounds, {spent:.1?}", round - first + 1);
            return None;
        }
    }
    None
}

/// `CALLED_SECONDS` says for how long, `CALLED_FIRST` from which round on, `CALLED_MUTANTS` which planted bugs are
/// looked for, each by itself.
#[test]
#[ignore = "a long run"]
fn all_kinds_of_runs_are_right_at_very_many() {
    let first = super::given("CALLED_FIRST").unwrap_or(1000);
    let seconds = super::given("CALLED_SECONDS").unwrap_or(60);
    let Ok(mutants) = std::env::var("CALLED_MUTANTS") else {
        let found = search(first, seconds, &[]);
        assert!(found.is_none(), "{found:?}");
        return;
    };
    for mutant in mutants.split(',') {
        let found = search(first, seconds, &[mutant.to_string().leak()]);
        println!("{mutant}: {}", found.unwrap_or_else(|| "NOT FOUND".to_string()));
    }
}
