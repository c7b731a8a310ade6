//! Merging two neighbouring thin leaves, so that empty space is returned.
//!
//! As `nbtree/merge.rs`, but that blocks are retired when the parent no longer leads to them: the
//! merging thread holds the locks of the leaves' common parent and of its parent, freezes both leaves,
//! and offers one descriptor first to the left leaf, then (any helper) to the right one. If the right
//! leaf has chosen another successor meanwhile, the merge is aborted and the left leaf is replaced
//! alone. Durably, the right block is marked `Merging` before the left block's state word, which is the
//! commit, names the target. What could not be merged is tried again when the pool is full (`thin.rs`).

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Atomic, Machine, Ordering};

use super::HashedLeafTree;
use super::candidate::Candidate;
use super::layout::{FREEZING, LeafId, LeafShape, REPLACED, Successor};
use crate::kind::Kind;
use crate::nbtree::inner;
use crate::nbtree::inner_tree::Joined;
use crate::nbtree::layout::Inner;
use crate::nbtree::shared::Shared;
use crate::nbtree::state::{BlockState, NO_BLOCK};
use crate::nbtree::write::Write;

const UNDECIDED: u32 = 0;
/// Both leaves have the descriptor as their successor.
pub(super) const COMMITTED: u32 = 1;
/// The right leaf has another successor.
pub(super) const ABORTED: u32 = 2;

/// Rounds of one clean-up: joining thin inner nodes can make the leaf merge possible.
const ROUNDS: usize = 3;

impl<K: Kind<M>, G: LeafShape, M: Machine> HashedLeafTree<K, G, M> {
    /// After a removal from a chunk that holds no more than a thin leaf may: cleans up if the leaf has become thin. The
    /// keys that are left may all be in that chunk: of a scaled leaf neighbours are.
    #[inline(never)]
    pub(super) fn after_remove(
        &self,
        session: &mut Session<M>,
        leaf: LeafId,
        chunk: usize,
        key: K::Key<'_>,
    ) {
        let mut live = 0;
        for turn in 0..G::CHUNKS {
            live += self.live_in_chunk(leaf, (chunk + turn) % G::CHUNKS);
            if !Self::is_thin(live) {
                return;
            }
        }
        self.clean_up(session, key);
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
    fn pair_at(&self, parent: Shared<Inner<M>>, index: usize) -> Option<usize> {
        let live = |index: usize, right: usize| {
            let leaf = LeafId::of_child(parent.child(index));
            leaf.stands_in_for().is_none().then(|| (self.live_count(leaf), right))
        };
        let left = if index > 0 { live(index - 1, index) } else { None };
        let right =
            if index + 1 < usize::from(parent.count) { live(index + 1, index + 1) } else { None };
        let pairs = left.into_iter().chain(right);
        let allowed = pairs.filter(|(_, right)| !K::is_boundary(parent.fence::<K>(*right)));
        allowed.min().map(|(_, right)| right)
    }

    /// Whether a neighbour of the leaf at `index` is left out by `pair_at` because something stands in for it.
    fn stands_in_beside(&self, parent: Shared<Inner<M>>, index: usize) -> bool {
        let stands_in =
            |index: usize| LeafId::of_child(parent.child(index)).stands_in_for().is_some();
        (index > 0 && stands_in(index - 1))
            || (index + 1 < usize::from(parent.count) && stands_in(index + 1))
    }

    /// One attempt to merge the leaf of `key` with a neighbour under the same parent.
    fn try_merge(&self, session: &mut Session<M>, key: K::Key<'_>) -> Result<Progress, AllocError> {
        let (path, child) = self.inner.descend_path(key, false);
        let leaf = LeafId::of_child(child);
        let depth = path.len() - 1;
        let (parent, index) = path.step(depth);
        if parent.count == 1 {
            return Ok(Progress::NoNeighbour);
        }
        self.restore_beside(&path)?;
        let Some(right) = self.pair_at(parent, index) else {
            // A neighbour was restored while somebody else had the parent: it is put in its place by the next look.
            let waits = self.stands_in_beside(parent, index);
            return Ok(if waits { Progress::Busy } else { Progress::None });
        };
        let a = LeafId::of_child(parent.child(right - 1));
        let b = LeafId::of_child(parent.child(right));
        let replaced = |leaf: LeafId| {
            // Relaxed: only a first look; the locks and exchanges below decide.
            self.cold(leaf).flags.load(Ordering::Relaxed) & (FREEZING | REPLACED) != 0
        };
        if replaced(leaf) || replaced(a) || replaced(b) {
            return Ok(Progress::Busy);
        }
        if (self.live_count(a) + self.live_count(b)) * 2 > G::CAPACITY {
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
        let in_place =
            parent.child(right - 1) == a.as_child() && parent.child(right) == b.as_child();
        let new_parent =
            if in_place { self.merge_locked(session, parent, right, a, b) } else { Ok(None) };
        match new_parent {
            Ok(Some(node)) => {
                M::mark("hashed.merge.done");
                self.inner.take_place(session, &path, depth, node);
                // The two leaves and their descriptor are out of the tree; so is the fence.
                self.retire_leaf(session, a, true);
                self.retire_leaf(session, b, false);
                let fence = self.cold(b).low.read_private();
                if M::mutant("hashed.frees_fence") {
                    K::free_fence(session, fence);
                } else {
                    K::retire_fence(session, fence);
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
        a: LeafId,
        b: LeafId,
    ) -> Result<Option<*mut Inner<M>>, AllocError> {
        self.freeze(a);
        self.freeze(b);
        let mut entries = self.frozen_entries(a);
        entries.extend(self.frozen_entries(b));
        // Acquire: as in `replace_leaf`.
        let taken = !self.cold(a).successor.load(Ordering::Acquire).is_null();
        let fits = entries.len() <= G::CAPACITY;
        if taken || !fits {
            M::mark("hashed.merge.given_up");
            self.replace_leaf(session, a, None)?;
            self.replace_leaf(session, b, None)?;
            return Ok(None);
        }
        // Entries of leaves that skip different prefixes are brought to one form first.
        let same = self.skip(a) == self.skip(b) || M::mutant("hashed.merge_keeps_skip");
        let skip = if same { self.skip(a) } else { usize::MAX };
        let (low, high) = (self.cold(a).low.read_private(), self.cold(b).high.read_private());
        let target = self.build_leaf(session, low, high, &entries, skip, a.block::<G>())?;
        let mut children = parent.children::<K>();
        children.splice(right - 1..=right, [(low, target.as_child())]);
        let new_parent = match inner::build::<K, M>(session, 1, &children) {
            Ok(node) => node,
            Err(error) => {
                self.discard_leaf(session, target);
                return Err(error);
            }
        };
        let contents = Successor {
            left: target,
            right: None,
            split: high,
            merging: Some((a, b)),
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
        let offered = self.cold(a).successor.compare_exchange(
            std::ptr::null_mut(),
            descriptor,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if offered.is_err() {
            self.discard(session, descriptor);
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
        if !M::mutant("hashed.abort_keeps_target") {
            session.retire_block_of(G::BLOCK_CLASS, target.block::<G>());
        }
        // SAFETY: allocated with this size; no leaf leads to it any more, and only one thread took
        // the descriptor out.
        unsafe { session.retire_node(descriptor.cast(), size_of::<Successor<M>>()) };
    }

    /// Brings a merge on from wherever it is; part of `replace_leaf`. Returns the candidate that
    /// took the place of an aborted merge, if ours did.
    pub(super) fn help_merge(
        &self,
        session: &mut Session<M>,
        leaf: LeafId,
        descriptor: Shared<Successor<M>>,
        carry: Option<&Write<'_, K, M>>,
    ) -> Result<Option<Candidate<M>>, AllocError> {
        self.decide(descriptor);
        if !Self::is_aborted(descriptor) {
            self.complete_merge(descriptor);
            return Ok(None);
        }
        // Only the left leaf can still hold an aborted descriptor.
        debug_assert!(descriptor.merging.is_some_and(|(left, _)| left == leaf));
        // The merge has used a block of those that were reserved for it.
        self.reserve_for_frozen(session, false)?;
        self.freeze(leaf);
        let candidate = self.build_candidate(session, leaf, carry)?;
        // AcqRel, acquire on failure: as in `freeze_and_propose`.
        let offer = self.cold(leaf).successor.compare_exchange(
            descriptor.as_ptr(),
            candidate.successor,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if offer.is_ok() {
            M::mark("hashed.merge.aborted");
            self.retire_aborted(session, descriptor.as_ptr());
            return Ok(Some(candidate));
        }
        self.discard(session, candidate.successor);
        Ok(None)
    }

    /// Offers the descriptor to the right leaf, and records whether it was taken.
    fn decide(&self, descriptor: Shared<Successor<M>>) {
        // Acquire: as in `is_aborted`.
        if descriptor.status.load(Ordering::Acquire) != UNDECIDED {
            return;
        }
        // The number is that leaf's still: the thread that offered the descriptor has the parent's lock until it is
        // decided, and without that no other takes the leaf out. (Of a merge that was aborted it may be another's by
        // now.)
        let (_, right) = descriptor.merging.expect("only merges are decided");
        // AcqRel: publishes the descriptor; acquires another successor. Pairs with the loads of
        // `successor`.
        let taken = match self.cold(right).successor.compare_exchange(
            std::ptr::null_mut(),
            descriptor.as_ptr(),
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => true,
            Err(now) => now == descriptor.as_ptr() && !M::mutant("hashed.decides_alone"),
        };
        let decision = if taken { COMMITTED } else { ABORTED };
        // AcqRel on success, relaxed on failure: all that get here see the same successor of the
        // right leaf, for it never changes once set (but for an abort of a merge of its own, which
        // leaves it different from this descriptor all the same).
        let _ = descriptor.status.compare_exchange(
            UNDECIDED,
            decision,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
    }

    /// Commits and switches a merge that was decided to happen.
    fn complete_merge(&self, descriptor: Shared<Successor<M>>) {
        let (a, b) = descriptor.merging.expect("only merges are completed here");
        let target = descriptor.left;
        if M::mutant("hashed.merge_right_first") {
            self.mark_merging(b, a.block::<G>(), target.block::<G>());
            self.commit_replaced(b, target.block::<G>(), NO_BLOCK);
        }
        let late = M::mutant("hashed.marks_late");
        if !late {
            self.mark_merging(b, a.block::<G>(), target.block::<G>());
        }
        self.commit_replaced(a, target.block::<G>(), NO_BLOCK);
        if late {
            self.mark_merging(b, a.block::<G>(), target.block::<G>());
        }
        self.commit_replaced(b, target.block::<G>(), NO_BLOCK);
        // AcqRel (both): a thread that sees REPLACED finds the descriptor; pairs with the loads of `flags`.
        self.cold(a).flags.fetch_or(REPLACED, Ordering::AcqRel);
        let before = self.cold(b).flags.fetch_or(REPLACED, Ordering::AcqRel);
        if before & REPLACED != 0 {
            M::mark("hashed.merge.helped");
            return;
        }
        self.finalize(target, a.block::<G>());
    }

    /// Durably marks the right block as moving with its partner.
    fn mark_merging(&self, b: LeafId, partner: u32, target: u32) {
        let state = &self.header(b).state;
        let merging = BlockState::Merging { partner, target }.encode();
        // Acquire: a helper's mark or commit; pairs with the exchanges.
        let mut seen = state.load(Ordering::Acquire);
        while !M::mutant("hashed.no_merge_mark")
            && !matches!(
                BlockState::decode(seen),
                Some(BlockState::Replaced { .. } | BlockState::Merging { .. })
            )
        {
            // AcqRel: as in `commit_replaced`.
            match state.compare_exchange(seen, merging, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        // Persist: the mark before the commit in the partner's word, or recovery would find the
        // right leaf's keys twice (I9).
        if !M::mutant("hashed.no_merge_mark_flush") {
            self.medium.persist(state.as_ptr(), 8);
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
