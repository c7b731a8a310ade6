//! What may be given as a range of keys.

use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A range of keys: `"a".."b"`, `"a"..="b"`, `"a"..`, `.."b"`, `..="b"`, `..`, or a pair of
/// [`Bound`]s; of anything that is a byte string.
///
/// Rust wants both ends of a range to be of one type, and `b"a"` and `b"abc"` are not: write
/// `"a".."abc"`, or `&b"a"[..]..&b"abc"[..]`. A range whose start lies behind its end is empty.
///
/// # Example
/// ```
/// # fn main() -> everleaf::Result<()> {
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// # let store = everleaf::Options::new().create(true).open(folder.path().join("p"))?;
/// # let map = store.map("m")?;
/// use std::ops::Bound;
/// for key in ["a", "b", "c", "d"] {
///     map.put(key, "")?;
/// }
/// assert_eq!(map.range("b".."d").count(), 2);
/// assert_eq!(map.range(String::from("b")..=String::from("d")).count(), 3);
/// assert_eq!(map.range(vec![b'b']..).count(), 3);
/// assert_eq!(map.range(..b"b").count(), 1);
/// assert_eq!(map.range(..=[b'b']).count(), 2);
/// assert_eq!(map.range((Bound::Excluded("b"), Bound::Unbounded)).count(), 2);
/// assert_eq!(map.range(..).count(), 4);
/// # Ok(())
/// # }
/// ```
pub trait KeyRange {
    /// Where the range begins and ends.
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>);
}

impl KeyRange for RangeFull {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

impl<K: AsRef<[u8]>> KeyRange for Range<K> {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Included(self.start.as_ref()), Bound::Excluded(self.end.as_ref()))
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeInclusive<K> {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Included(self.start().as_ref()), Bound::Included(self.end().as_ref()))
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeFrom<K> {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Included(self.start.as_ref()), Bound::Unbounded)
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeTo<K> {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Unbounded, Bound::Excluded(self.end.as_ref()))
    }
}

impl<K: AsRef<[u8]>> KeyRange for RangeToInclusive<K> {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Unbounded, Bound::Included(self.end.as_ref()))
    }
}

impl<K: AsRef<[u8]>> KeyRange for (Bound<K>, Bound<K>) {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.0.as_ref().map(K::as_ref), self.1.as_ref().map(K::as_ref))
    }
}

impl<R: KeyRange + ?Sized> KeyRange for &R {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (**self).bounds()
    }
}

/// Bounds that may be kept.
pub(crate) type OwnedBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The bounds of a range, to be kept.
pub(crate) fn owned_bounds(range: impl KeyRange) -> OwnedBounds {
    let (from, to) = range.bounds();
    (from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec))
}

/// The same bound, borrowed.
pub(crate) fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// Whether no key can lie between two bounds.
pub fn are_crossed(from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
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

/// The first key behind all that start with `prefix`: the prefix with its last byte that can grow grown. Nothing sorts
/// behind a string of 0xFF bytes but what starts with it.
pub fn behind_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// The bounds of the keys that start with `prefix`.
pub(crate) fn prefix_bounds(prefix: &[u8]) -> OwnedBounds {
    let to = behind_prefix(prefix).map_or(Bound::Unbounded, Bound::Excluded);
    (Bound::Included(prefix.to_vec()), to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_its_successor() {
        assert_eq!(behind_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(behind_prefix(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(behind_prefix(&[1, 0xff]), Some(vec![2]));
        assert_eq!(behind_prefix(b"\xff"), None);
        assert_eq!(behind_prefix(b""), None);
    }

    #[test]
    fn bounds_are_crossed_where_no_key_fits_between() {
        use Bound::{Excluded, Included, Unbounded};
        let (a, b) = (&b"a"[..], &b"b"[..]);
        assert!(are_crossed(Included(b), Included(a)));
        assert!(are_crossed(Excluded(a), Excluded(a)));
        assert!(are_crossed(Included(a), Excluded(a)));
        assert!(are_crossed(Excluded(a), Included(a)));
        assert!(!are_crossed(Included(a), Included(a)));
        assert!(!are_crossed(Unbounded, Excluded(a)));
    }
}
