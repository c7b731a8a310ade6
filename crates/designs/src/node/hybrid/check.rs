//! The tree's own check, at rest.

use everleaf_alloc::Recovery;
use everleaf_index::{CheckReport, Geometry};
use everleaf_machine::Machine;

use super::Hybrid;
use super::leaf::LeafDesign;

impl<D: LeafDesign<M>, G: Geometry, M: Machine> Hybrid<D, G, M> {
    /// Walks inner tree and list, which must agree (H1, H2, H4), and marks everything (H5).
    pub(super) fn check_all(&self, used: &Recovery<M>, report: &mut CheckReport) {
        let problems = &mut report.problems;
        if let Err(error) = self.mark_all(used) {
            // The list cannot be followed safely.
            return problems.push(error.to_string());
        }
        self.inner.check(problems);
        let mut entered = vec![];
        self.inner.for_each_leaf(&mut |low, leaf| entered.push((low, leaf)));
        let mut listed = vec![];
        let mut keys = 0;
        let mut offset = self.first_leaf();
        while offset != 0 {
            let leaf = self.leaf(offset);
            let header = D::header(leaf);
            listed.push((header.low(), offset));
            keys += self.check_leaf(leaf, problems);
            offset = header.next();
        }
        if entered != listed {
            problems.push(format!("inner nodes lead to {entered:?}, the list to {listed:?}"));
        }
        if !Self::IS_BLIND && keys != self.keys.sum() {
            problems.push(format!("{keys} keys are there, {} are counted", self.keys.sum()));
        }
        if listed.len() as u64 != self.leaves.sum() {
            let counted = self.leaves.sum();
            problems.push(format!("{} leaves are there, {counted} are counted", listed.len()));
        }
        match self.logs.pending() {
            Ok(pending) if pending.is_empty() => {}
            Ok(pending) => problems.push(format!("micro-logs are left: {pending:?}")),
            Err(what) => problems.push(what),
        }
        report.keys += keys;
        report.leaves += listed.len() as u64;
    }

    /// Checks one leaf; its number of keys.
    fn check_leaf(&self, leaf: &D::Leaf, problems: &mut Vec<String>) -> u64 {
        let header = D::header(leaf);
        let low = header.low();
        if header.lock.stable(self.context.generation).is_none() {
            problems.push(format!("the leaf from {low} on is left locked"));
        }
        if D::view(self.context, leaf).is_err() {
            problems.push(format!("the leaf from {low} on turns readers away"));
        }
        let next = header.next();
        let high = (next != 0).then(|| D::header(self.leaf(next)).low());
        let pairs = D::pairs(self.context, leaf);
        for pair in pairs.windows(2) {
            if pair[0].0 >= pair[1].0 {
                problems.push(format!("keys {} and {} do not ascend", pair[0].0, pair[1].0));
            }
        }
        for (key, _) in &pairs {
            if *key < low || high.is_some_and(|high| *key >= high) {
                problems.push(format!("key {key} is outside its leaf, {low} to {high:?}"));
            }
        }
        D::check(self.context, leaf, problems);
        pairs.len() as u64
    }
}
