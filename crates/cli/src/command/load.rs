//! `everleaf load`: pairs from files.

use crate::arguments::{NewPoolArgs, pool_and_rest};
use crate::failure::Failure;
use crate::format::Format;
use crate::format::columns::{Column, ColumnChoice};
use crate::global::Global;
use crate::ingest::{self, Input, LoadResult, Settings};
use crate::input::standard_input;
use crate::open::{self, MapArgs};
use crate::output::{Output, counted, human_duration, remark};
use crate::progress::Progress;
use clap::Args;
use everleaf::human_size;
use serde::Serialize;
use std::cell::Cell;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::num::NonZero;
use std::path::Path;
use std::thread;
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  everleaf load words.pool words.tsv
  everleaf load words.pool people.csv --key-column email --value-column name
  everleaf load words.pool events.jsonl --map events
  zcat words.tsv.gz | everleaf load words.pool -
  everleaf load words.pool /usr/share/dict/words --format tsv --keys-only
  everleaf load words.pool words.tsv --if-absent --skip-bad
  everleaf load new.pool words.tsv --create

Formats, told by the extension of the file unless --format is given:
  tsv    KEY<tab>VALUE; \\t \\n \\r \\\\ stand for tab, line feed, carriage return, backslash
  csv    KEY,VALUE, quoted as RFC 4180 says
  jsonl  {\"key\":\"K\",\"value\":\"V\"}; \"key_b64\" and \"value_b64\" hold base64

A later line replaces the value of an earlier one. Every line reported as loaded stays in the
pool, also when the load ends early. Blank lines are passed over.
With EVERLEAF_POOL set, POOL may be left out when one file is given.";

/// Load pairs from TSV, CSV or JSON-lines files
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, override_usage = "everleaf load [OPTIONS] [POOL] <FILE>...")]
pub struct LoadArgs {
    /// The pool file (or EVERLEAF_POOL)
    pub pool: Option<OsString>,
    /// The files to load, one after another; `-` is the standard input
    #[arg(value_name = "FILE")]
    pub files: Vec<OsString>,
    /// The format of the files; told by their extension if not given, tsv for `-`
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// The column of the keys (TSV, CSV): its number from 1, or its name in the header
    #[arg(long, value_name = "COLUMN")]
    pub key_column: Option<Column>,
    /// The column of the values (TSV, CSV): its number from 1, or its name in the header
    #[arg(long, value_name = "COLUMN", conflicts_with = "keys_only")]
    pub value_column: Option<Column>,
    /// The first line of each file holds column names (TSV, CSV); implied by a named column
    #[arg(long)]
    pub header: bool,
    /// There are no values: each key gets an empty one
    #[arg(long)]
    pub keys_only: bool,
    /// Keep the value of a key that is in the pool already
    #[arg(long)]
    pub if_absent: bool,
    /// Pass over malformed lines and count them; otherwise the load stops at the first
    #[arg(long)]
    pub skip_bad: bool,
    /// Writer threads; one per CPU if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
    /// Create the pool if there is none
    #[arg(long)]
    pub create: bool,
    /// The properties of a pool that is created.
    #[command(flatten)]
    pub new_pool: NewPoolArgs,
    /// Which map.
    #[command(flatten)]
    pub map: MapArgs,
}

/// Loads the files.
pub fn run(args: LoadArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let (pool, files) = pool_and_rest(args.pool, args.files, &["FILE"])?;
    let choice = ColumnChoice {
        key: args.key_column,
        value: args.value_column,
        header: args.header,
        keys_only: args.keys_only,
    };
    if files.iter().filter(|file| is_standard_input(Path::new(file))).count() > 1 {
        return Err(Failure::usage("the standard input can be read once: give - once"));
    }
    // The inputs first: nothing is created or changed when one of them is not there.
    let read = Cell::new(0);
    let mut total = Some(0);
    let mut inputs = Vec::new();
    for file in &files {
        let path = Path::new(file);
        let format = format_of(path, args.format, &choice)?;
        let source = Source::open(path)?;
        total = total.zip(source.size_bytes).map(|(total, size)| total + size);
        let counted = BufReader::with_capacity(256 << 10, Counted { source, read: &read });
        inputs.push(Input {
            name: if is_standard_input(path) { "stdin".into() } else { path.display().to_string() },
            reader: format.reader(counted, &choice),
        });
    }
    let options = args.map.trust.options().create(args.create);
    let store = open::with_progress(args.new_pool.apply(options)?, &pool, global)?;
    let map = open::map_or_new(&store, args.map.map.as_deref())?;
    let cpus = || thread::available_parallelism().map_or(1, NonZero::get);
    let settings = Settings {
        threads: args.threads.map_or_else(cpus, usize::from),
        if_absent: args.if_absent,
        skip_bad: args.skip_bad,
    };
    let started = Instant::now();
    let progress = Progress::bytes(global.wants_progress(), "loading", total);
    let outcome = ingest::run(&store, &map, settings, &mut inputs, &|| read.get(), &progress);
    drop(progress);
    drop(map);
    let seconds = started.elapsed().as_secs_f64();
    report(&outcome, seconds, global, out)?;
    let is_gone = store.is_pool_gone();
    let closed = store.close();
    match outcome.failure {
        Some(mut failure) => {
            let lines = counted(outcome.counts.lines(), "line");
            if !is_gone {
                failure.message.push_str(&format!("; what was loaded ({lines}) stays in the pool"));
            }
            Err(failure)
        }
        None => Ok(closed?),
    }
}

/// What is told as JSON.
#[derive(Serialize)]
struct Loaded<'a> {
    bytes: u64,
    complete: bool,
    inserted: u64,
    kept: u64,
    lines: u64,
    replaced: u64,
    seconds: f64,
    /// The first of them, as sentences.
    shown: &'a [String],
    skipped: u64,
}

fn report(
    outcome: &LoadResult,
    seconds: f64,
    global: Global,
    out: &mut Output,
) -> Result<(), Failure> {
    let counts = &outcome.counts;
    if !global.quiet && !global.json {
        for line in &outcome.shown {
            remark(&format!("skipped {line}"));
        }
    }
    if global.json {
        return out.json(&Loaded {
            bytes: counts.bytes,
            complete: outcome.failure.is_none(),
            inserted: counts.inserted,
            kept: counts.kept,
            lines: counts.lines(),
            replaced: counts.replaced,
            seconds,
            shown: &outcome.shown,
            skipped: outcome.skipped,
        });
    }
    if global.quiet {
        return Ok(());
    }
    let mut text = format!(
        "loaded {}: {}, {} replaced",
        counted(counts.lines(), "line"),
        counted(counts.inserted, "new key"),
        counted(counts.replaced, "value")
    );
    if counts.kept > 0 {
        text.push_str(&format!(", {} there already", counted(counts.kept, "key")));
    }
    if outcome.skipped > 0 {
        text.push_str(&format!(", {} skipped", counted(outcome.skipped, "malformed line")));
    }
    let (size, time) = (human_size(counts.bytes), human_duration(seconds));
    out.line(&format!("{text}; {size} of keys and values in {time}"))
}

fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

fn format_of(path: &Path, given: Option<Format>, choice: &ColumnChoice) -> Result<Format, Failure> {
    let told = || if is_standard_input(path) { Some(Format::Tsv) } else { Format::of_path(path) };
    let format = given.or_else(told).ok_or_else(|| {
        let path = path.display();
        Failure::usage(format!(
            "the name of {path} does not tell its format: add --format tsv, csv or jsonl"
        ))
    })?;
    if format == Format::Jsonl && (choice.is_explicit() || choice.header) {
        return Err(Failure::usage(
            "JSON lines have no columns: leave out --key-column, --value-column and --header",
        ));
    }
    Ok(format)
}

/// A file or the standard input.
struct Source {
    reader: Box<dyn Read>,
    /// Its size, if it is a regular file.
    size_bytes: Option<u64>,
}

impl Source {
    fn open(path: &Path) -> Result<Self, Failure> {
        if is_standard_input(path) {
            return Ok(Self { reader: Box::new(standard_input()?), size_bytes: None });
        }
        let refuse =
            |error: io::Error| Failure::io(&format!("cannot read {}", path.display()), &error);
        let file = File::open(path).map_err(refuse)?;
        let metadata = file.metadata().map_err(refuse)?;
        if metadata.is_dir() {
            return Err(refuse(io::ErrorKind::IsADirectory.into()));
        }
        let size_bytes = metadata.is_file().then_some(metadata.len());
        Ok(Self { reader: Box::new(file), size_bytes })
    }
}

/// Counts the bytes read, for the progress bar.
struct Counted<'c> {
    source: Source,
    read: &'c Cell<u64>,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.source.reader.read(buffer)?;
        self.read.set(self.read.get() + size as u64);
        Ok(size)
    }
}
