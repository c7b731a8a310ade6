//! fjall: a log-structured merge tree in Rust. Its writes do not look for the key.

use std::path::Path;

use everleaf_bench::measure::Settings;
use everleaf_bench::{BenchError, Footprint};
use fjall::{Database, Keyspace, KeyspaceCreateOptions};

use super::common::{Rival, footprint_of_files, refused};
use super::engine::{Engine, enter};

const CACHE_BYTES: u64 = 1 << 30;

/// The store.
pub struct Fjall {
    pairs: Keyspace,
    /// Goes after the keyspace.
    _database: Database,
}

impl Engine for Fjall {
    const RIVAL: Rival = Rival {
        name: "fjall",
        what: "fjall 3.1",
        durability: "journal in the buffers of the system: survives kill -9; cache of 1 GiB; writes \
                     do not look for the key",
        is_durable: true,
        is_integers_only: false,
        enter: enter::<Self>,
    };

    type Handle<'e> = &'e Keyspace;

    fn open(folder: &Path, _: &Settings) -> Result<Self, BenchError> {
        let database = Database::builder(folder).cache_size(CACHE_BYTES).open().map_err(refused)?;
        let pairs = database.keyspace("pairs", KeyspaceCreateOptions::default);
        Ok(Fjall { pairs: pairs.map_err(refused)?, _database: database })
    }

    fn handle(&self) -> Result<&Keyspace, BenchError> {
        Ok(&self.pairs)
    }

    fn get(
        pairs: &mut &Keyspace,
        key: &[u8],
        check: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Option<bool>, BenchError> {
        Ok(pairs.get(key).map_err(refused)?.map(|value| check(&value)))
    }

    fn set(pairs: &mut &Keyspace, key: &[u8], value: &[u8]) -> Result<Option<bool>, BenchError> {
        pairs.insert(key, value).map_err(refused)?;
        Ok(None)
    }

    fn remove(pairs: &mut &Keyspace, key: &[u8]) -> Result<Option<bool>, BenchError> {
        pairs.remove(key).map_err(refused)?;
        Ok(None)
    }

    fn scan(
        pairs: &mut &Keyspace,
        from: &[u8],
        limit: usize,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), BenchError> {
        for pair in pairs.range(from..).take(limit) {
            let (key, value) = pair.into_inner().map_err(refused)?;
            visit(&key, &value);
        }
        Ok(())
    }

    fn footprint(&self, folder: &Path) -> Result<Footprint, BenchError> {
        footprint_of_files(self.pairs.len().map_err(refused)? as u64, folder)
    }
}
