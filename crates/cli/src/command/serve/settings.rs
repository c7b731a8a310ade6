//! What the arguments of `serve` mean for the server.

use super::args::{AuthClientsArg, ServeArgs};
use crate::failure::Failure;
use everleaf::regular_file::read_at_most;
use everleaf_server::{Config, TlsConfig, TlsFiles};
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

/// The environment variable that holds the password.
const PASSWORD_VARIABLE: &str = "EVERLEAF_REQUIREPASS";

/// A file of a password is no longer.
const PASSWORD_FILE_SIZE_MAX: u64 = 64 << 10;

/// How long a client may take to show that it speaks TLS.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn config_of(args: &ServeArgs) -> Result<Config, Failure> {
    Ok(Config {
        bind: args.bind.clone(),
        port: args.port,
        tls: tls_of(args)?,
        tls_only: args.tls_only,
        unix_socket: args.unixsocket.clone(),
        unix_socket_mode: args.unixsocketperm,
        metrics: args.metrics.clone(),
        databases: args.databases,
        threads: args.threads,
        password: password_of(args)?,
        acl_file: args.aclfile.clone(),
        wrong_password_count_max: args.auth_attempts,
        client_count_max: args.maxclients,
        client_memory_max: client_memory_of(args)?,
        bulk_size_max: usize::try_from(args.proto_max_bulk_len).unwrap_or(usize::MAX),
        slow_log_us: args.slowlog_log_slower_than,
        slow_log_len_max: args.slowlog_max_len,
        acl_log_len_max: args.acllog_max_len,
        debug_command: args.enable_debug_command.meant(),
        idle_timeout: (args.timeout > 0).then(|| Duration::from_secs(args.timeout)),
        ..Config::default()
    })
}

/// What is said of TLS.
fn tls_of(args: &ServeArgs) -> Result<Option<TlsConfig>, Failure> {
    let files = [&args.tls_cert_file, &args.tls_key_file, &args.tls_ca_cert_file];
    let Some(port) = args.tls_port else {
        let is_wanted = args.tls_only
            || args.tls_auth_clients.is_some()
            || files.iter().any(|file| file.is_some());
        return match is_wanted {
            true => Err(Failure::usage(
                "options of TLS without a port: give --tls-port as well".to_string(),
            )),
            false => Ok(None),
        };
    };
    let (Some(certificate), Some(key)) = (&args.tls_cert_file, &args.tls_key_file) else {
        return Err(Failure::usage(
            "--tls-port needs a certificate and its key: give --tls-cert-file and --tls-key-file"
                .to_string(),
        ));
    };
    let files = TlsFiles {
        certificate: certificate.clone(),
        key: key.clone(),
        client_authorities: args.tls_ca_cert_file.clone(),
        client_certificates: args.tls_auth_clients.map(AuthClientsArg::meant),
    };
    Ok(Some(TlsConfig { port, files, handshake_timeout: HANDSHAKE_TIMEOUT }))
}

/// The limit of the memory of clients; `None` is none.
fn client_memory_of(args: &ServeArgs) -> Result<Option<usize>, Failure> {
    match args.client_memory {
        None => Ok(Config::default().client_memory_max),
        Some(0) => Ok(None),
        Some(size) => usize::try_from(size).map(Some).map_err(|_| {
            Failure::usage("--client-memory is more than this machine can address".to_string())
        }),
    }
}

fn password_of(args: &ServeArgs) -> Result<Option<String>, Failure> {
    if let Some(file) = &args.requirepass_file {
        return read_password(file).map(Some);
    }
    if args.requirepass.is_some() {
        return Ok(args.requirepass.clone());
    }
    match std::env::var(PASSWORD_VARIABLE) {
        Ok(password) => Ok(Some(password)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(Failure::usage(format!("the password in {PASSWORD_VARIABLE} is not UTF-8")))
        }
    }
}

fn read_password(file: &Path) -> Result<String, Failure> {
    // It may be a pipe, but must have an end.
    let bytes = File::open(file).and_then(|file| read_at_most(file, PASSWORD_FILE_SIZE_MAX));
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other));
    let text = text.map_err(|error| {
        Failure::io(&format!("cannot read the password from {}", file.display()), &error)
    })?;
    let password = text.lines().next().unwrap_or_default();
    if password.is_empty() {
        let file = file.display();
        return Err(Failure::usage(format!(
            "the first line of {file} is empty: write the password there"
        )));
    }
    Ok(password.to_string())
}
