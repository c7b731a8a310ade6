//! How soon SPTree with a structured log serves again after its process was killed, and how long the rest takes.
//!
//! ```text
//! cargo run --release -p everleaf-designs --example resumption -- FOLDER [KEYS] [WRITES]
//! ```
//!
//! A child makes a pool in FOLDER (a file system in memory, if the disk is not to be measured) with KEYS keys
//! (2,000,000), writes WRITES of them again (as many), so that buffers and log are full, and kills itself. Then the
//! pool is opened twice: by `sptree-buffered`, which restores a buffer when its leaf is touched, and, from a
//! copy, by `sptree-buffered` whose reader waits until all is restored. One line for each instant, in
//! milliseconds from the start of opening.

#![allow(clippy::print_stdout, reason = "what was measured is the result")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use everleaf_designs::SpTreeBuffered;
use everleaf_index::{CreateMode, OrderedIndex, Pool, PoolOptions, SingleTreePool};

type Failure = Box<dyn Error>;
type BufferedPool = SingleTreePool<SpTreeBuffered>;

/// Leaves between two looks at the progress.
const STEP: usize = 4096;

/// The key of a number: spread over all, none twice.
fn key(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1
}

fn open(path: &Path, create: CreateMode) -> Result<BufferedPool, Failure> {
    let pool = Pool::open(path, &PoolOptions { create, ..PoolOptions::default() })?;
    Ok(SingleTreePool::open(pool, 2)?)
}

/// What the child does; it does not return.
fn fill(path: &Path, keys: u64, writes: u64) -> Result<(), Failure> {
    let opened = open(path, CreateMode::New)?;
    let mut session = opened.heap().session()?;
    for number in 0..keys {
        opened.tree().upsert(&mut session, key(number), number)?;
    }
    for number in 0..writes {
        let number = number.wrapping_mul(0x2545_F491_4F6C_DD1D) % keys;
        opened.tree().upsert(&mut session, key(number), number + 1)?;
    }
    println!("log at the end: {:.1} MiB", opened.tree().log_bytes() as f64 / f64::from(1 << 20));
    std::process::abort()
}

/// Opens the pool, waits for all buffers first if it is `patient`, and says when what was there.
fn resume(path: &Path, keys: u64, patient: bool) -> Result<(), Failure> {
    let started = Instant::now();
    let tell = |what: &str| {
        println!("  {:>9.3} ms  {what}", started.elapsed().as_secs_f64() * 1e3);
    };
    let opened = open(path, CreateMode::Never)?;
    let tree = opened.tree();
    let mut session = opened.heap().session()?;
    tell(&format!("open, {} buffers to be restored", tree.unrestored()));
    if !patient {
        tree.get(&mut session, key(keys / 3))?.ok_or("a key is missing")?;
        tell("first answer");
        tree.upsert(&mut session, key(keys / 2), 1)?.ok_or("a key is missing")?;
        tell("first write");
    }
    let (mut from, all, mut damaged) = (Some(0), tree.unrestored(), vec![]);
    let mut told = 0;
    while let Some(key) = from {
        from = tree.restore_next(&mut session, key, STEP, &mut damaged)?;
        if let Some(error) = damaged.pop() {
            return Err(error.into());
        }
        let tenth = (all - tree.unrestored()) * 10 / all.max(1);
        if tenth > told {
            told = tenth;
            tell(&format!("{tenth}0 % restored"));
        }
    }
    if patient {
        tree.get(&mut session, key(keys / 3))?.ok_or("a key is missing")?;
        tell("first answer");
        tree.upsert(&mut session, key(keys / 2), 1)?.ok_or("a key is missing")?;
        tell("first write");
    }
    let found = tree.len(&mut session)?;
    if found != keys { Err(format!("{found} keys of {keys}").into()) } else { Ok(()) }
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, usual| match arguments.get(index) {
        Some(text) => text.parse::<u64>(),
        None => Ok(usual),
    };
    let folder = PathBuf::from(arguments.first().ok_or("a folder is missing")?);
    let keys = number(1, 2_000_000)?.max(1);
    let writes = number(2, keys)?;
    let (path, copy) = (folder.join("resumption"), folder.join("resumption-copy"));
    if arguments.get(3).is_some_and(|word| word == "fill") {
        return fill(&path, keys, writes);
    }
    let child = [keys.to_string(), writes.to_string(), "fill".to_owned()];
    let ended = Command::new(std::env::current_exe()?).arg(&folder).args(child).status()?;
    if ended.code().is_some() {
        return Err("the child should have killed itself".into());
    }
    std::fs::copy(&path, &copy)?;
    println!("restored when touched, {keys} keys");
    resume(&path, keys, false)?;
    println!("all restored first");
    resume(&copy, keys, true)?;
    std::fs::remove_file(path)?;
    Ok(std::fs::remove_file(copy)?)
}
