//! `everleaf import`: the keys of a Redis or Valkey server, or of a file of one, in a new pool.

mod arguments;
mod clock;
mod comparison;
mod item;
mod kind;
mod live;
mod masters;
mod onto;
mod pieces;
mod refusal;
mod report;
mod source;

pub use arguments::ImportArgs;
pub(super) use clock::has_expired;
pub(super) use comparison::Comparison;
pub(super) use masters::Masters;

use crate::failure::Failure;
use crate::global::Global;
use crate::output::{Output, counted};
use crate::progress::Progress;
use crate::redis::address::Address;
use everleaf::new_file::NewFile;
use everleaf::{Options, Store};
use everleaf_server::Config;
use everleaf_server::transfer::{Keyspace, RdbError, TransferError};
use item::Item;
use refusal::{refused, refused_by, shown};
use report::{Report, told_of_empty};
use serde::Serialize;
use source::Source;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

/// Keys between two updates of the progress bar.
const PROGRESS_STEP: u64 = 512;

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
    new.place_for_owner()?;
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
    keyspace.flush().map_err(|error| refused_by(None, &error))?;
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
    let refuse = |database, key: &[u8], error| refused_by(Some(&shown(database, key)), &error);
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
            let added = keyspace.add_chunk(database, &key, &members);
            added.map_err(|why| refuse(database, &key, why))?;
        }
        Item::End { database, key, extent, is_exact, .. } => {
            let found = keyspace.extent(database, &key);
            let found = found.map_err(|why| refuse(database, &key, TransferError::Text(why)))?;
            if is_exact && found.map_or(0, |found| found.count) != extent.count {
                let twice = TransferError::Text("a member of it comes twice".to_string());
                return Err(refuse(database, &key, twice));
            }
            let ended = keyspace.end_chunks(database, &key, extent.expiry_ms);
            match ended.map_err(|why| refuse(database, &key, why))? {
                true => report.keys += 1,
                false => report.expired += 1,
            }
        }
        Item::Empty => report.empty += 1,
        Item::Unsupported { .. } if args.skip_unsupported => report.skipped += 1,
        Item::Unsupported { database, key, what } => {
            let place = match key {
                Some(key) => format!("{} holds {what}", shown(database, &key)),
                None => format!("the source has {what}"),
            };
            return Err(refused(format!(
                "{place}, which Everleaf does not have: --skip-unsupported imports the rest"
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
    if keyspace.contains(database, key).map_err(|error| refused_by(Some(&name), &error))? {
        let reason = format!("the key {name} is there a second time");
        let error = RdbError { offset, reason, is_io: false };
        let source = Path::new(&args.source).display();
        return Err(refused(format!("{source}: {error}")));
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
                keyspace.remove(database, &key).map_err(|error| refused_by(None, &error))?;
                report.removed += 1;
            }
        }
    }
    keyspace.flush().map_err(|error| refused_by(None, &error))
}

/// What is told as JSON.
#[derive(Serialize)]
struct Told<'a> {
    by_database: BTreeMap<String, u64>,
    databases_needed: u64,
    empty: u64,
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
            empty: report.empty,
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
        count => format!(", {} skipped", counted(count, "unsupported item")),
    };
    let empty = told_of_empty(report);
    let removed = match report.removed {
        0 => String::new(),
        count => {
            format!(", {} removed because the source removed them meanwhile", counted(count, "key"))
        }
    };
    out.line(&format!(
        "imported {} of {} into {}{}{removed}{skipped}{empty}",
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
