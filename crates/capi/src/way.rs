//! The pairs that an iterator comes to in one direction.

use std::ops::ControlFlow;

use everleaf::{Map, PageLimit, Pages, Range};

use crate::argument::Bounds;
use crate::code::{Failure, out_of_memory};

/// Bytes that a page may keep for the next one: more of them are a large value's, which need not come again.
const KEPT_BYTES: usize = 512 << 10;

/// A pair of a page.
struct Placed {
    start: usize,
    key_size: usize,
    value_size: usize,
}

/// Copies of the pairs of a page, one behind another: none is allocated or freed for itself.
#[derive(Default)]
struct Page {
    bytes: Vec<u8>,
    pairs: Vec<Placed>,
    /// The pair that is shown.
    at: usize,
}

impl Page {
    fn clear(&mut self) {
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = vec![];
        }
        self.bytes.clear();
        self.pairs.clear();
        self.at = 0;
    }

    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let (start, key_size, value_size) = (self.bytes.len(), key.len(), value.len());
        // A value may be as large as all memory that is left.
        let reserved = self.bytes.try_reserve(key_size + value_size);
        reserved.and(self.pairs.try_reserve(1)).map_err(|_| out_of_memory())?;
        self.pairs.push(Placed { start, key_size, value_size });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        Ok(())
    }

    #[inline]
    fn shown(&self) -> Option<(&[u8], &[u8])> {
        let Placed { start, key_size, value_size } = self.pairs.get(self.at)?;
        let pair = self.bytes.get(*start..)?.get(..key_size + value_size)?;
        pair.split_at_checked(*key_size)
    }

    #[inline]
    fn show_next(&mut self) -> bool {
        let next = self.at + 1;
        let is_there = next < self.pairs.len();
        if is_there {
            self.at = next;
        }
        is_there
    }
}

/// What is left of a range of a map.
pub(crate) struct Rest {
    map: Map,
    pages: Pages,
    page: Page,
    /// Of the next page.
    limit: PageLimit,
    /// What follows the page.
    failed: Option<Failure>,
}

impl Rest {
    /// Fetches the next page; it stays empty if there is nothing more.
    fn fetch(&mut self, back: bool) -> Result<(), Failure> {
        let page = &mut self.page;
        page.clear();
        if let Some(failure) = self.failed.take() {
            return Err(failure);
        }
        while page.pairs.is_empty() && self.pages.has_more() {
            let limit = self.limit;
            self.limit = limit.grown();
            let mut kept = Ok(());
            let visited = self.pages.visit(&self.map, back, limit, |key, value| {
                kept = page.push(key, value);
                if kept.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            match visited.map_err(Failure::from).and(kept) {
                Ok(()) => {}
                Err(failure) if page.pairs.is_empty() => return Err(failure),
                // What comes before damage, or before what there is no memory for, is shown first.
                Err(failure) => self.failed = Some(failure),
            }
        }
        Ok(())
    }
}

/// The pairs on the way of an iterator, of which the first is shown.
pub(crate) enum Way {
    Map(Rest),
    /// A view makes copies of its own, since what it shows is put together.
    View(Range),
}

impl Way {
    pub(crate) fn of_map(map: Map, bounds: Bounds<'_>) -> Self {
        let (pages, page, limit) = (Pages::new(bounds), Page::default(), PageLimit::FIRST);
        Way::Map(Rest { map, pages, page, limit, failed: None })
    }

    pub(crate) fn of_view(range: Range) -> Self {
        Way::View(range)
    }

    /// The pair that comes first, if it is fetched.
    #[inline]
    pub(crate) fn shown(&self, back: bool) -> Option<(&[u8], &[u8])> {
        match self {
            Way::Map(rest) => rest.page.shown(),
            Way::View(range) => range.shown(back).map(|(key, value)| (&key[..], &value[..])),
        }
    }

    /// Takes the first pair off; true if the one behind it is fetched, and shown now. Otherwise nothing is done.
    #[inline]
    pub(crate) fn show_next(&mut self, back: bool) -> bool {
        match self {
            Way::Map(rest) => rest.page.show_next(),
            Way::View(range) => range.show_next(back),
        }
    }

    /// Takes the first pair off, and returns its key, if it is fetched.
    pub(crate) fn take(&mut self, back: bool) -> Option<Vec<u8>> {
        match self {
            Way::Map(rest) => {
                let key = rest.page.shown().map(|(key, _)| key.to_vec());
                rest.page.at += usize::from(key.is_some());
                key
            }
            Way::View(range) => {
                let pair = if back { range.next_back() } else { range.next() };
                pair.and_then(Result::ok).map(|(key, _)| key)
            }
        }
    }

    /// Fetches the first pair if it is not, to be shown; false if there is none.
    pub(crate) fn show_first(&mut self, back: bool) -> Result<bool, Failure> {
        match self {
            Way::Map(rest) => {
                if rest.page.shown().is_none() {
                    rest.fetch(back)?;
                }
                Ok(rest.page.shown().is_some())
            }
            Way::View(range) => Ok(range.show_first(back)?),
        }
    }
}
