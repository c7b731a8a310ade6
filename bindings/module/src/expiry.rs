//! Active expiry: a master removes entries whose time has come, and tells its replicas.
//!
//! Which maps have entries that expire, and when, is in [`homes`]. A timer of the server looks ten times a second,
//! and at once again while there is more to do than [`ROUND`].

use std::ffi::{c_char, c_int, c_void};

use valkey_module::raw;

use crate::call::{Key, clock, replicate};
use crate::homes::{self, first_due, note};
use crate::memory;
use crate::server::{Str, server};

/// Milliseconds between two looks.
const PERIOD: i64 = 100;
/// Entries removed at one look.
const ROUND: usize = 1000;
/// Entries of one map removed by one command.
const BATCH: usize = 200;

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
    if has_moved && !homes::is_empty() {
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
    homes::swap(swapped.dbnum_first, swapped.dbnum_second);
}

unsafe extern "C" fn on_time(context: *mut raw::RedisModuleCtx, _: *mut c_void) {
    let work = || {
        let next = if may_expire(context) { look(context) } else { PERIOD };
        // Also where clients send no command of ours for a while.
        memory::account();
        next
    };
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
            None => homes::forget_number(number),
        }
    }
    1
}

/// What became of the entries of a map that have expired.
enum Removal {
    /// So many were removed.
    Done(usize),
    /// There was no memory to remove any.
    Refused,
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
