//! The tree's own check: walks everything and says, in sentences, what is not as it must be.
//!
//! Run while nobody writes. Also marks what the tree uses, for the allocator's audit.

use std::collections::BTreeSet;

use everleaf_alloc::{AllocError, BLOCK_SIZE, Mark, Recovery, Session};
use everleaf_machine::{Machine, Ordering, Pair};

use super::HashedLeafTree;
use super::layout::{DEAD, FREEZING, LeafId, LeafShape, Successor, UNKNOWN};
use super::state::FROZEN_EMPTY;
use crate::api::check_report::CheckReport;
use crate::kind::{Kind, sort_entries};
use crate::nbtree::inner::{self, Child};
use crate::nbtree::layout::{Inner, owner_parts};
use crate::nbtree::shared::Shared;
use crate::nbtree::state::{BlockState, EMPTY, EMPTY_ENTRY, FROZEN, LIVE, PENDING, TOMB, holds};

/// What a check has found so far.
struct Findings<'r> {
    report: &'r mut CheckReport,
    keys: u64,
    /// Fences met, each marked once.
    fences: BTreeSet<u64>,
}

impl Findings<'_> {
    fn problem(&mut self, text: String) {
        // A damaged pool can be wrong in a million places; the first ones tell.
        if self.report.problems.len() < 1000 {
            self.report.problems.push(text);
        }
    }

    fn note(&mut self, result: Result<(), AllocError>) {
        if let Err(error) = result {
            self.problem(error.to_string());
        }
    }
}

impl<K: Kind<M>, G: LeafShape, M: Machine> HashedLeafTree<K, G, M> {
    /// Walks the tree and marks in `used` what it uses.
    pub(crate) fn check_tree(
        &self,
        session: &mut Session<M>,
        used: &Recovery<M>,
        report: &mut CheckReport,
    ) {
        session.pin();
        let mut findings = Findings { report, keys: 0, fences: BTreeSet::new() };
        self.check_inner(self.inner.root(), None, 0, used, &mut findings);
        session.unpin();
        let keys = findings.keys;
        if keys != self.key_count() {
            let text = format!("the tree counts {} keys and holds {keys}", self.key_count());
            findings.problem(text);
        }
        findings.report.keys += keys;
    }

    /// Checks a node whose children cover from `low` (unless it is the root's) to `high` (0: no
    /// bound).
    fn check_inner(
        &self,
        node: Shared<Inner<M>>,
        low: Option<u64>,
        high: u64,
        used: &Recovery<M>,
        findings: &mut Findings<'_>,
    ) {
        if !node.is_open() {
            findings.problem("an inner node is left locked, or was replaced (N2)".to_string());
        }
        let children = node.children::<K>();
        if low.is_some_and(|low| low != children[0].0) {
            findings.problem("an inner node's first fence is not its parent's (I14)".to_string());
        }
        for (index, (fence, child)) in children.iter().enumerate() {
            let next = children.get(index + 1).map_or(high, |child| child.0);
            if next != 0 && K::compare_fences(self.base, *fence, next).is_ge() {
                findings.problem("an inner node's fences do not ascend (I14)".to_string());
            }
            self.mark_fence(*fence, used, findings);
            if node.level > 1 {
                // SAFETY: children above level 1 are inner nodes, read while pinned.
                let child = unsafe { Shared::new(child.cast()) };
                self.check_inner(child, Some(*fence), next, used, findings);
            } else {
                self.check_child(*child, *fence, next, used, findings);
            }
        }
    }

    /// Checks a child of level 1. A leaf that opening has left is restored first; if it is damaged, the rest of
    /// the tree is checked all the same.
    fn check_child(
        &self,
        child: *mut (),
        low: u64,
        high: u64,
        used: &Recovery<M>,
        findings: &mut Findings<'_>,
    ) {
        let leaf = self.leaf_behind(child);
        if LeafId::of_child(child).stands_in_for().is_some()
            && let Err(error) = self.restore_leaf(leaf, low, high)
        {
            findings.note(used.mark_block(G::BLOCK_CLASS, leaf.block::<G>()));
            findings.report.leaves += 1;
            findings.report.unproven_leaves += 1;
            return findings.problem(error.to_string());
        }
        self.check_chain(leaf, low, high, used, findings);
    }

    /// Checks a child, and the current leaves behind it. A replaced leaf that an inner node leads to
    /// still has its block.
    fn check_chain(
        &self,
        leaf: LeafId,
        low: u64,
        high: u64,
        used: &Recovery<M>,
        findings: &mut Findings<'_>,
    ) {
        findings.note(used.mark_block(G::BLOCK_CLASS, leaf.block::<G>()));
        let cold = self.cold(leaf);
        if (cold.low.read_private(), cold.high.read_private()) != (low, high) {
            findings.problem(format!("leaf {}: fences are not its parent's", leaf.number));
        }
        if !self.is_replaced(leaf) {
            return self.check_leaf(leaf, used, findings);
        }
        for chunk in 0..G::CHUNKS {
            if self.fingerprints(leaf, chunk).matches(UNKNOWN) != 0 {
                findings.problem(format!(
                    "leaf {}: replaced, with a fingerprint of 0 (HL5)",
                    leaf.number
                ));
            }
        }
        let successor = self.successor_of(leaf);
        let split = if successor.right.is_some() { successor.split } else { high };
        self.check_chain(successor.left, low, split, used, findings);
        if let Some(right) = successor.right {
            self.mark_fence(split, used, findings);
            self.check_chain(right, split, high, used, findings);
        }
    }

    fn mark_fence(&self, fence: u64, used: &Recovery<M>, findings: &mut Findings<'_>) {
        if fence != 0 && findings.fences.insert(fence) {
            findings.note(K::mark_fence(&self.heap, used, fence));
        }
    }

    fn check_leaf(&self, leaf: LeafId, used: &Recovery<M>, findings: &mut Findings<'_>) {
        findings.report.leaves += 1;
        let is_proven = self.sealed_contents(leaf.block::<G>()).is_ok();
        findings.report.unproven_leaves += u64::from(!is_proven);
        if let Some(target) = self.unmade_target(leaf) {
            findings.note(used.mark_block(G::BLOCK_CLASS, target.block::<G>()));
        }
        let (header, cold) = (self.header(leaf), self.cold(leaf));
        let name = format!("leaf at offset {}", u64::from(leaf.block::<G>()) * BLOCK_SIZE as u64);
        let (owner, skip) = owner_parts(header.owner.read_private());
        if owner != self.id || skip != cold.skip.read_private() as usize {
            findings.problem(format!("{name}: its owner word is not the tree's"));
        }
        if header.low.read_private() != cold.low.read_private() {
            findings.problem(format!("{name}: its low fence is not the leaf's"));
        }
        let state = BlockState::decode(header.state.read_private());
        if !matches!(
            state,
            Some(BlockState::Live | BlockState::New { .. } | BlockState::Merging { .. })
        ) {
            findings.problem(format!("{name}: its state word is {state:?} (I2)"));
        }
        let mut live: Vec<Pair> = vec![];
        for position in G::HEADER_POSITIONS..G::POSITIONS {
            let entry = self.entry(leaf, position).load();
            if let Some(what) = self.check_position(leaf, position, entry) {
                findings.problem(format!("{name}, position {position}: {what}"));
            }
            if holds(K::state(entry)) {
                match K::verify_entry(&self.heap, used, entry, skip) {
                    Ok(()) => live.push(entry),
                    Err(error) => findings.problem(format!("{name}, position {position}: {error}")),
                }
                let mark = K::entry_mark(used, entry);
                findings.note(mark.and_then(|mark| mark.map_or(Ok(()), Mark::set)));
            }
        }
        self.check_keys(leaf, &name, &mut live, findings);
    }

    /// The target of a merge that came to nothing, as long as the left leaf holds on to it: for want
    /// of memory it could not be replaced since.
    fn unmade_target(&self, leaf: LeafId) -> Option<LeafId> {
        // Acquire: the successor is complete; pairs with its installation.
        let successor = self.cold(leaf).successor.load(Ordering::Acquire);
        if successor.is_null() {
            return None;
        }
        // SAFETY: installed successors are retired no earlier than the leaf.
        let successor = unsafe { Shared::new(successor) };
        let is_left = successor.merging.is_some_and(|(left, _)| left == leaf);
        (is_left && Self::is_aborted(successor)).then_some(successor.left)
    }

    /// What is wrong with one position.
    fn check_position(&self, leaf: LeafId, position: usize, entry: Pair) -> Option<String> {
        // Acquire: as in `is_replaced`.
        let is_freezing = self.cold(leaf).flags.load(Ordering::Acquire) & FREEZING != 0;
        let line = self.fingerprints(leaf, position / G::CHUNK);
        let byte = line.read_private(position % G::CHUNK);
        match K::state(entry) {
            // What a crash left of half a claim stays in a pool that is only read.
            EMPTY if entry != EMPTY_ENTRY && !self.heap.pool().is_read_only() => {
                Some("free, but not empty (I10)".into())
            }
            EMPTY if byte > DEAD => Some("free, with a fingerprint (HL3)".into()),
            FROZEN | FROZEN_EMPTY if !is_freezing => Some("frozen in a leaf that is not".into()),
            LIVE | FROZEN => {
                let low = self.cold(leaf).low.read_private();
                let probe = self.probe_of(leaf, low, entry);
                if byte != probe.fingerprint {
                    return Some("its fingerprint is not its key's (HL3)".into());
                }
                let own = (0..G::CHUNKS).find(|turn| probe.chunk(*turn) == position / G::CHUNK)?;
                let has_gap = (0..=own).any(|turn| {
                    let last = if turn == own { 1 << (position % G::CHUNK) } else { 0 };
                    let free = self.fingerprints(leaf, probe.chunk(turn)).matches(UNKNOWN);
                    free & probe.before_first(turn, last) != 0
                });
                has_gap.then(|| "a position before it is free (HL4)".into())
            }
            TOMB if byte == UNKNOWN => Some("removed, without a fingerprint (HL3)".into()),
            EMPTY | PENDING | TOMB | FROZEN_EMPTY => None,
            other => Some(format!("state {other:#b} is none")),
        }
    }

    /// Checks range and uniqueness of a leaf's keys, and counts them.
    fn check_keys(&self, leaf: LeafId, name: &str, live: &mut [Pair], findings: &mut Findings<'_>) {
        findings.keys += live.len() as u64;
        sort_entries::<K, M>(self.base, live);
        if live.windows(2).any(|pair| K::compare(self.base, pair[0], pair[1]).is_eq()) {
            findings.problem(format!("{name}: a key is there twice (HL2)"));
        }
        let cold = self.cold(leaf);
        let (low, high) = (cold.low.read_private(), cold.high.read_private());
        let below = live
            .first()
            .is_some_and(|first| K::compare_fence_to_entry(self.base, low, low, *first).is_gt());
        let above = high != 0
            && live
                .last()
                .is_some_and(|last| K::compare_fence_to_entry(self.base, high, low, *last).is_le());
        if below || above {
            findings.problem(format!("{name}: a key is outside the leaf's fences (I5)"));
        }
    }

    /// Gives everything the tree uses in the pool back, when nobody can reach it any more.
    pub(crate) fn free_tree(&self, session: &mut Session<M>) {
        session.pin();
        let mut fences = BTreeSet::new();
        self.free_inner(session, self.inner.root(), &mut fences);
        for fence in fences {
            K::free_fence(session, fence);
        }
        session.unpin();
    }

    /// Gives back leaves that nobody has seen.
    pub(super) fn free_leaves(&self, session: &mut Session<M>, children: &[Child]) {
        let mut fences = BTreeSet::new();
        for (_, child) in children {
            self.free_child(session, *child, &mut fences);
        }
        for fence in fences {
            K::free_fence(session, fence);
        }
    }

    fn free_inner(
        &self,
        session: &mut Session<M>,
        node: Shared<Inner<M>>,
        fences: &mut BTreeSet<u64>,
    ) {
        for (fence, child) in node.children::<K>() {
            fences.insert(fence);
            if node.level > 1 {
                // SAFETY: children above level 1 are inner nodes.
                let child = unsafe { Shared::new(child.cast()) };
                self.free_inner(session, child, fences);
            } else {
                self.free_child(session, child, fences);
            }
        }
        // SAFETY: allocated with this size; nobody can reach the tree any more.
        unsafe { session.free_node(node.as_ptr().cast(), inner::inner_size::<K, M>(node.level)) };
    }

    /// Gives back the leaf that a child of level 1 leads to or stands in for, and what is behind it.
    fn free_child(&self, session: &mut Session<M>, child: *mut (), fences: &mut BTreeSet<u64>) {
        match self.give_up_unrestored(child) {
            // Its fence is that of the child.
            Some(leaf) if !M::mutant("hashed.frees_unmarked") => {
                session.free_block_of(G::BLOCK_CLASS, leaf.block::<G>());
            }
            _ => self.free_chain(session, self.leaf_behind(child), fences),
        }
    }

    fn free_chain(&self, session: &mut Session<M>, leaf: LeafId, fences: &mut BTreeSet<u64>) {
        if self.is_replaced(leaf) {
            let successor = self.successor_of(leaf);
            self.free_chain(session, successor.left, fences);
            if let Some(right) = successor.right {
                fences.insert(successor.split);
                self.free_chain(session, right, fences);
            }
            // SAFETY: allocated with this size; nobody can reach the tree any more.
            unsafe { session.free_node(successor.as_ptr().cast(), size_of::<Successor<M>>()) };
        } else {
            fences.insert(self.cold(leaf).low.read_private());
            for position in G::HEADER_POSITIONS..G::POSITIONS {
                let entry = self.entry(leaf, position).load();
                if holds(K::state(entry)) {
                    K::free_entry(session, entry);
                }
            }
            if let Some(target) = self.unmade_target(leaf) {
                session.free_block_of(G::BLOCK_CLASS, target.block::<G>());
                // Acquire: as in `unmade_target`.
                let descriptor = self.cold(leaf).successor.load(Ordering::Acquire);
                // SAFETY: allocated with this size; nobody can reach the tree any more.
                unsafe { session.free_node(descriptor.cast(), size_of::<Successor<M>>()) };
            }
        }
        session.free_block_of(G::BLOCK_CLASS, leaf.block::<G>());
    }
}
