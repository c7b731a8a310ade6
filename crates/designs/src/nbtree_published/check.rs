//! The tree's own check, at rest.

use std::collections::BTreeSet;

use everleaf_alloc::{AllocError, Recovery};
use everleaf_index::{CheckReport, Geometry};
use everleaf_machine::Machine;

use super::NbPublished;
use super::layout::{Leaf, fingerprint};
use super::state::COMMITTED;
use super::variant::Variant;

impl<V: Variant, G: Geometry, M: Machine> NbPublished<V, G, M> {
    /// Walks inner nodes and list, which must agree (NP1, NP4), and marks everything.
    pub(super) fn check_all(
        &self,
        used: &Recovery<M>,
        report: &mut CheckReport,
    ) -> Result<(), AllocError> {
        self.root_object.mark(used)?;
        self.inner.check(&mut report.problems);
        let mut seen = BTreeSet::new();
        self.for_each_record(&mut |leaf| {
            seen.insert(leaf.block());
        });
        self.space.check(used, &seen, Self::RECORD_SIZE, &mut report.problems);
        let mut in_tree = vec![];
        self.for_each_current(&mut |leaf| in_tree.push((leaf.low(), leaf.block())));
        let mut listed = vec![];
        let mut block = self.head().read_private();
        while block != 0 && listed.len() <= in_tree.len() {
            let contents = super::block_at(self.base, block);
            listed.push((contents.low.read_private(), block));
            block = contents.next.read_private();
        }
        if listed != in_tree {
            let what = format!("inner nodes lead to {in_tree:?}, the list to {listed:?} (NP4)");
            report.problems.push(what);
        }
        let mut keys = 0;
        self.for_each_current(&mut |leaf| keys += self.check_leaf(leaf, &mut report.problems));
        if keys != self.keys.sum() {
            let counted = self.keys.sum();
            report.problems.push(format!("{keys} keys are there, {counted} are counted"));
        }
        if in_tree.len() as u64 != self.leaves.sum() {
            let (found, counted) = (in_tree.len(), self.leaves.sum());
            report.problems.push(format!("{found} leaves are there, {counted} are counted"));
        }
        report.keys += keys;
        report.leaves += in_tree.len() as u64;
        Ok(())
    }

    /// Checks one leaf; its number of keys.
    fn check_leaf(&self, leaf: &Leaf<M>, problems: &mut Vec<String>) -> u64 {
        let (low, high) = (leaf.low(), leaf.high());
        if leaf.lock.read_private() != 0 {
            problems.push(format!("the leaf from {low} on is left locked"));
        }
        let committed = leaf.bitmap.read_private() & COMMITTED;
        let claimed = leaf.num.read_private();
        if u64::BITS - committed.leading_zeros() > claimed {
            problems.push(format!("{claimed} slots are claimed, {committed:#b} committed"));
        }
        let mut keys = vec![];
        for slot in (0..Self::CAPACITY).filter(|slot| committed >> slot & 1 != 0) {
            let key = self.block(leaf).slots[slot].key.read_private();
            if key == 0 {
                continue;
            }
            if key < low || high != 0 && key >= high {
                problems.push(format!("key {key} is outside its leaf, {low} to {high} (NP2)"));
            }
            if leaf.fingerprints.read_private(slot) != fingerprint::<M>(key) {
                problems.push(format!("the fingerprint of key {key} is not its own (NP6)"));
            }
            keys.push(key);
        }
        keys.sort_unstable();
        for pair in keys.windows(2) {
            if pair[0] == pair[1] {
                problems.push(format!("key {} is there twice (NP2)", pair[0]));
            }
        }
        keys.len() as u64
    }

    /// Visits the leaves that hold the keys, in order. Nobody else is active.
    fn for_each_current(&self, visit: &mut impl FnMut(&Leaf<M>)) {
        let mut next = Some(0);
        while let Some(low) = next {
            let mut leaf = self.leaf(self.inner.find(low));
            while self.is_linked(leaf) {
                let Some(copy) = self.copy_of(leaf) else { break };
                leaf = self.side(copy, low);
            }
            visit(leaf);
            next = (leaf.high() != 0).then_some(leaf.high());
        }
    }

    /// Visits all leaves whose records are in use, some more than once: those in the inner nodes,
    /// and the copies of those that are being replaced. Nobody else is active.
    fn for_each_record(&self, visit: &mut impl FnMut(&Leaf<M>)) {
        self.inner.for_each_leaf(&mut |_, place| self.visit_copies(self.leaf(place), visit));
    }

    fn visit_copies(&self, leaf: &Leaf<M>, visit: &mut impl FnMut(&Leaf<M>)) {
        visit(leaf);
        let Some(left) = self.copy_of(leaf) else { return };
        self.visit_copies(left, visit);
        if !left.right().is_null() {
            self.visit_copies(self.leaf(left.right()), visit);
        }
    }

    /// Gives everything back. Nobody uses the tree any more.
    pub(super) fn free_everything(&self, session: &mut everleaf_alloc::Session<M>) {
        let mut seen = BTreeSet::new();
        let mut all = vec![];
        self.for_each_record(&mut |leaf| {
            if seen.insert(leaf.block()) {
                let place: *const Leaf<M> = leaf;
                all.push((leaf.block(), place.cast_mut()));
            }
        });
        for (_, place) in &all {
            Self::unmake_leaf(session, self.is_writable, *place);
        }
        self.inner.free(session);
        let blocks = all.into_iter().map(|(block, _)| block);
        self.space.free_all(session, blocks, Self::RECORD_SIZE);
        self.root_object.free(session);
    }
}
