//! The databases of a server (`SELECT`): a map of the store each.
//!
//! Database 0 is the default map, so that a pool that never had another is what it always was, and costs nothing
//! more. Each other one is a map of its own, made when it is first selected, or named by `MOVE` or `COPY`; until then
//! nobody is in it. The members of all collections lie in one map, under numbers of which each is used once, so a
//! collection moves between databases with its header (`types`).

use std::sync::OnceLock;

use everleaf::{DEFAULT_MAP, Error, Map, Result, Statistics, Store};

/// The number of a database.
pub type Database = usize;

/// The most databases that a server may have.
pub const DATABASE_COUNT_MAX: usize = 1024;
/// What the names of their maps begin with; the number follows.
const NAME_PREFIX: &str = "server.db";

/// The databases of a store. Thread-safe.
pub struct Databases {
    /// Those that are there; number 0 always is.
    maps: Box<[OnceLock<Map>]>,
}

impl Databases {
    /// So many databases, of which none but number 0 is there yet.
    pub fn new(store: &Store, count: usize) -> Self {
        let maps: Box<[OnceLock<Map>]> = (0..count.max(1)).map(|_| OnceLock::new()).collect();
        maps[0].get_or_init(|| store.default_map().clone());
        Databases { maps }
    }

    /// All databases that a store has, for those who only look.
    pub fn of_store(store: &Store) -> Result<Self> {
        let last = store.map_names().into_iter().filter_map(|name| number_of(&name)).max();
        let databases = Self::new(store, last.unwrap_or(0) + 1);
        databases.open(store)?;
        Ok(databases)
    }

    /// Finds the databases that are there.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if one with keys has a number that is too high: nobody could reach them.
    pub fn open(&self, store: &Store) -> Result<()> {
        let mut beyond = None;
        for name in store.map_names() {
            let Some(number) = number_of(&name) else { continue };
            let Some(map) = store.existing_map(&name)? else { continue };
            match self.maps.get(number) {
                Some(place) => drop(place.set(map)),
                None if map.is_empty() => {}
                None => beyond = beyond.max(Some(number)),
            }
        }
        match beyond {
            None => Ok(()),
            Some(number) => Err(Error::Unsupported(format!(
                "the pool has keys in database {number}: raise --databases to {} at least",
                number + 1
            ))),
        }
    }

    /// How many there may be.
    pub fn count(&self) -> usize {
        self.maps.len()
    }

    /// Makes a database, unless it is there. Must not be called within an operation of the store.
    pub fn begin(&self, store: &Store, database: Database) -> Result<()> {
        if let Some(place) = self.maps.get(database)
            && place.get().is_none()
        {
            let map = store.map(&name_of(database))?;
            place.get_or_init(|| map);
        }
        Ok(())
    }

    /// The map of a database that is there: nobody selects one before.
    #[inline]
    pub fn map(&self, database: Database) -> &Map {
        self.maps[database].get().expect("a database is made before it is selected")
    }

    /// The numbers of the databases that are there.
    pub fn existing(&self) -> impl Iterator<Item = Database> {
        (0..self.count()).filter(|database| self.maps[*database].get().is_some())
    }

    /// Removes all keys of all databases, of one after the other.
    pub fn clear_all(&self) -> Result<()> {
        self.existing().try_for_each(|database| self.map(database).clear())
    }
}

/// The name of the map of a database.
pub fn name_of(database: Database) -> String {
    match database {
        0 => DEFAULT_MAP.to_string(),
        database => format!("{NAME_PREFIX}{database}"),
    }
}

/// The number of the database whose map has this name, if it is one other than the default map.
fn number_of(name: &str) -> Option<Database> {
    let number: Database = name.strip_prefix(NAME_PREFIX)?.parse().ok()?;
    let is_one = (1..DATABASE_COUNT_MAX).contains(&number) && name_of(number) == name;
    is_one.then_some(number)
}

/// The databases that have keys, with the figures of their maps.
pub fn figures(
    statistics: &Statistics,
    count: usize,
) -> impl Iterator<Item = (Database, &everleaf::MapStatistics)> {
    let of = |database| Some((database, statistics.by_map.get(&name_of(database))?));
    (0..count).filter_map(of).filter(|(_, map)| map.keys > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number() {
        for number in [1, 15, 1023] {
            assert_eq!(number_of(&name_of(number)), Some(number));
        }
        for name in ["default", "server.db0", "server.db01", "server.db+1", "server.db1024"] {
            assert_eq!(number_of(name), None, "{name}");
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
        assert_eq!(databases.existing().collect::<Vec<_>>(), [0]);
        databases.begin(&store, 3).unwrap();
        databases.begin(&store, 9).unwrap();
        databases.map(3).put("k", "v").unwrap();
        databases.begin(&store, 2).unwrap();
        databases.map(2).put("k", "v").unwrap();
        drop((databases, store));
        let store = open();
        let all = Databases::of_store(&store).unwrap();
        assert_eq!(all.existing().collect::<Vec<_>>(), [0, 2, 3]);
        assert_eq!(all.map(3).len(), 1);
        // Of all that are missing it tells the last.
        let few = Databases::new(&store, 2).open(&store).unwrap_err();
        assert!(few.to_string().contains("--databases to 4"), "{few}");
        all.clear_all().unwrap();
        assert_eq!(all.map(3).len(), 0);
        Databases::new(&store, 3).open(&store).unwrap();
    }
}
