//! What is read of a tree of byte strings: some of its pairs, or all of them in every way there is.

use std::ops::Bound;

use everleaf_index::{IndexError, Session};
use everleaf_machine::Simulated;

use super::words::LivingWords;
use super::{BytesProgram, Pairs, text};
use crate::tree::operation::{Range, asked, sorted};
use crate::tree::u64_program::{agree_with, turn_of};

impl BytesProgram {
    /// Up to `limit` pairs from key number `from` on, or downwards.
    pub(super) fn scan(
        &self,
        tree: &dyn LivingWords,
        session: &mut Session<Simulated>,
        from: u64,
        limit: usize,
        reverse: bool,
    ) -> Result<Pairs, IndexError> {
        let mut pairs = vec![];
        let bound = Bound::Included(self.key(from));
        let bounds = if reverse { (Bound::Unbounded, bound) } else { (bound, Bound::Unbounded) };
        tree.scan(session, bounds, reverse, &mut |key, value| {
            pairs.push((self.number(key), value));
            pairs.len() < limit
        })?;
        Ok(pairs)
    }

    /// All pairs between two keys.
    pub(super) fn range(
        &self,
        tree: &dyn LivingWords,
        session: &mut Session<Simulated>,
        range: Range,
    ) -> Result<Pairs, IndexError> {
        let end = |key, excludes| {
            let key = self.key(key);
            if excludes { Bound::Excluded(key) } else { Bound::Included(key) }
        };
        let mut pairs = vec![];
        let ends = (end(range.low, range.excludes.0), end(range.high, range.excludes.1));
        tree.scan(session, ends, range.reverse, &mut |key, value| {
            pairs.push((self.number(key), value));
            true
        })?;
        Ok(pairs)
    }

    /// What all keys are, asked for in the order of this turn.
    pub(super) fn get_many(
        &self,
        tree: &dyn LivingWords,
        session: &mut Session<Simulated>,
        turn: usize,
    ) -> Result<Vec<Option<u64>>, IndexError> {
        let order = asked(turn, self.universe.len());
        let keys: Vec<_> = order.iter().map(|place| self.universe[*place].as_slice()).collect();
        let mut found = vec![];
        tree.get_many(session, &keys, &mut |value| found.push(value))?;
        Ok(sorted(&order, &found))
    }

    /// All pairs, found in every way there is.
    pub(super) fn all(
        &self,
        tree: &dyn LivingWords,
        session: &mut Session<Simulated>,
    ) -> Result<Pairs, String> {
        let last = self.universe.len() as u64 - 1;
        let pairs = self.scan(tree, session, 0, usize::MAX, false).map_err(text)?;
        let mut back = self.scan(tree, session, last, usize::MAX, true).map_err(text)?;
        back.reverse();
        if back != pairs {
            return Err(format!("scanned {pairs:?} upwards and {back:?} downwards"));
        }
        for (number, key) in self.universe.iter().enumerate() {
            let value = tree.get(session, key).map_err(text)?;
            let scanned = pairs.binary_search_by_key(&(number as u64), |(key, _)| *key).ok();
            let scanned = scanned.map(|index| pairs[index]);
            if scanned.map(|(_, value)| value) != value {
                return Err(format!("key {number} is {value:?}, scanned {scanned:?}"));
            }
        }
        let together = self.get_many(tree, session, pairs.len()).map_err(text)?;
        agree_with(&pairs, (0..).zip(together))?;
        self.scan_parts(tree, session, &pairs)?;
        Ok(pairs)
    }

    /// Whether a scan between two keys, which may be left out, finds what was found of these.
    fn scan_parts(
        &self,
        tree: &dyn LivingWords,
        session: &mut Session<Simulated>,
        pairs: &[(u64, u64)],
    ) -> Result<(), String> {
        let (turn, count) = (turn_of(pairs), self.universe.len());
        let ends = [turn / 8 % count, turn / 64 % count].map(|number| number as u64);
        let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
        let (excludes, reverse) = ((turn & 1 == 1, turn & 2 == 2), turn & 4 == 4);
        let range = Range { low, high, excludes, reverse };
        let found = self.range(tree, session, range).map_err(text)?;
        let mut wanted: Pairs = pairs.iter().filter(|(key, _)| range.has(*key)).copied().collect();
        if reverse {
            wanted.reverse();
        }
        if found != wanted {
            return Err(format!("{range:?} has {found:?}, and not {wanted:?}"));
        }
        Ok(())
    }
}
