//! How soon a store answers after a kill, and when it is as fast as ever: all restored before it is open, or opened at
//! once ([`Options::open_at_once`]), with its own thread that restores in the background.
//!
//! A child fills the pool, in FOLDER, with keys of 16 bytes and values of 100, and is killed. Each opening is a
//! process of its own, which is killed, too; the first is not counted, since it ends what the kill has left, and the
//! two ways take turns at being first. Times are of the wall, in milliseconds from before the file is opened;
//! *answers* is what one thread reads in a second, from when the first answer is there. What is restored first is
//! restored on THREADS threads, in the background it is always one. *All restored* is when that one has told it.
//!
//! The file is in memory all the time: what a file on a disk takes that was not read since the machine began is
//! another question.
//!
//! `cargo run --release -p everleaf --example restart_at_once -- FOLDER [KEYS] [ROUNDS] [THREADS]`

#![expect(clippy::print_stdout, reason = "what was measured is the result")]

#[path = "../../index/examples/kills/mod.rs"]
mod kills;

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use everleaf::random::mix;
use everleaf::{Event, Options, Tree};
use kills::{Arguments, Failure, Step, wait_for_the_kill};

/// Reads between two looks at the clock.
const READS: u64 = 1000;
/// How long all may take to be restored.
const PATIENCE: Duration = Duration::from_secs(600);
/// The key of a number: as if by chance, none twice.
fn key(number: u64) -> String {
    format!("{:016x}", mix(number))
}

fn options(threads: usize) -> Options {
    Options::new().tree(Tree::HashedLeaf).recovery_threads(threads)
}

fn fill(path: &Path, keys: u64) -> Result<(), Failure> {
    let store = options(1).create_new(true).open(path)?;
    for number in 0..keys {
        let _ = store.default_map().put(key(number), [number as u8; 100])?;
    }
    wait_for_the_kill()
}

/// What a child does then: one opening.
fn open(path: &Path, keys: u64, at_once: bool, threads: usize) -> Result<(), Failure> {
    let (tell, told) = mpsc::channel();
    let started = Instant::now();
    let ms = move || started.elapsed().as_secs_f64() * 1e3;
    let options = options(threads).open_at_once(at_once).events(move |event| {
        if let Event::Restored = event {
            let _ = tell.send(ms());
        }
    });
    let store = options.open(path)?;
    let opened = ms();
    let left = store.statistics().unrestored_leaves;
    let map = store.default_map();
    let found = map.get(key(keys / 3))?;
    let answered = ms();
    if found != Some(vec![(keys / 3) as u8; 100]) {
        return Err(format!("{found:?} is a wrong answer").into());
    }
    let mut reads = 0;
    while ms() < answered + 1e3 {
        for number in reads..reads + READS {
            map.get(key(mix(number) % keys))?.ok_or("a key is gone")?;
        }
        reads += READS;
    }
    let restored = if at_once { told.recv_timeout(PATIENCE)? } else { opened };
    let how = if at_once { "at once" } else { "restored" };
    println!(
        "{how}, {threads} threads: open {opened:.1} ms with {left} leaves left, first answer {answered:.1} ms, \
         all restored {restored:.1} ms, {:.2} M answers in the first second",
        reads as f64 / 1e6
    );
    wait_for_the_kill()
}

fn main() -> Result<(), Failure> {
    let arguments = Arguments::read("restart-at-once")?;
    let (path, keys) = (&arguments.path, arguments.keys);
    match arguments.step() {
        Some(Step::Fill) => fill(path, keys),
        Some(Step::Open { at_once }) => open(path, keys, at_once, arguments.threads as usize),
        None => arguments.run(),
    }
}
