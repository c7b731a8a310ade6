//! `CONFIG`: reading settings, and changing those that can change while the server runs.

use std::path::PathBuf;
use std::sync::{MutexGuard, PoisonError};

use everleaf::regular_file::read_regular;

use super::certificates::Certificates;
use super::context::Context;
use super::facts;
use super::integer::parse_integer;
use crate::Config;
use crate::acl::file;
use crate::config::{BULK_SIZE_MIN, DebugCommand, LOG_LEN_LIMIT, Setting};
use crate::failure::{CommandResult, Failure};
use crate::glob::Pattern;
use crate::resp::Request;
use crate::settings::{ENCODINGS, IDLE_TIMEOUT_MAX_S};
use crate::shared::Shared;
use crate::shown::shown;
use crate::tls::{LoadedCertificates, ReadAhead, TlsFiles};

/// A longer file is not one of options.
const FILE_SIZE_MAX: u64 = 16 << 20;

/// `CONFIG subcommand ...`
pub fn config(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let subcommand = request.arg(1).to_ascii_lowercase();
    match (subcommand.as_slice(), request.len()) {
        (b"get", 3..) => get(context, request),
        (b"set", 4..) if request.len().is_multiple_of(2) => set(context, request)?,
        (b"resetstat", 2) => {
            context.act(Shared::reset_statistics);
            context.reply.ok();
        }
        (b"rewrite", 2) => rewrite(context)?,
        // A value is missing; the table knows no other subcommands.
        _ => return Err(Failure::Syntax),
    }
    Ok(())
}

/// `CONFIG REWRITE`: the configuration file says from now on what is set now.
fn rewrite(context: &mut Context<'_>) -> CommandResult {
    let shared = context.shared;
    let Some(file) = &shared.config.config_file else {
        return Err(Failure::text("ERR The server is running without a config file"));
    };
    if context.later.is_some() {
        // What the transaction sets is set behind it.
        return Err(Failure::text("ERR CONFIG REWRITE inside of a transaction is not possible"));
    }
    let fail = |why: String| Failure::text(format!("ERR Rewriting config file: {why}"));
    // From reading to writing, so that nothing is mixed with what another client writes.
    let _rewriting = shared.rewriting.lock().unwrap_or_else(PoisonError::into_inner);
    let text = read_regular(&file.path, FILE_SIZE_MAX).map_err(|error| fail(error.to_string()))?;
    let text = String::from_utf8(text).map_err(|error| fail(error.to_string()))?;
    let new = (file.rewrite)(&text, &changeable(shared).map_err(fail)?).map_err(fail)?;
    if new != text {
        file::save(&file.path, new.as_bytes()).map_err(|error| fail(error.to_string()))?;
        tracing::info!("{} was written anew (CONFIG REWRITE)", file.path.display());
    }
    context.reply.ok();
    Ok(())
}

/// The settings that can be changed, as options of the command line; those without effect are none. The error is why
/// one cannot be written.
fn changeable(shared: &Shared) -> Result<Vec<Setting>, String> {
    let (settings, default) = (&shared.settings, Config::default());
    let number = |option, value: String, default: String| Setting {
        option,
        value: Some(value),
        default: Some(default),
    };
    let memory = |limit: Option<usize>| limit.unwrap_or(0).to_string();
    let timeout = settings.idle_timeout().map_or(0, |timeout| timeout.as_secs());
    let mut all = vec![
        number(
            "maxclients",
            settings.client_count_max().to_string(),
            default.client_count_max.to_string(),
        ),
        number(
            "client-memory",
            memory(settings.client_memory_max()),
            memory(default.client_memory_max),
        ),
        number("timeout", timeout.to_string(), "0".to_string()),
        number(
            "proto-max-bulk-len",
            settings.bulk_size_max().to_string(),
            default.bulk_size_max.to_string(),
        ),
        number(
            "slowlog-log-slower-than",
            settings.slow_log_us().to_string(),
            default.slow_log_us.to_string(),
        ),
        number(
            "slowlog-max-len",
            settings.slow_log_len_max().to_string(),
            default.slow_log_len_max.to_string(),
        ),
        number(
            "acllog-max-len",
            settings.acl_log_len_max().to_string(),
            default.acl_log_len_max.to_string(),
        ),
    ];
    if let Some(tls) = &shared.control.tls {
        let TlsFiles { certificate, key, client_authorities, client_certificates } = tls.files();
        let file = |option, path: Option<&PathBuf>| {
            let text = |path: &PathBuf| {
                let text = path.to_str().map(str::to_string);
                text.ok_or_else(|| format!("{option} is {}, which is not UTF-8", path.display()))
            };
            Ok::<_, String>(Setting { option, value: path.map(text).transpose()?, default: None })
        };
        // Said, it stays when authorities are named later; never said, it follows them.
        let clients = client_certificates.map(|wanted| wanted.name().to_string());
        all.extend([
            file("tls-cert-file", Some(&certificate))?,
            file("tls-key-file", Some(&key))?,
            file("tls-ca-cert-file", client_authorities.as_ref())?,
            Setting { option: "tls-auth-clients", value: clients, default: None },
        ]);
    }
    Ok(all)
}

/// All settings by the names clients know. The password is not among them.
fn settings(shared: &Shared) -> Vec<(&'static str, String)> {
    let config = &shared.config;
    let port = shared.control.addresses.first().map_or(0, |address| address.port());
    let socket = config.unix_socket.as_ref().map(|path| path.display().to_string());
    let timeout = shared.settings.idle_timeout().map_or(0, |timeout| timeout.as_secs());
    let keepalive = config.tcp_keepalive.map_or(0, |time| time.as_secs());
    let debug_command = match config.debug_command {
        DebugCommand::No => "no",
        DebugCommand::Local => "local",
        DebugCommand::Yes => "yes",
    };
    let mut settings = vec![
        // Durability is the store's and has nothing to do with these two mechanisms.
        ("acllog-max-len", shared.settings.acl_log_len_max().to_string()),
        (
            "aclfile",
            config.acl_file.as_ref().map_or_else(String::new, |path| path.display().to_string()),
        ),
        ("appendonly", "no".into()),
        ("save", String::new()),
        ("bind", config.bind.join(" ")),
        ("enable-debug-command", debug_command.to_string()),
        ("databases", config.databases.to_string()),
        ("io-threads", shared.loops.len().to_string()),
        ("maxclients", shared.settings.client_count_max().to_string()),
        ("maxmemory", "0".into()),
        ("maxmemory-clients", shared.settings.client_memory_max().unwrap_or(0).to_string()),
        ("maxmemory-policy", "noeviction".into()),
        ("port", port.to_string()),
        ("proto-max-bulk-len", shared.settings.bulk_size_max().to_string()),
        ("client-query-buffer-limit", config.request_size_max.to_string()),
        ("latency-monitor-threshold", shared.latency.threshold_ms().to_string()),
        ("latency-tracking", yes_no(shared.latency.is_tracking()).into()),
        ("slowlog-log-slower-than", shared.settings.slow_log_us().to_string()),
        ("slowlog-max-len", shared.settings.slow_log_len_max().to_string()),
        ("tcp-keepalive", keepalive.to_string()),
        ("timeout", timeout.to_string()),
        ("unixsocket", socket.unwrap_or_default()),
        // As Redis shows it; 0 is what the process leaves new files.
        ("unixsocketperm", format!("{:o}", config.unix_socket_mode.unwrap_or(0))),
    ];
    let tls = shared.control.tls.as_ref().map(|tls| tls.files());
    let tls_port = shared.control.tls_addresses.first().map_or(0, |address| address.port());
    settings.push(("tls-port", tls_port.to_string()));
    let file = |pick: fn(&TlsFiles) -> Option<&PathBuf>| {
        let path = tls.as_ref().and_then(pick);
        path.map_or_else(String::new, |path| path.display().to_string())
    };
    settings.extend([
        ("tls-cert-file", file(|files| Some(&files.certificate))),
        ("tls-key-file", file(|files| Some(&files.key))),
        ("tls-ca-cert-file", file(|files| files.client_authorities.as_ref())),
    ]);
    let clients = tls.as_ref().map_or("no", |files| files.wanted().name());
    settings.push(("tls-auth-clients", clients.to_string()));
    for (index, (name, older, _)) in ENCODINGS.into_iter().enumerate() {
        let value = shared.settings.encoding(index).to_string();
        if older != name {
            settings.push((older, value.clone()));
        }
        settings.push((name, value));
    }
    settings
}

fn get(context: &mut Context<'_>, request: &Request<'_>) {
    let mut settings: Vec<_> = settings(context.shared).into_iter().map(Some).collect();
    let mut found = vec![None; settings.len()];
    for pattern in request.args_from(2) {
        // One at a time: it may take twenty times its bytes.
        let pattern = Pattern::new(&pattern.to_ascii_lowercase());
        for (setting, found) in settings.iter_mut().zip(&mut found) {
            if setting.as_ref().is_some_and(|(name, _)| pattern.matches(name.as_bytes())) {
                *found = setting.take();
            }
        }
    }
    context.reply.map(found.iter().flatten().count());
    for (name, value) in found.into_iter().flatten() {
        context.reply.bulk(name.as_bytes());
        context.reply.bulk(value.as_bytes());
    }
}

/// All values are checked before the first is changed.
fn set(context: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let shared = context.shared;
    // For a transaction it is held since its files were read.
    let tls = shared.control.tls.as_ref().filter(|_| context.later.is_none());
    let _changing = tls.filter(|_| is_about_tls(request)).map(|tls| tls.begin_change());
    let mut certificates = Certificates::of(context);
    let mut changes = parse_changes(shared, request, &mut certificates)?;
    if certificates.is_changed() {
        let ready = certificates.load(context.later.as_deref_mut())?;
        changes.push(NewValue::Certificates(ready));
    }
    context.act(move |shared| changes.into_iter().for_each(|change| change.make(shared)));
    context.reply.ok();
    Ok(())
}

/// What `CONFIG SET` is to change, with that of TLS apart.
fn parse_changes(
    shared: &Shared,
    request: &Request<'_>,
    certificates: &mut Certificates,
) -> Result<Vec<NewValue>, Failure> {
    let mut changes = Vec::new();
    for index in (2..request.len()).step_by(2) {
        let name = request.arg(index);
        let mut before = (2..index).step_by(2).map(|before| request.arg(before));
        if before.any(|before| before.eq_ignore_ascii_case(name)) {
            return Err(Failure::text(format!(
                "ERR CONFIG SET failed (possibly related to argument '{}') - duplicate parameter",
                shown(name)
            )));
        }
        if certificates.take(request.arg(index), request.arg(index + 1))? {
            continue;
        }
        changes.push(parse_change(shared, request.arg(index), request.arg(index + 1))?);
    }
    Ok(changes)
}

/// Whether a `CONFIG SET` has settings of TLS.
fn is_about_tls(request: &Request<'_>) -> bool {
    let mut names = (2..request.len()).step_by(2).map(|index| request.arg(index));
    names.any(|name| name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b"tls-")))
}

/// Reads the files of TLS that the commands of a transaction name, before it is run. Nobody else changes settings of
/// TLS until what is returned beside them is dropped, behind the transaction.
pub fn read_ahead<'a, 's>(
    shared: &'s Shared,
    requests: impl Iterator<Item = Request<'a>>,
) -> (ReadAhead, Option<MutexGuard<'s, ()>>) {
    let (mut ahead, mut changing) = (ReadAhead::default(), None);
    let Some(tls) = &shared.control.tls else { return (ahead, None) };
    let mut files = None;
    for request in requests {
        let is = |index: usize, word: &str| {
            request.get(index).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
        };
        let is_whole = request.len() >= 4 && request.len().is_multiple_of(2);
        if !is_whole || !is(0, "config") || !is(1, "set") || !is_about_tls(&request) {
            continue;
        }
        changing.get_or_insert_with(|| tls.begin_change());
        files.get_or_insert_with(|| tls.files());
        let mut certificates = Certificates::new(files.clone());
        // What is refused here will be refused there.
        if parse_changes(shared, &request, &mut certificates).is_ok() && certificates.is_changed() {
            files = certificates.into_files().and_then(|it| ahead.read(it)).or(files);
        }
    }
    (ahead, changing)
}

enum NewValue {
    Certificates(LoadedCertificates),
    /// The setting has this value already.
    None,
    ClientCountMax(usize),
    BulkSizeMax(usize),
    /// `None` = no limit.
    ClientMemoryMax(Option<usize>),
    /// Seconds; 0 = never.
    IdleTimeout(u64),
    /// Microseconds; negative = never.
    SlowLogAfter(i64),
    SlowLogLenMax(usize),
    AclLogLenMax(usize),
    /// Milliseconds; 0 = never.
    LatencyThreshold(u64),
    LatencyTracking(bool),
    /// One of [`ENCODINGS`], by its index.
    Encoding(usize, i64),
}

impl NewValue {
    fn make(self, shared: &Shared) {
        let settings = &shared.settings;
        match self {
            NewValue::None => {}
            NewValue::Certificates(ready) => {
                if let Some(tls) = &shared.control.tls {
                    tls.exchange(ready);
                }
            }
            NewValue::ClientCountMax(count) => settings.set_client_count_max(count),
            NewValue::BulkSizeMax(size) => settings.set_bulk_size_max(size),
            NewValue::ClientMemoryMax(size) => {
                settings.set_client_memory_max(size);
                shared.enforce_client_memory();
            }
            NewValue::SlowLogAfter(microseconds) => settings.set_slow_log_us(microseconds),
            NewValue::Encoding(index, value) => settings.set_encoding(index, value),
            NewValue::AclLogLenMax(count) => settings.set_acl_log_len_max(count),
            NewValue::LatencyThreshold(milliseconds) => {
                shared.latency.set_threshold_ms(milliseconds)
            }
            NewValue::LatencyTracking(is_on) => {
                shared.latency.set_tracking(is_on, facts::NUMBER_COUNT);
            }
            NewValue::SlowLogLenMax(count) => settings.set_slow_log_len_max(count),
            NewValue::IdleTimeout(seconds) => {
                settings.set_idle_timeout_s(seconds);
                // The event loops wait for ever unless they know of a timeout.
                shared.control.wake_all();
            }
        }
    }
}

fn parse_change(shared: &Shared, name: &[u8], value: &[u8]) -> Result<NewValue, Failure> {
    let lower = String::from_utf8_lossy(name).to_ascii_lowercase();
    let fail = |why: String| {
        Failure::text(format!(
            "ERR CONFIG SET failed (possibly related to argument '{}') - {why}",
            shown(lower.as_bytes())
        ))
    };
    let integer = || {
        let number = parse_integer(value);
        number.ok_or_else(|| fail("argument couldn't be parsed into an integer".into()))
    };
    let out_of_range =
        |min: i64, max: u64| fail(format!("argument must be between {min} and {max} inclusive"));
    let number = |min: u64, max: u64| {
        let number = u64::try_from(integer()?).ok().filter(|number| (min..=max).contains(number));
        number.ok_or_else(|| out_of_range(min as i64, max))
    };
    let encoding = ENCODINGS.iter().position(|(name, older, _)| [*name, older].contains(&&*lower));
    if let Some(index) = encoding {
        // That of lists alone may be negative.
        let min = if lower.starts_with("list-max") { i64::from(i32::MIN) } else { 0 };
        let value =
            size_arg(value).and_then(|size| i64::try_from(size).ok()).or(parse_integer(value));
        let value = value.filter(|value| *value >= min);
        let number =
            value.ok_or_else(|| fail("argument couldn't be parsed into an integer".into()))?;
        return Ok(NewValue::Encoding(index, number));
    }
    let bulk_size_limit = shared.config.request_size_max as u64 - 1;
    match lower.as_str() {
        "maxclients" => Ok(NewValue::ClientCountMax(number(1, u64::from(u32::MAX))? as usize)),
        "maxmemory-clients" => {
            let size =
                size_arg(value).ok_or_else(|| fail("argument must be a memory value".into()))?;
            Ok(NewValue::ClientMemoryMax(Some(size).filter(|&size| size > 0)))
        }
        "slowlog-log-slower-than" => {
            let number = Some(integer()?).filter(|number| *number >= -1);
            Ok(NewValue::SlowLogAfter(number.ok_or_else(|| out_of_range(-1, i64::MAX as u64))?))
        }
        "slowlog-max-len" => Ok(NewValue::SlowLogLenMax(number(0, LOG_LEN_LIMIT as u64)? as usize)),
        "acllog-max-len" => Ok(NewValue::AclLogLenMax(number(0, LOG_LEN_LIMIT as u64)? as usize)),
        "latency-monitor-threshold" => Ok(NewValue::LatencyThreshold(number(0, i64::MAX as u64)?)),
        "latency-tracking" => match value.to_ascii_lowercase().as_slice() {
            b"yes" => Ok(NewValue::LatencyTracking(true)),
            b"no" => Ok(NewValue::LatencyTracking(false)),
            _ => Err(fail("argument must be 'yes' or 'no'".into())),
        },
        "timeout" => Ok(NewValue::IdleTimeout(number(0, IDLE_TIMEOUT_MAX_S)?)),
        "proto-max-bulk-len" => {
            let size =
                size_arg(value).ok_or_else(|| fail("argument must be a memory value".into()))?;
            let range = BULK_SIZE_MIN..=bulk_size_limit as usize;
            let size = Some(size).filter(|size| range.contains(size));
            let wrong = || out_of_range(BULK_SIZE_MIN as i64, bulk_size_limit);
            Ok(NewValue::BulkSizeMax(size.ok_or_else(wrong)?))
        }
        _ => {
            let settings = settings(shared);
            match settings.iter().find(|(known, _)| *known == lower) {
                None => Err(Failure::text(format!(
                    "ERR Unknown option or number of arguments for CONFIG SET - '{}'",
                    shown(name)
                ))),
                Some((_, current)) if current.as_bytes() == value => Ok(NewValue::None),
                Some(_) => Err(fail("can't set immutable config".into())),
            }
        }
    }
}

fn yes_no(is_on: bool) -> &'static str {
    if is_on { "yes" } else { "no" }
}

/// Bytes, as a number with a unit that the protocol's original server knows: `100mb`, `1g`.
fn size_arg(value: &[u8]) -> Option<usize> {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, unit) = value.split_at(digits);
    let factor = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1_000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    usize::try_from(parse_integer(number)?).ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::size_arg;
    use crate::batch::test_run::Bench;
    use crate::glob;

    /// What took twenty times the bytes of the request: all patterns were taken apart before one was looked at.
    #[test]
    fn patterns_are_taken_apart_one_at_a_time() {
        let (bench, before) = (Bench::new(Bench::config()), glob::TAKEN_COUNT.get());
        let line = format!("CONFIG GET {}maxclient? MAXCLIENTS", "[] ".repeat(100));
        let reply = bench.run(&mut bench.client(), &line);
        assert_eq!(reply, "*2\r\n$10\r\nmaxclients\r\n$5\r\n10000");
        assert_eq!(glob::TAKEN_COUNT.get() - before, 102);
        assert_eq!(glob::PEAK_COUNT.get(), 1, "patterns at the same time");
    }

    #[test]
    fn sizes_have_the_units_that_clients_know() {
        assert_eq!(size_arg(b"0"), Some(0));
        assert_eq!(size_arg(b"100mb"), Some(100 << 20));
        assert_eq!(size_arg(b"2G"), Some(2_000_000_000));
        for bad in [&b""[..], b"mb", b"-1", b"1x", b"5%", b"99999999999gb"] {
            assert_eq!(size_arg(bad), None);
        }
    }
}
