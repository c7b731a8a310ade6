//! Iterators over a range of keys, from either end.

use std::collections::VecDeque;
use std::ops::Bound;

use crate::map::Map;

/// Pairs fetched at first, and at most.
const FETCH_FIRST: usize = 16;
const FETCH_MAX: usize = 256;
/// A fetch ends early when it holds this many bytes.
const FETCH_BYTES: usize = 256 << 10;

type Pair = (Vec<u8>, Vec<u8>);

/// A double-ended iterator over the pairs of a range; see [`Map::range`] for what it promises.
///
/// Fetches pairs in growing batches and holds nothing else, so it may be kept for as long as one
/// likes. If the map is dropped meanwhile, it ends.
pub struct Range {
    map: Map,
    /// What has not been fetched from either end.
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    /// Whether anything may be left between the bounds.
    open: bool,
    front: VecDeque<Pair>,
    /// In descending order.
    back: VecDeque<Pair>,
    fetch: usize,
}

impl Range {
    pub(crate) fn new(map: Map, from: Bound<Vec<u8>>, to: Bound<Vec<u8>>) -> Self {
        Range {
            map,
            from,
            to,
            open: true,
            front: VecDeque::new(),
            back: VecDeque::new(),
            fetch: FETCH_FIRST,
        }
    }

    /// The next pairs from one end, in the order of that end.
    fn fetch(&mut self, reverse: bool) -> VecDeque<Pair> {
        let mut pairs = VecDeque::new();
        if !self.open {
            return pairs;
        }
        let limit = self.fetch;
        self.fetch = (limit * 4).min(FETCH_MAX);
        let (mut bytes, mut full) = (0, false);
        let reference = |bound: &Bound<Vec<u8>>| bound.clone();
        let (from, to) = (reference(&self.from), reference(&self.to));
        let result = self.map.scan_piece(
            from.as_ref().map(Vec::as_slice),
            to.as_ref().map(Vec::as_slice),
            reverse,
            |key, value| {
                pairs.push_back((key.to_vec(), value.to_vec()));
                bytes += key.len() + value.len();
                full = pairs.len() >= limit || bytes >= FETCH_BYTES;
                !full
            },
        );
        self.open = full && result.is_ok();
        if let Some((last, _)) = pairs.back() {
            let bound = if reverse { &mut self.to } else { &mut self.from };
            self.open &= is_beyond(last, bound.as_ref().map(Vec::as_slice), reverse);
            *bound = Bound::Excluded(last.clone());
        }
        pairs
    }
}

impl Iterator for Range {
    type Item = Pair;

    fn next(&mut self) -> Option<Pair> {
        if self.front.is_empty() {
            self.front = self.fetch(false);
        }
        self.front.pop_front().or_else(|| self.back.pop_back())
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Pair> {
        if self.back.is_empty() {
            self.back = self.fetch(true);
        }
        self.back.pop_front().or_else(|| self.front.pop_back())
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
