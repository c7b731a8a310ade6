//! `everleaf serve`: the pool on the network, for Redis clients.

mod args;
mod settings;

pub use args::{DurabilityArg, ServeArgs};

use crate::arguments::pool_from_environment;
use crate::config;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::global::Global;
use crate::open;
use crate::output::{Output, counted, human_duration, remark, report_as_json};
use crate::service_manager::{self, Patience};
use args::LogFormat;
use everleaf::{Domain, Durability, Options, Statistics, Store};
use everleaf_server::{Config, Handle, ListeningSocket, Server, ServerError};
use serde::Serialize;
use settings::config_of;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

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
    let stop = Arc::new(Stop::default());
    watch_for_signals(&stop)?;

    // First, so that no pool is made or recovered for a server that cannot listen.
    let listening = Server::listen_on(config, sockets).map_err(failure_of)?;
    let started = Instant::now();
    service_manager::tell("STATUS=opening the pool");
    let options = args.trust.options().create(args.create_if_missing);
    let options = options.verify_reads(args.verify_reads);
    let options = args.new_pool.apply(with_durability(&args, options)?)?;
    let saved = saved_beside_nothing(&pool);
    let store = Arc::new(open::with_progress(options, &pool, global)?);
    tell_of_saved(saved.as_deref().filter(|_| store.rebuilt().is_none()), &pool);
    let recovered = started.elapsed();
    if args.durability.is_none() {
        tell_of_process(&store.statistics(), &pool);
        tell_of_interval(&store.statistics(), args.interval, &pool);
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
    stop.serve(handle.clone());
    let mut announced = Ok(());
    let end = server.run_and_tell(|| {
        announced = announce(&place, store.default_map().len(), recovered, global, out);
        match &announced {
            Ok(()) => service_manager::tell(&format!("READY=1\nSTATUS=ready on {place}")),
            Err(_) => handle.shutdown(),
        }
    });
    let end = announced.and(end.map_err(failure_of));
    service_manager::tell("STOPPING=1\nSTATUS=closing the pool");
    let patience = Patience::ask();
    drop(server);
    patience.went_on();
    let end = match (end, rescue(&store, &pool, &patience)) {
        (Ok(()), Some(lost)) => Err(lost),
        (end, lost) => {
            lost.into_iter().for_each(|lost| lost.report(global.json));
            end
        }
    };
    let Some(store) = Arc::into_inner(store) else {
        remark("the pool could not be marked clean; nothing acknowledged is lost");
        return end;
    };
    // Why the server ended matters more than why the pool could not be marked clean.
    end.and(store.close().map_err(Failure::from))
}

/// Options with what is to survive.
fn with_durability(args: &ServeArgs, options: Options) -> Result<Options, Failure> {
    Ok(match args.durability {
        Some(durability) => options.durability(durability.with(args.interval)?),
        None => {
            let options = options.durability_of_new(DurabilityArg::Interval.with(args.interval)?);
            match args.interval {
                Some(interval_ms) => options.interval_of_last(Duration::from_millis(interval_ms)),
                None => options,
            }
        }
    })
}

/// Saves what there is of a pool that has lost its file, beside it or, as that folder may be gone, too, in the one for
/// temporary files: with this process it would be gone. Says where.
fn rescue(store: &Store, pool: &Path, patience: &Patience) -> Option<Failure> {
    if !store.is_pool_gone() {
        return None;
    }
    service_manager::tell("STATUS=saving a pool that has lost its file");
    let elsewhere = std::env::temp_dir().join(pool.file_name().unwrap_or_default());
    let save = |place| save_as(store, place, patience);
    let saved = save(pool).or_else(|why| save(&elsewhere).map_err(|_| why));
    let text = match saved {
        Ok((keys, place)) => format!(
            "what there was ({}) is saved as {}: move it to where the pool was, or start the server with it",
            counted(keys, "key"),
            place.display()
        ),
        Err(why) => format!("what there was is lost, unless that file has another name: {why}"),
    };
    let pool = pool.display();
    let happened = format!("the file of {pool} was removed or replaced while it was served");
    Some(Failure::new(ExitCode::Io, format!("{happened}; {text}")))
}

/// Saves a pool under a name that nothing has. Returns how many keys that are, and where.
fn save_as(store: &Store, pool: &Path, patience: &Patience) -> Result<(u64, PathBuf), String> {
    use everleaf::Error::{AlreadyExists, Corrupt, Locked, Unsupported};
    for place in names_of_saved(pool) {
        // The log of another pool lies beside it.
        if let Err(Unsupported(_) | Corrupt(_)) = everleaf::refuse_log_beside(&place) {
            continue;
        }
        match store.backup(&place, |_| patience.went_on()) {
            Ok(copied) => return Ok((copied.keys, place)),
            // Something is there, or somebody else is making it.
            Err(AlreadyExists(_) | Locked(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Err("there are 999 files `.saved` beside it".to_string())
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

/// The path of a pool with something behind it.
fn beside(pool: &Path, ending: &str) -> PathBuf {
    let mut name = pool.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Where a pool is saved that has lost its file.
fn names_of_saved(pool: &Path) -> impl Iterator<Item = PathBuf> {
    let numbered = (2..1000).map(|number| format!(".saved-{number}"));
    std::iter::once(".saved".to_string()).chain(numbered).map(|ending| beside(pool, &ending))
}

/// What was saved last of a pool, if the pool itself is not there: a supervisor starts the server of a lost pool with
/// an empty one.
fn saved_beside_nothing(pool: &Path) -> Option<PathBuf> {
    if pool.exists() {
        return None;
    }
    let names = names_of_saved(pool).chain([beside(pool, ".backup")]);
    let saved = names.filter_map(|name| Some((name.metadata().ok()?.modified().ok()?, name)));
    saved.max().map(|(_, name)| name)
}

/// Warns an operator who serves a new pool of what was saved of another.
fn tell_of_saved(saved: Option<&Path>, pool: &Path) {
    let Some(saved) = saved else { return };
    let log = beside(pool, ".log");
    let and_log = if log.exists() { format!(" and {}", log.display()) } else { String::new() };
    tracing::warn!(
        "{pool} was not there and is new, but {saved} is: if that should be served, stop this server, move \
         {pool}{and_log} away, and `everleaf restore {saved} {pool}`",
        pool = pool.display(),
        saved = saved.display()
    );
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

/// Warns an operator who says how much may be lost of a pool that is not served so.
fn tell_of_interval(statistics: &Statistics, interval_ms: Option<u64>, pool: &Path) {
    if interval_ms.is_some() && !matches!(statistics.durability, Durability::Interval(_)) {
        tracing::warn!(
            "--interval changes nothing: {} is served with --durability {}, as it was the last time",
            pool.display(),
            statistics.durability
        );
    }
}

/// For so long, what comes behind the first signal to end is the same one: a program that stops a server may signal
/// the process and its group.
const SAME_SIGNAL: Duration = Duration::from_millis(300);

/// What signals ask of a server, which may have still to open its pool.
#[derive(Default)]
struct Stop {
    is_wanted: AtomicBool,
    is_reload_wanted: AtomicBool,
    handle: OnceLock<Handle>,
}

impl Stop {
    /// There is a server now, which does what was asked meanwhile.
    fn serve(&self, handle: Handle) {
        let handle = self.handle.get_or_init(|| handle);
        // SeqCst, here and below: either this sees what was asked, or the thread that asks sees the server.
        if self.is_reload_wanted.load(Ordering::SeqCst) {
            reload_certificates(handle);
        }
        if self.is_wanted.load(Ordering::SeqCst) {
            handle.shutdown();
        }
    }

    fn end(&self) {
        // SeqCst: see `serve`.
        self.is_wanted.store(true, Ordering::SeqCst);
        if let Some(handle) = self.handle.get() {
            handle.shutdown();
        }
    }

    fn reload(&self) {
        // SeqCst: see `serve`.
        self.is_reload_wanted.store(true, Ordering::SeqCst);
        if let Some(handle) = self.handle.get() {
            reload_certificates(handle);
        }
    }
}

/// Starts the thread that does so.
fn watch_for_signals(stop: &Arc<Stop>) -> Result<(), Failure> {
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP])
        .map_err(|error| Failure::io("cannot watch for signals", &error))?;
    let stop = Arc::clone(stop);
    let what = "cannot start the thread that watches for signals (raise the limit on threads)";
    let started = thread::Builder::new().spawn(move || obey(signals, &stop));
    started.map(drop).map_err(|error| Failure::io(what, &error))
}

fn obey(mut signals: Signals, stop: &Stop) {
    let mut was_told = false;
    loop {
        let told: Vec<i32> = signals.wait().collect();
        if told.contains(&SIGHUP) {
            stop.reload();
        }
        let Some(signal) = told.into_iter().find(|signal| *signal != SIGHUP) else { continue };
        if was_told {
            // Ends the process as if nobody handled the signal, whatever it does. If even that fails, the shutdown
            // under way goes on.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
        was_told = true;
        service_manager::tell("STOPPING=1");
        stop.end();
        thread::sleep(SAME_SIGNAL);
        if signals.pending().filter(|signal| *signal == SIGHUP).count() > 0 {
            stop.reload();
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
        return out.flush_whole();
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
