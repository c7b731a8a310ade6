//! What a step knows of the order of a sorted set (`order.rs`): levels that it has in memory, and the ends.
//!
//! Every member that comes or goes changes the count of one separator a level. To find that is a scan, and to write it
//! an entry of the batch. So a level is read as a whole once that is no more work than what was asked for of it so far;
//! its counts change in memory, and each that did is written once, when the step ends. What was read stays in memory
//! for the next step that changes the set, with the number of changes in the header, which says whether it is still so.
//!
//! Invariants:
//! - S1 a level in memory has what the stage would show of it once the counts that changed are written to that;
//! - S2 what is kept between steps has the counts and ends of the store at its number of changes: only a thread that
//!   has written a step, or seen at its end that nothing changed, leaves it, and nothing of it is still to be written;
//! - S3 of the positions that the set has on the stage up to the one up to which an end knows them, it has all, and no
//!   others.

use std::collections::{HashMap, VecDeque};
use std::ops::{Bound, ControlFlow};
use std::sync::{Mutex, PoisonError};

use super::counts::Counts;
use super::places::LEVEL_MAX;
use crate::short_bytes::ShortBytes;

/// Bytes of levels that a step has in memory, and that are kept between steps.
pub const SIZE_MAX: usize = 16 << 20;
/// Bytes that a separator takes besides its position.
pub const OVERHEAD: usize = 80;
/// A level with so many separators is no more work to read than to look for one.
const WORTH: u64 = 32;

#[derive(Debug, Default)]
struct Level {
    /// How often it was asked for something.
    asked: u64,
    /// If it is in memory.
    counts: Option<Counts>,
    size: usize,
}

/// What is known of the order of a sorted set.
#[derive(Debug)]
pub struct Separators {
    /// The number of the set.
    pub id: u64,
    /// The changes that its header counts.
    pub changes: u64,
    /// From level 1 on.
    levels: Vec<Level>,
    /// The first positions, and the last.
    ends: [End; 2],
}

impl Separators {
    /// Nothing is known yet.
    pub fn new(id: u64, changes: u64) -> Self {
        let levels = (0..LEVEL_MAX).map(|_| Level::default()).collect();
        let ends = [false, true].map(|is_last| End { is_last, ..End::default() });
        Separators { id, changes, levels, ends }
    }

    fn level(&self, level: u8) -> &Level {
        &self.levels[usize::from(level) - 1]
    }

    fn level_mut(&mut self, level: u8) -> &mut Level {
        &mut self.levels[usize::from(level) - 1]
    }

    /// Notes that a level is asked for something. Returns whether it should be read, which has about so many
    /// separators.
    pub fn wants(&mut self, level: u8, count: u64) -> bool {
        let level = self.level_mut(level);
        level.asked += 1;
        level.counts.is_none()
            && count <= WORTH.saturating_mul(level.asked)
            && count <= (SIZE_MAX / OVERHEAD) as u64
    }

    /// Notes that a level was read which is too large.
    pub fn give_up(&mut self, level: u8) {
        self.level_mut(level).asked = 0;
    }

    /// Whether a level is in memory.
    pub fn has(&self, level: u8) -> bool {
        self.level(level).counts.is_some()
    }

    /// Takes a level as it was read.
    pub fn load(&mut self, level: u8, counts: Vec<(Vec<u8>, u64)>) {
        let level = self.level_mut(level);
        level.size = counts.iter().map(|(position, _)| position.len() + OVERHEAD).sum();
        level.counts = Some(Counts::of(counts));
    }

    /// The last separator before a position, and its count, of a level that is in memory.
    pub fn before(&self, level: u8, position: &[u8]) -> Option<(&[u8], u64)> {
        self.level(level).counts.as_ref()?.before(position)
    }

    /// Changes the count of the last separator before a position, of a level that is in memory.
    pub fn change_before(&mut self, level: u8, position: &[u8], change: impl FnOnce(u64) -> u64) {
        if let Some(counts) = &mut self.level_mut(level).counts {
            counts.change_before(position, change);
        }
    }

    /// Sets the count of a separator, which may be new, of a level that is in memory.
    pub fn set(&mut self, level: u8, position: &[u8], count: u64) {
        let level = self.level_mut(level);
        let Some(counts) = &mut level.counts else { return };
        if counts.set(position, count) {
            level.size += position.len() + OVERHEAD;
        }
    }

    /// Removes a separator from a level that is in memory. Returns its count.
    pub fn remove(&mut self, level: u8, position: &[u8]) -> Option<u64> {
        let level = self.level_mut(level);
        let count = level.counts.as_mut()?.remove(position)?;
        level.size -= position.len() + OVERHEAD;
        Some(count)
    }

    /// Visits separators of a level that is in memory, with their counts.
    pub fn visit(
        &self,
        level: u8,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        reverse: bool,
        visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) {
        if let Some(counts) = &self.level(level).counts {
            counts.visit(bounds, reverse, visit);
        }
    }

    /// Hands out the counts that changed and were not written yet.
    pub fn write(&mut self, mut write: impl FnMut(u8, &[u8], u64)) {
        for (level, number) in self.levels.iter_mut().zip(1..) {
            if let Some(counts) = &mut level.counts {
                counts.take_changed(|position, count| write(number, position, count));
            }
        }
    }

    /// The first or last positions.
    pub fn end(&mut self, is_last: bool) -> &mut End {
        &mut self.ends[usize::from(is_last)]
    }

    /// Notes that a position comes.
    pub fn enter(&mut self, position: &[u8]) {
        self.ends.iter_mut().for_each(|end| end.enter(position));
    }

    /// Notes that a position goes.
    pub fn leave(&mut self, position: &[u8]) {
        self.ends.iter_mut().for_each(|end| end.leave(position));
    }

    /// Bytes of the levels and ends that are in memory.
    pub fn size(&self) -> usize {
        let levels: usize = self.levels.iter().map(|level| level.size).sum();
        levels + self.ends.iter().map(End::size).sum::<usize>()
    }

    /// The same, with what a set takes besides them.
    pub fn kept_size(&self) -> usize {
        self.size() + SET_OVERHEAD
    }

    /// Whether there is anything in it that would have to be read again.
    fn is_worth_keeping(&self) -> bool {
        self.levels.iter().any(|level| level.size > 0)
            || self.ends.iter().any(|end| !end.next.is_empty())
    }
}

/// The first positions of a set, or the last: all of them up to one.
#[derive(Debug, Default)]
pub struct End {
    is_last: bool,
    /// Up to which position it knows the set; `None` if it knows nothing.
    up_to: Option<ShortBytes>,
    /// The positions up to there, in the order in which they go.
    next: VecDeque<ShortBytes>,
    /// How often positions were read.
    reads: u64,
}

/// So many positions are read ahead the second time, and from the third time on: a command that goes on asking takes
/// all of them, and one read of many costs less than several of few.
const AHEAD: u64 = 32;
pub const AHEAD_MAX: u64 = 128;
/// Bytes that a set takes while it is kept, besides its levels and ends.
const SET_OVERHEAD: usize = 1 << 10;
/// Bytes of an end up to which it is kept between steps.
const END_SIZE_MAX: usize = 64 << 10;
/// Where one is added to so many positions, those behind the first 32 are forgotten.
const LENGTH_MAX: usize = 256;

impl End {
    /// Whether a position comes later than another one.
    fn is_later(&self, position: &[u8], other: &[u8]) -> bool {
        if self.is_last { position < other } else { position > other }
    }

    /// Where among the known positions one is, or belongs; `None` if it is beyond them.
    fn place(&self, position: &[u8]) -> Option<usize> {
        let up_to = self.up_to.as_ref()?;
        if self.is_later(position, up_to) {
            return None;
        }
        Some(self.next.partition_point(|other| self.is_later(position, other)))
    }

    fn enter(&mut self, position: &[u8]) {
        let Some(place) = self.place(position) else { return };
        // It may be there already in a damaged set, which has it without its member.
        if self.next.get(place).is_none_or(|found| **found != *position) {
            self.next.insert(place, position.into());
        }
        if self.next.len() > LENGTH_MAX {
            self.next.truncate(AHEAD as usize);
            self.up_to = self.next.back().cloned();
        }
    }

    fn leave(&mut self, position: &[u8]) {
        // Mostly a command that removes one has asked for it.
        if self.next.front().is_some_and(|first| **first == *position) {
            self.next.pop_front();
            return;
        }
        let Some(place) = self.place(position) else { return };
        if self.next.get(place).is_some_and(|found| **found == *position) {
            self.next.remove(place);
        }
    }

    /// The next positions, as many as wanted if so many are known.
    pub fn next(&self, count: u64) -> impl Iterator<Item = &[u8]> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.next.iter().take(count).map(|position| &position[..])
    }

    /// Behind which position to read, and how many, if fewer are known than are wanted.
    pub fn missing(&mut self, count: u64) -> Option<(Option<Vec<u8>>, u64)> {
        let missing = count.checked_sub(self.next.len() as u64).filter(|missing| *missing > 0)?;
        self.reads += 1;
        let ahead = match self.reads {
            1 => 0,
            2 => AHEAD,
            _ => AHEAD_MAX,
        };
        Some((self.up_to.as_deref().map(<[u8]>::to_vec), missing.max(ahead)))
    }

    /// Bytes of what it knows.
    fn size(&self) -> usize {
        let known = self.next.iter().chain(&self.up_to);
        known.map(|position| position.len() + OVERHEAD).sum()
    }

    /// Takes the positions that were read where it said.
    pub fn load(&mut self, read: Vec<ShortBytes>) {
        if let Some(last) = read.last() {
            self.up_to = Some(last.clone());
        }
        self.next.extend(read);
    }
}

/// What is kept between steps of the orders of sorted sets.
#[derive(Debug, Default)]
pub struct KeptSeparators {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    sets: HashMap<u64, Separators>,
    size: usize,
}

impl KeptSeparators {
    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what is known of a set whose header counts so many changes.
    pub fn take(&self, id: u64, changes: u64) -> Option<Separators> {
        let mut kept = self.lock();
        if kept.sets.get(&id)?.changes != changes {
            return None;
        }
        let found = kept.sets.remove(&id)?;
        kept.size -= found.kept_size();
        Some(found)
    }

    /// Keeps what is known at the end of a step (S2).
    pub fn keep(&self, mut separators: Separators) {
        for end in separators.ends.iter_mut().filter(|end| end.size() > END_SIZE_MAX) {
            *end = End { is_last: end.is_last, ..End::default() };
        }
        let size = separators.kept_size();
        if !separators.is_worth_keeping() || size > SIZE_MAX {
            return;
        }
        let mut kept = self.lock();
        if kept.size + size > SIZE_MAX {
            *kept = Kept::default();
        }
        let is_older =
            kept.sets.get(&separators.id).is_some_and(|it| it.changes > separators.changes);
        if !is_older {
            kept.size += size;
            let replaced = kept.sets.insert(separators.id, separators);
            kept.size -= replaced.map_or(0, |replaced| replaced.kept_size());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(known: &mut Separators) -> Vec<(u8, Vec<u8>, u64)> {
        let mut all = Vec::new();
        known.write(|level, position, count| all.push((level, position.to_vec(), count)));
        all
    }

    fn loaded() -> Separators {
        let mut known = Separators::new(7, 1);
        known.load(1, [("", 5), ("d", 6), ("m", 7)].map(|(at, count)| (at.into(), count)).into());
        known
    }

    #[test]
    fn each_count_that_changed_is_written_once() {
        let mut known = loaded();
        for _ in 0..3 {
            known.change_before(1, b"e", |count| count + 1);
        }
        // Nothing is before the start, and a separator is not before itself.
        known.change_before(1, b"", |count| count + 1);
        known.change_before(1, b"d", |count| count - 1);
        known.set(1, b"x", 2);
        let mut all = written(&mut known);
        all.sort();
        let wanted = [("", 4), ("d", 9), ("x", 2)].map(|(at, count)| (1, at.into(), count));
        assert_eq!(all, wanted);
        assert_eq!(written(&mut known), []);
        // One that goes is not written; one that comes again is.
        known.change_before(1, b"e", |_| 1);
        assert_eq!(known.remove(1, b"d"), Some(1));
        assert_eq!(written(&mut known), []);
        known.set(1, b"d", 3);
        known.remove(1, b"d");
        known.set(1, b"d", 4);
        assert_eq!(written(&mut known), [(1, b"d".to_vec(), 4)]);
        assert_eq!(known.before(1, b"e"), Some((&b"d"[..], 4)));
        // What is again what it was needs no write; what was handed out before that does.
        known.change_before(1, b"e", |count| count + 1);
        known.change_before(1, b"e", |count| count - 1);
        assert_eq!(written(&mut known), []);
        known.change_before(1, b"e", |count| count + 1);
        assert_eq!(written(&mut known), [(1, b"d".to_vec(), 5)]);
        known.change_before(1, b"e", |count| count - 1);
        assert_eq!(written(&mut known), [(1, b"d".to_vec(), 4)]);
    }

    #[test]
    fn the_size_is_that_of_what_is_there() {
        let mut known = loaded();
        let size = known.size();
        known.set(1, b"d", 9);
        assert_eq!(known.size(), size);
        known.set(1, b"position", 9);
        assert_eq!(known.size(), size + 8 + OVERHEAD);
        known.remove(1, b"position");
        assert_eq!((known.size(), known.remove(1, b"position")), (size, None));
    }

    /// Whatever comes and goes, and is kept between steps, the ends are those of all that is there.
    #[test]
    fn the_ends_are_the_first_and_last_of_what_is_there() {
        let (mut known, mut state) = (Separators::new(1, 1), 1_u64);
        let (kept, mut kept_count) = (KeptSeparators::default(), 0);
        let mut all = std::collections::BTreeSet::new();
        let (mut asked, mut read) = (0, 0);
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let random = |bits: u32, to: u64| (state >> bits) % to;
            let position = (random(33, 3_000) as u16).to_be_bytes().to_vec();
            if random(40, 30) == 0 {
                let (size, is_worth) = (known.size(), known.is_worth_keeping());
                kept.keep(known);
                let found = kept.take(1, 1);
                assert_eq!(found.as_ref().map(Separators::size), is_worth.then_some(size));
                assert_eq!(kept.lock().size, 0);
                kept_count += usize::from(is_worth);
                known = found.unwrap_or_else(|| Separators::new(1, 1));
            }
            match random(50, 8) {
                0..=4 => {
                    known.enter(&position);
                    all.insert(position);
                }
                5 => {
                    if all.remove(&position) {
                        known.leave(&position);
                    }
                }
                part => {
                    let (is_last, count) = (part == 6, 1 + random(55, 3));
                    asked += 1;
                    if let Some((after, wanted)) = known.end(is_last).missing(count) {
                        read += 1;
                        let mut inside: Vec<_> = all.iter().cloned().collect();
                        if is_last {
                            inside.reverse();
                        }
                        let is_behind = |at: &Vec<u8>| match &after {
                            Some(after) if is_last => at < after,
                            Some(after) => at > after,
                            None => true,
                        };
                        let next = inside.into_iter().filter(is_behind).take(wanted as usize);
                        known.end(is_last).load(next.map(|it| it[..].into()).collect());
                    }
                    let found: Vec<_> =
                        known.end(is_last).next(count).map(<[u8]>::to_vec).collect();
                    let right: Vec<Vec<u8>> = match is_last {
                        true => all.iter().rev().take(count as usize).cloned().collect(),
                        false => all.iter().take(count as usize).cloned().collect(),
                    };
                    assert_eq!(found, right);
                    for position in found {
                        known.leave(&position);
                        all.remove(&position);
                    }
                }
            }
        }
        assert!(10 * read < asked, "it read {read} times for {asked}");
        assert!(kept_count > 100);
    }

    #[test]
    fn long_ends_are_not_kept_and_the_levels_are() {
        let kept = KeptSeparators::default();
        let mut known = loaded();
        let size = known.size();
        known.end(true).load(vec![b"z"[..].into()]);
        known.end(false).load(vec![vec![b'a'; END_SIZE_MAX][..].into()]);
        kept.keep(known);
        let mut known = kept.take(7, 1).unwrap();
        assert_eq!(known.size(), size + 2 * (1 + OVERHEAD));
        assert_eq!(known.end(true).next(9).count(), 1);
        assert_eq!(
            (known.end(false).next(9).count(), known.end(false).missing(1)),
            (0, Some((None, 1)))
        );
    }

    #[test]
    fn what_is_kept_is_for_the_same_state_only() {
        let kept = KeptSeparators::default();
        kept.keep(loaded());
        assert!(kept.take(7, 2).is_none() && kept.take(8, 1).is_none());
        // What is older does not replace what is newer.
        let newer = Separators { changes: 3, ..loaded() };
        kept.keep(newer);
        kept.keep(loaded());
        assert!(kept.take(7, 1).is_none());
        assert_eq!(kept.take(7, 3).map(|known| known.size()), Some(loaded().size()));
        assert!(kept.take(7, 3).is_none(), "a step that takes it has it alone");
        // Beyond the limit what was kept goes.
        let long = |id| {
            let mut known = Separators::new(id, 1);
            known.load(1, vec![(vec![0; SIZE_MAX / 2], 1)]);
            known
        };
        kept.keep(long(1));
        kept.keep(long(2));
        assert!(kept.take(1, 1).is_none() && kept.take(2, 1).is_some());
    }
}
