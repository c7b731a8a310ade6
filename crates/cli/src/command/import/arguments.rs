//! The arguments of `everleaf import`.

use crate::arguments::NewPoolArgs;
use crate::failure::Failure;
use crate::redis::address::Address;
use clap::Args;
use std::ffi::OsString;
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
address ends with (redis://HOST:PORT/3). Collections of more than 64 MiB are read in pieces (HSCAN, HPEXPIRETIME,
SSCAN, ZSCAN, LRANGE, and their lengths), and so is everything of servers newer than Redis 7.2 and Valkey 8, with
GET, which takes longer. Let nobody write meanwhile: keys that are removed there before they are
compared are removed here, too, and any other difference that is found refuses all; what is written later
is missing. Of a cluster all masters are read, one after the other, and slots that move meanwhile refuse all.
Files are those of Redis up to 7.2 and Valkey 8, to their ends: no append-only files, nor the dumps that those
are based on. Strings, lists, sets, hashes and sorted sets are taken, with their times. Everleaf has no streams,
modules, functions or fields that expire: with one of them the import is refused, unless --skip-unsupported skips
and counts them.

If the second argument is the address of a running server (of Everleaf or another with this protocol), this program
acts as a replica of the source (PSYNC; of Redis up to 7.2 or Valkey 8, not of a cluster as a whole): it copies a
snapshot of all keys and, with --follow SECONDS, every change after it, until the source has been silent for so long.
Then both are compared. The target must have no keys; let programs write to it when the import has ended. Where keys
expire, the clocks of both servers and of this machine must agree.

The pool must not exist, and gets its name when all of it is there and compared with the source once
more; so a file must be one that can be read twice, and no pipe, unless --no-verify is given. \
An import that is cut short leaves no pool and begins anew; a killed one leaves a hidden folder, `.POOL.everleaf-new`,
which the next import to that name removes. The pool has no log yet:
`everleaf serve POOL --durability interval` gives it one.";

/// Copy a Redis or Valkey server, or its file, into a new pool
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// The address of the server, redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE] or rediss:// with TLS; of a server
    /// of a cluster, redis-cluster:// or rediss-cluster://; or an RDB file
    pub source: OsString,
    /// The pool file to create, or the address of a server without keys that gets them
    pub pool: PathBuf,
    /// Pass on what is written to the source, until it has been silent for this many seconds (to a server)
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

impl ImportArgs {
    /// The address of the source; `None` if that is a file, which may have any name.
    pub(super) fn address(&self) -> Result<Option<Address>, Failure> {
        self.source.to_str().map_or(Ok(None), Address::parse)
    }
}
