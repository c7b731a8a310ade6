//! The tree's own check: the list, and the tree over it.

use everleaf_alloc::Recovery;
use everleaf_index::{CheckReport, Geometry};
use everleaf_machine::Machine;

use super::UTree;
use super::layout::leaf_of;

impl<G: Geometry, M: Machine> UTree<G, M> {
    /// Marks in `used` what the tree uses, and notes what it finds. Nobody else is active.
    pub(super) fn check_all(&self, used: &Recovery<M>, report: &mut CheckReport) {
        let problems = &mut report.problems;
        let mut listed = vec![];
        let walked = self
            .root_object
            .mark(used)
            .and_then(|()| self.walk(used, &mut |offset, key| listed.push((key, leaf_of(offset)))));
        if let Err(error) = walked {
            return problems.push(error.to_string());
        }
        self.inner.check(problems);
        let mut entered: Vec<(u64, u64)> = vec![];
        self.inner.for_each_leaf(&mut |fence, leaf| {
            // The first place of a node may lead to what the place before it leads to (U4).
            if entered.last().is_none_or(|before| before.1 != leaf) {
                entered.push((fence, leaf));
            }
        });
        if entered != listed {
            problems.push(format!("inner nodes lead to {entered:?}, the list to {listed:?} (U4)"));
        }
        for (key, leaf) in &listed {
            let node = self.node(super::layout::node_of(*leaf));
            if node.lock.stable(self.generation).is_none() {
                problems.push(format!("the node of key {key} is left locked"));
            }
        }
        let keys = listed.len() as u64 - 1;
        if keys != self.keys.sum() {
            problems.push(format!("{keys} keys are there, {} are counted", self.keys.sum()));
        }
        report.keys += keys;
        report.leaves += listed.len() as u64;
    }
}
