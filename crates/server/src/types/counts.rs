//! The counts of the separators of a level that is in memory, by their positions (`separators.rs`).
//!
//! Every member that comes or goes looks for one of some thousands. So they lie in chunks of neighbours, and the first
//! eight bytes of the positions, which are the scores, lie one behind the other as numbers: among these the search
//! takes no branch that depends on what it finds, and the position itself is compared only where they are equal.
//!
//! Invariants: no chunk is empty, and `firsts` has the number of its first position; all positions are in order, and
//! different; `numbers` has the number of each position of a chunk, at its place.

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow, Range};

/// Counts in a chunk at most: a bit of `changed` for each.
const CHUNK_LEN_MAX: usize = u128::BITS as usize;

/// A separator in memory.
#[derive(Debug)]
struct Separator {
    position: Box<[u8]>,
    /// Members from it to the next one.
    count: u64,
    /// What was read of it, or handed out to be written; `None` if it is new.
    written: Option<u64>,
}

#[derive(Debug, Default)]
struct Chunk {
    numbers: Vec<u64>,
    separators: Vec<Separator>,
    /// A bit for each place: whether its count may be still to be written.
    changed: u128,
}

impl Chunk {
    fn push(&mut self, separator: Separator) {
        self.numbers.push(number_of(&separator.position));
        self.separators.push(separator);
    }

    /// Adds a separator, whose count is still to be written.
    fn insert(&mut self, place: usize, separator: Separator) {
        self.numbers.insert(place, number_of(&separator.position));
        self.separators.insert(place, separator);
        let (before, behind) = parts_at(self.changed, place);
        self.changed = before | behind << 1 | 1 << place;
    }

    fn remove(&mut self, place: usize) -> Separator {
        self.numbers.remove(place);
        let (before, behind) = parts_at(self.changed, place);
        self.changed = before | (behind & !(1 << place)) >> 1;
        self.separators.remove(place)
    }

    /// Takes the second half of a chunk that is full.
    fn split(&mut self) -> Chunk {
        const HALF: usize = CHUNK_LEN_MAX / 2;
        let rest = Chunk {
            numbers: self.numbers.split_off(HALF),
            separators: self.separators.split_off(HALF),
            changed: self.changed >> HALF,
        };
        self.changed = parts_at(self.changed, HALF).0;
        rest
    }

    /// Sets the count of a place.
    fn set(&mut self, place: usize, count: u64) {
        self.separators[place].count = count;
        self.changed |= 1 << place;
    }
}

/// The bits before a place, and those from it on.
fn parts_at(bits: u128, place: usize) -> (u128, u128) {
    let before = bits & ((1 << place) - 1);
    (before, bits ^ before)
}

/// A chunk, and a place in it.
type ChunkIndex = (usize, usize);

/// The counts of a level.
#[derive(Debug, Default)]
pub struct Counts {
    /// The number of the first position of each chunk.
    firsts: Vec<u64>,
    chunks: Vec<Chunk>,
}

/// The first eight bytes of a position, in whose order positions are unless they are equal.
fn number_of(position: &[u8]) -> u64 {
    match position.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..position.len()].copy_from_slice(position);
            u64::from_be_bytes(bytes)
        }
    }
}

/// Where the numbers that are equal to one lie, or would. Often none is, and often all are: members have one score.
fn equal_to(numbers: &[u64], number: u64) -> Range<usize> {
    let start = match numbers.first() {
        Some(first) if *first < number => numbers.partition_point(|other| *other < number),
        _ => 0,
    };
    let end = match (numbers.get(start), numbers.last()) {
        (_, Some(last)) if *last == number => numbers.len(),
        (Some(next), _) if *next == number => {
            start + numbers[start..].partition_point(|other| *other == number)
        }
        _ => start,
    };
    start..end
}

impl Counts {
    /// Counts as they were read, in the order of their positions.
    pub fn of(read: Vec<(Vec<u8>, u64)>) -> Counts {
        let mut counts = Counts::default();
        for (position, count) in read {
            if counts.chunks.last().is_none_or(|it| it.numbers.len() == CHUNK_LEN_MAX / 2) {
                counts.firsts.push(number_of(&position));
                counts.chunks.push(Chunk::default());
            }
            if let Some(last) = counts.chunks.last_mut() {
                last.push(Separator { position: position.into(), count, written: Some(count) });
            }
        }
        counts
    }

    /// Behind the last position before one, or with `or_at` behind the last that is not behind it. The place is 0 only
    /// if there is none.
    fn find(&self, position: &[u8], or_at: bool) -> ChunkIndex {
        let number = number_of(position);
        let is_before = |it: &Separator| match it.position[..].cmp(position) {
            Ordering::Less => true,
            Ordering::Equal => or_at,
            Ordering::Greater => false,
        };
        let equal = equal_to(&self.firsts, number);
        let begin_before = self.chunks[equal.clone()]
            .partition_point(|chunk| chunk.separators.first().is_some_and(is_before));
        let Some(index) = (equal.start + begin_before).checked_sub(1) else { return (0, 0) };
        let chunk = &self.chunks[index];
        let equal = equal_to(&chunk.numbers, number);
        (index, equal.start + chunk.separators[equal].partition_point(is_before))
    }

    /// Where a position is; or if it is not, where it belongs.
    fn place_of(&self, position: &[u8]) -> Result<ChunkIndex, ChunkIndex> {
        let (chunk, place) = self.find(position, true);
        match place.checked_sub(1) {
            Some(last) if *self.chunks[chunk].separators[last].position == *position => {
                Ok((chunk, last))
            }
            _ => Err((chunk, place)),
        }
    }

    /// The last position before one, and its count.
    pub fn before(&self, position: &[u8]) -> Option<(&[u8], u64)> {
        let (chunk, place) = self.find(position, false);
        let found = &self.chunks.get(chunk)?.separators[place.checked_sub(1)?];
        Some((&found.position, found.count))
    }

    /// Changes the count of the last position before one.
    pub fn change_before(&mut self, position: &[u8], change: impl FnOnce(u64) -> u64) {
        let (chunk, place) = self.find(position, false);
        if let Some(last) = place.checked_sub(1) {
            let chunk = &mut self.chunks[chunk];
            chunk.set(last, change(chunk.separators[last].count));
        }
    }

    /// Sets the count of a position. Returns whether it is new.
    pub fn set(&mut self, position: &[u8], count: u64) -> bool {
        let (index, place) = match self.place_of(position) {
            Ok((index, place)) => {
                self.chunks[index].set(place, count);
                return false;
            }
            Err(place) => place,
        };
        if self.chunks.is_empty() {
            self.firsts.push(0);
            self.chunks.push(Chunk::default());
        }
        let chunk = &mut self.chunks[index];
        chunk.insert(place, Separator { position: position.into(), count, written: None });
        self.firsts[index] = chunk.numbers[0];
        if chunk.numbers.len() == CHUNK_LEN_MAX {
            let rest = chunk.split();
            self.firsts.insert(index + 1, rest.numbers[0]);
            self.chunks.insert(index + 1, rest);
        }
        true
    }

    /// Removes a position. Returns its count.
    pub fn remove(&mut self, position: &[u8]) -> Option<u64> {
        let (index, place) = self.place_of(position).ok()?;
        let chunk = &mut self.chunks[index];
        let removed = chunk.remove(place);
        match chunk.numbers.first() {
            Some(first) => self.firsts[index] = *first,
            None => {
                self.firsts.remove(index);
                self.chunks.remove(index);
            }
        }
        Some(removed.count)
    }

    /// Visits positions inside bounds, with their counts.
    pub fn visit(
        &self,
        (start, end): (Bound<&[u8]>, Bound<&[u8]>),
        reverse: bool,
        mut visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) {
        let start = match start {
            Bound::Unbounded => (0, 0),
            Bound::Included(start) => self.find(start, false),
            Bound::Excluded(start) => self.find(start, true),
        };
        let end = match end {
            Bound::Unbounded => (self.chunks.len(), 0),
            Bound::Included(end) => self.find(end, true),
            Bound::Excluded(end) => self.find(end, false),
        };
        let (mut at, mut to) = (start, end);
        while at < to {
            let next = if reverse {
                match to.1.checked_sub(1) {
                    Some(place) => to.1 = place,
                    None => {
                        let before = to.0 - 1;
                        to = (before, self.chunks[before].separators.len());
                        continue;
                    }
                }
                &self.chunks[to.0].separators[to.1]
            } else {
                let Some(next) = self.chunks[at.0].separators.get(at.1) else {
                    at = (at.0 + 1, 0);
                    continue;
                };
                at.1 += 1;
                next
            };
            if visit(&next.position, next.count).is_break() {
                return;
            }
        }
    }

    /// Hands out the counts that are not those that were read or handed out. A member whose score changes by little
    /// mostly stays behind the same separator, and leaves its count as it was.
    pub fn take_changed(&mut self, mut take: impl FnMut(&[u8], u64)) {
        for chunk in &mut self.chunks {
            let mut changed = std::mem::take(&mut chunk.changed);
            while changed != 0 {
                let it = &mut chunk.separators[changed.trailing_zeros() as usize];
                changed &= changed - 1;
                if it.written != Some(it.count) {
                    it.written = Some(it.count);
                    take(&it.position, it.count);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Counts, and what was last read or handed out of them.
    type Model = BTreeMap<Vec<u8>, (u64, Option<u64>)>;

    fn check_visits(counts: &Counts, model: &Model, bounds: (Bound<&[u8]>, Bound<&[u8]>)) {
        let part = |at: &[u8]| {
            let is_in = |bound: Bound<&[u8]>, side: Ordering| match bound {
                Bound::Unbounded => true,
                Bound::Included(bound) => at.cmp(bound) != side,
                Bound::Excluded(bound) => at.cmp(bound) == side.reverse(),
            };
            is_in(bounds.0, Ordering::Less) && is_in(bounds.1, Ordering::Greater)
        };
        let inside = model.iter().filter(|(at, _)| part(at));
        let mut wanted: Vec<_> = inside.map(|(at, (count, _))| (at.clone(), *count)).collect();
        for reverse in [false, true] {
            let mut found = Vec::new();
            counts.visit(bounds, reverse, |at, count| {
                found.push((at.to_vec(), count));
                ControlFlow::Continue(())
            });
            assert_eq!(found, wanted);
            wanted.reverse();
        }
    }

    /// Whatever comes, changes and goes, with many positions that begin alike, short ones, and zeros at their ends: it
    /// is what an ordered map has.
    #[test]
    fn they_are_what_an_ordered_map_has() {
        for spread in [3, 40, 2_000] {
            let (mut counts, mut model) = (Counts::default(), Model::new());
            let mut state: u64 = spread;
            let mut draw = |below: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % below
            };
            let position = |draw: &mut dyn FnMut(u64) -> u64| {
                let mut position = (draw(spread) << 50).to_be_bytes().to_vec();
                position.extend_from_slice(&(draw(spread) as u16).to_be_bytes());
                position.truncate(draw(12) as usize + 1);
                position
            };
            for step in 0..30_000_u64 {
                let at = position(&mut draw);
                match draw(8) {
                    0..4 => {
                        // Often what it is already.
                        let step = step / 4;
                        let is_new = !model.contains_key(&at);
                        model.entry(at.clone()).or_insert((0, None)).0 = step;
                        assert_eq!(counts.set(&at, step), is_new);
                    }
                    4 => {
                        let removed = model.remove(&at).map(|(count, _)| count);
                        assert_eq!(counts.remove(&at), removed);
                    }
                    _ => {
                        let before = (Bound::Unbounded, Bound::Excluded(&at[..]));
                        let found = model.range_mut::<[u8], _>(before).next_back();
                        let wanted = found.as_ref().map(|(at, (count, _))| (&at[..], *count));
                        assert_eq!(counts.before(&at), wanted);
                        // To and fro.
                        let by = 14 * (step % 2);
                        counts.change_before(&at, |count| (count + by).saturating_sub(7));
                        if let Some((_, (count, _))) = found {
                            *count = (*count + by).saturating_sub(7);
                        }
                    }
                }
                if draw(300) == 0 {
                    let (a, b) = (position(&mut draw), position(&mut draw));
                    check_visits(&counts, &model, (Bound::Unbounded, Bound::Unbounded));
                    check_visits(&counts, &model, (Bound::Included(&a), Bound::Included(&b)));
                    check_visits(&counts, &model, (Bound::Excluded(&a), Bound::Excluded(&b)));
                    check_visits(&counts, &model, (Bound::Excluded(&a), Bound::Excluded(&a)));
                    let mut changed = Vec::new();
                    counts.take_changed(|at, count| changed.push((at.to_vec(), count)));
                    let is_changed = |count: u64, written| written != Some(count);
                    let differing = model.iter().filter(|(_, it)| is_changed(it.0, it.1));
                    let wanted: Vec<_> =
                        differing.map(|(at, (count, _))| (at.clone(), *count)).collect();
                    assert_eq!(changed, wanted);
                    model.values_mut().for_each(|(count, written)| *written = Some(*count));
                    let read = model.iter().map(|(at, (count, _))| (at.clone(), *count));
                    let again = Counts::of(read.collect());
                    check_visits(&again, &model, (Bound::Unbounded, Bound::Excluded(&b)));
                }
            }
        }
    }
}
