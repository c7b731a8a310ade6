//! The check of named orderings: what is missing is found, what is there is accepted.

use std::alloc::Layout;
use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};

use crate::support::list::ListProgram;
use crate::support::words::{Script, Words, run};
use everleaf_machine::simulated::{Config, CrashConfig, FailureKind};
use everleaf_machine::{Atomic, Machine, Simulated, SpinLock};

fn config() -> Config {
    let crash = CrashConfig { enabled: false, ..CrashConfig::default() };
    Config { races: true, births: true, crash, ..Config::default() }
}

fn outcome(script: Script) -> Result<(), FailureKind> {
    run(script, config()).map(|_| ()).map_err(|failure| failure.kind)
}

/// Thread 0 writes word 0 privately and sets a flag; thread 1 reads it privately once it is set.
fn message(
    publish: impl Fn(&Words) + 'static,
    receive: impl Fn(&Words) -> bool + 'static,
) -> Result<(), FailureKind> {
    outcome(vec![
        Box::new(move |words| {
            words.at(0).write_private(7);
            publish(words);
            0
        }),
        Box::new(move |words| if receive(words) { words.at(0).read_private() } else { 7 }),
    ])
}

fn store(order: Ordering) -> impl Fn(&Words) {
    move |words| words.at(8).store(1, order)
}

fn load(order: Ordering) -> impl Fn(&Words) -> bool {
    move |words| words.at(8).load(order) == 1
}

#[test]
fn a_release_store_and_an_acquire_load_order_a_message() {
    assert_eq!(message(store(Release), load(Acquire)), Ok(()));
    assert_eq!(message(store(SeqCst), load(SeqCst)), Ok(()));
}

#[test]
fn a_release_does_not_cover_what_comes_after_it() {
    let script: Script = vec![
        Box::new(|words| {
            words.at(8).store(1, Release);
            words.at(0).write_private(7);
            0
        }),
        Box::new(
            |words| {
                if words.at(8).load(Acquire) == 1 { words.at(0).read_private() } else { 0 }
            },
        ),
    ];
    assert_eq!(outcome(script), Err(FailureKind::DataRace));
}

#[test]
fn a_relaxed_store_or_load_does_not() {
    assert_eq!(message(store(Relaxed), load(Acquire)), Err(FailureKind::DataRace));
    assert_eq!(message(store(Release), load(Relaxed)), Err(FailureKind::DataRace));
}

#[test]
fn fences_make_relaxed_accesses_do() {
    let release = |words: &Words| {
        Simulated::fence(Release);
        words.at(8).store(1, Relaxed);
    };
    let acquire = |words: &Words| {
        let seen = words.at(8).load(Relaxed) == 1;
        Simulated::fence(Acquire);
        seen
    };
    assert_eq!(message(release, acquire), Ok(()));
    assert_eq!(message(release, load(Relaxed)), Err(FailureKind::DataRace));
    assert_eq!(message(store(Relaxed), acquire), Err(FailureKind::DataRace));
}

#[test]
fn a_release_sequence_goes_on_with_an_exchange_not_with_a_store() {
    let publish = |then: fn(&Words)| {
        move |words: &Words| {
            words.at(8).store(1, Release);
            then(words);
        }
    };
    let seen = |words: &Words| words.at(8).load(Acquire) == 3;
    let exchange = publish(|words| {
        words.at(8).fetch_add(2, Relaxed);
    });
    assert_eq!(message(exchange, seen), Ok(()));
    let overwrite = publish(|words| words.at(8).store(3, Relaxed));
    assert_eq!(message(overwrite, seen), Err(FailureKind::DataRace));
}

#[test]
fn a_failed_exchange_orders_as_its_failure_ordering_says() {
    let with = |failure| {
        move |words: &Words| words.at(8).compare_exchange(5, 6, AcqRel, failure) == Err(1)
    };
    assert_eq!(message(store(Release), with(Acquire)), Ok(()));
    assert_eq!(message(store(Release), with(Relaxed)), Err(FailureKind::DataRace));
}

#[test]
fn seeing_a_private_write_through_an_atomic_load_is_a_race() {
    let script: Script = vec![
        Box::new(|words| {
            words.at(0).write_private(1);
            0
        }),
        Box::new(|words| words.at(0).load(Acquire)),
    ];
    assert_eq!(outcome(script), Err(FailureKind::DataRace));
}

#[test]
fn the_bytes_of_a_record_need_an_order_too() {
    let record = |publish: Ordering| -> Script {
        vec![
            Box::new(move |words: &Words| {
                let start = words.at(16).as_ptr().cast_mut();
                // SAFETY: in the pool, aligned, and nobody's but this thread's until published.
                unsafe { Simulated::write_bytes(start, &[9; 20]) };
                words.at(8).store(1, publish);
                0
            }),
            Box::new(|words: &Words| {
                if words.at(8).load(Acquire) == 1 {
                    // SAFETY: in the pool.
                    unsafe { Simulated::read_bytes(words.at(16).as_ptr(), 20) };
                }
                0
            }),
        ]
    };
    assert_eq!(outcome(record(Release)), Ok(()));
    assert_eq!(outcome(record(Relaxed)), Err(FailureKind::DataRace));
}

#[test]
fn a_spin_lock_orders_what_it_guards() {
    let lock = &*Box::leak(Box::new(SpinLock::<(), Simulated>::new(())));
    let body = move |words: &Words| {
        let _guard = lock.lock();
        words.at(0).write_private(words.at(0).read_private() + 1);
        0
    };
    assert_eq!(outcome(vec![Box::new(body), Box::new(body)]), Ok(()));
}

#[test]
fn the_list_names_enough_orderings() {
    let config = Config { races: true, ..Config::default() };
    let random = |number| ListProgram::random(number, 3, 3);
    let report = everleaf_machine::simulated::search(&config, 0..20, 50, random);
    assert!(report.is_ok(), "{report:?}");
}

#[test]
fn a_thread_that_frees_has_the_reads_of_others_behind_it() {
    let read_and_free = |done: Ordering| -> Script {
        vec![
            Box::new(move |words: &Words| {
                let read = words.at(16).load(Relaxed);
                words.at(8).store(1, done);
                read
            }),
            Box::new(|words: &Words| {
                if words.at(8).load(Acquire) == 1 {
                    Simulated::lifetime(words.at(16).as_ptr().cast(), 16, false);
                }
                0
            }),
        ]
    };
    assert_eq!(outcome(read_and_free(Release)), Ok(()));
    assert_eq!(outcome(read_and_free(Relaxed)), Err(FailureKind::DataRace));
}

/// What its owner left in a node by plain stores nobody sees; the words in it tell which thread may
/// look.
#[test]
fn a_node_is_used_only_behind_its_allocation() {
    let publish = |order: Ordering| -> Script {
        vec![
            Box::new(move |words: &Words| {
                let layout = Layout::new::<[Atomic<u64, Simulated>; 8]>();
                let layout = layout.align_to(64).expect("a power of two");
                let node = Simulated::allocate(layout).cast::<Atomic<u64, Simulated>>();
                // SAFETY: large enough, and nobody else has it yet.
                unsafe { node.write(Atomic::new(7)) };
                words.at(8).store(node.expose_provenance() as u64, order);
                0
            }),
            Box::new(|words: &Words| {
                let address = words.at(8).load(Acquire) as usize;
                let node = std::ptr::with_exposed_provenance::<Atomic<u64, Simulated>>(address);
                // SAFETY: null, or the node above, which is never freed.
                unsafe { node.as_ref() }.map_or(7, |node| node.load(Relaxed))
            }),
        ]
    };
    assert_eq!(outcome(publish(Release)), Ok(()));
    assert_eq!(outcome(publish(Relaxed)), Err(FailureKind::DataRace));
}
