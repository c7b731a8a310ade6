//! `everleaf export`: pairs into a file, or all keys into a cluster.

mod to_cluster;

use super::scan::Selection;
use crate::arguments::{EncodingArgs, RangeArgs, pool_and_rest};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::format::{Format, PairWriter, resp};
use crate::global::Global;
use crate::open::{self, MapArgs};
use crate::output::{Output, counted, remark};
use crate::progress::Progress;
use crate::redis::address::Address;
use crate::target_file::TargetFile;
use clap::{Args, ValueEnum};
use everleaf::{Map, Store};
use everleaf_server::CollectionHeaders;
use everleaf_server::transfer::{Keyspace, Part};
use serde::Serialize;
use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Pairs between two updates of the progress bar.
const PROGRESS_STEP: u64 = 4096;

const EXAMPLES: &str = "\
Examples:
  everleaf export words.pool > words.tsv
  everleaf export shop.pool --format resp | redis-cli -p 6379 --pipe
  everleaf export words.pool --output words.csv --header
  everleaf export words.pool --output backup.jsonl
  everleaf export words.pool --prefix ap --format csv
  everleaf export shop.pool --to redis-cluster://10.0.0.7:7001

Pairs come in the byte order of their keys. What `load` read, `export` writes back byte for byte,
if it was sorted by key and in the exporter's own form: in tsv the escapes \\t \\n \\r \\\\ and no
others, in csv quotes only where needed, in jsonl the members key and value without spaces.
As `resp`, all databases of a pool that a server has served are written as requests that make the same keys of
all types, with their times, in any Redis. The other formats have the pairs of one map; a key that holds a list,
hash or set ends them with code 1, or is left out with --strings-only.
With --to redis-cluster://[USER[:PASSWORD]@]HOST[:PORT], or rediss-cluster:// with TLS, all keys of a pool that has no
database but 0 go to the masters of a cluster of Redis or Valkey, of which one server is named, and are compared with
the pool afterwards. The cluster must have no keys. Slots may move meanwhile.
A file is written under another name and renamed once it is complete and on the disk.";

/// Write pairs to a TSV, CSV or JSON-lines file
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ExportArgs {
    /// The pool file (or EVERLEAF_POOL)
    pub pool: Option<OsString>,
    /// The file to write; `-` is the standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
    /// The format; told by the extension of the file if not given, otherwise tsv, or jsonl with --json
    #[arg(long, value_enum)]
    pub format: Option<ExportFormat>,
    /// Start with a line of column names (TSV, CSV)
    #[arg(long)]
    pub header: bool,
    /// Leave the values out
    #[arg(long)]
    pub keys_only: bool,
    /// Leave keys out that hold lists, hashes or sets, which only --format resp can hold, and say how many
    #[arg(long, conflicts_with = "keys_only")]
    pub strings_only: bool,
    /// Do not compare the cluster with the pool when all is copied (--to redis-cluster://)
    #[arg(long)]
    pub no_verify: bool,
    /// Certificates in PEM that are trusted (--to rediss-cluster://) [default: those of the system]
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// How long a server may be silent (--to redis-cluster://) [default: 600]
    #[arg(long, value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: Option<u64>,
    /// Which keys.
    #[command(flatten)]
    pub range: RangeArgs,
    /// Which map.
    #[command(flatten)]
    pub map: MapArgs,
    /// --from, --to and --prefix are hexadecimal
    #[arg(long, conflicts_with = "base64")]
    pub hex: bool,
    /// --from, --to and --prefix are base64
    #[arg(long)]
    pub base64: bool,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Key, tab, value; backslash escapes (.tsv, .tab, .txt)
    Tsv,
    /// Comma-separated, quoted where needed (.csv)
    Csv,
    /// One JSON object per line (.jsonl, .ndjson, .json)
    Jsonl,
    /// Requests for `redis-cli --pipe`: keys of all types of all databases, with their times
    Resp,
}

impl ExportFormat {
    /// That of pairs; `None` for requests.
    fn of_pairs(self) -> Option<Format> {
        match self {
            Self::Tsv => Some(Format::Tsv),
            Self::Csv => Some(Format::Csv),
            Self::Jsonl => Some(Format::Jsonl),
            Self::Resp => None,
        }
    }
}

/// What is told as JSON.
#[derive(Serialize)]
struct ExportedPairs<'a> {
    file: Cow<'a, str>,
    left_out: u64,
    pairs: u64,
}

/// Writes the pairs.
pub fn run(args: ExportArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let (pool, _) = pool_and_rest(args.pool.clone(), Vec::new(), &[])?;
    if let Some(address) = cluster_of(&args)? {
        return to_cluster::run(&args, &pool, &address, global, out);
    }
    let encoding = EncodingArgs { hex: args.hex, base64: args.base64 };
    let range = args.range.bounds(&encoding)?;
    let unnamed = if global.json { Format::Jsonl } else { Format::Tsv };
    let of_path = || Format::of_path(&args.output).unwrap_or(unnamed);
    let Some(format) = args.format.map_or_else(|| Some(of_path()), ExportFormat::of_pairs) else {
        let is_everything = range.as_ref().is_some_and(|range| range.is_everything());
        let is_plain =
            !args.header && !args.keys_only && !args.strings_only && args.map.map.is_none();
        if !is_everything || !is_plain {
            return Err(Failure::usage(
                "--format resp writes all keys of all databases: leave --map, --header, --keys-only, \
                 --strings-only and the range away"
                    .to_string(),
            ));
        }
        return run_requests(&args, &pool, global, out);
    };
    let store = open::for_reading(&pool, &args.map.trust)?;
    let map = open::existing_map(&store, &pool, args.map.map.as_deref())?;
    let is_everything = range.as_ref().is_some_and(|range| range.is_everything());
    let show = global.wants_progress() && is_everything;
    let job = Job {
        map: &map,
        selection: Selection { range, reverse: false, limit: None },
        header: args.header,
        collections: match (args.keys_only, args.strings_only) {
            (true, _) => Collections::Keys,
            (_, true) => Collections::LeftOut,
            _ => Collections::Refused,
        },
        headers: CollectionHeaders::of(&store)?,
        pool: &pool,
        refuses_empty: args.keys_only && format == Format::Tsv,
        progress: Progress::pairs(show, "exporting", map.len()),
    };
    if args.output == Path::new("-") {
        let mut lines = format.writer(out.writer(), args.keys_only);
        let written = job.write(lines.as_mut())?.map_err(|error| Failure::cut_off(&error))?;
        drop(lines);
        out.flush_whole()?;
        tell_left_out(global, written.left_out);
        return Ok(());
    }
    let mut target = TargetFile::create(&args.output)?;
    let mut lines = format.writer(target.writer(), args.keys_only);
    let written = job.write(lines.as_mut())?;
    drop(lines);
    let Written { pairs, left_out } = written.map_err(|error| target.failure(&error))?;
    target.finish()?;
    drop(job);
    if global.json {
        let file = args.output.to_string_lossy();
        return out.json(&ExportedPairs { file, left_out, pairs });
    }
    tell_left_out(global, left_out);
    if global.quiet {
        return Ok(());
    }
    out.line(&format!("exported {} to {}", counted(pairs, "pair"), args.output.display()))
}

/// The cluster that `--to` names, if it is no key to stop before.
fn cluster_of(args: &ExportArgs) -> Result<Option<Address>, Failure> {
    let to = args.range.to.as_ref().and_then(|to| to.to_str());
    let to = to.filter(|to| Address::is_like(to) && !args.hex && !args.base64);
    let Some(address) = to.map(Address::parse).transpose()?.flatten() else {
        if args.no_verify || args.cacert.is_some() || args.timeout.is_some() {
            return Err(Failure::usage(
                "--no-verify, --cacert and --timeout are for --to redis-cluster://HOST:PORT",
            ));
        }
        return Ok(None);
    };
    if !address.is_cluster {
        return Err(Failure::usage(
            "a single server gets all keys of `everleaf export POOL --format resp` by redis-cli --pipe; \
             --to redis-cluster://HOST:PORT is for a cluster (and a key that begins so is given with --hex)",
        ));
    }
    let is_plain = args.format.is_none()
        && !(args.header || args.keys_only || args.strings_only)
        && args.output == Path::new("-")
        && args.map.map.is_none()
        && args.range.from.is_none()
        && args.range.prefix.is_none();
    match is_plain {
        true => Ok(Some(address)),
        false => Err(Failure::usage(
            "a cluster gets all keys: leave --format, --output, --map, --header, --keys-only, --strings-only and \
             the range away",
        )),
    }
}

/// Why requests cannot be written.
enum Cause {
    /// The pool cannot be read.
    Pool(String),
    Output(io::Error),
}

impl From<String> for Cause {
    fn from(why: String) -> Self {
        Cause::Pool(why)
    }
}

/// What is told as JSON.
#[derive(Serialize)]
struct ExportedKeys<'a> {
    file: Cow<'a, str>,
    keys: u64,
}

fn run_requests(
    args: &ExportArgs,
    pool: &Path,
    global: Global,
    out: &mut Output,
) -> Result<(), Failure> {
    let store = open::for_reading(pool, &args.map.trust)?;
    let show = global.wants_progress();
    let failure = |trouble, failed: &dyn Fn(&io::Error) -> Failure| match trouble {
        Cause::Pool(why) => Failure::new(ExitCode::Pool, format!("{}: {why}", pool.display())),
        Cause::Output(error) => failed(&error),
    };
    if args.output == Path::new("-") {
        let written = write_requests(&store, out.writer(), show);
        written.map_err(|trouble| failure(trouble, &Failure::cut_off))?;
        return out.flush_whole();
    }
    let mut target = TargetFile::create(&args.output)?;
    let written = write_requests(&store, target.writer(), show);
    let keys = written.map_err(|trouble| failure(trouble, &|error| target.failure(error)))?;
    target.finish()?;
    if global.json {
        return out.json(&ExportedKeys { file: args.output.to_string_lossy(), keys });
    }
    if global.quiet {
        return Ok(());
    }
    out.line(&format!("exported {} to {}", counted(keys, "key"), args.output.display()))
}

/// Writes all keys as requests. How many they were.
fn write_requests(store: &Store, out: &mut dyn Write, show: bool) -> Result<u64, Cause> {
    let mut keyspace = Keyspace::new(store).map_err(|error| error.to_string())?;
    let sizes = keyspace.sizes();
    let progress = Progress::pairs(show, "exporting", sizes.iter().map(|(_, keys)| keys).sum());
    let mut done: u64 = 0;
    for (database, _) in sizes.into_iter().filter(|(_, keys)| *keys > 0) {
        resp::write_select(out, database).map_err(Cause::Output)?;
        keyspace.each(database, |key, part| {
            if matches!(part, Part::End(_)) {
                done += 1;
                if done.is_multiple_of(PROGRESS_STEP) {
                    progress.set(done);
                }
            }
            resp::write_part(out, key, part).map_err(Cause::Output)
        })?;
    }
    Ok(done)
}

/// Says how many keys are not in the file.
fn tell_left_out(global: Global, left_out: u64) {
    if left_out > 0 && !global.quiet {
        remark(&format!("{} with lists, hashes or sets left out", counted(left_out, "key")));
    }
}

/// What becomes of keys that hold lists, hashes or sets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Collections {
    Refused,
    LeftOut,
    Keys,
}

/// What a file of pairs has.
struct Written {
    pairs: u64,
    /// Keys that hold collections, and are not there.
    left_out: u64,
}

struct Job<'m> {
    map: &'m Map,
    selection: Selection,
    header: bool,
    collections: Collections,
    headers: CollectionHeaders,
    pool: &'m Path,
    /// Whether the empty key cannot be written.
    refuses_empty: bool,
    progress: Progress,
}

impl Job<'_> {
    /// Writes all pairs; how many, or why the file could not be written.
    fn write(&self, lines: &mut dyn PairWriter) -> Result<io::Result<Written>, Failure> {
        if self.header
            && let Err(error) = lines.header()
        {
            return Ok(Err(error));
        }
        let (mut done, mut left_out, mut refused) = (0_u64, 0, None);
        let visited = self.selection.visit(self.map, |key, value| {
            done += 1;
            if done.is_multiple_of(PROGRESS_STEP) {
                self.progress.set(done);
            }
            if self.refuses_empty && key.is_empty() {
                let why = "the map has the empty key, which alone is a blank line that `load` passes over: \
                           use --format jsonl or csv";
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            match (self.headers.kind(value), self.collections) {
                (None, _) | (_, Collections::Keys) => lines.write(key, value),
                (_, Collections::LeftOut) => {
                    left_out += 1;
                    Ok(())
                }
                (Some(kind), Collections::Refused) => {
                    refused = Some(self.refusal(key, kind));
                    Err(io::ErrorKind::InvalidData.into())
                }
            }
        })?;
        if let Some(failure) = refused {
            return Err(failure);
        }
        let visited = visited.map(|pairs| Written { pairs: pairs - left_out, left_out });
        Ok(visited.and_then(|written| lines.flush().map(|()| written)))
    }

    /// A key that pairs of strings cannot hold.
    fn refusal(&self, key: &[u8], kind: &str) -> Failure {
        Failure::not_found(format!(
            "{}: the key \"{}\" holds a {kind}, which this format cannot hold: --format resp writes all types of all \
             databases, `everleaf backup` copies the pool, --strings-only leaves such keys out",
            self.pool.display(),
            key.escape_ascii()
        ))
    }
}
