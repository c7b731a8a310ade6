//! `everleaf compact`: the pool as small as it can be.

use crate::arguments::{TreeArg, pool_and_rest};
use crate::command::backup::tell;
use crate::failure::Failure;
use crate::global::Global;
use crate::open::{Rebuilding, without_trust};
use crate::output::Output;
use crate::progress::Progress;
use clap::Args;
use everleaf::Options;
use std::ffi::OsString;

const EXAMPLES: &str = "\
Examples:
  everleaf compact words.pool
  everleaf compact words.pool --tree hashed-leaf

Writes the pool anew beside it and then puts it in its place, so there must be room for both. Nobody
may have it open. If it is cut short, the old pool is still there.";

/// Rewrite a pool without its unused space (needs room for both files)
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CompactArgs {
    /// The pool file (or EVERLEAF_POOL)
    pub pool: Option<OsString>,
    /// The tree that maps are in afterwards [default: as before]
    #[arg(long, value_enum)]
    pub tree: Option<TreeArg>,
}

/// Compacts the pool.
pub fn run(args: CompactArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let (pool, _) = pool_and_rest(args.pool, Vec::new(), &[])?;
    let rebuilding = Rebuilding::new(global);
    let progress = Progress::count(global.wants_progress(), "compacting");
    let mut options = rebuilding.shown_by(Options::new());
    if let Some(tree) = args.tree {
        options = options.tree(tree.into());
    }
    let copied = options.compact(&pool, |keys| {
        rebuilding.clear();
        progress.set(keys);
    });
    let copied = copied.map_err(without_trust)?;
    drop((rebuilding, progress));
    tell(copied, "compacted", &pool, global, out)
}
