//! Iterators over a range of keys, from either end.

use std::collections::VecDeque;
use std::ops::Bound;

use everleaf_index::Verify;

use crate::Result;
use crate::map::Map;
use crate::map::key_range::{OwnedBounds, as_slice};
use crate::map::pages::{Entry, Page, PageLimit, Pages};
use crate::view::MapView;

type Pair = (Vec<u8>, Vec<u8>);

/// Where pairs come from.
enum Source {
    Map(Map),
    View(MapView),
}

/// A double-ended iterator over the pairs of a range, which can be moved to any key of it; see
/// [`Map::range`] for what it promises.
///
/// Fetches pairs in growing pages and holds nothing else, so it may be kept for as long as one
/// likes. If the map is dropped meanwhile, or what comes next is damaged, the next item is an error,
/// and the last one; [`Self::seek`] beyond the damage goes on.
///
/// # Example
/// ```
/// # fn main() -> everleaf::Result<()> {
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// # let store = everleaf::Options::new().create(true).open(folder.path().join("p"))?;
/// let map = store.map("letters")?;
/// for letter in b'a'..=b'z' {
///     map.put([letter], "")?;
/// }
/// let mut letters = map.range("d"..);
/// assert_eq!(letters.peek()?.expect("d").0, b"d");
/// letters.seek("q");
/// assert_eq!(letters.next().expect("q")?.0, b"q");
/// letters.seek("a");
/// assert_eq!(letters.next().expect("d")?.0, b"d", "not before its start");
/// assert_eq!(letters.next_back().expect("z")?.0, b"z");
/// let rest = letters.collect::<everleaf::Result<Vec<_>>>()?;
/// assert_eq!(rest.len(), 21);
/// # Ok(())
/// # }
/// ```
pub struct Range {
    source: Source,
    /// The whole range.
    start: Bound<Vec<u8>>,
    end: Bound<Vec<u8>>,
    /// What has not been fetched from either end.
    pages: Pages,
    front: VecDeque<Entry>,
    /// In descending order.
    back: VecDeque<Entry>,
    /// Of the next page.
    limit: PageLimit,
    /// Whether an error has ended it.
    has_failed: bool,
    verify: Verify,
}

impl std::fmt::Debug for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |bound| as_slice(bound).map(|key: &[u8]| key.escape_ascii().to_string());
        let (start, end) = (shown(&self.start), shown(&self.end));
        f.debug_struct("Range").field("start", &start).field("end", &end).finish_non_exhaustive()
    }
}

impl Range {
    pub(crate) fn new(map: Map, bounds: OwnedBounds) -> Self {
        Self::of(Source::Map(map), bounds)
    }

    pub(crate) fn of_view(view: MapView, bounds: OwnedBounds) -> Self {
        Self::of(Source::View(view), bounds)
    }

    fn of(source: Source, bounds: OwnedBounds) -> Self {
        let verify = match &source {
            Source::Map(map) => map.shared().verify_scans,
            Source::View(view) => view.shared().verify_scans,
        };
        Range {
            source,
            start: bounds.0.clone(),
            end: bounds.1.clone(),
            pages: Pages::within(bounds),
            front: VecDeque::new(),
            back: VecDeque::new(),
            limit: PageLimit::FIRST,
            has_failed: false,
            verify,
        }
    }

    /// Verifies the check sum of each record, whatever the store was told about scans. Nothing has been fetched yet.
    pub(crate) fn verified(mut self) -> Self {
        self.verify = Verify::Sum;
        self
    }

    /// The next pairs from one end, in the order of that end.
    fn fetch(&mut self, reverse: bool) -> Result<VecDeque<Entry>> {
        while self.pages.may_have_keys() {
            let limit = self.limit;
            self.limit = limit.grown();
            let page = self.page(reverse, limit);
            self.has_failed = page.is_err();
            let Page { pairs, has_more, reached } = page?;
            self.pages.advance(reverse, reached, has_more);
            if !pairs.is_empty() {
                return Ok(pairs);
            }
        }
        Ok(VecDeque::new())
    }

    fn page(&self, reverse: bool, limit: PageLimit) -> Result<Page> {
        let bounds = self.pages.bounds();
        match &self.source {
            Source::Map(map) => map.page(bounds, reverse, limit, self.verify),
            Source::View(view) => view.page(bounds, reverse, limit, self.verify),
        }
    }

    /// Fetches more for the front if it has nothing.
    fn fill_front(&mut self) -> Result<()> {
        if self.front.is_empty() {
            self.front = self.fetch(false)?;
        }
        Ok(())
    }

    /// The pair that [`Iterator::next`] will return.
    ///
    /// # Errors
    /// What [`Iterator::next`] would have returned; it returns nothing more.
    pub fn peek(&mut self) -> Result<Option<&Pair>> {
        if self.has_failed {
            return Ok(None);
        }
        self.fill_front()?;
        Ok(self.front.front().or_else(|| self.back.back()).map(|(pair, _)| pair))
    }

    /// Moves the front: `next` goes on with the first key of the range that is not less than `key`,
    /// also if it was returned before; but not behind what the other end has returned.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        self.has_failed = false;
        self.seek_front(key.as_ref());
    }

    fn seek_front(&mut self, key: &[u8]) {
        let within = self.front.front().is_some_and(|((first, _), _)| key >= first.as_slice())
            && self.front.back().is_some_and(|((last, _), _)| key <= last.as_slice());
        let is_before =
            |entry: Option<&Entry>| entry.is_some_and(|((other, _), _)| other.as_slice() < key);
        if within {
            while is_before(self.front.front()) {
                self.front.pop_front();
            }
            return;
        }
        self.front.clear();
        while is_before(self.back.back())
            && let Some(((dropped, _), _)) = self.back.pop_back()
        {
            // To be fetched again, should the front come back.
            self.pages.to = Bound::Included(dropped);
        }
        self.pages.from = match as_slice(&self.start) {
            Bound::Included(start) | Bound::Excluded(start) if key < start => self.start.clone(),
            Bound::Excluded(start) if key == start => self.start.clone(),
            _ => Bound::Included(key.to_vec()),
        };
        self.pages.reopen();
        self.limit = PageLimit::FIRST;
    }

    /// Moves the back: `next_back` goes on with the last key of the range that is not greater than
    /// `key`, also if it was returned before; but not before what the other end has returned.
    pub fn seek_back(&mut self, key: impl AsRef<[u8]>) {
        let key = key.as_ref();
        self.has_failed = false;
        let is_behind =
            |entry: Option<&Entry>| entry.is_some_and(|((other, _), _)| other.as_slice() > key);
        self.back.clear();
        while is_behind(self.front.back())
            && let Some(((dropped, _), _)) = self.front.pop_back()
        {
            // To be fetched again, should the back come back.
            self.pages.from = Bound::Included(dropped);
        }
        self.pages.to = match as_slice(&self.end) {
            Bound::Included(end) | Bound::Excluded(end) if key > end => self.end.clone(),
            Bound::Excluded(end) if key == end => self.end.clone(),
            _ => Bound::Included(key.to_vec()),
        };
        self.pages.reopen();
        self.limit = PageLimit::FIRST;
    }
}

impl Range {
    /// As [`Iterator::next`], with the time at which the key expires.
    pub(crate) fn next_entry(&mut self) -> Option<Result<Entry>> {
        if self.has_failed {
            return None;
        }
        if let Err(error) = self.fill_front() {
            return Some(Err(error));
        }
        let entry = self.front.pop_front().or_else(|| {
            let entry = self.back.pop_back()?;
            // Not to be fetched again, should the back move; but should the front move back.
            let key = &entry.0.0;
            self.pages.from = Bound::Excluded(key.clone());
            self.pages.to = Bound::Included(key.clone());
            Some(entry)
        });
        entry.map(Ok)
    }

    /// The pair that comes next in a direction, if it is fetched.
    #[doc(hidden)]
    #[inline]
    pub fn shown(&self, reverse: bool) -> Option<&Pair> {
        let fetched = if reverse { &self.back } else { &self.front };
        fetched.front().map(|(pair, _)| pair)
    }

    /// Drops the pair that is shown; true if the one behind it is fetched, and shown now. Otherwise nothing is done.
    #[doc(hidden)]
    #[inline]
    pub fn show_next(&mut self, reverse: bool) -> bool {
        let fetched = if reverse { &mut self.back } else { &mut self.front };
        let is_fetched = fetched.len() > 1;
        if is_fetched {
            fetched.pop_front();
        }
        is_fetched
    }

    /// Fetches the pair that comes next in a direction, to be shown; false if there is none. For ranges that are
    /// gone through in one direction only.
    ///
    /// # Errors
    /// What [`Iterator::next`] would have returned.
    #[doc(hidden)]
    pub fn show_first(&mut self, reverse: bool) -> Result<bool> {
        if self.has_failed {
            return Ok(false);
        }
        if self.shown(reverse).is_none() {
            let pairs = self.fetch(reverse)?;
            *(if reverse { &mut self.back } else { &mut self.front }) = pairs;
        }
        Ok(self.shown(reverse).is_some())
    }

    fn next_back_entry(&mut self) -> Option<Result<Entry>> {
        if self.has_failed {
            return None;
        }
        if self.back.is_empty() {
            match self.fetch(true) {
                Ok(pairs) => self.back = pairs,
                Err(error) => return Some(Err(error)),
            }
        }
        let entry = self.back.pop_front().or_else(|| {
            let entry = self.front.pop_back()?;
            // Not to be fetched again, should the front move; but should the back move back.
            let key = &entry.0.0;
            self.pages.to = Bound::Excluded(key.clone());
            self.pages.from = Bound::Included(key.clone());
            Some(entry)
        });
        entry.map(Ok)
    }
}

impl Iterator for Range {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Result<Pair>> {
        self.next_entry().map(|entry| entry.map(|(pair, _)| pair))
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Result<Pair>> {
        self.next_back_entry().map(|entry| entry.map(|(pair, _)| pair))
    }
}

impl std::iter::FusedIterator for Range {}
