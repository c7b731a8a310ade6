//! `everleaf serve`: the pool on the network, for Redis clients.

mod settings;

use crate::arguments::{NewPoolArgs, parse_size, pool_from_environment};
use crate::config;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::global::Global;
use crate::open::{self, TrustArgs};
use crate::output::{Output, counted, human_duration, remark, report_as_json};
use crate::service_manager;
use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, ValueEnum};
use everleaf::{Domain, Durability, Statistics, Store};
use everleaf_server::{
    ClientCertificates, Config, DebugCommand, Handle, ListeningSocket, Server, ServerError,
};
use serde::Serialize;
use settings::config_of;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tracing::Level;

/// The environment variable that holds the password.
const PASSWORD_VARIABLE: &str = "EVERLEAF_REQUIREPASS";

/// A file of a password is no longer.
const PASSWORD_FILE_SIZE_MAX: u64 = 64 << 10;

/// How long a client may take to show that it speaks TLS.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
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

SIGTERM and SIGINT end the server cleanly: it answers what it has read, marks the pool clean, and
ends with code 0. A second signal ends it at once. Either way, and after `kill -9` too, everything
acknowledged is there at the next start. SIGHUP reads the certificates of TLS again.
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
    /// An address or host name to listen on; may be repeated
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
    /// Serve `/metrics` (OpenMetrics) and `/health` over HTTP on this address, as in 127.0.0.1:9399, without
    /// authentication
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,
    /// Databases that clients can select; number 0 is the pool's default map, each other a map `server.dbN`, made when
    /// it is first selected
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub databases: usize,
    /// Threads that serve connections; 0 means one per CPU
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
    /// Wrong passwords a minute that are looked at from one address; 0 means no limit
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
    /// How much a crash of the machine may lose with `--durability interval`, see there
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub interval: u64,
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
    /// Who may use DEBUG: nobody, who connects from this machine, or everybody who may use commands of administration
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
    /// Nobody is asked
    No,
    /// One that is shown must be valid
    Optional,
    /// Without a valid one nobody is served
    Yes,
}

impl AuthClientsArg {
    fn meant(self) -> ClientCertificates {
        match self {
            Self::No => ClientCertificates::No,
            Self::Optional => ClientCertificates::Optional,
            Self::Yes => ClientCertificates::Required,
        }
    }
}

/// Who may use `DEBUG`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DebugArg {
    /// Nobody
    No,
    /// Who connects from this machine
    Local,
    /// Everybody
    Yes,
}

impl DebugArg {
    fn meant(self) -> DebugCommand {
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
    /// The durability, with this interval if it has one.
    pub fn with(self, interval_ms: u64) -> Durability {
        match self {
            Self::Process => Durability::Process,
            Self::Interval => Durability::Interval(Duration::from_millis(interval_ms)),
            Self::Power => Durability::Power,
        }
    }
}

/// Serves until a signal or a client's `SHUTDOWN`.
pub fn run(args: ServeArgs, global: Global, out: &mut Output) -> Result<(), Failure> {
    // First: what is opened from here on gets the next descriptors.
    let sockets = service_manager::sockets()?;
    let (args, global) = match &args.config {
        Some(file) => config::merged(file, std::env::args_os())?,
        None => (args, global),
    };
    if global.json {
        report_as_json();
    }
    serve(args, global, sockets, out)
}

fn serve(
    args: ServeArgs,
    global: Global,
    sockets: Vec<ListeningSocket>,
    out: &mut Output,
) -> Result<(), Failure> {
    let pool = args.pool.clone().or_else(pool_from_environment);
    let pool = pool.unwrap_or_else(|| PathBuf::from("everleaf.pool"));
    let config_file = args.config.clone().map(config::file);
    let config = Config { config_file, ..config_of(&args)? };
    begin_log(&args);
    // Before the pool is opened, so that a signal during a long recovery is not lost.
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP])
        .map_err(|error| Failure::io("cannot watch for signals", &error))?;

    // First, so that no pool is made or recovered for a server that cannot listen.
    let listening = Server::listen_on(config, sockets).map_err(failure_of)?;
    let started = Instant::now();
    service_manager::tell("STATUS=opening the pool");
    let options = args.trust.options().create(args.create_if_missing);
    let options = options.verify_reads(args.verify_reads);
    let options = match args.durability {
        Some(durability) => options.durability(durability.with(args.interval)),
        None => options.durability_of_new(DurabilityArg::Interval.with(args.interval)),
    };
    let options = args.new_pool.apply(options)?;
    let store = Arc::new(open::with_progress(options, &pool, global)?);
    let recovered = started.elapsed();
    if args.durability.is_none() {
        tell_of_process(&store.statistics(), &pool);
    }
    let server = match listening.serve(Arc::clone(&store)) {
        Ok(server) => server,
        Err(error) => {
            // Why it is refused matters more than whether the pool could be marked clean.
            let _ = Arc::into_inner(store).map(Store::close);
            return Err(failure_of(error));
        }
    };
    let handle = server.handle();
    let address = handle.local_addr().or(handle.tls_addr());
    let place = match (address, &args.unixsocket) {
        (Some(address), _) => address.to_string(),
        (None, Some(path)) => path.display().to_string(),
        (None, None) => "a socket that was handed over".to_string(),
    };
    let watched = handle.clone();
    thread::spawn(move || shut_down_on_signal(signals, &watched));
    announce(&place, store.default_map().len(), recovered, global, out)?;
    service_manager::tell(&format!("READY=1\nSTATUS=ready on {place}"));

    let end = server.run().map_err(failure_of);
    service_manager::tell("STOPPING=1\nSTATUS=closing the pool");
    drop(server);
    let Some(store) = Arc::into_inner(store) else {
        remark("the pool could not be marked clean; nothing acknowledged is lost");
        return end;
    };
    // Why the server ended matters more than why the pool could not be marked clean.
    end.and(store.close().map_err(Failure::from))
}

/// Writes the log to the standard error.
fn begin_log(args: &ServeArgs) {
    let is_colored = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let log = tracing_subscriber::fmt().with_max_level(args.log).with_ansi(is_colored);
    // A log that nobody reads any more is no reason to fail: to tell of it would panic.
    let log = log.with_writer(io::stderr).log_internal_errors(false);
    match args.log_format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.with_ansi(false).json().flatten_event(true).init(),
    }
}

/// Says what a crash of the machine does to a pool that was made without a log.
fn tell_of_process(statistics: &Statistics, pool: &Path) {
    if statistics.durability == Durability::Process && statistics.domain == Domain::Process {
        tracing::info!(
            "{} has no log: after a crash of the machine it will be refused; --durability interval gives \
             it a log",
            pool.display()
        );
    }
}

fn shut_down_on_signal(mut signals: Signals, handle: &Handle) {
    let mut is_first = true;
    for signal in signals.forever() {
        if signal == SIGHUP {
            reload_certificates(handle);
        } else if is_first {
            service_manager::tell("STOPPING=1");
            handle.shutdown();
            is_first = false;
        } else {
            // Ends the process as if nobody handled the signal. If even that fails, the
            // shutdown under way goes on.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    }
}

/// Reads the certificates of TLS again.
fn reload_certificates(handle: &Handle) {
    match handle.reload_tls() {
        Ok(true) => tracing::info!("SIGHUP: the certificates were read again"),
        Ok(false) => tracing::info!("SIGHUP: there is no TLS, and nothing to be read again"),
        Err(error) => tracing::error!("SIGHUP: the certificates stay as they are: {error}"),
    }
}

/// What is told as JSON.
#[derive(Serialize)]
struct Ready<'a> {
    keys: u64,
    ready: &'a str,
    recovered_ms: f64,
}

fn announce(
    place: &str,
    keys: u64,
    recovered: Duration,
    global: Global,
    out: &mut Output,
) -> Result<(), Failure> {
    if global.json {
        out.json(&Ready { keys, ready: place, recovered_ms: recovered.as_secs_f64() * 1e3 })?;
        return out.flush();
    }
    if !global.quiet {
        remark(&format!(
            "ready on {place}, {}, recovered in {}",
            counted(keys, "key"),
            human_duration(recovered.as_secs_f64())
        ));
    }
    Ok(())
}

fn failure_of(error: ServerError) -> Failure {
    let code = match error {
        ServerError::Config(_) => ExitCode::Usage,
        _ => ExitCode::Io,
    };
    Failure::new(code, error.to_string())
}
