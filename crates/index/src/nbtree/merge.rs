//! Merging two neighbouring thin leaves, so that empty space is returned.
//!
//! The merging thread holds the locks of the leaves' common parent and of its parent, freezes both
//! leaves, and offers one descriptor first to the left leaf, then (any helper) to the right one. If
//! the right leaf has chosen another successor meanwhile, the merge is aborted and the left leaf is
//! replaced alone. Durably, the right block is marked `Merging` before the left block's state word,
//! which is the commit, names the target.
//!
//! Merging is maintenance: it starts only when locks are free, and a failure leaves thin leaves, which are merged when
//! the pool is full (`thin.rs`).

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Atomic, Machine, Ordering};

use super::NbTree;
use super::candidate::Candidate;
use super::inner;
use super::inner_tree::Joined;
use super::layout::{Inner, Leaf, Successor};
use super::shared::Shared;
use super::state::{BlockState, FREEZING, REPLACED};
use super::write::Write;
use crate::geometry::Geometry;
use crate::kind::Kind;

const UNDECIDED: u32 = 0;
/// Both leaves have the descriptor as their successor.
pub(super) const COMMITTED: u32 = 1;
/// The right leaf has another successor.
pub(super) const ABORTED: u32 = 2;

/// Rounds of one clean-up: joining thin inner nodes can make the leaf merge possible.
const ROUNDS: usize = 3;

/// The slots of a leaf that hold keys, nearly: a count of fingerprints.
pub(super) fn live_count<M: Machine>(leaf: Shared<Leaf<M>>) -> usize {
    // Acquire: the fingerprints of committed slots; pairs with the commits.
    let committed = leaf.meta.load(Ordering::Acquire) & super::state::COMMITTED;
    (committed & !leaf.fingerprints.matches(0)).count_ones() as usize
}

impl<K: Kind<M>, G: Geometry, M: Machine> NbTree<K, G, M> {
    /// After a remove: cleans up if the leaf has become thin.
    #[inline(always)]
    pub(super) fn after_remove(
        &self,
        session: &mut Session<M>,
        leaf: Shared<Leaf<M>>,
        key: K::Key<'_>,
    ) {
        if Self::is_thin(live_count(leaf)) {
            self.clean_up(session, key);
        }
    }

    /// Merges the leaf of `key` with a neighbour if both are thin. Returns whether it did.
    #[cold]
    #[inline(never)]
    pub(super) fn clean_up(&self, session: &mut Session<M>, key: K::Key<'_>) -> bool {
        for _ in 0..ROUNDS {
            // Without space nothing is merged; the thin leaves go on to serve.
            match self.try_merge(session, key) {
                Ok(Progress::Merged) => {
                    if !matches!(self.inner.join_thin(session, key), Ok(Joined::Yes | Joined::No)) {
                        self.missed.note();
                    }
                    return true;
                }
                Ok(Progress::NoNeighbour) => match self.inner.join_thin(session, key) {
                    Ok(Joined::Yes) => {}
                    Ok(Joined::No) => return false,
                    Err(error) if !error.lacks_space() => return false,
                    Ok(Joined::Busy) | Err(_) => break,
                },
                Ok(Progress::None) => return false,
                // It would be so the next time.
                Err(error) if !error.lacks_space() => return false,
                Ok(Progress::Busy) | Err(_) => break,
            }
        }
        self.missed.note();
        false
    }

    /// The index of the right one of two leaves to merge: the leaf at `index` and the neighbour that
    /// holds less. (A queue leaves its thin leaves behind it, on the left.)
    fn pair_at(parent: Shared<Inner<M>>, index: usize) -> Option<usize> {
        let live = |index: usize| {
            // SAFETY: children of level 1 are leaves, read while pinned.
            live_count::<M>(unsafe { Shared::new(parent.child(index).cast()) })
        };
        let left = (index > 0).then(|| (live(index - 1), index));
        let right = (index + 1 < usize::from(parent.count)).then(|| (live(index + 1), index + 1));
        let pairs = left.into_iter().chain(right);
        let any = M::mutant("nbtree.merges_over_boundary");
        let allowed = pairs.filter(|(_, right)| any || !K::is_boundary(parent.fence::<K>(*right)));
        allowed.min().map(|(_, right)| right)
    }

    /// One attempt to merge the leaf of `key` with a neighbour under the same parent.
    fn try_merge(&self, session: &mut Session<M>, key: K::Key<'_>) -> Result<Progress, AllocError> {
        let (path, leaf) = self.descend_path(key, false);
        let depth = path.len() - 1;
        let (parent, index) = path.step(depth);
        if parent.count == 1 {
            return Ok(Progress::NoNeighbour);
        }
        let Some(right) = Self::pair_at(parent, index) else { return Ok(Progress::None) };
        // SAFETY: children of level 1 are leaves, read while pinned.
        let a: Shared<Leaf<M>> = unsafe { Shared::new(parent.child(right - 1).cast()) };
        // SAFETY: children of level 1 are leaves, read while pinned.
        let b: Shared<Leaf<M>> = unsafe { Shared::new(parent.child(right).cast()) };
        let replaced = |leaf: Shared<Leaf<M>>| {
            // Relaxed: only a first look; the locks and exchanges below decide.
            leaf.meta.load(Ordering::Relaxed) & (FREEZING | REPLACED) != 0
        };
        if replaced(leaf) || replaced(a) || replaced(b) {
            return Ok(Progress::Busy);
        }
        if (live_count(a) + live_count(b)) * 2 > G::SLOT_COUNT {
            return Ok(Progress::None);
        }
        self.reserve(session, false)?;
        if !parent.try_lock() {
            return Ok(Progress::Busy);
        }
        if !self.inner.lock_parent(&path, depth) {
            parent.unlock();
            return Ok(Progress::Busy);
        }
        let in_place = parent.child(right - 1) == a.as_ptr().cast()
            && parent.child(right) == b.as_ptr().cast();
        let new_parent =
            if in_place { self.merge_locked(session, parent, right, a, b) } else { Ok(None) };
        match new_parent {
            Ok(Some(node)) => {
                M::mark("nbtree.merge.done");
                self.inner.take_place(session, &path, depth, node);
                // The two leaves and their descriptor are out of the tree; so is the fence.
                self.retire_leaf(session, a, !M::mutant("nbtree.merge_keeps_descriptor"));
                self.retire_leaf(session, b, false);
                if M::mutant("nbtree.merge_frees_fence") {
                    K::free_fence(session, b.low);
                } else if !M::mutant("nbtree.keeps_fence") {
                    K::retire_fence(session, b.low);
                }
                self.note_merge(session);
                Ok(Progress::Merged)
            }
            other => {
                self.inner.unlock_parent(&path, depth);
                parent.unlock();
                other.map(|_| Progress::Busy)
            }
        }
    }

    /// Freezes both leaves and merges them, unless one of them is replaced meanwhile. Returns the
    /// parent's copy, without the right leaf, if the merge was committed.
    fn merge_locked(
        &self,
        session: &mut Session<M>,
        parent: Shared<Inner<M>>,
        right: usize,
        a: Shared<Leaf<M>>,
        b: Shared<Leaf<M>>,
    ) -> Result<Option<*mut Inner<M>>, AllocError> {
        let (committed_a, _) = self.freeze(a);
        let (committed_b, _) = self.freeze(b);
        let mut entries = self.frozen_entries(a, committed_a);
        let count_a = entries.len();
        entries.extend(self.frozen_entries(b, committed_b));
        // Acquire: as in `replace_leaf`.
        let taken = !a.successor.load(Ordering::Acquire).is_null();
        let fits = entries.len() <= G::SLOT_COUNT || M::mutant("nbtree.merge_unfit");
        if taken || !fits {
            M::mark("nbtree.merge.given_up");
            self.replace_leaf(session, a, None)?;
            self.replace_leaf(session, b, None)?;
            return Ok(None);
        }
        // Entries of leaves that skip different prefixes are brought to one form first.
        let same = a.skip == b.skip || M::mutant("bytes.merge_keeps_skip");
        let skip = if same { a.skip as usize } else { usize::MAX };
        debug_assert!(count_a <= entries.len());
        let target = self.build_leaf(session, a.low, b.high, &entries, skip, a.block)?;
        let mut children = parent.children::<K>();
        children.splice(right - 1..=right, [(a.low, target.cast())]);
        let new_parent = match inner::build::<K, M>(session, 1, &children) {
            Ok(node) => node,
            Err(error) => {
                self.discard_leaf(session, target);
                return Err(error);
            }
        };
        let contents = Successor {
            left: target,
            right: std::ptr::null_mut(),
            split: b.high,
            merge_left: a.as_ptr(),
            merge_right: b.as_ptr(),
            status: Atomic::new(UNDECIDED),
        };
        let descriptor = match self.new_successor(session, contents) {
            Ok(descriptor) => descriptor,
            Err(error) => {
                self.discard_leaf(session, target);
                // SAFETY: the copy was never published.
                unsafe { session.free_node(new_parent.cast(), inner::inner_size::<K, M>(1)) };
                return Err(error);
            }
        };
        // AcqRel: publishes the descriptor; acquires a faster successor. Pairs with the loads of
        // `successor`.
        let offered = a.successor.compare_exchange(
            std::ptr::null_mut(),
            descriptor,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if offered.is_err() {
            self.discard(session, a, descriptor);
        }
        let brought_on =
            self.replace_leaf(session, a, None).and_then(|_| self.replace_leaf(session, b, None));
        // SAFETY: offered by us, and not reclaimed while we are pinned.
        if offered.is_ok() && Self::is_committed_merge(unsafe { Shared::new(descriptor) }) {
            return Ok(Some(new_parent));
        }
        // SAFETY: the copy was never published.
        unsafe { session.free_node(new_parent.cast(), inner::inner_size::<K, M>(1)) };
        brought_on.map(|_| None)
    }

    /// Gives up the target and descriptor of an aborted merge that the caller took out of the left
    /// leaf: helpers may still look at them.
    fn retire_aborted(&self, session: &mut Session<M>, descriptor: *mut Successor<M>) {
        // SAFETY: only we retire the descriptor, below.
        let target = unsafe { Shared::new(descriptor) }.left;
        // SAFETY: only we retire the target, below.
        let target = unsafe { Shared::new(target) };
        if !M::mutant("nbtree.abort_keeps_target") {
            session.retire_block(target.block);
        }
        // SAFETY: allocated with this size; no leaf leads to it any more, and only one thread took
        // the descriptor out.
        unsafe { session.retire_node(target.as_ptr().cast(), size_of::<Leaf<M>>()) };
        // SAFETY: no leaf leads to it any more, and only one thread took it out.
        unsafe { session.retire_node(descriptor.cast(), size_of::<Successor<M>>()) };
    }

    /// Brings a merge on from wherever it is; part of `replace_leaf`. Returns the candidate that
    /// took the place of an aborted merge, if ours did.
    pub(super) fn help_merge(
        &self,
        session: &mut Session<M>,
        leaf: Shared<Leaf<M>>,
        descriptor: Shared<Successor<M>>,
        carry: Option<&Write<'_, K, M>>,
    ) -> Result<Option<Candidate<M>>, AllocError> {
        self.decide(descriptor);
        if !Self::is_aborted(descriptor) {
            self.complete_merge(session, descriptor);
            return Ok(None);
        }
        // Only the left leaf can still hold an aborted descriptor.
        debug_assert!(descriptor.merge_left == leaf.as_ptr());
        // The merge has used a block of those that were reserved for it.
        self.reserve_for_frozen(session, false)?;
        let (committed, _) = self.freeze(leaf);
        if M::mutant("nbtree.aborted_target_early") {
            let left = descriptor.left;
            // SAFETY: the target is retired no earlier than the descriptor, and we are pinned; the bug is the
            // early retirement of its block.
            session.retire_block(unsafe { Shared::new(left) }.block);
        }
        let candidate = self.build_candidate(session, leaf, committed, carry)?;
        // AcqRel, acquire on failure: as in `freeze_and_propose`.
        let offer = leaf.successor.compare_exchange(
            descriptor.as_ptr(),
            candidate.successor,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if offer.is_ok() {
            M::mark("nbtree.merge.aborted");
            self.retire_aborted(session, descriptor.as_ptr());
            return Ok(Some(candidate));
        }
        self.discard(session, leaf, candidate.successor);
        Ok(None)
    }

    /// Offers the descriptor to the right leaf, and records whether it was taken.
    fn decide(&self, descriptor: Shared<Successor<M>>) {
        // Acquire: as in `is_aborted`.
        if descriptor.status.load(Ordering::Acquire) != UNDECIDED {
            return;
        }
        // SAFETY: the right leaf of a merge that is not decided is in its place, and was when we were pinned: the
        // thread that offered the descriptor has the parent's lock until it is decided, and without that no other takes
        // the leaf out.
        let right = unsafe { Shared::new(descriptor.merge_right) };
        // AcqRel: publishes the descriptor; acquires another successor. Pairs with the loads of
        // `successor`.
        let taken = match right.successor.compare_exchange(
            std::ptr::null_mut(),
            descriptor.as_ptr(),
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => true,
            Err(now) => now == descriptor.as_ptr() && !M::mutant("nbtree.decides_alone"),
        };
        let decision = if taken { COMMITTED } else { ABORTED };
        // AcqRel: the decision, for threads that load the status. Relaxed on failure: all that get here see the same
        // successor of the right leaf, for it never changes once set (but for an abort of a merge of its own, which
        // leaves it different from this descriptor all the same).
        let _ = descriptor.status.compare_exchange(
            UNDECIDED,
            decision,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
    }

    /// Commits and switches a merge that was decided to happen.
    fn complete_merge(&self, session: &mut Session<M>, descriptor: Shared<Successor<M>>) {
        // SAFETY: (all three) retired no earlier than the descriptor.
        let a = unsafe { Shared::new(descriptor.merge_left) };
        // SAFETY: retired no earlier than the descriptor.
        let b = unsafe { Shared::new(descriptor.merge_right) };
        // SAFETY: retired no earlier than the descriptor.
        let target = unsafe { Shared::new(descriptor.left) };
        if M::mutant("nbtree.merge_right_first") {
            self.mark_merging(b, a.block, target.block);
            self.commit_replaced(b, target.block, super::state::NO_BLOCK);
        }
        let late = M::mutant("nbtree.marks_late");
        if !late {
            self.mark_merging(b, a.block, target.block);
        }
        self.commit_replaced(a, target.block, super::state::NO_BLOCK);
        if late {
            self.mark_merging(b, a.block, target.block);
        }
        self.commit_replaced(b, target.block, super::state::NO_BLOCK);
        // AcqRel (both): a thread that sees REPLACED finds the descriptor; pairs with the loads of `meta`.
        a.meta.fetch_or(REPLACED, Ordering::AcqRel);
        let before = b.meta.fetch_or(REPLACED, Ordering::AcqRel);
        if before & REPLACED != 0 {
            M::mark("nbtree.merge.helped");
            return;
        }
        if !M::mutant("nbtree.no_merge_finalize") {
            self.finalize(target, a.block);
        }
        session.retire_block(a.block);
        let is_wrong = M::mutant("nbtree.merge_frees_twice");
        session.retire_block(if is_wrong { a.block } else { b.block });
    }

    /// Durably marks the right block as moving with its partner.
    fn mark_merging(&self, b: Shared<Leaf<M>>, partner: u32, target: u32) {
        let block = self.block(b);
        let merging = BlockState::Merging { partner, target }.encode();
        // Acquire: a helper's mark or commit; pairs with the exchanges.
        let mut seen = block.state.load(Ordering::Acquire);
        while !M::mutant("nbtree.no_merge_mark")
            && !matches!(
                BlockState::decode(seen),
                Some(BlockState::Replaced { .. } | BlockState::Merging { .. })
            )
        {
            // AcqRel: as in `commit_replaced`.
            match block.state.compare_exchange(seen, merging, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        // Persist: the mark before the commit in the partner's word, or recovery would find the
        // right leaf's keys twice (I9).
        if !M::mutant("nbtree.no_merge_mark_flush") {
            self.medium.persist(block.state.as_ptr(), 8);
        }
    }
}

/// What became of an attempt to merge.
enum Progress {
    Merged,
    /// The leaf is the only one under its parent.
    NoNeighbour,
    /// No neighbour is thin enough.
    None,
    /// Somebody is at work there.
    Busy,
}

#[cfg(test)]
mod tests {
    use everleaf_machine::Hardware;
    use everleaf_pool::{Domain, Pool};

    use super::*;
    use crate::Trees;
    use crate::api::change::Intent;
    use crate::geometry::Production;
    use crate::kind::U64Kind;

    type Tree = NbTree<U64Kind, Production, Hardware>;

    fn write(
        tree: &Tree,
        session: &mut Session<Hardware>,
        key: u64,
        intent: Intent,
    ) -> Result<bool, AllocError> {
        let mut pinned = session.pinned();
        let (leaf, meta) = tree.resolve(&mut pinned, key);
        let write = Write { key, intent, payload: key };
        tree.write_from(&mut pinned, leaf, meta, &write).map(|outcome| outcome.changed)
    }

    /// Between the first look at the right leaf and its freezing somebody has replaced it, and the pool
    /// has no blocks but the two that were reserved, of which the merge has used one by then.
    #[test]
    fn a_merge_that_is_aborted_in_a_full_pool_leaves_no_frozen_leaf() {
        let pool = Pool::in_memory(1 << 20, 4 << 20, Domain::Process).expect("memory");
        let trees: Trees = Trees::create(pool).expect("room");
        let session = || trees.heap().session().expect("a session");
        let (mut owner, mut other, mut waster) = (session(), session(), session());
        let tree = Tree::create(&mut owner, 77).expect("room");
        for key in 0..400 {
            assert!(write(&tree, &mut owner, key, Intent::Insert).expect("room"));
        }
        for key in (0..400).filter(|key| key % 3 != 0) {
            assert!(write(&tree, &mut owner, key, Intent::Remove).expect("no space is needed"));
        }
        owner.collect_all();
        owner.give_back();
        other.reserve_blocks(2).expect("room");
        let taken: Vec<u32> = std::iter::from_fn(|| waster.allocate_block().ok()).collect();
        taken[..2].iter().for_each(|block| waster.free_block(*block));
        waster.give_back();
        owner.reserve_blocks(2).expect("they were just given back");

        let mut pinned = owner.pinned();
        let (path, leaf) = tree.descend_path(0, false);
        let (parent, index) = path.step(path.len() - 1);
        // SAFETY: children of level 1 are leaves, read while pinned.
        let neighbour: Shared<Leaf<Hardware>> =
            unsafe { Shared::new(parent.child(index + 1).cast()) };
        let (committed, _) = tree.freeze(neighbour);
        let candidate = tree
            .build_candidate(&mut other.pinned(), neighbour, committed, None)
            .expect("it has the space");
        // AcqRel, acquire on failure: as in `freeze_and_propose`.
        let offered = neighbour.successor.compare_exchange(
            std::ptr::null_mut(),
            candidate.successor,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        assert!(offered.is_ok());
        let merged = tree.merge_locked(&mut pinned, parent, index + 1, leaf, neighbour);
        assert!(matches!(merged, Ok(None)), "{:?}", merged.err());
        // Relaxed: nobody else is here.
        assert_ne!(leaf.meta.load(Ordering::Relaxed) & REPLACED, 0, "it was left frozen");
        drop(pinned);
        for key in (0..400).step_by(3) {
            assert!(write(&tree, &mut owner, key, Intent::Remove).expect("no space is needed"));
        }
        tree.free_all(&mut owner);
    }
}
