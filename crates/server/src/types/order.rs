//! The order of a sorted set: its members by score, and counts of them that make ranks cheap.
//!
//! Each member lies twice in the map of the members: by itself, with its score, as the fields of a hash
//! do; and by its *position*, which is its score as eight bytes, and the member. The entries of positions
//! begin with the number of the set and a byte from 0x80 on, which no place of a member begins with; the
//! rest of that byte is the level.
//!
//! ```text
//!   level 2   start:133 .............................. m:71 ........
//!   level 1   start:60 ........... d:73 .............. m:40 . p:31 .
//!   level 0   a b c .............. d e f ............. m n .. p q ..
//! ```
//!
//! Level 0 has all positions. One of 64 members, chosen by its hash, is a *separator* on level 1, one of
//! 64 of these on level 2, and so on: a skip list whose heights are those of the members, so that nothing
//! must be kept in balance. A separator has the number of members from it to the next one of its level; a
//! level begins with a start, which is before all members. So a rank is the sum of about 64 entries per
//! level, and a member that comes or goes changes one entry per level. Only a client that knows the mark of the pool
//! can choose members that are separators.
//!
//! The number of levels is in the header. All of it is written in the batch of the command; what a step has of it in
//! memory until then is in `separators.rs`.

use std::ops::{Bound, ControlFlow};

use super::collection::{Collection, MemberPlace};
use super::header::Kind;
use super::places::{LEVEL_MAX, order_key};
use super::separators::{AHEAD_MAX, OVERHEAD, SIZE_MAX, Separators};
use crate::command::copy_budget::CopyBudget;
use crate::command::walk::Bounds;
use crate::failure::Result;
use crate::score;
use crate::short_bytes::ShortBytes;

/// Bytes of the score at the beginning of a position, and of the shortest one in a reply.
const SCORE_SIZE: usize = 8;
pub const SCORE_SIZE_MIN: usize = 4;

/// One of so many of a level is on the next, as a power of two.
const FAN_OUT_BITS: u32 = 6;

/// A part of the order: from position to position.
pub type Part = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The position of a member.
pub fn position(member: &[u8], score: f64) -> ShortBytes {
    ShortBytes::of_parts([&score::code(score).to_be_bytes(), member])
}

/// The member at a position, and its score.
pub fn at_position(position: &[u8]) -> (&[u8], f64) {
    let code = position.get(..8).and_then(|code| code.try_into().ok());
    let score = score::of_code(code.map_or(0, u64::from_be_bytes));
    (position.get(8..).unwrap_or(b""), score)
}

/// The level up to which a member of this hash is a separator.
pub fn height_of(hash: u64) -> u8 {
    (hash.trailing_zeros() / FAN_OUT_BITS).min(u32::from(LEVEL_MAX)) as u8
}

/// The score in what a member has.
pub fn score_of(value: &[u8]) -> f64 {
    f64::from_bits(number(value))
}

/// The number in an entry.
fn number(value: &[u8]) -> u64 {
    value.try_into().map_or(0, u64::from_le_bytes)
}

impl Collection<'_, '_> {
    /// The levels in use above that of the members.
    fn levels(&self) -> u8 {
        self.header.extra.min(u64::from(LEVEL_MAX)) as u8
    }

    fn order_key(&self, level: u8, position: &[u8]) -> ShortBytes {
        order_key(self.header.id, level, position)
    }

    /// What the step knows of the order.
    fn known(&mut self) -> &mut Separators {
        let (id, changes) = (self.header.id, self.header.changes);
        self.staged.stage.separators_mut(self.ready, id, changes)
    }

    /// Whether a level is in memory.
    fn has_level(&self, level: u8) -> bool {
        let known = self.staged.stage.separators(self.header.id);
        level > 0 && known.is_some_and(|known| known.has(level))
    }

    /// Whether a level is in memory; brings it there if that is no more work than what was asked for of it.
    fn ask_level(&mut self, level: u8) -> Result<bool> {
        let expected = self.header.count >> (u32::from(level) * FAN_OUT_BITS).min(63);
        if self.known().wants(level, expected) {
            let (mut counts, mut size) = (Vec::new(), self.staged.stage.separators_size());
            let all = (Bound::Unbounded, Bound::Unbounded);
            self.walk_level(level, &all, false, |position, value| {
                counts.push((position.to_vec(), number(value)));
                size += position.len() + OVERHEAD;
                if size > SIZE_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            match size > SIZE_MAX {
                true => self.known().give_up(level),
                false => self.known().load(level, counts),
            }
        }
        Ok(self.has_level(level))
    }

    /// The score of a member, if it is there.
    pub fn score(&mut self, member: &[u8]) -> Result<Option<f64>> {
        self.see(member, score_of)
    }

    /// The same of a member whose place is known.
    pub fn score_at(&mut self, place: &MemberPlace) -> Result<Option<f64>> {
        self.staged.see_member(self.ready, &place.key, score_of)
    }

    /// Sets the score of a member, of which the score so far is known. A negative zero is zero.
    pub fn set_score(&mut self, member: &[u8], score: f64, old: Option<f64>) -> Result<()> {
        let place = self.place_of(member);
        self.set_score_at(&place, member, score, old)
    }

    /// The same of a member whose place is known.
    pub fn set_score_at(
        &mut self,
        place: &MemberPlace,
        member: &[u8],
        score: f64,
        old: Option<f64>,
    ) -> Result<()> {
        let score = if score == 0.0 { 0.0 } else { score };
        // First, because it checks the size.
        let (count, height) = (self.header.count, height_of(place.hash));
        self.set_at(place, &score.to_bits().to_le_bytes(), old.is_some())?;
        if let Some(old) = old {
            self.leave(&position(member, old), height)?;
        }
        let rest = count - u64::from(old.is_some()).min(count);
        self.enter(&position(member, score), height, rest)
    }

    /// Removes a member, which is there, with its score.
    pub fn remove_scored(&mut self, member: &[u8], score: f64) -> Result<()> {
        self.remove_position(&position(member, score))
    }

    /// Removes the member at a position, which is there.
    pub fn remove_position(&mut self, position: &[u8]) -> Result<()> {
        let place = self.place_of(at_position(position).0);
        self.remove_at(&place)?;
        self.leave(position, height_of(place.hash))
    }

    /// Adds a position, of a member that is a separator up to `height`, to an order of so many.
    fn enter(&mut self, position: &[u8], height: u8, count: u64) -> Result<()> {
        let key = self.order_key(0, position);
        self.staged.stage.write_member(&key, Some(b""))?;
        self.known().enter(position);
        let levels = self.levels();
        for level in 1..=height.max(levels) {
            if level > height && self.ask_level(level)? {
                self.known().change_before(level, position, |count| count.saturating_add(1));
                continue;
            }
            let (before, total) = if level > levels {
                (Vec::new(), count)
            } else {
                match self.separator_before(level, position)? {
                    Some(found) => found,
                    None => continue,
                }
            };
            let mut rest = total + 1;
            if level <= height {
                let first = self.sum_between(level - 1, &before, position)?;
                self.write_count(level, &before, first)?;
                rest = rest.saturating_sub(first);
                self.write_count(level, position, rest)?;
            } else {
                self.write_count(level, &before, rest)?;
            }
        }
        self.header.extra = u64::from(height.max(levels));
        Ok(())
    }

    /// Removes a position, of a member that is a separator up to `height`.
    fn leave(&mut self, position: &[u8], height: u8) -> Result<()> {
        let key = self.order_key(0, position);
        self.staged.stage.write_member(&key, None)?;
        self.known().leave(position);
        for level in 1..=self.levels() {
            let is_loaded = self.ask_level(level)?;
            let mut count = 0;
            if level <= height {
                let key = self.order_key(level, position);
                count = match is_loaded {
                    true => self.known().remove(level, position),
                    false => self.staged.see_member(self.ready, &key, number)?,
                }
                .unwrap_or(0);
                self.staged.stage.write_member(&key, None)?;
            }
            if is_loaded {
                let change = |total: u64| (total + count).saturating_sub(1);
                self.known().change_before(level, position, change);
            } else if let Some((before, total)) = self.separator_before(level, position)? {
                self.write_count(level, &before, (total + count).saturating_sub(1))?;
            }
        }
        Ok(())
    }

    /// Removes the starts of all levels, which are what an order without members still has.
    pub(super) fn remove_starts(&mut self) -> Result<()> {
        if self.header.kind != Kind::SortedSet {
            return Ok(());
        }
        for level in 1..=self.levels() {
            let key = self.order_key(level, b"");
            self.staged.stage.write_member(&key, None)?;
        }
        Ok(())
    }

    fn write_count(&mut self, level: u8, position: &[u8], count: u64) -> Result<()> {
        if self.has_level(level) {
            self.known().set(level, position, count);
            return Ok(());
        }
        let key = self.order_key(level, position);
        self.staged.stage.write_member(&key, Some(&count.to_le_bytes()))
    }

    /// The last separator before a position, and its count. None is missing but while others write.
    fn separator_before(&mut self, level: u8, position: &[u8]) -> Result<Option<(Vec<u8>, u64)>> {
        if self.ask_level(level)? {
            let found = self.known().before(level, position);
            return Ok(found.map(|(position, count)| (position.to_vec(), count)));
        }
        let part = (Bound::Unbounded, Bound::Excluded(position.to_vec()));
        let mut found = None;
        self.walk_level(level, &part, true, |position, value| {
            found = Some((position.to_vec(), number(value)));
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// The number of members from one separator up to, and without, a position: what the level has.
    fn sum_between(&mut self, level: u8, from: &[u8], to: &[u8]) -> Result<u64> {
        let part = (Bound::Included(from.to_vec()), Bound::Excluded(to.to_vec()));
        let mut sum = 0;
        self.walk_level(level, &part, false, |_, value| {
            sum += if level == 0 { 1 } else { number(value) };
            ControlFlow::Continue(())
        })?;
        Ok(sum)
    }

    /// Visits the entries of a level: in memory if it is there (S1).
    fn walk_level(
        &mut self,
        level: u8,
        part: &Part,
        reverse: bool,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        if self.has_level(level) {
            let bounds = (part.0.as_ref().map(Vec::as_slice), part.1.as_ref().map(Vec::as_slice));
            self.known().visit(level, bounds, reverse, |position, count| {
                visit(position, &count.to_le_bytes())
            });
            return Ok(());
        }
        let (bounds, prefix_len) = self.bounds_of(level, part);
        let mut visit =
            |key: &[u8], value: &[u8]| visit(key.get(prefix_len..).unwrap_or(b""), value);
        // Positions have nothing to be read.
        match level == 0 && !reverse {
            true => self.staged.pass_members(self.ready, &bounds, &mut visit),
            false => self.staged.walk_written(self.ready, &bounds, reverse, &mut visit),
        }
    }

    /// A part of a level among the members, and how many bytes come before the positions.
    fn bounds_of(&self, level: u8, part: &Part) -> (Bounds, usize) {
        let prefix = self.order_key(level, b"");
        let all = Bounds::of_prefix(&prefix);
        let placed = |position: &Vec<u8>| [&prefix[..], position].concat();
        let inside = |bound: &Bound<Vec<u8>>, outside| match bound {
            Bound::Unbounded => outside,
            bound => bound.as_ref().map(placed),
        };
        let bounds = Bounds { start: inside(&part.0, all.start), end: inside(&part.1, all.end) };
        (bounds, prefix.len())
    }

    /// The positions of the first or last members.
    pub fn ends(
        &mut self,
        count: u64,
        is_last: bool,
        budget: &mut CopyBudget,
    ) -> Result<Vec<Vec<u8>>> {
        self.read_ends(count, is_last, budget)?;
        Ok(self.known().end(is_last).next(count).map(<[u8]>::to_vec).collect())
    }

    /// The position of the first or last member. None is missing but while others write.
    pub fn end(&mut self, is_last: bool, budget: &mut CopyBudget) -> Result<Option<ShortBytes>> {
        self.read_ends(1, is_last, budget)?;
        Ok(self.known().end(is_last).next(1).next().map(ShortBytes::from))
    }

    /// Reads the positions of the first or last members, unless they are known.
    fn read_ends(&mut self, count: u64, is_last: bool, budget: &mut CopyBudget) -> Result<()> {
        if let Some((after, wanted)) = self.known().end(is_last).missing(count) {
            let after = after.map_or(Bound::Unbounded, Bound::Excluded);
            let part = if is_last { (Bound::Unbounded, after) } else { (after, Bound::Unbounded) };
            let mut next = Vec::with_capacity(wanted.min(AHEAD_MAX) as usize);
            self.walk_level(0, &part, is_last, |position, _| {
                // A few that are read ahead cost what one read costs.
                if (next.len() as u64) < count {
                    // What a reply takes for the member and its score at least; more of them than a step can remove are
                    // asked for by nobody.
                    budget.take_packed(
                        position.len() - position.len().min(SCORE_SIZE) + SCORE_SIZE_MIN,
                    )?;
                }
                next.push(ShortBytes::from(position));
                let is_done = next.len() as u64 == wanted;
                if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            budget.check()?;
            self.known().end(is_last).load(next);
        }
        Ok(())
    }

    /// Visits members in order, or against it, with their scores.
    pub fn walk_order(
        &mut self,
        part: &Part,
        reverse: bool,
        mut visit: impl FnMut(&[u8], f64) -> ControlFlow<()>,
    ) -> Result<()> {
        self.walk_level(0, part, reverse, |position, _| {
            let (member, score) = at_position(position);
            visit(member, score)
        })
    }

    /// The number of members before a member.
    pub fn rank_of(&mut self, member: &[u8], score: f64) -> Result<u64> {
        self.rank(&position(member, score))
    }

    /// The number of members before a position.
    fn rank(&mut self, position: &[u8]) -> Result<u64> {
        let (mut rank, mut from) = (0, Vec::new());
        for level in (1..=self.levels()).rev() {
            self.ask_level(level)?;
            let part = (Bound::Included(from.clone()), Bound::Included(position.to_vec()));
            let mut last = 0;
            self.walk_level(level, &part, false, |separator, value| {
                rank += last;
                last = number(value);
                from.clear();
                from.extend_from_slice(separator);
                ControlFlow::Continue(())
            })?;
        }
        Ok(rank + self.sum_between(0, &from, position)?)
    }

    /// The number of members in a part.
    pub fn count_between(&mut self, part: &Part) -> Result<u64> {
        let mut rank_at = |bound: &Bound<Vec<u8>>, after: bool| match bound {
            Bound::Unbounded if after => Ok(self.header.count),
            Bound::Unbounded => Ok(0),
            // The least position behind.
            Bound::Included(position) if after => self.rank(&[position, &b"\0"[..]].concat()),
            Bound::Excluded(position) if !after => self.rank(&[position, &b"\0"[..]].concat()),
            Bound::Included(position) | Bound::Excluded(position) => self.rank(position),
        };
        let start = rank_at(&part.0, false)?;
        Ok(rank_at(&part.1, true)?.saturating_sub(start))
    }

    /// The position of the member of a rank. None is missing but while others write.
    pub fn position_at(&mut self, rank: u64) -> Result<Option<Vec<u8>>> {
        let (mut left, mut from) = (rank, Vec::new());
        for level in (0..=self.levels()).rev() {
            if level > 0 {
                self.ask_level(level)?;
            }
            let part = (Bound::Included(from.clone()), Bound::Unbounded);
            let mut found = None;
            self.walk_level(level, &part, false, |position, value| {
                let count = if level == 0 { 1 } else { number(value) };
                if left < count {
                    found = Some(position.to_vec());
                    return ControlFlow::Break(());
                }
                left -= count;
                ControlFlow::Continue(())
            })?;
            match found {
                Some(found) => from = found,
                None => return Ok(None),
            }
        }
        Ok(Some(from))
    }
}

#[cfg(test)]
mod tests {
    use everleaf::Options;

    use super::*;
    use crate::command::source::counting::Counting;
    use crate::command::stage::{Stage, Staged};
    use crate::databases::{Databases, MapNumber};
    use crate::types::Types;

    const MEMBERS: u64 = 20_000;
    const ASKED: u64 = 2_000;

    /// What was slow: each rank read some hundred entries of the levels above the members, and another hundred of
    /// these.
    #[test]
    fn ranks_read_the_levels_above_the_members_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = Options::new().create(true).open(folder.path().join("p")).unwrap();
        let (types, databases) = (Types::default(), Databases::new(&store, 1));
        types.begin(&store).unwrap();
        let member = |number: u64| (number * 7919 % MEMBERS).to_be_bytes();
        let step = |count: u64, what: fn(&mut Collection<'_, '_>, &[u8], u64)| {
            let (mut source, mut stage) = (&store, Stage::new(1 << 30));
            let mut source = Counting::of(&mut source);
            let mut staged = Staged {
                stage: &mut stage,
                source: &mut source,
                types: &types,
                databases: &databases,
                place: MapNumber::default(),
            };
            let mut set = Collection::open(&mut staged, b"set", Kind::SortedSet).unwrap();
            (0..count).for_each(|number| what(&mut set, &member(number), number));
            set.finish().unwrap();
            let mut batch = everleaf::WriteBatch::new();
            stage.fill(&mut batch, &databases, &types);
            assert!(store.write(&batch).unwrap().is_done());
            source.visits as u64
        };
        step(MEMBERS, |set, member, number| set.set_score(member, number as f64, None).unwrap());
        let ranks = step(ASKED, |set, member, number| {
            assert_eq!(set.rank_of(member, number as f64).unwrap(), number);
        });
        let places = step(ASKED, |set, member, number| {
            let found = set.position_at(number).unwrap();
            assert_eq!(found.as_deref(), Some(&*position(member, number as f64)));
        });
        // Some 64 members before the one that is asked for; the level above has 312, which are read once.
        for visits in [ranks, places] {
            assert!(visits < ASKED * 80, "{visits} entries were read");
        }
    }
}
