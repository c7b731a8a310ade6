//! What a service manager (systemd) is told, and gives: that the server is ready, that it stops, sockets it listens on.
//!
//! Without a manager nothing happens. The messages are datagrams to the socket that `NOTIFY_SOCKET` names; a name that
//! begins with `@` is of the abstract namespace.

use crate::failure::Failure;
use crate::output::counted;
use everleaf_server::ListeningSocket;
use listenfd::ListenFd;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// The environment variable that names the manager's socket.
const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";
/// The environment variable with the number of the process that sockets are for.
const PROCESS_VARIABLE: &str = "LISTEN_PID";

/// How much more time is asked for, how often, and how many times while nothing is known to go on: for an hour.
const MORE_TIME: &str = "EXTEND_TIMEOUT_USEC=60000000";
const ASKED_EACH: Duration = Duration::from_secs(5);
const ASKED_AT_MOST: u32 = 720;

/// The first descriptor that is handed over.
const FIRST: usize = 3;

/// The sockets that the manager hands over (`LISTEN_FDS`), on which the server listens instead of its own. To be asked
/// before anything else is opened: a manager that counts more than it hands over means descriptors that are free by
/// then, and others later.
///
/// # Errors
/// One of them is no socket that listens.
pub fn sockets() -> Result<Vec<ListeningSocket>, Failure> {
    // An empty number is that of no process, and not of each.
    if std::env::var_os(PROCESS_VARIABLE).is_some_and(|process| process.is_empty()) {
        return Ok(Vec::new());
    }
    let mut given = ListenFd::from_env();
    let mut sockets = Vec::new();
    for index in 0..given.len() {
        // Of another kind, it stays to be taken.
        let tcp = given.take_tcp_listener(index).ok().flatten().map(ListeningSocket::Tcp);
        let unix = || given.take_unix_listener(index).ok().flatten().map(ListeningSocket::Unix);
        let socket = tcp.or_else(unix);
        let socket = socket.filter(|socket| socket.is_listening().unwrap_or(false));
        sockets.push(socket.ok_or_else(|| {
            Failure::usage(format!(
                "the service manager hands over {} (LISTEN_FDS), and descriptor {} is no TCP or Unix socket that \
                 listens",
                counted(given.len() as u64, "socket"),
                FIRST + index
            ))
        })?);
    }
    Ok(sockets)
}

/// Tells the manager, if there is one. That it cannot be told is no reason to stop.
pub fn tell(message: &str) {
    let Some(name) = std::env::var_os(SOCKET_VARIABLE).filter(|name| !name.is_empty()) else {
        return;
    };
    if let Err(error) = send(&name, message) {
        tracing::warn!("the service manager cannot be told: {error}");
    }
}

/// Asks the manager for more time, again and again, until it is dropped: one that stops a service kills it after a
/// while, and in the middle of a save. It ends an hour after the last that went on: what stands still, as on a disk
/// that does not answer, must not keep the machine from being shut down.
pub struct Patience {
    has_gone_on: Arc<AtomicBool>,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Patience {
    pub fn ask() -> Self {
        Self::ask_by(ASKED_EACH, ASKED_AT_MOST, || tell(MORE_TIME))
    }

    /// Says that something went on.
    pub fn went_on(&self) {
        // Relaxed: a hint.
        self.has_gone_on.store(true, Ordering::Relaxed);
    }

    fn ask_by(each: Duration, at_most: u32, tell: impl Fn() + Send + 'static) -> Self {
        let has_gone_on = Arc::new(AtomicBool::new(false));
        let (end, is_over) = channel();
        // Also without a thread.
        tell();
        let progress = Arc::clone(&has_gone_on);
        let ask = move || {
            let mut left = at_most;
            while is_over.recv_timeout(each) == Err(RecvTimeoutError::Timeout) {
                // Relaxed: a hint.
                if progress.swap(false, Ordering::Relaxed) {
                    left = at_most;
                }
                if left > 0 {
                    left -= 1;
                    tell();
                }
            }
        };
        let thread = Builder::new().name("everleaf-patience".into()).spawn(ask).ok();
        Patience { has_gone_on, end: Some(end), thread }
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        drop(self.end.take());
        // What it does can only fail to tell.
        self.thread.take().map(JoinHandle::join);
    }
}

fn send(name: &OsStr, message: &str) -> io::Result<()> {
    let address = match name.as_bytes() {
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    // A manager that does not read must not keep the server from serving.
    socket.set_nonblocking(true)?;
    socket.send_to_addr(message.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only the first message was looked at; and where a close stood still, a manager was asked for more time for ever.
    #[test]
    fn more_time_is_asked_for_while_the_close_goes_on() {
        const LONG: Duration = Duration::from_secs(60);
        let (sender, told) = channel();
        let tell = move || sender.send(()).expect("it is heard");
        let patience = Patience::ask_by(Duration::from_millis(1), 3, tell);
        let is_told = || told.recv_timeout(LONG).expect("it asks");
        let is_quiet = || told.recv_timeout(Duration::from_millis(100)).is_err();
        // At once, and three times more.
        (0..4).for_each(|_| is_told());
        assert!(is_quiet(), "nothing goes on");
        patience.went_on();
        (0..3).for_each(|_| is_told());
        assert!(is_quiet(), "nothing goes on");
        drop(patience);
        assert!(told.recv().is_err(), "its thread has ended");
    }

    #[test]
    fn messages_arrive_in_both_kinds_of_sockets() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = folder.path().join("notify");
        let abstract_name = format!("everleaf-test-{}", std::process::id());
        let by_path = UnixDatagram::bind(&path).expect("it can be bound");
        let address = SocketAddr::from_abstract_name(&abstract_name).expect("it is a name");
        let by_name = UnixDatagram::bind_addr(&address).expect("it can be bound");
        let abstract_name = format!("@{abstract_name}");
        for (name, socket) in [(path.as_os_str(), by_path), (OsStr::new(&abstract_name), by_name)] {
            send(name, "READY=1").expect("it can be sent");
            let mut buffer = [0; 64];
            let size = socket.recv(&mut buffer).expect("it came");
            assert_eq!(&buffer[..size], b"READY=1");
        }
        assert!(send(OsStr::new("/none/such"), "x").is_err());
        assert!(send(OsStr::new(&"x".repeat(500)), "x").is_err());
    }
}
