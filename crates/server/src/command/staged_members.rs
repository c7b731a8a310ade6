//! What is to be written of the members of collections.
//!
//! A step of a pipeline writes dozens of members, and a transaction may write millions. Most are only looked for by
//! their key, and go to the batch in the order in which they came. So keys and values lie one behind the other in one
//! buffer, and are found by a hash that nobody can foresee. Only a command that visits them in order has them sorted,
//! and those that came since are put among the others.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::OnceLock;

/// Up to so many entries all are looked at, without a table.
const UNINDEXED_LEN: usize = 8;
/// The first table has so many places; a table is half full at most.
const FIRST_TABLE_LEN: usize = 256;
/// Bytes and entries that the first ones have room for: most steps are of one command. Small blocks of memory are given
/// and taken back without a search.
const FIRST_SIZE: usize = 256;
const FIRST_LEN: usize = 8;
/// The same where many are expected.
const SERIES_SIZE: usize = 2 << 10;
const SERIES_LEN: usize = 32;
/// The same up to which it is kept for the next step.
const SPARE_SIZE_MAX: usize = 64 << 10;
const SPARE_LEN_MAX: usize = 1 << 10;
/// Up to so many bytes that nobody refers to are no reason to copy the others.
const UNUSED_SIZE_KEPT: usize = 64 << 10;
/// A chunk of the order with so many entries is divided.
const CHUNK_LEN_MAX: usize = 256;

/// What is to be done with a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberWrite {
    /// Nothing: what was to be done was taken back.
    Nothing,
    Remove,
    /// Set it to so many bytes that begin there.
    Set {
        at: usize,
        size: usize,
    },
}

thread_local! {
    /// One with nothing in it, whose memory the next step needs again.
    static SPARE: Cell<StagedMembers> = Cell::default();
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u64,
    key_at: usize,
    key_size: u32,
    change: MemberWrite,
}

/// What is to be written of members, which never expire; `None` removes a member.
#[derive(Debug, Default)]
pub struct StagedMembers {
    bytes: Vec<u8>,
    /// Bytes of those that nobody refers to any more.
    unused_size: usize,
    entries: Vec<Entry>,
    /// The number of an entry and one, where its hash says or behind that; 0 is free. Empty if there are few entries.
    table: Vec<u32>,
    /// The numbers of the first entries, in the order of the keys, in chunks that are not empty.
    sorted: Vec<Vec<u32>>,
    /// How many they are.
    sorted_len: usize,
    /// Entries with something to be done.
    len: usize,
}

impl StagedMembers {
    /// Makes room for what many commands write. There is nothing in it yet.
    pub fn expect_many(&mut self) {
        *self = SPARE.take();
        self.bytes.reserve(SERIES_SIZE);
        self.entries.reserve(SERIES_LEN);
    }

    /// Keeps its memory for the next step of this thread, if that is not much.
    pub fn keep_spare(mut self) {
        let is_short = self.bytes.capacity() <= SPARE_SIZE_MAX
            && self.entries.capacity() <= SPARE_LEN_MAX
            && self.table.len() <= FIRST_TABLE_LEN;
        if is_short && self.entries.capacity() >= SERIES_LEN {
            self.bytes.clear();
            self.entries.clear();
            self.table.clear();
            self.sorted.clear();
            (self.unused_size, self.sorted_len, self.len) = (0, 0, 0);
            SPARE.set(self);
        }
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many members are to be written.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of all keys and values, at least.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    fn key(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.key_at..][..entry.key_size as usize]
    }

    fn change(&self, entry: &Entry) -> Option<Option<&[u8]>> {
        match entry.change {
            MemberWrite::Nothing => None,
            MemberWrite::Remove => Some(None),
            MemberWrite::Set { at, size } => Some(Some(&self.bytes[at..][..size])),
        }
    }

    /// What is to be written of a key, if anything is.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        if self.entries.is_empty() {
            return None;
        }
        let index = self.find(key, hash_of(key))?;
        self.change(&self.entries[index])
    }

    #[inline]
    fn find(&self, key: &[u8], hash: u64) -> Option<usize> {
        let is_it = |entry: &Entry| entry.hash == hash && self.key(entry) == key;
        if self.table.is_empty() {
            return self.entries.iter().position(is_it);
        }
        let mask = self.table.len() - 1;
        let mut place = hash as usize & mask;
        loop {
            let index = (self.table[place] as usize).checked_sub(1)?;
            if is_it(&self.entries[index]) {
                return Some(index);
            }
            place = (place + 1) & mask;
        }
    }

    /// Sets what is to be written of a key, or that nothing is. Returns the size of the value that was to be written, 0
    /// if the key was to be removed; `None` if nothing was.
    #[inline]
    pub fn set(&mut self, key: &[u8], value: Option<Option<&[u8]>>) -> Option<usize> {
        let hash = hash_of(key);
        let index = match self.find(key, hash) {
            Some(index) => index,
            None if value.is_none() => return None,
            None => self.add(key, hash),
        };
        let before = self.entries[index].change;
        self.len -= usize::from(before != MemberWrite::Nothing);
        self.len += usize::from(value.is_some());
        let room = match before {
            MemberWrite::Set { at, size } => (at, size),
            MemberWrite::Nothing | MemberWrite::Remove => (0, 0),
        };
        self.entries[index].change = match value {
            None => MemberWrite::Nothing,
            Some(None) => MemberWrite::Remove,
            Some(Some(value)) if value.len() <= room.1 => {
                self.bytes[room.0..][..value.len()].copy_from_slice(value);
                MemberWrite::Set { at: room.0, size: value.len() }
            }
            Some(Some(value)) => {
                let at = self.bytes.len();
                self.bytes.extend_from_slice(value);
                MemberWrite::Set { at, size: value.len() }
            }
        };
        let kept = match self.entries[index].change {
            MemberWrite::Set { at, size } if at == room.0 => size,
            _ => 0,
        };
        self.unused_size += room.1.saturating_sub(kept);
        if self.unused_size > UNUSED_SIZE_KEPT && self.unused_size > self.bytes.len() / 2 {
            self.copy_used();
        }
        (before != MemberWrite::Nothing).then_some(room.1)
    }

    /// Adds an entry with nothing to do.
    fn add(&mut self, key: &[u8], hash: u64) -> usize {
        if self.entries.is_empty() {
            self.bytes.reserve(FIRST_SIZE);
            self.entries.reserve(FIRST_LEN);
        }
        let index = self.entries.len();
        let key_at = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.entries.push(Entry {
            hash,
            key_at,
            key_size: key.len() as u32,
            change: MemberWrite::Nothing,
        });
        if index >= UNINDEXED_LEN {
            if 2 * self.entries.len() > self.table.len() {
                self.grow_table();
            } else {
                self.note(index);
            }
        }
        index
    }

    /// Notes an entry in the table.
    fn note(&mut self, index: usize) {
        let mask = self.table.len() - 1;
        let mut place = self.entries[index].hash as usize & mask;
        while self.table[place] != 0 {
            place = (place + 1) & mask;
        }
        self.table[place] = index as u32 + 1;
    }

    fn grow_table(&mut self) {
        let len = (4 * self.table.len()).max(FIRST_TABLE_LEN);
        self.table.clear();
        self.table.resize(len, 0);
        (0..self.entries.len()).for_each(|index| self.note(index));
    }

    /// Leaves the bytes behind that nobody refers to.
    fn copy_used(&mut self) {
        let mut used = Vec::with_capacity(self.bytes.len() - self.unused_size);
        let mut copy = |at: usize, size: usize| {
            let now = used.len();
            used.extend_from_slice(&self.bytes[at..][..size]);
            now
        };
        for entry in &mut self.entries {
            entry.key_at = copy(entry.key_at, entry.key_size as usize);
            if let MemberWrite::Set { at, size } = entry.change {
                entry.change = MemberWrite::Set { at: copy(at, size), size };
            }
        }
        self.bytes = used;
        self.unused_size = 0;
    }

    /// All that is to be written, in the order in which the keys came first.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.entries.iter().filter_map(|entry| Some((self.key(entry), self.change(entry)?)))
    }

    /// Sorts what came since the last time, for [`Self::range`].
    pub fn sort(&mut self) {
        let mut sorted = std::mem::take(&mut self.sorted);
        let key = |index: u32| self.key(&self.entries[index as usize]);
        let new = self.sorted_len as u32..self.entries.len() as u32;
        if sorted.is_empty() {
            let mut all: Vec<u32> = new.collect();
            all.sort_unstable_by(|a, b| key(*a).cmp(key(*b)));
            sorted.extend(all.chunks(CHUNK_LEN_MAX / 2).map(<[u32]>::to_vec));
        } else {
            for index in new {
                let is_before = |other: u32| key(other) < key(index);
                let (number, place) = match place_in(&sorted, is_before) {
                    // What is behind all others belongs to the last chunk.
                    (number, _) if number == sorted.len() => (number - 1, sorted[number - 1].len()),
                    found => found,
                };
                let chunk = &mut sorted[number];
                chunk.insert(place, index);
                if chunk.len() == CHUNK_LEN_MAX {
                    let rest = chunk.split_off(CHUNK_LEN_MAX / 2);
                    sorted.insert(number + 1, rest);
                }
            }
        }
        self.sorted = sorted;
        self.sorted_len = self.entries.len();
    }

    /// What is to be written of the keys inside bounds, in order, of those that were there when they were sorted.
    pub fn range<'s>(
        &'s self,
        (start, end): (Bound<&[u8]>, Bound<&[u8]>),
    ) -> impl DoubleEndedIterator<Item = (&'s [u8], Option<&'s [u8]>)> + use<'s> {
        debug_assert_eq!(self.sorted_len, self.entries.len());
        let key = |index: u32| self.key(&self.entries[index as usize]);
        let behind = (self.sorted.len(), 0);
        let start = match start {
            Bound::Unbounded => (0, 0),
            Bound::Included(start) => place_in(&self.sorted, |index| key(index) < start),
            Bound::Excluded(start) => place_in(&self.sorted, |index| key(index) <= start),
        };
        let end = match end {
            Bound::Unbounded => behind,
            Bound::Included(end) => place_in(&self.sorted, |index| key(index) <= end),
            Bound::Excluded(end) => place_in(&self.sorted, |index| key(index) < end),
        };
        let last = (end.0 + 1).min(self.sorted.len());
        let chunks = self.sorted.get(start.0..last).unwrap_or_default();
        let inside = chunks.iter().enumerate().flat_map(move |(number, chunk)| {
            let number = start.0 + number;
            let from = if number == start.0 { start.1 } else { 0 };
            let to = if number == end.0 { end.1 } else { chunk.len() };
            chunk.get(from..to).unwrap_or_default()
        });
        inside.filter_map(|index| {
            let entry = &self.entries[*index as usize];
            Some((self.key(entry), self.change(entry)?))
        })
    }
}

/// The chunk, and the place in it, of the first one that is not before something; behind the chunks if there is none.
fn place_in(chunks: &[Vec<u32>], is_before: impl Fn(u32) -> bool) -> (usize, usize) {
    let ends_before = |chunk: &Vec<u32>| chunk.last().is_none_or(|last| is_before(*last));
    let number = chunks.partition_point(ends_before);
    let place = chunks.get(number).map(|chunk| chunk.partition_point(|index| is_before(*index)));
    (number, place.unwrap_or(0))
}

/// A hash of a key that nobody outside of this process can foresee.
#[inline]
fn hash_of(key: &[u8]) -> u64 {
    static SEEDS: OnceLock<[u64; 2]> = OnceLock::new();
    let [first, second] = *SEEDS.get_or_init(|| {
        let random = || RandomState::new().hash_one(0_u8);
        [random(), random() | 1]
    });
    let folded = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let mut state = first ^ key.len() as u64;
    let mut words = key.chunks_exact(8);
    for word in &mut words {
        let word = u64::from_le_bytes(word.try_into().expect("eight bytes are eight bytes"));
        state = folded(state ^ word, second);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        // The bytes behind the last whole word, with some before them if there are any.
        let mut word = [0; 8];
        match key.len() {
            8.. => word.copy_from_slice(&key[key.len() - 8..]),
            _ => word[..rest.len()].copy_from_slice(rest),
        }
        state = folded(state ^ u64::from_le_bytes(word), second);
    }
    folded(state, first | 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    type Model = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

    fn check(members: &mut StagedMembers, model: &Model, bounds: (Bound<&[u8]>, Bound<&[u8]>)) {
        members.sort();
        let found =
            |(key, value): (&[u8], Option<&[u8]>)| (key.to_vec(), value.map(<[u8]>::to_vec));
        let wanted =
            model.range::<[u8], _>(bounds).map(|(key, value)| (key.clone(), value.clone()));
        let wanted: Vec<_> = wanted.collect();
        assert_eq!(members.range(bounds).map(found).collect::<Vec<_>>(), wanted);
        let backward: Vec<_> = members.range(bounds).rev().map(found).collect();
        assert_eq!(backward, wanted.into_iter().rev().collect::<Vec<_>>());
    }

    /// Whatever is set, replaced and taken back, and whenever it is sorted, it is what an ordered map has.
    #[test]
    fn it_has_what_an_ordered_map_has() {
        for keys in [5, 60, 5_000] {
            let (mut members, mut model) = (StagedMembers::default(), Model::new());
            let mut state: u64 = keys;
            let mut draw = |below: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % below
            };
            for step in 0..20_000_u64 {
                let key = format!("{:0width$}", draw(keys), width = (draw(2) * 20) as usize);
                let value = vec![step as u8; draw(50) as usize];
                let change = match draw(10) {
                    0 => None,
                    1 | 2 => Some(None),
                    _ => Some(Some(&value[..])),
                };
                members.set(key.as_bytes(), change);
                match change {
                    Some(change) => drop(model.insert(key.into(), change.map(<[u8]>::to_vec))),
                    None => drop(model.remove(key.as_bytes())),
                }
                assert_eq!((members.len(), members.is_empty()), (model.len(), model.is_empty()));
                let key = format!("{}", draw(keys));
                let wanted = model.get(key.as_bytes()).map(|value| value.as_deref());
                assert_eq!(members.get(key.as_bytes()), wanted);
                if draw(keys) < 3 {
                    let end = format!("{}", draw(keys));
                    let (start, end) =
                        (key.as_bytes().min(end.as_bytes()), key.as_bytes().max(end.as_bytes()));
                    check(&mut members, &model, (Bound::Unbounded, Bound::Unbounded));
                    check(&mut members, &model, (Bound::Included(start), Bound::Included(end)));
                    check(&mut members, &model, (Bound::Included(start), Bound::Excluded(end)));
                    check(&mut members, &model, (Bound::Excluded(start), Bound::Unbounded));
                }
            }
            let all: Model = members
                .iter()
                .map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)))
                .collect();
            assert_eq!((all.len(), &all), (members.iter().count(), &model));
        }
    }

    #[test]
    fn a_member_written_again_and_again_takes_no_more_memory() {
        let mut members = StagedMembers::default();
        members.set(b"other", Some(Some(b"value")));
        for size in 0..3_000 {
            members.set(b"key", Some(Some(&vec![7; size])));
            if size % 7 == 0 {
                members.set(b"key", Some(None));
            }
        }
        assert!(members.size() < 4 * UNUSED_SIZE_KEPT, "{}", members.size());
        assert_eq!(members.get(b"key"), Some(Some(&vec![7; 2_999][..])));
        assert_eq!(members.get(b"other"), Some(Some(&b"value"[..])));
    }

    #[test]
    fn crossed_bounds_have_nothing_inside() {
        let mut members = StagedMembers::default();
        members.set(b"k", Some(None));
        members.sort();
        assert_eq!(members.range((Bound::Included(b"z"), Bound::Included(b"a"))).count(), 0);
    }
}
