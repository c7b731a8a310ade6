//! fjall: a log-structured merge tree in Rust.
//!
//! Its writes do not look for the key, so that inserts, updates and removals cannot tell whether it
//! was there, and always count as done.

use std::path::{Path, PathBuf};

use everleaf_bench::measure::Settings;
use everleaf_bench::target::{BytesKeys, Target, Values, Worker};
use everleaf_bench::{Footprint, BenchError};
use fjall::{Database, Keyspace, KeyspaceCreateOptions};

use super::{Rival, enter_in_folders, footprint_of_files, refused};

/// What is known of it.
pub const RIVAL: Rival = Rival {
    name: "fjall",
    what: "fjall 3.1",
    durability: "journal in the buffers of the system: survives kill -9; cache of 1 GiB; writes \
                 do not look for the key",
    is_durable: true,
    is_integers_only: false,
    enter: |name, settings, parent| enter_in_folders(name, settings, parent, Fjall::open),
};

const CACHE_BYTES: u64 = 1 << 30;

struct Fjall {
    pairs: Keyspace,
    /// Goes after the keyspace.
    _database: Database,
    folder: PathBuf,
    key_size: usize,
    value_size: usize,
}

impl Fjall {
    fn open(folder: &Path, settings: &Settings) -> Result<Self, BenchError> {
        let database = Database::builder(folder).cache_size(CACHE_BYTES).open().map_err(refused)?;
        let pairs = database.keyspace("pairs", KeyspaceCreateOptions::default);
        let (pairs, folder) = (pairs.map_err(refused)?, folder.to_path_buf());
        let Settings { key_size, value_size, .. } = *settings;
        Ok(Fjall { pairs, _database: database, folder, key_size, value_size })
    }
}

impl Target for Fjall {
    type Keys = BytesKeys;
    type Worker<'t> = FjallWorker<'t>;

    fn new_keys(&self, capacity: usize) -> BytesKeys {
        BytesKeys::new(self.key_size, capacity)
    }

    fn worker(&self) -> Result<FjallWorker<'_>, BenchError> {
        Ok(FjallWorker { pairs: &self.pairs, values: Values::new(self.value_size) })
    }

    fn domain(&self) -> String {
        RIVAL.durability.to_owned()
    }

    fn footprint(&self) -> Result<Footprint, BenchError> {
        footprint_of_files(self.pairs.len().map_err(refused)? as u64, &self.folder)
    }

    fn count(&self) -> Result<Option<u64>, BenchError> {
        Ok(None)
    }
}

struct FjallWorker<'t> {
    pairs: &'t Keyspace,
    values: Values,
}

impl Worker for FjallWorker<'_> {
    type Keys = BytesKeys;

    fn get(&mut self, key: &[u8]) -> Result<bool, BenchError> {
        match self.pairs.get(key).map_err(refused)? {
            Some(value) => Values::verdict(self.values.is_right(key, &value), key, true),
            None => Ok(false),
        }
    }

    fn insert(&mut self, key: &[u8], version: u64) -> Result<bool, BenchError> {
        self.put(key, version).map(|()| true)
    }

    fn update(&mut self, key: &[u8], version: u64) -> Result<bool, BenchError> {
        self.put(key, version).map(|()| true)
    }

    fn put(&mut self, key: &[u8], version: u64) -> Result<(), BenchError> {
        self.pairs.insert(key, self.values.fill(key, version)).map_err(refused)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, BenchError> {
        self.pairs.remove(key).map_err(refused).map(|()| true)
    }

    fn scan(&mut self, from: &[u8], length: u32) -> Result<u64, BenchError> {
        let (mut count, mut is_right) = (0, true);
        for pair in self.pairs.range(from..).take(length as usize) {
            let (key, value) = pair.into_inner().map_err(refused)?;
            is_right &= *key >= *from && self.values.is_right(&key, &value);
            count += 1;
        }
        Values::verdict(is_right, from, count)
    }

    fn set_value_size(&mut self, size: usize) {
        self.values.set_size(size);
    }
}
