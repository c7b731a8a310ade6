//! The tree's own check, and the end of all pages. Nobody else is active.

use everleaf_alloc::Session;
use everleaf_index::CheckReport;
use everleaf_machine::Machine;

use super::layout::{Kind, Record, RecordRef};
use super::{BwTree, ROOT};

impl<const PAIRS: usize, const CHAIN: u64, M: Machine> BwTree<PAIRS, CHAIN, M> {
    /// Notes what contradicts the invariants.
    pub(super) fn check_all(&self, report: &mut CheckReport) {
        let problems = &mut report.problems;
        let mut first = ROOT;
        let root = self.top(ROOT);
        if root.end().is_some() {
            problems.push("the root has a neighbour (B4)".into());
        }
        let mut reached = 1;
        for level in (0..=root.level()).rev() {
            let (pages, keys) = self.check_level(first, level, problems);
            if level > 0 {
                first = self.child(self.top(first), 0).1;
                reached += self.check_children(&pages, first, problems);
            } else {
                report.keys += keys;
                report.leaves += pages.len() as u64;
                if keys != self.keys.sum() {
                    let counted = self.keys.sum();
                    problems.push(format!("{keys} keys are there, {counted} are counted"));
                }
            }
        }
        let there = (0..self.table.used()).filter(|page| self.table.find(*page).is_some()).count();
        if there != reached {
            problems.push(format!("{there} pages are there, {reached} can be reached"));
        }
    }

    /// The records on a page's base whose number is bounded: all but those of splits.
    fn bounded(&self, top: RecordRef<'_, M>) -> u64 {
        let (mut record, mut count) = (self.record(top.place()), 0);
        while record.kind() != Kind::Base {
            count += u64::from(record.kind() != Kind::Split);
            record = self.record(record.next());
        }
        count
    }

    /// Pages of a level by their links, and how many pairs they have.
    fn check_level(&self, first: u64, level: u64, problems: &mut Vec<String>) -> (Vec<u64>, u64) {
        let (mut pages, mut count, mut low) = (vec![], 0, 0);
        let mut next = Some(first);
        while let Some(page) = next {
            let top = self.top(page);
            let pairs = self.pairs(top);
            let is_ordered = pairs.windows(2).all(|two| two[0].0 < two[1].0);
            let is_inside = pairs
                .iter()
                .all(|(key, _)| *key >= low && top.end().is_none_or(|(high, _)| *key < high));
            if !is_ordered || !is_inside {
                problems.push(format!("page {page} has keys out of order or range (B3)"));
            }
            // Splits come on top of a full chain.
            let bounded = self.bounded(top);
            if bounded > Self::CHAIN_MAX {
                problems.push(format!("page {page} has {bounded} records (B5)"));
            }
            if top.level() != level || self.base(top).key() != low {
                problems.push(format!("page {page} is not of its level or range (B3)"));
            }
            if level > 0 && pairs.first().map(|pair| pair.0) != Some(low) {
                problems.push(format!("inner page {page} has no first child (B3)"));
            }
            count += pairs.len() as u64;
            pages.push(page);
            next = top.end().map(|(high, right)| {
                low = high;
                right
            });
        }
        (pages, count)
    }

    /// Compares the children of a level with the links of the level below; gives how many of these there
    /// are. Without memory a split may not have been told to the page above.
    fn check_children(&self, pages: &[u64], first: u64, problems: &mut Vec<String>) -> usize {
        let children = pages.iter().flat_map(|page| self.pairs(self.top(*page)));
        let children: Vec<u64> = children.map(|pair| pair.1).collect();
        let mut linked = vec![];
        let mut next = Some(first);
        while let Some(page) = next {
            linked.push(page);
            next = self.top(page).end().map(|(_, right)| right);
        }
        let mut rest = linked.iter();
        if !children.iter().all(|child| rest.any(|page| page == child)) {
            problems.push(format!("children {children:?} are not among pages {linked:?} (B3)"));
        }
        linked.len()
    }

    /// Leaves and levels.
    pub(super) fn count_pages(&self) -> (u64, u64) {
        let root = self.top(ROOT);
        let (mut top, mut leaves) = (root, 1);
        while top.level() > 0 {
            top = self.top(self.child(top, 0).1);
        }
        while let Some((_, right)) = top.end() {
            top = self.top(right);
            leaves += 1;
        }
        (leaves, root.level() + 1)
    }

    /// Gives everything back. Nobody uses the tree any more.
    pub(super) fn free_everything(&self, session: &mut Session<M>) {
        for page in 0..self.table.used() {
            let mut record: *mut Record<M> = self.table.find(page).unwrap_or(std::ptr::null_mut());
            while !record.is_null() {
                let (next, size) = (self.record(record).next(), self.record(record).size());
                // SAFETY: made with this size; by the caller's promise nobody can reach it.
                unsafe { session.free_node(record.cast(), size) };
                record = next;
            }
        }
        self.table.free(session);
    }
}
