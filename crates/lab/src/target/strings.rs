//! The store: byte strings on both sides.

use std::ops::{Bound, ControlFlow};

use everleaf::Store;

use super::{Footprint, Target, Worker};
use crate::error::LabError;
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

    fn worker(&self) -> Result<StringWorker<'_>, LabError> {
        Ok(StringWorker { store: &self.store, value: vec![b'v'; self.value_size] })
    }

    fn domain(&self) -> String {
        self.store.statistics().domain.to_string()
    }

    fn footprint(&self) -> Result<Footprint, LabError> {
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
    /// The value to write: the end of the key, the version, then filler; as much as there is room.
    value: Vec<u8>,
}

impl StringWorker<'_> {
    #[inline(always)]
    fn prepare(&mut self, key: &[u8], version: u64) {
        let size = self.value.len();
        let mark = &key[key.len() - 8..];
        let (first, rest) = self.value.split_at_mut(size.min(8));
        first.copy_from_slice(&mark[..first.len()]);
        let count = rest.len().min(8);
        rest[..count].copy_from_slice(&version.to_le_bytes()[..count]);
    }
}

/// Checks that a value has the right size and the mark of its key.
#[inline(always)]
fn check(size: usize, key: &[u8], value: &[u8]) -> bool {
    let marked = size.min(8);
    value.len() == size && value[..marked] == key[key.len() - 8..][..marked]
}

#[cold]
fn wrong(key: &[u8]) -> LabError {
    let key = key.escape_ascii();
    LabError::Wrong(format!("key \"{key}\" has a value that was never written for it"))
}

impl Worker for StringWorker<'_> {
    type Keys = BytesKeys;

    #[inline(always)]
    fn get(&mut self, key: &[u8]) -> Result<bool, LabError> {
        let size = self.value.len();
        match self.store.get_with(key, |value| check(size, key, value))? {
            Some(true) => Ok(true),
            Some(false) => Err(wrong(key)),
            None => Ok(false),
        }
    }

    #[inline(always)]
    fn get_many(
        &mut self,
        keys: &BytesKeys,
        position: usize,
        count: usize,
    ) -> Result<u64, LabError> {
        let size = self.value.len();
        let keys: Vec<&[u8]> = (position..position + count).map(|at| keys.key(at)).collect();
        let (mut found, mut bad) = (0, None);
        self.store.get_many(&keys, |index, value| {
            if let Some(value) = value {
                found += 1;
                if !check(size, keys[index], value) {
                    bad = Some(index);
                }
            }
        })?;
        bad.map_or(Ok(found), |index| Err(wrong(keys[index])))
    }

    #[inline(always)]
    fn insert(&mut self, key: &[u8], version: u64) -> Result<bool, LabError> {
        self.prepare(key, version);
        Ok(self.store.insert(key, &self.value)?)
    }

    #[inline(always)]
    fn update(&mut self, key: &[u8], version: u64) -> Result<bool, LabError> {
        self.prepare(key, version);
        Ok(self.store.update(key, &self.value)?)
    }

    #[inline(always)]
    fn remove(&mut self, key: &[u8]) -> Result<bool, LabError> {
        Ok(self.store.remove(key)?)
    }

    #[inline(always)]
    fn scan(&mut self, from: &[u8], length: u32) -> Result<u64, LabError> {
        let size = self.value.len();
        let (mut count, mut is_right) = (0, true);
        let range = (Bound::Included(from), Bound::Unbounded);
        self.store.scan(range, false, |key, value| {
            count += 1;
            is_right &= key >= from && check(size, key, value);
            if count == u64::from(length) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        if is_right { Ok(count) } else { Err(wrong(from)) }
    }
}
