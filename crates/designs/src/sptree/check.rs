//! The tree's own check, at rest.

use everleaf_alloc::{Recovery, Session};
use everleaf_index::{CheckReport, Geometry};
use everleaf_machine::Machine;

use super::layout::{HEAD_WORD, HIGH_MAX, slots};
use super::state::LOCK_GENERATION;
use super::top::TopIndex;
use super::variant::Variant;
use super::{LeafAndMiddle, Tree};
use crate::node::write_buffer::tag;

impl<V: Variant, G: Geometry, M: Machine> Tree<V, G, M> {
    /// Walks inner tree and list, which must agree (S6), and marks everything.
    pub(super) fn check_all(
        &self,
        session: &mut Session<M>,
        used: &Recovery<M>,
        report: &mut CheckReport,
    ) {
        let problems = &mut report.problems;
        if let Err(error) = self.know_all(session) {
            // Behind it the list cannot be followed.
            return problems.push(error.to_string());
        }
        if let Err(error) = self.restore_all(session) {
            problems.push(error.to_string());
        }
        let damaged = self.logs.damaged();
        if damaged > 0 {
            problems.push(format!("{damaged} chunks of the log stay: a record in each is damaged"));
        }
        if let Err(error) = self.mark_all(used) {
            // The list cannot be followed safely.
            return problems.push(error.to_string());
        }
        self.top.check(|leaf| self.low_of(leaf), problems);
        let mut entered = vec![];
        let mut enter = |low, leaf| entered.push((low, leaf));
        self.top.for_each_leaf(|leaf| self.low_of(leaf), &mut enter);
        let mut listed = vec![];
        let mut keys = 0;
        let mut offset = self.root_object.word(HEAD_WORD).read_private();
        let mut low = 0;
        while offset != 0 {
            let place = self.place(offset);
            let heading = place.leaf.heading();
            if heading.low != low {
                problems.push(format!("the leaf from {} on stands at {low} (S6)", heading.low));
            }
            listed.push((heading.low, offset));
            keys += self.check_leaf(place, problems);
            (low, offset) = (heading.high, heading.next);
        }
        if low != HIGH_MAX {
            problems.push(format!("the list ends at {low}"));
        }
        if entered != listed {
            problems.push(format!("inner nodes lead to {entered:?}, the list to {listed:?} (S6)"));
        }
        if keys != self.keys.sum() {
            problems.push(format!("{keys} keys are there, {} are counted", self.keys.sum()));
        }
        if listed.len() as u64 != self.leaves.sum() {
            let counted = self.leaves.sum();
            problems.push(format!("{} leaves are there, {counted} are counted", listed.len()));
        }
        report.keys += keys;
        report.leaves += listed.len() as u64;
    }

    /// Checks one leaf; its number of keys.
    fn check_leaf(&self, place: LeafAndMiddle<'_, M>, problems: &mut Vec<String>) -> u64 {
        let (leaf, middle, heading) = (place.leaf, place.middle, place.leaf.heading());
        let low = heading.low;
        if middle.lock.stable(LOCK_GENERATION).is_none() {
            problems.push(format!("the leaf from {low} on is left locked"));
        }
        if (middle.low(), middle.high(), middle.next()) != (low, heading.high, heading.next) {
            problems.push(format!("the middle node of the leaf from {low} on is that of another"));
        }
        if heading.covered != heading.high {
            problems.push(format!("the leaf from {low} on may have masked keys (S5)"));
        }
        let mut keys = vec![];
        for slot in slots(heading.bitmap) {
            let key = leaf.pair(slot).0;
            keys.push(key);
            if key < low || key >= heading.high {
                problems.push(format!("key {key} is outside its leaf, {low} to {}", heading.high));
            }
            if leaf.tag_at(slot) != tag(key) {
                problems.push(format!("the tag of key {key} is that of another (S1)"));
            }
            if V::FILTER && middle.filter().is_some_and(|filter| !filter.may_have(key)) {
                problems.push(format!("the filter does not know key {key} (S7)"));
            }
        }
        keys.sort_unstable();
        if keys.windows(2).any(|pair| pair[0] == pair[1]) {
            problems.push(format!("the leaf from {low} on has a key twice: {keys:?}"));
        }
        if V::BUFFERED {
            self.check_buffer(place, problems);
        }
        self.sorted_pairs(place).len() as u64
    }

    /// Checks the buffer of a leaf.
    fn check_buffer(&self, place: LeafAndMiddle<'_, M>, problems: &mut Vec<String>) {
        let (middle, low) = (place.middle, place.middle.low());
        if middle.needs_restore() {
            problems.push(format!("the buffer of the leaf from {low} on is not restored"));
        }
        if place.leaf.heading().flushed != middle.flushed() {
            problems.push(format!("the leaf from {low} on says that it has what it has not (S8)"));
        }
        if self.is_writable && V::LINKED {
            self.check_records(place, problems);
        }
        for (key, value) in self.buffer(place).iter() {
            if key < low || key >= middle.high() {
                problems.push(format!("the buffer of the leaf from {low} on has key {key}"));
            }
            let misses = |filter: &super::filter::Filter<M>| !filter.may_have(key);
            if V::FILTER && value.is_some() && middle.filter().is_some_and(misses) {
                problems.push(format!("the filter does not know the buffered key {key} (S7)"));
            }
        }
    }

    /// Checks the records of a leaf's buffer (S9).
    fn check_records(&self, place: LeafAndMiddle<'_, M>, problems: &mut Vec<String>) {
        let (middle, low) = (place.middle, place.middle.low());
        let mut link = middle.head();
        for sequence in (middle.flushed() + 1..=middle.sequence()).rev() {
            match self.logs.read(link, sequence) {
                Some(record) if (low..middle.high()).contains(&record.key) => link = record.link,
                found => {
                    let what =
                        format!("record {sequence} of the leaf from {low} on is {found:?} (S9)");
                    return problems.push(what);
                }
            }
        }
    }
}
