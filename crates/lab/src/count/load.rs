//! What operations cost on a tree of many keys, with all splits.

use everleaf_machine::simulated::counting::CountingConfig;

use super::{Counted, Operation, pool_bytes};
use crate::error::LabError;
use crate::random::{Random, mix};

/// A tree filled with keys at random.
pub(crate) struct Loaded {
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
pub(crate) fn random(
    tree: impl FnOnce(usize) -> Result<Counted, LabError>,
    keys: u64,
    seed: u64,
) -> Result<Loaded, LabError> {
    let mut tree = tree(pool_bytes(keys))?;
    let leaves_first = tree.leaves()?;
    for number in 0..keys {
        tree.count(Operation::Insert, key(number, seed))?;
    }
    Ok(Loaded { tree, leaves_first, keys, seed })
}

/// The same for a design of the catalogue.
///
/// # Errors
/// The design's.
pub(crate) fn design(
    name: &str,
    config: CountingConfig,
    keys: u64,
    seed: u64,
) -> Result<Loaded, LabError> {
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
    pub fn perform(&mut self, operation: Operation, count: u64) -> Result<(), LabError> {
        let mut random = Random::new(self.seed ^ 0x0be7);
        for _ in 0..count {
            let mut number = random.below(self.keys);
            if operation == Operation::GetAbsent {
                number += 1 << 31;
            }
            let key = key(number, self.seed);
            self.tree.count(operation, key)?;
            if operation == Operation::Remove {
                self.tree.fill(key)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_on_a_loaded_tree_are_counted_apart_from_its_inserts() {
        let mut loaded = design("rntree", CountingConfig::default(), 2000, 3).unwrap();
        for operation in [Operation::Get, Operation::GetAbsent, Operation::Remove] {
            loaded.perform(operation, 100).unwrap();
            assert_eq!(loaded.tree.tally(operation).operations, 100);
        }
        loaded.perform(Operation::Scan(10), 10).unwrap();
        assert_eq!(loaded.tree.tally(Operation::Insert).operations, 2000);
        // Leaves of 62 entries split about every 43 inserts.
        let splits = loaded.tree.leaves().unwrap() - loaded.leaves_first;
        assert!((35..60).contains(&splits), "{splits}");
    }
}
