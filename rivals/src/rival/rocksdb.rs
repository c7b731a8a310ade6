//! RocksDB: a log-structured merge tree in C++.
//!
//! Its writes do not look for the key, so that inserts, updates and removals cannot tell whether it
//! was there, and always count as done.

use std::path::{Path, PathBuf};

use everleaf_bench::measure::Settings;
use everleaf_bench::target::{BytesKeys, Target, Values, Worker};
use everleaf_bench::{Footprint, BenchError};
use rocksdb::{BlockBasedOptions, Cache, DB, IteratorMode, Options};

use super::{Rival, enter_in_folders, footprint_of_files, refused};

/// What is known of it.
pub const RIVAL: Rival = Rival {
    name: "rocksdb",
    what: "RocksDB 11.8 by rocksdb 0.25",
    durability: "write-ahead log without sync: survives kill -9; cache of 1 GiB, Bloom filters of \
                 10 bits, no compression; writes do not look for the key",
    is_durable: true,
    is_integers_only: false,
    enter: |name, settings, parent| enter_in_folders(name, settings, parent, Rocks::open),
};

const CACHE_BYTES: usize = 1 << 30;
const BLOOM_BITS: f64 = 10.0;

struct Rocks {
    pairs: DB,
    folder: PathBuf,
    key_size: usize,
    value_size: usize,
}

impl Rocks {
    fn open(folder: &Path, settings: &Settings) -> Result<Self, BenchError> {
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&Cache::new_lru_cache(CACHE_BYTES));
        blocks.set_bloom_filter(BLOOM_BITS, false);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&blocks);
        let pairs = DB::open(&options, folder.join("pairs")).map_err(refused)?;
        let Settings { key_size, value_size, .. } = *settings;
        Ok(Rocks { pairs, folder: folder.to_path_buf(), key_size, value_size })
    }
}

impl Target for Rocks {
    type Keys = BytesKeys;
    type Worker<'t> = RocksWorker<'t>;

    fn new_keys(&self, capacity: usize) -> BytesKeys {
        BytesKeys::new(self.key_size, capacity)
    }

    fn worker(&self) -> Result<RocksWorker<'_>, BenchError> {
        Ok(RocksWorker { pairs: &self.pairs, values: Values::new(self.value_size) })
    }

    fn domain(&self) -> String {
        RIVAL.durability.to_owned()
    }

    fn footprint(&self) -> Result<Footprint, BenchError> {
        let mut keys = 0;
        for pair in self.pairs.iterator(IteratorMode::Start) {
            pair.map_err(refused)?;
            keys += 1;
        }
        footprint_of_files(keys, &self.folder)
    }

    fn count(&self) -> Result<Option<u64>, BenchError> {
        Ok(None)
    }
}

struct RocksWorker<'t> {
    pairs: &'t DB,
    values: Values,
}

impl Worker for RocksWorker<'_> {
    type Keys = BytesKeys;

    fn get(&mut self, key: &[u8]) -> Result<bool, BenchError> {
        match self.pairs.get_pinned(key).map_err(refused)? {
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
        self.pairs.put(key, self.values.fill(key, version)).map_err(refused)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, BenchError> {
        self.pairs.delete(key).map_err(refused).map(|()| true)
    }

    fn scan(&mut self, from: &[u8], length: u32) -> Result<u64, BenchError> {
        // The raw iterator lends its slices; the other one copies every pair into two boxes.
        let mut pairs = self.pairs.raw_iterator();
        pairs.seek(from);
        let (mut count, mut is_right) = (0, true);
        while let Some((key, value)) = pairs.item() {
            is_right &= key >= from && self.values.is_right(key, value);
            count += 1;
            if count == u64::from(length) {
                break;
            }
            pairs.next();
        }
        // An iterator that met an error ends as if there were no more pairs.
        pairs.status().map_err(refused)?;
        Values::verdict(is_right, from, count)
    }

    fn set_value_size(&mut self, size: usize) {
        self.values.set_size(size);
    }
}
