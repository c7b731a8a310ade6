//! Reads in key order: ranges, scans, the first, the last, the nearest.

use std::ops::{Bound, ControlFlow};

use everleaf_index::{Hardware, Session, Verify};

use super::Map;
use crate::Result;
use crate::conversion::copy_of;
use crate::map::key_range::{KeyRange, owned_bounds, prefix_bounds};
use crate::map::pages::{Bounds, Page, PageEnd, PageLimit, Pages, Reader};
use crate::map::range::Range;
use crate::map::scan::Scan;

impl Map {
    /// The pairs whose keys lie in `range`, in key order; also from the end, also from both ends.
    ///
    /// *Promise*: keys strictly ascending, none twice; each pair was current at some moment of the
    /// iteration; a key that is there all the time is returned, one that is absent all the time is
    /// not. Writers are not held up, and the iterator holds nothing but the pairs it has fetched.
    ///
    /// *Cost*: O(log n) to begin, then O(1) amortised per pair; a few hundred pairs at most, or 256 KiB and one
    /// pair, are in memory.
    ///
    /// # Example
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let store = everleaf::Options::new().create(true).open(folder.path().join("p"))?;
    /// let map = store.map("letters")?;
    /// for key in ["a", "b", "c", "d"] {
    ///     map.put(key, "")?;
    /// }
    /// let mut range = map.range("b"..);
    /// assert_eq!(range.next().expect("b")?.0, b"b");
    /// assert_eq!(range.next_back().expect("d")?.0, b"d");
    /// for pair in map.range("a"..="b") {
    ///     let (key, _value) = pair?;
    ///     assert!(key.as_slice() <= b"b");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn range(&self, range: impl KeyRange) -> Range {
        Range::new(self.clone(), owned_bounds(range))
    }

    /// All pairs, as [`Self::range`].
    pub fn iter(&self) -> Range {
        self.range(..)
    }

    /// The pairs whose keys start with `prefix`, as [`Self::range`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        Range::new(self.clone(), prefix_bounds(prefix.as_ref()))
    }

    /// Visits the pairs whose keys lie in `range` in place, without copies. Promise and time as
    /// [`Self::range`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> everleaf::Result<()> {
    /// # let folder = tempfile::tempdir().expect("a temporary folder");
    /// # let store = everleaf::Options::new().create(true).open(folder.path().join("p"))?;
    /// let map = store.map("letters")?;
    /// for key in ["a", "b", "c", "d"] {
    ///     map.put(key, "")?;
    /// }
    /// let mut found = vec![];
    /// map.scan("b"..).reverse().limit(2).for_each(|key, _value| found.extend_from_slice(key))?;
    /// assert_eq!(found, b"dc");
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan(&self, range: impl KeyRange) -> Scan<'_> {
        Scan::new(self, owned_bounds(range))
    }

    /// Reads pages of what has not expired.
    pub(crate) fn reader<'a>(
        &'a self,
        session: &'a mut Session<Hardware>,
        verify: Verify,
    ) -> Reader<'a> {
        Reader { tree: &self.tree, session, verify, shows_expired: false }
    }

    /// Copies the next page of a range, from one of its ends.
    pub(crate) fn page(
        &self,
        bounds: Bounds<'_>,
        reverse: bool,
        limit: PageLimit,
        verify: Verify,
    ) -> Result<Page> {
        let mut session = self.shared().session()?;
        Page::copy(&mut self.reader(&mut session, verify), bounds, reverse, limit)
    }

    /// The pair with the lowest key.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.nearest(Bound::Unbounded, Bound::Unbounded, false)
    }

    /// The pair with the highest key.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.nearest(Bound::Unbounded, Bound::Unbounded, true)
    }

    /// The pair with the highest key that is not above `key`.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn floor(&self, key: impl AsRef<[u8]>) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.nearest(Bound::Unbounded, Bound::Included(key.as_ref()), true)
    }

    /// The pair with the lowest key that is not below `key`.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn ceiling(&self, key: impl AsRef<[u8]>) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.nearest(Bound::Included(key.as_ref()), Bound::Unbounded, false)
    }

    /// Removes the pair with the lowest key, and returns it. No two calls return the same pair.
    ///
    /// A key that another thread inserts meanwhile, below the one that is found, is left for the next
    /// call.
    ///
    /// *Cost*: O(log n), and what it takes to pass over keys before it that were removed and whose leaves are not
    /// merged yet, or that have expired and were not swept yet.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn pop_first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.pop(false)
    }

    /// Removes the pair with the highest key, and returns it; as [`Self::pop_first`].
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn pop_last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.pop(true)
    }

    fn pop(&self, reverse: bool) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        while let Some((key, _)) = self.nearest(Bound::Unbounded, Bound::Unbounded, reverse)? {
            self.shared.reached("store.found");
            // Another thread may have it by now, or may have changed it.
            if let Some(value) = self.take(&key)? {
                return Ok(Some((key, value)));
            }
        }
        Ok(None)
    }

    /// The first pair of a range, from one of its ends.
    fn nearest(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
    ) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let (mut found, mut session) = (Ok(None), self.shared.session()?);
        let mut reader = self.reader(&mut session, self.shared.verify_scans);
        let mut passed = None;
        loop {
            // Behind what has expired, of which the page before had nothing else.
            let behind = passed.as_deref().map(Bound::Excluded);
            let bounds = match reverse {
                false => (behind.unwrap_or(from), to),
                true => (from, behind.unwrap_or(to)),
            };
            let end = reader.read(bounds, reverse, PageLimit::IN_PLACE, &mut |record| {
                found = copy_of(record.value).map(|value| Some((record.key.to_vec(), value)));
                ControlFlow::Break(())
            })?;
            let PageEnd::Limit(last) = end else { return found };
            passed = Some(last);
        }
    }
}

impl Pages {
    /// Visits the pairs of the next page of a map in place; `visit` as that of [`Scan::visit`](crate::Scan::visit).
    /// Nothing is left once it breaks.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn visit(
        &mut self,
        map: &Map,
        reverse: bool,
        limit: PageLimit,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut session = map.shared().session()?;
        let mut reader = map.reader(&mut session, map.shared().verify_scans);
        self.read(&mut reader, reverse, limit, &mut |record| visit(record.key, record.value))
    }
}
