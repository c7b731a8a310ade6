//! One thread of the client: an event loop over its connections.

use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};

use super::connection::Connection;
use super::control::PATIENCE;
use super::phase::Phase;
use super::server::Server;
use crate::error::BenchError;

/// Before an arrival that is nearer than this the thread does not sleep, because the system may wake
/// it too late.
const WATCHFUL: Duration = Duration::from_millis(2);

/// The connections of a thread, watched.
pub(super) struct Client<'s> {
    server: &'s Server,
    pub connections: Vec<Connection<'s>>,
    poll: Poll,
    events: Events,
}

impl<'s> Client<'s> {
    pub fn new(
        server: &'s Server,
        mut connections: Vec<Connection<'s>>,
    ) -> Result<Self, BenchError> {
        let refused = |error| BenchError::Io("cannot wait for sockets".to_owned(), error);
        let poll = Poll::new().map_err(refused)?;
        for (index, connection) in connections.iter_mut().enumerate() {
            let interest = Interest::READABLE | Interest::WRITABLE;
            let registry = poll.registry();
            registry.register(&mut connection.socket, Token(index), interest).map_err(refused)?;
        }
        let events = Events::with_capacity(connections.len().clamp(16, 1024));
        Ok(Client { server, connections, poll, events })
    }

    /// Asks all calls of the phase and waits for all answers; `started` is when it began.
    pub fn run(&mut self, phase: &Phase, started: Instant) -> Result<(), BenchError> {
        let now_ns = || started.elapsed().as_nanos() as u64;
        let mut last_progress = started;
        while !self.connections.iter().all(Connection::is_done) {
            let next_due_ns = self.ask(phase, &now_ns)?;
            let timeout = timeout_until(next_due_ns, now_ns());
            match self.poll.poll(&mut self.events, Some(timeout)) {
                Err(error) if error.kind() != std::io::ErrorKind::Interrupted => {
                    return Err(BenchError::Io("cannot wait for sockets".to_owned(), error));
                }
                _ => {}
            }
            if !self.events.is_empty() {
                last_progress = Instant::now();
            }
            for event in &self.events {
                let connection = &mut self.connections[event.token().0];
                if event.is_writable() {
                    connection.send()?;
                }
                if event.is_readable() {
                    connection.receive(phase, now_ns)?;
                }
            }
            let is_waiting = self.connections.iter().any(|connection| connection.in_flight > 0);
            if is_waiting && last_progress.elapsed() > PATIENCE {
                return Err(self.server.says("requests", "nothing for 10 seconds"));
            }
            if !is_waiting {
                last_progress = Instant::now();
            }
        }
        Ok(())
    }

    /// Asks what is to be asked now. Returns when the next call is due, of all connections.
    fn ask(&mut self, phase: &Phase, now_ns: &impl Fn() -> u64) -> Result<Option<u64>, BenchError> {
        let mut next: Option<u64> = None;
        for connection in &mut self.connections {
            if phase.is_scheduled {
                let mut now = now_ns();
                while let Some(due) = connection.next_due_ns() {
                    if due > now {
                        now = now_ns();
                    }
                    if due > now {
                        next = Some(next.map_or(due, |next| next.min(due)));
                        break;
                    }
                    connection.ask(phase, due);
                }
            } else {
                while connection.in_flight < phase.depth && !connection.calls.is_empty() {
                    connection.ask(phase, now_ns());
                }
            }
            connection.send()?;
        }
        Ok(next)
    }
}

/// How long to sleep at most.
fn timeout_until(due_ns: Option<u64>, now_ns: u64) -> Duration {
    let Some(due_ns) = due_ns else { return PATIENCE };
    let left = Duration::from_nanos(due_ns.saturating_sub(now_ns));
    if left < WATCHFUL { Duration::ZERO } else { left - WATCHFUL / 2 }
}
