//! redb: a B-tree in a file, copied on write, in Rust; one writer at a time.
//!
//! Each write is a transaction of its own, each read, too.

use std::ops::Range;
use std::path::Path;

use everleaf_bench::measure::Settings;
use everleaf_bench::target::{BytesKeys, KeyList, Values};
use everleaf_bench::{BenchError, Footprint};
use redb::{Database, Durability, ReadableDatabase, ReadableTableMetadata, Table};
use redb::{ReadOnlyTable, TableDefinition};

use super::common::{Rival, refused};
use super::engine::{Engine, enter};

const PAIRS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("pairs");

/// The store.
pub struct Redb(Database);

/// The table as a read sees it.
fn table(database: &Database) -> Result<ReadOnlyTable<&'static [u8], &'static [u8]>, BenchError> {
    let transaction = database.begin_read().map_err(refused)?;
    transaction.open_table(PAIRS).map_err(refused)
}

/// Does something with the table in a transaction.
fn write<R>(
    database: &Database,
    make: impl FnOnce(&mut Table<'_, &'static [u8], &'static [u8]>) -> Result<R, BenchError>,
) -> Result<R, BenchError> {
    let mut transaction = database.begin_write().map_err(refused)?;
    transaction.set_durability(Durability::None).map_err(refused)?;
    let made = make(&mut transaction.open_table(PAIRS).map_err(refused)?)?;
    transaction.commit().map_err(refused)?;
    Ok(made)
}

impl Engine for Redb {
    const RIVAL: Rival = Rival {
        name: "redb",
        what: "redb 4.4",
        durability: "Durability::None: kill -9 loses what came after the last sync (weaker than \
                     Everleaf; the next step, Immediate, syncs the disk); a transaction for each \
                     operation",
        is_durable: true,
        is_integers_only: false,
        enter: enter::<Self>,
    };

    type Handle<'e> = &'e Database;

    fn open(folder: &Path, _: &Settings) -> Result<Self, BenchError> {
        let database = Database::create(folder.join("pairs.redb")).map_err(refused)?;
        let transaction = database.begin_write().map_err(refused)?;
        transaction.open_table(PAIRS).map_err(refused)?;
        transaction.commit().map_err(refused)?;
        Ok(Redb(database))
    }

    fn handle(&self) -> Result<&Database, BenchError> {
        Ok(&self.0)
    }

    fn get(
        database: &mut &Database,
        key: &[u8],
        check: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Option<bool>, BenchError> {
        Ok(table(database)?.get(key).map_err(refused)?.map(|value| check(value.value())))
    }

    fn set(database: &mut &Database, key: &[u8], value: &[u8]) -> Result<Option<bool>, BenchError> {
        write(database, |table| Ok(Some(table.insert(key, value).map_err(refused)?.is_some())))
    }

    fn remove(database: &mut &Database, key: &[u8]) -> Result<Option<bool>, BenchError> {
        write(database, |table| Ok(Some(table.remove(key).map_err(refused)?.is_some())))
    }

    fn scan(
        database: &mut &Database,
        from: &[u8],
        limit: usize,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), BenchError> {
        for pair in table(database)?.range(from..).map_err(refused)?.take(limit) {
            let (key, value) = pair.map_err(refused)?;
            visit(key.value(), value.value());
        }
        Ok(())
    }

    fn fill(
        database: &mut &Database,
        keys: &BytesKeys,
        range: Range<usize>,
        values: &mut Values,
    ) -> Result<u64, BenchError> {
        write(database, |table| {
            let mut added = 0;
            for index in range {
                let key = keys.key(index);
                let old = table.insert(key, values.fill(key, index as u64));
                added += u64::from(old.map_err(refused)?.is_none());
            }
            Ok(added)
        })
    }

    fn footprint(&self, _: &Path) -> Result<Footprint, BenchError> {
        let table = table(&self.0)?;
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
        Ok(Some(table(&self.0)?.len().map_err(refused)?))
    }
}
