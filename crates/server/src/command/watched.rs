//! The keys that connections watch (`WATCH`).
//!
//! A watch is one of the store ([`everleaf::Map::watch`]), of a map. `SWAPDB` makes a database another map: then
//! connections that watch a key that either of them has find it written, and the others watch the new map. For that the
//! server knows all that watch; only `SWAPDB`, while nobody else runs a command, looks at what is not its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use everleaf::ranked::{Rank, RankedGuard, RankedMutex};
use everleaf::{Watch, WriteBatch};

use crate::databases::{Database, Databases};
use crate::failure::{CommandResult, Failure};

/// Bytes that the watched keys of a connection may take.
const WATCHED_SIZE_MAX: usize = 16 << 20;
/// Bytes that a watched key takes besides itself, which it does three times.
const WATCHED_OVERHEAD: usize = 300;
/// Those that are gone are forgotten when there are twice as many as were left, and at least so many.
const FORGET_COUNT_MIN: usize = 64;

/// Watched keys of one connection.
#[derive(Debug, Default)]
pub struct Watched {
    keys: BTreeMap<(Database, Vec<u8>), Watch>,
    size: usize,
    /// One of them counts as written.
    is_touched: bool,
}

impl Watched {
    /// What counts as written, of no key.
    #[cfg(test)]
    pub fn touched() -> Self {
        Watched { is_touched: true, ..Watched::default() }
    }

    /// Watches keys, all or none of them; those that are watched already go on as they are.
    pub fn add<'k>(
        &mut self,
        databases: &Databases,
        database: Database,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> CommandResult {
        let (mut new, mut size) = (BTreeMap::new(), self.size);
        for key in keys {
            let place = (database, key.to_vec());
            if self.keys.contains_key(&place) || new.contains_key(&place) {
                continue;
            }
            size += 3 * key.len() + WATCHED_OVERHEAD;
            if size > WATCHED_SIZE_MAX {
                return Err(Failure::text(format!(
                    "ERR watched keys may take {WATCHED_SIZE_MAX} bytes per connection: none of these \
                     was added; use EXEC, DISCARD or UNWATCH, or watch fewer keys"
                )));
            }
            new.insert(place, databases.map_of(database).watch(key)?);
        }
        self.size = size;
        self.keys.append(&mut new);
        Ok(())
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Bytes that they take.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Whether one of them was written.
    pub fn is_broken(&self) -> bool {
        self.is_touched || self.keys.values().any(Watch::is_broken)
    }

    /// Makes a batch, which is empty, depend on the keys.
    pub fn expect(&self, batch: &mut WriteBatch) {
        for watch in self.keys.values() {
            batch.expect_unwritten(watch);
        }
    }

    /// Watches where databases lie now that were exchanged among each other.
    fn follow(&mut self, databases: &Databases, exchanged: &BTreeSet<Database>) {
        for ((database, key), watch) in &mut self.keys {
            if !exchanged.contains(database) || self.is_touched {
                continue;
            }
            let mut all = exchanged.iter().map(|it| databases.map_of(*it).contains(key));
            // What cannot be read may have been written.
            self.is_touched = watch.is_broken() || !all.all(|found| matches!(found, Ok(false)));
            match databases.map_of(*database).watch(key) {
                Ok(new) => *watch = new,
                Err(_) => self.is_touched = true,
            }
        }
    }
}

/// What a connection watches, as the server knows it, too.
pub type SharedWatched = Arc<RankedMutex<Watched>>;

/// Locks what a connection watches. A panic elsewhere cannot have left it half changed.
pub fn lock(watched: &RankedMutex<Watched>) -> RankedGuard<'_, Watched> {
    watched.lock()
}

/// All connections that watch keys. Thread-safe; its lock comes before those of what they watch.
#[derive(Debug)]
pub struct Watching {
    list: RankedMutex<List>,
}

impl Default for Watching {
    fn default() -> Self {
        Watching { list: RankedMutex::new(Rank::WatchingList, List::default()) }
    }
}

#[derive(Debug, Default)]
struct List {
    all: Vec<Weak<RankedMutex<Watched>>>,
    /// How many were there when those that are gone were forgotten.
    count: usize,
}

impl Watching {
    /// What a connection will watch.
    pub fn begin(&self) -> SharedWatched {
        let watched = Arc::new(RankedMutex::new(Rank::Watched, Watched::default()));
        let mut list = self.lock();
        if list.all.len() >= FORGET_COUNT_MIN.max(2 * list.count) {
            list.all.retain(|it| it.strong_count() > 0);
            list.count = list.all.len();
        }
        list.all.push(Arc::downgrade(&watched));
        watched
    }

    /// Lets all connections watch where databases lie now that were exchanged. The caller is alone (`exclusion.rs`).
    pub fn follow(&self, databases: &Databases, exchanged: &BTreeSet<Database>) {
        for watched in self.lock().all.iter().filter_map(Weak::upgrade) {
            lock(&watched).follow(databases, exchanged);
        }
    }

    fn lock(&self) -> RankedGuard<'_, List> {
        self.list.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_is_gone_is_forgotten() {
        let watching = Watching::default();
        let kept: Vec<_> = (0..10).map(|_| watching.begin()).collect();
        (0..10_000).for_each(|_| drop(watching.begin()));
        let all = watching.lock().all.len();
        assert!(all <= FORGET_COUNT_MIN, "{all}");
        let alive = watching.lock().all.iter().filter(|it| it.strong_count() > 0).count();
        assert_eq!(alive, kept.len());
    }
}
