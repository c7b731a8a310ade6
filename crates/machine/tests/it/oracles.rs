//! What the machine notices by itself: memory misuse, waiting for ever, panics, writes past the seam.

use std::alloc::Layout;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::support::words::{Script, Word, Words, run, run_giving_back, run_some, run_with};
use everleaf_machine::simulated::history::{Call, Reply};
use everleaf_machine::simulated::{
    Abandon, Config, CrashConfig, Domain, Failure, FailureKind, Memory, MemoryModel, Program,
    Runner, SchedulerKind,
};
use everleaf_machine::{Atomic, Machine, Simulated, SpinLock};

fn failure_of(script: Script) -> Failure {
    *run(script, Config::default()).err().expect("the script fails in some schedule")
}

fn thread(body: impl Fn(&Words) -> u64 + 'static) -> Box<dyn Fn(&Words) -> u64> {
    Box::new(body)
}

const NODE: Layout = Layout::new::<[u64; 4]>();

/// A word in fresh memory of the machine.
fn allocate() -> (*mut u8, &'static Word) {
    let memory = Simulated::allocate(NODE);
    assert!(!memory.is_null());
    // SAFETY: 32 bytes of the arena, which outlives the run; the word is accessed atomically.
    let word = unsafe { &*memory.cast::<Word>() };
    word.write_private(0);
    (memory, word)
}

#[test]
fn touching_freed_memory_fails_with_the_names_of_both_threads() {
    let failure = failure_of(vec![
        thread(|words| {
            let (memory, word) = allocate();
            words.at(0).store(word.as_ptr().expose_provenance() as u64, Release);
            // SAFETY: allocated above; that another thread still has it is the bug.
            unsafe { Simulated::deallocate(memory, NODE) };
            0
        }),
        thread(|words| {
            let address = words.at(0).load(Acquire) as usize;
            if address == 0 {
                return 0;
            }
            // SAFETY: arena memory stays mapped; the machine refuses the access.
            let word = unsafe { &*std::ptr::with_exposed_provenance::<Word>(address) };
            word.load(Acquire)
        }),
    ]);
    assert_eq!(failure.kind, FailureKind::UseAfterFree);
    assert!(failure.message.contains("T1 reads arena+0x0, which T0 took out of use"), "{failure}");
}

/// A tree that found no room for its root was dropped while the count of its leaves, which is in memory of
/// the process, still waited in a store buffer. The count came later, into whatever had the place by
/// then: `prove maps`, program `hashed/random/196461607202659`, ended with a corrupted heap, and so could
/// everything that drops a tree or a lock.
#[test]
fn a_store_that_waits_goes_with_its_word() {
    for drops in [false, true] {
        let script: Script = vec![thread(move |words| {
            let mut kept = Box::new(ManuallyDrop::new([Word::new(1), Word::new(2)]));
            kept[0].write_private(3);
            kept[1].store(4, Release);
            if drops {
                // SAFETY: once; the words are not used any more, only their memory.
                unsafe { ManuallyDrop::drop(&mut kept) };
            }
            // The thread that has the memory next writes it as it likes.
            *kept = ManuallyDrop::new([Word::new(5), Word::new(6)]);
            // Acquire and release: all that waits comes now.
            words.at(0).swap(1, AcqRel);
            kept[0].read_private() * 10 + kept[1].read_private()
        })];
        let config = Config { memory: MemoryModel::Tso, ..Config::default() };
        let seen = run(script, config).unwrap_or_else(|failure| panic!("{failure}"));
        let expected = if drops { 56 } else { 34 };
        assert!(seen.outcomes.contains(&vec![expected]), "{drops}: {:?}", seen.outcomes);
        assert!(!drops || seen.outcomes.len() == 1, "{:?}", seen.outcomes);
    }
}

#[test]
fn memory_of_an_earlier_schedule_may_not_be_touched() {
    let kept = Cell::new(None);
    let script: Script = vec![thread(move |_| match kept.get() {
        None => {
            kept.set(Some(allocate().1));
            0
        }
        Some(word) => word.load(Acquire),
    })];
    let config = Config { scheduler: SchedulerKind::Random, ..Config::default() };
    let failure = run_some(script, config, 2).err().expect("the second schedule is wrong");
    assert_eq!((failure.kind, failure.schedule), (FailureKind::UseAfterFree, 2));
    assert!(failure.message.contains("never handed out"), "{failure}");
}

#[test]
fn what_recovery_hands_out_was_written_in_an_earlier_life() {
    let script = || -> Script {
        vec![thread(|words| {
            // SAFETY: in the pool.
            unsafe { Simulated::read_bytes(words.at(8).as_ptr(), 64) };
            0
        })]
    };
    for simulate_open in [false, true] {
        let config = Config { simulate_open, ..Config::default() };
        let hand_out = |words: &Words| Simulated::lifetime(words.at(8).as_ptr(), 64, true);
        run_with(script(), config, 10, hand_out).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn freeing_twice_fails() {
    let failure = failure_of(vec![thread(|_| {
        let (memory, _) = allocate();
        // SAFETY: allocated above; the second call is the bug, which the machine refuses.
        unsafe { Simulated::deallocate(memory, NODE) };
        // SAFETY: the bug that the machine refuses.
        unsafe { Simulated::deallocate(memory, NODE) };
        0
    })]);
    assert_eq!(failure.kind, FailureKind::UseAfterFree);
    assert!(failure.message.starts_with("freed twice"), "{failure}");
}

/// Bags of a session that were emptied at its end, at full speed, could free twice and nobody saw it.
#[test]
fn freeing_twice_fails_also_where_nothing_is_simulated() {
    let script = || -> Script { vec![thread(|_| 0)] };
    fn free(words: &Words) {
        Simulated::lifetime(words.at(8).as_ptr(), 64, false);
    }
    fn twice(words: &Words) {
        free(words);
        free(words);
    }
    assert!(run_with(script(), Config::default(), 1, free).is_ok());
    let failure = run_with(script(), Config::default(), 1, twice).err().expect("freed twice");
    assert!(failure.message.starts_with("freed twice"), "{failure}");
}

#[test]
fn volatile_memory_that_nobody_gave_back_is_a_leak() {
    let script = |frees: bool| -> Script {
        vec![thread(move |_| {
            let (first, second) = (allocate().0, allocate().0);
            // SAFETY: allocated above, and not used any more.
            unsafe { Simulated::deallocate(first, NODE) };
            if frees {
                // SAFETY: allocated by this thread, and not used any more.
                unsafe { Simulated::deallocate(second, NODE) };
            }
            0
        })]
    };
    assert!(run_giving_back(script(true)).is_ok());
    let failure = run_giving_back(script(false)).err().expect("one piece is left");
    assert_eq!(failure.kind, FailureKind::Leak);
    assert!(failure.message.contains("memory are left: 1"), "{failure}");
    assert!(failure.message.ends_with("arena+0x20"), "{failure}");
    // A program that does not promise to give all back is not judged.
    assert!(run(script(false), Config::default()).is_ok());
}

#[test]
fn touching_a_pool_range_that_was_freed_fails() {
    let reclaim = |words: &Words| Simulated::lifetime(words.at(8).as_ptr(), 64, false);
    let failure = failure_of(vec![thread(move |words| {
        reclaim(words);
        words.at(9).load(Acquire)
    })]);
    assert_eq!(failure.kind, FailureKind::UseAfterFree);
    // Handed out again it may be used.
    let revived = vec![thread(move |words| {
        reclaim(words);
        Simulated::lifetime(words.at(8).as_ptr(), 64, true);
        words.at(9).load(Acquire)
    })];
    assert!(run(revived, Config::default()).is_ok());
}

#[test]
fn handing_out_a_range_twice_fails() {
    let failure = failure_of(vec![thread(|words| {
        Simulated::lifetime(words.at(8).as_ptr(), 64, true);
        Simulated::lifetime(words.at(8).as_ptr(), 64, true);
        0
    })]);
    assert_eq!(failure.kind, FailureKind::UseAfterFree);
    assert!(failure.message.contains("still in use"), "{failure}");
}

#[test]
fn reading_handed_out_bytes_that_nobody_wrote_fails() {
    let read = |written: usize| {
        move |words: &Words| {
            let start = words.at(8).as_ptr();
            Simulated::lifetime(start, 64, true);
            // SAFETY: the range was handed out to this thread; 32 bytes of it are read.
            unsafe { Simulated::write_bytes(start.cast_mut(), &vec![7; written]) };
            // SAFETY: 32 bytes of the range that was handed out.
            unsafe { Simulated::read_bytes(start, 32) };
            0
        }
    };
    assert_eq!(failure_of(vec![thread(read(24))]).kind, FailureKind::Uninitialised);
    assert!(run(vec![thread(read(32))], Config::default()).is_ok());
}

#[test]
fn two_threads_that_wait_for_each_other_are_a_deadlock() {
    let wait = |mine: usize, other: usize| {
        move |words: &Words| {
            let mut attempt = 0;
            while words.at(other).load(Acquire) == 0 {
                Simulated::spin(attempt);
                attempt += 1;
            }
            words.at(mine).store(1, Release);
            0
        }
    };
    let failure = failure_of(vec![thread(wait(0, 8)), thread(wait(8, 0))]);
    assert_eq!(failure.kind, FailureKind::Deadlock);
    assert!(failure.message.contains("T0 waits"), "{failure}");
}

#[test]
fn a_wait_for_a_thread_that_comes_is_no_deadlock() {
    let script: Script = vec![
        thread(|words| {
            let mut attempt = 0;
            // Two words are watched: either may change between its load and the wait.
            while (words.at(0).load(Acquire) == 0) | (words.at(8).load(Acquire) == 0) {
                Simulated::spin(attempt);
                attempt += 1;
            }
            1
        }),
        thread(|words| {
            words.at(8).store(1, Release);
            words.at(0).store(1, Release);
            0
        }),
    ];
    assert!(run(script, Config::default()).is_ok());
}

#[test]
fn a_loop_without_end_is_a_livelock() {
    let failure = failure_of(vec![thread(|words| {
        while words.at(0).load(Acquire) == 0 {}
        0
    })]);
    assert_eq!(failure.kind, FailureKind::Livelock);
}

fn locked_increment(lock: &'static SpinLock<u64, Simulated>) -> Script {
    let body = move |words: &Words| {
        let mut guard = lock.lock();
        *guard += 1;
        let seen = words.at(0).load(Relaxed);
        words.at(0).store(seen + 1, Relaxed);
        seen
    };
    vec![thread(body), thread(body), thread(body)]
}

#[test]
fn a_spin_lock_excludes_and_does_not_deadlock() {
    let lock = Box::leak(Box::new(SpinLock::new(0)));
    let config = Config { scheduler: SchedulerKind::Mixed, ..Config::default() };
    let seen = run_some(locked_increment(lock), config, 2000).unwrap_or_else(|f| panic!("{f}"));
    for outcome in seen.outcomes {
        let mut outcome = outcome;
        outcome.sort_unstable();
        assert_eq!(outcome, [0, 1, 2]);
    }
}

#[test]
fn a_stopped_thread_blocks_a_lock_but_no_lock_free_counter() {
    let config = |after_points| Config {
        abandon: Some(Abandon { thread: 0, after_points }),
        scheduler: SchedulerKind::Random,
        ..Config::default()
    };
    let count = |words: &Words| words.at(0).fetch_add(1, AcqRel);
    for after_points in 0..4 {
        let script: Script = vec![thread(count), thread(count)];
        run_some(script, config(after_points), 100).unwrap_or_else(|failure| panic!("{failure}"));
    }
    let blocked = (0..6).any(|after_points| {
        let lock = Box::leak(Box::new(SpinLock::new(0)));
        let result = run_some(locked_increment(lock), config(after_points), 100);
        result.is_err_and(|failure| failure.kind == FailureKind::Deadlock)
    });
    assert!(blocked);
}

#[test]
fn a_panic_is_reported_with_its_message_and_place() {
    let failure = failure_of(vec![
        thread(|words| {
            words.at(0).store(1, Release);
            0
        }),
        thread(|words| {
            assert_eq!(words.at(0).load(Acquire), 0, "T0 was faster");
            0
        }),
    ]);
    assert_eq!(failure.kind, FailureKind::Panic);
    assert!(failure.message.contains("T0 was faster"), "{failure}");
    assert!(failure.message.contains("oracles.rs"), "{failure}");
}

#[test]
fn a_write_past_the_machine_is_noticed() {
    let failure = failure_of(vec![thread(|words| {
        let address = words.at(3).as_ptr().cast_mut().cast::<u64>();
        // SAFETY: inside the pool; that the machine does not see it is the bug.
        unsafe { address.write_volatile(5) };
        0
    })]);
    assert_eq!(failure.kind, FailureKind::Bypass);
}

#[test]
fn the_chosen_allocation_fails_and_no_other() {
    let config = Config { fail_allocation: Some(1), ..Config::default() };
    let script: Script = vec![thread(|_| {
        (0..3).fold(0, |seen, _| seen * 10 + u64::from(Simulated::allocate(NODE).is_null()))
    })];
    let seen = run(script, config).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(seen.outcomes.into_iter().collect::<Vec<_>>(), [[10]]);
}

#[test]
fn outside_a_run_operations_are_plain() {
    let word: Atomic<u64, Simulated> = Atomic::new(1);
    assert_eq!(word.swap(2, AcqRel), 1);
    assert_eq!(word.compare_exchange(2, 3, AcqRel, Acquire), Ok(2));
    let lock: SpinLock<u64, Simulated> = SpinLock::new(4);
    *lock.lock() += 1;
    assert_eq!(*lock.lock(), 5);
    Simulated::flush(word.as_ptr());
    Simulated::drain();
    let memory = Simulated::allocate(NODE);
    assert!(!memory.is_null());
    // SAFETY: allocated above with this layout.
    unsafe { Simulated::deallocate(memory, NODE) };
}

#[test]
fn a_store_to_the_stack_never_outlives_its_frame() {
    let script: Script = vec![thread(|words| {
        words.at(0).store(1, Relaxed);
        let set = || {
            let word: Word = Atomic::new(0);
            word.store(0xDEAD, Relaxed);
            word.load(Relaxed)
        };
        let clear = || {
            let bytes = std::hint::black_box([0u8; 256]);
            words.at(8).load(Relaxed);
            words.at(8).fetch_add(1, AcqRel);
            bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>()
        };
        assert_eq!(set(), 0xDEAD);
        clear()
    })];
    let config = Config { memory: MemoryModel::Tso, ..Config::default() };
    let seen = run(script, config).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(seen.outcomes.into_iter().collect::<Vec<_>>(), [[0]]);
}

#[test]
fn a_recovery_that_waits_or_runs_for_ever_is_a_failure() {
    let failure = |recovery: fn(&Words)| {
        let script: Script = vec![thread(|words| {
            words.at(0).store(1, Release);
            0
        })];
        let config = Config { recovery_limit: 100_000, ..Config::default() };
        *run_with(script, config, 100, recovery).err().expect("recovery never ends")
    };
    let waits = failure(|words| {
        let mut attempt = 0;
        while words.at(0).load(Acquire) != 0 {
            Simulated::spin(attempt);
            attempt += 1;
        }
    });
    assert_eq!(waits.kind, FailureKind::Recovery);
    assert!(waits.message.contains("waits for another thread"), "{waits}");
    let runs = failure(|words| while words.at(0).load(Acquire) != 0 {});
    assert_eq!(runs.kind, FailureKind::Recovery);
    assert!(runs.message.contains("does not end"), "{runs}");
}

/// A program that writes to its pool also when it is only looked at.
struct Scribbler;

impl Program for Scribbler {
    type Operation = ();
    type Instance = Words;

    fn pool_bytes(&self) -> usize {
        256
    }
    fn format(&self, _memory: Memory) {}
    fn open(&self, memory: Memory) -> Result<Words, String> {
        let words = Words::of(memory);
        words.at(0).store(words.at(0).load(Acquire) + 1, Release);
        Ok(words)
    }
    fn contents(&self, words: &Words) -> Result<Vec<(u64, u64)>, String> {
        words.at(8).store(words.at(8).load(Acquire) + 1, Release);
        let counts = (words.at(0).load(Acquire), words.at(8).load(Acquire));
        // Opened for the schedule, for the life after its crash, and for an image of that.
        let expected = counts.0 <= 3 && counts.1 == 1;
        if expected { Ok(vec![]) } else { Err(format!("traces of other schedules: {counts:?}")) }
    }
    fn calls(&self, _operation: &(), _calls: &mut Vec<(u64, Call)>) {}
    fn run(&self, words: &Words, _thread: usize, _operation: &(), _replies: &mut Vec<Reply>) {
        words.at(16).fetch_add(1, AcqRel);
    }
}

#[test]
fn what_opening_and_looking_write_is_undone_and_no_bypass() {
    for domain in [Domain::Adr, Domain::Eadr] {
        let crash = CrashConfig { nested_one_in: 2, nested_depth: 1, ..CrashConfig::default() };
        let config = Config { domain, crash, ..Config::default() };
        let mut runner = Runner::new(Scribbler, vec![vec![(), ()]; 2], config).expect("it opens");
        let report = runner.explore(600).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(report.counts.recoveries > 3, "{:?}", report.counts);
    }
}
