//! RocksDB: a log-structured merge tree in C++. Its writes do not look for the key.

use std::path::Path;

use everleaf_bench::measure::Settings;
use everleaf_bench::{BenchError, Footprint};
use rocksdb::{BlockBasedOptions, Cache, DB, IteratorMode, Options};

use super::common::{Rival, footprint_of_files, refused};
use super::engine::{Engine, enter};

const CACHE_BYTES: usize = 1 << 30;
const BLOOM_BITS: f64 = 10.0;

/// The store.
pub struct Rocks(DB);

impl Engine for Rocks {
    const RIVAL: Rival = Rival {
        name: "rocksdb",
        what: "RocksDB 11.8 by rocksdb 0.25",
        durability: "write-ahead log without sync: survives kill -9; cache of 1 GiB, Bloom filters of \
                     10 bits, no compression; writes do not look for the key",
        is_durable: true,
        is_integers_only: false,
        enter: enter::<Self>,
    };

    type Handle<'e> = &'e DB;

    fn open(folder: &Path, _: &Settings) -> Result<Self, BenchError> {
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&Cache::new_lru_cache(CACHE_BYTES));
        blocks.set_bloom_filter(BLOOM_BITS, false);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&blocks);
        DB::open(&options, folder.join("pairs")).map(Rocks).map_err(refused)
    }

    fn handle(&self) -> Result<&DB, BenchError> {
        Ok(&self.0)
    }

    fn get(
        pairs: &mut &DB,
        key: &[u8],
        check: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Option<bool>, BenchError> {
        Ok(pairs.get_pinned(key).map_err(refused)?.map(|value| check(&value)))
    }

    fn set(pairs: &mut &DB, key: &[u8], value: &[u8]) -> Result<Option<bool>, BenchError> {
        pairs.put(key, value).map_err(refused)?;
        Ok(None)
    }

    fn remove(pairs: &mut &DB, key: &[u8]) -> Result<Option<bool>, BenchError> {
        pairs.delete(key).map_err(refused)?;
        Ok(None)
    }

    fn scan(
        pairs: &mut &DB,
        from: &[u8],
        limit: usize,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), BenchError> {
        // The raw iterator lends its slices; the other one copies every pair into two boxes.
        let mut pairs = pairs.raw_iterator();
        pairs.seek(from);
        let mut count = 0;
        while count < limit
            && let Some((key, value)) = pairs.item()
        {
            visit(key, value);
            count += 1;
            if count < limit {
                pairs.next();
            }
        }
        // An iterator that met an error ends as if there were no more pairs.
        pairs.status().map_err(refused)
    }

    fn footprint(&self, folder: &Path) -> Result<Footprint, BenchError> {
        let mut keys = 0;
        for pair in self.0.iterator(IteratorMode::Start) {
            pair.map_err(refused)?;
            keys += 1;
        }
        footprint_of_files(keys, folder)
    }
}
