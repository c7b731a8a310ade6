//! The stores that are written to, and how.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use everleaf::{Durability, Options, Store};
use fjall::KeyspaceCreateOptions;
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, EnvFlags, EnvOpenOptions};
use redb::TableDefinition;

use crate::{Load, TimeResult};

/// Whatever goes wrong.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A store that is written to.
pub struct Contender {
    /// The name in the table.
    pub name: &'static str,
    /// What a write that returned survives.
    pub promise: &'static str,
    /// Writes all of it into a new store in this folder.
    pub run: fn(&Path, &Load) -> TimeResult,
}

/// How often `Interval` syncs, as it does unless told otherwise.
const INTERVAL: Duration = Duration::from_secs(1);
/// Bytes that LMDB may map: more than any run needs.
const MAP_SIZE: usize = 64 << 30;
const PAIRS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("pairs");

/// Batches that survive the end of the process. The first is ours, here and below.
pub fn batches() -> Vec<Contender> {
    vec![
        Contender { name: "everleaf", promise: "survives kill -9", run: everleaf_batches },
        Contender {
            name: "lmdb",
            promise: "NOSYNC + WRITEMAP: survives kill -9; a transaction for each batch",
            run: lmdb,
        },
        Contender {
            name: "redb",
            promise: "Durability::None: kill -9 loses what came after the last sync",
            run: redb,
        },
        Contender { name: "fjall", promise: "journal unsynced: survives kill -9", run: fjall },
        #[cfg(feature = "rocksdb")]
        Contender {
            name: "rocksdb",
            promise: "log unsynced: survives kill -9",
            run: rocksdb_batches,
        },
    ]
}

/// Single puts with a log that is not synced before they return.
pub fn interval() -> Vec<Contender> {
    vec![
        Contender {
            name: "everleaf interval",
            promise: "survives kill -9; a crash of the machine loses a second",
            run: |folder, load| everleaf_puts(folder, load, Durability::Interval(INTERVAL)),
        },
        Contender {
            name: "everleaf process",
            promise: "survives kill -9",
            run: |folder, load| everleaf_puts(folder, load, Durability::Process),
        },
        #[cfg(feature = "rocksdb")]
        Contender {
            name: "rocksdb",
            promise: "log unsynced: survives kill -9",
            run: |folder, load| rocksdb_puts(folder, load, false),
        },
    ]
}

/// Single puts that are on the disk when they return.
pub fn sync() -> Vec<Contender> {
    let promise = "on the disk when it returns";
    vec![
        Contender {
            name: "everleaf power",
            promise,
            run: |folder, load| everleaf_puts(folder, load, Durability::Power),
        },
        #[cfg(feature = "rocksdb")]
        Contender {
            name: "rocksdb sync",
            promise,
            run: |folder, load| rocksdb_puts(folder, load, true),
        },
        Contender { name: "sqlite WAL FULL", promise, run: sqlite },
    ]
}

fn everleaf(folder: &Path, durability: Durability) -> Result<Store, Failure> {
    Ok(Options::new().create(true).durability(durability).open(folder.join("pool"))?)
}

fn everleaf_batches(folder: &Path, load: &Load) -> TimeResult {
    let store = everleaf(folder, Durability::Process)?;
    load.run_batches(|keys| {
        let mut batch = everleaf::WriteBatch::new();
        for key in keys {
            batch.put(store.default_map(), key, &load.value);
        }
        store.write(&batch)?;
        Ok(())
    })
}

fn everleaf_puts(folder: &Path, load: &Load, durability: Durability) -> TimeResult {
    let store = everleaf(folder, durability)?;
    load.run(|keys| {
        for key in keys {
            store.default_map().put(key, &load.value)?;
        }
        Ok(())
    })
}

fn lmdb(folder: &Path, load: &Load) -> TimeResult {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_SIZE);
    // SAFETY: nobody else writes to the map or the file: the folder is new and ours, and this
    // process opens it once. What a crash of the system would leave is not read again.
    unsafe { options.flags(EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP) };
    // SAFETY: the folder is ours, and this process opens it once; the flags are not among those that need more.
    let env = unsafe { options.open(folder) }?;
    let made = env.create_databases_and_commit(env.write_txn()?, |databases, transaction| {
        databases.create_database(transaction, None).map(CommitOrAbort::<_, ()>::Commit)
    })?;
    let pairs: Database<'_, Bytes, Bytes> = made.unwrap_commit();
    load.run_batches(|keys| {
        let mut transaction = env.write_txn()?;
        for key in keys {
            pairs.put(&mut transaction, key, &load.value)?;
        }
        transaction.commit()?;
        Ok(())
    })
}

fn redb(folder: &Path, load: &Load) -> TimeResult {
    let database = redb::Database::create(folder.join("pairs.redb"))?;
    load.run_batches(|keys| {
        let mut transaction = database.begin_write()?;
        transaction.set_durability(redb::Durability::None)?;
        {
            let mut table = transaction.open_table(PAIRS)?;
            for key in keys {
                table.insert(key, &load.value[..])?;
            }
        }
        transaction.commit()?;
        Ok(())
    })
}

fn fjall(folder: &Path, load: &Load) -> TimeResult {
    let database = fjall::Database::builder(folder).open()?;
    let pairs = database.keyspace("pairs", KeyspaceCreateOptions::default)?;
    load.run_batches(|keys| {
        let mut batch = database.batch();
        for key in keys {
            batch.insert(&pairs, key, &load.value[..]);
        }
        batch.commit()?;
        Ok(())
    })
}

fn sqlite(folder: &Path, load: &Load) -> TimeResult {
    let connection = rusqlite::Connection::open(folder.join("pairs.sqlite"))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    let table = "CREATE TABLE pairs (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID";
    connection.execute(table, [])?;
    // One connection for all: they would only wait for each other in turns of milliseconds.
    let connection = Mutex::new(connection);
    load.run(|keys| {
        for key in keys {
            let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            let insert = "INSERT OR REPLACE INTO pairs (k, v) VALUES (?1, ?2)";
            connection.prepare_cached(insert)?.execute((key, &load.value[..]))?;
        }
        Ok(())
    })
}

#[cfg(feature = "rocksdb")]
fn rocksdb_puts(folder: &Path, load: &Load, is_synced: bool) -> TimeResult {
    let pairs = rocksdb::DB::open_default(folder.join("pairs"))?;
    load.run(|keys| {
        let mut options = rocksdb::WriteOptions::default();
        options.set_sync(is_synced);
        for key in keys {
            pairs.put_opt(key, &load.value, &options)?;
        }
        Ok(())
    })
}

#[cfg(feature = "rocksdb")]
fn rocksdb_batches(folder: &Path, load: &Load) -> TimeResult {
    let pairs = rocksdb::DB::open_default(folder.join("pairs"))?;
    load.run_batches(|keys| {
        let mut batch = rocksdb::WriteBatch::default();
        for key in keys {
            batch.put(key, &load.value);
        }
        Ok(pairs.write(batch)?)
    })
}
