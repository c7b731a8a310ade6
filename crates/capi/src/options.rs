//! How a store is opened: numbers by name, so that later versions can have more of them.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::time::Duration;

use everleaf::{Domain, Durability, Options, Tree};

use crate::argument::{Context, el_slice, el_text_fn, handle_place};
use crate::code::{EL_OK, Failure};
use crate::entry::{entry, invalid};
use crate::handle::{exclusive, free, give, kind};

/// 1: create the pool if there is none. Default: 0. It and `EL_CREATE_NEW` are one setting: what is set last counts.
pub const EL_CREATE: c_int = 1;
/// 1: create the pool, and fail if there is one. Default: 0. See `EL_CREATE`.
pub const EL_CREATE_NEW: c_int = 2;
/// 1: change nothing in the file. Default: 0.
pub const EL_READ_ONLY_OPEN: c_int = 3;
/// Bytes of a new file. Default: as few as possible.
pub const EL_INITIAL_SIZE: c_int = 4;
/// Bytes to which the file may grow. Default: 64 GiB for a new pool.
pub const EL_MAX_SIZE: c_int = 5;
/// What is to survive: `EL_PROCESS` or `EL_POWER`. Default: as the pool was opened last. It and `EL_INTERVAL_MS` are
/// one setting: what is set last counts.
pub const EL_DURABILITY: c_int = 6;
/// A crash of the machine loses at most the writes of so many milliseconds. See `EL_DURABILITY`.
pub const EL_INTERVAL_MS: c_int = 7;
/// 1: open a pool although the machine crashed while it was open. Default: 0.
pub const EL_TRUST_AFTER_MACHINE_CRASH: c_int = 8;
/// Threads for recovery; 0 for one per CPU. Default: 0.
pub const EL_RECOVERY_THREADS: c_int = 9;
/// 1: remove keys that have expired, in the background. Default: 1. With 0 a store without a log has no thread: its
/// free space is not returned, and only `el_store_sync` and closing notice that its file was removed.
pub const EL_SWEEP: c_int = 10;
/// 1: compare the check sum of what a get finds. Default: 0.
pub const EL_VERIFY_READS: c_int = 11;
/// Bytes in the log after which a snapshot is written. Default: 1 GiB.
pub const EL_SNAPSHOT_AFTER: c_int = 12;
/// Bytes of memory for old values that open views need; 0 for no limit. Default: 0.
pub const EL_VIEW_MEMORY: c_int = 13;
/// 1: compare the check sum of every pair that an iterator or a scan comes to. Default: 1.
pub const EL_VERIFY_SCANS: c_int = 14;
/// 1: go on although the log is damaged, with what can be proven of it; what was logged behind the damage is lost, if
/// the pool is lost as well. `el_store_rebuilt` tells what was found. Default: 0.
pub const EL_SALVAGE_LOG: c_int = 15;
/// The tree that maps of a new pool are in, or of one that is made anew: `EL_NBTREE` or `EL_HASHED_LEAF`. Default: that
/// of the pool; `EL_NBTREE` for a new one.
pub const EL_TREE: c_int = 16;
/// What a write must reach to survive: `EL_DOMAIN_ADR`, `EL_DOMAIN_EADR` or `EL_DOMAIN_PROCESS`. Default: detected.
pub const EL_DOMAIN: c_int = 17;
/// As `EL_DURABILITY`, of a pool that is created on an ordinary disk; one that is there keeps its own.
pub const EL_DURABILITY_OF_NEW: c_int = 18;
/// As `EL_INTERVAL_MS`, of such a pool.
pub const EL_INTERVAL_MS_OF_NEW: c_int = 19;

/// Of `EL_DURABILITY`: everything acknowledged survives the death of the process, if the pool is opened again before
/// the machine is restarted or its volume unmounted (otherwise `EL_MACHINE_CRASHED`).
pub const EL_PROCESS: u64 = 0;
/// Of `EL_DURABILITY`: everything acknowledged survives the loss of power.
pub const EL_POWER: u64 = 1;

/// Of `EL_TREE`: leaves of 1 KiB, written one entry behind the other.
pub const EL_NBTREE: u64 = 0;
/// Of `EL_TREE`: leaves of 4 KiB that are hash tables. Older versions refuse a pool that was ever made so.
pub const EL_HASHED_LEAF: u64 = 1;

/// Of `EL_DOMAIN`: durable once flushed and drained; survives loss of power.
pub const EL_DOMAIN_ADR: u64 = 1;
/// Of `EL_DOMAIN`: durable once globally visible; survives loss of power.
pub const EL_DOMAIN_EADR: u64 = 2;
/// Of `EL_DOMAIN`: durable once globally visible; survives the death of the process only.
pub const EL_DOMAIN_PROCESS: u64 = 3;

/// What `el_options` holds.
#[derive(Default)]
pub struct Opening {
    pub(crate) options: Options,
    pub(crate) log: Option<Log>,
}

/// The function that is told what a store does.
#[derive(Clone, Copy)]
pub struct Log {
    tell: extern "C" fn(*mut c_void, el_slice),
    context: Context,
}

impl Log {
    pub(crate) fn say(&self, text: &str) {
        (self.tell)(self.context.get(), el_slice::shown(text.as_bytes()));
    }
}

kind! {
    /// How to open a store. For one call at a time.
    el_options, Opening, b"elOption"
}

/// Stores new options, with the defaults, at `options`. Free them with `el_options_free`.
#[unsafe(no_mangle)]
pub extern "C" fn el_options_new(options: Option<&mut MaybeUninit<*mut el_options>>) -> c_int {
    entry(|| give(Some(handle_place(options)?), Opening::default()))
}

/// Frees options; NULL is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn el_options_free(options: Option<&mut el_options>) -> c_int {
    entry(|| free(options))
}

fn durability(number: u64) -> Result<Durability, Failure> {
    match number {
        EL_PROCESS => Ok(Durability::Process),
        EL_POWER => Ok(Durability::Power),
        _ => Err(invalid("the durability is EL_PROCESS or EL_POWER")),
    }
}

fn interval(ms: u64) -> Durability {
    Durability::Interval(Duration::from_millis(ms))
}

fn tree(number: u64) -> Result<Tree, Failure> {
    match number {
        EL_NBTREE => Ok(Tree::NbTree),
        EL_HASHED_LEAF => Ok(Tree::HashedLeaf),
        _ => Err(invalid("the tree is EL_NBTREE or EL_HASHED_LEAF")),
    }
}

fn domain(number: u64) -> Result<Domain, Failure> {
    match number {
        EL_DOMAIN_ADR => Ok(Domain::Adr),
        EL_DOMAIN_EADR => Ok(Domain::Eadr),
        EL_DOMAIN_PROCESS => Ok(Domain::Process),
        _ => Err(invalid("the domain is EL_DOMAIN_ADR, EL_DOMAIN_EADR or EL_DOMAIN_PROCESS")),
    }
}

/// Sets an option, one of `EL_CREATE` to `EL_INTERVAL_MS_OF_NEW`.
#[unsafe(no_mangle)]
pub extern "C" fn el_options_set(
    options: Option<&mut el_options>,
    option: c_int,
    number: u64,
) -> c_int {
    entry(|| {
        let mut opening = exclusive(options)?;
        let given = opening.options.clone();
        let yes = || match number {
            0 | 1 => Ok(number == 1),
            _ => Err(invalid("this option is 0 or 1")),
        };
        opening.options = match option {
            EL_CREATE => given.create(yes()?),
            EL_CREATE_NEW => given.create_new(yes()?),
            EL_READ_ONLY_OPEN => given.read_only(yes()?),
            EL_INITIAL_SIZE => given.initial_size_bytes(number),
            EL_MAX_SIZE => given.max_size_bytes(number),
            EL_DURABILITY => given.durability(durability(number)?),
            EL_DURABILITY_OF_NEW => given.durability_of_new(durability(number)?),
            EL_INTERVAL_MS => given.durability(interval(number)),
            EL_INTERVAL_MS_OF_NEW => given.durability_of_new(interval(number)),
            EL_TRUST_AFTER_MACHINE_CRASH => given.trust_after_machine_crash(yes()?),
            EL_RECOVERY_THREADS => given.recovery_threads(number.min(1024) as usize),
            EL_SWEEP => given.sweep(yes()?),
            EL_VERIFY_READS => given.verify_reads(yes()?),
            EL_SNAPSHOT_AFTER => given.snapshot_after_bytes(number),
            EL_VIEW_MEMORY => given.view_memory_bytes(number),
            EL_VERIFY_SCANS => given.verify_scans(yes()?),
            EL_SALVAGE_LOG => given.salvage_log(yes()?),
            EL_TREE => given.tree(tree(number)?),
            EL_DOMAIN => given.domain(domain(number)?),
            _ => return Err(invalid("there is no option of this number")),
        };
        Ok(EL_OK)
    })
}

/// Lets `tell` know what a store that is opened with these options does: opening with what it found; snapshots, also
/// those that are written in the background, and their failures; a log that failed; closing, by whichever handle goes
/// last. It is called in the thread that does so, which may be one of the store's own, so perhaps in two threads at
/// once; it must not unwind, and must not use the store. `context` must be valid until the last handle is freed, be it
/// a map, view, batch or iterator; so also behind `el_store_close` if that is `EL_STILL_OPEN`. NULL: nobody is told.
#[unsafe(no_mangle)]
pub extern "C" fn el_options_log(
    options: Option<&mut el_options>,
    tell: el_text_fn,
    context: *mut c_void,
) -> c_int {
    entry(|| {
        let mut opening = exclusive(options)?;
        let log = tell.map(|tell| Log { tell, context: Context::new(context) });
        opening.log = log;
        let given = opening.options.clone();
        let given = given.rebuild_progress(move |done| {
            if let Some(log) = log {
                log.say(&format!("rebuilding: {done} pairs and changes"));
            }
        });
        opening.options = given.events(move |event| {
            if let Some(log) = log {
                log.say(&event.to_string());
            }
        });
        Ok(EL_OK)
    })
}
