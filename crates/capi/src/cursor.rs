//! Iterators: a place between or at the pairs of a range, moved either way.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ops::Bound;

use everleaf::{Map, MapView, behind_prefix};

use crate::argument::{Bounds, Out, cut, el_range, el_slice, handle_place, set};
use crate::code::{EL_NOT_FOUND, EL_OK, Failure};
use crate::entry::{EntryResult, entry};
use crate::handle::{exclusive, free, give, kind, shared};
use crate::map::el_map;
use crate::view::el_view;
use crate::way::Way;

/// What is iterated over.
enum Source {
    Map(Map),
    View(MapView),
}

impl Source {
    fn way(&self, bounds: Bounds<'_>) -> Way {
        match self {
            Source::Map(map) => Way::of_map(map.clone(), bounds),
            Source::View(view) => Way::of_view(view.range(bounds)),
        }
    }
}

/// Where an iterator is.
enum CursorState {
    /// Before the first pair, or behind the last: `next` goes to the first, `prev` to the last.
    Outside,
    /// At the pair that is the first on the way, which was shown last.
    Shown,
    /// At the pair of this key, which is no longer on the way.
    At(Vec<u8>),
    /// Behind the last pair, because `next` found no more; `prev` goes to the last.
    Behind,
    /// Before the first pair, because `prev` found no more; `next` goes to the first.
    Before,
}

/// An iterator.
pub struct Cursor {
    source: Source,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    place: CursorState,
    /// The pairs on the way, and whether that leads backwards. It begins at the place if that is `Shown`, else
    /// behind it.
    way: Option<(Way, bool)>,
}

impl Cursor {
    fn new(source: Source, bounds: Bounds<'_>) -> Self {
        let owned = |bound: Bound<&[u8]>| bound.map(<[u8]>::to_vec);
        let (from, to) = (owned(bounds.0), owned(bounds.1));
        Cursor { source, from, to, place: CursorState::Outside, way: None }
    }

    /// Moves by one pair.
    #[inline]
    fn step(&mut self, back: bool) -> Result<bool, Failure> {
        if let (CursorState::Shown, Some((way, is_back))) = (&self.place, &mut self.way)
            && *is_back == back
            && way.show_next(back)
        {
            return Ok(true);
        }
        self.step_far(back)
    }

    /// Moves by one pair, which is not fetched yet, or lies the other way.
    #[inline(never)]
    fn step_far(&mut self, back: bool) -> Result<bool, Failure> {
        match (&self.place, back) {
            (CursorState::Behind, false) | (CursorState::Before, true) => return Ok(false),
            _ => self.leave(),
        }
        if self.way.as_ref().is_none_or(|(_, is_back)| *is_back != back) {
            let (mut from, mut to) = (bound_ref(&self.from), bound_ref(&self.to));
            if let CursorState::At(key) = &self.place {
                let here = Bound::Excluded(key.as_slice());
                *(if back { &mut to } else { &mut from }) = here;
            }
            self.way = Some((self.source.way((from, to)), back));
        }
        self.advance(back)
    }

    /// Takes the pair that was shown off the way: what comes next can fail, and must leave the place as it is.
    fn leave(&mut self) {
        if let (CursorState::Shown, Some((way, back))) = (&self.place, &mut self.way)
            && let Some(key) = way.take(*back)
        {
            self.place = CursorState::At(key);
        }
    }

    /// Goes to the first pair from `key` on, or to the last one up to it.
    fn seek(&mut self, key: &[u8], back: bool) -> Result<bool, Failure> {
        let (mut from, mut to) = (bound_ref(&self.from), bound_ref(&self.to));
        let bound = if back { &mut to } else { &mut from };
        *bound = moved_to(*bound, cut(Bound::Included(key), back), back);
        let way = self.source.way((from, to));
        // If that fails, the place is what it was.
        self.leave();
        self.way = Some((way, back));
        self.advance(back)
    }

    /// Goes to the next pair on the way.
    fn advance(&mut self, back: bool) -> Result<bool, Failure> {
        let Some((way, _)) = &mut self.way else { return Ok(false) };
        let found = way.show_first(back).inspect_err(|_| self.way = None)?;
        self.place = match (found, back) {
            (true, _) => CursorState::Shown,
            (false, true) => CursorState::Before,
            (false, false) => CursorState::Behind,
        };
        if !found {
            self.way = None;
        }
        Ok(found)
    }

    /// Shows the pair it is at.
    #[inline]
    fn show(&self, found: bool, key: Out<'_, el_slice>, value: Out<'_, el_slice>) -> EntryResult {
        match self.way.as_ref().and_then(|(way, back)| way.shown(*back)) {
            Some((at, with)) if found => {
                set(key, el_slice::shown(at));
                set(value, el_slice::shown(with));
                Ok(EL_OK)
            }
            _ => Ok(EL_NOT_FOUND),
        }
    }
}

fn bound_ref(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// The lower bound of a range, or with `back` its upper one, if it begins there at a target: but not outside of it.
fn moved_to<'a>(bound: Bound<&'a [u8]>, target: Bound<&'a [u8]>, back: bool) -> Bound<&'a [u8]> {
    let (Bound::Included(key) | Bound::Excluded(key)) = target else { return bound };
    let is_outside = |limit: &[u8]| if back { key > limit } else { key < limit };
    match bound {
        Bound::Included(limit) | Bound::Excluded(limit) if is_outside(limit) => bound,
        Bound::Excluded(limit) if key == limit => bound,
        _ => target,
    }
}

kind! {
    /// An iterator over the pairs of a range. For one call at a time. It holds no lock.
    el_iter, Cursor, b"elIter\0\0"
}

/// Stores an iterator over a range of a map (NULL: all of it) at `iter`. It is before the first pair and
/// behind the last: `el_iter_next` goes to the first, `el_iter_prev` to the last. Free it with
/// `el_iter_free`. It shows copies of up to 256 pairs that it fetches at a time, so what it goes to next may be a pair
/// as it was a moment ago, also one that this thread has changed or removed since. An iterator of a view has but one
/// moment.
#[unsafe(no_mangle)]
pub extern "C" fn el_iter_new(
    map: Option<&el_map>,
    range: Option<&el_range>,
    iter: Option<&mut MaybeUninit<*mut el_iter>>,
) -> c_int {
    entry(|| {
        let place = handle_place(iter)?;
        let source = Source::Map(shared(map)?.clone());
        give(Some(place), Cursor::new(source, el_range::bounds(range)?))
    })
}

/// As `el_iter_new`, over the keys that start with `prefix`.
#[unsafe(no_mangle)]
pub extern "C" fn el_iter_prefix(
    map: Option<&el_map>,
    prefix: el_slice,
    iter: Option<&mut MaybeUninit<*mut el_iter>>,
) -> c_int {
    entry(|| {
        let (place, prefix) = (handle_place(iter)?, prefix.bytes()?);
        let source = Source::Map(shared(map)?.clone());
        let from = cut(Bound::Included(prefix), false);
        if matches!(from, Bound::Excluded(_)) {
            // No key is as long.
            let nothing = (Bound::Unbounded, Bound::Excluded(&[][..]));
            return give(Some(place), Cursor::new(source, nothing));
        }
        let end = behind_prefix(prefix);
        let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        give(Some(place), Cursor::new(source, (from, to)))
    })
}

/// As `el_iter_new`, over a map as it was when a view was opened.
#[unsafe(no_mangle)]
pub extern "C" fn el_iter_view(
    view: Option<&el_view>,
    map: Option<&el_map>,
    range: Option<&el_range>,
    iter: Option<&mut MaybeUninit<*mut el_iter>>,
) -> c_int {
    entry(|| {
        let place = handle_place(iter)?;
        let source = Source::View(shared(view)?.map(shared(map)?));
        give(Some(place), Cursor::new(source, el_range::bounds(range)?))
    })
}

/// Frees an iterator; NULL is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn el_iter_free(iter: Option<&mut el_iter>) -> c_int {
    entry(|| free(iter))
}

/// Goes to the next pair, and stores it; `EL_NOT_FOUND` behind the last. What is stored is valid until the
/// iterator is used again. Either place may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn el_iter_next(
    iter: Option<&mut el_iter>,
    key: Option<&mut MaybeUninit<el_slice>>,
    value: Option<&mut MaybeUninit<el_slice>>,
) -> c_int {
    entry(|| {
        let mut cursor = exclusive(iter)?;
        let found = cursor.step(false)?;
        cursor.show(found, key, value)
    })
}

/// Goes to the pair before, and stores it; `EL_NOT_FOUND` before the first. Otherwise as `el_iter_next`.
#[unsafe(no_mangle)]
pub extern "C" fn el_iter_prev(
    iter: Option<&mut el_iter>,
    key: Option<&mut MaybeUninit<el_slice>>,
    value: Option<&mut MaybeUninit<el_slice>>,
) -> c_int {
    entry(|| {
        let mut cursor = exclusive(iter)?;
        let found = cursor.step(true)?;
        cursor.show(found, key, value)
    })
}

/// Goes to the first pair of the range whose key is not less than `target`, and stores it; otherwise as
/// `el_iter_next`. After an error it is where it was.
#[unsafe(no_mangle)]
pub extern "C" fn el_iter_seek(
    iter: Option<&mut el_iter>,
    target: el_slice,
    key: Option<&mut MaybeUninit<el_slice>>,
    value: Option<&mut MaybeUninit<el_slice>>,
) -> c_int {
    entry(|| {
        let mut cursor = exclusive(iter)?;
        let found = cursor.seek(target.bytes()?, false)?;
        cursor.show(found, key, value)
    })
}

/// Goes to the last pair of the range whose key is not greater than `target`, and stores it; otherwise as
/// `el_iter_prev`. After an error it is where it was.
#[unsafe(no_mangle)]
pub extern "C" fn el_iter_seek_back(
    iter: Option<&mut el_iter>,
    target: el_slice,
    key: Option<&mut MaybeUninit<el_slice>>,
    value: Option<&mut MaybeUninit<el_slice>>,
) -> c_int {
    entry(|| {
        let mut cursor = exclusive(iter)?;
        let found = cursor.seek(target.bytes()?, true)?;
        cursor.show(found, key, value)
    })
}

/// Puts an iterator back to where it was when it was new.
#[unsafe(no_mangle)]
pub extern "C" fn el_iter_rewind(iter: Option<&mut el_iter>) -> c_int {
    entry(|| {
        let mut cursor = exclusive(iter)?;
        (cursor.place, cursor.way) = (CursorState::Outside, None);
        Ok(EL_OK)
    })
}
