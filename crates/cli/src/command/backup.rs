//! `everleaf backup`: a pool as a new file, everything of one moment.

use crate::arguments::pool_and_rest;
use crate::failure::Failure;
use crate::global::Global;
use crate::open::{self, TrustArgs};
use crate::output::{Output, counted};
use crate::progress::Progress;
use clap::Args;
use everleaf::new_file::NewFile;
use everleaf::{Copied, Error, Store, human_size};
use serde::Serialize;
use std::borrow::Cow;
use std::env;
use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  everleaf backup words.pool words.backup
  everleaf backup words.pool - | gzip > words.backup.gz
  redis-cli -p 6399 bgsave                          while a server without a log has the pool: writes POOL.backup

The backup is a pool: look at it with every command that reads, or make it a pool to work with by
`everleaf restore`. It appears under its name when it is complete and on the disk. For the standard output it is
made first, in the pool's folder, or if nothing can be written there in the one that TMPDIR names.";

/// Write everything in a pool to a backup
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct BackupArgs {
    /// The pool file (or EVERLEAF_POOL)
    pub pool: Option<OsString>,
    /// The file to write, which must not exist; `-` is the standard output
    pub file: Option<OsString>,
    /// Whether to trust the pool.
    #[command(flatten)]
    pub trust: TrustArgs,
}

/// Writes the backup.
pub fn run(args: BackupArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let (pool, rest) = pool_and_rest(args.pool, args.file.into_iter().collect(), &["FILE"])?;
    let file = PathBuf::from(&rest[0]);
    let store = open::for_reading(&pool, &args.trust)?;
    if file == Path::new("-") {
        return to_stream(&store, &pool, out);
    }
    let progress = Progress::pairs(global.wants_progress(), "backing up", store.statistics().keys);
    let copied = store.backup(&file, |keys| progress.set(keys))?;
    drop(progress);
    tell(copied, "backed up", &file, global, out)
}

/// Writes the backup to a file beside the pool, or where that cannot be to one in the folder for such files, and from
/// there to the standard output.
fn to_stream(store: &Store, pool: &Path, out: &mut Output) -> Result<(), Failure> {
    let new = unnamed_beside(pool).or_else(|failure| {
        let folder = env::temp_dir();
        // Nobody else can know the name beforehand.
        let random = RandomState::new().build_hasher().finish();
        unnamed_beside(&folder.join(format!("everleaf-{random:016x}"))).map_err(|_| {
            let message = format!(
                "{}; nor can anything be written in {}, which TMPDIR may name",
                failure.message,
                folder.display()
            );
            Failure { message, ..failure }
        })
    })?;
    let file = new.path();
    store.backup(&file, |_| {})?;
    let cannot = |error| Failure::io(&format!("cannot read {}", file.display()), &error);
    let mut opened = std::fs::File::open(&file).map_err(cannot)?;
    // Removed at once: it lives on while it is open.
    drop(new);
    io::copy(&mut opened, out.writer()).map_err(|error| Failure::cut_off(&error))?;
    out.flush_whole()
}

/// A file that never gets a name, of which there may be some at a time.
fn unnamed_beside(pool: &Path) -> Result<NewFile, Failure> {
    let mut last = None;
    for number in 0..64 {
        let mut name = pool.as_os_str().to_owned();
        name.push(format!(".stream-{number}"));
        match NewFile::beside(Path::new(&name)) {
            Err(error @ Error::Locked(_)) => last = Some(error),
            made => return Ok(made?),
        }
    }
    Err(last.map_or_else(|| Failure::usage("there is no name left"), Failure::from))
}

/// What is told as JSON.
#[derive(Serialize)]
struct Told<'a> {
    file: Cow<'a, str>,
    keys: u64,
    maps: u64,
    size_bytes: u64,
}

/// Says what was copied.
pub fn tell(
    copied: Copied,
    what: &str,
    file: &Path,
    global: Global,
    out: &mut Output,
) -> Result<(), Failure> {
    if global.json {
        return out.json(&Told {
            file: file.to_string_lossy(),
            keys: copied.keys,
            maps: copied.maps,
            size_bytes: copied.size_bytes,
        });
    }
    if global.quiet {
        return Ok(());
    }
    let (keys, maps) = (counted(copied.keys, "key"), counted(copied.maps, "map"));
    let size = human_size(copied.size_bytes);
    out.line(&format!("{what} {keys} of {maps} to {}, {size}", file.display()))
}
