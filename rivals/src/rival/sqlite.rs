//! SQLite: a table without row numbers, its statements prepared once a thread.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use everleaf_bench::measure::Settings;
use everleaf_bench::target::{BytesKeys, KeyList, Values};
use everleaf_bench::{BenchError, Footprint};
use rusqlite::{CachedStatement, Connection, OptionalExtension};

use super::common::{Rival, footprint_of_files, refused};
use super::engine::{Engine, enter};

/// How long a writer waits for the others before it gives up.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pages that a connection keeps in memory, in KiB (negative, as SQLite wants it): 256 MiB.
const CACHE_KIB: i64 = -(256 << 10);

/// The store, of which every thread has a connection.
pub struct Sqlite {
    path: PathBuf,
}

/// A statement that the connection keeps prepared.
fn prepare<'c>(connection: &'c Connection, text: &str) -> Result<CachedStatement<'c>, BenchError> {
    connection.prepare_cached(text).map_err(refused)
}

/// Runs a statement on a pair. Returns whether it changed a row.
fn write(
    connection: &Connection,
    text: &str,
    key: &[u8],
    value: &[u8],
) -> Result<bool, BenchError> {
    Ok(prepare(connection, text)?.execute((key, value)).map_err(refused)? > 0)
}

impl Engine for Sqlite {
    const RIVAL: Rival = Rival {
        name: "sqlite",
        what: "SQLite by rusqlite 0.41",
        durability: "WAL, synchronous = OFF: survives kill -9; a transaction for each operation, a \
                     connection for each thread",
        is_durable: true,
        is_integers_only: false,
        enter: enter::<Self>,
    };

    type Handle<'e> = Connection;

    fn open(folder: &Path, _: &Settings) -> Result<Self, BenchError> {
        let sqlite = Sqlite { path: folder.join("pairs.sqlite") };
        let table = "CREATE TABLE pairs (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID";
        sqlite.handle()?.execute(table, []).map_err(refused)?;
        Ok(sqlite)
    }

    fn handle(&self) -> Result<Connection, BenchError> {
        let connection = Connection::open(&self.path).map_err(refused)?;
        connection.busy_timeout(PATIENCE).map_err(refused)?;
        connection.pragma_update(None, "journal_mode", "WAL").map_err(refused)?;
        connection.pragma_update(None, "synchronous", "OFF").map_err(refused)?;
        connection.pragma_update(None, "cache_size", CACHE_KIB).map_err(refused)?;
        Ok(connection)
    }

    fn get(
        connection: &mut Connection,
        key: &[u8],
        check: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Option<bool>, BenchError> {
        let mut statement = prepare(connection, "SELECT v FROM pairs WHERE k = ?1")?;
        statement
            .query_row([key], |row| Ok(check(row.get_ref(0)?.as_blob()?)))
            .optional()
            .map_err(refused)
    }

    fn set(
        connection: &mut Connection,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<bool>, BenchError> {
        write(connection, "INSERT OR REPLACE INTO pairs (k, v) VALUES (?1, ?2)", key, value)?;
        Ok(None)
    }

    fn insert(
        connection: &mut Connection,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<bool>, BenchError> {
        let text = "INSERT OR IGNORE INTO pairs (k, v) VALUES (?1, ?2)";
        write(connection, text, key, value).map(|added| Some(!added))
    }

    fn update(
        connection: &mut Connection,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<bool>, BenchError> {
        write(connection, "UPDATE pairs SET v = ?2 WHERE k = ?1", key, value).map(Some)
    }

    fn remove(connection: &mut Connection, key: &[u8]) -> Result<Option<bool>, BenchError> {
        let mut statement = prepare(connection, "DELETE FROM pairs WHERE k = ?1")?;
        Ok(Some(statement.execute([key]).map_err(refused)? > 0))
    }

    fn scan(
        connection: &mut Connection,
        from: &[u8],
        limit: usize,
        mut visit: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), BenchError> {
        let text = "SELECT k, v FROM pairs WHERE k >= ?1 ORDER BY k LIMIT ?2";
        let mut statement = prepare(connection, text)?;
        let mut rows = statement.query((from, limit as i64)).map_err(refused)?;
        while let Some(row) = rows.next().map_err(refused)? {
            let key = row.get_ref(0).map_err(refused)?.as_blob().map_err(refused)?;
            let value = row.get_ref(1).map_err(refused)?.as_blob().map_err(refused)?;
            visit(key, value);
        }
        Ok(())
    }

    fn fill(
        connection: &mut Connection,
        keys: &BytesKeys,
        range: Range<usize>,
        values: &mut Values,
    ) -> Result<u64, BenchError> {
        connection.execute_batch("BEGIN IMMEDIATE").map_err(refused)?;
        let mut added = 0;
        for index in range {
            let key = keys.key(index);
            let was_there = Self::insert(connection, key, values.fill(key, index as u64))?;
            added += u64::from(was_there == Some(false));
        }
        connection.execute_batch("COMMIT").map_err(refused)?;
        Ok(added)
    }

    fn footprint(&self, folder: &Path) -> Result<Footprint, BenchError> {
        let count: i64 = self
            .handle()?
            .query_row("SELECT count(*) FROM pairs", [], |row| row.get(0))
            .map_err(refused)?;
        footprint_of_files(count as u64, folder)
    }
}
