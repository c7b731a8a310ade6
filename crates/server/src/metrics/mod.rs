//! `/metrics` and `/health` for those who watch over the server, by HTTP on an address of their own.
//!
//! One thread serves them: its connections are few, each asks once, and gets one reply. A head has 4 KiB at most, a
//! connection 10 seconds; of more than 64 at a time the oldest that has its whole reply is closed, or the oldest that
//! has sent no request, and of more than one with a descriptor that is left for files. Those that were accepted are
//! served before others are, however fast these come. So a client that is slow or hostile costs a few hundred KiB, and
//! nobody waits for it. There is no password: the address should be one of a network that is trusted.

mod http;
mod page;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};

use self::http::{HEAD_SIZE_MAX, Head};
use crate::ServerError;
use crate::acceptor::is_left_for_files;
use crate::shared::Shared;

const WAKER: Token = Token(0);
const LISTENER: Token = Token(1);
/// Connections at a time.
const CONNECTION_COUNT_MAX: usize = 64;
/// How long a connection may take, from its first byte to its end.
const TIME_MAX: Duration = Duration::from_secs(10);
/// After an error of `accept`.
const PAUSE: Duration = Duration::from_millis(100);

/// The listener and its connections.
pub struct Metrics {
    poll: Poll,
    listener: TcpListener,
    address: SocketAddr,
    connections: BTreeMap<usize, Connection>,
    next: usize,
}

struct Connection {
    stream: TcpStream,
    since: Instant,
    head: Vec<u8>,
    /// Its reply, and how much of it is sent.
    reply: Option<(Vec<u8>, usize)>,
    /// All is sent, and that nothing more will come was told.
    is_finished: bool,
}

/// Whether connections wait to be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backlog {
    None,
    /// Perhaps.
    Some,
    /// One, which cannot be accepted now.
    Stuck,
}

/// What a connection wants next.
#[derive(PartialEq, Eq)]
enum Fate {
    Wait,
    Close,
}

impl Metrics {
    /// Listens on an address. The waker ends it, when the server is stopping.
    pub fn bind(address: &str) -> Result<(Self, Waker), ServerError> {
        let fail = |error| ServerError::Bind(format!("{address} (--metrics)"), error);
        let std_listener = std::net::TcpListener::bind(address).map_err(fail)?;
        std_listener.set_nonblocking(true).map_err(fail)?;
        let mut listener = TcpListener::from_std(std_listener);
        let local = listener.local_addr().map_err(fail)?;
        let poll = Poll::new().map_err(fail)?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE).map_err(fail)?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(fail)?;
        let metrics = Metrics {
            poll,
            listener,
            address: local,
            connections: BTreeMap::new(),
            next: LISTENER.0 + 1,
        };
        Ok((metrics, waker))
    }

    /// Where it listens, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the server is stopping.
    pub fn run(&mut self, shared: &Shared) -> io::Result<()> {
        let mut events = Events::with_capacity(64);
        let mut backlog = Backlog::None;
        while !shared.control.is_stopping() {
            match self.poll.poll(&mut events, self.timeout(backlog)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => result?,
            }
            let is_called = events.iter().any(|event| event.token() == LISTENER);
            if is_called || backlog != Backlog::None {
                backlog = self.accept_some();
            }
            self.serve_all(shared);
        }
        Ok(())
    }

    /// Serves all connections: they are few, and an event comes once.
    fn serve_all(&mut self, shared: &Shared) {
        self.connections.retain(|_, connection| connection.serve(shared) == Fate::Wait);
    }

    /// Until the first connection has had its time.
    fn timeout(&self, backlog: Backlog) -> Option<Duration> {
        let oldest = self.connections.values().map(|connection| connection.since).min();
        let rest = oldest.map(|since| TIME_MAX.saturating_sub(since.elapsed()));
        // A little later than that.
        let rest = rest.map(|rest| rest + Duration::from_millis(1));
        match backlog {
            Backlog::None => rest,
            Backlog::Some => Some(Duration::ZERO),
            Backlog::Stuck => Some(rest.unwrap_or(PAUSE).min(PAUSE)),
        }
    }

    /// Accepts what is waiting, and no more than there may be at a time: these are served before others are accepted.
    fn accept_some(&mut self) -> Backlog {
        let first_unserved = self.next;
        for _ in 0..CONNECTION_COUNT_MAX {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Backlog::None,
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                    ) =>
                {
                    continue;
                }
                Err(error) => {
                    tracing::debug!("a connection for metrics cannot be accepted: {error}");
                    return Backlog::Stuck;
                }
            };
            let token = self.next;
            self.next += 1;
            let interest = Interest::READABLE | Interest::WRITABLE;
            if self.poll.registry().register(&mut stream, Token(token), interest).is_err() {
                return Backlog::Stuck;
            }
            if is_left_for_files(stream.as_raw_fd()) {
                // One at a time: a server that is short of descriptors must still be seen to be.
                self.connections
                    .retain(|_, connection| !is_left_for_files(connection.stream.as_raw_fd()));
            }
            if self.connections.len() >= CONNECTION_COUNT_MAX {
                self.close_oldest(first_unserved);
            }
            let since = Instant::now();
            let connection =
                Connection { stream, since, head: Vec::new(), reply: None, is_finished: false };
            self.connections.insert(token, connection);
        }
        Backlog::Some
    }

    /// Closes the oldest of those that have their whole reply; if none has, the oldest of those that have sent no
    /// request and were served since they were accepted, which is before this one; or the oldest.
    fn close_oldest(&mut self, first_unserved: usize) {
        let answered = self.connections.iter().find(|(_, connection)| connection.is_finished);
        let mut served = self.connections.range(..first_unserved);
        let silent = served.find(|(_, connection)| connection.reply.is_none());
        let oldest = answered.or(silent).or(self.connections.first_key_value());
        if let Some(token) = oldest.map(|(token, _)| *token) {
            self.connections.remove(&token);
        }
    }
}

impl Connection {
    /// Does what can be done now.
    fn serve(&mut self, shared: &Shared) -> Fate {
        if self.since.elapsed() >= TIME_MAX {
            return Fate::Close;
        }
        match self.advance(shared) {
            Ok(fate) => fate,
            Err(error) if error.kind() == ErrorKind::WouldBlock => Fate::Wait,
            // Its peer is gone.
            Err(_) => Fate::Close,
        }
    }

    fn advance(&mut self, shared: &Shared) -> io::Result<Fate> {
        while self.reply.is_none() {
            let mut chunk = [0; HEAD_SIZE_MAX];
            let room = HEAD_SIZE_MAX - self.head.len();
            let size = read(&mut self.stream, &mut chunk[..room])?;
            if size == 0 {
                return Ok(Fate::Close);
            }
            self.head.extend_from_slice(&chunk[..size]);
            self.reply = answer(&self.head, shared).map(|reply| (reply, 0));
        }
        if let Some((reply, sent)) = &mut self.reply {
            while *sent < reply.len() {
                match self.stream.write(&reply[*sent..]) {
                    Ok(0) => return Ok(Fate::Close),
                    Ok(size) => *sent += size,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        if !self.is_finished {
            self.is_finished = true;
            self.stream.shutdown(Shutdown::Write)?;
        }
        // With bytes unread, closing would take back what is on its way.
        let mut rest = [0; HEAD_SIZE_MAX];
        for _ in 0..16 {
            if read(&mut self.stream, &mut rest)? == 0 {
                return Ok(Fate::Close);
            }
        }
        // A client that goes on sending has had its reply.
        Ok(Fate::Close)
    }
}

fn read(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// The reply to a head; `None` if it is not complete.
fn answer(head: &[u8], shared: &Shared) -> Option<Vec<u8>> {
    const TEXT: &str = "text/plain; charset=utf-8";
    let (path, is_head) = match http::parse(head) {
        Head::Unfinished => return None,
        Head::Refused(status, reason) => {
            return Some(http::reply(status, reason, TEXT, &format!("{reason}\n"), false));
        }
        Head::Page { path, is_head } => (path, is_head),
    };
    Some(match path {
        b"/metrics" => http::reply(200, "OK", page::KIND, &page::metrics(shared), is_head),
        b"/health" => match page::illness(shared) {
            None => http::reply(200, "OK", TEXT, "ok\n", is_head),
            Some(what) => {
                http::reply(503, "Service Unavailable", TEXT, &format!("{what}\n"), is_head)
            }
        },
        b"/" => http::reply(200, "OK", TEXT, "/metrics\n/health\n", is_head),
        _ => http::reply(404, "Not Found", TEXT, "there are /metrics and /health\n", is_head),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::test_run::Bench;

    /// A client that has asked for /health.
    fn asking(metrics: &Metrics) -> std::net::TcpStream {
        let mut stream = std::net::TcpStream::connect(metrics.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        stream
    }

    fn demand_reply(mut stream: std::net::TcpStream) {
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    }

    /// Accepts until there were so many, in batches, and serves each to its end but for so many. Returns the most at a
    /// time.
    fn take(metrics: &mut Metrics, shared: &Shared, count: usize, but: usize) -> usize {
        let (end, mut most) = (metrics.next + count, 0);
        while metrics.next < end {
            metrics.accept_some();
            most = most.max(metrics.connections.len());
            serve_until_finished(metrics, shared, but);
        }
        most
    }

    /// Serves until all that are there have their replies, but for so many.
    fn serve_until_finished(metrics: &mut Metrics, shared: &Shared, but: usize) {
        while metrics.connections.values().filter(|it| !it.is_finished).count() > but {
            metrics.serve_all(shared);
        }
    }

    /// What was closed unserved: connections with their requests, as soon as more than 64 others came faster than one
    /// thread accepts; and it served nobody as long as they came.
    #[test]
    fn those_that_are_accepted_are_served_before_others_are() {
        let bench = Bench::new(Bench::config());
        let (mut metrics, _waker) = Metrics::bind("127.0.0.1:0").unwrap();
        let clients: Vec<_> = (0..100).map(|_| asking(&metrics)).collect();
        let most = take(&mut metrics, &bench.shared, 100, 0);
        assert!(most <= CONNECTION_COUNT_MAX, "{most}");
        clients.into_iter().for_each(demand_reply);
    }

    /// What was closed unserved: one of two that came together, when 64 others had their replies and did not close.
    #[test]
    fn who_keeps_an_answered_connection_is_closed_first() {
        let bench = Bench::new(Bench::config());
        let (mut metrics, _waker) = Metrics::bind("127.0.0.1:0").unwrap();
        let idle: Vec<_> = (0..CONNECTION_COUNT_MAX).map(|_| asking(&metrics)).collect();
        take(&mut metrics, &bench.shared, idle.len(), 0);
        assert_eq!(metrics.connections.len(), idle.len());
        let mut slow = std::net::TcpStream::connect(metrics.address()).unwrap();
        slow.write_all(b"GET /health HTTP/1.1\r\n").unwrap();
        take(&mut metrics, &bench.shared, 1, 1);
        let clients = [asking(&metrics), asking(&metrics)];
        take(&mut metrics, &bench.shared, 2, 1);
        clients.into_iter().for_each(demand_reply);
        slow.write_all(b"Host: x\r\n\r\n").unwrap();
        serve_until_finished(&mut metrics, &bench.shared, 0);
        demand_reply(slow);
    }
}
