//! What threads may see of each other's stores: the classic litmus tests, exhaustively.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::support::words::{Script, Words, run};
use everleaf_machine::simulated::{Config, CrashConfig, MemoryModel};
use everleaf_machine::{FingerprintLine, Machine, Simulated};

fn config(memory: MemoryModel) -> Config {
    let crash = CrashConfig { enabled: false, ..CrashConfig::default() };
    Config { memory, crash, ..Config::default() }
}

fn outcomes(memory: MemoryModel, script: Script) -> Vec<Vec<u64>> {
    let seen = run(script, config(memory)).unwrap_or_else(|failure| panic!("{failure}"));
    seen.outcomes.into_iter().collect()
}

/// A line of eight words in which one byte each is watched.
fn match_script() -> Script {
    vec![
        Box::new(|words: &Words| {
            words.at(0).store(7, Release);
            words.at(1).store(7, Release);
            0
        }),
        Box::new(|words: &Words| {
            // SAFETY: the first line of the pool, aligned to 64 bytes, only accessed atomically.
            let line = unsafe { &*words.at(0).as_ptr().cast::<FingerprintLine<Simulated>>() };
            line.matches(7)
        }),
    ]
}

#[test]
fn a_byte_match_reads_its_line_at_once_unless_told_to_tear() {
    for memory in [MemoryModel::Sc, MemoryModel::Tso] {
        let seen = |torn_matches| {
            let config = Config { torn_matches, ..config(memory) };
            let seen = run(match_script(), config).unwrap_or_else(|failure| panic!("{failure}"));
            seen.outcomes.into_iter().map(|outcome| outcome[1]).collect::<Vec<_>>()
        };
        assert_eq!(seen(false), [0, 1, 1 | 1 << 8]);
        // Torn, the second word may be newer than the first.
        assert_eq!(seen(true), [0, 1, 1 << 8, 1 | 1 << 8]);
    }
}

/// Each thread stores to its word, fences, and loads the other's.
fn store_buffering(first: fn(), second: fn()) -> Script {
    vec![
        Box::new(move |words: &Words| {
            words.at(0).store(1, Release);
            first();
            words.at(8).load(Acquire)
        }),
        Box::new(move |words: &Words| {
            words.at(8).store(1, Release);
            second();
            words.at(0).load(Acquire)
        }),
    ]
}

#[test]
fn store_buffers_show_only_under_total_store_order() {
    let nothing = || {};
    let sc = outcomes(MemoryModel::Sc, store_buffering(nothing, nothing));
    assert_eq!(sc, [[0, 1], [1, 0], [1, 1]]);
    let tso = outcomes(MemoryModel::Tso, store_buffering(nothing, nothing));
    assert_eq!(tso, [[0, 0], [0, 1], [1, 0], [1, 1]]);
}

#[test]
fn a_full_fence_on_both_sides_forbids_store_buffering() {
    let fence = || Simulated::fence(SeqCst);
    let tso = outcomes(MemoryModel::Tso, store_buffering(fence, fence));
    assert_eq!(tso, [[0, 1], [1, 0], [1, 1]]);
    // On one side it is not enough, and weaker fences are none.
    let one = outcomes(MemoryModel::Tso, store_buffering(fence, || {}));
    assert!(one.contains(&vec![0, 0]));
    let weak = || Simulated::fence(Release);
    assert!(outcomes(MemoryModel::Tso, store_buffering(weak, weak)).contains(&vec![0, 0]));
}

#[test]
fn a_heavy_barrier_makes_up_for_light_ones() {
    let (light, heavy) = (Simulated::light_barrier as fn(), Simulated::heavy_barrier as fn());
    let both = outcomes(MemoryModel::Tso, store_buffering(light, heavy));
    assert_eq!(both, [[0, 1], [1, 0], [1, 1]]);
    let light_only = outcomes(MemoryModel::Tso, store_buffering(light, light));
    assert!(light_only.contains(&vec![0, 0]));
}

#[test]
fn a_sequentially_consistent_store_waits_for_its_buffer() {
    let script = || -> Script {
        vec![
            Box::new(|words: &Words| {
                words.at(0).store(1, SeqCst);
                words.at(8).load(SeqCst)
            }),
            Box::new(|words: &Words| {
                words.at(8).store(1, SeqCst);
                words.at(0).load(SeqCst)
            }),
        ]
    };
    assert!(!outcomes(MemoryModel::Tso, script()).contains(&vec![0, 0]));
}

#[test]
fn messages_are_passed_in_order() {
    for memory in [MemoryModel::Sc, MemoryModel::Tso] {
        let script: Script = vec![
            Box::new(|words: &Words| {
                words.at(0).store(1, Relaxed);
                words.at(8).store(1, Release);
                0
            }),
            Box::new(|words: &Words| {
                let flag = words.at(8).load(Acquire);
                flag * 10 + words.at(0).load(Relaxed)
            }),
        ];
        // Never the flag without the message (10).
        assert_eq!(outcomes(memory, script), [[0, 0], [0, 1], [0, 11]]);
    }
}

#[test]
fn loads_are_never_reordered_with_later_stores() {
    for memory in [MemoryModel::Sc, MemoryModel::Tso] {
        let script: Script = vec![
            Box::new(|words: &Words| {
                let seen = words.at(0).load(Relaxed);
                words.at(8).store(1, Relaxed);
                seen
            }),
            Box::new(|words: &Words| {
                let seen = words.at(8).load(Relaxed);
                words.at(0).store(1, Relaxed);
                seen
            }),
        ];
        assert_eq!(outcomes(memory, script), [[0, 0], [0, 1], [1, 0]]);
    }
}

#[test]
fn a_thread_sees_its_own_buffered_stores() {
    let script: Script = vec![Box::new(|words: &Words| {
        words.at(0).store(7, Relaxed);
        words.at(1).write_private(8);
        let pair = words.pair(0).load();
        words.at(0).load(Relaxed) * 100 + pair.first + pair.second
    })];
    assert_eq!(outcomes(MemoryModel::Tso, script), [[715]]);
}

#[test]
fn locked_operations_are_atomic() {
    for memory in [MemoryModel::Sc, MemoryModel::Tso] {
        let add = |words: &Words| words.at(0).fetch_add(1, Relaxed);
        let script: Script = vec![Box::new(add), Box::new(add), Box::new(add)];
        for mut outcome in outcomes(memory, script) {
            outcome.sort_unstable();
            assert_eq!(outcome, [0, 1, 2]);
        }
    }
}

#[test]
fn a_counter_by_load_and_store_loses_updates() {
    let add = |words: &Words| {
        let seen = words.at(0).load(Relaxed);
        words.at(0).store(seen + 1, Relaxed);
        seen
    };
    let script: Script = vec![Box::new(add), Box::new(add)];
    assert!(outcomes(MemoryModel::Sc, script).contains(&vec![0, 0]));
}
