//! Iterators over a range of keys, from either end.

use std::collections::VecDeque;
use std::ops::Bound;

use crate::map::Map;
use crate::view::MapView;
use crate::{Error, Result};

/// Pairs fetched at first, and at most.
const FETCH_FIRST: usize = 16;
const FETCH_MAX: usize = 256;

type Pair = (Vec<u8>, Vec<u8>);
/// A pair, and when it expires (0: never).
pub(crate) type Entry = (Pair, u64);

/// Some pairs of a range, in the order of the end they were taken from.
#[derive(Default)]
pub(crate) struct Piece {
    pub pairs: VecDeque<Entry>,
    /// Whether more may follow.
    pub next: bool,
    /// How far it goes, if not to its last pair.
    pub reached: Option<Vec<u8>>,
}

/// Where pairs come from.
enum Source {
    Map(Map),
    View(MapView),
}

/// A double-ended iterator over the pairs of a range, which can be moved to any key of it; see
/// [`Map::range`] for what it promises.
///
/// Fetches pairs in growing batches and holds nothing else, so it may be kept for as long as one
/// likes. If the map is dropped meanwhile, or cannot be read any more, it ends, and
/// [`Range::take_error`] says why.
///
/// # Example
/// ```
/// # fn main() -> everleaf::Result<()> {
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// # let store = everleaf::Options::new().create(true).open(folder.path().join("p"))?;
/// for letter in b'a'..=b'z' {
///     store.put(&[letter], b"")?;
/// }
/// let mut letters = store.range(&b"d"[..]..);
/// assert_eq!(letters.peek().map(|(key, _)| key), Some(&b"d".to_vec()));
/// letters.seek(b"q");
/// assert_eq!(letters.next().map(|(key, _)| key), Some(b"q".to_vec()));
/// letters.seek(b"a");
/// assert_eq!(letters.next().map(|(key, _)| key), Some(b"d".to_vec()), "not before its start");
/// assert_eq!(letters.next_back().map(|(key, _)| key), Some(b"z".to_vec()));
/// # Ok(())
/// # }
/// ```
pub struct Range {
    source: Source,
    /// The whole range.
    start: Bound<Vec<u8>>,
    end: Bound<Vec<u8>>,
    /// What has not been fetched from either end.
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    /// Whether anything may be left between the bounds.
    open: bool,
    front: VecDeque<Entry>,
    /// In descending order.
    back: VecDeque<Entry>,
    fetch: usize,
    /// Why it ended early.
    error: Option<Error>,
}

impl Range {
    pub(crate) fn new(map: Map, from: Bound<Vec<u8>>, to: Bound<Vec<u8>>) -> Self {
        Self::of(Source::Map(map), from, to)
    }

    pub(crate) fn of_view(view: MapView, from: Bound<Vec<u8>>, to: Bound<Vec<u8>>) -> Self {
        Self::of(Source::View(view), from, to)
    }

    fn of(source: Source, from: Bound<Vec<u8>>, to: Bound<Vec<u8>>) -> Self {
        Range {
            source,
            start: from.clone(),
            end: to.clone(),
            from,
            to,
            open: true,
            front: VecDeque::new(),
            back: VecDeque::new(),
            fetch: FETCH_FIRST,
            error: None,
        }
    }

    /// Why the iteration ended before its end; `None` if it has not. Who must not miss a pair asks
    /// when there are no more.
    ///
    /// # Example
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let store = everleaf::Options::new().create(true).open(folder.path().join("p"))?;
    /// let mut range = store.iter();
    /// let count = range.by_ref().count();
    /// match range.take_error() {
    ///     Some(error) => return Err(error),
    ///     None => assert_eq!(count, 0),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }

    /// The next pairs from one end, in the order of that end.
    fn fetch(&mut self, reverse: bool) -> VecDeque<Entry> {
        while self.open && !are_crossed(as_slice(&self.from), as_slice(&self.to)) {
            let limit = self.fetch;
            self.fetch = (limit * 4).min(FETCH_MAX);
            let Piece { pairs, next, reached } = match self.piece(reverse, limit) {
                Ok(piece) => piece,
                Err(error) => {
                    self.open = false;
                    self.error = Some(error);
                    break;
                }
            };
            self.open = next;
            let reached = reached.or_else(|| pairs.back().map(|((key, _), _)| key.clone()));
            if let Some(reached) = reached {
                let bound = if reverse { &mut self.to } else { &mut self.from };
                self.open &= is_beyond(&reached, as_slice(bound), reverse);
                *bound = Bound::Excluded(reached);
            }
            if !pairs.is_empty() {
                return pairs;
            }
        }
        VecDeque::new()
    }

    fn piece(&self, reverse: bool, limit: usize) -> Result<Piece> {
        let (from, to) = (as_slice(&self.from), as_slice(&self.to));
        match &self.source {
            Source::Map(map) => map.piece(from, to, reverse, limit),
            Source::View(view) => view.piece(from, to, reverse, limit),
        }
    }

    /// The pair that [`Iterator::next`] will return.
    pub fn peek(&mut self) -> Option<&Pair> {
        if self.front.is_empty() {
            self.front = self.fetch(false);
        }
        self.front.front().or_else(|| self.back.back()).map(|(pair, _)| pair)
    }

    /// Moves the front: `next` goes on with the first key of the range that is not less than `key`,
    /// also if it was returned before; but not behind what the other end has returned.
    pub fn seek(&mut self, key: &[u8]) {
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
            self.to = Bound::Included(dropped);
        }
        self.from = match as_slice(&self.start) {
            Bound::Included(start) | Bound::Excluded(start) if key < start => self.start.clone(),
            Bound::Excluded(start) if key == start => self.start.clone(),
            _ => Bound::Included(key.to_vec()),
        };
        self.open = true;
        self.fetch = FETCH_FIRST;
    }

    /// Moves the back: `next_back` goes on with the last key of the range that is not greater than
    /// `key`, also if it was returned before; but not before what the other end has returned.
    pub fn seek_back(&mut self, key: &[u8]) {
        let is_behind =
            |entry: Option<&Entry>| entry.is_some_and(|((other, _), _)| other.as_slice() > key);
        self.back.clear();
        while is_behind(self.front.back())
            && let Some(((dropped, _), _)) = self.front.pop_back()
        {
            // To be fetched again, should the back come back.
            self.from = Bound::Included(dropped);
        }
        self.to = match as_slice(&self.end) {
            Bound::Included(end) | Bound::Excluded(end) if key > end => self.end.clone(),
            Bound::Excluded(end) if key == end => self.end.clone(),
            _ => Bound::Included(key.to_vec()),
        };
        self.open = true;
        self.fetch = FETCH_FIRST;
    }
}

impl Range {
    /// As [`Iterator::next`], with the time at which the key expires.
    pub(crate) fn next_entry(&mut self) -> Option<Entry> {
        if self.front.is_empty() {
            self.front = self.fetch(false);
        }
        self.front.pop_front().or_else(|| {
            let entry = self.back.pop_back()?;
            // Not to be fetched again, should the back move; but should the front move back.
            let key = &entry.0.0;
            self.from = Bound::Excluded(key.clone());
            self.to = Bound::Included(key.clone());
            Some(entry)
        })
    }
}

impl Iterator for Range {
    type Item = Pair;

    fn next(&mut self) -> Option<Pair> {
        self.next_entry().map(|(pair, _)| pair)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Pair> {
        if self.back.is_empty() {
            self.back = self.fetch(true);
        }
        let entry = self.back.pop_front().or_else(|| {
            let entry = self.front.pop_back()?;
            // Not to be fetched again, should the front move; but should the back move back.
            let key = &entry.0.0;
            self.to = Bound::Excluded(key.clone());
            self.from = Bound::Included(key.clone());
            Some(entry)
        });
        entry.map(|(pair, _)| pair)
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// Whether no key can lie between two bounds.
fn are_crossed(from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    match (from, to) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (
            Bound::Included(from) | Bound::Excluded(from),
            Bound::Included(to) | Bound::Excluded(to),
        ) => from >= to,
    }
}

/// Whether a fetch that started at `bound` and ended with `last` came any further. Always so, unless
/// the pool is damaged: keys that do not ascend must not lead an iteration in circles.
pub(crate) fn is_beyond(last: &[u8], bound: Bound<&[u8]>, reverse: bool) -> bool {
    match bound {
        Bound::Unbounded => true,
        Bound::Included(start) if reverse => last <= start,
        Bound::Included(start) => last >= start,
        Bound::Excluded(start) if reverse => last < start,
        Bound::Excluded(start) => last > start,
    }
}

/// The bounds of the keys that start with `prefix`.
pub(crate) fn prefix_bounds(prefix: &[u8]) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let mut end = prefix.to_vec();
    while end.last() == Some(&u8::MAX) {
        end.pop();
    }
    let to = match end.last_mut() {
        Some(last) => {
            *last += 1;
            Bound::Excluded(end)
        }
        // Nothing sorts after a string of 0xFF bytes but what starts with it.
        None => Bound::Unbounded,
    };
    (Bound::Included(prefix.to_vec()), to)
}
