//! The arguments of `serve`.

use crate::arguments::{NewPoolArgs, parse_size};
use crate::failure::Failure;
use crate::open::TrustArgs;
use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, ValueEnum};
use everleaf::Durability;
use everleaf_server::{ClientCertificates, DebugCommand};
use std::path::PathBuf;
use std::time::Duration;
use tracing::Level;

/// The interval of a pool for which none is given, in milliseconds.
const INTERVAL_MS: u64 = 1000;

/// The longest time that a silent connection can be kept, in seconds, as for `CONFIG SET`.
const TIMEOUT_MAX: u64 = i32::MAX as u64;

const EXAMPLES: &str = "\
Examples:
  everleaf serve                                    everleaf.pool here, port 6399
  everleaf serve words.pool --port 7000
  everleaf serve words.pool --bind 0.0.0.0 --requirepass-file /etc/everleaf.password
  everleaf serve words.pool --durability power
  everleaf serve --config /etc/everleaf.toml
  everleaf serve words.pool --unixsocket /run/everleaf.sock --timeout 300
  everleaf serve words.pool --aclfile /etc/everleaf.users --metrics 127.0.0.1:9399
  everleaf serve words.pool --tls-port 6400 --tls-cert-file server.crt --tls-key-file server.key
  redis-cli -p 6399 set apple 'a round fruit'

SIGTERM and SIGINT end the server cleanly: it answers what it has read, for two seconds at most, marks
the pool clean, and ends with code 0. A second signal, at least 0.3 s after the first, ends it at once.
Either way, and after `kill -9` too, everything acknowledged is there at the next start. SIGHUP reads
the certificates of TLS again.
What differs from Redis is told in /usr/share/doc/everleaf/redis-differences.md where a package is installed, and in
docs/redis-differences.md of the archive and of the sources.
A password in --requirepass can be seen by every user of this machine, in the list of processes:
better use --requirepass-file, or the environment variable EVERLEAF_REQUIREPASS.";

/// Serve a pool to Redis clients
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// The pool file (or EVERLEAF_POOL) [default: everleaf.pool]
    pub pool: Option<PathBuf>,
    /// Take what the command line does not say from this file, in TOML: its keys are
    /// the options below without their dashes, and `pool`
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The TCP port; 0 lets the system choose
    #[arg(long, default_value_t = 6399)]
    pub port: u16,
    /// An address or host name to listen on; may be repeated. `::` is of IPv6 only
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub bind: Vec<String>,
    /// Speak TLS on this port of the same addresses; 0 lets the system choose
    #[arg(long, value_name = "PORT")]
    pub tls_port: Option<u16>,
    /// Do not listen on the plain TCP port
    #[arg(long)]
    pub tls_only: bool,
    /// The server's certificate in PEM, followed by the intermediate ones
    #[arg(long, value_name = "FILE")]
    pub tls_cert_file: Option<PathBuf>,
    /// The private key of the certificate in PEM
    #[arg(long, value_name = "FILE")]
    pub tls_key_file: Option<PathBuf>,
    /// Certificates (PEM) of the authorities that sign client certificates
    #[arg(long, value_name = "FILE")]
    pub tls_ca_cert_file: Option<PathBuf>,
    /// Whether clients must show a certificate [default: yes with --tls-ca-cert-file, else no]
    #[arg(long, value_enum, value_name = "no|optional|yes", hide_possible_values = true)]
    pub tls_auth_clients: Option<AuthClientsArg>,
    /// Listen on this Unix socket as well
    #[arg(long, value_name = "PATH")]
    pub unixsocket: Option<PathBuf>,
    /// The permissions of that socket, in octal, as in 770; clients need the one to write [default: by the umask]
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    pub unixsocketperm: Option<u32>,
    /// Serve `/metrics` (OpenMetrics) and `/health` over HTTP on this address, as in 127.0.0.1:9399, without
    /// authentication
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,
    /// Databases that clients can select; number 0 is the pool's default map, each other a map `server.dbN`, made when
    /// it is first selected
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub databases: usize,
    /// Threads that serve connections; 0: one less than CPUs, at least one
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub threads: usize,
    /// The password that clients must give (visible in the list of processes)
    #[arg(long, value_name = "PASSWORD", conflicts_with = "requirepass_file")]
    pub requirepass: Option<String>,
    /// A file whose first line is the password
    #[arg(long, value_name = "FILE")]
    pub requirepass_file: Option<PathBuf>,
    /// A file of users with their passwords and permissions (`ACL SETUSER`, `ACL SAVE`), a line for each; it must
    /// exist, and says the password of `default`, too
    #[arg(long, value_name = "FILE", conflicts_with_all = ["requirepass", "requirepass_file"])]
    pub aclfile: Option<PathBuf>,
    /// Wrong passwords a minute from one address; further passwords are refused unchecked; 0: no limit
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub auth_attempts: u64,
    /// The most connections at a time
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub maxclients: usize,
    /// What clients together may make the server hold: unfinished requests, unsent replies, queued
    /// commands, watched keys; above it those that hold most are closed; 0 means no limit
    /// [default: a quarter of the memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub client_memory: Option<u64>,
    /// Close connections that send nothing for this long; 0 means never
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u64).range(..=TIMEOUT_MAX))]
    pub timeout: u64,
    /// What survives: `process` (everything acknowledged survives `kill -9`; after a crash of the machine
    /// the pool is refused), `interval` (a crash of the machine loses --interval at most; until the
    /// snapshot after a `kill -9` is written, while INFO says `log_owes_snapshot:1`, everything since the
    /// interval before the kill), or `power` (it loses
    /// nothing: each write waits for the disk, many share a wait) [default: as the pool was opened last;
    /// `interval` for a new pool on an ordinary disk]
    #[arg(long, value_enum)]
    pub durability: Option<DurabilityArg>,
    /// How much a crash of the machine may lose with `--durability interval`, see there [default: as the pool was
    /// opened last; 1000 for a new pool, or with `--durability interval`]
    #[arg(long, value_name = "MILLISECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub interval: Option<u64>,
    /// The longest argument of a request, and the longest value that a command makes
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "512M")]
    pub proto_max_bulk_len: u64,
    /// Microseconds from which on a command is kept as slow (SLOWLOG); -1 means never
    #[arg(long, value_name = "N", default_value_t = 10_000, allow_negative_numbers = true)]
    pub slowlog_log_slower_than: i64,
    /// How many slow commands are kept
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub slowlog_max_len: usize,
    /// How many refusals are kept (ACL LOG)
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub acllog_max_len: usize,
    /// Which clients may use DEBUG: none, those on this machine, or all that may use commands of administration
    #[arg(
        long,
        value_enum,
        value_name = "no|local|yes",
        default_value = "no",
        hide_possible_values = true
    )]
    pub enable_debug_command: DebugArg,
    /// Create the pool if there is none
    #[arg(long, value_name = "yes|no", default_value = "yes", hide_possible_values = true)]
    #[arg(value_parser = BoolishValueParser::new(), action = ArgAction::Set)]
    pub create_if_missing: bool,
    /// Compare the check sum of every value before it is sent
    #[arg(long, value_name = "yes|no", default_value = "yes", hide_possible_values = true)]
    #[arg(value_parser = BoolishValueParser::new(), action = ArgAction::Set)]
    pub verify_reads: bool,
    /// How lines of the log look: for people, or as JSON objects
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// What to log on stderr: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    pub log: Level,
    /// The properties of a pool that is created.
    #[command(flatten)]
    pub new_pool: NewPoolArgs,
    /// Whether to trust the pool.
    #[command(flatten)]
    pub trust: TrustArgs,
}

/// Permissions as `chmod` takes them in digits.
fn parse_mode(text: &str) -> Result<u32, String> {
    let is_octal = (1..=4).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_digit());
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| is_octal && *mode <= 0o777);
    mode.ok_or_else(|| "write permissions in octal, such as 770; 777 at most".to_string())
}

/// How lines of the log look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Text,
    /// An object in each line
    Json,
}

/// Whether clients must show a certificate.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum AuthClientsArg {
    /// Clients are not asked for a certificate
    No,
    /// A certificate that a client shows must be valid
    Optional,
    /// Only clients with a valid certificate are served
    Yes,
}

impl AuthClientsArg {
    pub(super) fn meant(self) -> ClientCertificates {
        match self {
            Self::No => ClientCertificates::No,
            Self::Optional => ClientCertificates::Optional,
            Self::Yes => ClientCertificates::Required,
        }
    }
}

/// Which clients may use `DEBUG`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DebugArg {
    /// No client
    No,
    /// Clients on this machine
    Local,
    /// Every client
    Yes,
}

impl DebugArg {
    pub(super) fn meant(self) -> DebugCommand {
        match self {
            Self::No => DebugCommand::No,
            Self::Local => DebugCommand::Local,
            Self::Yes => DebugCommand::Yes,
        }
    }
}

/// What survives.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DurabilityArg {
    /// The death of the process
    Process,
    /// Also a crash of the machine, but for the last moment
    Interval,
    /// Also a crash of the machine
    Power,
}

impl DurabilityArg {
    /// The durability, with this interval if it has one: no other is given one.
    pub fn with(self, interval_ms: Option<u64>) -> Result<Durability, Failure> {
        match self {
            Self::Process | Self::Power if interval_ms.is_some() => Err(Failure::usage(
                "--interval belongs to --durability interval: leave one of the two out",
            )),
            Self::Process => Ok(Durability::Process),
            Self::Power => Ok(Durability::Power),
            Self::Interval => {
                let interval_ms = interval_ms.unwrap_or(INTERVAL_MS);
                Ok(Durability::Interval(Duration::from_millis(interval_ms)))
            }
        }
    }
}
