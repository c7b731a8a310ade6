//! What operations cost on a tree of many keys, with all splits.

use everleaf_bench::random::{Random, mix};
use everleaf_bench::{BenchError, Distribution, Sampler};
use everleaf_machine::simulated::counting::{CountingConfig, Tally};

use super::{Counted, CountedOperation, pool_bytes};

/// A tree filled with keys at random.
pub struct Loaded {
    /// The tree; its inserts are counted.
    pub tree: Counted,
    /// Leaves that the empty tree had.
    pub leaves_first: u64,
    keys: u64,
    seed: u64,
}

/// Inserts `keys` different random keys, each counted.
///
/// # Errors
/// The design's.
pub fn random(
    tree: impl FnOnce(usize) -> Result<Counted, BenchError>,
    keys: u64,
    seed: u64,
) -> Result<Loaded, BenchError> {
    let mut tree = tree(pool_bytes(keys))?;
    let leaves_first = tree.leaves()?;
    for number in 0..keys {
        tree.count(CountedOperation::Insert, key(number, seed))?;
    }
    Ok(Loaded { tree, leaves_first, keys, seed })
}

/// The same for a design of the catalogue.
///
/// # Errors
/// The design's.
pub fn design(
    name: &str,
    config: CountingConfig,
    keys: u64,
    seed: u64,
) -> Result<Loaded, BenchError> {
    random(|bytes| Counted::new(name, config, bytes), keys, seed)
}

/// The key of a number. Different numbers have different keys.
fn key(number: u64, seed: u64) -> u64 {
    mix(number.wrapping_add(seed << 32))
}

impl Loaded {
    /// Carries out `count` operations on keys that are drawn at random, each counted. Removed keys
    /// are put back, uncounted.
    ///
    /// # Errors
    /// The design's.
    pub fn perform(&mut self, operation: CountedOperation, count: u64) -> Result<(), BenchError> {
        let mut random = Random::new(self.seed ^ 0x0be7);
        for _ in 0..count {
            let mut number = random.below(self.keys);
            if operation == CountedOperation::GetAbsent {
                number += 1 << 31;
            }
            let key = key(number, self.seed);
            self.tree.count(operation, key)?;
            if operation == CountedOperation::Remove {
                self.tree.fill(key)?;
            }
        }
        Ok(())
    }
}

impl Loaded {
    /// Reads and updates, in turn, `count` in all, keys that are drawn from the distribution; each is
    /// counted. The caches are written back before and after. Gives the sums, and the bytes that the
    /// medium took, those of the end included.
    ///
    /// # Errors
    /// The design's.
    pub fn read_and_update(
        &mut self,
        distribution: Distribution,
        count: u64,
    ) -> Result<(Tally, u64), BenchError> {
        let sampler = Sampler::new(distribution, self.keys);
        let mut random = Random::new(self.seed ^ 0x0a1f);
        self.tree.write_back_all();
        for turn in 0..count {
            let key = key(sampler.sample(&mut random), self.seed);
            let operation =
                if turn % 2 == 0 { CountedOperation::Get } else { CountedOperation::Update };
            self.tree.count(operation, key)?;
        }
        let mut tally = self.tree.tally(CountedOperation::Get);
        tally += self.tree.tally(CountedOperation::Update);
        Ok((tally, tally.media_written_bytes + self.tree.write_back_all()))
    }
}
