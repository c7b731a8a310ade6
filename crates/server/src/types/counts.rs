//! The counts of the separators of a level that is in memory, by their positions (`separators.rs`).
//!
//! Every member that comes or goes looks for one of some thousands. So they lie in chunks of neighbours, and the first
//! eight bytes of a position, which are the score, are compared as a number: the position itself only where these are
//! equal.
//!
//! Invariants: no chunk is empty, and each has the number of its first position; all positions are in order, and
//! different.

use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};

/// Counts in a chunk at most.
const CHUNK_LEN_MAX: usize = 128;

/// A separator in memory.
#[derive(Debug)]
struct Separator {
    number: u64,
    position: Box<[u8]>,
    /// Members from it to the next one.
    count: u64,
    /// What was read of it, or handed out to be written; `None` if it is new.
    written: Option<u64>,
}

#[derive(Debug)]
struct Chunk {
    /// The number of its first position.
    first: u64,
    separators: Vec<Separator>,
    /// Whether one of its counts may be still to be written.
    is_changed: bool,
}

impl Chunk {
    fn of(separators: Vec<Separator>, is_changed: bool) -> Chunk {
        let first = separators.first().map_or(0, |it| it.number);
        Chunk { first, separators, is_changed }
    }
}

/// A chunk, and a place in it.
type ChunkIndex = (usize, usize);

/// The counts of a level.
#[derive(Debug, Default)]
pub struct Counts {
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

impl Counts {
    /// Counts as they were read, in the order of their positions.
    pub fn of(read: Vec<(Vec<u8>, u64)>) -> Counts {
        let mut counts = Counts::default();
        let mut next = Vec::new();
        for (position, count) in read {
            let number = number_of(&position);
            next.push(Separator { number, position: position.into(), count, written: Some(count) });
            if next.len() == CHUNK_LEN_MAX / 2 {
                counts.chunks.push(Chunk::of(std::mem::take(&mut next), false));
            }
        }
        if !next.is_empty() {
            counts.chunks.push(Chunk::of(next, false));
        }
        counts
    }

    /// Behind the last position before one, or with `or_at` behind the last that is not behind it. The place is 0 only
    /// if there is none.
    fn find(&self, position: &[u8], or_at: bool) -> ChunkIndex {
        let number = number_of(position);
        let is_before = |it: &Separator| match it.number.cmp(&number) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => match it.position[..].cmp(position) {
                Ordering::Less => true,
                Ordering::Equal => or_at,
                Ordering::Greater => false,
            },
        };
        let begins_before = |chunk: &Chunk| match chunk.first.cmp(&number) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => chunk.separators.first().is_some_and(is_before),
        };
        let Some(chunk) = self.chunks.partition_point(begins_before).checked_sub(1) else {
            return (0, 0);
        };
        (chunk, self.chunks[chunk].separators.partition_point(is_before))
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
            let found = &mut chunk.separators[last];
            found.count = change(found.count);
            chunk.is_changed = true;
        }
    }

    /// Sets the count of a position. Returns whether it is new.
    pub fn set(&mut self, position: &[u8], count: u64) -> bool {
        let (number, place) = match self.place_of(position) {
            Ok((number, place)) => {
                let chunk = &mut self.chunks[number];
                let found = &mut chunk.separators[place];
                found.count = count;
                chunk.is_changed = true;
                return false;
            }
            Err(place) => place,
        };
        let new = Separator {
            number: number_of(position),
            position: position.into(),
            count,
            written: None,
        };
        let Some(chunk) = self.chunks.get_mut(number) else {
            self.chunks.push(Chunk::of(vec![new], true));
            return true;
        };
        chunk.separators.insert(place, new);
        chunk.first = chunk.separators[0].number;
        chunk.is_changed = true;
        if chunk.separators.len() == CHUNK_LEN_MAX {
            let rest = chunk.separators.split_off(CHUNK_LEN_MAX / 2);
            self.chunks.insert(number + 1, Chunk::of(rest, true));
        }
        true
    }

    /// Removes a position. Returns its count.
    pub fn remove(&mut self, position: &[u8]) -> Option<u64> {
        let (number, place) = self.place_of(position).ok()?;
        let chunk = &mut self.chunks[number];
        let removed = chunk.separators.remove(place);
        match chunk.separators.first() {
            Some(first) => chunk.first = first.number,
            None => drop(self.chunks.remove(number)),
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
        for chunk in self.chunks.iter_mut().filter(|chunk| chunk.is_changed) {
            chunk.is_changed = false;
            for it in chunk.separators.iter_mut().filter(|it| it.written != Some(it.count)) {
                it.written = Some(it.count);
                take(&it.position, it.count);
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
