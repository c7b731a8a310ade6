//! How soon SPTree with a structured log serves again after its process was killed, and how long the rest takes.
//!
//! ```text
//! cargo run --release -p everleaf-designs --example resumption -- FOLDER [KEYS] [WRITES]
//! ```
//!
//! A child makes a pool in FOLDER (a file system in memory, if the disk is not to be measured) with KEYS keys
//! (2,000,000), writes WRITES of them again (as many), so that buffers and log are full, and kills itself. Then the
//! pool is opened twice, from copies: a buffer is restored when its leaf is touched, or the reader
//! waits until all are. That for `sptree-buffered`, whose opening reads all records of the log, and for
//! `sptree-checkpointed`, whose opening reads the last checkpoint and what is behind it. The latter is opened at once,
//! too: then opening does not read the leaves. One line for each instant, in milliseconds from the start of opening.

#![allow(clippy::print_stdout, reason = "what was measured is the result")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use everleaf_designs::sptree::Tree;
use everleaf_designs::sptree::variant::{Buffered, Checkpointed, Variant};
use everleaf_index::{
    CreateMode, Hardware, OrderedIndex, Pool, PoolOptions, Production, SingleTreePool,
};

type Failure = Box<dyn Error>;
type BufferedPool<V> = SingleTreePool<Tree<V, Production, Hardware>>;

/// Leaves between two looks at the progress.
const STEP: usize = 4096;

fn name_of<V: Variant>() -> &'static str {
    V::NAME
}

/// The key of a number: spread over all, none twice.
fn key(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1
}

/// How a pool is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// A buffer is restored when its leaf is touched.
    Touched,
    /// Leaves are left, too.
    AtOnce,
    /// All is restored before the first answer.
    Patient,
}

impl Way {
    fn text(self) -> &'static str {
        match self {
            Way::Touched => "restored when touched",
            Way::AtOnce => "opened at once",
            Way::Patient => "all restored first",
        }
    }
}

fn pool(path: &Path, create: CreateMode) -> Result<Pool<Hardware>, Failure> {
    Ok(Pool::open(path, &PoolOptions { create, ..PoolOptions::default() })?)
}

/// What the child does; it does not return.
fn fill<V: Variant>(path: &Path, keys: u64, writes: u64) -> Result<(), Failure> {
    let opened: BufferedPool<V> = SingleTreePool::create(pool(path, CreateMode::New)?)?;
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

/// Opens a copy of the pool in a way, and says when what was there.
fn resume<V: Variant>(path: &Path, keys: u64, way: Way) -> Result<(), Failure> {
    println!("{}", way.text());
    let copy = path.with_extension("copy");
    std::fs::copy(path, &copy)?;
    let patient = way == Way::Patient;
    let started = Instant::now();
    let tell = |what: &str| {
        println!("  {:>9.3} ms  {what}", started.elapsed().as_secs_f64() * 1e3);
    };
    let pool = pool(&copy, CreateMode::Never)?;
    tell("the pool");
    let opened: BufferedPool<V> = match way {
        Way::AtOnce => SingleTreePool::open_at_once(pool)?,
        Way::Touched | Way::Patient => SingleTreePool::open(pool, 2)?,
    };
    let tree = opened.tree();
    let mut session = opened.heap().session()?;
    tell("open");
    println!("                {} leaves and buffers are left", tree.unrestored());
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
    tell("all restored");
    let found = tree.len(&mut session)?;
    std::fs::remove_file(copy)?;
    if found != keys { Err(format!("{found} keys of {keys}").into()) } else { Ok(()) }
}

/// Fills a pool with a child that kills itself, and opens it in these ways.
fn show<V: Variant>(folder: &Path, keys: u64, writes: u64, ways: &[Way]) -> Result<(), Failure> {
    let path = folder.join("resumption");
    println!("{}, {keys} keys", name_of::<V>());
    let child = [keys.to_string(), writes.to_string(), name_of::<V>().to_owned()];
    let ended = Command::new(std::env::current_exe()?).arg(folder).args(child).status()?;
    if ended.code().is_some() {
        return Err("the child should have killed itself".into());
    }
    for way in ways {
        resume::<V>(&path, keys, *way)?;
    }
    Ok(std::fs::remove_file(path)?)
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
    let path = folder.join("resumption");
    match arguments.get(3).map(String::as_str) {
        None => {
            show::<Buffered>(&folder, keys, writes, &[Way::Touched, Way::Patient])?;
            let ways = [Way::Touched, Way::AtOnce, Way::Patient];
            show::<Checkpointed>(&folder, keys, writes, &ways)
        }
        Some(name) if name == name_of::<Buffered>() => fill::<Buffered>(&path, keys, writes),
        Some(_) => fill::<Checkpointed>(&path, keys, writes),
    }
}
