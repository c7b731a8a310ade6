//! What a connection holds: counted, told to others, and given back.

use std::sync::atomic::Ordering;

use super::{Connection, LEFTOVER_SIZE_KEPT};
use crate::connection_gauges::Held;
use crate::shared::Shared;

impl Connection {
    /// Keeps the server's total right (I3).
    pub(super) fn count_output(&mut self, shared: &Shared) {
        let (before, now) = (self.counted, self.output.len());
        self.counted = now;
        // Relaxed: a statistic that is also a limit; it guards no other data.
        if now > before {
            shared.output_total.fetch_add(now - before, Ordering::Relaxed);
        } else if now < before {
            // Relaxed: a statistic, as where it grows.
            shared.output_total.fetch_sub(before - now, Ordering::Relaxed);
        }
    }

    /// What this connection makes the server hold, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.leftover.capacity()
            + self.output.capacity()
            + self.parser.memory()
            + self.session.transaction.memory()
            + self.session.waiting.map_or(0, |waiting| waiting.memory)
            + self.client().details_size()
            + self.socket.memory()
    }

    /// Tells others what this connection holds.
    pub(super) fn tell_gauges(&self) {
        let gauges = &self.client().gauges;
        let transaction = &self.session.transaction;
        gauges.set_queued(transaction.queued());
        gauges.set(Held {
            input: self.not_run(),
            input_free: self.leftover.capacity() - self.not_run(),
            arguments: self.parser.memory(),
            transaction: transaction.memory(),
            unsent: self.output.len() - self.sent,
            output: self.output.capacity(),
            is_closing: self.session.closing,
        });
    }

    /// Counts what this connection holds, and closes those that hold most if it is too much.
    pub(super) fn count_memory(&self, shared: &Shared) {
        self.tell_gauges();
        let size = self.memory();
        let before = self.client().memory();
        if size != before {
            shared.client_memory.set(self.client(), size);
            if size > before {
                shared.enforce_client_memory();
            }
        }
    }

    /// Gives memory back that only an unusual request needed.
    pub(super) fn trim(&mut self) {
        give_back(&mut self.leftover, LEFTOVER_SIZE_KEPT);
        self.parser.trim();
    }
}

/// Gives back what a buffer does not need, above what it may keep.
pub(super) fn give_back(buffer: &mut Vec<u8>, kept: usize) {
    if buffer.capacity() > kept && buffer.capacity() / 4 > buffer.len() {
        buffer.shrink_to(kept);
    }
}
