//! Pages: how all scans of a store read a range, from either end.
//!
//! A page is what is read under one pin. Between two pages nothing is held: the epoch goes on, and what writers
//! have freed is used again. A page ends at its limit of pairs or of bytes; the next one begins behind its last key.
//!
//! Scans, ranges, views, the sweep and snapshots differ in what they do with a pair ([`Visit`]), in what they want
//! to see ([`Reader`]) and in how long a page is ([`PageLimit`]). The loop is here.

use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow};

use everleaf_index::{BytesTree, Hardware, Record, Session, Verify};

use crate::Result;
use crate::conversion::copy_of;
use crate::map::key_range::{
    KeyRange, OwnedBounds, are_crossed, as_slice, is_beyond, owned_bounds,
};

/// Where a page ends, if its range does not end before.
#[derive(Clone, Copy, Debug)]
pub struct PageLimit {
    /// Pairs.
    pairs: usize,
    /// Bytes of keys and values: the pair that reaches it is the last one.
    bytes: usize,
}

/// Bytes that a page holds back, or that it copies.
pub(crate) const PAGE_BYTES: usize = 256 << 10;
/// Pairs that have expired and that a page passes over, and bytes of them: it may end without having shown any.
const PASSED_PAIRS: usize = 4096;
const PASSED_BYTES: usize = 4 << 20;
/// How many times as long the next page is, where pages grow.
const GROWTH: usize = 4;

impl PageLimit {
    /// Of pairs that are seen in place; and the longest that pages grow to.
    pub(crate) const IN_PLACE: Self = PageLimit { pairs: 256, bytes: PAGE_BYTES };
    /// Of a first page of copies: many callers that ask for a range want a few pairs.
    pub const FIRST: Self = PageLimit { pairs: 16, bytes: PAGE_BYTES };
    /// Of a snapshot, which rests between pages: a rest must be long beside what it takes to fall asleep.
    pub(crate) const SNAPSHOT: Self = PageLimit { pairs: 1024, bytes: PAGE_BYTES };
    /// Of keys alone, of whose values nothing is read.
    pub(crate) const KEYS: Self = PageLimit { pairs: 2048, bytes: usize::MAX };
    /// Of the sweep, which wants expiries only, and sums all of each value, because an expiry may lie at its end.
    pub(crate) const SWEEP: Self = PageLimit { pairs: 2048, bytes: PASSED_BYTES };

    /// Pairs of a page at most.
    pub fn pairs(self) -> usize {
        self.pairs
    }

    /// Bytes of keys and values that end a page: the pair that reaches them is the last one.
    pub fn bytes(self) -> usize {
        self.bytes
    }

    /// The limit of the page behind one with this limit.
    #[must_use]
    pub fn grown(self) -> Self {
        let pairs = (self.pairs * GROWTH).min(Self::IN_PLACE.pairs).max(self.pairs);
        PageLimit { pairs, ..self }
    }

    /// The same, of so many pairs at most.
    pub(crate) fn at_most(self, pairs: usize) -> Self {
        PageLimit { pairs: self.pairs.min(pairs), ..self }
    }
}

/// Sees a pair, and says whether to go on.
pub(crate) type Visit<'a> = dyn FnMut(Record<'_>) -> ControlFlow<()> + 'a;

/// Two bounds, borrowed.
pub(crate) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Where pages are read, and what is wanted of it.
pub(crate) struct Reader<'a> {
    pub tree: &'a BytesTree,
    pub session: &'a mut Session<Hardware>,
    pub verify: Verify,
    /// Whether pairs are shown that have expired and were not removed yet.
    pub shows_expired: bool,
}

/// Why a page ended.
pub(crate) enum PageEnd {
    /// The range ended.
    Range,
    /// The limit was reached, with this key, which may be one that was passed over; more may follow.
    Limit(Vec<u8>),
    /// The visitor of the pairs wanted no more.
    Break,
}

impl Reader<'_> {
    /// Shows the pairs of one page, from one end of the bounds.
    pub fn read(
        &mut self,
        bounds: Bounds<'_>,
        reverse: bool,
        limit: PageLimit,
        visit: &mut Visit<'_>,
    ) -> Result<PageEnd> {
        let (mut pairs, mut bytes, mut end) = (0, 0, PageEnd::Range);
        let (mut passed, mut passed_bytes) = (0, 0);
        let shows_expired = self.shows_expired;
        self.tree.scan_verified(self.session, bounds, reverse, self.verify, |record| {
            let size = record.key.len() + record.value.len();
            if !shows_expired && record.has_expired::<Hardware>() {
                passed += 1;
                passed_bytes += size;
            } else if visit(record).is_break() {
                end = PageEnd::Break;
                return false;
            } else {
                pairs += 1;
                bytes += size;
            }
            let is_full = pairs >= limit.pairs || bytes >= limit.bytes;
            if is_full || passed >= PASSED_PAIRS || passed_bytes >= PASSED_BYTES {
                end = PageEnd::Limit(record.key.to_vec());
                return false;
            }
            true
        })?;
        Ok(end)
    }
}

/// A range that is read page by page: what is left of it.
pub struct Pages {
    pub(super) from: Bound<Vec<u8>>,
    pub(super) to: Bound<Vec<u8>>,
    has_more: bool,
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pages").field("has_more", &self.has_more).finish_non_exhaustive()
    }
}

impl Pages {
    /// All of a range.
    pub fn new(range: impl KeyRange) -> Self {
        Self::within(owned_bounds(range))
    }

    pub(crate) fn within((from, to): OwnedBounds) -> Self {
        Pages { from, to, has_more: true }
    }

    /// Whether anything may be left.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// The last key of the page before, if more may follow.
    pub(crate) fn reached(&self, reverse: bool) -> Option<&[u8]> {
        match if reverse { &self.to } else { &self.from } {
            Bound::Excluded(reached) if self.has_more => Some(reached),
            _ => None,
        }
    }

    /// Whether a key can lie in what is left.
    pub(super) fn may_have_keys(&self) -> bool {
        self.has_more && !are_crossed(as_slice(&self.from), as_slice(&self.to))
    }

    /// What is left.
    pub(crate) fn bounds(&self) -> Bounds<'_> {
        (as_slice(&self.from), as_slice(&self.to))
    }

    /// Bounds were moved outwards: there may be more again.
    pub(super) fn reopen(&mut self) {
        self.has_more = true;
    }

    /// Shows the pairs of the next page from one end.
    pub(crate) fn read(
        &mut self,
        reader: &mut Reader<'_>,
        reverse: bool,
        limit: PageLimit,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        match reader.read(self.bounds(), reverse, limit, visit)? {
            PageEnd::Limit(reached) => self.advance(reverse, Some(reached), true),
            PageEnd::Range | PageEnd::Break => self.has_more = false,
        }
        Ok(())
    }

    /// Goes on behind the key that a page has reached, if any.
    pub(super) fn advance(&mut self, reverse: bool, reached: Option<Vec<u8>>, has_more: bool) {
        self.has_more = has_more;
        if let Some(reached) = reached {
            let bound = if reverse { &mut self.to } else { &mut self.from };
            self.has_more &= is_beyond(&reached, as_slice(bound), reverse);
            *bound = Bound::Excluded(reached);
        }
    }
}

/// A copied pair, and when it expires (0: never).
pub(crate) type Entry = ((Vec<u8>, Vec<u8>), u64);

/// A page of copies, in the order of the end they were taken from.
#[derive(Default)]
pub(crate) struct Page {
    pub pairs: VecDeque<Entry>,
    /// Whether more may follow.
    pub has_more: bool,
    /// How far it goes.
    pub reached: Option<Vec<u8>>,
}

impl Page {
    /// Copies a page. What comes before damage, or before a value for which there is no memory, is in it; the next
    /// one then is the error.
    pub fn copy(
        reader: &mut Reader<'_>,
        bounds: Bounds<'_>,
        reverse: bool,
        limit: PageLimit,
    ) -> Result<Self> {
        let (mut pairs, mut no_memory) = (VecDeque::new(), None);
        let end = reader.read(bounds, reverse, limit, &mut |record| {
            let Record { key, value, expiry_ms } = record;
            match copy_of(value) {
                Ok(value) => pairs.push_back(((key.to_vec(), value), expiry_ms)),
                Err(error) => {
                    no_memory = Some(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        match no_memory.map_or(end, Err) {
            Ok(PageEnd::Limit(reached)) => {
                Ok(Page { pairs, has_more: true, reached: Some(reached) })
            }
            Err(error) if pairs.is_empty() => Err(error),
            end => Ok(Page { reached: last_key(&pairs), pairs, has_more: end.is_err() }),
        }
    }
}

/// The key of the last pair.
pub(crate) fn last_key(pairs: &VecDeque<Entry>) -> Option<Vec<u8>> {
    pairs.back().map(|((key, _), _)| key.clone())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Map, Options, Store};

    fn store(folder: &std::path::Path) -> Store {
        Options::new().create(true).sweep(false).open(folder.join("p")).expect("opens")
    }

    /// The numbers of pairs of all pages, and the keys in their order.
    fn read(map: &Map, reverse: bool, limit: PageLimit, all: bool) -> (Vec<usize>, Vec<Vec<u8>>) {
        let (mut counts, mut keys) = (vec![], vec![]);
        let mut pages = Pages::new(..);
        while pages.has_more() {
            let before = keys.len();
            let mut session = map.shared().session().expect("a session");
            let mut reader = map.reader(&mut session, Verify::Sum);
            reader.shows_expired = all;
            let visit = &mut |record: Record<'_>| {
                keys.push(record.key.to_vec());
                ControlFlow::Continue(())
            };
            pages.read(&mut reader, reverse, limit, visit).expect("reads");
            counts.push(keys.len() - before);
        }
        (counts, keys)
    }

    /// What held reclamation back: of a map of sessions that had all expired, the first page passed over all of them.
    #[test]
    fn pages_end_among_what_they_pass_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(folder.path());
        let map = store.default_map();
        let over = crate::Expiry::from_unix_ms(1);
        let count = 2 * PASSED_PAIRS as u64 + 10;
        for number in 0..count {
            map.put_with_expiry(number.to_be_bytes(), "", over).expect("puts");
        }
        for reverse in [false, true] {
            let (counts, keys) = read(map, reverse, PageLimit::IN_PLACE, false);
            assert_eq!((counts, keys.len()), (vec![0; 3], 0));
        }
        assert_eq!(map.first().expect("reads"), None);
        map.put((count / 2).to_be_bytes(), "there").expect("puts");
        let there = Some(((count / 2).to_be_bytes().to_vec(), b"there".to_vec()));
        assert_eq!(map.first().expect("reads"), there);
        assert_eq!(map.last().expect("reads"), there);
        assert_eq!(map.range(..).next().transpose().expect("reads"), there);
        assert_eq!(map.range(..).next_back().transpose().expect("reads"), there);
        assert_eq!(map.pop_last().expect("pops"), there);
        // Values of many bytes are fewer.
        let large = store.map("large").expect("a map");
        for number in 0..9u8 {
            large.put_with_expiry([number], vec![0; PASSED_BYTES / 3], over).expect("puts");
        }
        let (counts, keys) = read(&large, false, PageLimit::IN_PLACE, false);
        assert_eq!((counts, keys.len()), (vec![0; 4], 0));
    }

    /// What held reclamation back: the sweep summed 2048 values, of any size, in one operation.
    #[test]
    fn a_slice_of_the_sweep_ends_behind_a_few_bytes() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(folder.path());
        let map = store.default_map();
        for number in 0..9u8 {
            map.put([number], vec![0; PASSED_BYTES / 3]).expect("puts");
        }
        map.put_with_expiry("z", "", crate::Expiry::from_unix_ms(1)).expect("puts");
        let (mut from, mut slices) = (Bound::Unbounded, 0);
        loop {
            slices += 1;
            let slice = store.shared().sweep_slice(map.tree(), from, &mut Default::default());
            let Some(next) = slice.expect("reads") else { break };
            from = next;
        }
        assert_eq!((slices, map.len()), (4, 9));
    }

    #[test]
    fn pages_end_at_their_pairs_or_bytes_from_either_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(folder.path());
        let [small, large] = ["small", "large"].map(|name| store.map(name).expect("a map"));
        let key = |number: u64| number.to_be_bytes().to_vec();
        for number in 0..600 {
            small.put(key(number), "").expect("puts");
        }
        for number in 0..7 {
            large.put(key(number), vec![0; PAGE_BYTES / 3]).expect("puts");
        }
        for reverse in [false, true] {
            let in_order = |count| {
                let mut keys: Vec<_> = (0..count).map(key).collect();
                if reverse {
                    keys.reverse();
                }
                keys
            };
            let (counts, keys) = read(&small, reverse, PageLimit::IN_PLACE, false);
            assert_eq!((counts, keys), (vec![256, 256, 88], in_order(600)));
            let (counts, keys) = read(&large, reverse, PageLimit::IN_PLACE, false);
            assert_eq!((counts, keys), (vec![3, 3, 1], in_order(7)));
            let (counts, _) = read(&large, reverse, PageLimit::SWEEP, false);
            assert_eq!(counts, [7], "the sweep reads no values");
        }
    }

    #[test]
    fn pages_grow_to_the_length_of_those_in_place() {
        let limits = std::iter::successors(Some(PageLimit::FIRST), |limit| Some(limit.grown()));
        let lengths: Vec<_> = limits.map(PageLimit::pairs).take(4).collect();
        assert_eq!(lengths, [16, 64, 256, 256]);
        assert_eq!(PageLimit::SNAPSHOT.grown().pairs(), PageLimit::SNAPSHOT.pairs());
    }

    #[test]
    fn what_has_expired_is_shown_to_callers_that_want_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(folder.path());
        let map = store.default_map();
        map.put("a", "").expect("puts");
        map.put("c", "").expect("puts");
        // Again if its time came before it was written, which leaves nothing.
        while map.get("b").expect("gets").is_none() {
            map.put_with_expiry("b", "", Duration::from_millis(200)).expect("puts");
        }
        while map.get("b").expect("gets").is_some() {
            std::thread::yield_now();
        }
        let keys = |all| read(map, false, PageLimit::IN_PLACE, all).1.concat();
        assert_eq!([keys(false), keys(true)], [b"ac".to_vec(), b"abc".to_vec()]);
    }
}
