//! The requests of a connection on their way in: what is read, and what of it is run.

use std::io::ErrorKind;

use super::{Broken, Connection};
use crate::scratch::Scratch;
use crate::shared::Shared;
use crate::slice::Slice;
use crate::statistics::Tally;

/// An unfinished request up to this size is copied back before the next read; a longer one grows
/// in place.
const LEFTOVER_COPY_SIZE_MAX: usize = 16 << 10;
/// A request that is received in place grows by this much per read at most.
const GROWTH_SIZE_MAX: usize = 256 << 10;

impl Connection {
    /// Reads once and runs what is complete.
    pub(super) fn receive(
        &mut self,
        scratch: &mut Scratch,
        slice: &mut Slice,
        shared: &Shared,
        tally: &mut Tally,
    ) -> Result<(), Broken> {
        let kept = self.leftover.len();
        if kept > LEFTOVER_COPY_SIZE_MAX {
            if self.receive_in_place(tally)? {
                self.run_backlog(scratch, slice, shared, tally)?;
            }
            return Ok(());
        }
        let Scratch { input, replies, gathered } = scratch;
        input[..kept].copy_from_slice(&self.leftover);
        let size = self.read_into(&mut input[kept..], tally)?;
        if size == 0 {
            return Ok(());
        }
        let bytes = &input[..kept + size];
        let consumed = self.run(bytes, slice, replies, gathered, shared, tally)?;
        self.leftover.clear();
        self.leftover.extend_from_slice(&bytes[consumed..]);
        self.trim();
        Ok(())
    }

    /// Reads once to the end of `leftover`. True if something arrived.
    fn receive_in_place(&mut self, tally: &mut Tally) -> Result<bool, Broken> {
        let filled = self.leftover.len();
        // Not a byte beyond the request whose size is known, so that nothing must be moved.
        let wanted = match self.parser.size_min().saturating_sub(filled) {
            0 => LEFTOVER_COPY_SIZE_MAX,
            missing => missing,
        };
        // A claim costs its author as many bytes as it costs us.
        let wanted = wanted.min(GROWTH_SIZE_MAX).min(filled);
        let free = self.leftover.capacity() - filled;
        if free < wanted {
            // Doubling keeps the copying linear; the request's end, if it is known, keeps the buffer
            // exact.
            let growth = match self.parser.size_min().saturating_sub(filled) {
                0 => filled,
                missing => missing.min(filled).max(wanted),
            };
            self.leftover.try_reserve_exact(growth).map_err(|_| {
                tracing::warn!("client {}: no memory for a request of its size", self.client().id);
                Broken
            })?;
        }
        let mut leftover = std::mem::take(&mut self.leftover);
        leftover.resize(filled + wanted, 0);
        let result = self.read_into(&mut leftover[filled..], tally);
        leftover.truncate(filled + *result.as_ref().unwrap_or(&0));
        self.leftover = leftover;
        Ok(result? > 0)
    }

    /// One read; 0 if nothing is there (any more).
    pub(super) fn read_into(
        &mut self,
        buffer: &mut [u8],
        tally: &mut Tally,
    ) -> Result<usize, Broken> {
        loop {
            match self.socket.read(buffer) {
                Ok(0) => {
                    self.readable = false;
                    self.ended = true;
                    return Ok(0);
                }
                Ok(size) => {
                    // A short read emptied the socket; the next bytes make a new event. But the
                    // end of the stream may have come with the same event as these bytes.
                    self.readable = size == buffer.len() || self.hung_up || self.socket.has_more();
                    tally.bytes_in += size as u64;
                    return Ok(size);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // A session that took as much as it may goes on with the next read.
                    self.readable = self.socket.has_more();
                    return Ok(0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.lost(&error)),
            }
        }
    }

    /// Runs the complete requests in `leftover`.
    pub(super) fn run_backlog(
        &mut self,
        scratch: &mut Scratch,
        slice: &mut Slice,
        shared: &Shared,
        tally: &mut Tally,
    ) -> Result<(), Broken> {
        let mut bytes = std::mem::take(&mut self.leftover);
        let mut run_size = std::mem::take(&mut self.run_size);
        let Scratch { replies, gathered, .. } = scratch;
        run_size += self.run(&bytes[run_size..], slice, replies, gathered, shared, tally)?;
        if run_size == bytes.len() {
            bytes.clear();
        } else if self.backlog && run_size <= bytes.len() / 2 {
            // The rest moves when it is the smaller part: each of many short commands may wait.
            self.run_size = run_size;
        } else {
            bytes.drain(..run_size);
        }
        self.leftover = bytes;
        self.trim();
        Ok(())
    }

    /// Bytes that came and were not run.
    pub(super) fn not_run(&self) -> usize {
        self.leftover.len() - self.run_size
    }

    /// Forgets what was not run.
    pub(super) fn forget_input(&mut self) {
        (self.leftover, self.run_size) = (Vec::new(), 0);
        self.backlog = false;
    }
}
