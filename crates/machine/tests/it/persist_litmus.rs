//! What a crash may keep: litmus tests of the persistence model, exhaustively.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release, SeqCst};

use crate::support::words::{Script, Words, run};
use everleaf_machine::simulated::{Config, Domain, FailureKind, MemoryModel};
use everleaf_machine::{Machine, Pair, Simulated};

fn line() -> Config {
    Config { domain: Domain::Adr, ..Config::default() }
}

/// The values of words `wanted` in all crash images of a one-thread script.
fn images(config: Config, wanted: &[usize], body: impl Fn(&Words) + 'static) -> BTreeSet<Vec<u64>> {
    let script: Script = vec![Box::new(move |words| {
        body(words);
        0
    })];
    let seen = run(script, config).unwrap_or_else(|failure| panic!("{failure}"));
    let project = |image: &Vec<u64>| wanted.iter().map(|&index| image[index]).collect();
    seen.images.iter().map(project).collect()
}

fn set<const N: usize>(images: &[[u64; N]]) -> BTreeSet<Vec<u64>> {
    images.iter().map(|image| image.to_vec()).collect()
}

fn persist(words: &Words, index: usize) {
    Simulated::flush(words.at(index).as_ptr());
    Simulated::drain();
}

#[test]
fn an_unflushed_store_may_be_lost_or_kept() {
    let images = images(line(), &[0], |words| words.at(0).store(1, Release));
    assert_eq!(images, set(&[[0], [1]]));
}

#[test]
fn stores_to_one_line_are_kept_in_order() {
    let images = images(line(), &[0, 1], |words| {
        words.at(0).store(1, Release);
        words.at(1).store(1, Release);
    });
    assert_eq!(images, set(&[[0, 0], [1, 0], [1, 1]]));
}

#[test]
fn stores_to_two_lines_are_kept_in_any_order() {
    let images = images(line(), &[0, 8], |words| {
        words.at(0).store(1, Release);
        words.at(8).store(1, Release);
    });
    assert_eq!(images, set(&[[0, 0], [1, 0], [0, 1], [1, 1]]));
}

#[test]
fn a_flushed_and_drained_store_is_never_lost() {
    for memory in [MemoryModel::Sc, MemoryModel::Tso] {
        let images = images(Config { memory, ..line() }, &[0, 8], |words| {
            words.at(0).store(1, Release);
            persist(words, 0);
            words.at(8).store(1, Release);
        });
        assert_eq!(images, set(&[[0, 0], [1, 0], [1, 1]]));
    }
}

#[test]
fn a_flush_without_a_drain_promises_nothing() {
    let images = images(line(), &[0, 8], |words| {
        words.at(0).store(1, Release);
        Simulated::flush(words.at(0).as_ptr());
        words.at(8).store(1, Release);
    });
    assert!(images.contains(&vec![0, 1]));
}

#[test]
fn a_drain_covers_only_what_was_flushed_before() {
    let images = images(line(), &[0, 8], |words| {
        words.at(0).store(1, Release);
        Simulated::flush(words.at(0).as_ptr());
        words.at(0).store(2, Release);
        Simulated::drain();
        words.at(8).store(1, Release);
    });
    assert!(images.contains(&vec![1, 1]) && images.contains(&vec![2, 1]));
    assert!(!images.contains(&vec![0, 1]));
}

#[test]
fn a_locked_operation_drains_only_where_the_model_says_so() {
    let body = |words: &Words| {
        words.at(0).store(1, Release);
        Simulated::flush(words.at(0).as_ptr());
        words.at(8).fetch_add(1, AcqRel);
    };
    let portable = images(Config { rmw_drains: false, ..line() }, &[0, 8], body);
    assert!(portable.contains(&vec![0, 1]));
    let x86 = images(Config { rmw_drains: true, ..line() }, &[0, 8], body);
    assert!(!x86.contains(&vec![0, 1]));
}

#[test]
fn persistent_caches_keep_all_that_is_visible() {
    let body = |words: &Words| {
        words.at(0).store(1, Release);
        words.at(8).store(1, Release);
    };
    let visible = Config { domain: Domain::Eadr, ..Config::default() };
    let sc = images(visible.clone(), &[0, 8], body);
    assert_eq!(sc, set(&[[1, 0], [1, 1]]));
}

#[test]
fn persistent_caches_lose_store_buffers_process_death_does_not() {
    // The thread's last act is a load, at which point its store may still wait.
    let body = |words: &Words| {
        words.at(8).fetch_add(1, AcqRel);
        words.at(0).store(1, Release);
        words.at(16).load(Relaxed);
    };
    let with = |domain| Config { domain, memory: MemoryModel::Tso, ..Config::default() };
    let fenced = |words: &Words| {
        words.at(0).store(1, Release);
        Simulated::fence(SeqCst);
        words.at(8).fetch_add(1, AcqRel);
    };
    assert!(images(with(Domain::Eadr), &[0, 8], body).contains(&vec![0, 1]));
    assert!(!images(with(Domain::Eadr), &[0, 8], fenced).contains(&vec![0, 1]));
    let process = images(with(Domain::Process), &[0, 8], |words| {
        words.at(0).store(1, Release);
        words.at(8).store(1, Release);
    });
    assert_eq!(process, set(&[[1, 0], [1, 1]]));
}

#[test]
fn a_bulk_copy_may_keep_any_subset_of_its_words() {
    let script = || -> Script {
        vec![Box::new(|words: &Words| {
            let bytes: Vec<u8> = [1u64, 2, 3].iter().flat_map(|word| word.to_le_bytes()).collect();
            // SAFETY: the words are in the pool and nobody else uses them.
            unsafe { Simulated::write_bytes(words.at(0).as_ptr().cast_mut(), &bytes) };
            0
        })]
    };
    let mut images = BTreeSet::new();
    for seed in 0..50 {
        let seen = run(script(), Config { seed, ..line() }).unwrap_or_else(|f| panic!("{f}"));
        images.extend(seen.images.iter().map(|image| image[..3].to_vec()));
    }
    assert_eq!(images.len(), 8, "{images:?}");
}

#[test]
fn the_tail_of_a_bulk_copy_keeps_its_neighbours() {
    let images = images(line(), &[0, 1], |words| {
        words.at(1).store(u64::MAX, Release);
        persist(words, 1);
        // SAFETY: the words are in the pool and nobody else uses them.
        unsafe { Simulated::write_bytes(words.at(0).as_ptr().cast_mut(), &[1; 11]) };
        persist(words, 0);
    });
    assert!(images.contains(&vec![0x0101_0101_0101_0101, 0xFFFF_FFFF_FF01_0101]));
}

#[test]
fn the_halves_of_a_stored_pair_reach_the_medium_in_either_order() {
    let mut all = BTreeSet::new();
    for seed in 0..20 {
        let config = Config { seed, ..line() };
        all.extend(images(config, &[2, 3], |words| {
            words.pair(1).store(Pair { first: 5, second: 6 });
        }));
    }
    assert_eq!(all, set(&[[0, 0], [5, 0], [0, 6], [5, 6]]));
}

#[test]
fn an_exchange_of_both_halves_of_a_persistent_pair_is_refused() {
    let script: Script = vec![Box::new(|words: &Words| {
        let both = words.pair(0).compare_exchange(Pair::default(), Pair { first: 1, second: 2 });
        u64::from(both.is_ok())
    })];
    let failure = run(script, line()).err().expect("both halves changed");
    assert_eq!(failure.kind, FailureKind::TornPair);
}

#[test]
fn another_threads_flush_does_not_make_my_store_durable_early() {
    // T1 flushes and drains the line; only if that came after T0's store may T1's flag imply it.
    let script: Script = vec![
        Box::new(|words: &Words| {
            words.at(0).store(1, Release);
            0
        }),
        Box::new(|words: &Words| {
            let seen = words.at(0).load(Relaxed);
            persist(words, 0);
            words.at(8).store(1 + seen, Release);
            0
        }),
    ];
    let seen = run(script, line()).unwrap_or_else(|failure| panic!("{failure}"));
    let images: BTreeSet<_> = seen.images.iter().map(|image| (image[0], image[8])).collect();
    assert!(images.contains(&(0, 1)));
    assert!(!images.contains(&(0, 2)), "{images:?}");
}
