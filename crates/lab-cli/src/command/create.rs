//! `everleaf-lab create`: a new pool with a map kept in a tree of any design.

use clap::Args;
use everleaf::Options;
use everleaf_bench::IndexKind;
use everleaf_cli::arguments::{NewPoolArgs, pool_and_rest};
use everleaf_cli::command::bench::{failure_of, warn_of};
use everleaf_cli::failure::Failure;
use everleaf_cli::global::Global;
use everleaf_cli::output::Output;
use serde::Serialize;
use std::borrow::Cow;
use std::ffi::OsString;

const EXAMPLES: &str = "\
Examples:
  everleaf-lab create numbers.pool --index fast-fair
  everleaf-lab create /mnt/pmem/numbers.pool --index rntree --domain adr

The pool has a map of 64-bit integers called `index`, kept in a tree of that design, for programs
that use the libraries. Unless the design is nbtree, `everleaf` refuses the pool: it has no other.";

/// Create a pool with a map kept in a tree of any design
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CreateArgs {
    /// The file to create; it must not exist (or EVERLEAF_POOL)
    pub pool: Option<OsString>,
    /// The design, such as nbtree or fast-fair
    #[arg(long, value_name = "NAME", value_parser = parse_design)]
    pub index: IndexKind,
    /// The properties of the pool.
    #[command(flatten)]
    pub new_pool: NewPoolArgs,
}

/// The name of the map.
const INDEX_MAP: &str = "index";

fn parse_design(name: &str) -> Result<IndexKind, String> {
    everleaf_lab::design(name).map(IndexKind::Design).ok_or_else(|| {
        let names: Vec<_> = everleaf_lab::designs().iter().map(|design| design.name).collect();
        format!("the designs are {}", names.join(", "))
    })
}

/// A pool that was created, as JSON.
#[derive(Serialize)]
struct Created<'a> {
    pool: Cow<'a, str>,
    index: &'static str,
    caveat: Option<&'static str>,
}

/// Creates the pool.
pub fn run(args: CreateArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    let (pool, _) = pool_and_rest(args.pool, Vec::new(), &[])?;
    args.new_pool.apply(Options::new().create_new(true))?.open(&pool)?.close()?;
    everleaf_lab::add_index(&pool, INDEX_MAP, args.index.name()).map_err(failure_of)?;
    warn_of([args.index], global);
    if global.json {
        let (index, caveat) = (args.index.name(), args.index.caveat());
        out.json(&Created { pool: pool.to_string_lossy(), index, caveat })
    } else if global.quiet {
        Ok(())
    } else {
        out.line(&format!("created {}", pool.display()))
    }
}
