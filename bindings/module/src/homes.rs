//! Where the maps with entries that expire were last seen, and when the first entry of each does.
//!
//! It is a hint: a key that holds another map by then is forgotten, and an entry that is not removed in time is
//! still absent to every command. `expiry.rs` removes what is due.

use std::collections::{BTreeSet, HashMap};
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use valkey_module::raw;

use crate::map::OrderedMap;
use crate::server::{bytes_of, server};

/// Where a map was last seen.
struct Home {
    database: c_int,
    name: Vec<u8>,
    due: u64,
}

#[derive(Default)]
struct Registry {
    homes: HashMap<u64, Home>,
    /// Due times and numbers of maps.
    order: BTreeSet<(u64, u64)>,
}

static REGISTRY: Mutex<Option<Registry>> = Mutex::new(None);

fn registry() -> MutexGuard<'static, Option<Registry>> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    fn forget(&mut self, number: u64) {
        if let Some(home) = self.homes.remove(&number) {
            self.order.remove(&(home.due, number));
        }
    }

    fn note(&mut self, map: &OrderedMap, database: c_int, name: &[u8]) {
        let (number, due) = (map.number(), map.next_due());
        if let Some(home) = self.homes.get(&number)
            && (home.due, home.database, home.name.as_slice()) == (due, database, name)
        {
            return;
        }
        self.forget(number);
        self.homes.insert(number, Home { database, name: name.to_vec(), due });
        self.order.insert((due, number));
    }
}

/// Notes a map of a key of the running command.
pub fn note(
    map: &OrderedMap,
    context: *mut raw::RedisModuleCtx,
    name: *const raw::RedisModuleString,
) {
    if map.volatile() == 0 && is_empty() {
        return;
    }
    // SAFETY: the context is that of the running command.
    let database = unsafe { server!(RedisModule_GetSelectedDb(context)) };
    note_at(map, database, name);
}

/// Notes a map at a key.
pub fn note_at(map: &OrderedMap, database: c_int, name: *const raw::RedisModuleString) {
    if map.volatile() == 0 {
        return forget(map);
    }
    // SAFETY: a name of the server, which lives while it runs us.
    let name = unsafe { bytes_of(name) };
    registry().get_or_insert_default().note(map, database, name);
}

/// Notes a map that was loaded.
pub fn note_loaded(map: &OrderedMap, io: *mut raw::RedisModuleIO) {
    if map.volatile() == 0 {
        return;
    }
    // SAFETY: the server's, which loads right now.
    let name = unsafe { server!(RedisModule_GetKeyNameFromIO(io)) };
    if !name.is_null() {
        // SAFETY: the server's, which loads right now.
        let database = unsafe { server!(RedisModule_GetDbIdFromIO(io)) };
        note_at(map, database, name);
    }
}

/// Forgets a map.
pub fn forget(map: &OrderedMap) {
    forget_number(map.number());
}

/// Forgets the map of a number.
pub fn forget_number(number: u64) {
    if let Some(registry) = registry().as_mut() {
        registry.forget(number);
    }
}

/// Whether no map was ever noted.
pub fn is_empty() -> bool {
    registry().is_none()
}

/// Two databases have changed places.
pub fn swap(first: c_int, second: c_int) {
    if let Some(registry) = registry().as_mut() {
        for home in registry.homes.values_mut() {
            if home.database == first {
                home.database = second;
            } else if home.database == second {
                home.database = first;
            }
        }
    }
}

/// The map that is due first, but for some: its number, its database and its key.
pub fn first_due(now: u64, but: &[u64]) -> Option<(u64, c_int, Vec<u8>)> {
    let registry = registry();
    let registry = registry.as_ref()?;
    let &(due, number) = registry.order.iter().find(|(_, number)| !but.contains(number))?;
    let home = registry.homes.get(&number).filter(|_| due <= now)?;
    Some((number, home.database, home.name.clone()))
}
