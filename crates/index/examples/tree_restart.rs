//! How soon a tree of integers with hashed leaves answers after a kill, and when it is as fast as ever: all restored
//! before it is open, or opened at once, with a thread that restores in the background.
//!
//! A child fills the pool, in FOLDER, and is killed. Each opening is a process of its own, which is killed, too; the
//! first is not counted, since it ends what the kill has left, and the two ways take turns at being first. Times are
//! of the wall, in milliseconds from before the file is opened; *answers* is what one thread reads in a second, from
//! when the first answer is there. What is restored first is restored on THREADS threads, in the background it is
//! always one. *All restored* is when that one has gone through all leaves.
//!
//! Behind the first answer come the time that its thread was on a CPU until then, and the page faults of the process:
//! what else a machine does changes these less than the time of the wall.
//!
//! The file is in memory all the time: what a file on a disk takes that was not read since the machine began is
//! another question.
//!
//! `cargo run --release -p everleaf-index --example tree_restart -- FOLDER [KEYS] [ROUNDS] [THREADS]`

#![expect(clippy::print_stdout, reason = "what was measured is the result")]

mod kills;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use everleaf_index::{
    CreateMode, HashedLeafTree, OrderedIndex, Pool, PoolOptions, SingleTreePool, U64Kind,
};
use kills::{Arguments, Failure, Step, wait_for_the_kill};

type HashedPool = SingleTreePool<HashedLeafTree<U64Kind>>;

/// Leaves that are restored in one go.
const STEP: usize = 64;
/// Reads between two looks at the clock.
const READS: u64 = 1000;

/// The key of a number: as if by chance, none twice.
fn key(number: u64) -> u64 {
    everleaf_machine::random::mix(number)
}

fn pool(path: &Path, create: CreateMode) -> Result<Pool<everleaf_index::Hardware>, Failure> {
    Ok(Pool::open(path, &PoolOptions { create, ..PoolOptions::default() })?)
}

/// A number of a file of the kernel about this process, by its place among the words; 0 if it cannot be read.
fn number_of(file: &str, place: usize) -> u64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.split_whitespace().nth(place).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Nanoseconds that the calling thread was on a CPU, if it is the first of its process, and page faults of that.
fn effort() -> (u64, u64) {
    (number_of("/proc/self/schedstat", 0), number_of("/proc/self/stat", 9))
}

/// What the child does first: then it waits until it is killed.
fn fill(path: &Path, keys: u64) -> Result<(), Failure> {
    let opened: HashedPool = SingleTreePool::create(pool(path, CreateMode::New)?)?;
    let mut session = opened.heap().session()?;
    for number in 0..keys {
        opened.tree().insert(&mut session, key(number), number)?;
    }
    wait_for_the_kill()
}

/// What a child does then: one opening.
fn open(path: &Path, keys: u64, at_once: bool, threads: usize) -> Result<(), Failure> {
    let (on_cpu_before, faults_before) = effort();
    let started = Instant::now();
    let ms = || started.elapsed().as_secs_f64() * 1e3;
    let pool = pool(path, CreateMode::Never)?;
    let opened: HashedPool = match at_once {
        true => SingleTreePool::open_at_once_on(pool, threads)?,
        false => SingleTreePool::open(pool, threads)?,
    };
    let opened_at = ms();
    let mut session = opened.heap().session()?;
    let found = opened.tree().get(&mut session, key(keys / 3))?;
    let answered = ms();
    let (on_cpu, faults) = effort();
    let (on_cpu, faults) = ((on_cpu - on_cpu_before) as f64 / 1e6, faults - faults_before);
    if found != Some(keys / 3) {
        return Err(format!("{found:?} is a wrong answer").into());
    }
    let whole_us = AtomicU64::new(0);
    let mut reads = 0;
    std::thread::scope(|scope| -> Result<(), Failure> {
        scope.spawn(|| {
            let mut session = opened.heap().session().expect("a free session");
            let (mut from, mut damaged) = (Some(0), vec![]);
            while let Some(key) = from {
                let next = opened.tree().restore_next(&mut session, key, STEP, &mut damaged);
                from = next.expect("the tree is there");
            }
            assert!(damaged.is_empty(), "{damaged:?}");
            whole_us.store((ms() * 1e3) as u64, Ordering::Release);
        });
        while ms() < answered + 1e3 {
            for number in reads..reads + READS {
                opened.tree().get(&mut session, key(key(number) % keys))?.ok_or("a key is gone")?;
            }
            reads += READS;
        }
        Ok(())
    })?;
    let whole = whole_us.load(Ordering::Acquire) as f64 / 1e3;
    let how = if at_once { "at once" } else { "restored" };
    println!(
        "{how}, {threads} threads: open {opened_at:.1} ms, first answer {answered:.1} ms ({on_cpu:.1} ms on a CPU, \
         {faults} page faults), all restored {:.1} ms, {:.2} M answers in the first second",
        if at_once { whole } else { opened_at },
        reads as f64 / 1e6
    );
    wait_for_the_kill()
}

fn main() -> Result<(), Failure> {
    let arguments = Arguments::read("restart")?;
    let (path, keys) = (&arguments.path, arguments.keys);
    match arguments.step() {
        Some(Step::Fill) => fill(path, keys),
        Some(Step::Open { at_once }) => open(path, keys, at_once, arguments.threads as usize),
        None => arguments.run(),
    }
}
