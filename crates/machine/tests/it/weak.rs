//! Memory as weak as the named orderings allow: what they forbid is never seen, what they allow is.

use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};

use crate::support::words::{Script, Words, run_some};
use everleaf_machine::simulated::{Config, CrashConfig, FailureKind, MemoryModel, SchedulerKind};
use everleaf_machine::{FingerprintLine, Machine, Pair, Simulated};

fn outcomes(script: Script) -> Vec<Vec<u64>> {
    let crash = CrashConfig { enabled: false, ..CrashConfig::default() };
    let scheduler = SchedulerKind::Random;
    let config = Config { memory: MemoryModel::Weak, scheduler, crash, ..Config::default() };
    let seen = run_some(script, config, 3_000).unwrap_or_else(|failure| panic!("{failure}"));
    seen.outcomes.into_iter().collect()
}

fn nothing(_order: Ordering) {}

/// A message of one word, and a flag that says that it is there.
fn message([store, load]: [Ordering; 2], [before, behind]: [fn(Ordering); 2]) -> Vec<Vec<u64>> {
    outcomes(vec![
        Box::new(move |words: &Words| {
            words.at(0).store(1, Relaxed);
            before(Release);
            words.at(8).store(1, store);
            0
        }),
        Box::new(move |words: &Words| {
            let flag = words.at(8).load(load);
            behind(Acquire);
            flag * 10 + words.at(0).load(Relaxed)
        }),
    ])
}

#[test]
fn a_message_needs_a_release_and_an_acquire() {
    let (all, ordered) = ([[0, 0], [0, 1], [0, 10], [0, 11]], [[0, 0], [0, 1], [0, 11]]);
    assert_eq!(message([Release, Acquire], [nothing; 2]), ordered);
    assert_eq!(message([SeqCst, SeqCst], [nothing; 2]), ordered);
    for orders in [[Relaxed, Acquire], [Release, Relaxed], [Relaxed, Relaxed]] {
        assert_eq!(message(orders, [nothing; 2]), all, "{orders:?}");
    }
}

#[test]
fn fences_order_what_is_relaxed_if_both_are_there() {
    let (all, ordered) = ([[0, 0], [0, 1], [0, 10], [0, 11]], [[0, 0], [0, 1], [0, 11]]);
    let fence = Simulated::fence as fn(Ordering);
    assert_eq!(message([Relaxed, Relaxed], [fence, fence]), ordered);
    assert_eq!(message([Relaxed, Relaxed], [fence, nothing]), all);
    assert_eq!(message([Relaxed, Relaxed], [nothing, fence]), all);
}

/// A message, and a byte that says that it is there, from a thread and from one that helps it; a third thread matches
/// the byte, and reads at an address that follows from it.
#[test]
fn an_older_match_brings_what_its_byte_was_released_behind() {
    let seen = outcomes(vec![
        Box::new(|words: &Words| {
            words.at(8).store(1, Relaxed);
            words.at(0).store(7, Release);
            0
        }),
        Box::new(|words: &Words| {
            if words.at(8).load(Acquire) == 1 && words.at(0).load(Acquire) == 7 {
                words.at(0).store(7 | 9 << 8, Release);
            }
            0
        }),
        Box::new(|words: &Words| {
            // SAFETY: the first line of the pool, aligned to 64 bytes, only accessed atomically.
            let line = unsafe { &*words.at(0).as_ptr().cast::<FingerprintLine<Simulated>>() };
            let (helped, found) = (line.matches(9), line.matches(7));
            helped * 50 + found * 10 + words.at(8).load(Relaxed)
        }),
    ]);
    let seen: Vec<u64> = seen.into_iter().map(|outcome| outcome[2]).collect();
    // Neither 10 nor 110: the byte without the message.
    assert_eq!(seen, [0, 1, 11, 111]);
}

/// Each thread stores to its word, fences, and loads the other's.
fn store_buffering(first: fn(Ordering), second: fn(Ordering)) -> Vec<Vec<u64>> {
    outcomes(vec![
        Box::new(move |words: &Words| {
            words.at(0).store(1, Release);
            first(SeqCst);
            words.at(8).load(Acquire)
        }),
        Box::new(move |words: &Words| {
            words.at(8).store(1, Release);
            second(SeqCst);
            words.at(0).load(Acquire)
        }),
    ])
}

#[test]
fn a_load_may_come_before_a_store_but_for_full_fences() {
    let fence = Simulated::fence as fn(Ordering);
    assert!(store_buffering(nothing, nothing).contains(&vec![0, 0]));
    assert!(store_buffering(fence, nothing).contains(&vec![0, 0]));
    assert_eq!(store_buffering(fence, fence), [[0, 1], [1, 0], [1, 1]]);
}

#[test]
fn a_heavy_barrier_makes_up_for_light_ones() {
    let (light, heavy) = (|_| Simulated::light_barrier(), |_| Simulated::heavy_barrier());
    assert_eq!(store_buffering(light, heavy), [[0, 1], [1, 0], [1, 1]]);
    assert!(store_buffering(light, light).contains(&vec![0, 0]));
    assert!(store_buffering(nothing, heavy).contains(&vec![0, 0]), "a compiler may move the load");
}

/// T0 stores, fences, and finds a flag down that T1 raises; T2 acquires the flag, and loads what T0 stored.
fn behind_an_acquire(fence: fn(Ordering), order: Ordering) -> Vec<Vec<u64>> {
    outcomes(vec![
        Box::new(move |words: &Words| {
            words.at(0).store(1, Relaxed);
            fence(SeqCst);
            words.at(8).load(Relaxed)
        }),
        Box::new(|words: &Words| {
            words.at(8).store(1, Relaxed);
            0
        }),
        Box::new(move |words: &Words| {
            let flag = words.at(8).load(order);
            flag * 10 + words.at(0).load(Relaxed)
        }),
    ])
}

#[test]
fn an_acquire_brings_what_was_behind_a_full_fence_by_then() {
    let unseen = vec![0, 0, 10];
    assert!(!behind_an_acquire(Simulated::fence, Acquire).contains(&unseen));
    assert!(behind_an_acquire(Simulated::fence, Relaxed).contains(&unseen));
    assert!(behind_an_acquire(nothing, Acquire).contains(&unseen));
}

/// In every order the same loads, by number, were given older values, since all have one seed: with most seeds no
/// order had a flag that is new and a message that is not.
#[test]
fn an_exhaustive_search_draws_the_memory_of_each_order() {
    let script = || -> Script {
        vec![
            // It may be stopped at many places before it looks.
            Box::new(|words: &Words| {
                let nothing: u64 = (0..30).map(|_| words.at(16).load(Relaxed)).sum();
                nothing + words.at(8).load(Relaxed) * 10 + words.at(0).load(Relaxed)
            }),
            Box::new(|words: &Words| {
                words.at(0).store(1, Relaxed);
                words.at(8).store(1, Relaxed);
                0
            }),
        ]
    };
    let crash = CrashConfig { enabled: false, ..CrashConfig::default() };
    let scheduler = SchedulerKind::Dfs { preemptions: 1 };
    for seed in 1..=8 {
        let memory = MemoryModel::Weak;
        let config = Config { memory, scheduler, crash, seed, ..Config::default() };
        let seen = run_some(script(), config, 10_000).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(seen.outcomes.contains(&vec![10, 0]), "seed {seed}: {:?}", seen.outcomes);
    }
}

#[test]
fn a_word_never_goes_back() {
    let seen = outcomes(vec![
        Box::new(|words: &Words| {
            words.at(0).store(1, Relaxed);
            words.at(0).store(2, Relaxed);
            0
        }),
        Box::new(|words: &Words| {
            let first = words.at(0).load(Relaxed);
            first * 10 + words.at(0).load(Relaxed)
        }),
    ]);
    assert_eq!(seen, [[0, 0], [0, 1], [0, 2], [0, 11], [0, 12], [0, 22]]);
}

#[test]
fn what_one_has_seen_it_passes_on() {
    // T0 writes, T1 sees that and tells, T2 hears of it.
    let seen = outcomes(vec![
        Box::new(|words: &Words| {
            words.at(0).store(1, Relaxed);
            0
        }),
        Box::new(|words: &Words| {
            let seen = words.at(0).load(Relaxed);
            words.at(8).store(seen, Release);
            0
        }),
        Box::new(|words: &Words| {
            let heard = words.at(8).load(Acquire);
            heard * 10 + words.at(0).load(Relaxed)
        }),
    ]);
    assert!(!seen.contains(&vec![0, 0, 10]), "{seen:?}");
    assert!(seen.contains(&vec![0, 0, 11]), "{seen:?}");
}

#[test]
fn a_locked_operation_sees_the_newest_value() {
    let add = |words: &Words| words.at(0).fetch_add(1, Relaxed);
    for mut outcome in outcomes(vec![Box::new(add), Box::new(add), Box::new(add)]) {
        outcome.sort_unstable();
        assert_eq!(outcome, [0, 1, 2]);
    }
}

#[test]
fn a_relaxed_exchange_continues_the_release_before_it() {
    let seen = |order| {
        outcomes(vec![
            Box::new(move |words: &Words| {
                words.at(0).store(1, Relaxed);
                words.at(8).store(1, order);
                0
            }),
            Box::new(|words: &Words| words.at(8).fetch_add(1, Relaxed)),
            Box::new(|words: &Words| {
                let flag = words.at(8).load(Acquire);
                flag * 10 + words.at(0).load(Relaxed)
            }),
        ])
    };
    assert!(!seen(Release).contains(&vec![0, 1, 20]));
    assert!(seen(Relaxed).contains(&vec![0, 1, 20]));
}

#[test]
fn a_pair_that_is_exchanged_is_seen_whole_and_may_be_older() {
    let pair = |first, second| Pair { first, second };
    let seen = outcomes(vec![
        Box::new(move |words: &Words| {
            words.pair(0).claim(pair(0, 0), pair(1, 1)).expect("nobody else writes it");
            words.at(8).store(1, Relaxed);
            0
        }),
        Box::new(|words: &Words| {
            let flag = words.at(8).load(Acquire);
            let pair = words.pair(0).load();
            flag * 100 + pair.first * 10 + pair.second
        }),
    ]);
    assert_eq!(seen, [[0, 0], [0, 11], [0, 100], [0, 111]]);
}

#[test]
fn a_stored_pair_may_be_older_behind_a_relaxed_flag_only() {
    let seen = |order| {
        outcomes(vec![
            Box::new(move |words: &Words| {
                words.pair(0).store(Pair { first: 1, second: 1 });
                words.at(8).fetch_or(1, order);
                0
            }),
            Box::new(|words: &Words| {
                let flag = words.at(8).load(Acquire);
                let pair = words.pair(0).load();
                flag * 100 + pair.first * 10 + pair.second
            }),
        ])
    };
    // The second half is stored first.
    assert_eq!(seen(AcqRel), [[0, 0], [0, 1], [0, 11], [0, 111]]);
    let weak = seen(Relaxed);
    assert!(weak.contains(&vec![0, 100]), "{weak:?}");
    assert!(!weak.contains(&vec![0, 110]) && !weak.contains(&vec![0, 10]), "{weak:?}");
}

#[test]
fn a_thread_that_waits_for_a_store_sees_it_at_last() {
    let seen = outcomes(vec![
        Box::new(|words: &Words| {
            words.at(0).store(1, Relaxed);
            0
        }),
        Box::new(|words: &Words| {
            while words.at(0).load(Relaxed) == 0 {
                Simulated::spin(0);
            }
            1
        }),
    ]);
    assert_eq!(seen, [[0, 1]]);
}

#[test]
fn a_data_race_is_found_there_too() {
    let script: Script = vec![
        Box::new(|words: &Words| {
            words.at(0).write_private(7);
            words.at(8).store(1, Relaxed);
            0
        }),
        Box::new(
            |words: &Words| {
                if words.at(8).load(Acquire) == 1 { words.at(0).read_private() } else { 7 }
            },
        ),
    ];
    let config = Config { memory: MemoryModel::Weak, ..Config::default() };
    let scheduler = SchedulerKind::Random;
    let failure = run_some(script, Config { scheduler, ..config }, 100).err().expect("a race");
    assert_eq!(failure.kind, FailureKind::DataRace);
}
