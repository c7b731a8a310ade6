//! redb: a B-tree in a file, copied on write, in Rust; one writer at a time.
//!
//! Each write is a transaction of its own, each read, too.

use std::path::Path;

use everleaf_bench::measure::Settings;
use everleaf_bench::target::{BytesKeys, KeyList, Target, Values, Worker};
use everleaf_bench::{Footprint, BenchError};
use redb::{Database, Durability, ReadableDatabase, ReadableTableMetadata};
use redb::{TableDefinition, WriteTransaction};

use super::{FILL_COUNT, Rival, enter_in_folders, refused};

/// What is known of it.
pub const RIVAL: Rival = Rival {
    name: "redb",
    what: "redb 4.4",
    durability: "Durability::None: kill -9 loses what came after the last sync (weaker than \
                 Everleaf; the next step, Immediate, syncs the disk); a transaction for each \
                 operation",
    is_durable: true,
    is_integers_only: false,
    enter: |name, settings, parent| enter_in_folders(name, settings, parent, Redb::open),
};

const PAIRS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("pairs");

struct Redb {
    database: Database,
    key_size: usize,
    value_size: usize,
}

impl Redb {
    fn open(folder: &Path, settings: &Settings) -> Result<Self, BenchError> {
        let database = Database::create(folder.join("pairs.redb")).map_err(refused)?;
        let Settings { key_size, value_size, .. } = *settings;
        let redb = Redb { database, key_size, value_size };
        let transaction = redb.database.begin_write().map_err(refused)?;
        transaction.open_table(PAIRS).map_err(refused)?;
        transaction.commit().map_err(refused)?;
        Ok(redb)
    }
}

impl Target for Redb {
    type Keys = BytesKeys;
    type Worker<'t> = RedbWorker<'t>;

    fn new_keys(&self, capacity: usize) -> BytesKeys {
        BytesKeys::new(self.key_size, capacity)
    }

    fn worker(&self) -> Result<RedbWorker<'_>, BenchError> {
        Ok(RedbWorker { database: &self.database, values: Values::new(self.value_size) })
    }

    fn domain(&self) -> String {
        RIVAL.durability.to_owned()
    }

    fn footprint(&self) -> Result<Footprint, BenchError> {
        let transaction = self.database.begin_read().map_err(refused)?;
        let table = transaction.open_table(PAIRS).map_err(refused)?;
        let statistics = table.stats().map_err(refused)?;
        let used =
            statistics.stored_bytes() + statistics.metadata_bytes() + statistics.fragmented_bytes();
        Ok(Footprint {
            keys: table.len().map_err(refused)?,
            pool_used_bytes: used,
            pool_size_bytes: used,
            dram_bytes: 0,
            leaves: statistics.leaf_pages(),
            height: u64::from(statistics.tree_height()),
        })
    }

    fn count(&self) -> Result<Option<u64>, BenchError> {
        let transaction = self.database.begin_read().map_err(refused)?;
        let table = transaction.open_table(PAIRS).map_err(refused)?;
        Ok(Some(table.len().map_err(refused)?))
    }
}

struct RedbWorker<'t> {
    database: &'t Database,
    values: Values,
}

impl RedbWorker<'_> {
    fn begin(&self) -> Result<WriteTransaction, BenchError> {
        let mut transaction = self.database.begin_write().map_err(refused)?;
        transaction.set_durability(Durability::None).map_err(refused)?;
        Ok(transaction)
    }

    /// Sets the value. Returns whether there was one.
    fn set(&mut self, key: &[u8], version: u64) -> Result<bool, BenchError> {
        let transaction = self.begin()?;
        let was_there = {
            let mut table = transaction.open_table(PAIRS).map_err(refused)?;
            let value = self.values.fill(key, version);
            table.insert(key, value).map_err(refused)?.is_some()
        };
        transaction.commit().map_err(refused)?;
        Ok(was_there)
    }
}

impl Worker for RedbWorker<'_> {
    type Keys = BytesKeys;

    fn get(&mut self, key: &[u8]) -> Result<bool, BenchError> {
        let transaction = self.database.begin_read().map_err(refused)?;
        let table = transaction.open_table(PAIRS).map_err(refused)?;
        match table.get(key).map_err(refused)? {
            Some(value) => Values::verdict(self.values.is_right(key, value.value()), key, true),
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
        let transaction = self.begin()?;
        let was_there = {
            let mut table = transaction.open_table(PAIRS).map_err(refused)?;
            table.remove(key).map_err(refused)?.is_some()
        };
        transaction.commit().map_err(refused)?;
        Ok(was_there)
    }

    fn scan(&mut self, from: &[u8], length: u32) -> Result<u64, BenchError> {
        let transaction = self.database.begin_read().map_err(refused)?;
        let table = transaction.open_table(PAIRS).map_err(refused)?;
        let (mut count, mut is_right) = (0, true);
        for pair in table.range(from..).map_err(refused)?.take(length as usize) {
            let (key, value) = pair.map_err(refused)?;
            let key = key.value();
            is_right &= key >= from && self.values.is_right(key, value.value());
            count += 1;
        }
        Values::verdict(is_right, from, count)
    }

    fn fill(&mut self, keys: &BytesKeys, count: usize) -> Result<u64, BenchError> {
        let mut added = 0;
        for start in (0..count).step_by(FILL_COUNT) {
            let transaction = self.begin()?;
            {
                let mut table = transaction.open_table(PAIRS).map_err(refused)?;
                for index in start..count.min(start + FILL_COUNT) {
                    let key = keys.key(index);
                    let old = table.insert(key, self.values.fill(key, index as u64));
                    added += u64::from(old.map_err(refused)?.is_none());
                }
            }
            transaction.commit().map_err(refused)?;
        }
        Ok(added)
    }

    fn set_value_size(&mut self, size: usize) {
        self.values.set_size(size);
    }
}
