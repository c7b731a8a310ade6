//! Visiting the pairs of a range in place.

use std::ops::ControlFlow;

use everleaf_index::{Hardware, Session, Verify};

use crate::Result;
use crate::map::Map;
use crate::map::key_range::OwnedBounds;
use crate::map::pages::{PageLimit, Pages, Reader, Visit};

/// Sees a key and its value, and says whether to go on.
type VisitPair<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// A scan that is about to begin; see [`Map::scan`]. Set its options, then call [`Self::visit`] or
/// [`Self::for_each`].
#[must_use = "a scan does nothing before `visit` or `for_each` is called"]
pub struct Scan<'a> {
    source: Source<'a>,
    bounds: OwnedBounds,
    reverse: bool,
    limit: usize,
    /// By which time pairs have expired or not, if it is not that of each look.
    now_ms: Option<u64>,
    /// Whether nobody looks at values.
    keys_only: bool,
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
        Scan { source, bounds, reverse: false, limit: usize::MAX, now_ms: None, keys_only: false }
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

    /// For the server: shows what has not expired by this time, in milliseconds since 1970-01-01 UTC, and was not
    /// removed.
    #[doc(hidden)]
    pub fn as_of(mut self, now_ms: u64) -> Self {
        self.now_ms = Some(now_ms);
        self
    }

    /// For the server: nobody looks at the values, which may be damaged, and are not read.
    #[doc(hidden)]
    pub fn keys_only(mut self) -> Self {
        self.keys_only = true;
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
        self.visit_pages(&mut visit, &mut |_| ControlFlow::Continue(()))
    }

    /// For the server: as [`Self::visit`], and between two operations `pause` sees the key that was reached, and says
    /// whether to go on. It may be one that has expired: `visit` sees nothing of those, however many they are.
    ///
    /// # Errors
    /// As [`Self::visit`].
    #[doc(hidden)]
    pub fn visit_with_pauses(
        self,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
        mut pause: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.visit_pages(&mut visit, &mut pause)
    }

    /// As [`Self::visit_with_pauses`], compiled once.
    fn visit_pages(
        self,
        visit: &mut VisitPair<'_>,
        pause: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let Scan { mut source, bounds, reverse, limit, now_ms, keys_only } = self;
        let verify = keys_only.then_some(Verify::Key);
        let is_over = |expiry_ms: u64| expiry_ms != 0 && now_ms.is_some_and(|now| expiry_ms <= now);
        let (mut pages, mut left) = (Pages::within(bounds), limit);
        while pages.has_more() && left > 0 {
            // A page of keys holds nothing of their values back.
            let page = if keys_only { PageLimit::KEYS } else { PageLimit::IN_PLACE };
            let limit = page.at_most(left);
            source.read(&mut pages, reverse, limit, (now_ms.is_some(), verify), &mut |record| {
                if is_over(record.expiry_ms) {
                    return ControlFlow::Continue(());
                }
                left -= 1;
                visit(record.key, record.value)
            })?;
            if pages.reached(reverse).is_some_and(|reached| pause(reached).is_break()) {
                break;
            }
        }
        Ok(())
    }
}

impl Source<'_> {
    /// Shows the pairs of the next page.
    fn read(
        &mut self,
        pages: &mut Pages,
        reverse: bool,
        limit: PageLimit,
        (shows_expired, verify): (bool, Option<Verify>),
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        let mut own;
        let (map, session) = match self {
            Source::Map(map) => {
                own = map.shared().session()?;
                (map, &mut *own)
            }
            Source::Alone(map, session) => (map, &mut **session),
        };
        let reader = map.reader(session, verify.unwrap_or(map.shared().verify_scans));
        let mut reader = Reader { shows_expired, ..reader };
        pages.read(&mut reader, reverse, limit, visit)
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
