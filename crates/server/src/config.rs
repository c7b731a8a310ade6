//! How a server is set up.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use everleaf::human_size;

use crate::databases::DATABASE_COUNT_MAX;
use crate::tls::TlsConfig;
use crate::{ServerError, process_memory};

/// The least that `proto-max-bulk-len` may be.
pub const BULK_SIZE_MIN: usize = 1024;
/// Slow commands, and refusals, that may be kept at most: each takes up to about 4 KiB.
pub const LOG_LEN_LIMIT: usize = 1 << 16;

/// How the configuration file becomes one that says what is set now (`CONFIG REWRITE`): of its text and the settings,
/// the new text, or why there is none.
pub type Rewrite = dyn Fn(&str, &[Setting]) -> Result<String, String> + Send + Sync;

/// The configuration file, and how it is written anew.
#[derive(Clone)]
pub struct ConfigFile {
    /// Where it is.
    pub path: PathBuf,
    /// What makes its text anew.
    pub rewrite: Arc<Rewrite>,
}

/// A setting that can be changed while the server runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The option of `everleaf serve`, without its dashes.
    pub option: &'static str,
    /// What it is now; `None` says that the option is not given.
    pub value: Option<String>,
    /// What it is without the option.
    pub default: Option<String>,
}

/// Which clients may use `DEBUG`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebugCommand {
    /// Nobody.
    No,
    /// Clients that connect from this machine.
    Local,
    /// All clients that may use commands of administration.
    Yes,
}

/// How a server is set up. Start from [`Config::default`] and change what differs.
///
/// # Example
/// ```
/// use everleaf_server::Config;
/// let config = Config { port: 7000, password: Some("secret".into()), ..Config::default() };
/// assert!(!format!("{config:?}").contains("secret"));
/// ```
#[derive(Clone)]
pub struct Config {
    /// The host names or addresses to listen on; none: only on the Unix socket. Default
    /// `127.0.0.1`.
    pub bind: Vec<String>,
    /// The TCP port; 0 lets the system choose. Default 6399.
    pub port: u16,
    /// TLS on a port of its own, on the same addresses. Default: none.
    pub tls: Option<TlsConfig>,
    /// Whether the plain TCP port is not listened on. Default: it is.
    pub tls_only: bool,
    /// A Unix socket to listen on as well. A dead one at this path is replaced.
    pub unix_socket: Option<PathBuf>,
    /// The permissions of that socket, such as `0o770`; users that may write to it may connect. Default: what the
    /// process leaves new files (umask).
    pub unix_socket_mode: Option<u32>,
    /// An address with a port on which `/metrics` (OpenMetrics) and `/health` are told by HTTP, without a password.
    /// Default: none.
    pub metrics: Option<String>,
    /// The databases that clients can select. Default 16; at most 1024.
    pub databases: usize,
    /// The threads that serve connections; 0 = one per CPU but one, which the network of the kernel and clients on
    /// the same machine have, and one at least. Default 0.
    pub threads: usize,
    /// What clients must give to `AUTH` before anything else. Default: no password.
    pub password: Option<String>,
    /// A file of users with their passwords and permissions (`ACL`), which must exist. Default: there is one user, with
    /// the password above. Contradicts a password.
    pub acl_file: Option<PathBuf>,
    /// Wrong passwords a minute that are looked at from one address; further ones are refused, right or wrong, until
    /// the minute is over. 0 = no limit. Default 100.
    pub wrong_password_count_max: u64,
    /// The most connections at a time; a further one is told so and closed. Default 10,000.
    pub client_count_max: usize,
    /// Connections that send nothing for this long are closed. Default: never. Whole seconds.
    pub idle_timeout: Option<Duration>,
    /// Silence on a TCP connection after which the kernel asks whether the peer is still there.
    /// Default 300 s.
    pub tcp_keepalive: Option<Duration>,
    /// The longest argument of a request, in bytes. Default 512 MiB.
    pub bulk_size_max: usize,
    /// The most arguments of a request. Default 1,048,576.
    pub arg_count_max: usize,
    /// The longest inline request, in bytes. Default 64 KiB.
    pub inline_size_max: usize,
    /// The longest request, in bytes. Default 1 GiB; at most `u32::MAX`.
    pub request_size_max: usize,
    /// Unsent replies of a connection, in bytes, above which its further requests wait until the
    /// client has read some. Default 1 MiB.
    pub output_pause_size: usize,
    /// The longest reply to one request, in bytes; a longer one becomes an error. Default 1 GiB.
    pub reply_size_max: usize,
    /// What all clients together may make the server hold, in bytes: unfinished requests, unsent
    /// replies, commands kept for `EXEC`, watched keys. When they hold more, those that hold most
    /// are closed. `None`: no limit. Default: a quarter of the memory that this process may use.
    pub client_memory_max: Option<usize>,
    /// Microseconds from which on a command is kept as slow; negative is never. Default 10,000.
    pub slow_log_us: i64,
    /// How many slow commands are kept. Default 128.
    pub slow_log_len_max: usize,
    /// How many refusals of `ACL LOG` are kept. Default 128.
    pub acl_log_len_max: usize,
    /// Which clients may use `DEBUG`. Default: nobody.
    pub debug_command: DebugCommand,
    /// What `CONFIG REWRITE` writes. Default: there is no file.
    pub config_file: Option<ConfigFile>,
    /// How long a shutdown goes on with requests that were received, and waits for clients to read their last replies.
    /// Default 2 s.
    pub shutdown_grace: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            bind: vec!["127.0.0.1".into()],
            port: 6399,
            tls: None,
            tls_only: false,
            unix_socket: None,
            unix_socket_mode: None,
            metrics: None,
            databases: 16,
            threads: 0,
            password: None,
            acl_file: None,
            wrong_password_count_max: 100,
            client_count_max: 10_000,
            idle_timeout: None,
            tcp_keepalive: Some(Duration::from_secs(300)),
            bulk_size_max: 512 << 20,
            arg_count_max: 1 << 20,
            inline_size_max: 64 << 10,
            request_size_max: 1 << 30,
            output_pause_size: 1 << 20,
            reply_size_max: 1 << 30,
            client_memory_max: process_memory::available().map(|size| (size / 4) as usize),
            slow_log_us: 10_000,
            slow_log_len_max: 128,
            acl_log_len_max: 128,
            debug_command: DebugCommand::No,
            config_file: None,
            shutdown_grace: Duration::from_secs(2),
        }
    }
}

/// Event loops for so many CPUs. With one for each, a loop waits for the processor as soon as a client or the kernel
/// does something, and the replies of all its connections with it (`docs/results/servers.md`).
fn event_loops_on(cpus: usize) -> usize {
    cpus.saturating_sub(1).max(1)
}

impl Config {
    /// The number of event loops this configuration means here.
    pub(crate) fn thread_count(&self) -> usize {
        match self.threads {
            0 => {
                event_loops_on(std::thread::available_parallelism().map_or(1, |count| count.get()))
            }
            count => count,
        }
    }

    /// Refuses what cannot work.
    pub(crate) fn check(&self) -> Result<(), ServerError> {
        let refuse = |text: String| Err(ServerError::Config(text));
        if self.tls_only && self.tls.is_none() {
            return refuse("nothing but TLS is wanted (--tls-only): give --tls-port".into());
        }
        if self.bind.is_empty() && self.unix_socket.is_none() {
            return refuse("nothing to listen on: give --bind or --unixsocket".into());
        }
        if let (Some(_), None) = (self.unix_socket_mode, &self.unix_socket) {
            return refuse("permissions of no socket (--unixsocketperm): give --unixsocket".into());
        }
        if self.unix_socket_mode.is_some_and(|mode| mode > 0o777) {
            return refuse("--unixsocketperm: 777 at most".into());
        }
        if self.threads > 1024 {
            return refuse(format!("--threads {}: 1024 at most", self.threads));
        }
        if !(1..=DATABASE_COUNT_MAX).contains(&self.databases) {
            return refuse(format!("--databases {}: 1 to {DATABASE_COUNT_MAX}", self.databases));
        }
        if self.client_count_max == 0 {
            return refuse("--maxclients must be at least 1".into());
        }
        if self.client_memory_max == Some(0) {
            return refuse("clients need some memory: give a limit above 0, or none at all".into());
        }
        if self.request_size_max > u32::MAX as usize {
            return refuse(format!(
                "requests of up to {} are the limit: give at most {} bytes",
                human_size(u64::from(u32::MAX)),
                u32::MAX
            ));
        }
        if self.bulk_size_max >= self.request_size_max {
            return refuse(format!(
                "--proto-max-bulk-len {} is too large: it must be below {}, the limit of a whole request",
                human_size(self.bulk_size_max as u64),
                human_size(self.request_size_max as u64)
            ));
        }
        if self.bulk_size_max < BULK_SIZE_MIN {
            let least = human_size(BULK_SIZE_MIN as u64);
            return refuse(format!("--proto-max-bulk-len must be at least {least}"));
        }
        if self.slow_log_us < -1 {
            return refuse("--slowlog-log-slower-than: 0 or more, or -1 for never".into());
        }
        if self.slow_log_len_max.max(self.acl_log_len_max) > LOG_LEN_LIMIT {
            return refuse(format!(
                "--slowlog-max-len and --acllog-max-len: {LOG_LEN_LIMIT} at most"
            ));
        }
        if self.password.as_deref() == Some("") {
            return refuse(
                "the password is empty (--requirepass, EVERLEAF_REQUIREPASS): give one, or none at all".into(),
            );
        }
        let password_size = self.password.as_ref().map_or(0, String::len);
        if password_size > crate::password::SIZE_MAX {
            return refuse(format!(
                "the password has {password_size} bytes: give one of at most 64 KiB"
            ));
        }
        if self.password.is_some() && self.acl_file.is_some() {
            return refuse(
                "--aclfile already sets the password of `default`: remove --requirepass, --requirepass-file or \
                 EVERLEAF_REQUIREPASS"
                    .into(),
            );
        }
        Ok(())
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("bind", &self.bind)
            .field("port", &self.port)
            .field("tls", &self.tls)
            .field("tls_only", &self.tls_only)
            .field("unix_socket", &self.unix_socket)
            .field("unix_socket_mode", &self.unix_socket_mode)
            .field("metrics", &self.metrics)
            .field("threads", &self.threads)
            .field("password", &self.password.as_ref().map(|_| "(hidden)"))
            .field("acl_file", &self.acl_file)
            .field("client_count_max", &self.client_count_max)
            .field("idle_timeout", &self.idle_timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_can_work() {
        assert!(Config::default().check().is_ok());
        assert!(Config::default().thread_count() >= 1);
    }

    #[test]
    fn a_cpu_is_left_to_the_network_and_to_clients() {
        assert_eq!([1, 2, 3, 16].map(event_loops_on), [1, 1, 2, 15]);
    }

    #[test]
    fn what_cannot_work_is_refused_with_a_sentence() {
        let base = Config::default;
        let bad = [
            Config { bind: vec![], ..base() },
            Config { threads: 5000, ..base() },
            Config { tls_only: true, ..base() },
            Config { unix_socket_mode: Some(0o700), ..base() },
            Config { unix_socket: Some("s".into()), unix_socket_mode: Some(0o1777), ..base() },
            Config { databases: 0, ..base() },
            Config { databases: 1025, ..base() },
            Config { client_count_max: 0, ..base() },
            Config { client_memory_max: Some(0), ..base() },
            Config { request_size_max: usize::MAX, ..base() },
            Config { bulk_size_max: 1 << 30, ..base() },
            Config { bulk_size_max: 1023, ..base() },
            Config { slow_log_us: -2, ..base() },
            Config { slow_log_len_max: 65_537, ..base() },
            Config { password: Some(String::new()), ..base() },
            Config { password: Some("a".into()), acl_file: Some("b".into()), ..base() },
        ];
        for config in bad {
            let error = config.check().unwrap_err();
            assert!(error.to_string().len() > 20, "{error}");
        }
    }
}
