//! The databases of a server (`SELECT`): a map of the store each.
//!
//! Database 0 is the default map, so that a pool that never had another is what it always was, and costs nothing
//! more. Each other one is a map of its own, made when it is first selected, or named by `MOVE`, `COPY` or `SWAPDB`;
//! until then nobody is in it. The members of all collections lie in one map, under numbers of which each is used once,
//! so a collection moves between databases with its header (`types`).
//!
//! `SWAPDB` exchanges no keys, but which maps two databases are. So a database, as clients number it, has a
//! [`MapNumber`]: the map in which its keys lie. Whatever is kept of keys (notes, watches, clients that wait) is kept
//! by that number. The numbers are kept in a map of their own, written in one batch with what else the transaction
//! does; the pool has that map once databases were exchanged. They change only while no event loop runs a command
//! (`exclusion.rs`).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use everleaf::{DEFAULT_MAP, Error, Map, Result, Statistics, Store, WriteBatch};

/// The number of a database, as clients say it.
pub type Database = usize;

/// A map that holds the keys of a database; as long as none were exchanged, that of the same number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MapNumber(pub usize);

/// The most databases that a server may have.
pub const DATABASE_COUNT_MAX: usize = 1024;
/// What the names of their maps begin with; the number follows.
const NAME_PREFIX: &str = "server.db";
/// The map that says where databases lie, and its one key: two bytes for each database from number 0 on, as far as they
/// differ from its number.
const PLACES_MAP: &str = "server.databases";
const PLACES_KEY: &[u8] = b"places";

/// The databases of a store. Thread-safe.
pub struct Databases {
    /// Those that are there, by place; number 0 always is.
    maps: Box<[OnceLock<Map>]>,
    /// Where the keys of each database lie.
    places: Box<[AtomicUsize]>,
    /// Those that can be selected.
    count: usize,
    /// Where the places are kept.
    kept: OnceLock<Map>,
}

impl Databases {
    /// So many databases, of which none but number 0 is there yet.
    pub fn new(store: &Store, count: usize) -> Self {
        let maps: Box<[OnceLock<Map>]> = (0..DATABASE_COUNT_MAX).map(|_| OnceLock::new()).collect();
        maps[0].get_or_init(|| store.default_map().clone());
        let places = (0..DATABASE_COUNT_MAX).map(AtomicUsize::new).collect();
        Databases { maps, places, count: count.clamp(1, DATABASE_COUNT_MAX), kept: OnceLock::new() }
    }

    /// All databases that a store has, for a caller that only looks.
    pub fn of_store(store: &Store) -> Result<Self> {
        let databases = Self::new(store, DATABASE_COUNT_MAX);
        databases.open(store)?;
        Ok(databases)
    }

    /// Finds the databases that are there, also those that cannot be selected: what is left of their collections is
    /// freed.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if one with keys has a number that is too high: nobody could reach them.
    pub fn open(&self, store: &Store) -> Result<()> {
        if let Some(kept) = store.existing_map(PLACES_MAP)? {
            if let Some(bytes) = kept.get(PLACES_KEY)? {
                self.set_places(&bytes)?;
            }
            self.kept.get_or_init(|| kept);
        }
        for (place, map) in maps_of(store)? {
            drop(self.maps[place.0].set(map));
        }
        let beyond = (self.count..DATABASE_COUNT_MAX).rev().find(|database| {
            let map = self.maps[self.place(*database).0].get();
            map.is_some_and(|map| !map.is_empty())
        });
        match beyond {
            None => Ok(()),
            Some(number) => Err(Error::Unsupported(format!(
                "the pool has keys in database {number}: raise --databases to {} at least",
                number + 1
            ))),
        }
    }

    /// Takes the places as they are kept: those of all databases, each once.
    fn set_places(&self, bytes: &[u8]) -> Result<()> {
        let word =
            |pair: &[u8]| pair.iter().rev().fold(0, |all, byte| all << 8 | usize::from(*byte));
        let places: Vec<usize> = bytes.chunks(2).map(word).collect();
        let mut sorted = places.clone();
        sorted.sort_unstable();
        let are_fit = bytes.len() == 2 * places.len()
            && places.len() <= DATABASE_COUNT_MAX
            && sorted.into_iter().eq(0..places.len());
        if !are_fit {
            return Err(Error::Unsupported(format!(
                "the map {PLACES_MAP} does not say where each database lies, as SWAPDB left it"
            )));
        }
        for (place, value) in self.places.iter().zip(places) {
            // Relaxed: nothing is served yet.
            place.store(value, Ordering::Relaxed);
        }
        Ok(())
    }

    /// How many there may be.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Where the keys of a database lie.
    #[inline]
    pub fn place(&self, database: Database) -> MapNumber {
        // Relaxed: the thread that changes it is alone, and one that asks has entered (`exclusion.rs`).
        MapNumber(self.places[database].load(Ordering::Relaxed))
    }

    /// The database whose keys lie there.
    pub fn number_of(&self, place: MapNumber) -> Database {
        let found = (0..DATABASE_COUNT_MAX).find(|database| self.place(*database) == place);
        found.unwrap_or(place.0)
    }

    /// Makes a database, unless it is there. Must not be called within an operation of the store.
    pub fn begin(&self, store: &Store, database: Database) -> Result<()> {
        if database >= DATABASE_COUNT_MAX {
            return Ok(());
        }
        let place = self.place(database);
        if self.maps[place.0].get().is_none() {
            let map = store.map(&name_of(place))?;
            self.maps[place.0].get_or_init(|| map);
        }
        Ok(())
    }

    /// Makes what it takes to exchange databases. Must not be called within an operation of the store.
    pub fn begin_swaps(&self, store: &Store) -> Result<()> {
        if self.kept.get().is_none() {
            let map = store.map(PLACES_MAP)?;
            self.kept.get_or_init(|| map);
        }
        Ok(())
    }

    /// The map of a place that is there: nobody selects a database before.
    #[inline]
    pub fn map(&self, place: MapNumber) -> &Map {
        self.maps[place.0].get().expect("a database is made before it is selected")
    }

    /// The map of a database that is there.
    #[inline]
    pub fn map_of(&self, database: Database) -> &Map {
        self.map(self.place(database))
    }

    /// The places that are there.
    pub fn existing(&self) -> impl Iterator<Item = MapNumber> {
        (0..DATABASE_COUNT_MAX).filter(|place| self.maps[*place].get().is_some()).map(MapNumber)
    }

    /// The databases that are there, by their numbers.
    pub fn numbers(&self) -> impl Iterator<Item = Database> {
        (0..DATABASE_COUNT_MAX)
            .filter(|database| self.maps[self.place(*database).0].get().is_some())
    }

    /// Where all databases lie, those that cannot be selected included.
    pub fn places(&self) -> Vec<MapNumber> {
        (0..DATABASE_COUNT_MAX).map(|database| self.place(database)).collect()
    }

    /// Adds to a batch where databases lie from then on; [`Self::begin_swaps`] came before.
    pub fn keep(&self, places: &[MapNumber], batch: &mut WriteBatch) {
        let Some(kept) = self.kept.get() else { return };
        let moved = places.iter().enumerate().rposition(|(database, place)| database != place.0);
        let told = &places[..moved.map_or(0, |last| last + 1)];
        let bytes: Vec<u8> = told.iter().flat_map(|it| (it.0 as u16).to_le_bytes()).collect();
        batch.put(kept, PLACES_KEY, bytes);
    }

    /// Lets databases lie where a batch that is written says. The caller is alone (`exclusion.rs`).
    pub fn exchange(&self, places: &[MapNumber]) {
        for (old, new) in self.places.iter().zip(places) {
            // Relaxed: see `place`.
            old.store(new.0, Ordering::Relaxed);
        }
    }

    /// Removes all keys of all databases: one step for others. A caller that is not alone (`exclusion.rs`) has found
    /// one database, that of place 0, and any other was made since: it comes later.
    pub fn clear_all(&self, is_alone: bool) -> Result<()> {
        let count = if is_alone { DATABASE_COUNT_MAX } else { 1 };
        self.existing().take(count).try_for_each(|place| self.map(place).clear_at_once())
    }

    /// The databases that have keys and can be selected, with the figures of their maps.
    pub fn figures<'s>(
        &self,
        statistics: &'s Statistics,
    ) -> impl Iterator<Item = (Database, &'s everleaf::MapStatistics)> {
        let of =
            |database| Some((database, statistics.by_map.get(&name_of(self.place(database)))?));
        (0..self.count()).filter_map(of).filter(|(_, map)| map.keys > 0)
    }
}

/// The maps of all places that a store has, wherever databases lie.
///
/// # Errors
/// The store cannot be read.
pub fn maps_of(store: &Store) -> Result<Vec<(MapNumber, Map)>> {
    let mut maps = vec![(MapNumber(0), store.default_map().clone())];
    for name in store.map_names() {
        let Some(place) = place_of_name(&name) else { continue };
        maps.extend(store.existing_map(&name)?.map(|map| (place, map)));
    }
    Ok(maps)
}

/// The name of the map of a place.
fn name_of(place: MapNumber) -> String {
    match place.0 {
        0 => DEFAULT_MAP.to_string(),
        number => format!("{NAME_PREFIX}{number}"),
    }
}

/// The place whose map has this name, if it is one other than the default map.
fn place_of_name(name: &str) -> Option<MapNumber> {
    let number: usize = name.strip_prefix(NAME_PREFIX)?.parse().ok()?;
    let is_one = (1..DATABASE_COUNT_MAX).contains(&number) && name_of(MapNumber(number)) == name;
    is_one.then_some(MapNumber(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number() {
        for number in [1, 15, 1023] {
            assert_eq!(place_of_name(&name_of(MapNumber(number))), Some(MapNumber(number)));
        }
        for name in ["default", "server.db0", "server.db01", "server.db+1", "server.db1024"] {
            assert_eq!(place_of_name(name), None, "{name}");
        }
    }

    #[test]
    fn a_database_is_made_when_it_is_first_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p");
        let open = || everleaf::Options::new().create(true).open(&path).unwrap();
        let store = open();
        let databases = Databases::new(&store, 4);
        databases.open(&store).unwrap();
        assert_eq!(databases.existing().collect::<Vec<_>>(), [MapNumber(0)]);
        databases.begin(&store, 3).unwrap();
        databases.begin(&store, DATABASE_COUNT_MAX).unwrap();
        databases.map_of(3).put("k", "v").unwrap();
        databases.begin(&store, 2).unwrap();
        databases.map_of(2).put("k", "v").unwrap();
        drop((databases, store));
        let store = open();
        let all = Databases::of_store(&store).unwrap();
        assert_eq!(all.numbers().collect::<Vec<_>>(), [0, 2, 3]);
        assert_eq!(all.map_of(3).len(), 1);
        // Of all that are missing it tells the last.
        let few = Databases::new(&store, 2).open(&store).unwrap_err();
        assert!(few.to_string().contains("--databases to 4"), "{few}");
        // As if the others had been made since: a key could be moved between them.
        all.clear_all(false).unwrap();
        assert_eq!((all.map_of(2).len(), all.map_of(3).len()), (1, 1));
        all.clear_all(true).unwrap();
        assert_eq!((all.map_of(2).len(), all.map_of(3).len()), (0, 0));
        Databases::new(&store, 3).open(&store).unwrap();
    }

    /// They stay so when the pool is opened again, perhaps with fewer databases.
    #[test]
    fn exchanged_databases_keep_their_places() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p");
        let open = || everleaf::Options::new().create(true).open(&path).unwrap();
        let store = open();
        let databases = Databases::of_store(&store).unwrap();
        for database in [0, 2, 30] {
            databases.begin(&store, database).unwrap();
            databases.map_of(database).put("k", database.to_string()).unwrap();
        }
        databases.begin_swaps(&store).unwrap();
        let mut places = databases.places();
        for (a, b) in [(0, 30), (30, 2), (5, 5), (2, 0)] {
            places.swap(a, b);
        }
        let mut batch = WriteBatch::new();
        databases.keep(&places, &mut batch);
        store.write(&batch).unwrap();
        databases.exchange(&places);
        let values = |databases: &Databases| {
            [0, 2, 30].map(|it| databases.map_of(it).get("k").unwrap().unwrap())
        };
        assert_eq!(values(&databases), [&b"0"[..], b"30", b"2"].map(<[u8]>::to_vec));
        let numbers = databases.existing().map(|place| databases.number_of(place));
        assert_eq!(numbers.collect::<Vec<_>>(), [0, 30, 2]);
        drop((databases, batch, store));
        let store = open();
        let databases = Databases::of_store(&store).unwrap();
        assert_eq!(values(&databases), [&b"0"[..], b"30", b"2"].map(<[u8]>::to_vec));
        // Number 2 lies where number 30 was, and can be selected.
        databases.map_of(30).clear().unwrap();
        Databases::new(&store, 3).open(&store).unwrap();
        assert!(Databases::new(&store, 2).open(&store).is_err());
        let kept = store.existing_map(PLACES_MAP).unwrap().unwrap();
        for bad in [&b"\x01"[..], b"\0\0\0\0", b"\x01\0", b"\0\0\x02\0", &[0; 4096]] {
            kept.put(PLACES_KEY, bad).unwrap();
            assert!(Databases::of_store(&store).is_err(), "{bad:?}");
        }
    }
}
