//! The end of an event loop when the server stops.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use mio::{Events, Token};

use super::EventLoop;

impl EventLoop<'_> {
    /// Answers what was read and sends the replies that are due, for a limited time, and closes everything. A
    /// connection on which replies may be on their way is closed when its peer has closed its side, or at the end of
    /// that time: closing it with bytes unread would reset it, and lose them.
    pub(super) fn drain(mut self, events: &mut Events) -> io::Result<()> {
        let end = Instant::now() + self.shared.config.shutdown_grace;
        let now_ms = self.shared.now_ms();
        for connection in self.connections.iter_mut().flatten() {
            connection.stop_reading(now_ms);
        }
        self.lingering.clear();
        let all = (0..self.connections.len()).collect();
        self.serve_until(end, all, now_ms);
        self.end_turn();
        while self.connections.iter().any(|connection| connection.is_some()) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let timeout = if self.unfinished.is_empty() { left } else { Duration::ZERO };
            self.turn_writing(events, timeout, end)?;
        }
        for index in 0..self.connections.len() {
            self.close(index);
        }
        for (_, client) in self.state.take_inbox() {
            self.shared.registry.remove(client.id);
        }
        Ok(())
    }

    /// Serves connections until a time: one that has more to do than it has a turn for must not keep the server.
    fn serve_until(&mut self, end: Instant, indexes: Vec<usize>, now_ms: u64) {
        let mut left = indexes.into_iter();
        while Instant::now() < end
            && let Some(index) = left.next()
        {
            self.serve(index, now_ms);
        }
    }

    fn turn_writing(
        &mut self,
        events: &mut Events,
        timeout: Duration,
        end: Instant,
    ) -> io::Result<()> {
        match self.poll.poll(events, Some(timeout)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            result => result?,
        }
        self.shared.store.defer_sync();
        let now_ms = self.shared.now_ms();
        self.take_deliveries(now_ms);
        let mut ready = self.unfinished.take();
        for event in events.iter() {
            let Token(index) = event.token();
            if let Some(Some(connection)) = self.connections.get_mut(index) {
                connection.notice(event);
                ready.push(index);
            }
        }
        self.serve_until(end, ready, now_ms);
        self.end_turn();
        Ok(())
    }
}
