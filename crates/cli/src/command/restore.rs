//! `everleaf restore`: a pool from a backup.

use crate::command::backup::tell;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::global::Global;
use crate::open::without_trust;
use crate::output::Output;
use crate::progress::Progress;
use clap::Args;
use everleaf::Store;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  everleaf restore words.backup words.pool

The backup is checked first, and only read. The pool must not exist.

The pool has no log, whatever durability the backed-up one had: the next command that opens it says which it
is to have, as in `everleaf serve words.pool --durability interval`.";

/// Make a pool from a backup
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct RestoreArgs {
    /// The backup
    pub backup: PathBuf,
    /// The pool file to create
    pub pool: PathBuf,
}

/// Restores the backup.
pub fn run(args: RestoreArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let progress = Progress::count(global.wants_progress(), "restoring");
    if matches!(args.backup.try_exists(), Ok(false)) {
        let backup = args.backup.display();
        return Err(Failure::new(
            ExitCode::Pool,
            format!(
                "there is no backup at {backup}: check the path; the backup comes first, then the pool"
            ),
        ));
    }
    let copied = Store::restore(&args.backup, &args.pool, |keys| progress.set(keys))
        .map_err(without_trust)?;
    drop(progress);
    tell(copied, "restored", &args.pool, global, out)
}
