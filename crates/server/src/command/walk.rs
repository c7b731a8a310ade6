//! Parts of the key space, and going through them.

use std::ops::{Bound, ControlFlow};

use everleaf::{Map, Result, Scan};

/// A part of the key space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub start: Bound<Vec<u8>>,
    pub end: Bound<Vec<u8>>,
}

impl Bounds {
    /// The keys that start with `prefix`.
    pub fn of_prefix(prefix: &[u8]) -> Self {
        // The first key behind them: the prefix with its last byte that can grow grown.
        let end = match prefix.iter().rposition(|&byte| byte != u8::MAX) {
            None => Bound::Unbounded,
            Some(index) => {
                let mut end = prefix[..=index].to_vec();
                end[index] += 1;
                Bound::Excluded(end)
            }
        };
        Bounds { start: Bound::Included(prefix.to_vec()), end }
    }

    /// Leaves out the keys up to and including `key`.
    pub fn skip_to_after(&mut self, key: Vec<u8>) {
        let later = match &self.start {
            Bound::Unbounded => true,
            Bound::Included(start) | Bound::Excluded(start) => key >= *start,
        };
        if later {
            self.start = Bound::Excluded(key);
        }
    }

    /// True if no key can be inside.
    pub fn is_empty(&self) -> bool {
        use Bound::{Excluded, Included, Unbounded};
        match (&self.start, &self.end) {
            (Unbounded, _) | (_, Unbounded) => false,
            (Included(start), Included(end)) => start > end,
            (Included(start) | Excluded(start), Included(end) | Excluded(end)) => start >= end,
        }
    }

    /// As the store wants them.
    pub fn as_slices(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.start.as_ref().map(Vec::as_slice), self.end.as_ref().map(Vec::as_slice))
    }
}

/// Shows `visit` each key and value inside `bounds`, ascending or descending, until it breaks.
///
/// Every key that is there all the time is seen exactly once; a key that comes or goes meanwhile
/// may or may not be seen. `visit` must be quick and must not use the store.
pub fn walk(
    map: &Map,
    bounds: &Bounds,
    reverse: bool,
    visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
) -> Result<()> {
    if bounds.is_empty() {
        return Ok(());
    }
    directed(map.scan(bounds.as_slices()), reverse).visit(visit)
}

/// A scan in one of two directions.
pub fn directed(scan: Scan<'_>, reverse: bool) -> Scan<'_> {
    if reverse { scan.reverse() } else { scan }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(start: Bound<&str>, end: Bound<&str>) -> Bounds {
        let owned = |bound: Bound<&str>| bound.map(|text| text.as_bytes().to_vec());
        Bounds { start: owned(start), end: owned(end) }
    }

    #[test]
    fn a_prefix_ends_before_its_successor() {
        assert_eq!(Bounds::of_prefix(b"ab").end, Bound::Excluded(b"ac".to_vec()));
        assert_eq!(Bounds::of_prefix(b"a\xff\xff").end, Bound::Excluded(b"b".to_vec()));
        assert_eq!(Bounds::of_prefix(b"\xff").end, Bound::Unbounded);
        assert_eq!(Bounds::of_prefix(b"").end, Bound::Unbounded);
    }

    #[test]
    fn crossed_bounds_are_empty() {
        use Bound::{Excluded, Included, Unbounded};
        assert!(bounds(Included("b"), Included("a")).is_empty());
        assert!(bounds(Excluded("a"), Excluded("a")).is_empty());
        assert!(bounds(Included("a"), Excluded("a")).is_empty());
        assert!(bounds(Excluded("a"), Included("a")).is_empty());
        assert!(!bounds(Included("a"), Included("a")).is_empty());
        assert!(!bounds(Unbounded, Excluded("a")).is_empty());
    }

    #[test]
    fn skipping_never_goes_back() {
        let mut prefix = Bounds::of_prefix(b"k:");
        prefix.skip_to_after(b"a".to_vec());
        assert_eq!(prefix.start, Bound::Included(b"k:".to_vec()));
        prefix.skip_to_after(b"k:5".to_vec());
        assert_eq!(prefix.start, Bound::Excluded(b"k:5".to_vec()));
    }
}
