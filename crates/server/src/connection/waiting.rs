//! A connection on which a command waits: nothing is run until it is answered, its time is over, or the peer
//! is gone.
//!
//! That a peer has ended its half comes behind all that it has sent, and the kernel takes no more of it than its buffer
//! holds. So what comes behind the command is read, and kept until that is answered, up to a limit; from there on the
//! kernel holds the client up, and its end is noticed when the command is answered, or when it resets the connection.

use super::{Broken, Connection};
use crate::client_state::Waiting;
use crate::command::waiting::write_timeout;
use crate::resp::Reply;
use crate::shared::Shared;
use crate::statistics::Tally;
use crate::waiters::Ticket;

/// Bytes that are kept of what comes behind a command that waits.
const KEPT_SIZE_MAX: usize = 1 << 20;
/// With more in front of them that were run, room is made by moving those that are kept.
const RUN_SIZE_MAX: usize = KEPT_SIZE_MAX / 16;

impl Connection {
    /// Whether the peer, or this server, ends while a command waits.
    pub(super) fn is_leaving(&self) -> bool {
        self.hung_up || self.ended || self.stopping.is_some()
    }

    /// Whether more can be read of what came behind a command that waits. Otherwise it is not to be served for that.
    pub(super) fn reads_on(&self) -> bool {
        let can_move = self.run_size > RUN_SIZE_MAX;
        let has_room = self.leftover.len() < KEPT_SIZE_MAX || can_move;
        self.readable && has_room && self.not_run() < KEPT_SIZE_MAX
    }

    /// Reads once what came behind a command that waits.
    pub(super) fn read_on(&mut self, input: &mut [u8], tally: &mut Tally) -> Result<(), Broken> {
        if self.leftover.len() >= KEPT_SIZE_MAX {
            self.leftover.drain(..std::mem::take(&mut self.run_size));
        }
        let wanted = input.len().min(KEPT_SIZE_MAX - self.leftover.len());
        let size = self.read_into(&mut input[..wanted], tally)?;
        self.leftover.try_reserve(size).map_err(|_| {
            tracing::warn!("client {}: no memory for what it sent", self.client().id);
            Broken
        })?;
        self.leftover.extend_from_slice(&input[..size]);
        self.backlog |= size > 0;
        Ok(())
    }

    /// Ends the waiting, and forgets what was sent behind a command that was not answered. Returns whether it did: not
    /// if a reply is on its way.
    pub(super) fn leave(&mut self, shared: &Shared) -> bool {
        let is_given_up = self.give_up(shared);
        if is_given_up {
            self.forget_input();
            self.session.closing |= self.hung_up || self.ended;
        }
        is_given_up
    }

    /// Whether a command waits, and until when.
    pub fn waiting(&self) -> Option<&Waiting> {
        self.session.waiting.as_ref()
    }

    /// Whether it began or ended to wait since the last call.
    pub fn has_begun_or_ended_to_wait(&mut self) -> bool {
        let ticket = self.session.waiting.map(|waiting| waiting.ticket);
        std::mem::replace(&mut self.blocked, ticket) != ticket
    }

    /// Ends the waiting with a reply, if it is to this command; the connection must be served.
    pub fn deliver(&mut self, ticket: Ticket, reply: &[u8], shared: &Shared, now_ms: u64) {
        let Some(waiting) = self.session.waiting.filter(|waiting| waiting.ticket == ticket) else {
            return;
        };
        self.end_waiting();
        self.client().set_last_active(now_ms);
        if !waiting.is_silent {
            self.push_durable(reply, shared);
        }
    }

    /// Ends the waiting if its time is over, unless a reply is on its way; the connection must be served.
    pub fn time_out(&mut self, shared: &Shared, now_ms: u64) {
        let Some(Waiting { ticket, until_ms, .. }) = self.session.waiting else { return };
        if until_ms.is_some_and(|until_ms| until_ms <= now_ms) && shared.waiters.remove(ticket) {
            let mut reply = Vec::new();
            write_timeout(&mut Reply::new(&mut reply, self.session.protocol, usize::MAX));
            self.deliver(ticket, &reply, shared, now_ms);
        }
    }

    /// Ends the waiting without a reply. Returns whether it did: not if a reply is on its way.
    pub(super) fn give_up(&mut self, shared: &Shared) -> bool {
        let ticket = self.session.waiting.map(|waiting| waiting.ticket);
        let is_given_up = ticket.is_none_or(|ticket| shared.waiters.remove(ticket));
        if is_given_up {
            self.end_waiting();
        }
        is_given_up
    }

    fn end_waiting(&mut self) {
        self.session.waiting = None;
        self.client().set_waiting(false);
    }
}
