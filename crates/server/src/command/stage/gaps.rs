//! Where a stage has nothing: parts of the order of keys, or of members, that a walk would go through for nothing.
//!
//! What a transaction removes stays in the store until it is done, so a walk meets it: a transaction that takes a
//! million members from a set one by one would go through those before it each time. So a walk that has met many
//! removed ones in a row notes from where to where there is nothing, and the next one goes on behind that.
//!
//! Invariants: gaps do not touch each other but at their ends; inside of a gap, from its start up to and without its
//! end, a walk over the stage would show nothing. So whatever may come to be there opens the gap that it is in.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use crate::command::source::Visit;
use crate::command::staged_value::{Change, ShowChange, merge};
use crate::command::walk::Bounds;

/// So many in a row that are removed are worth a note.
const LENGTH_MIN: usize = 32;
/// Bytes that a gap takes besides its start and end.
const OVERHEAD: usize = 100;

/// Parts in which nothing is.
#[derive(Default)]
pub struct Gaps {
    /// The end of each gap by its start.
    gaps: BTreeMap<Vec<u8>, Vec<u8>>,
    size: usize,
}

impl Gaps {
    /// The gap in which a key would be.
    fn around(&self, key: &[u8]) -> Option<(&[u8], &[u8])> {
        let before = (Bound::Unbounded, Bound::Included(key));
        let (start, end) = self.gaps.range::<[u8], _>(before).next_back()?;
        (key < &end[..]).then_some((start, end))
    }

    /// The gap that ends behind a key, or with it.
    fn up_to(&self, key: &[u8]) -> Option<(&[u8], &[u8])> {
        let before = (Bound::Unbounded, Bound::Excluded(key));
        let (start, end) = self.gaps.range::<[u8], _>(before).next_back()?;
        (key <= &end[..]).then_some((start, end))
    }

    fn insert(&mut self, start: Vec<u8>, end: Vec<u8>) {
        if start < end {
            self.size += start.len() + end.len() + OVERHEAD;
            self.gaps.insert(start, end);
        }
    }

    fn take(&mut self, start: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        let (start, end) = self.gaps.remove_entry(start)?;
        self.size -= start.len() + end.len() + OVERHEAD;
        Some((start, end))
    }

    /// Says that a key may be there.
    #[inline]
    pub fn open(&mut self, key: &[u8]) {
        if !self.gaps.is_empty() {
            self.divide(key);
        }
    }

    #[cold]
    #[inline(never)]
    fn divide(&mut self, key: &[u8]) {
        let Some(start) = self.around(key).map(|(start, _)| start.to_vec()) else { return };
        let Some((start, end)) = self.take(&start) else { return };
        self.insert(start, key.to_vec());
        self.insert(behind(key), end);
    }

    /// Notes that nothing is in a part, of which the gaps that it touches become a part.
    fn close(&mut self, mut start: Vec<u8>, mut end: Vec<u8>) {
        if let Some((before, _)) = self.up_to(&start) {
            start = before.to_vec();
        }
        loop {
            let touched = (Bound::Included(&start[..]), Bound::Included(&end[..]));
            let next = self.gaps.range::<[u8], _>(touched).next();
            let Some(next) = next.map(|(next, _)| next.clone()) else { break };
            if let Some((_, other)) = self.take(&next) {
                end = end.max(other);
            }
        }
        self.insert(start, end);
    }

    /// Bytes that they take.
    pub fn size(&self) -> usize {
        self.size
    }
}

/// The first key behind another.
fn behind(key: &[u8]) -> Vec<u8> {
    [key, &b"\0"[..]].concat()
}

/// What a walk has met since the last one that is there.
#[derive(Default)]
struct Run {
    /// From where to where nothing is, if anything was met: the end is behind the last one.
    part: Option<(Vec<u8>, Vec<u8>)>,
    /// Those that were met one by one.
    length: usize,
    gap_count: usize,
}

impl Run {
    /// Notes a part that is beside those before it.
    fn add(&mut self, start: &[u8], end: &[u8], reverse: bool) {
        match &mut self.part {
            None => self.part = Some((start.to_vec(), end.to_vec())),
            Some((from, _)) if reverse => {
                from.clear();
                from.extend_from_slice(start);
            }
            Some((_, to)) => {
                to.clear();
                to.extend_from_slice(end);
            }
        }
    }

    /// Notes one that is removed.
    fn add_removed(&mut self, key: &[u8], reverse: bool) {
        self.length += 1;
        match &mut self.part {
            None => self.part = Some((key.to_vec(), behind(key))),
            Some((from, _)) if reverse => {
                from.clear();
                from.extend_from_slice(key);
            }
            Some((_, to)) => {
                to.clear();
                to.extend_from_slice(key);
                to.push(0);
            }
        }
    }

    /// Ends it, and keeps what is worth it.
    fn end(&mut self, gaps: &mut Gaps) {
        let run = std::mem::take(self);
        let is_new = match run.gap_count {
            0 => run.length >= LENGTH_MIN,
            1 => run.length > 0,
            _ => true,
        };
        if let Some((start, end)) = run.part.filter(|_| is_new) {
            gaps.close(start, end);
        }
    }
}

/// Where a gap lies, in which a walk is that starts at bounds.
fn gap_at<'g>(gaps: &'g Gaps, bounds: &Bounds, reverse: bool) -> Option<(&'g [u8], &'g [u8])> {
    match (reverse, &bounds.start, &bounds.end) {
        (false, Bound::Included(key) | Bound::Excluded(key), _) => gaps.around(key),
        (true, _, Bound::Included(key)) => gaps.around(key),
        (true, _, Bound::Excluded(key)) => gaps.up_to(key),
        _ => None,
    }
}

/// Visits what `scan` visits inside bounds, with what `written` has there instead, as [`merge`] does; but it leaves out
/// the gaps, and those that are removed become one.
pub fn walk_between<'w, W: DoubleEndedIterator<Item = Change<'w>>>(
    gaps: &mut Gaps,
    bounds: &Bounds,
    reverse: bool,
    visit: &mut Visit<'_>,
    written: impl Fn(&Bounds) -> W,
    mut scan: impl FnMut(&Bounds, &mut ShowChange<'_>) -> everleaf::Result<Option<Vec<u8>>>,
) -> everleaf::Result<()> {
    let (mut rest, mut run) = (Cow::Borrowed(bounds), Run::default());
    loop {
        while let Some((start, end)) = gap_at(gaps, &rest, reverse) {
            run.add(start, end, reverse);
            run.gap_count += 1;
            match reverse {
                false => rest.to_mut().start = Bound::Included(end.to_vec()),
                true => rest.to_mut().end = Bound::Excluded(start.to_vec()),
            }
        }
        if rest.is_empty() {
            break;
        }
        let mut next = None;
        let show = &mut |(key, value): Change<'_>| match value {
            Some(value) => {
                run.end(gaps);
                visit(key, value)
            }
            None if gaps.around(key).is_some() => {
                next = Some(Bound::Included(key.to_vec()));
                ControlFlow::Break(())
            }
            None => {
                run.add_removed(key, reverse);
                ControlFlow::Continue(())
            }
        };
        let is_over = merge(written(&rest), reverse, show, |show| scan(&rest, show))?;
        match next {
            // What is behind a gap is not visited either, once the scan was over.
            _ if is_over => break,
            None => break,
            Some(next) if reverse => rest.to_mut().end = next,
            Some(next) => rest.to_mut().start = next,
        }
    }
    run.end(gaps);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use everleaf::{Options, Store};

    use super::*;
    use crate::command::source::counting::Counting;
    use crate::command::stage::{Stage, Staged};
    use crate::databases::{Databases, MapNumber};
    use crate::types::Types;

    /// Does something on a stage over a store with so many members, of which it has the keys. Returns what was visited.
    fn on_stage(
        count: u64,
        mut act: impl FnMut(&mut Staged<'_>, &mut BTreeMap<Vec<u8>, Vec<u8>>) -> bool,
    ) -> usize {
        let folder = tempfile::tempdir().unwrap();
        let store: Store = Options::new().create(true).open(folder.path().join("p")).unwrap();
        let (types, databases) = (Types::default(), Databases::new(&store, 1));
        types.begin(&store).unwrap();
        let mut there = BTreeMap::new();
        for number in 0..count {
            types.ready().unwrap().members.put(key(number), "v").unwrap();
            there.insert(key(number), b"v".to_vec());
        }
        let (mut stage, mut alone) = (Stage::new(1 << 30), &store);
        let mut source = Counting::of(&mut alone);
        loop {
            let mut staged = Staged {
                stage: &mut stage,
                source: &mut source,
                types: &types,
                databases: &databases,
                place: MapNumber::default(),
            };
            if !act(&mut staged, &mut there) {
                return source.visits;
            }
        }
    }

    fn key(number: u64) -> Vec<u8> {
        [7, number].map(u64::to_be_bytes).concat()
    }

    /// What a walk over bounds shows, so many at most.
    fn shown(
        staged: &mut Staged<'_>,
        bounds: &Bounds,
        reverse: bool,
        count: usize,
    ) -> Vec<Vec<u8>> {
        let mut shown = Vec::new();
        let ready = staged.types.ready().unwrap();
        let walked = staged.walk_members(ready, bounds, reverse, &mut |key, value| {
            shown.push([key, value].concat());
            if shown.len() == count { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        walked.unwrap();
        shown
    }

    /// What was quadratic: each command of a transaction that takes the first, last or any member of a collection went
    /// through those that were taken before it.
    #[test]
    fn what_was_removed_is_not_walked_over_again_and_again() {
        const COUNT: u64 = 3000;
        for way in 0..4_u64 {
            let mut left = COUNT;
            let visits = on_stage(COUNT, |staged, _| {
                let all = Bounds::of_prefix(&7_u64.to_be_bytes());
                let found = match way {
                    0 | 1 => shown(staged, &all, way == 1, 1),
                    _ => {
                        // What comes meanwhile lies in between, and goes.
                        let new = key(left * 7919 % COUNT);
                        staged.stage.write_member(&new, Some(b"n")).unwrap();
                        let start = Bound::Included(key(left * 104_729 % COUNT));
                        let behind = Bounds { start, end: all.end.clone() };
                        let found = shown(staged, &behind, way == 3, 1);
                        if found.is_empty() { shown(staged, &all, way == 3, 1) } else { found }
                    }
                };
                let found = found.first().expect("one is left");
                staged.stage.write_member(&found[..16], None).unwrap();
                left -= 1;
                left > 0
            });
            assert!(visits < 60 * COUNT as usize, "{visits} were visited, way {way}");
        }
    }

    /// Whatever comes and goes, and is rolled back, a walk from anywhere in either direction shows what is there.
    #[test]
    fn a_walk_shows_what_is_there() {
        for seed in 0..20 {
            let (mut state, mut steps) = (seed, 0);
            let mut random = move |below: u64| everleaf::random::next(&mut state) % below;
            on_stage(200, |staged, there| {
                let (mark, before) = (staged.stage.mark(), there.clone());
                for _ in 0..random(30) {
                    let key = key(random(300));
                    match random(8) {
                        0 => {
                            staged.stage.write_member(&key, Some(b"w")).unwrap();
                            there.insert(key, b"w".to_vec());
                        }
                        _ => {
                            staged.stage.write_member(&key, None).unwrap();
                            there.remove(&key);
                        }
                    }
                    if random(6) == 0 {
                        check(staged, there, &mut random);
                    }
                }
                if random(3) == 0 {
                    staged.stage.roll_back(&mark);
                    *there = before;
                }
                check(staged, there, &mut random);
                steps += 1;
                steps < 60
            });
        }
    }

    fn check(
        staged: &mut Staged<'_>,
        there: &BTreeMap<Vec<u8>, Vec<u8>>,
        random: &mut impl FnMut(u64) -> u64,
    ) {
        let all = Bounds::of_prefix(&7_u64.to_be_bytes());
        let (first, last) = (random(300), random(300));
        let start = match random(3) {
            0 => all.start,
            1 => Bound::Included(key(first.min(last))),
            _ => Bound::Excluded(key(first.min(last))),
        };
        let end = match random(3) {
            0 => all.end,
            1 => Bound::Included(key(first.max(last))),
            _ => Bound::Excluded(key(first.max(last))),
        };
        let (bounds, reverse) = (Bounds { start, end }, random(2) == 0);
        let count = 1 + random(20) as usize;
        let wanted: Vec<Vec<u8>> = match bounds.is_empty() {
            true => Vec::new(),
            false => {
                let inside = there.range::<[u8], _>(bounds.as_slices());
                let inside = inside.map(|(key, value)| [&key[..], value].concat());
                let all: Vec<_> = if reverse { inside.rev().collect() } else { inside.collect() };
                all.into_iter().take(count).collect()
            }
        };
        assert_eq!(shown(staged, &bounds, reverse, count), wanted);
        let gaps = &staged.stage.member_gaps;
        let size = |(start, end): (&Vec<u8>, &Vec<u8>)| start.len() + end.len() + OVERHEAD;
        assert_eq!(gaps.size(), gaps.gaps.iter().map(size).sum::<usize>());
        for (start, end) in &gaps.gaps {
            let inside = (Bound::Included(&start[..]), Bound::Excluded(&end[..]));
            assert_eq!(there.range::<[u8], _>(inside).count(), 0, "in a gap");
        }
    }
}
