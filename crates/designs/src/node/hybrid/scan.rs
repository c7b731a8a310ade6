//! Range scans, leaf by leaf, both ways.
//!
//! Each leaf is read at one instant (its view is validated before its pairs count), so a scan is a
//! sequence of such instants, in the order of the keys: no key twice, none that was there all the
//! time is missed. It is not a snapshot of several leaves.

use everleaf_index::Geometry;
use everleaf_machine::Machine;

use super::Hybrid;
use super::leaf::{LeafDesign, Pairs};
use crate::node::version_lock::Retry;

impl<D: LeafDesign<M>, G: Geometry, M: Machine> Hybrid<D, G, M> {
    /// Appends up to `limit` pairs from `from` on.
    #[inline]
    pub fn scan_forward(&self, mut from: u64, limit: usize, pairs: &mut Pairs) {
        // A short scan allocates once; a long one grows as it goes.
        pairs.reserve(limit.min(256));
        let end = pairs.len().saturating_add(limit);
        // The leaf that the last one names as its neighbour, if there was one.
        let mut next = None;
        let mut attempt = 0;
        while pairs.len() < end {
            let before = pairs.len();
            match self.visit_leaf(next, from, end - before, pairs) {
                Ok(None) => return,
                Ok(Some((neighbour, low))) => (next, from, attempt) = (Some(neighbour), low, 0),
                Err(retry) => {
                    M::mark("hybrid.scan_again");
                    pairs.truncate(before);
                    // A neighbour may be dead: the inner tree knows better.
                    if next.take().is_none() {
                        retry.pause::<M>(&mut attempt);
                    }
                }
            }
        }
    }

    /// Counts the keys, as a scan of all of them finds them.
    pub fn count_keys(&self) -> u64 {
        const PART: usize = 4096;
        let (mut pairs, mut from, mut count) = (vec![], 0, 0);
        loop {
            pairs.clear();
            self.scan_forward(from, PART, &mut pairs);
            count += pairs.len() as u64;
            match pairs.last() {
                Some((last, _)) if pairs.len() == PART && *last < u64::MAX => from = last + 1,
                _ => return count,
            }
        }
    }

    /// Appends the pairs from `from` on of one leaf: the one given, which was the right one when its
    /// left neighbour was read, or the one that a descent finds. Gives the neighbour and its fence.
    #[inline(always)]
    fn visit_leaf(
        &self,
        next: Option<u64>,
        from: u64,
        limit: usize,
        pairs: &mut Pairs,
    ) -> Result<Option<(u64, u64)>, Retry> {
        let found = if next.is_none() { Some(self.inner.find_le(from)) } else { None };
        let leaf = self.leaf(next.or(found.as_ref().map(|found| found.leaf)).unwrap_or(0));
        if next.is_none() {
            D::prefetch_all(leaf);
        }
        let view = D::view(self.context, leaf)?;
        // A neighbour needs no token: what has left it since is further to the right.
        if found.is_some_and(|found| !self.inner.revalidate(found.token)) {
            return Err(Retry::Now);
        }
        let neighbour = match D::header(leaf).next() {
            0 => None,
            offset => {
                let neighbour = self.leaf(offset);
                D::prefetch_all(neighbour);
                // A neighbour that has left the list meanwhile is read, but not used.
                Some((offset, D::header(neighbour).low()))
            }
        };
        D::collect(self.context, leaf, view, from, limit, pairs)?;
        if D::is_current(self.context, leaf, view) { Ok(neighbour) } else { Err(Retry::Now) }
    }

    /// Appends up to `limit` pairs from `from` on, descending.
    pub fn scan_backward(&self, mut from: u64, limit: usize, pairs: &mut Pairs) {
        let end = pairs.len().saturating_add(limit);
        let mut attempt = 0;
        let mut part = vec![];
        while pairs.len() < end {
            part.clear();
            let low = match self.read_leaf(from, &mut part) {
                Ok(low) => low,
                Err(retry) => {
                    retry.pause::<M>(&mut attempt);
                    continue;
                }
            };
            let fits = part.iter().rev().skip_while(|(key, _)| *key > from);
            pairs.extend(fits.take(end - pairs.len()));
            let Some(below) = low.checked_sub(1) else { return };
            (from, attempt) = (below, 0);
        }
    }

    /// All pairs of the leaf for a key, and its low fence.
    fn read_leaf(&self, key: u64, pairs: &mut Pairs) -> Result<u64, Retry> {
        let found = self.inner.find_le(key);
        let leaf = self.leaf(found.leaf);
        D::prefetch_all(leaf);
        let view = D::view(self.context, leaf)?;
        if !self.inner.revalidate(found.token) {
            return Err(Retry::Now);
        }
        D::collect(self.context, leaf, view, 0, usize::MAX, pairs)?;
        let low = D::header(leaf).low();
        if !D::is_current(self.context, leaf, view) {
            return Err(Retry::Now);
        }
        assert!(low <= key, "the inner nodes lead from key {key} to the leaf from {low} on");
        Ok(low)
    }
}
