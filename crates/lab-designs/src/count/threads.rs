//! What threads that want the same keys do to each other: refused exchanges, waiting, help, retries.
//!
//! The threads are real, and each counts what it does itself. Counting slows every access down by
//! about the same, so that operations overlap as often as they would, but how often is up to the
//! machine's scheduler: these are counts, and still no two runs are the same.

use std::sync::Barrier;
use std::thread;

use everleaf_bench::random::{Random, mix};
use everleaf_bench::{BenchError, Distribution, Sampler};
use everleaf_index::IndexError;
use everleaf_machine::simulated::counting::{CacheShape, Counting, CountingConfig, Tally};

use super::{Counted, fitting, pool_bytes};

/// What the threads did, all together.
#[derive(Default)]
pub struct Contention {
    /// The sums of their updates.
    pub tally: Tally,
    /// The coverage marks they met.
    pub marks: Vec<(&'static str, u64)>,
    /// Updates that met another thread, by leaf, the most first; leaves without any are left out.
    pub by_leaf: Vec<u64>,
    /// Leaves of the tree.
    pub leaves: u64,
}

/// Caches of no account.
fn config() -> CountingConfig {
    CountingConfig {
        l1: CacheShape { bytes: 4096, ways: 4 },
        l2: CacheShape { bytes: 8192, ways: 4 },
        l3: CacheShape { bytes: 16384, ways: 4 },
        ..CountingConfig::default()
    }
}

/// Lets `threads` threads update keys of a tree of `keys` keys, `operations` each, chosen by the
/// distribution.
///
/// # Errors
/// The design's.
pub fn contend(
    design: &str,
    threads: usize,
    keys: u64,
    operations: u64,
    distribution: Distribution,
    seed: u64,
) -> Result<Contention, BenchError> {
    let mut tree = Counted::new(design, config(), pool_bytes(keys))?;
    for number in 0..keys {
        tree.fill(mix(number))?;
    }
    let leaves = tree.leaves()?.max(1);
    let Counted { opened, counting, .. } = &tree;
    let (opened, memory) = (opened.as_ref(), counting.owned_memory());
    let info = opened.tree().info();
    let barrier = Barrier::new(threads);
    let work = |thread: usize| {
        let made = opened.heap().session().map_err(IndexError::from);
        // Every thread must come to the barrier, also one that has no session.
        barrier.wait();
        let mut session = made?;
        let counting = Counting::sharing(config(), &memory);
        let sampler = Sampler::new(distribution, keys);
        let mut random = Random::new(seed ^ (thread as u64) << 32);
        let (mut before, mut met) = (0, Vec::new());
        for operation in 0..operations {
            let (key, value) = fitting(&info, mix(sampler.sample(&mut random)));
            let value = value ^ (operation & 1);
            let update = || opened.tree().update(&mut session, key, value);
            counting.operation("update", update)?;
            let tally = counting.tally("update");
            if tally.refused + tally.spins > before {
                before = tally.refused + tally.spins;
                met.push(key);
            }
        }
        Ok::<_, BenchError>((counting.tally("update"), counting.marks(), met))
    };
    let parts = thread::scope(|scope| {
        let work = &work;
        let all: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        let join = |part: thread::ScopedJoinHandle<'_, _>| {
            part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        all.into_iter().map(join).collect::<Result<Vec<_>, BenchError>>()
    })?;
    let mut contention = Contention { leaves, ..Contention::default() };
    let mut met = Vec::new();
    for (tally, marks, keys) in parts {
        contention.tally += tally;
        met.extend(keys);
        for (name, count) in marks {
            match contention.marks.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += count,
                None => contention.marks.push((name, count)),
            }
        }
    }
    let all = (0..keys).map(|number| fitting(&info, mix(number)).0);
    contention.by_leaf = by_leaf(all.collect(), &met, leaves);
    Ok(contention)
}

/// How many of the keys in `met` each of so many leaves has, the most first, without those that have
/// none. The keys of the tree are taken to be spread over its leaves evenly, in order.
pub fn by_leaf(mut all: Vec<u64>, met: &[u64], leaves: u64) -> Vec<u64> {
    all.sort_unstable();
    let each = all.len().div_ceil(leaves as usize).max(1);
    let mut counts = vec![0; all.len().div_ceil(each)];
    for key in met {
        counts[all.partition_point(|other| other < key) / each] += 1;
    }
    counts.retain(|count| *count > 0);
    counts.sort_unstable_by(|one, other| other.cmp(one));
    counts
}
