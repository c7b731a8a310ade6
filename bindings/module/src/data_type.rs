//! The native type: how the server saves, loads, copies, frees and weighs an ordered map.

use std::ffi::{CString, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicPtr, Ordering};

use valkey_module::raw;

use crate::entry::Entry;
use crate::format::{self, BlockReader, BlockWriter, Damage};
use crate::homes;
use crate::map::{ALL, OrderedMap};
use crate::memory;
use crate::server::{Str, server};

/// The name of the type: nine characters, which RDB files hold.
pub const NAME: &std::ffi::CStr = c"everleaf1";
/// Entries that one command of the append-only file puts.
const AOF_COUNT: usize = 64;
/// Bytes that one command of the append-only file puts, about.
const AOF_SIZE: usize = 64 << 10;

static TYPE: AtomicPtr<raw::RedisModuleType> = AtomicPtr::new(std::ptr::null_mut());

/// The type, as the server knows it.
pub fn get() -> *mut raw::RedisModuleType {
    // Acquire: pairs with the release in `register`.
    TYPE.load(Ordering::Acquire)
}

/// Tells the server about the type.
///
/// # Errors
/// The server refuses.
pub fn register(context: *mut raw::RedisModuleCtx) -> Result<(), String> {
    let mut methods = raw::RedisModuleTypeMethods {
        // What Redis 7.0 knows: a newer number it would refuse.
        version: 4,
        rdb_load: Some(load),
        rdb_save: Some(save),
        aof_rewrite: Some(rewrite),
        mem_usage: Some(memory_usage),
        free: Some(free),
        digest: Some(digest),
        free_effort: Some(free_effort),
        copy2: Some(copy),
        defrag: Some(defrag),
        // SAFETY: a struct of numbers and optional functions, of which all zeros is a value.
        ..unsafe { std::mem::zeroed() }
    };
    // SAFETY: the context is that of the loading; the server copies name and methods.
    let kind = unsafe {
        server!(RedisModule_CreateDataType(context, NAME.as_ptr(), format::VERSION, &mut methods))
    };
    if kind.is_null() {
        return Err(
            "the server refuses the data type: is a module with one of that name loaded?".into()
        );
    }
    // Release: pairs with the acquire in `get`.
    TYPE.store(kind, Ordering::Release);
    Ok(())
}

/// # Safety
/// `value` is one of our type.
unsafe fn map_of<'a>(value: *const c_void) -> &'a OrderedMap {
    // SAFETY: the caller's promise; the server changes nothing meanwhile.
    unsafe { &*value.cast() }
}

/// Runs what the server asked for; a panic becomes `failed`.
fn without_panic<R>(failed: R, work: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(failed)
}

// ---- RDB ----

unsafe extern "C" fn save(io: *mut raw::RedisModuleIO, value: *mut c_void) {
    // SAFETY: the server passes a value of our type.
    let map = unsafe { map_of(value) };
    without_panic((), || {
        // SAFETY: the server's, which saves right now; here and in `save_block`.
        unsafe { server!(RedisModule_SaveUnsigned(io, map.len())) };
        let mut writer = BlockWriter::new();
        // Damaged memory ends the value early: a server that reads it sees that entries are missing.
        let _ = map.walk(ALL, false, &mut |entry| {
            if let Some(block) = writer.push(entry) {
                save_block(io, &block);
            }
            true
        });
        if let Some(block) = writer.finish() {
            save_block(io, &block);
        }
    });
}

fn save_block(io: *mut raw::RedisModuleIO, block: &[u8]) {
    // SAFETY: as in `save`; the server copies the bytes.
    unsafe { server!(RedisModule_SaveStringBuffer(io, block.as_ptr().cast(), block.len())) };
}

unsafe extern "C" fn load(io: *mut raw::RedisModuleIO, version: c_int) -> *mut c_void {
    let loaded = without_panic(None, || {
        Some(load_map(io, version).unwrap_or_else(|damage| {
            refuse(io, version, &damage);
            std::ptr::null_mut()
        }))
    });
    memory::account();
    loaded.unwrap_or(std::ptr::null_mut())
}

fn load_map(io: *mut raw::RedisModuleIO, version: c_int) -> Result<*mut c_void, Damage> {
    let damage = |offset, reason: &str| Damage { offset, reason: reason.to_string() };
    if version > format::VERSION {
        let known = format::VERSION;
        let reason = format!(
            "it has version {version} of the format, and this module reads up to {known}: \
             load a newer module"
        );
        return Err(Damage { offset: 0, reason });
    }
    // SAFETY: the server's, which loads right now, here and below.
    let count = unsafe { server!(RedisModule_LoadUnsigned(io)) };
    if has_failed(io) {
        return Err(damage(0, "it ends before the number of its entries"));
    }
    let mut reader = BlockReader::new(count)?;
    let mut map = Box::new(OrderedMap::new());
    while reader.is_unfinished() {
        let offset = reader.offset();
        let block =
            Block::load(io).ok_or_else(|| damage(offset, "it ends before its last entry"))?;
        reader.block(block.bytes(), |entry| {
            map.put(entry).map(|_| ()).map_err(|error| error.to_string())
        })?;
    }
    homes::note_loaded(&map, io);
    Ok(Box::into_raw(map).cast())
}

/// A string that the server loaded.
struct Block(*mut std::ffi::c_char, usize);

impl Block {
    fn load(io: *mut raw::RedisModuleIO) -> Option<Self> {
        let mut length = 0;
        // SAFETY: the server's, which loads right now.
        let start = unsafe { server!(RedisModule_LoadStringBuffer(io, &mut length)) };
        if start.is_null() {
            return None;
        }
        let block = Block(start, length);
        (!has_failed(io)).then_some(block)
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the server said that so many bytes are there; they are ours.
        unsafe { std::slice::from_raw_parts(self.0.cast(), self.1) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: ours, and given up once.
        unsafe { server!(RedisModule_Free(self.0.cast())) };
    }
}

fn has_failed(io: *mut raw::RedisModuleIO) -> bool {
    // SAFETY: the server's, which loads right now.
    unsafe { server!(RedisModule_IsIOError(io)) != 0 }
}

/// Says in the server's log why a value is refused, and where it is damaged.
fn refuse(io: *mut raw::RedisModuleIO, version: c_int, damage: &Damage) {
    let Damage { offset, reason } = damage;
    let message = format!(
        "everleaf: an ordered map (format {version}) cannot be loaded, at byte {offset} of it: {reason}"
    );
    let message = CString::new(message).unwrap_or_default();
    // SAFETY: the server's, which loads right now; `%s` stands for the message.
    unsafe {
        server!(RedisModule_LogIOError(io, c"warning".as_ptr(), c"%s".as_ptr(), message.as_ptr()))
    };
}

// ---- append-only file ----

unsafe extern "C" fn rewrite(
    io: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    // SAFETY: the server passes a value of our type.
    let map = unsafe { map_of(value) };
    without_panic((), || {
        let mut batch = Batch { io, key, strings: vec![], size: 0 };
        let _ = map.walk(ALL, false, &mut |entry| {
            if entry.expiry_ms == 0 {
                batch.push(entry)
            } else {
                emit_expiring(io, key, entry)
            }
            true
        });
        batch.emit();
    });
}

/// Entries that go into one command.
struct Batch {
    io: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    strings: Vec<Str>,
    size: usize,
}

impl Batch {
    fn push(&mut self, entry: Entry<'_>) {
        self.strings.extend([Str::new(entry.name), Str::new(entry.value)]);
        self.size += entry.name.len() + entry.value.len();
        if self.strings.len() >= 2 * AOF_COUNT || self.size >= AOF_SIZE {
            self.emit();
        }
    }

    fn emit(&mut self) {
        if self.strings.is_empty() {
            return;
        }
        let strings: Vec<_> = self.strings.iter().map(Str::raw).collect();
        let (start, count) = (strings.as_ptr(), strings.len());
        let (command, format) = (c"EL.MPUT".as_ptr(), c"sv".as_ptr());
        // SAFETY: the server's, which writes right now; `s` and `v` stand for the key, and for an array
        // of strings with its length.
        unsafe { server!(RedisModule_EmitAOF(self.io, command, format, self.key, start, count)) };
        self.strings.clear();
        self.size = 0;
    }
}

fn emit_expiring(io: *mut raw::RedisModuleIO, key: *mut raw::RedisModuleString, entry: Entry<'_>) {
    let (name, value) = (Str::new(entry.name), Str::new(entry.value));
    let (command, format) = (c"EL.PUT".as_ptr(), c"ssscl".as_ptr());
    let (option, time) = (c"PXAT".as_ptr(), entry.expiry_ms as std::ffi::c_longlong);
    // SAFETY: as in `emit`; `s`, `c` and `l` stand for a string, a text and a number.
    unsafe {
        server!(RedisModule_EmitAOF(
            io,
            command,
            format,
            key,
            name.raw(),
            value.raw(),
            option,
            time
        ))
    };
}

// ---- the rest ----

unsafe extern "C" fn memory_usage(value: *const c_void) -> usize {
    // SAFETY: the server passes a value of our type.
    let map = unsafe { map_of(value) };
    without_panic(0, || map.memory() as usize)
}

unsafe extern "C" fn free(value: *mut c_void) {
    without_panic((), || {
        // SAFETY: a value of our type, made by `Box::into_raw`, which the server gives up once; no
        // other thread has it.
        let map: Box<OrderedMap> = unsafe { Box::from_raw(value.cast()) };
        homes::forget(&map);
        drop(map);
        memory::account();
    });
}

unsafe extern "C" fn free_effort(_: *mut raw::RedisModuleString, value: *const c_void) -> usize {
    // SAFETY: the server passes a value of our type.
    let map = unsafe { map_of(value) };
    if map.encoding() == "packed" { 1 } else { map.len() as usize }
}

/// Moves a map to where the allocator would rather have it. It is called by servers with an allocator that knows such
/// places, which those of Debian are not: it was not tried in a server.
unsafe extern "C" fn defrag(
    context: *mut raw::RedisModuleDefragCtx,
    _: *mut raw::RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    without_panic((), || {
        let mut relocate = |block: *mut u8| {
            // SAFETY: the server's, which moves values right now; a block of its allocator, in which it may stay
            // (null).
            unsafe { server!(RedisModule_DefragAlloc(context, block.cast())) }.cast::<u8>()
        };
        // SAFETY: the server passes the place of a value, which nobody else uses meanwhile.
        let value = unsafe { &mut *value };
        // SAFETY: it is of our type, made by `Box::into_raw`; it and its buffer are in blocks of the server's
        // allocator, for they are aligned to no more than it gives.
        let moved = unsafe { OrderedMap::relocate(value.cast(), &mut relocate) };
        *value = moved.cast();
    });
    // All of it is done.
    0
}

unsafe extern "C" fn digest(md: *mut raw::RedisModuleDigest, value: *mut c_void) {
    // SAFETY: the server passes a value of our type.
    let map = unsafe { map_of(value) };
    without_panic((), || {
        let _ = map.walk(ALL, false, &mut |entry| {
            for bytes in [entry.name, entry.value] {
                let start = bytes.as_ptr().cast();
                // SAFETY: the server's digest, which reads the bytes.
                unsafe { server!(RedisModule_DigestAddStringBuffer(md, start, bytes.len())) };
            }
            // SAFETY: the server's digest.
            unsafe { server!(RedisModule_DigestAddLongLong(md, entry.expiry_ms as i64)) };
            true
        });
        // SAFETY: the server's digest.
        unsafe { server!(RedisModule_DigestEndSequence(md)) };
    });
}

unsafe extern "C" fn copy(
    options: *mut raw::RedisModuleKeyOptCtx,
    value: *const c_void,
) -> *mut c_void {
    // SAFETY: the server passes a value of our type.
    let map = unsafe { map_of(value) };
    // No memory: the server answers that nothing was copied.
    let copied = without_panic(None, || map.copy().ok());
    let Some(copied) = copied else { return std::ptr::null_mut() };
    // SAFETY: the server's, which copies right now.
    let name = unsafe { server!(RedisModule_GetToKeyNameFromOptCtx(options)) };
    // SAFETY: the server's, which copies right now.
    let database = unsafe { server!(RedisModule_GetToDbIdFromOptCtx(options)) };
    homes::note_at(&copied, database, name);
    memory::account();
    Box::into_raw(Box::new(copied)).cast()
}
