//! sled: a lock-free tree over a log, in Rust.

use std::path::{Path, PathBuf};

use everleaf_bench::measure::Settings;
use everleaf_bench::target::{BytesKeys, Target, Values, Worker};
use everleaf_bench::{Footprint, BenchError};
use sled::{Config, Db};

use super::{Rival, enter_in_folders, footprint_of_files, refused};

/// What is known of it.
pub const RIVAL: Rival = Rival {
    name: "sled",
    what: "sled 0.34",
    durability: "as it comes: kill -9 loses up to half a second (weaker than Everleaf)",
    is_durable: true,
    is_integers_only: false,
    enter: |name, settings, parent| enter_in_folders(name, settings, parent, Sled::open),
};

const CACHE_BYTES: u64 = 1 << 30;

struct Sled {
    pairs: Db,
    folder: PathBuf,
    key_size: usize,
    value_size: usize,
}

impl Sled {
    fn open(folder: &Path, settings: &Settings) -> Result<Self, BenchError> {
        let config = Config::new().path(folder.join("pairs.sled")).cache_capacity(CACHE_BYTES);
        let (pairs, folder) = (config.open().map_err(refused)?, folder.to_path_buf());
        let Settings { key_size, value_size, .. } = *settings;
        Ok(Sled { pairs, folder, key_size, value_size })
    }
}

impl Target for Sled {
    type Keys = BytesKeys;
    type Worker<'t> = SledWorker<'t>;

    fn new_keys(&self, capacity: usize) -> BytesKeys {
        BytesKeys::new(self.key_size, capacity)
    }

    fn worker(&self) -> Result<SledWorker<'_>, BenchError> {
        Ok(SledWorker { pairs: &self.pairs, values: Values::new(self.value_size) })
    }

    fn domain(&self) -> String {
        RIVAL.durability.to_owned()
    }

    fn footprint(&self) -> Result<Footprint, BenchError> {
        footprint_of_files(self.pairs.len() as u64, &self.folder)
    }

    fn count(&self) -> Result<Option<u64>, BenchError> {
        Ok(None)
    }
}

struct SledWorker<'t> {
    pairs: &'t Db,
    values: Values,
}

impl SledWorker<'_> {
    /// Sets the value. Returns whether there was one.
    fn set(&mut self, key: &[u8], version: u64) -> Result<bool, BenchError> {
        let value = self.values.fill(key, version);
        Ok(self.pairs.insert(key, value).map_err(refused)?.is_some())
    }
}

impl Worker for SledWorker<'_> {
    type Keys = BytesKeys;

    fn get(&mut self, key: &[u8]) -> Result<bool, BenchError> {
        match self.pairs.get(key).map_err(refused)? {
            Some(value) => Values::verdict(self.values.is_right(key, &value), key, true),
            None => Ok(false),
        }
    }

    fn insert(&mut self, key: &[u8], version: u64) -> Result<bool, BenchError> {
        self.set(key, version).map(|was_there| !was_there)
    }

    fn update(&mut self, key: &[u8], version: u64) -> Result<bool, BenchError> {
        self.set(key, version)
    }

    fn put(&mut self, key: &[u8], version: u64) -> Result<(), BenchError> {
        self.set(key, version).map(|_| ())
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, BenchError> {
        Ok(self.pairs.remove(key).map_err(refused)?.is_some())
    }

    fn scan(&mut self, from: &[u8], length: u32) -> Result<u64, BenchError> {
        let (mut count, mut is_right) = (0, true);
        for pair in self.pairs.range(from..).take(length as usize) {
            let (key, value) = pair.map_err(refused)?;
            is_right &= *key >= *from && self.values.is_right(&key, &value);
            count += 1;
        }
        Values::verdict(is_right, from, count)
    }

    fn set_value_size(&mut self, size: usize) {
        self.values.set_size(size);
    }
}
