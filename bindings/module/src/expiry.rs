//! Active expiry: a master removes entries whose time has come, and tells its replicas.
//!
//! The registry knows the maps with entries that expire, when the first of each does, and the key it
//! was last seen at. It is a hint: a key that holds another map by then is forgotten, and an entry that is
//! not removed in time is still absent to every command. A timer of the server looks ten times a second,
//! and at once again while there is more to do than [`ROUND`].

use std::collections::{BTreeSet, HashMap};
use std::ffi::{c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use valkey_module::raw;

use crate::call::{Key, clock, replicate};
use crate::map::OrderedMap;
use crate::memory;
use crate::server::{Str, bytes_of, server};

/// Milliseconds between two looks.
const PERIOD: i64 = 100;
/// Entries removed at one look.
const ROUND: usize = 1000;
/// Entries of one map removed by one command.
const BATCH: usize = 200;

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
    if map.volatile() == 0 && registry().is_none() {
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
    if let Some(registry) = registry().as_mut() {
        registry.forget(map.number());
    }
}

/// Begins to look.
///
/// # Errors
/// The server does not take the events.
pub fn begin(context: *mut raw::RedisModuleCtx) -> Result<(), String> {
    let generic = raw::REDISMODULE_NOTIFY_GENERIC;
    // SAFETY: the context is that of the loading, here and below.
    let refused =
        unsafe { server!(RedisModule_SubscribeToKeyspaceEvents(context, generic, Some(on_key))) };
    if refused != raw::REDISMODULE_OK as c_int {
        return Err("the server refuses to say when keys are renamed".into());
    }
    let event = raw::RedisModuleEvent {
        id: raw::REDISMODULE_EVENT_SWAPDB,
        dataver: u64::from(raw::REDISMODULE_SWAPDBINFO_VERSION),
    };
    // SAFETY: the context is that of the loading. A server without the event refuses, and never swaps in silence.
    unsafe { server!(RedisModule_SubscribeToServerEvent(context, event, Some(on_swap))) };
    arm(context, PERIOD);
    Ok(())
}

fn arm(context: *mut raw::RedisModuleCtx, period: i64) {
    // SAFETY: the context is the server's.
    unsafe {
        server!(RedisModule_CreateTimer(context, period, Some(on_time), std::ptr::null_mut()))
    };
}

/// A key has moved: its map is noted at the new place.
unsafe extern "C" fn on_key(
    context: *mut raw::RedisModuleCtx,
    _: c_int,
    event: *const c_char,
    name: *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the server passes a text that ends with a zero.
    let event = unsafe { std::ffi::CStr::from_ptr(event) };
    let has_moved = [c"rename_to", c"move_to", c"restore"].contains(&event);
    if has_moved && registry().is_some() {
        let mode = (raw::REDISMODULE_READ | raw::REDISMODULE_OPEN_KEY_NOTOUCH) as c_int;
        if let Ok(key) = Key::open(context, name, mode)
            && let Some(map) = key.map_to_read()
        {
            note(map, context, name);
        }
    }
    raw::REDISMODULE_OK as c_int
}

/// Two databases have changed places.
unsafe extern "C" fn on_swap(
    _: *mut raw::RedisModuleCtx,
    _: raw::RedisModuleEvent,
    _: u64,
    data: *mut c_void,
) {
    if data.is_null() {
        return;
    }
    // SAFETY: with this event the server passes this struct.
    let swapped = unsafe { &*data.cast::<raw::RedisModuleSwapDbInfo>() };
    let (first, second) = (swapped.dbnum_first, swapped.dbnum_second);
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

unsafe extern "C" fn on_time(context: *mut raw::RedisModuleCtx, _: *mut c_void) {
    let work = || if may_expire(context) { look(context) } else { PERIOD };
    let next = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    arm(context, next.unwrap_or(PERIOD));
}

/// Whether this server decides what expires, and may tell its replicas now.
fn may_expire(context: *mut raw::RedisModuleCtx) -> bool {
    // SAFETY: the context is that of the timer.
    let flags = unsafe { server!(RedisModule_GetContextFlags(context)) };
    let told = raw::REDISMODULE_CTX_FLAGS_SLAVE | raw::REDISMODULE_CTX_FLAGS_LOADING;
    // SAFETY: takes nothing.
    flags & told as c_int == 0 && unsafe { server!(RedisModule_AvoidReplicaTraffic()) } == 0
}

/// Removes what has expired; returns after how many milliseconds to look again.
fn look(context: *mut raw::RedisModuleCtx) -> i64 {
    let now = clock();
    let mut left = ROUND;
    // Maps of which nothing could be removed for want of memory: they are due as before.
    let mut refused = vec![];
    while left > 0 {
        let Some((number, database, name)) = first_due(now, &refused) else { return PERIOD };
        // SAFETY: the context is that of the timer.
        let selected = unsafe { server!(RedisModule_SelectDb(context, database)) };
        let done = if selected == raw::REDISMODULE_OK as c_int {
            remove_expired(context, number, &Str::new(&name), now, left.min(BATCH))
        } else {
            None
        };
        match done {
            Some(Removal::Refused) => {
                refused.push(number);
                left -= 1;
            }
            // Of a map whose bound was old: it was moved on.
            Some(Removal::Done(count)) => left = left.saturating_sub(count.max(1)),
            None => {
                if let Some(registry) = registry().as_mut() {
                    registry.forget(number);
                }
            }
        }
    }
    memory::account();
    1
}

/// What became of the entries of a map that have expired.
enum Removal {
    /// So many were removed.
    Done(usize),
    /// There was no memory to remove any.
    Refused,
}

/// The map that is due first, but for some.
fn first_due(now: u64, but: &[u64]) -> Option<(u64, c_int, Vec<u8>)> {
    let registry = registry();
    let registry = registry.as_ref()?;
    let &(due, number) = registry.order.iter().find(|(_, number)| !but.contains(number))?;
    let home = registry.homes.get(&number).filter(|_| due <= now)?;
    Some((number, home.database, home.name.clone()))
}

/// Removes up to `limit` entries of a map; `None` if it is not there any more.
fn remove_expired(
    context: *mut raw::RedisModuleCtx,
    number: u64,
    name: &Str,
    now: u64,
    limit: usize,
) -> Option<Removal> {
    let mode = raw::REDISMODULE_READ | raw::REDISMODULE_WRITE | raw::REDISMODULE_OPEN_KEY_NOTOUCH;
    let mut key = Key::open(context, name.raw(), mode as c_int).ok()?;
    let map = key.map().filter(|map| map.number() == number)?;
    let names = map.expired(now, limit).ok()?;
    let mut removed = vec![];
    for entry in &names {
        // No memory: the rest waits.
        if map.remove(entry).is_err() {
            break;
        }
        removed.push(Str::new(entry));
    }
    if removed.is_empty() {
        note(map, context, name.raw());
        if !names.is_empty() {
            return Some(Removal::Refused);
        }
    } else {
        let names = removed.iter().map(Str::raw);
        let arguments: Vec<_> = std::iter::once(name.raw()).chain(names).collect();
        replicate(context, "EL.DEL", &arguments);
        key.changed("el.expired");
    }
    Some(Removal::Done(removed.len()))
}
