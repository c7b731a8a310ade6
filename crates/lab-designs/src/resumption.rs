//! SPTrees that were lost with their logs full: what an opening and the first lookup take, and how many lookups
//! are answered while a thread in the background restores what is left. Opened whole, or at once: then the index
//! above the leaves is made in the background, too.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use everleaf_bench::random::{Random, mix};
use everleaf_bench::{BenchError, thread_time};
use everleaf_designs::sptree::{Tree, variant::Variant};
use everleaf_designs::{SpTree, SpTreeBuffered, SpTreeCheckpointed, SpTreePlain};
use everleaf_index::{
    CreateMode, Design, Hardware, IndexError, Pool, PoolOptions, Production, SingleTreePool,
};

use crate::openings::{folder_in_memory, pool_options};

/// Leaves that the thread in the background restores in a call.
const STEP: usize = 64;

/// An opening behind a crash, in seconds of CPU time of its thread.
#[derive(Clone, Copy, Debug)]
pub struct Resumption {
    /// Bytes of the log that the opening found.
    pub log_bytes: u64,
    /// Leaves that it left to be made known when they are touched, as far as it knew of them.
    pub unknown: u64,
    /// The opening.
    pub opening: f64,
    /// The first lookup.
    pub lookup: f64,
    /// The first write behind it, of another key.
    pub write: f64,
}

/// What a tree serves from the start of its opening on.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Bytes of the log that the opening found.
    pub log_bytes: u64,
    /// Leaves and buffers that were left when the tree was open, as far as the opening knew of them.
    pub left: u64,
    /// When the first lookup was answered.
    pub first: Duration,
    /// When the thread in the background had restored the last buffer, and the index had its last leaf.
    pub restored: Duration,
    /// Lookups answered by the end of each slice of time.
    pub lookups: Vec<u64>,
    /// Lookups a second from the first answer until all was restored; NaN if it was by then.
    pub rate_before: f64,
    /// Lookups a second from then on; NaN if that was behind the last slice.
    pub rate_behind: f64,
}

/// What is asked of these trees beside what all designs can.
trait Resumed: Design {
    fn log_bytes(&self) -> u64;
    fn left(&self) -> u64;
    fn unknown(&self) -> u64;
}

impl<V: Variant> Resumed for Tree<V, Production, Hardware> {
    fn log_bytes(&self) -> u64 {
        self.log_bytes()
    }

    fn left(&self) -> u64 {
        self.unrestored()
    }

    fn unknown(&self) -> u64 {
        self.unknown_leaves()
    }
}

/// Fills a tree of the design with `keys` random keys, in a file in memory; then, `times` times, updates as
/// many keys at random, loses the process, opens the tree, at once if asked to, looks for a key and updates another
/// one.
///
/// # Errors
/// The design is none of these; its own; the file cannot be made; the key has another value.
pub fn resumptions(
    design: &str,
    at_once: bool,
    keys: u64,
    times: usize,
) -> Result<Vec<Resumption>, BenchError> {
    let folder = folder_in_memory()?;
    let path = folder.path().join("resumption.pool");
    match design {
        "sptree" => resume::<SpTree>(&path, at_once, keys, times),
        "sptree-buffered" => resume::<SpTreeBuffered>(&path, at_once, keys, times),
        "sptree-checkpointed" => resume::<SpTreeCheckpointed>(&path, at_once, keys, times),
        "sptree-plain" => resume::<SpTreePlain>(&path, at_once, keys, times),
        _ => Err(IndexError::UnknownDesign(design.to_owned()).into()),
    }
}

/// Fills a tree of the design with `keys` random keys, in a file in memory, updates as many, loses the process
/// and opens the tree, at once if asked to. Then this thread looks for keys, as many as it can in `slices` times
/// `slice` from the start of the opening on, while another one restores what was left.
///
/// # Errors
/// The design is none of these; its own; the file cannot be made; a key is missing.
pub fn served(
    design: &str,
    at_once: bool,
    keys: u64,
    slice: Duration,
    slices: usize,
) -> Result<Served, BenchError> {
    let folder = folder_in_memory()?;
    let path = folder.path().join("resumption.pool");
    match design {
        "sptree-buffered" => serve::<SpTreeBuffered>(&path, at_once, keys, (slice, slices)),
        "sptree-checkpointed" => serve::<SpTreeCheckpointed>(&path, at_once, keys, (slice, slices)),
        "sptree-plain" => serve::<SpTreePlain>(&path, at_once, keys, (slice, slices)),
        _ => Err(IndexError::UnknownDesign(design.to_owned()).into()),
    }
}

fn key<T: Design>(number: u64) -> u64 {
    mix(number).clamp(*T::INFO.keys.start(), *T::INFO.keys.end())
}

/// A new tree with `keys` random keys.
fn filled<T: Design>(path: &Path, keys: u64) -> Result<SingleTreePool<T>, BenchError> {
    let tree_pool: SingleTreePool<T> =
        SingleTreePool::create(Pool::open(path, &pool_options(keys))?)?;
    let mut session = tree_pool.heap().session().map_err(IndexError::from)?;
    for number in 0..keys {
        tree_pool.tree().insert(&mut session, key::<T>(number), 0)?;
    }
    drop(session);
    Ok(tree_pool)
}

/// Updates as many keys as there are, at random, and one last.
fn update<T: Design>(
    tree_pool: &SingleTreePool<T>,
    keys: u64,
    turn: u64,
    last: u64,
) -> Result<(), BenchError> {
    let mut session = tree_pool.heap().session().map_err(IndexError::from)?;
    for number in 0..keys {
        let number = mix(number ^ turn << 32) % keys;
        tree_pool.tree().update(&mut session, key::<T>(number), turn + 1)?;
    }
    tree_pool.tree().update(&mut session, key::<T>(last), turn + 1)?;
    Ok(())
}

/// The pool of a tree that is lost, opened again. Without closing it, to the pool its process is dead.
fn reopened<T: Design>(
    path: &Path,
    at_once: bool,
    keys: u64,
) -> Result<SingleTreePool<T>, BenchError> {
    let options = PoolOptions { create: CreateMode::Never, ..pool_options(keys) };
    let pool = Pool::open(path, &options)?;
    Ok(if at_once { SingleTreePool::open_at_once(pool)? } else { SingleTreePool::open(pool, 1)? })
}

fn resume<T: Resumed>(
    path: &Path,
    at_once: bool,
    keys: u64,
    times: usize,
) -> Result<Vec<Resumption>, BenchError> {
    let mut tree_pool = filled::<T>(path, keys)?;
    let mut made = Vec::new();
    // The first opening brings the file's pages in and does not count.
    for turn in 0..=times as u64 {
        let wanted = turn % keys;
        update(&tree_pool, keys, turn, wanted)?;
        drop(tree_pool);
        let started = thread_time();
        tree_pool = reopened(path, at_once, keys)?;
        let opened = thread_time();
        let unknown = tree_pool.tree().unknown();
        let counted = thread_time();
        let mut session = tree_pool.heap().session().map_err(IndexError::from)?;
        let found = tree_pool.tree().get(&mut session, key::<T>(wanted))?;
        let looked = thread_time();
        let other = mix(wanted) % keys;
        tree_pool.tree().update(&mut session, key::<T>(other), turn + 1)?;
        let written = thread_time();
        if found != Some(turn + 1) {
            let text = format!("{} has {found:?} after recovery, not {}", T::INFO.name, turn + 1);
            return Err(BenchError::Wrong(text));
        }
        if turn > 0 {
            made.push(Resumption {
                log_bytes: tree_pool.tree().log_bytes(),
                unknown,
                opening: (opened - started).as_secs_f64(),
                lookup: (looked - counted).as_secs_f64(),
                write: (written - looked).as_secs_f64(),
            });
        }
        drop(session);
        if at_once {
            // Space that was free is not used before, and the logs of the turns would fill the pool.
            tree_pool.sweep()?;
        }
    }
    Ok(made)
}

fn serve<T: Resumed>(
    path: &Path,
    at_once: bool,
    keys: u64,
    (slice, slices): (Duration, usize),
) -> Result<Served, BenchError> {
    let tree_pool = filled::<T>(path, keys)?;
    update(&tree_pool, keys, 1, 0)?;
    drop(tree_pool);
    let started = Instant::now();
    let tree_pool = reopened::<T>(path, at_once, keys)?;
    let tree = tree_pool.tree();
    let (log_bytes, left) = (tree.log_bytes(), tree.left());
    let (is_over, is_whole) = (AtomicBool::new(false), AtomicBool::new(false));
    let restore = || -> Result<Duration, IndexError> {
        let mut session = tree_pool.heap().session().map_err(IndexError::from)?;
        let (mut from, mut damaged) = (Some(0), vec![]);
        // Relaxed: nothing else is told by it.
        while let Some(key) = from.filter(|_| !is_over.load(Ordering::Relaxed)) {
            from = tree.restore_next(&mut session, key, STEP, &mut damaged)?;
        }
        if let Some(damage) = damaged.into_iter().next() {
            return Err(damage);
        }
        let restored = started.elapsed();
        // Relaxed: nothing else is told by it.
        is_whole.store(true, Ordering::Relaxed);
        Ok(restored)
    };
    thread::scope(|scope| {
        let background = scope.spawn(restore);
        let looked = look_up(&tree_pool, keys, (started, slice, slices), &is_whole);
        if looked.is_err() {
            // Relaxed: nothing else is told by it.
            is_over.store(true, Ordering::Relaxed);
        }
        let restored = background.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let looked = looked?;
        Ok(Served { log_bytes, left, restored: restored?, ..looked })
    })
}

/// Looks for keys until the last slice is over, and counts them.
fn look_up<T: Design>(
    tree_pool: &SingleTreePool<T>,
    keys: u64,
    (started, slice, slices): (Instant, Duration, usize),
    is_whole: &AtomicBool,
) -> Result<Served, BenchError> {
    let mut session = tree_pool.heap().session().map_err(IndexError::from)?;
    let mut random = Random::new(1);
    let mut served = Served { lookups: vec![0; slices], ..Served::default() };
    // Lookups until all was restored, and when this thread saw that it was.
    let (mut sum, mut whole) = (0_u64, None);
    loop {
        // Relaxed: nothing else is told by it.
        if whole.is_none() && is_whole.load(Ordering::Relaxed) {
            whole = Some((sum, started.elapsed()));
        }
        let number = random.below(keys);
        if tree_pool.tree().get(&mut session, key::<T>(number))?.is_none() {
            let text = format!("{} has lost key number {number}", T::INFO.name);
            return Err(BenchError::Wrong(text));
        }
        let now = started.elapsed();
        if served.first.is_zero() {
            served.first = now;
        }
        let place = (now.as_nanos() / slice.as_nanos().max(1)) as usize;
        let Some(count) = served.lookups.get_mut(place) else { break };
        *count += 1;
        sum += 1;
    }
    let end = slice * slices as u32;
    let rate = |count: u64, time: Duration| {
        if time.is_zero() { f64::NAN } else { count as f64 / time.as_secs_f64() }
    };
    let (before, seen) = whole.unwrap_or((sum, end));
    // The first answer is where the time begins.
    served.rate_before = rate(before.saturating_sub(1), seen.saturating_sub(served.first));
    served.rate_behind = rate(sum - before, end.saturating_sub(seen));
    let mut sum = 0;
    for count in &mut served.lookups {
        sum += *count;
        *count = sum;
    }
    Ok(served)
}
