//! How soon a tree of integers with hashed leaves answers after a kill, and when it is as fast as ever: all restored
//! before it is open, or opened at once, with a thread that restores in the background.
//!
//! A child fills the pool, in FOLDER (a file system in memory, if the disk is not to be measured), and aborts. Each
//! opening is a process of its own. Times are of the wall, in milliseconds from before the file is opened; *answers*
//! is what one thread reads in a second, from when the first answer is there.
//!
//! `cargo run --release -p everleaf-index --example restart -- FOLDER [KEYS] [ROUNDS] [THREADS]`

#![expect(clippy::print_stdout, reason = "what was measured is the result")]

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use everleaf_index::{
    CreateMode, HashedLeafTree, OrderedIndex, Pool, PoolOptions, SingleTreePool, U64Kind,
};

type Failure = Box<dyn Error>;
type HashedPool = SingleTreePool<HashedLeafTree<U64Kind>>;

/// Leaves that are restored in one go.
const STEP: usize = 64;
/// Reads between two looks at the clock.
const READS: u64 = 1000;

/// The key of a number: spread over all, none twice.
fn key(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn pool(path: &Path, create: CreateMode) -> Result<Pool<everleaf_index::Hardware>, Failure> {
    Ok(Pool::open(path, &PoolOptions { create, ..PoolOptions::default() })?)
}

/// What the child does first; it does not return.
fn fill(path: &Path, keys: u64) -> Result<(), Failure> {
    let opened: HashedPool = SingleTreePool::create(pool(path, CreateMode::New)?)?;
    let mut session = opened.heap().session()?;
    for number in 0..keys {
        opened.tree().insert(&mut session, key(number), number)?;
    }
    std::process::abort()
}

/// What a child does then: one opening.
fn open(path: &Path, keys: u64, at_once: bool, threads: usize) -> Result<(), Failure> {
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
    if found != Some(keys / 3) {
        return Err(format!("{found:?} is a wrong answer").into());
    }
    let whole_us = AtomicU64::new(0);
    let mut reads = 0;
    std::thread::scope(|scope| -> Result<(), Failure> {
        scope.spawn(|| {
            let mut session = opened.heap().session().expect("a free session");
            let mut from = Some(0);
            while let Some(key) = from {
                from = opened.tree().restore_next(&mut session, key, STEP).expect("no damage");
            }
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
        "{how}: open {opened_at:.1} ms, first answer {answered:.1} ms, all restored {:.1} ms, \
         {:.2} M answers in the first second",
        if at_once { whole } else { opened_at },
        reads as f64 / 1e6
    );
    Ok(())
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, usual| match arguments.get(index) {
        Some(text) => text.parse::<u64>(),
        None => Ok(usual),
    };
    let folder = Path::new(arguments.first().ok_or("a folder is missing")?);
    let path = folder.join("restart");
    let (keys, rounds, threads) = (number(1, 1_000_000)?.max(1), number(2, 3)?, number(3, 2)?);
    match arguments.get(4).map(String::as_str) {
        Some("fill") => return fill(&path, keys),
        Some(how) => return open(&path, keys, how == "at once", threads as usize),
        None => {}
    }
    let run = |what: &str| {
        let mut child = Command::new(std::env::current_exe()?);
        let numbers = [keys, rounds, threads].map(|number| number.to_string());
        child.arg(folder).args(numbers).arg(what).status()
    };
    if run("fill")?.success() {
        return Err("the child should have been killed".into());
    }
    for _ in 0..rounds {
        for what in ["restored", "at once"] {
            if !run(what)?.success() {
                return Err("an opening failed".into());
            }
        }
    }
    Ok(std::fs::remove_file(path)?)
}
