//! What an index is to a measurement: one for all threads, and what each thread does with it.

use crate::error::BenchError;
use crate::keys::KeyList;

/// What an index takes at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Keys in the index.
    pub keys: u64,
    /// Bytes of the pool in chunks that are in use.
    pub pool_used_bytes: u64,
    /// Bytes of the pool.
    pub pool_size_bytes: u64,
    /// Bytes of DRAM in leaf metadata and inner nodes.
    pub dram_bytes: u64,
    /// Leaves.
    pub leaves: u64,
    /// Levels, leaves included.
    pub height: u64,
}

/// An index that can be measured. Its threads share it.
pub trait Target: Sync {
    /// Lists of the keys it takes.
    type Keys: KeyList;
    /// One thread's access to it.
    type Worker<'t>: Worker<Keys = Self::Keys>
    where
        Self: 't;

    /// An empty list of keys with room for `capacity`.
    fn new_keys(&self, capacity: usize) -> Self::Keys;

    /// Access for the calling thread.
    ///
    /// # Errors
    /// What is measured refuses another thread.
    fn worker(&self) -> Result<Self::Worker<'_>, BenchError>;

    /// The persistence domain in force, by name, or what a write survives.
    fn domain(&self) -> String;

    /// What it takes now. No worker exists meanwhile.
    ///
    /// # Errors
    /// It cannot be read.
    fn footprint(&self) -> Result<Footprint, BenchError>;

    /// How many keys there are; `None` if finding out takes a walk over all of them. No worker
    /// exists meanwhile.
    ///
    /// # Errors
    /// It cannot be read.
    fn count(&self) -> Result<Option<u64>, BenchError> {
        Ok(Some(self.footprint()?.keys))
    }
}

/// A key of a worker's lists.
pub type KeyOf<'k, W> = <<W as Worker>::Keys as KeyList>::Key<'k>;

/// The operations, as one thread does them. `version` tells the values of a key apart. Every one
/// fails if what is measured refuses it, or returns a value that was never written for the key.
pub trait Worker {
    /// Lists of the keys it takes.
    type Keys: KeyList;

    /// Whether the key is there.
    ///
    /// # Errors
    /// As all operations.
    fn get(&mut self, key: KeyOf<'_, Self>) -> Result<bool, BenchError>;

    /// How many of `count` keys from `position` on are there. One after the other, unless what is
    /// measured has something better.
    ///
    /// # Errors
    /// As all operations.
    fn get_many(
        &mut self,
        keys: &Self::Keys,
        position: usize,
        count: usize,
    ) -> Result<u64, BenchError> {
        let mut found = 0;
        for at in position..position + count {
            found += u64::from(self.get(keys.key(at))?);
        }
        Ok(found)
    }

    /// Adds the key. Returns false if it was there; what cannot tell at no cost returns true.
    ///
    /// # Errors
    /// As all operations.
    fn insert(&mut self, key: KeyOf<'_, Self>, version: u64) -> Result<bool, BenchError>;

    /// Replaces the value of the key. Returns false if it was absent; what cannot tell at no cost
    /// returns true.
    ///
    /// # Errors
    /// As all operations.
    fn update(&mut self, key: KeyOf<'_, Self>, version: u64) -> Result<bool, BenchError>;

    /// Replaces the values of `count` keys from `position` on, and says how many were there. One after
    /// the other, unless what is measured has something better.
    ///
    /// # Errors
    /// As all operations.
    fn update_many(
        &mut self,
        keys: &Self::Keys,
        position: usize,
        count: usize,
        version: u64,
    ) -> Result<u64, BenchError> {
        let mut found = 0;
        for at in position..position + count {
            found += u64::from(self.update(keys.key(at), version)?);
        }
        Ok(found)
    }

    /// Sets the value of the key, be it there or not.
    ///
    /// # Errors
    /// As all operations.
    fn put(&mut self, key: KeyOf<'_, Self>, version: u64) -> Result<(), BenchError>;

    /// Removes the key. Returns false if it was absent; what cannot tell at no cost returns true.
    ///
    /// # Errors
    /// As all operations.
    fn remove(&mut self, key: KeyOf<'_, Self>) -> Result<bool, BenchError>;

    /// How many pairs, up to `length`, there are from the key on. All targets check every pair: that
    /// its key is not below the first, and that its value was written for its key.
    ///
    /// # Errors
    /// As all operations.
    fn scan(&mut self, from: KeyOf<'_, Self>, length: u32) -> Result<u64, BenchError>;

    /// Inserts the first `count` keys of a list, which nobody measures: where many insertions
    /// together are faster than one by one, they may be made together. Returns how many keys were not
    /// there.
    ///
    /// # Errors
    /// As all operations.
    fn fill(&mut self, keys: &Self::Keys, count: usize) -> Result<u64, BenchError> {
        let mut added = 0;
        for index in 0..count {
            added += u64::from(self.insert(keys.key(index), index as u64)?);
        }
        Ok(added)
    }

    /// From now on values are written in `size` bytes, and may be read in any size. Without effect
    /// where values have one size.
    fn set_value_size(&mut self, size: usize) {
        let _ = size;
    }
}
