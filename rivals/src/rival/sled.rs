//! sled: a lock-free tree over a log, in Rust.

use std::path::Path;

use everleaf_bench::measure::Settings;
use everleaf_bench::{BenchError, Footprint};
use sled::{Config, Db};

use super::common::{Rival, footprint_of_files, refused};
use super::engine::{Engine, enter};

const CACHE_BYTES: u64 = 1 << 30;

/// The store.
pub struct Sled(Db);

impl Engine for Sled {
    const RIVAL: Rival = Rival {
        name: "sled",
        what: "sled 0.34",
        durability: "as it comes: kill -9 loses up to half a second (weaker than Everleaf)",
        is_durable: true,
        is_integers_only: false,
        enter: enter::<Self>,
    };

    type Handle<'e> = &'e Db;

    fn open(folder: &Path, _: &Settings) -> Result<Self, BenchError> {
        let config = Config::new().path(folder.join("pairs.sled")).cache_capacity(CACHE_BYTES);
        config.open().map(Sled).map_err(refused)
    }

    fn handle(&self) -> Result<&Db, BenchError> {
        Ok(&self.0)
    }

    fn get(
        pairs: &mut &Db,
        key: &[u8],
        check: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Option<bool>, BenchError> {
        Ok(pairs.get(key).map_err(refused)?.map(|value| check(&value)))
    }

    fn set(pairs: &mut &Db, key: &[u8], value: &[u8]) -> Result<Option<bool>, BenchError> {
        Ok(Some(pairs.insert(key, value).map_err(refused)?.is_some()))
    }

    fn remove(pairs: &mut &Db, key: &[u8]) -> Result<Option<bool>, BenchError> {
        Ok(Some(pairs.remove(key).map_err(refused)?.is_some()))
    }

    fn scan(
        pairs: &mut &Db,
        from: &[u8],
        limit: usize,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), BenchError> {
        for pair in pairs.range(from..).take(limit) {
            let (key, value) = pair.map_err(refused)?;
            visit(&key, &value);
        }
        Ok(())
    }

    fn footprint(&self, folder: &Path) -> Result<Footprint, BenchError> {
        footprint_of_files(self.0.len() as u64, folder)
    }
}
