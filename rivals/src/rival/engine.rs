//! Stores of byte strings in a folder: what each has to bring, and the target that all of them are by that.

use std::ops::Range;
use std::path::{Path, PathBuf};

use everleaf_bench::measure::Settings;
use everleaf_bench::measure::contest::Entrant;
use everleaf_bench::target::{BytesKeys, KeyList, Target, Values, Worker};
use everleaf_bench::{BenchError, Footprint};

use super::common::{Rival, enter_in_folders};

/// Insertions that share a transaction while an index is filled for what is measured next, where each
/// would otherwise be a transaction of its own.
const FILL_COUNT: usize = 10_000;

/// A store of byte strings.
///
/// Writes say whether the key was there before; a store whose writes do not look for it says `None`, and its inserts,
/// updates and removals always count as done.
pub trait Engine: Sized + Sync + 'static {
    /// What is known of it.
    const RIVAL: Rival;

    /// One thread's access to it.
    type Handle<'e>;

    /// An empty store in an empty folder.
    ///
    /// # Errors
    /// As of all calls: what the store refuses.
    fn open(folder: &Path, settings: &Settings) -> Result<Self, BenchError>;

    /// Access for the calling thread.
    fn handle(&self) -> Result<Self::Handle<'_>, BenchError>;

    /// What `check` says of the value of `key`, if the key is there.
    fn get(
        handle: &mut Self::Handle<'_>,
        key: &[u8],
        check: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Option<bool>, BenchError>;

    /// Sets the value of `key`.
    fn set(
        handle: &mut Self::Handle<'_>,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<bool>, BenchError>;

    /// Adds `key`. Where nothing is better it replaces a value that is there, which the driver does not ask for.
    fn insert(
        handle: &mut Self::Handle<'_>,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<bool>, BenchError> {
        Self::set(handle, key, value)
    }

    /// Replaces the value of `key`. Where nothing is better it adds a key that is absent, which the driver does not
    /// ask for.
    fn update(
        handle: &mut Self::Handle<'_>,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<bool>, BenchError> {
        Self::set(handle, key, value)
    }

    /// Removes `key`.
    fn remove(handle: &mut Self::Handle<'_>, key: &[u8]) -> Result<Option<bool>, BenchError>;

    /// Shows up to `limit` pairs from `from` on to `visit`.
    fn scan(
        handle: &mut Self::Handle<'_>,
        from: &[u8],
        limit: usize,
        visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), BenchError>;

    /// Inserts some keys of a list, in one transaction where there are some. Returns how many were not there.
    fn fill(
        handle: &mut Self::Handle<'_>,
        keys: &BytesKeys,
        range: Range<usize>,
        values: &mut Values,
    ) -> Result<u64, BenchError> {
        let mut added = 0;
        for index in range {
            let key = keys.key(index);
            let was_there = Self::insert(handle, key, values.fill(key, index as u64))?;
            added += u64::from(!was_there.unwrap_or(false));
        }
        Ok(added)
    }

    /// What it takes now, in this folder.
    fn footprint(&self, folder: &Path) -> Result<Footprint, BenchError>;

    /// How many keys there are; `None` if finding out takes a walk over all of them.
    fn count(&self) -> Result<Option<u64>, BenchError> {
        Ok(None)
    }
}

/// Makes an entrant of a store.
pub fn enter<E: Engine>(
    name: &'static str,
    settings: &Settings,
    parent: &Path,
) -> Result<Box<dyn Entrant>, BenchError> {
    enter_in_folders(name, settings, parent, Stored::<E>::open)
}

/// A store that is measured.
struct Stored<E> {
    engine: E,
    folder: PathBuf,
    key_size: usize,
    value_size: usize,
}

impl<E: Engine> Stored<E> {
    fn open(folder: &Path, settings: &Settings) -> Result<Self, BenchError> {
        let Settings { key_size, value_size, .. } = *settings;
        let engine = E::open(folder, settings)?;
        Ok(Stored { engine, folder: folder.to_path_buf(), key_size, value_size })
    }
}

impl<E: Engine> Target for Stored<E> {
    type Keys = BytesKeys;
    type Worker<'t> = StoredWorker<'t, E>;

    fn new_keys(&self, capacity: usize) -> BytesKeys {
        BytesKeys::new(self.key_size, capacity)
    }

    fn worker(&self) -> Result<StoredWorker<'_, E>, BenchError> {
        Ok(StoredWorker { handle: self.engine.handle()?, values: Values::new(self.value_size) })
    }

    fn domain(&self) -> String {
        E::RIVAL.durability.to_owned()
    }

    fn footprint(&self) -> Result<Footprint, BenchError> {
        self.engine.footprint(&self.folder)
    }

    fn count(&self) -> Result<Option<u64>, BenchError> {
        self.engine.count()
    }
}

/// One thread's access to a store.
struct StoredWorker<'t, E: Engine> {
    handle: E::Handle<'t>,
    values: Values,
}

impl<E: Engine> Worker for StoredWorker<'_, E> {
    type Keys = BytesKeys;

    fn get(&mut self, key: &[u8]) -> Result<bool, BenchError> {
        match E::get(&mut self.handle, key, |value| self.values.is_right(key, value))? {
            Some(is_right) => Values::verdict(is_right, key, true),
            None => Ok(false),
        }
    }

    fn insert(&mut self, key: &[u8], version: u64) -> Result<bool, BenchError> {
        let was_there = E::insert(&mut self.handle, key, self.values.fill(key, version))?;
        Ok(!was_there.unwrap_or(false))
    }

    fn update(&mut self, key: &[u8], version: u64) -> Result<bool, BenchError> {
        let was_there = E::update(&mut self.handle, key, self.values.fill(key, version))?;
        Ok(was_there.unwrap_or(true))
    }

    fn put(&mut self, key: &[u8], version: u64) -> Result<(), BenchError> {
        E::set(&mut self.handle, key, self.values.fill(key, version))?;
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, BenchError> {
        Ok(E::remove(&mut self.handle, key)?.unwrap_or(true))
    }

    fn scan(&mut self, from: &[u8], length: u32) -> Result<u64, BenchError> {
        let (mut count, mut is_right) = (0, true);
        E::scan(&mut self.handle, from, length as usize, |key, value| {
            is_right &= key >= from && self.values.is_right(key, value);
            count += 1;
        })?;
        Values::verdict(is_right, from, count)
    }

    fn fill(&mut self, keys: &BytesKeys, count: usize) -> Result<u64, BenchError> {
        let mut added = 0;
        for start in (0..count).step_by(FILL_COUNT) {
            let range = start..count.min(start + FILL_COUNT);
            added += E::fill(&mut self.handle, keys, range, &mut self.values)?;
        }
        Ok(added)
    }

    fn set_value_size(&mut self, size: usize) {
        self.values.set_size(size);
    }
}
