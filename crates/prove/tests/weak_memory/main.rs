//! The small kernels under the C11 memory model: locks and epochs, in every way that loom finds, with
//! every reordering that their orderings allow. The simulated machine is sequentially consistent or
//! TSO; what a weaker one, or a compiler, may do shows here.

#![allow(
    clippy::arc_with_non_send_sync,
    reason = "loom runs all threads on one, and checks what they share"
)]

mod machine;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use everleaf_alloc::epoch::EpochClock;
use everleaf_machine::{Atomic, Ordering, SpinLock};
use loom::cell::UnsafeCell;
use loom::thread;
use machine::{Loom, check, with_bug};

/// Whether a model fails in one of its executions.
fn fails(run: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(run)).is_err()
}

#[test]
fn a_lock_admits_one_holder_that_sees_what_the_last_one_did() {
    check(3, || {
        let lock: Arc<SpinLock<UnsafeCell<u64>, Loom>> =
            Arc::new(SpinLock::new(UnsafeCell::new(0)));
        drop(lock.lock());
        let add = |lock: &SpinLock<UnsafeCell<u64>, Loom>| {
            let guard = lock.lock();
            // SAFETY: the lock is held; loom fails if another access is not ordered against this.
            guard.with_mut(|value| unsafe { *value += 1 });
        };
        let other = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || add(&lock))
        };
        add(&lock);
        other.join().expect("no panic");
        let guard = lock.lock();
        // SAFETY: the lock is held; loom fails if another access is not ordered against this.
        assert_eq!(guard.with(|value| unsafe { *value }), 2);
    });
}

/// A place that refers to one of two nodes; a reader reads the node it finds while a writer replaces
/// it and writes to the old one when its grace period is over.
struct NodeCell {
    clock: EpochClock<Loom>,
    current: Atomic<u64, Loom>,
    nodes: [UnsafeCell<u64>; 2],
}

fn reclaim_under_a_reader(pins: bool) {
    check(2, move || {
        let nodes = [UnsafeCell::new(10), UnsafeCell::new(20)];
        let clock = EpochClock::new(2);
        let place = Arc::new(NodeCell { clock, current: Atomic::new(0), nodes });
        // Every word is touched before another thread comes.
        let (mine, theirs) = (place.clock.join(), place.clock.join());
        let (mine, theirs) = (mine.expect("two entries"), theirs.expect("two entries"));
        for index in [mine, theirs] {
            place.clock.pin(index);
            place.clock.unpin(index);
        }
        place.clock.try_advance();
        place.current.store(0, Ordering::Relaxed);

        let reader = {
            let place = Arc::clone(&place);
            thread::spawn(move || {
                if pins {
                    place.clock.pin(theirs);
                }
                let node = place.current.load(Ordering::Acquire);
                // SAFETY: not written to while we are pinned; loom fails if it may be.
                let value = place.nodes[node as usize].with(|value| unsafe { *value });
                assert!(value == 10 || value == 20, "read {value}");
                if pins {
                    place.clock.unpin(theirs);
                }
            })
        };
        let old = place.current.swap(1, Ordering::AcqRel);
        let retired = place.clock.retire_epoch();
        for _ in 0..2 {
            place.clock.try_advance();
        }
        if place.clock.is_expired(retired) {
            // SAFETY: the grace period is over; loom fails if a reader may still be there.
            place.nodes[old as usize].with_mut(|value| unsafe { *value = 99 });
        }
        reader.join().expect("no panic");
    });
}

#[test]
fn nothing_is_reclaimed_under_a_pinned_reader() {
    reclaim_under_a_reader(true);
}

#[test]
fn a_reader_without_a_pin_is_caught() {
    assert!(fails(|| reclaim_under_a_reader(false)));
}

/// Not `epoch.no_heavy_barrier`: here the light barrier has to be a full fence, and with the one of
/// `retire_epoch` that is enough. Total store order catches it, where the light one is none.
#[test]
fn weakened_epochs_are_caught() {
    for bug in ["epoch.no_grace", "epoch.short_grace", "epoch.ignores_pins"] {
        assert!(fails(|| with_bug(bug, || reclaim_under_a_reader(true))), "{bug} was not caught");
    }
}

#[test]
fn participants_that_join_at_once_get_different_entries() {
    check(3, || {
        let clock: Arc<EpochClock<Loom>> = Arc::new(EpochClock::new(2));
        let (first, second) = (clock.join(), clock.join());
        clock.leave(first.expect("free"));
        clock.leave(second.expect("free"));
        let other = {
            let clock = Arc::clone(&clock);
            thread::spawn(move || clock.join())
        };
        let mine = clock.join().expect("two entries");
        let theirs = other.join().expect("no panic").expect("two entries");
        assert_ne!(mine, theirs);
        // An advance after both are there must see both.
        clock.pin(mine);
        let retired = clock.retire_epoch();
        (0..3).for_each(|_| {
            clock.try_advance();
        });
        assert!(!clock.is_expired(retired));
    });
}

/// The tester tested: a flag that publishes without release must be caught.
#[test]
fn a_relaxed_publication_is_caught() {
    let publish = |order: Ordering| {
        check(2, move || {
            let shared: Arc<(UnsafeCell<u64>, Atomic<u64, Loom>)> =
                Arc::new((UnsafeCell::new(0), Atomic::new(0)));
            shared.1.load(Ordering::Relaxed);
            let other = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    // SAFETY: nobody reads before the flag is up; loom fails if somebody may.
                    shared.0.with_mut(|value| unsafe { *value = 1 });
                    shared.1.store(1, order);
                })
            };
            if shared.1.load(Ordering::Acquire) == 1 {
                // SAFETY: the flag is up; loom fails if the write is not ordered before.
                shared.0.with(|value| unsafe { assert_eq!(*value, 1) });
            }
            other.join().expect("no panic");
        });
    };
    publish(Ordering::Release);
    assert!(fails(|| publish(Ordering::Relaxed)));
}
