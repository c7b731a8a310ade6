//! `everleaf export`: pairs into a file.

use super::scan::Selection;
use crate::arguments::{EncodingArgs, RangeArgs, pool_and_rest};
use crate::cli::Global;
use crate::failure::Failure;
use crate::format::{Format, PairWriter};
use crate::open::{self, MapArgs};
use crate::output::{Output, counted};
use crate::progress::Progress;
use crate::target_file::TargetFile;
use clap::Args;
use everleaf::Map;
use serde_json::json;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// Pairs between two updates of the progress bar.
const PROGRESS_STEP: u64 = 4096;

const EXAMPLES: &str = "\
Examples:
  everleaf export words.pool > words.tsv
  everleaf export words.pool --output words.csv --header
  everleaf export words.pool --output backup.jsonl
  everleaf export words.pool --prefix ap --format csv

Pairs come in the byte order of their keys. What `load` read, `export` writes back byte for byte,
if it was sorted by key and in the exporter's own form: in tsv the escapes \\t \\n \\r \\\\ and no
others, in csv quotes only where needed, in jsonl the members key and value without spaces.
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
    /// The format; told by the extension of the file if not given, otherwise tsv
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Start with a line of column names (TSV, CSV)
    #[arg(long)]
    pub header: bool,
    /// Leave the values out
    #[arg(long)]
    pub keys_only: bool,
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

/// Writes the pairs.
pub fn run(args: ExportArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let (pool, _) = pool_and_rest(args.pool, Vec::new(), &[])?;
    let encoding = EncodingArgs { hex: args.hex, base64: args.base64 };
    let range = args.range.bounds(&encoding)?;
    let format = args.format.or_else(|| Format::of_path(&args.output)).unwrap_or(Format::Tsv);
    let store = open::for_reading(&pool, &args.map.trust)?;
    let map = open::existing_map(&store, &pool, args.map.map.as_deref())?;
    let is_everything = range.as_ref().is_some_and(|range| range.is_everything());
    let show = global.wants_progress() && is_everything;
    let job = Job {
        map: &map,
        selection: Selection { range, reverse: false, limit: None },
        header: args.header,
        progress: Progress::pairs(show, "exporting", map.len()),
    };
    if args.output == Path::new("-") {
        let mut lines = format.writer(out.writer(), args.keys_only);
        job.write(lines.as_mut())?.map_err(|error| Failure::output(&error))?;
        return Ok(());
    }
    let mut target = TargetFile::create(&args.output)?;
    let mut lines = format.writer(target.writer(), args.keys_only);
    let written = job.write(lines.as_mut())?;
    drop(lines);
    let pairs = written.map_err(|error| target.failure(&error))?;
    target.finish()?;
    drop(job);
    if global.json {
        return out.json(&json!({ "pairs": pairs, "file": args.output.to_string_lossy() }));
    }
    if global.quiet {
        return Ok(());
    }
    out.line(&format!("exported {} to {}", counted(pairs, "pair"), args.output.display()))
}

struct Job<'m> {
    map: &'m Map,
    selection: Selection,
    header: bool,
    progress: Progress,
}

impl Job<'_> {
    /// Writes all pairs; how many, or why the file could not be written.
    fn write(&self, lines: &mut dyn PairWriter) -> Result<io::Result<u64>, Failure> {
        if self.header
            && let Err(error) = lines.header()
        {
            return Ok(Err(error));
        }
        let mut done: u64 = 0;
        let visited = self.selection.visit(self.map, |key, value| {
            done += 1;
            if done.is_multiple_of(PROGRESS_STEP) {
                self.progress.set(done);
            }
            lines.write(key, value)
        })?;
        Ok(visited.and_then(|pairs| lines.flush().map(|()| pairs)))
    }
}
