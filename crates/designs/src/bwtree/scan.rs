//! Scans: a consolidated copy of one page after another.

use everleaf_alloc::Session;
use everleaf_machine::Machine;

use super::BwTree;

impl<const PAIRS: usize, const CHAIN: u64, M: Machine> BwTree<PAIRS, CHAIN, M> {
    /// Appends up to `limit` pairs from `from` on, ascending. The caller is pinned.
    pub(super) fn scan_up(
        &self,
        session: &mut Session<M>,
        from: u64,
        limit: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) {
        let end = pairs.len().saturating_add(limit);
        if pairs.len() == end {
            return;
        }
        let (_, mut top) = self.find(session, from, 0);
        loop {
            let of_page = self.pairs(top);
            let first = of_page.partition_point(|(key, _)| *key < from);
            pairs.extend(of_page[first..].iter().take(end - pairs.len()));
            match top.end() {
                Some((_, right)) if pairs.len() < end => top = self.top(right),
                _ => return,
            }
        }
    }

    /// The same descending.
    pub(super) fn scan_down(
        &self,
        session: &mut Session<M>,
        mut from: u64,
        limit: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) {
        let end = pairs.len().saturating_add(limit);
        while pairs.len() < end {
            let (_, top) = self.find(session, from, 0);
            let of_page = self.pairs(top);
            let count = of_page.partition_point(|(key, _)| *key <= from);
            pairs.extend(of_page[..count].iter().rev().take(end - pairs.len()));
            let Some(before) = self.base(top).key().checked_sub(1) else { return };
            from = before;
        }
    }
}
