//! What commands read and write: the store, or a transaction that is being made.
//!
//! A transaction (`EXEC`) runs its commands on a stage: what they read comes from the store and is
//! noted, what they write is kept aside. In the end all of it is written as one batch, on the
//! condition that what was read is still so; if it is not, all of it is run again.

use std::collections::BTreeMap;
use std::sync::Arc;

use everleaf::{Action, Expiry, Map, Result, Store, WriteBatch};

/// A value and when it expires.
type Value = (Vec<u8>, Expiry);

/// Where a command reads and writes.
pub enum Keys<'a> {
    /// The store itself.
    Store(&'a Store),
    /// A transaction.
    Stage(&'a mut Stage),
}

/// A transaction that is being made.
pub struct Stage {
    store: Arc<Store>,
    /// What was read, as it was.
    read: BTreeMap<Vec<u8>, Option<Value>>,
    /// What is to be written; `None` removes the key.
    written: BTreeMap<Vec<u8>, Option<Value>>,
}

impl Stage {
    pub fn new(store: Arc<Store>) -> Self {
        Stage { store, read: BTreeMap::new(), written: BTreeMap::new() }
    }

    /// What a key is to the transaction.
    fn get(&mut self, key: &[u8]) -> Result<Option<Value>> {
        if let Some(value) = self.written.get(key) {
            return Ok(value.clone());
        }
        if let Some(value) = self.read.get(key) {
            return Ok(value.clone());
        }
        let value = read(&self.store, key)?;
        self.read.insert(key.to_vec(), value.clone());
        Ok(value)
    }

    fn set(&mut self, key: &[u8], value: Option<Value>) {
        self.written.insert(key.to_vec(), value);
    }

    /// The whole of it as a batch, whose first conditions are those already in it.
    pub fn fill(&self, batch: &mut WriteBatch) {
        for (key, value) in &self.read {
            expect(batch, &self.store, key, value.as_ref());
        }
        for (key, value) in &self.written {
            match value {
                Some((value, expiry)) => {
                    batch.put_with_expiry(&self.store, key, value, expiry.as_ms());
                }
                None => {
                    batch.remove(&self.store, key);
                }
            }
        }
    }
}

/// A key as it is, with its time.
pub fn read(map: &Map, key: &[u8]) -> Result<Option<Value>> {
    map.get_with_expiry(key, |value, expiry| (value.to_vec(), expiry))
}

/// Makes a batch depend on what a key is, time included.
pub fn expect(batch: &mut WriteBatch, map: &Map, key: &[u8], value: Option<&Value>) {
    match value {
        Some((value, expiry)) => batch.expect_with_expiry(map, key, value, *expiry),
        None => batch.expect(map, key, None),
    };
}

impl Keys<'_> {
    /// Runs `see` on the value of a key.
    pub fn get_with<R>(&mut self, key: &[u8], see: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        match self {
            Keys::Store(store) => store.get_with(key, see),
            Keys::Stage(stage) => Ok(stage.get(key)?.map(|(value, _)| see(&value))),
        }
    }

    /// Runs `see` on the values of keys, in order.
    pub fn get_many(
        &mut self,
        keys: &[&[u8]],
        mut see: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        match self {
            Keys::Store(store) => store.get_many(keys, see),
            Keys::Stage(stage) => {
                for (index, key) in keys.iter().enumerate() {
                    see(index, stage.get(key)?.as_ref().map(|(value, _)| value.as_slice()));
                }
                Ok(())
            }
        }
    }

    /// Whether a key is there.
    pub fn contains(&mut self, key: &[u8]) -> Result<bool> {
        Ok(self.get_with(key, |_| ())?.is_some())
    }

    /// When a key expires; `None` if it is not there.
    pub fn expiry(&mut self, key: &[u8]) -> Result<Option<Expiry>> {
        match self {
            Keys::Store(store) => store.expiry(key),
            Keys::Stage(stage) => Ok(stage.get(key)?.map(|(_, expiry)| expiry)),
        }
    }

    /// Sets a value that never expires.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Keys::Store(store) => store.put(key, value).map(drop),
            Keys::Stage(stage) => {
                stage.set(key, Some((value.to_vec(), Expiry::Never)));
                Ok(())
            }
        }
    }

    /// Adds a key unless it is there. Returns whether it was added.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        match self {
            Keys::Store(store) => store.insert(key, value),
            Keys::Stage(_) => {
                let absent = !self.contains(key)?;
                if absent {
                    self.put(key, value)?;
                }
                Ok(absent)
            }
        }
    }

    /// Replaces the value of a key that is there. Returns whether it was.
    pub fn update(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        match self {
            Keys::Store(store) => store.update(key, value),
            Keys::Stage(_) => {
                let present = self.contains(key)?;
                if present {
                    self.put(key, value)?;
                }
                Ok(present)
            }
        }
    }

    /// Sets a value. Returns the old one.
    pub fn replace(&mut self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        match self {
            Keys::Store(store) => store.replace(key, value),
            Keys::Stage(stage) => {
                let old = stage.get(key)?;
                stage.set(key, Some((value.to_vec(), Expiry::Never)));
                Ok(old.map(|(value, _)| value))
            }
        }
    }

    /// Removes a key. Returns the value it had.
    pub fn take(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self {
            Keys::Store(store) => store.take(key),
            Keys::Stage(stage) => {
                let old = stage.get(key)?;
                stage.set(key, None);
                Ok(old.map(|(value, _)| value))
            }
        }
    }

    /// Removes a key. Returns whether it was there.
    pub fn remove(&mut self, key: &[u8]) -> Result<bool> {
        match self {
            Keys::Store(store) => store.remove(key),
            Keys::Stage(_) => Ok(self.take(key)?.is_some()),
        }
    }

    /// Reads, decides and writes a key as one step. `decide` may run several times.
    pub fn update_with(
        &mut self,
        key: &[u8],
        mut decide: impl FnMut(Option<(&[u8], Expiry)>) -> Action,
    ) -> Result<()> {
        let stage = match self {
            Keys::Store(store) => return store.update_with_expiry(key, decide),
            Keys::Stage(stage) => stage,
        };
        let old = stage.get(key)?;
        let at = |time_ms| if time_ms == 0 { Expiry::Never } else { Expiry::At(time_ms) };
        let new = match decide(old.as_ref().map(|(value, expiry)| (value.as_slice(), *expiry))) {
            Action::Keep => return Ok(()),
            Action::Put(value) => Some((value, old.map_or(Expiry::Never, |(_, expiry)| expiry))),
            Action::PutWithExpiry(value, time_ms) => Some((value, at(time_ms))),
            Action::Expire(time_ms) => old.map(|(value, _)| (value, at(time_ms))),
            Action::Remove => None,
        };
        stage.set(key, new);
        Ok(())
    }

    /// The keys `pairs` with their values as one change, unless one of them is there and `fresh` is
    /// wanted. Returns whether it was done.
    pub fn put_all(&mut self, pairs: &[(&[u8], &[u8])], fresh: bool) -> Result<bool> {
        let store = match self {
            Keys::Store(store) => *store,
            Keys::Stage(_) => {
                for (key, _) in pairs {
                    if fresh && self.contains(key)? {
                        return Ok(false);
                    }
                }
                pairs.iter().try_for_each(|(key, value)| self.put(key, value))?;
                return Ok(true);
            }
        };
        let mut batch = WriteBatch::new();
        for (key, value) in pairs {
            if fresh {
                batch.expect(store, key, None);
            }
            batch.put(store, key, value);
        }
        Ok(store.write(&batch)?.is_done())
    }
}
