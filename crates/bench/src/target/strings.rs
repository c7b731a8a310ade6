//! The store: byte strings on both sides.

use everleaf::Store;

use super::{Footprint, Target, Values, Worker};
use crate::error::BenchError;
use crate::keys::{BytesKeys, KeyList};

/// A store in a pool of its own.
pub(crate) struct Strings {
    store: Store,
    key_size: usize,
    value_size: usize,
}

impl Strings {
    /// Keys of `key_size` bytes and values of `value_size` bytes in an empty store.
    pub fn new(store: Store, key_size: usize, value_size: usize) -> Self {
        Strings { store, key_size, value_size }
    }
}

impl Target for Strings {
    type Keys = BytesKeys;
    type Worker<'t> = StringWorker<'t>;

    fn new_keys(&self, capacity: usize) -> BytesKeys {
        BytesKeys::new(self.key_size, capacity)
    }

    fn worker(&self) -> Result<StringWorker<'_>, BenchError> {
        Ok(StringWorker { store: &self.store, values: Values::new(self.value_size) })
    }

    fn domain(&self) -> String {
        self.store.statistics().domain.to_string()
    }

    fn footprint(&self) -> Result<Footprint, BenchError> {
        let statistics = self.store.statistics();
        Ok(Footprint {
            keys: statistics.keys,
            pool_used_bytes: statistics.pool_used_bytes,
            pool_size_bytes: statistics.pool_size_bytes,
            dram_bytes: statistics.memory_bytes,
            leaves: statistics.leaves,
            height: statistics.height,
        })
    }
}

/// One thread on a store.
pub(crate) struct StringWorker<'t> {
    store: &'t Store,
    values: Values,
}

impl Worker for StringWorker<'_> {
    type Keys = BytesKeys;

    #[inline(always)]
    fn get(&mut self, key: &[u8]) -> Result<bool, BenchError> {
        let is_right =
            self.store.default_map().get_with(key, |value| self.values.is_right(key, value))?;
        is_right.map_or(Ok(false), |is_right| Values::verdict(is_right, key, true))
    }

    #[inline(always)]
    fn get_many(
        &mut self,
        keys: &BytesKeys,
        position: usize,
        count: usize,
    ) -> Result<u64, BenchError> {
        let keys: Vec<&[u8]> = (position..position + count).map(|at| keys.key(at)).collect();
        let (mut found, mut bad) = (0, None);
        self.store.default_map().get_many(&keys, |index, value| {
            if let Some(value) = value {
                found += 1;
                if !self.values.is_right(keys[index], value) {
                    bad = Some(index);
                }
            }
        })?;
        bad.map_or(Ok(found), |index| Values::verdict(false, keys[index], found))
    }

    #[inline(always)]
    fn insert(&mut self, key: &[u8], version: u64) -> Result<bool, BenchError> {
        Ok(self.store.default_map().insert(key, self.values.fill(key, version))?)
    }

    #[inline(always)]
    fn update(&mut self, key: &[u8], version: u64) -> Result<bool, BenchError> {
        Ok(self.store.default_map().update(key, self.values.fill(key, version))?)
    }

    #[inline(always)]
    fn put(&mut self, key: &[u8], version: u64) -> Result<(), BenchError> {
        self.store.default_map().put(key, self.values.fill(key, version))?;
        Ok(())
    }

    fn set_value_size(&mut self, size: usize) {
        self.values.set_size(size);
    }

    #[inline(always)]
    fn remove(&mut self, key: &[u8]) -> Result<bool, BenchError> {
        Ok(self.store.default_map().remove(key)?)
    }

    #[inline(always)]
    fn scan(&mut self, from: &[u8], length: u32) -> Result<u64, BenchError> {
        let values = &self.values;
        let (mut count, mut is_right) = (0, true);
        self.store.default_map().scan(from..).limit(length as usize).for_each(|key, value| {
            count += 1;
            is_right &= key >= from && values.is_right(key, value);
        })?;
        Values::verdict(is_right, from, count)
    }
}
