//! A call of a command: its arguments, its reply, the key it works on, and what replicas are told.
//!
//! Everything here runs on the server's main thread, while it waits for the command.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_int, c_long, c_longlong};
use std::panic::{AssertUnwindSafe, catch_unwind};

use everleaf_index::IndexError;
use valkey_module::raw;

use crate::data_type;
use crate::homes;
use crate::map::OrderedMap;
use crate::memory;
use crate::server::{Str, bytes_of, server};

/// Why a command does nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(Message);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Message {
    Plain(&'static str),
    Made(String),
    Arity,
}

impl Refusal {
    /// With this reply.
    pub const fn plain(message: &'static str) -> Self {
        Refusal(Message::Plain(message))
    }

    /// The number of arguments is wrong.
    pub const fn arity() -> Self {
        Refusal(Message::Arity)
    }
}

impl From<IndexError> for Refusal {
    fn from(error: IndexError) -> Self {
        Refusal(Message::Made(format!("ERR {error}")))
    }
}

impl From<&'static str> for Refusal {
    fn from(message: &'static str) -> Self {
        Refusal(Message::Made(format!("ERR {message}")))
    }
}

/// A call of a command.
pub struct Call<'a> {
    context: *mut raw::RedisModuleCtx,
    strings: &'a [*mut raw::RedisModuleString],
    /// The clock, once it was read: a command has one time.
    time: Cell<Option<u64>>,
}

impl<'a> Call<'a> {
    /// How many arguments there are, with the name of the command.
    pub fn len(&self) -> usize {
        self.strings.len()
    }

    /// An argument; 0 is the name of the command, 1 the key. The server or the command has checked how
    /// many there are.
    pub fn argument(&self, at: usize) -> &'a [u8] {
        // SAFETY: the server keeps its arguments, unchanged, as long as the command runs.
        unsafe { bytes_of(self.strings[at]) }
    }

    /// An argument as the server's string.
    pub fn string(&self, at: usize) -> *mut raw::RedisModuleString {
        self.strings[at]
    }

    /// All arguments.
    pub fn strings(&self) -> &'a [*mut raw::RedisModuleString] {
        self.strings
    }

    /// When the command began by this server's clock, in milliseconds since 1970; within a script or a transaction,
    /// when that did, where the server tells it.
    pub fn clock(&self) -> u64 {
        let time = self.time.get().unwrap_or_else(|| unit_clock().unwrap_or_else(clock));
        self.time.set(Some(time));
        time
    }

    /// The time by which entries have expired. 0, so that none has, for what a master sends and for what
    /// the append-only file holds: the server that wrote it decided.
    pub fn now(&self) -> u64 {
        // SAFETY: the context is that of the running command.
        let flags = unsafe { server!(RedisModule_GetContextFlags(self.context)) };
        let told = raw::REDISMODULE_CTX_FLAGS_REPLICATED | raw::REDISMODULE_CTX_FLAGS_LOADING;
        if flags & told as c_int != 0 { 0 } else { self.clock() }
    }

    /// As [`Self::now`], for a map; 0 as well if nothing of it expires, since the clock costs.
    pub fn now_of(&self, map: &OrderedMap) -> u64 {
        if map.volatile() == 0 { 0 } else { self.now() }
    }

    // ---- keys ----

    /// The key, to look at it.
    ///
    /// # Errors
    /// Something else is there.
    pub fn open_for_reading(&self) -> Result<Key<'_>, Refusal> {
        Key::open(self.context, self.strings[1], raw::REDISMODULE_READ as c_int)
    }

    /// The key, to change it.
    ///
    /// # Errors
    /// As [`Self::open_for_reading`].
    pub fn open_for_writing(&self) -> Result<Key<'_>, Refusal> {
        let mode = raw::REDISMODULE_READ | raw::REDISMODULE_WRITE;
        Key::open(self.context, self.strings[1], mode as c_int)
    }

    /// Removes those of these entries that have expired, and tells replicas. The last one takes the
    /// key with it.
    ///
    /// # Errors
    /// No memory.
    pub fn remove_expired(&self, key: &mut Key<'_>, names: &[&[u8]]) -> Result<(), Refusal> {
        let Some(map) = key.map().filter(|map| map.volatile() > 0) else { return Ok(()) };
        let now = self.now();
        let mut removed = vec![];
        let mut error = None;
        for name in names {
            match remove_if_expired(map, name, now) {
                Ok(true) => removed.push(Str::new(name)),
                Ok(false) => {}
                Err(refused) => error = Some(refused),
            }
        }
        if !removed.is_empty() {
            let names = removed.iter().map(Str::raw);
            let arguments: Vec<_> = std::iter::once(self.strings[1]).chain(names).collect();
            self.replicate("EL.DEL", &arguments);
            key.changed("el.expired");
        }
        error.map_or(Ok(()), |error| Err(error.into()))
    }

    // ---- replication ----

    /// Tells replicas and the append-only file to do what this command was told.
    pub fn replicate_verbatim(&self) {
        // SAFETY: the context is that of the running command.
        unsafe { server!(RedisModule_ReplicateVerbatim(self.context)) };
    }

    /// Tells replicas and the append-only file to run a command.
    pub fn replicate(&self, command: &str, arguments: &[*mut raw::RedisModuleString]) {
        replicate(self.context, command, arguments);
    }

    /// A string of the server.
    pub fn new_string(&self, bytes: &[u8]) -> Str {
        Str::new(bytes)
    }

    /// A number as a string of the server.
    pub fn new_number(&self, number: u64) -> Str {
        Str::new(number.to_string().as_bytes())
    }

    // ---- replies ----

    /// Replies with a number.
    pub fn reply_number(&self, number: i64) {
        // SAFETY: the context is that of the running command, here and in all replies.
        unsafe { server!(RedisModule_ReplyWithLongLong(self.context, number as c_longlong)) };
    }

    /// Replies with bytes.
    pub fn reply_bytes(&self, bytes: &[u8]) {
        let (start, length) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: the context is that of the running command, as in `reply_number`; the server copies the bytes.
        unsafe { server!(RedisModule_ReplyWithStringBuffer(self.context, start, length)) };
    }

    /// Replies that there is nothing.
    pub fn reply_null(&self) {
        // SAFETY: the context is that of the running command, as in `reply_number`.
        unsafe { server!(RedisModule_ReplyWithNull(self.context)) };
    }

    /// Replies that there is no list.
    pub fn reply_null_array(&self) {
        // SAFETY: the context is that of the running command, as in `reply_number`.
        unsafe { server!(RedisModule_ReplyWithNullArray(self.context)) };
    }

    /// Begins a list of so many replies.
    pub fn begin_array(&self, length: usize) {
        // SAFETY: the context is that of the running command, as in `reply_number`.
        unsafe { server!(RedisModule_ReplyWithArray(self.context, length as c_long)) };
    }

    /// Begins a list whose length [`Self::end_array`] says.
    pub fn begin_array_of_unknown_length(&self) {
        let length = raw::REDISMODULE_POSTPONED_LEN as c_long;
        // SAFETY: the context is that of the running command, as in `reply_number`.
        unsafe { server!(RedisModule_ReplyWithArray(self.context, length)) };
    }

    /// The list had so many replies.
    pub fn end_array(&self, length: usize) {
        // SAFETY: the context is that of the running command, as in `reply_number`; a list was begun without a length.
        unsafe { server!(RedisModule_ReplySetArrayLength(self.context, length as c_long)) };
    }

    fn refuse(&self, refusal: Refusal) -> c_int {
        let message = match refusal.0 {
            // SAFETY: as in replies.
            Message::Arity => return unsafe { server!(RedisModule_WrongArity(self.context)) },
            Message::Plain(message) => message.to_string(),
            Message::Made(message) => message,
        };
        let message = CString::new(message.replace(['\0', '\r', '\n'], " ")).unwrap_or_default();
        // SAFETY: as in replies; the server copies the message.
        unsafe { server!(RedisModule_ReplyWithError(self.context, message.as_ptr())) }
    }
}

/// Runs a command for the server, and keeps panics from it.
///
/// # Safety
/// Called by the server with the arguments of a command.
pub unsafe fn run(
    context: *mut raw::RedisModuleCtx,
    arguments: *mut *mut raw::RedisModuleString,
    count: c_int,
    command: fn(&Call<'_>) -> Result<(), Refusal>,
) -> c_int {
    // SAFETY: the server passes that many strings, and keeps them as long as the command runs.
    let strings = unsafe { std::slice::from_raw_parts(arguments, count as usize) };
    let call = Call { context, strings, time: Cell::new(None) };
    let outcome = catch_unwind(AssertUnwindSafe(|| command(&call)));
    let outcome = outcome.unwrap_or(Err(Refusal::plain(
        "ERR the module failed inside; this is a bug: please report what the server's log shows",
    )));
    memory::account();
    match outcome {
        Ok(()) => raw::REDISMODULE_OK as c_int,
        Err(refusal) => call.refuse(refusal),
    }
}

/// Tells replicas and the append-only file to run a command.
pub fn replicate(
    context: *mut raw::RedisModuleCtx,
    command: &str,
    arguments: &[*mut raw::RedisModuleString],
) {
    let command = CString::new(command).unwrap_or_default();
    let (start, count) = (arguments.as_ptr(), arguments.len());
    // SAFETY: the context is the server's; `v` stands for an array of strings and its length, both of
    // which the server copies.
    unsafe {
        server!(RedisModule_Replicate(context, command.as_ptr(), c"v".as_ptr(), start, count))
    };
}

/// The clock that the server has stopped for what it runs: a script, a transaction or one command. Redis 7.2 and
/// later and Valkey tell it.
fn unit_clock() -> Option<u64> {
    // SAFETY: set once, before this, by the loading.
    let told = unsafe { raw::RedisModule_CachedMicroseconds }?;
    // SAFETY: takes nothing.
    let microseconds = unsafe { told() };
    u64::try_from(microseconds / 1000).ok().filter(|time| *time > 0)
}

/// This server's clock, in milliseconds since 1970.
pub fn clock() -> u64 {
    // SAFETY: takes nothing.
    unsafe { server!(RedisModule_Milliseconds()) }.max(1) as u64
}

/// Removes an entry if it has expired.
fn remove_if_expired(map: &mut OrderedMap, name: &[u8], now: u64) -> Result<bool, IndexError> {
    let is_over = map.get(name, 0, |entry| entry.has_expired(now))?.unwrap_or(false);
    if is_over {
        map.remove(name)?;
    }
    Ok(is_over)
}

/// A key of the server that holds an ordered map, or nothing yet.
pub struct Key<'a> {
    context: *mut raw::RedisModuleCtx,
    name: *mut raw::RedisModuleString,
    key: *mut raw::RedisModuleKey,
    map: *mut OrderedMap,
    call: std::marker::PhantomData<&'a ()>,
}

impl Key<'_> {
    /// Opens a key.
    ///
    /// # Errors
    /// Something else is there.
    pub fn open(
        context: *mut raw::RedisModuleCtx,
        name: *mut raw::RedisModuleString,
        mode: c_int,
    ) -> Result<Self, Refusal> {
        // SAFETY: the context and the name are the server's, and in use as long as we are.
        let key: *mut raw::RedisModuleKey =
            unsafe { server!(RedisModule_OpenKey(context, name, mode)) }.cast();
        let mut opened =
            Key { context, name, key, map: std::ptr::null_mut(), call: Default::default() };
        if key.is_null() {
            return Ok(opened);
        }
        // SAFETY: the key was opened just now.
        let kind = unsafe { server!(RedisModule_KeyType(key)) };
        if kind == raw::REDISMODULE_KEYTYPE_EMPTY as c_int {
            return Ok(opened);
        }
        // SAFETY: the key was opened just now.
        let is_ours = kind == raw::REDISMODULE_KEYTYPE_MODULE as c_int
            && unsafe { server!(RedisModule_ModuleTypeGetType(key)) } == data_type::get();
        if !is_ours {
            let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
            return Err(Refusal::plain(wrong));
        }
        // SAFETY: a key of our type holds what we gave it.
        opened.map = unsafe { server!(RedisModule_ModuleTypeGetValue(key)) }.cast();
        Ok(opened)
    }

    /// The map, to look at it.
    pub fn map_to_read(&self) -> Option<&OrderedMap> {
        // SAFETY: the map is the key's, which is open; the server runs one command at a time, and a
        // command has one key.
        unsafe { self.map.as_ref() }
    }

    /// The map, to change it.
    pub fn map(&mut self) -> Option<&mut OrderedMap> {
        // SAFETY: as in `map_to_read`; and the key is ours alone.
        unsafe { self.map.as_mut() }
    }

    /// The map, which is made if there is none.
    ///
    /// # Errors
    /// The server does not take it.
    pub fn create(&mut self) -> Result<&mut OrderedMap, IndexError> {
        if self.map.is_null() {
            let map = Box::into_raw(Box::new(OrderedMap::new()));
            // SAFETY: the key is open for writing, and takes the map over.
            unsafe {
                server!(RedisModule_ModuleTypeSetValue(self.key, data_type::get(), map.cast()))
            };
            self.map = map;
        }
        // SAFETY: not null, and the key holds it, as in `map_to_read`.
        Ok(unsafe { &mut *self.map })
    }

    /// After a change: tells clients that watch or listen, and removes a key that has become empty.
    pub fn changed(&mut self, event: &str) {
        // SAFETY: the context and the name are the server's.
        unsafe { server!(RedisModule_SignalModifiedKey(self.context, self.name)) };
        self.notify(raw::REDISMODULE_NOTIFY_MODULE, event);
        let Some(map) = self.map_to_read() else { return };
        if map.len() > 0 {
            homes::note(map, self.context, self.name);
            return;
        }
        // SAFETY: the key is open for writing; the server frees the map.
        unsafe { server!(RedisModule_DeleteKey(self.key)) };
        self.map = std::ptr::null_mut();
        self.notify(raw::REDISMODULE_NOTIFY_GENERIC, "del");
    }

    fn notify(&self, class: c_int, event: &str) {
        let event = CString::new(event).unwrap_or_default();
        let event: &CStr = &event;
        // SAFETY: the context and the name are the server's, as in `open`; the server copies the event.
        unsafe {
            server!(RedisModule_NotifyKeyspaceEvent(self.context, class, event.as_ptr(), self.name))
        };
    }
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        // Made for an entry that was then refused: the server must not keep an empty map.
        if self.map().is_some_and(|map| map.len() == 0) {
            // SAFETY: as in `changed`.
            unsafe { server!(RedisModule_DeleteKey(self.key)) };
        }
        if !self.key.is_null() {
            // SAFETY: opened by us and not closed yet.
            unsafe { server!(RedisModule_CloseKey(self.key)) };
        }
    }
}
