//! TCP and Unix sockets under one name, with TLS and without.

mod path;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use socket2::{Domain, SockRef, TcpKeepalive, Type};

use self::path::{Made, listen_unix};
use crate::tls::{Tls, TlsSocket};
use crate::{Config, ServerError};

/// Connections that wait to be accepted; the kernel's own limit is lower, as a rule.
const BACKLOG: i32 = 4096;

/// A connection's socket; non-blocking.
#[derive(Debug)]
pub enum Socket {
    Tcp(TcpStream),
    Tls(TlsSocket),
    Unix(UnixStream),
}

impl Socket {
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(buffer),
            Socket::Tls(socket) => socket.read(buffer),
            Socket::Unix(stream) => stream.read(buffer),
        }
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Tls(socket) => socket.write(bytes),
            Socket::Unix(stream) => stream.write(bytes),
        }
    }

    /// Gives the kernel what a session has kept of earlier writes.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Socket::Tls(socket) => socket.flush(),
            Socket::Tcp(_) | Socket::Unix(_) => Ok(()),
        }
    }

    /// Whether a session keeps something of earlier writes.
    pub fn has_unsent(&self) -> bool {
        matches!(self, Socket::Tls(socket) if socket.has_unsent())
    }

    /// Whether a read would find something without an event.
    pub fn has_more(&self) -> bool {
        matches!(self, Socket::Tls(socket) if socket.has_more())
    }

    /// Whether the peer must still show that it speaks TLS.
    pub fn is_handshaking(&self) -> bool {
        matches!(self, Socket::Tls(socket) if socket.is_handshaking())
    }

    /// Bytes that a session holds, about.
    pub fn memory(&self) -> usize {
        match self {
            Socket::Tls(socket) => socket.memory(),
            Socket::Tcp(_) | Socket::Unix(_) => 0,
        }
    }

    /// Its number in this process.
    pub fn descriptor(&self) -> i32 {
        match self {
            Socket::Tcp(stream) => stream.as_raw_fd(),
            Socket::Tls(socket) => socket.stream().as_raw_fd(),
            Socket::Unix(stream) => stream.as_raw_fd(),
        }
    }

    /// Whether it came by a path.
    pub fn is_unix(&self) -> bool {
        matches!(self, Socket::Unix(_))
    }

    /// The TCP socket, if it is one.
    fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Socket::Tcp(stream) => Some(stream),
            Socket::Tls(socket) => Some(socket.stream()),
            Socket::Unix(_) => None,
        }
    }

    /// Wants to hear of both directions, once per change (edge-triggered).
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        match self {
            Socket::Tcp(stream) => registry.register(stream, token, interest),
            Socket::Tls(socket) => registry.register(socket.stream_mut(), token, interest),
            Socket::Unix(stream) => registry.register(stream, token, interest),
        }
    }

    /// Tells the peer that nothing more will come. Best effort: the peer may be gone.
    pub fn finish(&mut self) {
        let result = match self {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Socket::Tls(socket) => socket.finish(),
            Socket::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
        if let Err(error) = result {
            tracing::trace!("a socket was closed by its peer first: {error}");
        }
    }

    /// Sends small replies at once, and notices dead peers. Best effort.
    pub fn tune(&self, keepalive: Option<Duration>) {
        let Some(stream) = self.tcp() else { return };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("TCP_NODELAY cannot be set: {error}");
        }
        let Some(time) = keepalive else { return };
        let keepalive = TcpKeepalive::new().with_time(time).with_interval(time / 3);
        if let Err(error) = SockRef::from(stream).set_tcp_keepalive(&keepalive) {
            tracing::debug!("TCP keep-alive cannot be set: {error}");
        }
    }

    /// The addresses of the peer and of this side, for people.
    pub fn addresses(&self) -> (String, String) {
        let shown = |address: io::Result<SocketAddr>| match address {
            Ok(address) => address.to_string(),
            Err(_) => "?:0".to_string(),
        };
        match self {
            Socket::Tcp(stream) => (shown(stream.peer_addr()), shown(stream.local_addr())),
            Socket::Tls(socket) => {
                let stream = socket.stream();
                (shown(stream.peer_addr()), shown(stream.local_addr()))
            }
            Socket::Unix(stream) => {
                let address = stream.local_addr().ok();
                let path = address.as_ref().and_then(|address| address.as_pathname());
                let path = path.unwrap_or(Path::new("?")).display().to_string();
                (format!("{path}:0"), format!("{path}:0"))
            }
        }
    }
}

/// A socket that accepts connections; non-blocking.
#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    /// With the certificates of its connections.
    Tls(TcpListener, Arc<Tls>),
    /// What it made at a path is removed when the listener goes.
    Unix(UnixListener, Option<Made>),
}

impl Listener {
    pub fn accept(&self) -> io::Result<Socket> {
        Ok(match self {
            Listener::Tcp(listener) => Socket::Tcp(listener.accept()?.0),
            Listener::Tls(listener, tls) => Socket::Tls(TlsSocket::new(listener.accept()?.0, tls)?),
            Listener::Unix(listener, _) => Socket::Unix(listener.accept()?.0),
        })
    }

    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) | Listener::Tls(listener, _) => {
                registry.register(listener, token, Interest::READABLE)
            }
            Listener::Unix(listener, _) => registry.register(listener, token, Interest::READABLE),
        }
    }

    /// Whether it speaks TLS.
    pub fn is_tls(&self) -> bool {
        matches!(self, Listener::Tls(..))
    }

    /// The TCP address, with the port the system chose.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Listener::Tcp(listener) | Listener::Tls(listener, _) => listener.local_addr().ok(),
            Listener::Unix(..) => None,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, Some(made)) = self
            && let Err(error) = made.remove()
        {
            tracing::debug!("{} cannot be removed: {error}", made.path().display());
        }
    }
}

/// A socket that listens already, as a service manager hands over.
#[derive(Debug)]
pub enum ListeningSocket {
    /// On a TCP port.
    Tcp(std::net::TcpListener),
    /// On a path.
    Unix(std::os::unix::net::UnixListener),
}

impl ListeningSocket {
    /// Whether it listens: a socket may be bound only, or connected, and then nobody ever comes.
    ///
    /// # Errors
    /// What the system answers.
    pub fn is_listening(&self) -> io::Result<bool> {
        match self {
            ListeningSocket::Tcp(socket) => SockRef::from(socket).is_listener(),
            ListeningSocket::Unix(socket) => SockRef::from(socket).is_listener(),
        }
    }

    fn adopt(self) -> io::Result<Listener> {
        Ok(match self {
            ListeningSocket::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                Listener::Tcp(TcpListener::from_std(listener))
            }
            ListeningSocket::Unix(listener) => {
                listener.set_nonblocking(true)?;
                Listener::Unix(UnixListener::from_std(listener), None)
            }
        })
    }
}

/// Listens on the sockets that are given, which are plain ones, or if there is none everywhere the configuration asks
/// for; with TLS in any case where it does. If it asks for nothing but TLS, a port that is given is refused.
pub fn listen(
    config: &Config,
    given: Vec<ListeningSocket>,
    tls: Option<&Arc<Tls>>,
) -> Result<Vec<Listener>, ServerError> {
    let is_given = !given.is_empty();
    if config.tls_only && given.iter().any(|it| matches!(it, ListeningSocket::Tcp(_))) {
        return Err(ServerError::Config(
            "nothing but TLS is wanted, and a TCP socket is handed over, which is served without: leave it away, or \
             hand over a Unix socket"
                .into(),
        ));
    }
    let adopted = given.into_iter().map(ListeningSocket::adopt).collect::<io::Result<Vec<_>>>();
    let mut listeners = adopted
        .map_err(|error| ServerError::Io("cannot use a socket that was handed over", error))?;
    if let (Some(tls), Some(wanted)) = (tls, &config.tls) {
        for host in &config.bind {
            let found = listen_tcp(host, wanted.port, "--bind, --tls-port")?.into_iter();
            listeners.extend(found.map(|listener| Listener::Tls(listener, Arc::clone(tls))));
        }
    }
    if is_given {
        return Ok(listeners);
    }
    for host in config.bind.iter().filter(|_| !config.tls_only) {
        let found = listen_tcp(host, config.port, "--bind, --port")?.into_iter();
        listeners.extend(found.map(Listener::Tcp));
    }
    if let Some(path) = &config.unix_socket {
        listeners.push(listen_unix(path, config.unix_socket_mode)?);
    }
    Ok(listeners)
}

/// Every address of the host name; an address that does not exist here (such as `::1` without
/// IPv6) is passed over if another one works. The options that say where are told if it fails.
fn listen_tcp(host: &str, port: u16, options: &str) -> Result<Vec<TcpListener>, ServerError> {
    let name = format!("{host}:{port} ({options})");
    let fail = |error| ServerError::Bind(name.clone(), error);
    let addresses = (host, port).to_socket_addrs().map_err(fail)?;
    let mut listeners = Vec::new();
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match bind_tcp(address) {
            Ok(listener) => listeners.push(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => failure = error,
            Err(error) => return Err(fail(error)),
        }
    }
    if listeners.is_empty() { Err(fail(failure)) } else { Ok(listeners) }
}

/// Listens at an address; at one of version 6 not for those of version 4 as well, which may have a socket of their own.
fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let SocketAddr::V6(_) = address else { return TcpListener::bind(address) };
    let socket = socket2::Socket::new(Domain::IPV6, Type::STREAM.nonblocking(), None)?;
    socket.set_only_v6(true)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The socket of version 6 took the addresses of version 4 as well: the second one was refused.
    #[test]
    fn both_versions_of_the_protocol_have_their_own_socket() {
        let mut refused = Vec::new();
        for _ in 0..20 {
            let Ok(six) = listen_tcp("::", 0, "") else {
                println!("there is no version 6 here: nothing was tested");
                return;
            };
            // Somebody else may have the same port for version 4.
            match listen_tcp("0.0.0.0", six[0].local_addr().unwrap().port(), "") {
                Ok(four) => {
                    assert_eq!(four.len(), 1);
                    return;
                }
                Err(error) => refused.push(error),
            }
        }
        panic!("{refused:?}");
    }

    /// What was served in the clear: a port that the service manager had opened, though nothing but TLS was wanted.
    #[test]
    fn a_plain_port_is_not_taken_over_where_only_tls_is_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let port = || ListeningSocket::Tcp(std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let unix = || {
            let path = folder.path().join("s");
            let _ = std::fs::remove_file(&path);
            ListeningSocket::Unix(std::os::unix::net::UnixListener::bind(path).unwrap())
        };
        let only = Config { tls_only: true, ..Config::default() };
        let error = listen(&only, vec![unix(), port()], None).unwrap_err();
        assert!(matches!(error, ServerError::Config(_)), "{error}");
        assert!(error.to_string().contains("TLS"), "{error}");
        assert_eq!(listen(&only, vec![unix()], None).unwrap().len(), 1);
        assert_eq!(listen(&Config::default(), vec![unix(), port()], None).unwrap().len(), 2);
    }
}
