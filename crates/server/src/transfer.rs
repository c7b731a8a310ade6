//! Moving keys of all types between a store and elsewhere, without a server: for `everleaf import` and `export`.

mod chunks;
mod parts;

use std::fmt;

use everleaf::{Action, Expiry, KEY_SIZE_MAX, Store, VALUE_SIZE_MAX, WriteBatch, Written};

use crate::command::dump;
use crate::command::stage::{Stage, Staged};
use crate::command::walk::{Bounds, walk};
use crate::databases::{DATABASE_COUNT_MAX, Database, Databases, MapNumber};
use crate::failure::Failure;
use crate::rdb::{self, Damage};
use crate::types::Types;
use crate::wall_clock::now_ms;

pub use crate::rdb::{Rdb, RdbError, RdbRecord, Value};
pub use chunks::Extent;
pub use parts::Part;

/// Bytes that are staged at most: one item of a collection, or a string, may be as long as a value can be.
const STAGE_SIZE_MAX: usize = 2 * VALUE_SIZE_MAX;
/// Bytes of a batch. What is larger is one long value, which is written by itself: no other client is there that
/// could see the steps, and it would not fit into a batch with its key.
const BATCH_SIZE_MAX: usize = VALUE_SIZE_MAX / 2;
/// Bytes, and changes, that are written at once.
const WRITE_SIZE: usize = 8 << 20;
const WRITE_COUNT: u64 = 20_000;
/// Keys that are looked at at once.
const KEY_COUNT: usize = 512;

/// The keys of all databases of a store, of which nobody else writes.
pub struct Keyspace<'a> {
    store: &'a Store,
    types: Types,
    databases: Databases,
    stage: Stage,
}

/// A key as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// What it holds.
    pub value: Value,
    /// When it expires, in milliseconds since 1970-01-01 UTC.
    pub expiry_ms: Option<u64>,
}

/// Why a key could not be put, removed or looked at.
#[derive(Debug)]
pub enum TransferError {
    /// The store could not do it.
    Store(everleaf::Error),
    /// What is wrong with the key or with what it holds, in words.
    Text(String),
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransferError::Store(error) => error.fmt(f),
            TransferError::Text(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for TransferError {}

impl From<everleaf::Error> for TransferError {
    fn from(error: everleaf::Error) -> Self {
        TransferError::Store(error)
    }
}

impl From<Failure> for TransferError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Store(error) => TransferError::Store(error),
            other => TransferError::Text(text_of(&other)),
        }
    }
}

impl From<TransferError> for String {
    fn from(error: TransferError) -> Self {
        error.to_string()
    }
}

/// What the payload of `DUMP` holds.
///
/// # Errors
/// Why it cannot be read: in words.
pub fn value_of_payload(payload: &[u8]) -> Result<Value, String> {
    rdb::read(payload).map_err(|damage| match (payload.first(), damage) {
        (Some(kind), _) if rdb::unsupported_name(*kind).is_some() => {
            rdb::unsupported_name(*kind).unwrap_or_default().to_string()
        }
        (Some(kind), Damage::Footer) if !rdb::is_known(*kind) && rdb::is_newer(payload) => {
            "a value of a type that only newer servers have (such as a hash whose fields expire)"
                .to_string()
        }
        (_, Damage::Footer) => "a value of a newer format, or with a wrong check sum".to_string(),
        (_, Damage::TooLarge) => "a value of more than 512 MiB".to_string(),
        (_, Damage::Format) => "a value that cannot be read".to_string(),
    })
}

/// Whether a payload of `DUMP` holds more than can be read as one value.
pub fn is_too_large(payload: &[u8]) -> bool {
    payload.len() > rdb::SIZE_MAX || rdb::read(payload) == Err(Damage::TooLarge)
}

/// Whether a payload of `DUMP` is of a server whose format is newer than what can be read.
pub fn is_newer(payload: &[u8]) -> bool {
    rdb::is_newer(payload)
}

/// Whether a payload of `DUMP` holds what there is not here.
pub fn is_unsupported(payload: &[u8]) -> bool {
    payload.first().is_some_and(|kind| {
        rdb::unsupported_name(*kind).is_some() || !rdb::is_known(*kind) && rdb::is_newer(payload)
    })
}

impl<'a> Keyspace<'a> {
    /// All databases of a store, of which there may be as many as a server can have.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn new(store: &'a Store) -> everleaf::Result<Self> {
        let (types, databases) = (Types::default(), Databases::new(store, DATABASE_COUNT_MAX));
        types.open(store)?;
        databases.open(store)?;
        Ok(Keyspace { store, types, databases, stage: Stage::new(STAGE_SIZE_MAX) })
    }

    /// Puts a key in place of what was there; [`Self::flush`] must follow. What has expired is left away. Returns
    /// whether it was put.
    ///
    /// # Errors
    /// Why it cannot be put.
    pub fn put(&mut self, database: u64, key: &[u8], entry: &Entry) -> Result<bool, TransferError> {
        if entry.expiry_ms.is_some_and(|time| time <= now_ms()) {
            return Ok(false);
        }
        if entry.value.count() > 0 && entry.value.size() > WRITE_SIZE {
            return self.put_chunks(database, key, entry);
        }
        let place = self.begin(database, key)?;
        if self.stage.size() + entry.value.size() > WRITE_SIZE {
            self.flush()?;
        }
        if !matches!(entry.value, Value::String(_)) {
            self.types.begin(self.store)?;
        }
        let put = self.staged(place, |staged| {
            dump::put(staged, key, &entry.value)?;
            if let Some(time) = entry.expiry_ms {
                let expiry = Expiry::from_unix_ms(time);
                staged.update_with(key, &mut |_| Action::Expire(expiry))?;
            }
            Ok::<(), Failure>(())
        });
        put?;
        if self.stage.change_count() > WRITE_COUNT {
            self.flush()?;
        }
        Ok(true)
    }

    /// Where a key is to be put.
    fn begin(&self, database: u64, key: &[u8]) -> Result<MapNumber, TransferError> {
        let number = Database::try_from(database).ok().filter(|it| *it < DATABASE_COUNT_MAX);
        let database = number.ok_or_else(|| {
            TransferError::Text(format!("there are {DATABASE_COUNT_MAX} databases at most"))
        })?;
        if key.len() > KEY_SIZE_MAX {
            let text = format!("a key of {} bytes: {KEY_SIZE_MAX} is the most", key.len());
            return Err(TransferError::Text(text));
        }
        self.databases.begin(self.store, database)?;
        Ok(self.databases.place(database))
    }

    /// What was read is no condition of anything.
    fn forget_read(&mut self) {
        if self.stage.is_unchanged() {
            self.stage = Stage::new(STAGE_SIZE_MAX);
        }
    }

    /// Writes what was put.
    ///
    /// # Errors
    /// The store refuses it.
    pub fn flush(&mut self) -> Result<(), TransferError> {
        let mut stage = std::mem::replace(&mut self.stage, Stage::new(STAGE_SIZE_MAX));
        if stage.size() > BATCH_SIZE_MAX {
            return is_written(stage.write_each(self.store, &self.databases, &self.types));
        }
        let mut batch = WriteBatch::new();
        stage.fill(&mut batch, &self.databases, &self.types);
        is_written(self.store.write(&batch))
    }

    /// Removes a key; [`Self::flush`] must follow.
    ///
    /// # Errors
    /// The store cannot be read, or refuses it.
    pub fn remove(&mut self, database: u64, key: &[u8]) -> Result<(), TransferError> {
        let Some(place) = self.existing(database) else { return Ok(()) };
        let removed = self.staged(place, |staged| staged.remove(key));
        removed?;
        match self.stage.change_count() > WRITE_COUNT {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Some keys of a database, in order, those behind one of them; none if there are no more.
    ///
    /// # Errors
    /// The store cannot be read: in words.
    pub fn keys_after(&self, database: u64, behind: Option<&[u8]>) -> Result<Vec<Vec<u8>>, String> {
        let Some(place) = self.existing(database) else { return Ok(Vec::new()) };
        let mut bounds = Bounds::of_prefix(b"");
        if let Some(key) = behind {
            bounds.skip_to_after(key.to_vec());
        }
        let mut keys: Vec<Vec<u8>> = Vec::new();
        walk(self.databases.map(place), &bounds, false, |key, _| {
            keys.push(key.to_vec());
            match keys.len() == KEY_COUNT {
                true => std::ops::ControlFlow::Break(()),
                false => std::ops::ControlFlow::Continue(()),
            }
        })
        .map_err(|error| error.to_string())?;
        Ok(keys)
    }

    fn existing(&self, database: u64) -> Option<MapNumber> {
        let found = self.databases.numbers().find(|it| *it as u64 == database);
        found.map(|database| self.databases.place(database))
    }

    /// Whether a key is there, whatever it holds.
    ///
    /// # Errors
    /// The store cannot be read, or refuses what was put.
    pub fn contains(&mut self, database: u64, key: &[u8]) -> Result<bool, TransferError> {
        let Some(place) = self.existing(database) else { return Ok(false) };
        // Each key that is not there is noted, too: many of them are not kept beside a few that were put.
        if self.stage.size() > WRITE_SIZE {
            self.flush()?;
        }
        let found = self.staged(place, |staged| staged.contains(key));
        self.forget_read();
        Ok(found?)
    }

    /// The databases that are there, each with the number of its keys.
    pub fn sizes(&self) -> Vec<(u64, u64)> {
        let all = self.databases.numbers();
        all.map(|database| (database as u64, self.databases.map_of(database).len())).collect()
    }

    fn staged<R>(&mut self, place: MapNumber, act: impl FnOnce(&mut Staged<'_>) -> R) -> R {
        let mut store = self.store;
        act(&mut Staged {
            stage: &mut self.stage,
            source: &mut store,
            types: &self.types,
            databases: &self.databases,
            place,
        })
    }
}

/// What is said if what was put was not written.
fn is_written(written: everleaf::Result<Written>) -> Result<(), TransferError> {
    match written? {
        Written::All => Ok(()),
        Written::Refused(_) => {
            let text = "a key was changed meanwhile: nobody else may write";
            Err(TransferError::Text(text.to_string()))
        }
    }
}

fn text_of(failure: &Failure) -> String {
    match failure {
        Failure::Store(error) => error.to_string(),
        Failure::Text(text) => text.to_string(),
        Failure::WrongType => "it holds another type".to_string(),
        other => format!("{other:?}"),
    }
}
