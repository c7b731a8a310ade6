//! The replies of a connection on their way out (I1, I4).

use std::io::{self, ErrorKind};

use super::memory::give_back;
use super::{Broken, Connection};
use crate::command::error_reply::write_maybe_lost;
use crate::resp::Reply;
use crate::scratch::{Draft, OUTPUT_SIZE_KEPT};
use crate::shared::Shared;
use crate::socket::Socket;
use crate::statistics::Tally;

/// Buffer capacity that a connection may keep for unsent replies while there are any.
const OUTPUT_SLACK_SIZE: usize = 64 << 10;

impl Connection {
    pub(super) fn send_draft(
        &mut self,
        draft: Draft<'_>,
        shared: &Shared,
        tally: &mut Tally,
    ) -> Result<(), Broken> {
        let size = draft.bytes().len();
        if size == 0 {
            return Ok(());
        }
        if size <= OUTPUT_SIZE_KEPT {
            if self.has_work() {
                return self.send_part(draft.bytes(), shared, tally);
            }
            self.deferred = Some(draft.defer(self.place));
            return Ok(());
        }
        match draft.take_buffer() {
            // Moving a large buffer is cheaper than copying what the socket does not take.
            Ok(buffer) => {
                self.output = buffer;
                self.send_output(shared, tally)
            }
            Err(draft) => self.send_part(draft.bytes(), shared, tally),
        }
    }

    /// Waits until the writes of this turn are durable, of which replies tell. If they never will be, an error takes
    /// the place of the replies that were not waited for, and nothing more is answered (I4). Returns whether they are.
    fn wait_durable(&mut self, shared: &Shared) -> bool {
        let waited = shared.store.wait_deferred();
        if let Err(error) = &waited {
            self.output.truncate(self.durable);
            let protocol = self.session.protocol;
            let mut reply = Reply::new(&mut self.output, protocol, usize::MAX);
            write_maybe_lost(error, &mut reply, shared);
            self.session.closing = true;
            if self.session.waiting.is_some() {
                self.give_up(shared);
            }
        }
        self.durable = self.output.len();
        waited.is_ok()
    }

    /// Appends what tells of nothing that must be waited for.
    pub(super) fn push_durable(&mut self, bytes: &[u8], shared: &Shared) {
        let is_all_durable = self.durable == self.output.len();
        self.output.extend_from_slice(bytes);
        if is_all_durable {
            self.durable = self.output.len();
        }
        self.count_output(shared);
    }

    /// Sends replies; keeps what the socket does not take. If they waited for the end of the turn, lines of a monitor
    /// may have come since, which go behind them.
    pub(super) fn send_part(
        &mut self,
        part: &[u8],
        shared: &Shared,
        tally: &mut Tally,
    ) -> Result<(), Broken> {
        if !self.wait_durable(shared) {
            return self.send_output(shared, tally);
        }
        let sent = write_all(&mut self.socket, part).map_err(|error| self.lost(&error))?;
        tally.bytes_out += sent as u64;
        let rest = &part[sent..];
        if rest.is_empty() {
            // Nobody else sends what came since: no event need follow.
            return if self.output.is_empty() { Ok(()) } else { self.send_output(shared, tally) };
        }
        // Replies are left to the end of a turn only where nothing else is unsent, so all of it came since.
        debug_assert_eq!(self.sent, 0);
        self.output.splice(0..0, rest.iter().copied());
        self.durable = self.output.len();
        self.count_output(shared);
        Ok(())
    }

    /// Sends what earlier writes left.
    pub(super) fn send_output(&mut self, shared: &Shared, tally: &mut Tally) -> Result<(), Broken> {
        if self.durable < self.output.len() {
            self.wait_durable(shared);
        }
        let sent = write_all(&mut self.socket, &self.output[self.sent..])
            .map_err(|error| self.lost(&error))?;
        tally.bytes_out += sent as u64;
        self.sent += sent;
        if self.sent == self.output.len() {
            self.output = Vec::new();
            (self.sent, self.durable) = (0, 0);
        } else if self.sent > self.output.len() / 2 {
            self.output.drain(..self.sent);
            (self.sent, self.durable) = (0, self.durable - self.sent);
            give_back(&mut self.output, OUTPUT_SLACK_SIZE);
        }
        self.count_output(shared);
        Ok(())
    }
}

/// Writes until everything is sent or the socket takes no more; returns how much was sent. Replies
/// leave only here, and only when the writes they tell of are durable (I4).
fn write_all(socket: &mut Socket, bytes: &[u8]) -> io::Result<usize> {
    socket.flush()?;
    let mut sent = 0;
    while sent < bytes.len() {
        match socket.write(&bytes[sent..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(size) => sent += size,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}
