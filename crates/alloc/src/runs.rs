//! Runs of chunks, found by place and by length.

use std::collections::{BTreeMap, BTreeSet};

/// Sets of chunks, kept as runs that do not touch.
#[derive(Default)]
pub struct Runs {
    /// First chunk -> count.
    by_start: BTreeMap<u64, u64>,
    /// The same, as count and first chunk.
    by_length: BTreeSet<(u64, u64)>,
    chunks: u64,
}

impl Runs {
    /// Chunks in all runs.
    pub fn chunks(&self) -> u64 {
        self.chunks
    }

    /// The runs in ascending order: first chunk and count.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.by_start.iter().map(|(start, length)| (*start, *length))
    }

    /// The runs of at least `count` chunks, shortest first.
    pub fn of_length(&self, count: u64) -> impl Iterator<Item = (u64, u64)> {
        self.by_length.range((count, 0)..).map(|(length, start)| (*start, *length))
    }

    /// The longest run.
    pub fn longest(&self) -> Option<(u64, u64)> {
        self.by_length.last().map(|(length, start)| (*start, *length))
    }

    /// The run that a chunk is in.
    pub fn at(&self, chunk: u64) -> Option<(u64, u64)> {
        let (start, length) = self.by_start.range(..=chunk).next_back()?;
        (start + length > chunk).then_some((*start, *length))
    }

    /// The parts of the runs that lie from `start` to `end`, in ascending order.
    pub fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let first = self.at(start).map_or(start, |(first, _)| first);
        let part = move |(at, length): (&u64, &u64)| {
            let from = (*at).max(start);
            (from, (at + length).min(end) - from)
        };
        self.by_start.range(first..end).map(part)
    }

    /// Adds chunks, none of which is there; returns the run that they are in now.
    pub fn add(&mut self, mut start: u64, mut count: u64) -> (u64, u64) {
        debug_assert!(count > 0 && self.at(start).is_none());
        if let Some((before, length)) = start.checked_sub(1).and_then(|chunk| self.at(chunk)) {
            self.remove(before, length);
            start = before;
            count += length;
        }
        if let Some((behind, length)) = self.at(start + count) {
            self.remove(behind, length);
            count += length;
        }
        self.insert(start, count);
        (start, count)
    }

    /// Takes chunks away, those of them that are there.
    pub fn cut(&mut self, start: u64, end: u64) {
        while let Some((&at, &length)) = self.by_start.range(..end).next_back()
            && at + length > start
        {
            self.remove(at, length);
            if at + length > end {
                self.insert(end, at + length - end);
            }
            // What is left before `start` ends there, so this comes to an end.
            if at < start {
                self.insert(at, start - at);
            }
        }
    }

    fn insert(&mut self, start: u64, length: u64) {
        self.by_start.insert(start, length);
        self.by_length.insert((length, start));
        self.chunks += length;
    }

    fn remove(&mut self, start: u64, length: u64) {
        self.by_start.remove(&start);
        self.by_length.remove(&(length, start));
        self.chunks -= length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_as_a_set_of_chunks() {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let (mut runs, mut set) = (Runs::default(), BTreeSet::new());
        for _ in 0..4000 {
            let start = random(100);
            let end = start + 1 + random(12);
            if random(2) == 0 && !(start..end).any(|chunk| set.contains(&chunk)) {
                let (first, count) = runs.add(start, end - start);
                assert!(first <= start && end <= first + count);
                set.extend(start..end);
            } else if random(2) == 0 {
                runs.cut(start, end);
                set.retain(|chunk| !(start..end).contains(chunk));
            }
            assert_eq!(runs.chunks(), set.len() as u64);
            let all: Vec<u64> =
                runs.iter().flat_map(|(start, length)| start..start + length).collect();
            assert!(all.iter().eq(set.iter()));
            let joined = runs.iter().zip(runs.iter().skip(1)).all(|((a, n), (b, _))| a + n < b);
            assert!(joined, "neighbours are one run");
            let lengths: Vec<u64> = runs.of_length(3).map(|(_, length)| length).collect();
            assert!(lengths.is_sorted() && lengths.iter().all(|length| *length >= 3));
            assert_eq!(lengths.len(), runs.iter().filter(|(_, length)| *length >= 3).count());
            assert_eq!(
                runs.longest().map(|(_, length)| length),
                runs.iter().map(|(_, length)| length).max()
            );
            assert_eq!(runs.at(start).is_some(), set.contains(&start));
            let within = runs.within(start, end).flat_map(|(at, length)| at..at + length);
            assert!(within.eq(set.range(start..end).copied()));
        }
    }
}
