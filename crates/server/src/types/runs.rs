//! Runs: elements of a list that follow each other, in one entry of the map of the members.
//!
//! A client that pushes many elements in one step, with one command or with a pipeline of them, writes one entry for
//! all of them, and one that takes them from there again removes one.
//!
//! ```text
//!   an element   number (8), index (8)      ->  the element
//!   a run        number (8), index (8), 1   ->  for each element its length, seven bits a byte, the lowest first, and
//!   itself
//! ```
//!
//! The index of a run is that of its first element. The entries of a list leave no gap inside its bounds, so that an
//! element is in the last entry that does not begin behind it. Of the first and the last one a part may be outside, if
//! the header says so: a command that takes elements from an end changes the header alone until the entry has none
//! left, and needs no space. A few elements are written one by one: to take one of them touches no other.

use std::ops::Range;

use super::header::Header;

/// Elements that a run has at least, and at most, and bytes of it at most.
pub const LEN_MIN: usize = 8;
pub const LEN_MAX: usize = 128;
pub const SIZE_MAX: usize = 1 << 10;

/// Bytes that a run has room for from the start.
const FIRST_SIZE: usize = 256;

/// What the key of a run has behind the index.
const RUN: u8 = 1;
/// What no key has there that belongs to the same index.
const BEHIND: u8 = u8::MAX;
/// Bits of a length in a byte, and the mark that more follow.
const BITS: u32 = 7;
const MORE: u8 = 1 << BITS;

/// A side of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

/// Where an entry of a list begins, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListEntry {
    /// The index of its first element.
    pub index: u64,
    pub is_run: bool,
}

impl ListEntry {
    /// What the key of an entry of a list says; `None` if it is of none.
    pub fn of_key(key: &[u8]) -> Option<ListEntry> {
        let index = key.get(8..16)?.try_into().ok().map(u64::from_be_bytes)?;
        match key.get(16..)? {
            [] => Some(ListEntry { index, is_run: false }),
            [RUN] => Some(ListEntry { index, is_run: true }),
            _ => None,
        }
    }
}

/// The key of an entry of a list.
#[derive(Clone, Copy)]
pub struct EntryKey {
    bytes: [u8; 17],
    size: usize,
}

impl EntryKey {
    fn new(id: u64, index: u64, last: u8, size: usize) -> Self {
        let mut bytes = [last; 17];
        bytes[..8].copy_from_slice(&id.to_be_bytes());
        bytes[8..16].copy_from_slice(&index.to_be_bytes());
        EntryKey { bytes, size }
    }

    /// That of an entry of the list of this number.
    pub fn of(id: u64, place: ListEntry) -> Self {
        EntryKey::new(id, place.index, RUN, if place.is_run { 17 } else { 16 })
    }

    /// Before all entries that begin at an index.
    pub fn before(id: u64, index: u64) -> Self {
        EntryKey::new(id, index, RUN, 16)
    }

    /// Behind all entries that begin at an index.
    pub fn behind(id: u64, index: u64) -> Self {
        EntryKey::new(id, index, BEHIND, 17)
    }
}

impl std::ops::Deref for EntryKey {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.size]
    }
}

/// Where the elements of an entry are: begin and size of each, in order. Of what is damaged only the first ones.
pub fn spans(entry: &[u8], is_run: bool) -> Spans<'_> {
    // No run is larger: of such a one nothing is shown.
    let entry = if is_run && entry.len() > SIZE_MAX { &[] } else { entry };
    Spans { entry, at: 0, len: 0, is_run }
}

/// The elements of an entry.
pub fn elements(entry: &[u8], is_run: bool) -> impl Iterator<Item = &[u8]> {
    spans(entry, is_run).map(|(at, size)| &entry[at..][..size])
}

/// How many elements an entry has; `None` if it is damaged.
pub fn len_of(entry: &[u8], is_run: bool) -> Option<usize> {
    let mut spans = spans(entry, is_run);
    while spans.next().is_some() {}
    (spans.len > 0 && spans.is_at_end()).then_some(spans.len)
}

/// See [`spans`].
pub struct Spans<'e> {
    entry: &'e [u8],
    at: usize,
    /// Elements that were shown.
    len: usize,
    is_run: bool,
}

impl Spans<'_> {
    fn is_at_end(&self) -> bool {
        !self.is_run || self.at == self.entry.len()
    }
}

impl Iterator for Spans<'_> {
    type Item = (usize, usize);

    #[inline]
    fn next(&mut self) -> Option<(usize, usize)> {
        if !self.is_run {
            let is_first = std::mem::replace(&mut self.len, 1) == 0;
            return is_first.then_some((0, self.entry.len()));
        }
        if self.len == LEN_MAX {
            return None;
        }
        let (mut size, mut shift, mut at) = (0, 0, self.at);
        loop {
            let byte = *self.entry.get(at)?;
            at += 1;
            size |= usize::from(byte & !MORE) << shift;
            if byte & MORE == 0 {
                break;
            }
            shift += BITS;
            // No run is so large.
            if shift > 2 * BITS {
                return None;
            }
        }
        let end = at.checked_add(size).filter(|end| *end <= self.entry.len())?;
        self.at = end;
        self.len += 1;
        Some((at, size))
    }
}

/// Bytes that an element takes in a run.
#[inline]
pub fn size_in_run(element: &[u8]) -> usize {
    element.len() + if element.len() < usize::from(MORE) { 1 } else { 2 }
}

/// Whether a run of so many elements and bytes takes one more.
#[inline]
pub fn takes(len: usize, size: usize, element: &[u8]) -> bool {
    len < LEN_MAX && size + size_in_run(element) <= SIZE_MAX
}

fn append(run: &mut Vec<u8>, element: &[u8]) {
    let size = element.len();
    if size < usize::from(MORE) {
        run.push(size as u8);
    } else {
        run.extend([size as u8 | MORE, (size >> BITS) as u8]);
    }
    run.extend_from_slice(element);
}

/// Makes entries of elements from an index on, and hands them out.
pub fn pack<'e, E>(
    index: u64,
    elements: impl Iterator<Item = &'e [u8]> + Clone,
    mut write: impl FnMut(ListEntry, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let (mut index, mut rest, mut run) = (index, elements, Vec::new());
    loop {
        let first = rest.clone();
        let (mut len, mut behind) = (0, rest.clone());
        run.clear();
        while let Some(element) = rest.next()
            && takes(len, run.len(), element)
        {
            if len == 0 {
                run.reserve(FIRST_SIZE);
            }
            append(&mut run, element);
            len += 1;
            behind = rest.clone();
        }
        rest = first;
        if len >= LEN_MIN {
            write(ListEntry { index, is_run: true }, &run)?;
            rest = behind;
        } else {
            // Too few of them, or one that is too large.
            len = len.max(1);
            for at in 0..len {
                let Some(element) = rest.next() else { return Ok(()) };
                write(ListEntry { index: index.wrapping_add(at as u64), is_run: false }, element)?;
            }
        }
        index = index.wrapping_add(len as u64);
    }
}

/// The lowest index at which an entry of a list may begin that has elements inside its bounds.
pub fn begin_of(list: &Header) -> u64 {
    match list.reaches[Side::Left as usize] {
        true => list.extra.saturating_sub(LEN_MAX as u64 - 1),
        false => list.extra,
    }
}

/// The index of the element at a side of a list that has one.
pub fn end_of(list: &Header, side: Side) -> u64 {
    match side {
        Side::Left => list.extra,
        Side::Right => list.extra.wrapping_add(list.count).wrapping_sub(1),
    }
}

/// Which elements of an entry that has so many are inside the bounds of its list.
pub fn inside(list: &Header, place: ListEntry, len: usize) -> Range<usize> {
    let at_most_len = |count: u64| usize::try_from(count).map_or(len, |count| count.min(len));
    let before = list.extra.wrapping_sub(place.index);
    if before < LEN_MAX as u64 {
        return at_most_len(before)..at_most_len(before.saturating_add(list.count));
    }
    let behind = place.index.wrapping_sub(list.extra);
    0..at_most_len(list.count.saturating_sub(behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(index: u64, elements: &[Vec<u8>]) -> Vec<(ListEntry, Vec<u8>)> {
        let mut entries = Vec::new();
        let taken = pack(index, elements.iter().map(Vec::as_slice), |place, entry| {
            entries.push((place, entry.to_vec()));
            Ok::<(), ()>(())
        });
        assert_eq!(taken, Ok(()));
        entries
    }

    #[test]
    fn elements_of_all_sizes_come_back_in_order() {
        let sizes = [0, 1, 100, 127, 128, 129, 300, 1000, 1021, 1022, 1023, 1024, 5000];
        for seed in 0..200_usize {
            let of = |at: usize| {
                vec![at as u8; sizes[(at * (seed + 1) + seed) % sizes.len()] % (seed * 40 + 1)]
            };
            let wanted: Vec<Vec<u8>> = (0..seed * 3).map(of).collect();
            let (mut next, mut found) = (u64::MAX - 5, Vec::new());
            for (place, entry) in packed(next, &wanted) {
                assert_eq!(place.index, next, "without a gap");
                let len = len_of(&entry, place.is_run).unwrap();
                assert!(
                    !place.is_run || (LEN_MIN..=LEN_MAX).contains(&len) && entry.len() <= SIZE_MAX
                );
                next = next.wrapping_add(len as u64);
                found.extend(elements(&entry, place.is_run).map(<[u8]>::to_vec));
            }
            assert_eq!(found, wanted);
        }
    }

    #[test]
    fn few_elements_are_entries_and_many_are_runs() {
        let runs = |count: usize| {
            let entries = packed(7, &vec![b"e".to_vec(); count]);
            entries.iter().map(|(place, _)| place.is_run).collect::<Vec<_>>()
        };
        assert_eq!(runs(LEN_MIN - 1), [false; LEN_MIN - 1]);
        assert_eq!(runs(LEN_MIN), [true]);
        assert_eq!(runs(LEN_MAX + 1), [true, false]);
    }

    /// Whatever a run has become: no panic, and no element out of it.
    #[test]
    fn of_a_damaged_run_the_first_elements_are_shown() {
        let wanted: Vec<Vec<u8>> = (0..20_u8).map(|at| vec![at; usize::from(at) * 10]).collect();
        let (_, run) = packed(0, &wanted[..14]).remove(0);
        for size in 0..run.len() {
            let shown: Vec<_> = elements(&run[..size], true).collect();
            assert!(
                shown.len() < 14
                    && wanted.starts_with(&shown.iter().map(|it| it.to_vec()).collect::<Vec<_>>())
            );
        }
        assert!((1..run.len()).any(|size| len_of(&run[..size], true).is_none()));
        for (at, byte) in (0..run.len()).flat_map(|at| (0..=255).map(move |byte| (at, byte))) {
            let mut damaged = run.clone();
            damaged[at] = byte;
            assert!(elements(&damaged, true).map(<[u8]>::len).sum::<usize>() <= run.len());
        }
        assert_eq!((len_of(b"", true), len_of(b"", false)), (None, Some(1)));
        assert_eq!(len_of(&[MORE, MORE, MORE, 0], true), None);
        // What was shown: as many elements as there were zeros, each of which took 24 bytes of memory.
        assert_eq!(spans(&[0; 200], true).count(), LEN_MAX);
        assert_eq!((len_of(&[0; 200], true), len_of(&[0; LEN_MAX], true)), (None, Some(LEN_MAX)));
        assert_eq!(spans(&[0; SIZE_MAX + 1], true).count(), 0);
    }

    #[test]
    fn keys_say_where_entries_begin() {
        for place in
            [ListEntry { index: 5, is_run: false }, ListEntry { index: 1 << 63, is_run: true }]
        {
            let key = EntryKey::of(9, place);
            assert_eq!(ListEntry::of_key(&key), Some(place));
            assert!(*EntryKey::before(9, place.index) <= *key);
            assert!(*key < *EntryKey::behind(9, place.index));
            assert!(*EntryKey::behind(9, place.index) < *EntryKey::before(9, place.index + 1));
            assert_eq!(ListEntry::of_key(&key[..15]), None);
            assert_eq!(ListEntry::of_key(&[&key[..16], &[2]].concat()), None);
        }
    }
}
