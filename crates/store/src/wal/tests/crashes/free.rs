//! Forty threads that nobody holds up, as they are in life: each reads another's value and writes what
//! comes of it, or syncs and tells of it. The power fails at any moment, while they go on.
//!
//! Before a change had its place in the log before it could be seen, one dependent write in fifty was
//! there without what it came of. Whether these threads would meet that again depends on the machine: the
//! planted bug is hunted where threads stand still by a seed (`threads.rs`, `arranged.rs`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use everleaf_log::simulated::{Faults, Random, SimulatedDisk};

use super::world::{folder, options};
use crate::Store;

const THREADS: usize = 40;

/// What a thread writes: its how manieth value it is, and which one of which other it had read before.
#[derive(Clone, Copy, Default)]
struct Value {
    number: u64,
    other: u64,
    read: u64,
}

impl Value {
    fn to_bytes(self) -> Vec<u8> {
        [self.number, self.other, self.read].iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn of(bytes: &[u8]) -> Value {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |index: usize| words.get(index).map_or(0, |word| u64::from_be_bytes(*word));
        Value { number: word(0), other: word(1), read: word(2) }
    }
}

fn key(thread: usize) -> [u8; 2] {
    [b'k', thread as u8]
}

fn value_of(store: &Store, thread: usize) -> Value {
    store.default_map().get_with(key(thread), Value::of).expect("get").unwrap_or_default()
}

/// What is known to be durable, of each thread.
struct Told([AtomicU64; THREADS]);

impl Told {
    fn tell(&self, thread: usize, number: u64) {
        // Release: the write was durable before; pairs with the Acquire in `now`.
        self.0[thread].fetch_max(number, Ordering::Release);
    }

    fn now(&self) -> Vec<u64> {
        // Acquire: pairs with the Release in `tell`.
        self.0.iter().map(|number| number.load(Ordering::Acquire)).collect()
    }
}

fn live(store: &Store, thread: usize, told: &Told, cutting: &Weak<()>) {
    let mut random = Random::new(thread as u64);
    for number in (1..).take_while(|_| cutting.strong_count() > 0) {
        let other = random.below(THREADS);
        let read = value_of(store, other).number;
        if random.one_in(4) {
            store.sync().expect("the disk works");
            told.tell(other, read);
        }
        let value = Value { number, other: other as u64, read };
        let _ = store.default_map().put(key(thread), value.to_bytes()).expect("room");
        told.tell(thread, number);
    }
}

/// What is wrong with what was left.
fn judge(left: &Store, told: &[u64]) -> Result<u64, String> {
    let values: Vec<Value> = (0..THREADS).map(|thread| value_of(left, thread)).collect();
    for (thread, value) in values.iter().enumerate() {
        if value.number < told[thread] {
            return Err(format!("{} of {thread} was told to be durable", told[thread]));
        }
        let cause = values[value.other as usize].number;
        if cause < value.read {
            return Err(format!(
                "{} of {thread} came of {} of {}, which is at {cause}",
                value.number, value.read, value.other
            ));
        }
    }
    Ok(values.iter().map(|value| value.number).sum())
}

/// Cuts the power again and again, so often or until something is wrong. Returns the crashes and the
/// writes.
fn run(crashes: u64, within: Duration) -> Result<(u64, u64), String> {
    let (folder, disk) = (folder(), SimulatedDisk::new(Faults::default(), 1));
    let store = options(&disk).open(folder.path().join("pool")).expect("it opens");
    let (told, started) = (Told([const { AtomicU64::new(0) }; THREADS]), Instant::now());
    // Dropped behind the last cut, also by a panic.
    let cutting = Arc::new(());
    let watch = Arc::downgrade(&cutting);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, told, watch) = (&store, &told, &watch);
            scope.spawn(move || live(store, thread, told, watch));
        }
        let mut found = Ok((0, 0));
        for seed in 0..crashes {
            let now = told.now();
            let left = disk.crashed(seed);
            left.set_faults(Faults::default());
            let pool = folder.path().join("left");
            let opened = options(&left).open(&pool).expect("it opens");
            found = judge(&opened, &now).map(|writes| (seed + 1, writes));
            drop(opened);
            std::fs::remove_file(&pool).expect("it was there");
            if found.is_err() || started.elapsed() > within {
                break;
            }
        }
        drop(cutting);
        found
    })
}

#[test]
fn what_many_threads_read_outlives_what_came_of_it() {
    outlives(6);
}

#[test]
#[ignore = "guards a landing"]
fn landing_what_many_threads_read_outlives_more_crashes() {
    outlives(25);
}

/// Ends after so many crashes unless told otherwise, not by the clock: a busy machine tries as many.
fn outlives(crashes: u64) {
    let wanted = super::given("FREE_CRASHES").unwrap_or(crashes);
    let seconds = super::given("FREE_SECONDS").unwrap_or(u64::MAX);
    match run(wanted, Duration::from_secs(seconds)) {
        Ok((crashes, writes)) => println!("{crashes} crashes, {writes} writes"),
        Err(text) => panic!("{text}"),
    }
}
