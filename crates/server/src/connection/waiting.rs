//! A connection on which a command waits: nothing is run until it is answered, its time is over, or the peer
//! is gone.

use super::Connection;
use crate::client_state::Waiting;
use crate::command::waiting::write_timeout;
use crate::resp::Reply;
use crate::shared::Shared;
use crate::waiters::Ticket;

impl Connection {
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
