//! Loading: whether the server is fit, and what it is told.

use std::ffi::{CStr, CString, c_int};
use std::panic::catch_unwind;

use valkey_module::raw;

use crate::call::{self, Call, Refusal};
use crate::server::server;
use crate::{commands, data_type, expiry, space};

/// The version that `MODULE LIST` shows.
const VERSION: c_int = 100;
/// The oldest server, as it counts itself: 7.0.0.
const SERVER_MIN: c_int = 0x0007_0000;

type Handler = unsafe extern "C" fn(
    *mut raw::RedisModuleCtx,
    *mut *mut raw::RedisModuleString,
    c_int,
) -> c_int;

/// What the server is told about a command.
struct Command {
    name: &'static CStr,
    handler: Handler,
    /// Whether it changes anything, may need memory, costs little.
    flags: &'static CStr,
    /// Arguments with the name; negative: at least so many.
    arity: c_int,
    summary: &'static CStr,
    complexity: &'static CStr,
    /// What it does to its key.
    access: u32,
}

/// The flags of commands that look.
const READ: &CStr = c"readonly";
/// The same, at a cost that is small whatever the map.
const READ_FAST: &CStr = c"readonly fast";
/// The flags of commands that may need memory.
const WRITE: &CStr = c"write deny-oom";
/// The same, at a cost that is small whatever the map.
const WRITE_FAST: &CStr = c"write deny-oom fast";
/// The flags of commands that only remove.
const REMOVE: &CStr = c"write fast";

const LOOKS: u32 = raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS;
const MEASURES: u32 = raw::REDISMODULE_CMD_KEY_RO;
const PUTS: u32 = raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_UPDATE;
const CHANGES: u32 = PUTS | raw::REDISMODULE_CMD_KEY_ACCESS;
const REMOVES: u32 = raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_DELETE;

macro_rules! command {
    ($name:literal, $handler:ident, $flags:expr, $arity:literal, $access:expr, $complexity:literal, $summary:literal) => {
        Command {
            name: $name,
            handler: {
                unsafe extern "C" fn handler(
                    context: *mut raw::RedisModuleCtx,
                    arguments: *mut *mut raw::RedisModuleString,
                    count: c_int,
                ) -> c_int {
                    const COMMAND: fn(&Call<'_>) -> Result<(), Refusal> = commands::$handler;
                    // SAFETY: the server calls this with the arguments of a command.
                    unsafe { call::run(context, arguments, count, COMMAND) }
                }
                handler
            },
            flags: $flags,
            arity: $arity,
            summary: $summary,
            complexity: $complexity,
            access: $access,
        }
    };
}

#[rustfmt::skip]
static COMMANDS: [Command; 18] = [
    command!(c"EL.PUT", put, WRITE_FAST, -4, PUTS, c"O(log N)", c"Adds an entry to an ordered map, or replaces its value."),
    command!(c"EL.MPUT", put_many, WRITE, -4, PUTS, c"O(M log N), M the entries put", c"Adds entries to an ordered map, or replaces their values."),
    command!(c"EL.GET", get, READ_FAST, 3, LOOKS, c"O(log N)", c"Returns the value of an entry."),
    command!(c"EL.MGET", get_many, READ_FAST, -3, LOOKS, c"O(M log N), M the entries asked for", c"Returns the values of entries."),
    command!(c"EL.DEL", remove, REMOVE, -3, REMOVES, c"O(M log N), M the entries removed", c"Removes entries."),
    command!(c"EL.RANGE", range, READ, -4, LOOKS, c"O(log N + M), M the entries returned", c"Returns the entries between two names."),
    command!(c"EL.PREFIX", prefix, READ, -3, LOOKS, c"O(log N + M), M the entries returned", c"Returns the entries whose names begin so."),
    command!(c"EL.COUNT", count, READ, -2, LOOKS, c"O(1); with bounds O(log N + M), M the entries counted", c"Counts entries."),
    command!(c"EL.FLOOR", floor, READ_FAST, 3, LOOKS, c"O(log N)", c"Returns the entry with the greatest name not above the given one."),
    command!(c"EL.CEILING", ceiling, READ_FAST, 3, LOOKS, c"O(log N)", c"Returns the entry with the smallest name not below the given one."),
    command!(c"EL.CAS", compare_and_swap, WRITE_FAST, 5, CHANGES, c"O(log N)", c"Replaces the value of an entry if it is the expected one."),
    command!(c"EL.INCRBY", increment, WRITE_FAST, 4, CHANGES, c"O(log N)", c"Adds to the number that an entry holds."),
    command!(c"EL.EXPIREAT", expire_at, WRITE_FAST, -4, PUTS, c"O(M log N), M the entries", c"Lets entries expire at a time in seconds since 1970."),
    command!(c"EL.PEXPIREAT", expire_at_ms, WRITE_FAST, -4, PUTS, c"O(M log N), M the entries", c"Lets entries expire at a time in milliseconds since 1970."),
    command!(c"EL.PERSIST", persist, WRITE_FAST, -3, PUTS, c"O(M log N), M the entries", c"Lets entries never expire."),
    command!(c"EL.PEXPIRETIME", expire_time, READ_FAST, 3, LOOKS, c"O(log N)", c"Returns when an entry expires, in milliseconds since 1970."),
    command!(c"EL.SCAN", scan, READ, -3, LOOKS, c"O(log N + COUNT) for each call", c"Goes through the entries step by step."),
    command!(c"EL.INFO", info, READ_FAST, 2, MEASURES, c"O(1)", c"Returns how a map is kept and what it takes."),
];

/// What the server calls first.
///
/// # Safety
/// Called by a server, with its context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    context: *mut raw::RedisModuleCtx,
    _: *mut *mut raw::RedisModuleString,
    count: c_int,
) -> c_int {
    let api = raw::REDISMODULE_APIVER_1 as c_int;
    // SAFETY: the caller's promise. Nothing was allocated before.
    let begun =
        unsafe { raw::Export_RedisModule_Init(context, c"everleaf".as_ptr(), VERSION, api) };
    if begun != raw::REDISMODULE_OK as c_int {
        return begun;
    }
    // SAFETY: set by the line above, and by nobody else.
    let has_log = unsafe { { raw::RedisModule_Log }.is_some() };
    // SAFETY: set by the initialization, and by nobody else.
    let has_memory = unsafe { { raw::RedisModule_Alloc }.is_some() };
    if !has_log || !has_memory {
        return raw::REDISMODULE_ERR as c_int;
    }
    let loaded = catch_unwind(|| load(context, count));
    match loaded.unwrap_or_else(|_| Err("the module failed inside".into())) {
        Ok(()) => raw::REDISMODULE_OK as c_int,
        Err(reason) => {
            log(context, c"warning", &format!("everleaf cannot be loaded: {reason}"));
            raw::REDISMODULE_ERR as c_int
        }
    }
}

fn load(context: *mut raw::RedisModuleCtx, argument_count: c_int) -> Result<(), String> {
    if argument_count != 0 {
        return Err("it takes no arguments".into());
    }
    check_server()?;
    space::open()?;
    space::with(|_, _| Ok(())).map_err(|error| error.to_string())?;
    let options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
        | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED;
    // SAFETY: the context is that of the loading, here and below.
    unsafe { server!(RedisModule_SetModuleOptions(context, options as c_int)) };
    data_type::register(context)?;
    let has_category = add_category(context);
    for command in &COMMANDS {
        create(context, command, has_category)
            .ok_or_else(|| format!("the server refuses the command {:?}", command.name))?;
    }
    expiry::begin(context)
}

/// Whether the server can do what the module needs.
fn check_server() -> Result<(), String> {
    macro_rules! missing {
        ($($name:ident),* $(,)?) => {
            // SAFETY: set once, before this, by the loading.
            [$((stringify!($name), unsafe { { raw::$name }.is_none() })),*]
        };
    }
    let missing = missing![
        RedisModule_AvoidReplicaTraffic,
        RedisModule_CreateDataType,
        RedisModule_CreateTimer,
        RedisModule_GetServerVersion,
        RedisModule_GetToDbIdFromOptCtx,
        RedisModule_IsIOError,
        RedisModule_SetCommandInfo,
        RedisModule_SubscribeToServerEvent,
    ];
    if let Some((name, _)) = missing.iter().find(|(_, is_missing)| *is_missing) {
        return Err(format!("the server lacks {name}: take Redis 7.0, Valkey 7.2 or later"));
    }
    // SAFETY: takes nothing.
    let version = unsafe { server!(RedisModule_GetServerVersion()) };
    if version < SERVER_MIN {
        let parts = (version >> 16, version >> 8 & 0xFF, version & 0xFF);
        return Err(format!(
            "the server is version {}.{}.{}: take Redis 7.0, Valkey 7.2 or later",
            parts.0, parts.1, parts.2
        ));
    }
    Ok(())
}

/// A category of our own for access lists, where the server has that.
fn add_category(context: *mut raw::RedisModuleCtx) -> bool {
    // SAFETY: set once, before this, by the loading.
    let Some(add) = (unsafe { raw::RedisModule_AddACLCategory }) else { return false };
    // SAFETY: the context is that of the loading; the server copies the name.
    unsafe { add(context, c"everleaf".as_ptr()) == raw::REDISMODULE_OK as c_int }
}

fn create(
    context: *mut raw::RedisModuleCtx,
    command: &'static Command,
    has_category: bool,
) -> Option<()> {
    let (name, flags) = (command.name.as_ptr(), command.flags.as_ptr());
    let is_ok = |result| (result == raw::REDISMODULE_OK as c_int).then_some(());
    // SAFETY: the context is that of the loading; the texts are static.
    is_ok(unsafe {
        server!(RedisModule_CreateCommand(context, name, Some(command.handler), flags, 1, 1, 1))
    })?;
    // SAFETY: the context is that of the loading.
    let created = unsafe { server!(RedisModule_GetCommand(context, name)) };
    describe(created, command).and_then(is_ok)?;
    // SAFETY: set once, before this, by the loading.
    if has_category && let Some(set) = unsafe { raw::RedisModule_SetCommandACLCategories } {
        let kind = if command.flags.to_bytes().starts_with(b"readonly") { "read" } else { "write" };
        let categories = CString::new(format!("everleaf {kind}")).ok()?;
        // SAFETY: the command was just created; the server reads the names.
        is_ok(unsafe { set(created, categories.as_ptr()) })?;
    }
    Some(())
}

/// Arity, documentation, and where the key is.
fn describe(created: *mut raw::RedisModuleCommand, command: &'static Command) -> Option<c_int> {
    let version = raw::RedisModuleCommandInfoVersion {
        version: 1,
        sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
        sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
        sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
    };
    // SAFETY: structs of numbers, pointers and optional functions, of which all zeros is a value: it
    // ends the array of specifications.
    let mut keys: [raw::RedisModuleCommandKeySpec; 2] = unsafe { std::mem::zeroed() };
    keys[0].flags = u64::from(command.access);
    keys[0].begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
    keys[0].bs.index.pos = 1;
    keys[0].find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
    keys[0].fk.range.lastkey = 0;
    keys[0].fk.range.keystep = 1;
    let mut info = raw::RedisModuleCommandInfo {
        version: &version,
        summary: command.summary.as_ptr(),
        complexity: command.complexity.as_ptr(),
        since: c"0.1.0".as_ptr(),
        arity: command.arity,
        key_specs: keys.as_mut_ptr(),
        // SAFETY: all zeros is a value, as it is of `keys`.
        ..unsafe { std::mem::zeroed() }
    };
    // SAFETY: the command was just created; the server copies what it is told.
    Some(unsafe { server!(RedisModule_SetCommandInfo(created, &mut info)) })
}

fn log(context: *mut raw::RedisModuleCtx, level: &CStr, message: &str) {
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    // SAFETY: the context is the server's; `%s` stands for the message.
    unsafe { server!(RedisModule_Log(context, level.as_ptr(), c"%s".as_ptr(), message.as_ptr())) };
}
