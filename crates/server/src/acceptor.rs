//! Accepting connections and handing them to the event loops.
//!
//! When the process runs out of file descriptors, a connection that waits in the kernel can be
//! neither accepted nor refused, and its readiness would be reported for ever. So one descriptor
//! is kept in reserve: it is given up for a moment to accept that connection, tell it, and close
//! it. If even this fails, the acceptor pauses, longer each time.
//!
//! The store opens files while it runs, and a log that has no descriptor for its next segment takes no more writes
//! until the store is opened again. So connections do not get the last descriptors, and those that ask for metrics
//! one of them at a time.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mio::{Events, Poll, Token};
use rustix::process::{Resource, getrlimit};

use crate::shared::Shared;
use crate::socket::{Listener, Socket};

const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// `EMFILE` and `ENFILE`, the same on every Unix.
const OUT_OF_DESCRIPTORS: [i32; 2] = [24, 23];
/// Descriptors that are left for files; of a low limit a smaller part.
const LEFT_FOR_FILES: u64 = 16;
const LEFT_PART: u64 = 8;

/// What became of a connection for which there was no descriptor.
enum Refusal {
    One,
    NoneWaits,
    /// It is tried again behind a pause.
    Failed,
}

/// Accepts on all listeners of a server.
#[derive(Debug)]
pub struct Acceptor {
    poll: Poll,
    listeners: Vec<Listener>,
    reserve: Option<File>,
    /// The event loop after the one that got the last connection.
    next_loop: usize,
}

impl Acceptor {
    pub fn new(poll: Poll, mut listeners: Vec<Listener>) -> io::Result<Self> {
        for (index, listener) in listeners.iter_mut().enumerate() {
            listener.register(poll.registry(), Token(index))?;
        }
        Ok(Acceptor { poll, listeners, reserve: open_reserve(), next_loop: 0 })
    }

    /// Accepts until a shutdown is asked for.
    pub fn run(&mut self, shared: &Shared) -> io::Result<()> {
        let mut events = Events::with_capacity(64);
        // `None`: nothing is waiting that we know of.
        let mut pause: Option<Duration> = None;
        loop {
            match self.poll.poll(&mut events, pause) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => result?,
            }
            if shared.control.is_stopping() {
                return Ok(());
            }
            // After a pause every listener may have something left, event or not.
            let after_pause = pause.is_some();
            let mut all_empty = true;
            for index in 0..self.listeners.len() {
                let ready = || events.iter().any(|event| event.token() == Token(index));
                if after_pause || ready() {
                    all_empty &= self.accept_all(index, shared);
                }
            }
            pause = match (all_empty, pause) {
                (true, _) => None,
                (false, None) => Some(PAUSE_MIN),
                (false, Some(pause)) => Some((pause * 2).min(PAUSE_MAX)),
            };
        }
    }

    /// Accepts what is waiting. False if something is left because descriptors ran out.
    fn accept_all(&mut self, index: usize, shared: &Shared) -> bool {
        loop {
            match self.listeners[index].accept() {
                Ok(socket) if is_left_for_files(socket.descriptor()) => {
                    tell_of_descriptors(shared, "the last ones are for files");
                    refuse(socket, shared);
                }
                Ok(socket) => self.hand_over(socket, shared),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if is_about_one_connection(&error) => {
                    tracing::debug!("a connection was gone before it was accepted: {error}");
                }
                Err(error) if OUT_OF_DESCRIPTORS.map(Some).contains(&error.raw_os_error()) => {
                    match self.refuse_with_reserve(index, shared, &error) {
                        Refusal::One => {}
                        Refusal::NoneWaits => return true,
                        Refusal::Failed => return false,
                    }
                }
                Err(error) => {
                    tracing::warn!("a connection cannot be accepted, pausing: {error}");
                    return false;
                }
            }
        }
    }

    /// Refuses a connection that waits, if one does: Linux says that descriptors ran out before it looks.
    fn refuse_with_reserve(&mut self, index: usize, shared: &Shared, error: &io::Error) -> Refusal {
        if self.reserve.take().is_none() {
            tell_of_descriptors(shared, &error.to_string());
            self.reserve = open_reserve();
            return Refusal::Failed;
        }
        let refusal = match self.listeners[index].accept() {
            Ok(socket) => {
                tell_of_descriptors(shared, &error.to_string());
                refuse(socket, shared);
                Refusal::One
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Refusal::NoneWaits,
            Err(_) => Refusal::Failed,
        };
        self.reserve = open_reserve();
        refusal
    }

    fn hand_over(&mut self, socket: Socket, shared: &Shared) {
        // Relaxed: statistics.
        shared.accepted_count.fetch_add(1, Ordering::Relaxed);
        let count_max = shared.settings.client_count_max();
        if shared.registry.count() >= count_max {
            if shared.defences.allows(shared.now_ms()) {
                tracing::warn!(
                    "refusing connections: there are {count_max} clients, as many as may be; raise --maxclients"
                );
            }
            return refuse(socket, shared);
        }
        socket.tune(shared.config.tcp_keepalive);
        let index = self.choose_loop(shared);
        let client = shared.registry.add(socket.addresses(), index, shared.now_ms());
        tracing::debug!("client {} from {} connected", client.id, client.peer);
        shared.loops[index].hand_over(socket, client);
        shared.control.wake(index);
    }

    /// The loop with the fewest connections; among equals, each in turn.
    fn choose_loop(&mut self, shared: &Shared) -> usize {
        let count = shared.loops.len();
        let candidates = (0..count).map(|offset| (self.next_loop + offset) % count);
        let best = candidates.min_by_key(|&index| shared.loops[index].connection_count());
        let index = best.unwrap_or(0);
        self.next_loop = (index + 1) % count;
        index
    }
}

/// Whether a connection has one of the last descriptors that this process may have: it gets the lowest number that is
/// free, so all below are taken.
pub fn is_left_for_files(descriptor: RawFd) -> bool {
    // Each time: it may be changed from outside.
    let Some(limit) = getrlimit(Resource::Nofile).current else { return false };
    let first = limit - LEFT_FOR_FILES.min(limit / LEFT_PART);
    u64::try_from(descriptor).is_ok_and(|number| number >= first)
}

/// Says that connections are refused for want of descriptors.
fn tell_of_descriptors(shared: &Shared, why: &str) {
    if shared.defences.allows(shared.now_ms()) {
        tracing::warn!(
            "out of file descriptors ({why}): refusing connections; raise the limit (`ulimit -n`, or \
             LimitNOFILE= of the service), or lower the number of clients (--maxclients)"
        );
    }
}

/// Tells a client that there is no room. It may not be able to read it; nothing waits for that.
fn refuse(mut socket: Socket, shared: &Shared) {
    // Relaxed: statistics.
    shared.rejected_count.fetch_add(1, Ordering::Relaxed);
    if let Err(error) = socket.write(b"-ERR max number of clients reached\r\n") {
        tracing::debug!("a refused client was gone already: {error}");
    }
    socket.finish();
}

fn open_reserve() -> Option<File> {
    File::open("/dev/null").ok()
}

/// Errors that `accept` reports for a connection that failed while it waited.
fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::Interrupted
            | ErrorKind::NetworkDown
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
    )
}
