//! Requests that are run together.

use super::{Parser, Request, SPAN_COUNT_KEPT, Span};

/// So many requests of a series need no further memory.
const FIRST_SERIES_LEN: usize = 32;

/// Requests that stay where they were received, to be run together, each with the number of its command.
#[derive(Debug, Default)]
pub struct Series<'b> {
    /// Positions relative to the first byte of the request.
    pub(super) spans: Vec<Span>,
    entries: Vec<SeriesEntry<'b>>,
}

#[derive(Clone, Copy, Debug)]
struct SeriesEntry<'b> {
    command: usize,
    /// Begins with the request.
    bytes: &'b [u8],
    first_span: usize,
    /// Where the request ends, in whatever the caller counts.
    end: usize,
}

impl<'b> Series<'b> {
    /// Adds the request that a parser just completed, in the `bytes` that it saw. Returns false, and adds nothing, if
    /// it was an inline one: its arguments are in the parser.
    pub fn push(&mut self, command: usize, parser: &Parser, bytes: &'b [u8], end: usize) -> bool {
        if !parser.is_inline {
            if self.entries.is_empty() {
                self.entries.reserve(FIRST_SERIES_LEN);
                // Of a long request no more than it has: hardly any other follows it.
                let count = parser.spans.len();
                self.spans.reserve((FIRST_SERIES_LEN * count).min(SPAN_COUNT_KEPT).max(count));
            }
            self.entries.push(SeriesEntry { command, bytes, first_span: self.spans.len(), end });
            self.spans.extend_from_slice(&parser.spans);
        }
        !parser.is_inline
    }

    /// Adds a request that stays where it is kept.
    pub fn add(&mut self, command: usize, request: &Request<'b>) {
        let (first_span, end) = (self.spans.len(), self.entries.len());
        self.entries.push(SeriesEntry { command, bytes: request.bytes, first_span, end });
        self.spans.extend_from_slice(request.spans);
    }

    /// The number of requests.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of arguments of all of them.
    pub fn arg_count(&self) -> usize {
        self.spans.len()
    }

    /// A request, with the number of its command.
    ///
    /// # Panics
    /// If there is no such request: the caller has compared with [`Self::len`].
    pub fn request(&self, index: usize) -> (usize, Request<'_>) {
        let entry = self.entries[index];
        let next = self.entries.get(index + 1).map_or(self.spans.len(), |next| next.first_span);
        (entry.command, Request { bytes: entry.bytes, spans: &self.spans[entry.first_span..next] })
    }

    /// Where a request ends, as it was added.
    ///
    /// # Panics
    /// As [`Self::request`].
    pub fn end(&self, index: usize) -> usize {
        self.entries[index].end
    }

    /// Forgets all of them; the memory is kept.
    pub fn clear(&mut self) {
        self.spans.clear();
        self.entries.clear();
    }
}
