//! Parts of the key space, and going through them.

use std::ops::{Bound, ControlFlow};

use everleaf::{Map, Scan, are_crossed, behind_prefix};

use crate::read_size::counted;

/// A part of the key space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub start: Bound<Vec<u8>>,
    pub end: Bound<Vec<u8>>,
}

impl Bounds {
    /// The keys that start with `prefix`.
    pub fn of_prefix(prefix: &[u8]) -> Self {
        let end = behind_prefix(prefix).map_or(Bound::Unbounded, Bound::Excluded);
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
        let (start, end) = self.as_slices();
        are_crossed(start, end)
    }

    /// As the store wants them.
    pub fn as_slices(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.start.as_ref().map(Vec::as_slice), self.end.as_ref().map(Vec::as_slice))
    }
}

/// What is shown of a key and its value, until it breaks.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// Shows `visit` each key and value inside `bounds`, ascending or descending, until it breaks.
///
/// Every key that is there all the time is seen exactly once; a key that comes or goes meanwhile
/// may or may not be seen. `visit` must be quick and must not use the store.
pub fn walk(
    map: &Map,
    bounds: &Bounds,
    reverse: bool,
    visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
) -> everleaf::Result<()> {
    walk_with_pauses(map, bounds, reverse, visit, |_| ControlFlow::Continue(()))
}

/// The same, and now and then `pause` sees the key that was reached, and says whether to go on. It may be one that has
/// expired: `visit` sees nothing of those, however many they are.
pub fn walk_with_pauses(
    map: &Map,
    bounds: &Bounds,
    reverse: bool,
    mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    pause: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> everleaf::Result<()> {
    if bounds.is_empty() {
        return Ok(());
    }
    let visit = |key: &[u8], value: &[u8]| visit(key, counted(value));
    directed(map.scan(bounds.as_slices()), reverse).visit_with_pauses(visit, pause)
}

/// How much of the key space is copied at once.
#[derive(Clone, Copy, Debug)]
pub struct PageSize {
    /// Pairs, at least one.
    pub pairs: usize,
    /// Bytes of keys and of what is copied of values: the pair that goes beyond is the last one.
    pub bytes: usize,
    /// Bytes that are copied of a value.
    pub value_bytes: usize,
}

/// A key, and what was copied of its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// Copies the next pairs inside `bounds`, as many as a page has, and leaves them out of the bounds, for functions that
/// use the store. `walk` visits the pairs inside bounds in ascending order, until it is told to stop. None are left
/// when there are none and no error. With an error there are the pairs before it.
pub fn page<E>(
    bounds: &mut Bounds,
    size: PageSize,
    walk: impl FnOnce(&Bounds, &mut Visit<'_>) -> Result<(), E>,
) -> (Vec<Pair>, Result<(), E>) {
    let (mut pairs, mut bytes) = (Vec::new(), 0);
    let walked = walk(bounds, &mut |key, value| {
        let value = &value[..value.len().min(size.value_bytes)];
        bytes += key.len() + value.len();
        pairs.push((key.to_vec(), value.to_vec()));
        let is_full = pairs.len() >= size.pairs || bytes > size.bytes;
        if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if let Some((last, _)) = pairs.last() {
        bounds.skip_to_after(last.clone());
    }
    (pairs, walked)
}

/// The next [`page`] of a map.
pub fn page_of(
    map: &Map,
    bounds: &mut Bounds,
    size: PageSize,
) -> (Vec<Pair>, everleaf::Result<()>) {
    page(bounds, size, |bounds, visit| walk(map, bounds, false, visit))
}

/// A scan in one of two directions.
pub fn directed(scan: Scan<'_>, reverse: bool) -> Scan<'_> {
    if reverse { scan.reverse() } else { scan }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_a_prefix_end_before_its_successor() {
        let mut bounds = Bounds::of_prefix(b"ab");
        assert_eq!(bounds.start, Bound::Included(b"ab".to_vec()));
        assert_eq!(bounds.end, Bound::Excluded(b"ac".to_vec()));
        assert_eq!(Bounds::of_prefix(b"\xff").end, Bound::Unbounded);
        assert!(!bounds.is_empty());
        bounds.skip_to_after(b"ac".to_vec());
        assert!(bounds.is_empty());
    }

    /// What a walk over these keys shows, each with a value of four bytes, until the error that lies behind them.
    fn shown<'a>(
        keys: &'a [&str],
        is_damaged: bool,
    ) -> impl FnMut(&Bounds, &mut Visit<'_>) -> Result<(), ()> + 'a {
        move |bounds, visit| {
            let inside = keys.iter().map(|key| key.as_bytes()).filter(|key| match &bounds.start {
                Bound::Included(start) => *key >= start.as_slice(),
                Bound::Excluded(start) => *key > start.as_slice(),
                Bound::Unbounded => true,
            });
            for key in inside {
                if visit(key, b"1234").is_break() {
                    return Ok(());
                }
            }
            if is_damaged { Err(()) } else { Ok(()) }
        }
    }

    /// The keys of a page.
    fn keys(pairs: &[Pair]) -> Vec<&str> {
        pairs.iter().map(|(key, _)| std::str::from_utf8(key).expect("a text")).collect()
    }

    #[test]
    fn pages_end_at_their_pairs_or_bytes_and_go_on_behind() {
        let mut shown = shown(&["a", "b", "c", "d"], false);
        let mut bounds = Bounds::of_prefix(b"");
        let three = PageSize { pairs: 3, bytes: usize::MAX, value_bytes: 2 };
        let (pairs, walked) = page(&mut bounds, three, &mut shown);
        assert_eq!((keys(&pairs), walked), (vec!["a", "b", "c"], Ok(())));
        assert_eq!(pairs[0].1, b"12");
        let (pairs, walked) = page(&mut bounds, three, &mut shown);
        assert_eq!((keys(&pairs), walked), (vec!["d"], Ok(())));
        assert_eq!(page(&mut bounds, three, &mut shown), (vec![], Ok(())));
        // Each pair has five bytes here.
        let nine = PageSize { pairs: 3, bytes: 9, value_bytes: usize::MAX };
        let (pairs, _) = page(&mut Bounds::of_prefix(b""), nine, &mut shown);
        assert_eq!(keys(&pairs), ["a", "b"]);
    }

    #[test]
    fn a_page_has_what_was_seen_before_an_error() {
        let mut shown = shown(&["a", "b"], true);
        let mut bounds = Bounds::of_prefix(b"");
        let size = PageSize { pairs: 9, bytes: usize::MAX, value_bytes: usize::MAX };
        let (pairs, walked) = page(&mut bounds, size, &mut shown);
        assert_eq!((keys(&pairs), walked), (vec!["a", "b"], Err(())));
        assert_eq!(bounds.start, Bound::Excluded(b"b".to_vec()), "the error is met again");
        assert_eq!(page(&mut bounds, size, &mut shown), (vec![], Err(())));
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
