//! `everleaf import`: the keys of a Redis or Valkey server, or of a file of one, in a new pool.

mod comparison;
mod live;
mod masters;
mod onto;
mod pieces;
mod source;

pub(super) use comparison::Comparison;
pub(super) use masters::Masters;

use crate::arguments::NewPoolArgs;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::global::Global;
use crate::output::{Output, counted};
use crate::progress::Progress;
use crate::redis::address::Address;
use clap::Args;
use everleaf::new_file::NewFile;
use everleaf::{Options, Store};
use everleaf_server::Config;
use everleaf_server::transfer::{Entry, Extent, Keyspace, Rdb, RdbError, RdbRecord, Value};
use serde::Serialize;
use source::Source;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Read;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  everleaf import redis://10.0.0.7:6379 shop.pool
  everleaf import rediss://10.0.0.7:6380 shop.pool --cacert ca.crt
  REDISCLI_AUTH=secret everleaf import redis://reader@10.0.0.7 shop.pool
  everleaf import dump.rdb shop.pool
  everleaf import redis-cluster://10.0.0.7:7001 shop.pool
  everleaf import redis://10.0.0.7:6379 redis://127.0.0.1:6399 --follow 30

A server is only read (SCAN, TYPE, MEMORY USAGE, DUMP, PEXPIRETIME, INFO): all its databases, or the one that the
address ends with (redis://HOST:PORT/3). Collections of more than 64 MiB are read in pieces (HSCAN, SSCAN,
ZSCAN, LRANGE, and their lengths). Let nobody write meanwhile: keys that are removed there before they are
compared are removed here, too, and any other difference that is found refuses all; what is written later
is missing. Of a cluster all masters are read, one after the other, and slots that move meanwhile refuse all.
Files are those of Redis up to 7.2 and Valkey 8. Strings, lists, sets, hashes and
sorted sets are taken, with their times; streams, modules and functions there are not here.

To a server that runs, of Everleaf or another with this protocol, the source sends what it sends to its replicas: a
snapshot of all keys, and every change behind it (PSYNC, of Redis and Valkey; not of a cluster as a whole). The
target must have no keys. With --follow SECONDS changes are passed on until there was none for so long: let
programs write to the target when the source is silent. Where keys expire the clocks of both, and of this machine, must agree. At the end
both are compared.

The pool must not exist, and gets its name when all of it is there and compared with the source once
more; so a file must be one that can be read twice, and no pipe, unless --no-verify is given. An import that is cut short leaves nothing behind and begins anew. The pool has no log yet:
`everleaf serve POOL --durability interval` gives it one.";

/// Keys between two updates of the progress bar.
const PROGRESS_STEP: u64 = 512;

/// Copy a Redis or Valkey server, or its file, into a new pool
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// The address of the server, redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE] or rediss:// with TLS; of a server
    /// of a cluster, redis-cluster:// or rediss-cluster://; or an RDB file
    pub source: String,
    /// The pool file to create, or the address of a server without keys that gets them
    pub pool: PathBuf,
    /// Pass on what is written to the source, until it has been silent for so many seconds (to a server)
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub follow: Option<u64>,
    /// Skip and count what Everleaf has no type for, instead of refusing everything
    #[arg(long)]
    pub skip_unsupported: bool,
    /// Do not compare the pool with the source when all is copied
    #[arg(long)]
    pub no_verify: bool,
    /// Certificates in PEM that are trusted (rediss://) [default: those of the system]
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// How long the server may be silent, as it is while it makes a long reply
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: u64,
    /// Collections that take more of the server's memory are read in pieces
    #[arg(long, hide = true, value_name = "BYTES", default_value_t = 64 << 20)]
    pub whole_size_max: u64,
    /// The properties of the pool.
    #[command(flatten)]
    pub new_pool: NewPoolArgs,
}

/// A key of the source, or why there is none.
pub(super) enum Item {
    Key {
        database: u64,
        key: Vec<u8>,
        entry: Entry,
        /// How much its time may be off.
        slack_ms: u64,
        /// Where it stands in a file, which has each key once.
        offset: Option<u64>,
    },
    Unsupported {
        database: u64,
        key: Option<Vec<u8>>,
        what: String,
    },
    /// A large collection: it begins anew, has members (of a list those from an index on), and ends.
    Begin {
        database: u64,
        key: Vec<u8>,
        /// Where it stands in a file, which has each key once.
        offset: Option<u64>,
    },
    Members {
        database: u64,
        key: Vec<u8>,
        first: u64,
        members: Value,
    },
    End {
        database: u64,
        key: Vec<u8>,
        extent: Extent,
        slack_ms: u64,
        /// Whether the source cannot have changed meanwhile, so that there are as many members as were shown.
        is_exact: bool,
    },
}

/// Shows what an RDB file has, which comes from a place. Returns the database of the stream behind it, if it names one.
fn each_record(
    input: impl Read,
    place: &dyn Display,
    see: &mut dyn FnMut(Item) -> Result<(), Failure>,
) -> Result<Option<u64>, Failure> {
    let refuse = |error| Failure::new(ExitCode::Pool, format!("{place}: {error}"));
    let mut rdb = Rdb::open(input).map_err(refuse)?;
    loop {
        // Before its time, which stands in front of it.
        let offset = Some(rdb.offset());
        let Some(record) = rdb.next_record().map_err(refuse)? else { break };
        see(match record {
            RdbRecord::Key { database, key, expiry_ms, value } => {
                let entry = Entry { value, expiry_ms };
                Item::Key { database, key, entry, slack_ms: 0, offset }
            }
            RdbRecord::Begin { database, key } => Item::Begin { database, key, offset },
            RdbRecord::Members { database, key, first, members } => {
                Item::Members { database, key, first, members }
            }
            RdbRecord::End { database, key, expiry_ms, count } => {
                let extent = Extent { count, expiry_ms };
                Item::End { database, key, extent, slack_ms: 0, is_exact: true }
            }
            RdbRecord::Unsupported { database, key, what } => {
                Item::Unsupported { database, key, what: what.to_string() }
            }
        })?;
    }
    Ok(rdb.stream_database())
}

/// What was done.
#[derive(Default)]
struct Report {
    keys: u64,
    expired: u64,
    skipped: u64,
    verified: u64,
    /// Keys that were copied and then removed at the source.
    removed: u64,
    by_database: BTreeMap<u64, u64>,
}

/// Copies all keys.
pub fn run(args: ImportArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    if let Some(target) = args.pool.to_str().map(Address::parse).transpose()?.flatten() {
        return onto::run(&args, &target, global, out);
    }
    if args.follow.is_some() {
        return Err(Failure::usage(
            "--follow passes on what is written to a server that runs: name it as redis://HOST:PORT, not a pool",
        ));
    }
    if args.pool.symlink_metadata().is_ok() {
        return Err(everleaf::Error::AlreadyExists(args.pool).into());
    }
    // The pool is made under another name, where no log is.
    everleaf::refuse_log_beside(&args.pool)?;
    let mut source = Source::of(&args, global)?;
    let new = NewFile::beside(&args.pool)?;
    let options = args.new_pool.apply(Options::new().create_new(true).sweep(false))?;
    let store = options.open(new.path())?;
    let report = copy(&args, &mut source, &store, global)?;
    store.close()?;
    new.place()?;
    tell(&args, &report, global, out)
}

fn copy(
    args: &ImportArgs,
    source: &mut Source,
    store: &Store,
    global: Global,
) -> Result<Report, Failure> {
    let mut report = Report::default();
    let mut keyspace = Keyspace::new(store)?;
    let show = global.wants_progress();
    let progress = match source.key_count() {
        Some(count) => Progress::pairs(show, "importing", count),
        None => Progress::count(show, "importing"),
    };
    source.each(&mut |item| {
        take(args, item, &mut keyspace, &mut report)?;
        let seen = report.keys + report.expired + report.skipped;
        if seen.is_multiple_of(PROGRESS_STEP) {
            progress.set(seen);
        }
        Ok(())
    })?;
    keyspace.flush().map_err(refused)?;
    drop(progress);
    report.keys = keyspace.sizes().into_iter().map(|(_, keys)| keys).sum();
    if !args.no_verify {
        source.rewind()?;
        verify(source, &mut keyspace, &mut report, show)?;
        remove_gone(source, &mut keyspace, &mut report)?;
    }
    report.by_database = keyspace.sizes().into_iter().filter(|(_, keys)| *keys > 0).collect();
    report.keys = report.by_database.values().sum();
    Ok(report)
}

fn take(
    args: &ImportArgs,
    item: Item,
    keyspace: &mut Keyspace<'_>,
    report: &mut Report,
) -> Result<(), Failure> {
    let refuse = |database, key: &[u8], why| refused(format!("{}: {why}", shown(database, key)));
    match item {
        Item::Key { database, key, entry, offset, .. } => {
            refuse_second(args, keyspace, (database, &key), offset)?;
            let put = keyspace.put(database, &key, &entry);
            match put.map_err(|why| refuse(database, &key, why))? {
                true => report.keys += 1,
                false => report.expired += 1,
            }
        }
        Item::Begin { database, key, offset } => {
            refuse_second(args, keyspace, (database, &key), offset)?;
            keyspace.remove(database, &key).map_err(|why| refuse(database, &key, why))?;
        }
        Item::Members { database, key, members, .. } => {
            let added = keyspace.add_piece(database, &key, &members);
            added.map_err(|why| refuse(database, &key, why))?;
        }
        Item::End { database, key, extent, is_exact, .. } => {
            let found = keyspace.extent(database, &key);
            let found = found.map_err(|why| refuse(database, &key, why))?;
            if is_exact && found.map_or(0, |found| found.count) != extent.count {
                return Err(refuse(database, &key, "a member of it comes twice".to_string()));
            }
            let ended = keyspace.end_pieces(database, &key, extent.expiry_ms);
            match ended.map_err(|why| refuse(database, &key, why))? {
                true => report.keys += 1,
                false => report.expired += 1,
            }
        }
        Item::Unsupported { .. } if args.skip_unsupported => report.skipped += 1,
        Item::Unsupported { database, key, what } => {
            let place = match key {
                Some(key) => format!("{} holds {what}", shown(database, &key)),
                None => format!("the source has {what}"),
            };
            return Err(refused(format!(
                "{place}, which there is not here: --skip-unsupported imports the rest"
            )));
        }
    }
    Ok(())
}

/// Refuses a file that has a key twice: nobody can tell which of the two is meant. A server may show a key twice that
/// is written meanwhile.
fn refuse_second(
    args: &ImportArgs,
    keyspace: &mut Keyspace<'_>,
    (database, key): (u64, &[u8]),
    offset: Option<u64>,
) -> Result<(), Failure> {
    let Some(offset) = offset else { return Ok(()) };
    let name = shown(database, key);
    if keyspace.contains(database, key).map_err(|why| refused(format!("{name}: {why}")))? {
        let error = RdbError { offset, reason: format!("the key {name} is there a second time") };
        return Err(refused(format!("{}: {error}", args.source)));
    }
    Ok(())
}

/// Compares the pool with the source, which is read once more.
fn verify(
    source: &mut Source,
    keyspace: &mut Keyspace<'_>,
    report: &mut Report,
    show: bool,
) -> Result<(), Failure> {
    let mut comparison = Comparison::new(Progress::pairs(show, "comparing", report.keys));
    source.each(&mut |item| comparison.take(keyspace, item))?;
    report.verified = comparison.compared;
    if comparison.different == 0 {
        return Ok(());
    }
    Err(Failure::not_found(format!(
        "{} of the source differ from what was imported ({}), so no pool was made: let nobody write to the \
         source meanwhile, or take what there is with --no-verify",
        counted(comparison.different, "key"),
        comparison.named(),
    )))
}

/// Removes what was copied and is not there at the source any more.
fn remove_gone(
    source: &mut Source,
    keyspace: &mut Keyspace<'_>,
    report: &mut Report,
) -> Result<(), Failure> {
    for (database, _) in keyspace.sizes() {
        let mut behind = None;
        loop {
            let keys = keyspace.keys_after(database, behind.as_deref()).map_err(refused)?;
            let Some(last) = keys.last() else { break };
            behind = Some(last.clone());
            for key in source.gone(database, keys)? {
                keyspace.remove(database, &key).map_err(refused)?;
                report.removed += 1;
            }
        }
    }
    keyspace.flush().map_err(refused)
}

pub(super) fn has_expired(expiry_ms: Option<u64>) -> bool {
    expiry_ms.is_some_and(|time| time <= now_ms())
}

fn now_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| since.as_millis() as u64)
}

fn shown(database: u64, key: &[u8]) -> String {
    const SIZE_MAX: usize = 100;
    let text = key[..key.len().min(SIZE_MAX)].escape_ascii();
    format!("\"{text}\" of database {database}")
}

fn refused(why: String) -> Failure {
    Failure::new(ExitCode::Pool, format!("{why}; no pool was made"))
}

/// What is told as JSON.
#[derive(Serialize)]
struct Told<'a> {
    by_database: BTreeMap<String, u64>,
    databases_needed: u64,
    expired: u64,
    keys: u64,
    pool: Cow<'a, str>,
    removed: u64,
    skipped: u64,
    verified: bool,
}

fn tell(
    args: &ImportArgs,
    report: &Report,
    global: Global,
    out: &mut Output,
) -> Result<(), Failure> {
    if global.json {
        let of_one = |(number, keys): (&u64, &u64)| (number.to_string(), *keys);
        let by_database = report.by_database.iter().map(of_one).collect();
        return out.json(&Told {
            by_database,
            databases_needed: databases_needed(report),
            expired: report.expired,
            keys: report.keys,
            pool: args.pool.to_string_lossy(),
            removed: report.removed,
            skipped: report.skipped,
            verified: !args.no_verify,
        });
    }
    if global.quiet {
        return Ok(());
    }
    let databases = report.by_database.len().max(1) as u64;
    let skipped = match report.skipped {
        0 => String::new(),
        count => format!(", {} left away that there is not here", counted(count, "thing")),
    };
    let removed = match report.removed {
        0 => String::new(),
        count => format!(", {} removed that went there meanwhile", counted(count, "key")),
    };
    out.line(&format!(
        "imported {} of {} into {}{}{removed}{skipped}",
        counted(report.keys, "key"),
        counted(databases, "database"),
        args.pool.display(),
        if args.no_verify { ", not compared" } else { ", compared with the source" }
    ))?;
    let needed = databases_needed(report);
    if needed > Config::default().databases as u64 {
        out.line(&format!(
            "database {} has keys: serve the pool with --databases {needed} or more",
            needed - 1
        ))?;
    }
    Ok(())
}

/// How many databases a server must have for all keys.
fn databases_needed(report: &Report) -> u64 {
    report.by_database.last_key_value().map_or(1, |(last, _)| last + 1)
}
