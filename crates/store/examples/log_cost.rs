//! What a log adds to a put: `cargo run --release -p everleaf --example log_cost -- FOLDER [KEYS]`.
//!
//! Writers put keys in random order, new ones and then each once more, into a store without a log and into one
//! whose log is synced once a second, where nobody waits for the disk. A line of JSON for each: nanoseconds a put
//! on the processors (of all threads, also of the log's), and on the clock. `cargo xtask versus` runs it with two
//! builds, turn by turn.

#![allow(clippy::print_stdout, reason = "the figures are the result")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use everleaf::random::mix;
use everleaf::{Durability, Options, Store};

const VALUE: [u8; 100] = [b'v'; 100];

/// What a thread, or all of a process, had of the processors, in nanoseconds.
fn cpu_ns(task: &Path) -> u64 {
    let text = std::fs::read_to_string(task.join("schedstat")).unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

fn all_cpu_ns() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("there is /proc");
    tasks.map(|task| cpu_ns(&task.expect("readable").path())).sum()
}

/// One pass over all keys: what the writers had of the processors.
fn put_all(store: &Store, keys: u64, writers: u64) -> u64 {
    let put = |writer: u64| {
        for number in (writer..keys).step_by(writers as usize) {
            let key = [mix(number).to_be_bytes(), number.to_be_bytes()].concat();
            store.default_map().put(key, VALUE).expect("room");
        }
        // The kernel counts what a thread had when it lets go of the processor.
        std::thread::yield_now();
        cpu_ns(&PathBuf::from("/proc/thread-self"))
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..writers).map(|writer| scope.spawn(move || put(writer))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    })
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().expect("the folder for the pools"));
    let keys: u64 = arguments.next().map_or(1_000_000, |text| text.parse().expect("a number"));
    let interval = Durability::Interval(Duration::from_secs(1));
    for writers in [1, 2] {
        for (name, durability) in [("no log", Durability::Process), ("interval", interval)] {
            let place = folder.join("log-cost");
            std::fs::create_dir_all(&place).expect("writable");
            let options =
                Options::new().create(true).max_size_bytes(16 << 30).durability(durability);
            let store = options.open(place.join("pool")).expect("the pool opens");
            for what in ["new", "replaced"] {
                // Until the threads of the pass before are gone from the list.
                std::thread::sleep(Duration::from_millis(20));
                let (before, started) = (all_cpu_ns(), Instant::now());
                let of_writers = put_all(&store, keys, writers);
                let clock_ns = started.elapsed().as_nanos() as f64 / keys as f64;
                let total = of_writers + all_cpu_ns().saturating_sub(before);
                let cpu_ns = total as f64 / keys as f64;
                println!(
                    "{{\"what\":\"put {what}, {name}, {writers} threads\",\"cpu_ns\":{cpu_ns:.1},\
                     \"clock_ns\":{clock_ns:.1}}}"
                );
            }
            drop(store);
            std::fs::remove_dir_all(&place).expect("writable");
        }
    }
}
