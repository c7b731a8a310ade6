//! `everleaf repair`: what can be proven of a damaged pool, in a new pool.

use crate::failure::Failure;
use crate::global::Global;
use crate::output::{Output, counted};
use clap::Args;
use everleaf::{Error, Repaired, Store};
use serde::Serialize;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  everleaf repair damaged.pool words.pool
  everleaf repair damaged.pool words.pool --json | jq -r '.dropped[]'

The damaged pool is only read. What could not be kept is listed, and so are maps whose names are lost (lost-1 ..): if a
map was emptied or dropped shortly before the process died, one of them has the keys that were removed. Ends with code 0
if nothing was dropped, 1 if something was. A pool that only was not closed needs no repair: open it.

The new pool has no log, whatever durability the damaged one had: the next command that opens it says which it
is to have, as in `everleaf serve words.pool --durability interval`.";

/// Keep what can be proven of a damaged pool, in a new one
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct RepairArgs {
    /// The damaged pool
    pub damaged: PathBuf,
    /// The pool file to create
    pub pool: PathBuf,
}

/// What is told as JSON.
#[derive(Serialize)]
struct Mended<'a> {
    complete: bool,
    doubtful: u64,
    dropped: &'a [String],
    kept: u64,
    lost: &'a [String],
    maps: &'a [String],
    mark_found: bool,
}

/// Repairs the pool.
pub fn run(args: RepairArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let mut is_mark_found = false;
    // Before the pool has its name, so that a failure takes no report with it.
    let repaired = Store::repair_with(&args.damaged, &args.pool, |new, repaired| {
        is_mark_found = mend_collections(new, repaired)?;
        Ok(())
    })?;
    // What was dropped counts more than a reader that goes away.
    let told = tell(&repaired, is_mark_found, &args.pool, global, out);
    match repaired.dropped.len() as u64 {
        0 => told,
        count => Err(Failure::not_found(format!(
            "{} of {} could not be kept (listed above)",
            counted(count, "part"),
            args.damaged.display()
        ))),
    }
}

/// Prints what was kept, and what was not.
fn tell(
    repaired: &Repaired,
    is_mark_found: bool,
    pool: &Path,
    global: Global,
    out: &mut Output,
) -> Result<(), Failure> {
    if global.json {
        out.json(&Mended {
            complete: repaired.is_complete,
            doubtful: repaired.doubtful,
            dropped: &repaired.dropped,
            kept: repaired.kept,
            lost: &repaired.lost,
            maps: &repaired.maps,
            mark_found: is_mark_found,
        })?;
    } else {
        for what in repaired.dropped.iter().chain(&repaired.lost) {
            out.line(what)?;
        }
        if is_mark_found {
            out.line("the mark of all collections was lost, and is found again")?;
        }
        if !global.quiet {
            let (kept, maps) = (counted(repaired.kept, "key"), repaired.maps.len() as u64);
            out.line(&format!(
                "kept {kept} of {} in {}, {} of them doubtful (possibly an older value of the key)",
                counted(maps, "map"),
                pool.display(),
                repaired.doubtful
            ))?;
            if !repaired.is_complete {
                out.line(
                    "the pool does not say what it held, because it was not closed cleanly or its first \
                     pages are damaged: keys may be missing that nothing tells of",
                )?;
            }
        }
    }
    Ok(())
}

/// Finds again what all collections need, and a repair may have lost. Returns whether it had.
fn mend_collections(new: &Store, repaired: &mut Repaired) -> everleaf::Result<bool> {
    match everleaf_server::mend_mark(new) {
        Err(Error::Corrupt(why)) => {
            repaired.dropped.push(why);
            Ok(false)
        }
        mended => mended,
    }
}
