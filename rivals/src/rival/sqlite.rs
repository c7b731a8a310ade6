//! SQLite: a table without row numbers, its statements prepared once a thread.

use std::path::{Path, PathBuf};
use std::time::Duration;

use everleaf_bench::measure::Settings;
use everleaf_bench::target::{BytesKeys, KeyList, Target, Values, Worker};
use everleaf_bench::{Footprint, BenchError};
use rusqlite::{CachedStatement, Connection, OptionalExtension};

use super::{FILL_COUNT, Rival, enter_in_folders, footprint_of_files, refused};

/// What is known of it.
pub const RIVAL: Rival = Rival {
    name: "sqlite",
    what: "SQLite by rusqlite 0.41",
    durability: "WAL, synchronous = OFF: survives kill -9; a transaction for each operation, a \
                 connection for each thread",
    is_durable: true,
    is_integers_only: false,
    enter: |name, settings, parent| enter_in_folders(name, settings, parent, Sqlite::open),
};

/// How long a writer waits for the others before it gives up.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pages that a connection keeps in memory, in KiB (negative, as SQLite wants it): 256 MiB.
const CACHE_KIB: i64 = -(256 << 10);

struct Sqlite {
    folder: PathBuf,
    key_size: usize,
    value_size: usize,
}

impl Sqlite {
    fn open(folder: &Path, settings: &Settings) -> Result<Self, BenchError> {
        let Settings { key_size, value_size, .. } = *settings;
        let sqlite = Sqlite { folder: folder.to_path_buf(), key_size, value_size };
        let table = "CREATE TABLE pairs (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID";
        sqlite.connect()?.execute(table, []).map_err(refused)?;
        Ok(sqlite)
    }

    fn connect(&self) -> Result<Connection, BenchError> {
        let connection = Connection::open(self.folder.join("pairs.sqlite")).map_err(refused)?;
        connection.busy_timeout(PATIENCE).map_err(refused)?;
        connection.pragma_update(None, "journal_mode", "WAL").map_err(refused)?;
        connection.pragma_update(None, "synchronous", "OFF").map_err(refused)?;
        connection.pragma_update(None, "cache_size", CACHE_KIB).map_err(refused)?;
        Ok(connection)
    }

    fn count_keys(&self) -> Result<u64, BenchError> {
        let count: i64 = self
            .connect()?
            .query_row("SELECT count(*) FROM pairs", [], |row| row.get(0))
            .map_err(refused)?;
        Ok(count as u64)
    }
}

impl Target for Sqlite {
    type Keys = BytesKeys;
    type Worker<'t> = SqliteWorker;

    fn new_keys(&self, capacity: usize) -> BytesKeys {
        BytesKeys::new(self.key_size, capacity)
    }

    fn worker(&self) -> Result<SqliteWorker, BenchError> {
        Ok(SqliteWorker { connection: self.connect()?, values: Values::new(self.value_size) })
    }

    fn domain(&self) -> String {
        RIVAL.durability.to_owned()
    }

    fn footprint(&self) -> Result<Footprint, BenchError> {
        footprint_of_files(self.count_keys()?, &self.folder)
    }

    fn count(&self) -> Result<Option<u64>, BenchError> {
        Ok(None)
    }
}

struct SqliteWorker {
    connection: Connection,
    values: Values,
}

/// A statement that the connection keeps prepared.
fn prepare<'c>(connection: &'c Connection, text: &str) -> Result<CachedStatement<'c>, BenchError> {
    connection.prepare_cached(text).map_err(refused)
}

impl SqliteWorker {
    /// Runs a statement on a pair. Returns whether it changed a row.
    fn write(&mut self, text: &str, key: &[u8], version: u64) -> Result<bool, BenchError> {
        let value = self.values.fill(key, version);
        let changed = prepare(&self.connection, text)?.execute((key, value)).map_err(refused)?;
        Ok(changed > 0)
    }
}

impl Worker for SqliteWorker {
    type Keys = BytesKeys;

    fn get(&mut self, key: &[u8]) -> Result<bool, BenchError> {
        let values = &self.values;
        let mut statement = prepare(&self.connection, "SELECT v FROM pairs WHERE k = ?1")?;
        let is_right = statement
            .query_row([key], |row| Ok(values.is_right(key, row.get_ref(0)?.as_blob()?)))
            .optional()
            .map_err(refused)?;
        is_right.map_or(Ok(false), |is_right| Values::verdict(is_right, key, true))
    }

    fn insert(&mut self, key: &[u8], version: u64) -> Result<bool, BenchError> {
        self.write("INSERT OR IGNORE INTO pairs (k, v) VALUES (?1, ?2)", key, version)
    }

    fn update(&mut self, key: &[u8], version: u64) -> Result<bool, BenchError> {
        self.write("UPDATE pairs SET v = ?2 WHERE k = ?1", key, version)
    }

    fn put(&mut self, key: &[u8], version: u64) -> Result<(), BenchError> {
        self.write("INSERT OR REPLACE INTO pairs (k, v) VALUES (?1, ?2)", key, version)?;
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, BenchError> {
        let mut statement = prepare(&self.connection, "DELETE FROM pairs WHERE k = ?1")?;
        Ok(statement.execute([key]).map_err(refused)? > 0)
    }

    fn scan(&mut self, from: &[u8], length: u32) -> Result<u64, BenchError> {
        let text = "SELECT k, v FROM pairs WHERE k >= ?1 ORDER BY k LIMIT ?2";
        let mut statement = prepare(&self.connection, text)?;
        let mut rows = statement.query((from, length)).map_err(refused)?;
        let (mut count, mut is_right) = (0, true);
        while let Some(row) = rows.next().map_err(refused)? {
            let key = row.get_ref(0).map_err(refused)?.as_blob().map_err(refused)?;
            let value = row.get_ref(1).map_err(refused)?.as_blob().map_err(refused)?;
            is_right &= key >= from && self.values.is_right(key, value);
            count += 1;
        }
        Values::verdict(is_right, from, count)
    }

    fn fill(&mut self, keys: &BytesKeys, count: usize) -> Result<u64, BenchError> {
        let mut added = 0;
        for start in (0..count).step_by(FILL_COUNT) {
            self.connection.execute_batch("BEGIN IMMEDIATE").map_err(refused)?;
            for index in start..count.min(start + FILL_COUNT) {
                added += u64::from(self.insert(keys.key(index), index as u64)?);
            }
            self.connection.execute_batch("COMMIT").map_err(refused)?;
        }
        Ok(added)
    }

    fn set_value_size(&mut self, size: usize) {
        self.values.set_size(size);
    }
}
