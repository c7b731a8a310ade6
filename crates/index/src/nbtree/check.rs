//! The tree's own check: walks everything and says, in sentences, what is not as it must be.
//!
//! Run while nobody writes. Also marks what the tree uses, for the allocator's audit.

use std::collections::BTreeSet;

use everleaf_alloc::{AllocError, BLOCK_SIZE, Mark, Recovery, Session};
use everleaf_machine::{Machine, Ordering, Pair};

use super::NbTree;
use super::inner::Child;
use super::layout::{Inner, Leaf, Successor, owner_parts};
use super::shared::Shared;
use super::state::{
    BlockState, COMMITTED, EMPTY, FREEZING, FROZEN, LIVE, PENDING, REPLACED, TOMB, holds,
};
use crate::api::check_report::CheckReport;
use crate::geometry::Geometry;
use crate::kind::{Kind, sort_entries};

/// What a check has found so far.
#[derive(Debug, Default)]
pub(crate) struct CheckState {
    pub keys: u64,
    pub leaves: u64,
    pub inner_nodes: u64,
    /// Leaves that no clean close has sealed as they are.
    pub unproven_leaves: u64,
    pub problems: Vec<String>,
    /// Fences met, each marked once.
    fences: BTreeSet<u64>,
}

impl CheckState {
    /// Adds what was found in one tree to a report.
    pub fn add_to(self, report: &mut CheckReport) {
        report.keys += self.keys;
        report.leaves += self.leaves;
        report.unproven_leaves += self.unproven_leaves;
        report.problems.extend(self.problems);
    }

    fn problem(&mut self, text: String) {
        // A damaged pool can be wrong in a million places; the first ones tell.
        if self.problems.len() < 1000 {
            self.problems.push(text);
        }
    }
}

impl<K: Kind<M>, G: Geometry, M: Machine> NbTree<K, G, M> {
    /// Walks the tree and marks in `used` what it uses.
    pub(crate) fn check(
        &self,
        session: &mut Session<M>,
        used: &Recovery<M>,
        state: &mut CheckState,
    ) {
        session.pin();
        let root = self.root();
        self.check_inner(root, None, 0, used, state);
        session.unpin();
        if state.keys != self.len() {
            // `keys` is checked per tree: the caller passes a fresh state for each.
            let text = format!("the tree counts {} keys and holds {}", self.len(), state.keys);
            state.problem(text);
        }
    }

    /// Checks a node whose children cover from `low` (unless it is the root's) to `high` (0: no
    /// bound).
    fn check_inner(
        &self,
        node: Shared<Inner<M>>,
        low: Option<u64>,
        high: u64,
        used: &Recovery<M>,
        state: &mut CheckState,
    ) {
        state.inner_nodes += 1;
        if !node.is_open() {
            state.problem("an inner node is left locked, or was replaced (N2)".to_string());
        }
        let children = node.children::<K>();
        if low.is_some_and(|low| low != children[0].0) {
            state.problem("an inner node's first fence is not its parent's (I14)".to_string());
        }
        for (index, (fence, child)) in children.iter().enumerate() {
            let next = children.get(index + 1).map_or(high, |child| child.0);
            if next != 0 && K::compare_fences(self.base, *fence, next).is_ge() {
                state.problem("an inner node's fences do not ascend (I14)".to_string());
            }
            self.mark_fence(*fence, used, state);
            if node.level > 1 {
                // SAFETY: children above level 1 are inner nodes, read while pinned.
                let child = unsafe { Shared::new(child.cast()) };
                self.check_inner(child, Some(*fence), next, used, state);
            } else {
                // SAFETY: children of level 1 are leaves, read while pinned.
                let child = unsafe { Shared::new(child.cast()) };
                self.check_chain(child, *fence, next, used, state);
            }
        }
    }

    /// Checks the current leaves behind a child.
    fn check_chain(
        &self,
        leaf: Shared<Leaf<M>>,
        low: u64,
        high: u64,
        used: &Recovery<M>,
        state: &mut CheckState,
    ) {
        // Acquire: as in `resolve`.
        if leaf.meta.load(Ordering::Acquire) & REPLACED == 0 {
            if (leaf.low, leaf.high) != (low, high) {
                state.problem(format!("leaf of block {}: fences are not its parent's", leaf.block));
            }
            return self.check_leaf(leaf, used, state);
        }
        // Acquire: the successor is complete; pairs with its installation.
        let successor = leaf.successor.load(Ordering::Acquire);
        // SAFETY: a replaced leaf has a successor, retired no earlier than the leaf; nobody else runs.
        let successor = unsafe { Shared::new(successor) };
        let (left, right) = self.successor_leaves(successor);
        let split = if right.is_some() { successor.split } else { high };
        self.check_chain(left, low, split, used, state);
        if let Some(right) = right {
            self.mark_fence(split, used, state);
            self.check_chain(right, split, high, used, state);
        }
    }

    fn mark_fence(&self, fence: u64, used: &Recovery<M>, state: &mut CheckState) {
        if fence != 0 && state.fences.insert(fence) {
            self.report(K::mark_fence(&self.heap, used, fence), state);
        }
    }

    fn report(&self, result: Result<(), AllocError>, state: &mut CheckState) {
        if let Err(error) = result {
            state.problem(error.to_string());
        }
    }

    fn check_leaf(&self, leaf: Shared<Leaf<M>>, used: &Recovery<M>, state: &mut CheckState) {
        state.leaves += 1;
        state.unproven_leaves += u64::from(!self.is_proven(leaf));
        self.report(used.mark_block(0, leaf.block), state);
        if let Some(target) = self.unmade_target(leaf) {
            self.report(used.mark_block(0, target.block), state);
        }
        let block = self.block(leaf);
        let name = format!("leaf at offset {}", u64::from(leaf.block) * BLOCK_SIZE as u64);
        let (owner, skip) = owner_parts(block.owner.read_private());
        if owner != self.id || skip != leaf.skip as usize {
            state.problem(format!("{name}: its owner word is not the tree's"));
        }
        if block.low.read_private() != leaf.low {
            state.problem(format!("{name}: its low fence is not the leaf's"));
        }
        let block_state = BlockState::decode(block.state.read_private());
        if !matches!(
            block_state,
            Some(BlockState::Live | BlockState::New { .. } | BlockState::Merging { .. })
        ) {
            state.problem(format!("{name}: its state word is {block_state:?} (I2)"));
        }
        // Acquire: as in `resolve`.
        let meta = leaf.meta.load(Ordering::Acquire);
        let mut live: Vec<Pair> = vec![];
        let mut used_slots = 0;
        for slot in 0..G::SLOT_COUNT {
            let entry = block.entries[slot].load();
            let committed = meta >> slot & 1 == 1;
            used_slots += usize::from(K::state(entry) != EMPTY);
            if let Some(what) = self.check_slot(leaf, slot, entry, committed) {
                state.problem(format!("{name}, slot {slot}: {what}"));
            }
            if committed && holds(K::state(entry)) {
                match K::verify_entry(&self.heap, used, entry, skip) {
                    Ok(()) => live.push(entry),
                    Err(error) => state.problem(format!("{name}, slot {slot}: {error}")),
                }
                let mark = K::entry_mark(used, entry);
                self.report(mark.and_then(|mark| mark.map_or(Ok(()), Mark::set)), state);
            }
        }
        // Relaxed: nobody writes now.
        let claimed = leaf.claimed.load(Ordering::Relaxed) as usize;
        if used_slots > claimed {
            state.problem(format!("{name}: {used_slots} slots are used, {claimed} claimed (I13)"));
        }
        if meta & COMMITTED >> G::SLOT_COUNT.min(62) << G::SLOT_COUNT != 0 && G::SLOT_COUNT < 62 {
            state.problem(format!("{name}: a slot beyond the last is committed"));
        }
        self.check_keys(leaf, &name, &mut live, state);
    }

    /// The target of a merge that came to nothing, as long as the left leaf holds on to it: for want
    /// of memory it could not be replaced since.
    fn unmade_target(&self, leaf: Shared<Leaf<M>>) -> Option<Shared<Leaf<M>>> {
        // Acquire: the successor is complete; pairs with its installation.
        let successor = leaf.successor.load(Ordering::Acquire);
        if successor.is_null() {
            return None;
        }
        // SAFETY: installed successors are retired no earlier than the leaf.
        let successor = unsafe { Shared::new(successor) };
        let unmade = successor.merge_left == leaf.as_ptr() && Self::is_aborted(successor);
        unmade.then(|| self.successor_leaves(successor).0)
    }

    /// What is wrong with one slot.
    fn check_slot(
        &self,
        leaf: Shared<Leaf<M>>,
        slot: usize,
        entry: Pair,
        committed: bool,
    ) -> Option<String> {
        // Acquire: as in `resolve`.
        let freezing = leaf.meta.load(Ordering::Acquire) & FREEZING != 0;
        let fingerprint = leaf.fingerprints.read_private(slot);
        match K::state(entry) {
            EMPTY | PENDING if committed => Some("committed but never written (I3)".into()),
            LIVE | FROZEN if !committed => Some("holds a key but is not committed (I3)".into()),
            FROZEN if !freezing => Some("frozen in a leaf that is not".into()),
            LIVE | FROZEN if fingerprint != K::entry_fingerprint(leaf.low, entry) => {
                Some("its fingerprint is not its key's (I12)".into())
            }
            TOMB if committed && fingerprint != 0 => {
                Some("removed, but its fingerprint stays (I12)".into())
            }
            EMPTY | PENDING | LIVE | TOMB | FROZEN => None,
            other => Some(format!("state {other:#b} is none")),
        }
    }

    /// Checks range and uniqueness of a leaf's keys, and counts them.
    fn check_keys(
        &self,
        leaf: Shared<Leaf<M>>,
        name: &str,
        live: &mut [Pair],
        state: &mut CheckState,
    ) {
        state.keys += live.len() as u64;
        sort_entries::<K, M>(self.base, live);
        if live.windows(2).any(|pair| K::compare(self.base, pair[0], pair[1]).is_eq()) {
            state.problem(format!("{name}: a key is there twice (I4)"));
        }
        let (low, high) = (leaf.low, leaf.high);
        let below = live
            .first()
            .is_some_and(|first| K::compare_fence_to_entry(self.base, low, low, *first).is_gt());
        let above = high != 0
            && live
                .last()
                .is_some_and(|last| K::compare_fence_to_entry(self.base, high, low, *last).is_le());
        if below || above {
            state.problem(format!("{name}: a key is outside the leaf's fences (I5)"));
        }
    }

    /// Gives everything the tree uses in the pool back, when nobody can reach it any more.
    pub(crate) fn free_all(&self, session: &mut Session<M>) {
        session.pin();
        let mut from_fences = BTreeSet::new();
        self.free_inner(session, self.root(), &mut from_fences);
        session.unpin();
        for fence in from_fences {
            K::free_fence(session, fence);
        }
    }

    /// Gives back leaves that nobody has seen, with all they refer to.
    pub(super) fn free_leaves(&self, session: &mut Session<M>, children: &[Child]) {
        let mut fences = BTreeSet::new();
        for (_, leaf) in children {
            // SAFETY: leaves that the caller built, and that no other thread knows.
            let leaf = unsafe { Shared::new(leaf.cast()) };
            self.free_chain(session, leaf, &mut fences);
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
                // Nobody else can reach what is left: the pin protects nothing of it, and others may wait for its end.
                session.unpin();
                #[cfg(test)]
                tests::note_rest(session.is_pinned());
                session.pin();
            } else {
                // SAFETY: children of level 1 are leaves.
                let child = unsafe { Shared::new(child.cast()) };
                self.free_chain(session, child, fences);
            }
        }
        // SAFETY: allocated with this size; nobody can reach the tree any more.
        unsafe {
            session.free_node(node.as_ptr().cast(), super::inner::inner_size::<K, M>(node.level));
        }
    }

    fn free_chain(
        &self,
        session: &mut Session<M>,
        leaf: Shared<Leaf<M>>,
        fences: &mut BTreeSet<u64>,
    ) {
        // Acquire: as in `resolve`.
        let meta = leaf.meta.load(Ordering::Acquire);
        self.retire_order(session, leaf);
        if meta & REPLACED != 0 {
            // Acquire: the successor is complete; pairs with its installation.
            let successor = leaf.successor.load(Ordering::Acquire);
            // SAFETY: a replaced leaf has a successor, retired no earlier than the leaf; nobody else runs.
            let successor = unsafe { Shared::new(successor) };
            let (left, right) = self.successor_leaves(successor);
            self.free_chain(session, left, fences);
            if let Some(right) = right {
                fences.insert(successor.split);
                self.free_chain(session, right, fences);
            }
            // SAFETY: allocated with this size; nobody can reach the tree any more.
            unsafe { session.free_node(successor.as_ptr().cast(), size_of::<Successor<M>>()) };
            // SAFETY: allocated with this size; nobody can reach the tree any more.
            unsafe { session.free_node(leaf.as_ptr().cast(), size_of::<Leaf<M>>()) };
            return;
        }
        fences.insert(leaf.low);
        let block = self.block(leaf);
        for slot in 0..G::SLOT_COUNT {
            let entry = block.entries[slot].load();
            if meta >> slot & 1 == 1 && holds(K::state(entry)) {
                K::free_entry(session, entry);
            }
        }
        if let Some(target) = self.unmade_target(leaf) {
            session.free_block(target.block);
            // Acquire: as in `unmade_target`.
            let descriptor = leaf.successor.load(Ordering::Acquire);
            // SAFETY: allocated with this size; nobody can reach the tree any more.
            unsafe { session.free_node(descriptor.cast(), size_of::<Successor<M>>()) };
            // SAFETY: allocated with this size; nobody can reach the tree any more.
            unsafe { session.free_node(target.as_ptr().cast(), size_of::<Leaf<M>>()) };
        }
        session.free_block(leaf.block);
        // SAFETY: allocated with this size; nobody can reach the tree any more.
        unsafe { session.free_node(leaf.as_ptr().cast(), size_of::<Leaf<M>>()) };
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use everleaf_pool::{Domain, Pool};

    use crate::{Change, Trees};

    thread_local! {
        static RESTS: Cell<usize> = const { Cell::new(0) };
    }

    /// Counts the times at which a thread that frees a tree holds nobody up.
    pub(super) fn note_rest(is_pinned: bool) {
        RESTS.set(RESTS.get() + usize::from(!is_pinned));
    }

    /// What held up all writers that wait for the end of operations: a tree was freed under one pin.
    #[test]
    fn a_large_tree_is_freed_under_many_pins() {
        let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process).expect("memory");
        let trees: Trees = Trees::create(pool).expect("room");
        let tree = trees.bytes_tree("emptied").expect("room");
        let mut session = trees.heap().session().expect("a session");
        for number in 0..50_000_u32 {
            let key = number.to_be_bytes();
            tree.change(&mut session, &Change::upsert(&key, b"value")).expect("room");
        }
        tree.cell().clear(&mut session).expect("room");
        drop(session);
        let mut session = trees.heap().session().expect("a session");
        assert_eq!(RESTS.get(), 0);
        while tree.cell().tidy(&mut session) {}
        assert!(RESTS.get() > 3, "{} rests", RESTS.get());
        assert_eq!(trees.check().expect("a check").problems, Vec::<String>::new());
    }
}
