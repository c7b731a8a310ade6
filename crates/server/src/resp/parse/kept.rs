//! Requests that are kept for later.

use super::{Request, Span};

/// Requests that were copied, to be run later, each with the number of its command.
///
/// They stand one behind the other in three buffers, so that a million small ones take little more than
/// their bytes, and all of them go at once.
#[derive(Debug, Default)]
pub struct KeptRequests {
    bytes: Vec<u8>,
    /// Positions relative to the first byte of the request.
    spans: Vec<Span>,
    ends: Vec<KeptEnd>,
}

/// Where a request ends, and the next begins.
#[derive(Clone, Copy, Debug, Default)]
struct KeptEnd {
    bytes: usize,
    spans: usize,
    command: usize,
}

impl KeptRequests {
    /// Keeps a copy.
    pub fn push(&mut self, command: usize, request: &Request<'_>) {
        let first = self.bytes.len();
        for arg in request.args_from(0) {
            // A request has at most `u32::MAX` bytes.
            let start = (self.bytes.len() - first) as u32;
            self.bytes.extend_from_slice(arg);
            self.spans.push(Span { start, end: (self.bytes.len() - first) as u32 });
        }
        self.ends.push(KeptEnd { bytes: self.bytes.len(), spans: self.spans.len(), command });
    }

    /// Forgets all of them; the memory is kept.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
        self.ends.clear();
    }

    /// Bytes of all of them.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The number of requests.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All of them, in order, each with the number of its command.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Request<'_>)> {
        let mut start = KeptEnd::default();
        self.ends.iter().map(move |end| {
            let request = Request {
                bytes: &self.bytes[start.bytes..end.bytes],
                spans: &self.spans[start.spans..end.spans],
            };
            start = *end;
            (end.command, request)
        })
    }

    /// Bytes that are allocated for them.
    pub fn memory(&self) -> usize {
        self.bytes.capacity()
            + self.spans.capacity() * size_of::<Span>()
            + self.ends.capacity() * size_of::<KeptEnd>()
    }
}
