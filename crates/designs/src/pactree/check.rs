//! The tree's own check, at rest: the list, and the search layer with what it has not learned.

use std::collections::BTreeMap;

use everleaf_alloc::Recovery;
use everleaf_index::CheckReport;
use everleaf_machine::Machine;

use super::PacTree;
use super::layout::{Node, slots};
use super::state::{Change, Kind};
use super::variant::Variant;

/// Makes a fence lead to a data node, or nowhere.
fn set(nodes: &mut BTreeMap<u64, u64>, low: u64, to: Option<u64>) {
    match to {
        Some(offset) => drop(nodes.insert(low, offset)),
        None => drop(nodes.remove(&low)),
    }
}

impl<V: Variant, const BITS: u32, M: Machine> PacTree<V, BITS, M> {
    /// Marks in `used` what the tree uses, and notes what it finds. Nobody else is active.
    pub(super) fn check_all(&self, used: &Recovery<M>, report: &mut CheckReport) {
        let problems = &mut report.problems;
        let (mut listed, mut found) = (vec![], BTreeMap::new());
        let walked = self.mark_parts(used).and_then(|()| {
            let keys = self.walk(used, &mut |offset| listed.push(offset))?;
            self.mark_search(used, &mut |low, offset| {
                found.insert(low, offset);
            })?;
            Ok(keys)
        });
        let keys = match walked {
            Ok(keys) => keys,
            // The list cannot be followed safely.
            Err(error) => return problems.push(error.to_string()),
        };
        for offset in &listed {
            self.check_node(self.node(*offset), problems);
        }
        let known = self.known_to_search(&listed, &mut found);
        if known != found {
            problems.push(format!("the search layer has {found:?} instead of {known:?} (PT6)"));
        }
        if keys != self.keys.sum() {
            problems.push(format!("{keys} keys are there, {} are counted", self.keys.sum()));
        }
        if listed.len() as u64 != self.nodes.sum() {
            let counted = self.nodes.sum();
            problems.push(format!("{} nodes are there, {counted} are counted", listed.len()));
        }
        report.keys += keys;
        report.leaves += listed.len() as u64;
    }

    /// What the search layer should have: the list as it was before the changes in the log. After a crash
    /// it may also know the first change of a fence, which was learned and not erased; that is taken out
    /// of what was found.
    fn known_to_search(
        &self,
        listed: &[u64],
        found: &mut BTreeMap<u64, u64>,
    ) -> BTreeMap<u64, u64> {
        let mut nodes: BTreeMap<u64, u64> =
            listed.iter().map(|offset| (self.node(*offset).low(), *offset)).collect();
        let mut first = BTreeMap::new();
        for Change { kind, right, .. } in self.log.all_linked().into_iter().rev() {
            let low = self.node(right).low();
            let before = if kind == Kind::Split { None } else { Some(right) };
            let after = if kind == Kind::Split { Some(right) } else { None };
            set(&mut nodes, low, before);
            first.insert(low, (before, after));
        }
        for (low, (before, after)) in first {
            if found.get(&low).copied() == after {
                set(found, low, before);
            }
        }
        nodes
    }

    /// Checks one data node.
    fn check_node(&self, node: &Node<M>, problems: &mut Vec<String>) {
        let (low, high) = (node.low(), node.high());
        if node.lock.stable(self.generation).is_none() {
            problems.push(format!("the data node from {low} on is left locked"));
        }
        let pairs = self.sorted_pairs(node);
        for pair in pairs.windows(2) {
            if pair[0].0 >= pair[1].0 {
                problems.push(format!("keys {} and {} do not ascend", pair[0].0, pair[1].0));
            }
        }
        for (key, _) in &pairs {
            if *key < low || *key >= high {
                problems.push(format!("key {key} is outside its data node, {low} to {high}"));
            }
        }
        for slot in slots(node.bitmap()) {
            if slot >= V::CAPACITY {
                problems.push(format!("the data node from {low} on has a slot {slot}"));
            } else if !node.is_marked(slot) {
                let key = node.pair(slot).0;
                problems.push(format!("the fingerprint of key {key} is that of another (PT1)"));
            }
        }
        if node.sorted() == node.stamp(self.generation) {
            let count = node.count();
            let number = |index: usize| node.order_word(index / 8) >> (index % 8 * 8) & 0xFF;
            let order = (0..count).map(|index| node.pair(number(index) as usize));
            if !order.eq(pairs.iter().copied()) {
                problems.push(format!("the data node from {low} on is in another order"));
            }
        }
    }
}
