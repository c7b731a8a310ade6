//! One thread's connections: wait until some are ready, serve them, wait again.
//!
//! Events are edge-triggered and registered once per connection, so a request costs no system
//! call but the wait, one read and one write. All connections that are ready are served before
//! their replies are sent. A connection that has more to do than one turn
//! allows is put on a list and served again after the others; only while that list is not empty
//! does the loop poll without waiting.

mod drain;
mod places;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use mio::{Events, Poll, Token};

use self::places::Places;
use crate::blocked_clients::BlockedClients;
use crate::client_state::ClientState;
use crate::command::error_reply::write_maybe_lost;
use crate::command::waiting::service::serve_left;
use crate::connection::{Connection, Fate, run_gathered};
use crate::registry::Client;
use crate::resp::{Protocol, Reply};
use crate::scratch::{DEFERRED_SIZE_MAX, Scratch};
use crate::shared::{LoopState, Shared};
use crate::socket::Socket;
use crate::statistics::Tally;
use crate::waiters::Delivery;

/// The token of the waker of every event queue; sockets count from zero.
pub const WAKER: Token = Token(usize::MAX);

/// Events taken per wait.
const EVENT_COUNT: usize = 256;
/// Connections whose replies may wait for the end of the turn.
const DEFERRED_COUNT_MAX: usize = 64;
/// Bytes of requests that may have come when the turn ends: their writes are in memory until it does, and those without
/// a reply (`CLIENT REPLY OFF`) leave nothing else that is counted.
const TURN_SIZE_MAX: u64 = 8 << 20;
/// How long the last turn of a server that stops may take, in milliseconds, besides the commands that are being run.
const LATE_MS: u64 = 100;
/// How long clients wait whom the store refused to serve, in milliseconds, until it is tried again.
const RETRY_MS: u64 = 1_000;
/// How long a connection waits for its peer to end it, in milliseconds, after all was said.
const LINGER_MS: u64 = 5_000;

/// An event loop and its connections.
pub struct EventLoop<'a> {
    index: usize,
    poll: Poll,
    shared: &'a Shared,
    state: &'a LoopState,
    /// By token; `None` is a free place.
    connections: Vec<Option<Box<Connection>>>,
    free: Vec<usize>,
    /// Places that become free at the end of the turn: until then replies may wait for the connections that had
    /// them.
    freed: Vec<usize>,
    /// Connections that have more to do.
    unfinished: Places,
    /// Connections that have said everything, those to be closed first in front.
    lingering: VecDeque<Lingering>,
    /// Connections whose peers must still show that they speak TLS, the oldest in front.
    handshaking: VecDeque<Lingering>,
    /// Connections on which a command waits.
    blocked: BlockedClients,
    /// Connections that are shown what others do.
    monitors: Vec<usize>,
    scratch: Scratch,
    /// What was done since the counters were last brought up to date.
    tally: Tally,
    /// When to try again to serve clients that wait for what this loop has made, if that has failed.
    left_due_ms: Option<u64>,
    /// When to look for idle connections next, in milliseconds since the server started.
    idle_check_ms: Option<u64>,
}

/// A connection that is closed at some time, if it goes on as it is.
struct Lingering {
    /// When it is closed in any case, in milliseconds since the server started.
    until_ms: u64,
    index: usize,
    client_id: u64,
}

impl<'a> EventLoop<'a> {
    pub fn new(index: usize, poll: Poll, shared: &'a Shared) -> Self {
        EventLoop {
            index,
            poll,
            shared,
            state: &shared.loops[index],
            connections: Vec::new(),
            free: Vec::new(),
            freed: Vec::new(),
            unfinished: Places::default(),
            lingering: VecDeque::new(),
            handshaking: VecDeque::new(),
            blocked: BlockedClients::default(),
            monitors: Vec::new(),
            scratch: Scratch::new(),
            tally: Tally::default(),
            left_due_ms: None,
            idle_check_ms: None,
        }
    }

    /// Serves until a shutdown is asked for.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENT_COUNT);
        while !self.shared.control.is_stopping() {
            let timeout = self.timeout();
            self.turn(&mut events, timeout)?;
        }
        self.drain(&mut events)
    }

    /// Waits, serves what is ready, and does what was asked for by other threads.
    fn turn(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        match self.poll.poll(events, timeout) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            result => result?,
        }
        // Writes of this turn become durable together, before any reply of it is sent.
        self.shared.store.defer_sync();
        let now_ms = self.shared.now_ms();
        let woken = events.iter().any(|event| event.token() == WAKER);
        let unfinished = self.unfinished.take();
        self.scratch.gathered.begin(events.iter().count() + unfinished.len());
        if woken {
            // First, while no reply waits that they could overtake.
            self.take_deliveries(now_ms);
            self.take_shown(now_ms);
        }
        if woken || self.left_due_ms.is_some_and(|due_ms| due_ms <= now_ms) {
            serve_left(self.shared, self.index);
        }
        for event in events.iter() {
            let Token(index) = event.token();
            // There is none in a place that was freed earlier in this turn, and none for the waker.
            if let Some(Some(connection)) = self.connections.get_mut(index) {
                connection.notice(event);
                self.serve_in_turn(index, now_ms);
            }
        }
        for index in unfinished {
            self.serve_in_turn(index, now_ms);
        }
        self.end_waits(now_ms);
        // After the events, so that no event of a closed connection reaches a new one.
        if woken {
            self.close_killed();
            self.adopt_newcomers(now_ms);
            self.idle_check_ms = None;
        }
        self.end_turn();
        self.left_due_ms = self.state.has_made().then(|| match self.left_due_ms {
            // Not put off by a turn that does something else.
            Some(due_ms) if due_ms > now_ms => due_ms,
            _ => now_ms + RETRY_MS,
        });
        self.close_idle(now_ms);
        self.close_lingering(now_ms);
        self.close_handshaking(now_ms);
        Ok(())
    }

    /// Serves a connection, unless the server stops and this turn takes long already: what was read before is answered
    /// in the time that there is for that.
    fn serve_in_turn(&mut self, index: usize, now_ms: u64) {
        let is_late = || self.shared.now_ms().saturating_sub(now_ms) > LATE_MS;
        if !self.shared.control.is_stopping() || !is_late() {
            self.serve(index, now_ms);
        }
    }

    fn serve(&mut self, index: usize, now_ms: u64) {
        // The place is empty if the connection was closed earlier in this turn.
        let Some(Some(connection)) = self.connections.get_mut(index) else { return };
        let fate = connection.serve(&mut self.scratch, self.shared, &mut self.tally, now_ms);
        match fate {
            Fate::Wait => {}
            Fate::More => self.unfinished.add(index),
            Fate::Linger => {
                let client_id = connection.client().id;
                let until_ms = now_ms + LINGER_MS;
                // A server that stops has one limit for all.
                if !self.shared.control.is_stopping() {
                    self.lingering.push_back(Lingering { until_ms, index, client_id });
                }
                self.unfinished.add(index);
            }
            Fate::Close => self.close(index),
        }
        self.note_waiting(index);
        self.note_monitor(index);
        let Scratch { replies, gathered, .. } = &self.scratch;
        let count = replies.count() + gathered.len();
        let has_many = count >= DEFERRED_COUNT_MAX || replies.size() > DEFERRED_SIZE_MAX;
        // What came since the last one: it is counted there.
        if has_many || self.tally.bytes_in > TURN_SIZE_MAX {
            self.end_turn();
        }
    }

    /// Notes whether a connection waits.
    fn note_waiting(&mut self, index: usize) {
        let Some(Some(connection)) = self.connections.get_mut(index) else { return };
        if connection.has_begun_or_ended_to_wait() {
            let waiting = connection.waiting().map(|waiting| waiting.until_ms);
            self.blocked.set(connection.client().id, index, waiting);
        }
    }

    /// Notes whether a connection is shown what others do.
    fn note_monitor(&mut self, index: usize) {
        let Some(Some(connection)) = self.connections.get_mut(index) else { return };
        if connection.has_begun_to_monitor() {
            self.monitors.push(index);
        }
    }

    /// Takes the replies to connections that waited.
    fn take_deliveries(&mut self, now_ms: u64) {
        for Delivery { client, ticket, reply } in self.state.take_deliveries() {
            // A connection that was closed since is not there.
            let Some(index) = self.blocked.index_of(client.id) else { continue };
            if let Some(connection) = &mut self.connections[index] {
                connection.deliver(ticket, &reply, self.shared, now_ms);
                self.serve(index, now_ms);
            }
        }
    }

    /// Hands over to monitors what they are shown.
    fn take_shown(&mut self, now_ms: u64) {
        for index in std::mem::take(&mut self.monitors) {
            // Another may have the place since.
            let Some(Some(connection)) = self.connections.get_mut(index) else { continue };
            if connection.take_shown(self.shared) && !self.monitors.contains(&index) {
                self.monitors.push(index);
                self.serve(index, now_ms);
            }
        }
    }

    /// Answers connections that have waited long enough.
    fn end_waits(&mut self, now_ms: u64) {
        while let Some(index) = self.blocked.take_due(now_ms) {
            if let Some(connection) = &mut self.connections[index] {
                connection.time_out(self.shared, now_ms);
                self.serve(index, now_ms);
            }
        }
    }

    /// Hands over the replies to clients that waited, once what they tell of is durable.
    fn send_deliveries(&mut self) {
        let deliveries = self.state.take_outbox();
        if deliveries.is_empty() {
            return;
        }
        let waited = self.shared.store.wait_deferred();
        let mut loops: Vec<usize> = Vec::new();
        for mut delivery in deliveries {
            let loop_index = delivery.client.loop_index;
            if let Err(error) = &waited {
                delivery.reply.clear();
                // Errors are the same in each protocol.
                let mut reply = Reply::new(&mut delivery.reply, Protocol::Resp2, usize::MAX);
                write_maybe_lost(error, &mut reply, self.shared);
            }
            self.shared.loops[loop_index].deliver(delivery);
            if !loops.contains(&loop_index) {
                loops.push(loop_index);
            }
        }
        loops.iter().for_each(|index| self.shared.control.wake(*index));
    }

    /// Does what was gathered, and sends the replies that wait for it; of many bytes some before the rest is done.
    fn end_turn(&mut self) {
        while !self.scratch.gathered.is_empty() {
            let Scratch { gathered, replies, .. } = &mut self.scratch;
            let (connections, tally) = (&mut self.connections, &mut self.tally);
            for (index, fate) in run_gathered(gathered, connections, replies, self.shared, tally) {
                self.carry_out(index, fate);
            }
            if !self.scratch.gathered.is_empty() {
                self.send_replies();
            }
        }
        self.send_replies();
        self.wait_for_unanswered();
        // Not before: what is gathered knows connections by their places.
        self.free.append(&mut self.freed);
        self.count();
    }

    /// Waits for writes that have no reply (`CLIENT REPLY OFF`), if no reply has waited for them: they count as any,
    /// and nobody else would, nor hold back a client that writes faster than the disk.
    fn wait_for_unanswered(&mut self) {
        let unanswered = self.scratch.replies.take_unanswered();
        if let Err(error) = self.shared.store.wait_deferred() {
            self.shared.log_store_error(&error);
            // A later reply would tell them that all is well.
            unanswered.into_iter().for_each(|index| self.close(index));
        }
    }

    /// Sends the replies that wait for the end of the turn.
    fn send_replies(&mut self) {
        self.send_deliveries();
        // First, so that a client that has a reply finds its request counted.
        self.count();
        let turn = self.scratch.replies.finish_turn();
        for (index, replies) in turn.parts() {
            // The place is empty if the connection was closed since.
            let Some(Some(connection)) = self.connections.get_mut(index) else { continue };
            let fate = connection.send_deferred(replies, self.shared, &mut self.tally);
            self.carry_out(index, fate);
        }
        self.scratch.replies.reuse(turn);
    }

    /// Does what a connection wants whose replies were sent.
    fn carry_out(&mut self, index: usize, fate: Fate) {
        match fate {
            Fate::Wait => {}
            Fate::More | Fate::Linger => self.unfinished.add(index),
            Fate::Close => self.close(index),
        }
    }

    fn count(&mut self) {
        self.state.counters.add(&self.tally);
        self.tally = Tally::default();
    }

    fn close(&mut self, index: usize) {
        if let Some(connection) = self.connections[index].take() {
            // Also if it waits no more: a reply may have ended that just now, in the step that closes it. What
            // is left of it would end the waiting of the connection that has its place next.
            self.blocked.set(connection.client().id, index, None);
            connection.close(self.shared);
            self.state.connection_closed();
            self.freed.push(index);
        }
    }

    fn adopt_newcomers(&mut self, now_ms: u64) {
        for (socket, client) in self.state.take_inbox() {
            let (is_handshaking, client_id) = (socket.is_handshaking(), client.id);
            if let Some(index) = self.adopt(socket, client) {
                if is_handshaking {
                    let timeout = self.shared.config.tls.as_ref().map(|tls| tls.handshake_timeout);
                    let until_ms = now_ms + timeout.unwrap_or_default().as_millis() as u64;
                    self.handshaking.push_back(Lingering { until_ms, index, client_id });
                }
                // Requests may have arrived before the socket was registered.
                self.serve(index, now_ms);
            }
        }
    }

    fn adopt(&mut self, mut socket: Socket, client: Arc<Client>) -> Option<usize> {
        let index = self.free.pop().unwrap_or(self.connections.len());
        if let Err(error) = socket.register(self.poll.registry(), Token(index)) {
            tracing::warn!("client {} cannot be served: {error}", client.id);
            self.shared.registry.remove(client.id);
            self.state.connection_closed();
            if index < self.connections.len() {
                self.free.push(index);
            }
            return None;
        }
        let session = ClientState::new(client, &self.shared.acl);
        let connection = Some(Box::new(Connection::new(socket, session, index)));
        if index == self.connections.len() {
            self.connections.push(connection);
        } else {
            self.connections[index] = connection;
        }
        Some(index)
    }

    fn close_killed(&mut self) {
        self.close_where(|connection| connection.client().is_killed());
    }

    /// Closes connections that were silent for too long, if there is a limit.
    fn close_idle(&mut self, now_ms: u64) {
        let Some(timeout) = self.shared.settings.idle_timeout() else { return };
        if self.idle_check_ms.is_some_and(|at| now_ms < at) {
            return;
        }
        let timeout_ms = timeout.as_millis() as u64;
        // A connection that waits for an answer is not idle.
        let can_be_idle =
            |connection: &Connection| connection.waiting().is_none() && !connection.is_monitor();
        self.close_where(|connection| {
            can_be_idle(connection)
                && now_ms.saturating_sub(connection.client().last_active_ms()) >= timeout_ms
        });
        let connections =
            self.connections.iter().flatten().filter(|connection| can_be_idle(connection));
        let oldest = connections.map(|connection| connection.client().last_active_ms()).min();
        self.idle_check_ms = Some(oldest.unwrap_or(now_ms) + timeout_ms);
    }

    /// Closes connections whose peers had time enough to do so.
    fn close_lingering(&mut self, now_ms: u64) {
        while self.lingering.front().is_some_and(|first| first.until_ms <= now_ms) {
            let Some(Lingering { index, client_id, .. }) = self.lingering.pop_front() else {
                return;
            };
            let connection = self.connections[index].as_ref();
            if connection.is_some_and(|connection| connection.client().id == client_id) {
                self.close(index);
            }
        }
    }

    /// Closes connections whose peers do not speak TLS.
    fn close_handshaking(&mut self, now_ms: u64) {
        while let Some(first) = self.handshaking.front() {
            let connection = self.connections[first.index].as_ref();
            let connection = connection.filter(|it| it.client().id == first.client_id);
            let goes_on = connection.is_some_and(|connection| connection.is_handshaking());
            if goes_on && first.until_ms > now_ms {
                return;
            }
            let index = first.index;
            self.handshaking.pop_front();
            if goes_on {
                self.close(index);
            }
        }
    }

    fn close_where(&mut self, condition: impl Fn(&Connection) -> bool) {
        for index in 0..self.connections.len() {
            if self.connections[index].as_ref().is_some_and(|connection| condition(connection)) {
                self.close(index);
            }
        }
    }

    /// How long to wait: not at all with work left, for ever without, unless connections have to be
    /// closed at some time.
    fn timeout(&self) -> Option<Duration> {
        if !self.unfinished.is_empty() {
            return Some(Duration::ZERO);
        }
        let lingering_ms = self.lingering.front().map(|first| first.until_ms);
        let handshaking_ms = self.handshaking.front().map(|first| first.until_ms);
        let at = lingering_ms
            .into_iter()
            .chain(handshaking_ms)
            .chain(self.idle_due_ms())
            .chain(self.left_due_ms)
            .chain(self.blocked.next_ms())
            .min()?;
        // One more millisecond, so that a wait cut short by rounding does not wake too early.
        Some(Duration::from_millis(at.saturating_sub(self.shared.now_ms()) + 1))
    }

    /// When to look for idle connections, if there is a limit and anybody to look at.
    fn idle_due_ms(&self) -> Option<u64> {
        self.shared.settings.idle_timeout()?;
        self.connections.iter().any(|connection| connection.is_some()).then_some(())?;
        self.idle_check_ms
    }
}
