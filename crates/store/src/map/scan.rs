//! Visiting the pairs of a range in place.

use std::ops::{Bound, ControlFlow};

use everleaf_index::{Hardware, Record, Session};

use crate::Result;
use crate::map::Map;
use crate::map::key_range::{OwnedBounds, as_slice, is_beyond};

/// Sees a pair, and says whether to go on.
type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// Pairs visited under one pin: a long scan lets go of the epoch this often.
const PIN_LENGTH: usize = 256;

/// A scan that is about to begin; see [`Map::scan`]. Set its options, then call [`Self::visit`] or
/// [`Self::for_each`].
#[must_use = "a scan does nothing before `visit` or `for_each` is called"]
pub struct Scan<'a> {
    source: Source<'a>,
    bounds: OwnedBounds,
    reverse: bool,
    limit: usize,
}

/// Where pairs come from.
enum Source<'a> {
    Map(&'a Map),
    /// While nobody else writes, in a session that the caller has.
    Alone(&'a Map, &'a mut Session<Hardware>),
}

impl<'a> Scan<'a> {
    pub(crate) fn new(map: &'a Map, bounds: OwnedBounds) -> Self {
        Self::of(Source::Map(map), bounds)
    }

    pub(crate) fn alone(
        map: &'a Map,
        session: &'a mut Session<Hardware>,
        bounds: OwnedBounds,
    ) -> Self {
        Self::of(Source::Alone(map, session), bounds)
    }

    fn of(source: Source<'a>, bounds: OwnedBounds) -> Self {
        Scan { source, bounds, reverse: false, limit: usize::MAX }
    }

    /// In descending order, from the end of the range. Default: ascending.
    pub fn reverse(mut self) -> Self {
        self.reverse = true;
        self
    }

    /// Ends after this many pairs. Default: no limit.
    pub fn limit(mut self, pairs: usize) -> Self {
        self.limit = pairs;
        self
    }

    /// Visits every pair. `see` as in [`Self::visit`].
    ///
    /// # Errors
    /// As [`Self::visit`].
    pub fn for_each(self, mut see: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.visit(|key, value| {
            see(key, value);
            ControlFlow::Continue(())
        })
    }

    /// Visits the pairs until `visit` breaks. `visit` runs inside the operation: it must be quick, because it
    /// holds back the reuse of space, and may use the store as the function of [`Map::get_with`] may.
    ///
    /// # Errors
    /// As [`Map::get`]; what comes before damage was visited.
    pub fn visit(self, mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>) -> Result<()> {
        self.visit_pages(&mut visit)
    }

    /// As [`Self::visit`], compiled once.
    fn visit_pages(self, visit: &mut Visit<'_>) -> Result<()> {
        let Scan { mut source, bounds: (mut from, mut to), reverse, limit } = self;
        let mut left = limit;
        while left > 0 {
            let page = left.min(PIN_LENGTH);
            let (mut count, mut last, mut broke) = (0, None, false);
            source.scan((as_slice(&from), as_slice(&to)), reverse, |record| {
                broke = visit(record.key, record.value).is_break();
                count += 1;
                if count == page {
                    last = Some(record.key.to_vec());
                }
                !broke && count < page
            })?;
            left -= count;
            let Some(key) = last.filter(|_| !broke) else { return Ok(()) };
            let bound = if reverse { &mut to } else { &mut from };
            if !is_beyond(&key, as_slice(bound), reverse) {
                return Ok(());
            }
            *bound = Bound::Excluded(key);
        }
        Ok(())
    }
}

impl Source<'_> {
    fn scan(
        &mut self,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        reverse: bool,
        visit: impl FnMut(Record<'_>) -> bool,
    ) -> Result<()> {
        match self {
            Source::Map(map) => {
                let verify = map.shared().verify_scans;
                let mut session = map.shared().session()?;
                map.scan_page(&mut session, bounds, reverse, verify, visit)
            }
            Source::Alone(map, session) => {
                let verify = map.shared().verify_scans;
                map.scan_page(session, bounds, reverse, verify, visit)
            }
        }
    }
}

impl std::fmt::Debug for Scan<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan")
            .field("reverse", &self.reverse)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
