//! The buffers that an event loop lends to the connections it serves.
//!
//! ```text
//!   bytes  | replies of A | replies of C | replies of B | a draft: of the one that is served now
//!   parts    A, end         C, end         B, end
//! ```
//!
//! The replies of connections that are ready at the same time stand one behind the other until the
//! end of the turn. A part is found only together with the bytes that it is a part of: both leave in
//! one [`FinishedTurn`], and no connection knows where its replies stand. So no part can outlive its
//! bytes, and a part that nobody asks for is sent nevertheless.
//!
//! Invariants: the parts follow one another without a gap, from the first byte (I1); bytes behind the
//! last part belong to the one draft there can be, and go when it goes (I2); nobody counts these
//! bytes, so with [`DEFERRED_SIZE_MAX`] of them the turn ends, and none is left behind many more (I3).

use crate::gathered::Gathered;

/// Size of the read buffer of an event loop.
pub const INPUT_SIZE: usize = 64 << 10;
/// Buffer capacity an event loop keeps for replies.
pub const OUTPUT_SIZE_KEPT: usize = 1 << 20;
/// Replies, in bytes, that may wait for the end of the turn: with more the turn ends.
pub const DEFERRED_SIZE_MAX: usize = 256 << 10;
/// Capacity for replies that an event loop begins with, and goes back to.
const OUTPUT_SIZE_FIRST: usize = 64 << 10;

/// The buffers of an event loop.
pub struct Scratch {
    /// What was read last.
    pub input: Vec<u8>,
    pub replies: TurnReplies,
    /// Commands that are done at the end of the turn.
    pub gathered: Gathered,
}

impl Scratch {
    pub fn new() -> Self {
        let (replies, gathered) = (TurnReplies::default(), Gathered::default());
        Scratch { input: vec![0; INPUT_SIZE], replies, gathered }
    }
}

/// The number of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn(u64);

/// The replies of this turn, and whose they are.
#[derive(Debug, Default)]
pub struct TurnReplies {
    bytes: Vec<u8>,
    parts: Vec<Part>,
    number: u64,
    /// Connections of which something was run without a reply since [`Self::take_unanswered`], by their places; some
    /// more than once.
    unanswered: Vec<usize>,
}

/// Replies of one connection, from the end of the part before.
#[derive(Debug)]
struct Part {
    /// The connection's place in its event loop, which is not given to another in this turn.
    place: usize,
    end: usize,
}

impl TurnReplies {
    /// Begins replies behind those that wait.
    pub fn draft(&mut self) -> Draft<'_> {
        let start = self.size();
        Draft { replies: self, start }
    }

    /// The bytes that wait.
    pub fn size(&self) -> usize {
        self.parts.last().map_or(0, |part| part.end)
    }

    /// The number of parts that wait.
    pub fn count(&self) -> usize {
        self.parts.len()
    }

    /// This turn.
    pub fn turn(&self) -> Turn {
        Turn(self.number)
    }

    /// Whether this is still the turn.
    pub fn is_in(&self, turn: Turn) -> bool {
        turn.0 == self.number
    }

    /// Notes that something of a connection was run without a reply.
    pub fn note_unanswered(&mut self, place: usize) {
        self.unanswered.push(place);
    }

    /// The connections that were noted so.
    pub fn take_unanswered(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.unanswered)
    }

    /// Ends the turn, and begins the next.
    pub fn finish_turn(&mut self) -> FinishedTurn {
        self.number += 1;
        FinishedTurn {
            bytes: std::mem::take(&mut self.bytes),
            parts: std::mem::take(&mut self.parts),
        }
    }

    /// Takes the buffers of a turn back, whose replies were all sent or kept.
    pub fn reuse(&mut self, turn: FinishedTurn) {
        if !self.parts.is_empty() {
            return;
        }
        let FinishedTurn { mut bytes, mut parts } = turn;
        bytes.clear();
        parts.clear();
        if bytes.capacity() > OUTPUT_SIZE_KEPT {
            bytes.shrink_to(OUTPUT_SIZE_FIRST);
        }
        (self.bytes, self.parts) = (bytes, parts);
    }
}

/// Replies being written, which go with this unless they are deferred or taken.
pub struct Draft<'a> {
    replies: &'a mut TurnReplies,
    start: usize,
}

impl Draft<'_> {
    /// The buffer, and where in it the draft begins: only to be appended to.
    pub fn buffer(&mut self) -> (&mut Vec<u8>, usize) {
        (&mut self.replies.bytes, self.start)
    }

    /// What was written.
    pub fn bytes(&self) -> &[u8] {
        &self.replies.bytes[self.start..]
    }

    /// Leaves it to the end of the turn, which is returned.
    pub fn defer(self, place: usize) -> Turn {
        // The answers of one step (`gathered.rs`) are left one behind the other; they are fewer than as many again.
        debug_assert!(self.start <= 2 * DEFERRED_SIZE_MAX, "{} bytes wait already", self.start);
        let end = self.replies.bytes.len();
        self.replies.parts.push(Part { place, end });
        Turn(self.replies.number)
    }

    /// Takes the buffer itself, if nothing else is in it.
    pub fn take_buffer(self) -> Result<Vec<u8>, Self> {
        if self.start == 0 { Ok(std::mem::take(&mut self.replies.bytes)) } else { Err(self) }
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        // A draft that was deferred is a part by now (I2).
        let size = self.replies.size();
        self.replies.bytes.truncate(size);
    }
}

/// The replies of a turn that is over, to be sent.
#[derive(Debug)]
pub struct FinishedTurn {
    bytes: Vec<u8>,
    parts: Vec<Part>,
}

impl FinishedTurn {
    /// The place of each connection, and its replies.
    pub fn parts(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut start = 0;
        self.parts.iter().map(move |part| {
            let bytes = &self.bytes[start..part.end];
            start = part.end;
            (part.place, bytes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(replies: &mut TurnReplies, bytes: &[u8]) -> Turn {
        let mut draft = replies.draft();
        draft.buffer().0.extend_from_slice(bytes);
        draft.defer(bytes.len())
    }

    fn sent(turn: &FinishedTurn) -> Vec<(usize, &[u8])> {
        turn.parts().collect()
    }

    #[test]
    fn replies_leave_with_their_turn_and_dropped_drafts_never() {
        let mut replies = TurnReplies::default();
        let first = write(&mut replies, b"one");
        replies.draft().buffer().0.extend_from_slice(b"of a connection that broke");
        let second = write(&mut replies, b"three");
        assert_eq!(replies.size(), 8);
        assert!(replies.is_in(first) && replies.is_in(second));
        let turn = replies.finish_turn();
        assert_eq!(sent(&turn), [(3, &b"one"[..]), (5, b"three")]);
        assert!(!replies.is_in(first), "nothing of it waits any more");
        replies.reuse(turn);
        assert_eq!((replies.size(), replies.count()), (0, 0));
        write(&mut replies, b"next");
        assert_eq!(sent(&replies.finish_turn()), [(4, &b"next"[..])]);
    }

    #[test]
    fn the_buffer_is_taken_only_without_replies_of_others() {
        let mut replies = TurnReplies::default();
        let mut draft = replies.draft();
        draft.buffer().0.extend_from_slice(b"alone");
        assert_eq!(draft.take_buffer().ok().as_deref(), Some(&b"alone"[..]));
        write(&mut replies, b"other");
        let mut draft = replies.draft();
        draft.buffer().0.extend_from_slice(b"behind");
        assert_eq!(draft.bytes(), b"behind");
        assert!(draft.take_buffer().is_err());
        assert_eq!(sent(&replies.finish_turn()), [(5, &b"other"[..])]);
    }
}
