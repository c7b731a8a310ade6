//! Merging nodes with few pairs, or few children, and the end of a root with one child.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::Machine;

use super::BzTree;
use super::scan::Pairs;
use super::search::Step;
use super::split::{Edit, Rebuild, thaw_tries};
use super::state::GONE;
use super::variant::Variant;
use super::write::Stop;

/// Two children of an inner node to be merged, next to each other: the first one, and where the thin one and
/// the other are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Two {
    pub holder: u64,
    pub at: usize,
    pub thin: usize,
    pub other: usize,
    pub is_leaf: bool,
}

impl<V: Variant, M: Machine> BzTree<V, M> {
    /// Merges the leaf of a key, and what is above it, with neighbours, as long as they have little. Only for the
    /// sake of space: what cannot be done now is done by a later removal. The caller is not pinned, so that what
    /// it has retired can be used again.
    pub(super) fn merge_thin(&self, session: &mut Session<M>, key: u64) {
        let (mut height, mut is_collected) = (0, false);
        loop {
            let mut pinned = session.pinned();
            let merged = self.merge_at(&mut pinned, key, height);
            drop(pinned);
            match merged {
                Ok(true) => height += 1,
                Err(stop) if stop.lacks_space() && !is_collected => {
                    session.collect_all();
                    is_collected = true;
                }
                _ => return,
            }
        }
    }

    /// Merges the node of a key at this height above the leaves, if it is thin; false if it is not, or
    /// there is nothing above it.
    fn merge_at(&self, session: &mut Session<M>, key: u64, height: usize) -> Result<bool, Stop> {
        let stripe = session.stripe();
        let path = self.find_path(stripe, key);
        // The last but `height`, and something above it.
        let Some(level) = (path.len() - 1).checked_sub(height).filter(|level| *level > 0) else {
            return Ok(false);
        };
        let (holder, node) = (path[level - 1], path[level].node);
        let is_leaf = height == 0;
        let most = Self::most_of(is_leaf);
        if self.contents(stripe, node, is_leaf).len() > (most / 4).max(height.min(1)) {
            return Ok(false);
        }
        let (_, count) = self.shape(holder.node);
        if count < 2 {
            // What is above has little, too.
            return Ok(true);
        }
        let (at, thin) = (holder.index.saturating_sub(1), holder.index);
        let other = if thin > at { at } else { at + 1 };
        self.merge(session, key, Two { holder: holder.node, at, thin, other, is_leaf })
    }

    /// How much a new node may have, so that it has room for more.
    fn most_of(is_leaf: bool) -> usize {
        if is_leaf { Self::LEAF_MAX } else { V::CHILD_COUNT }
    }

    /// Makes one node of two, or two that have as much as each other.
    pub(super) fn merge(&self, session: &mut Session<M>, key: u64, two: Two) -> Result<bool, Stop> {
        if !self.words.has_free() {
            // Nothing is frozen that nobody could replace.
            return Err(Stop::NoDescriptor);
        }
        let mut rebuild = self.begin_merge(session, two)?;
        let done = self.merge_with(session, &mut rebuild, key, two);
        self.end(session, rebuild, matches!(done, Ok(true)));
        done
    }

    /// The same with nodes that the caller has. Two are enough if all fits into one, but not for a copy of each node
    /// that is frozen: so it waits for a descriptor.
    pub(super) fn merge_with(
        &self,
        session: &mut Session<M>,
        rebuild: &mut Rebuild,
        key: u64,
        two: Two,
    ) -> Result<bool, Stop> {
        let (stripe, Two { holder, at, .. }) = (session.stripe(), two);
        // The holder first: then its children are what they are.
        self.freeze(stripe, holder);
        if !self.is_on_path(stripe, key, holder) {
            // It was replaced, and frozen before. Its children may be in use.
            return Ok(false);
        }
        let children = self.children(stripe, holder);
        let (left, (bound, right)) = (children[at].1, children[at + 1]);
        self.freeze(stripe, children[two.thin].1);
        let mut done = Ok(false);
        if rebuild.spare_count() > 2 || self.fits(stripe, two) {
            self.freeze(stripe, children[two.other].1);
            done = self.merge_frozen(session, rebuild, key, (two, left, right));
        }
        if !matches!(done, Ok(true)) {
            self.thaw(session, rebuild, bound, right);
            self.thaw(session, rebuild, bound - 1, left);
        }
        done
    }

    /// Makes room for a merge: for two nodes and a copy of what is above, or, if there is no room for those
    /// and all that can be in both fits into one, for that and the copy. So a full pool can get room back.
    fn begin_merge(&self, session: &mut Session<M>, two: Two) -> Result<Rebuild, AllocError> {
        match self.begin(session, 3) {
            Err(error) if error.lacks_space() && self.fits(session.stripe(), two) => {
                // No search is known to come here.
                self.begin(session, 2).map_err(|_| error)
            }
            begun => begun,
        }
    }

    /// Whether all that can be in both nodes when they are frozen fits into one: the thin one is.
    fn fits(&self, stripe: usize, two: Two) -> bool {
        let [thin, other] = [two.thin, two.other].map(|at| self.child(stripe, two.holder, at));
        if !two.is_leaf {
            return self.shape(thin).1 + self.shape(other).1 <= V::CHILD_COUNT;
        }
        let gone = (0..V::SLOT_COUNT).filter(|slot| self.meta(stripe, other, *slot) == GONE);
        self.pairs(stripe, thin).len() <= gone.count()
    }

    /// Replaces two frozen nodes and what is above them. If what is above that changes, again; and if no descriptor
    /// is free, when one is.
    fn merge_frozen(
        &self,
        session: &mut Session<M>,
        rebuild: &mut Rebuild,
        key: u64,
        (two, left, right): (Two, u64, u64),
    ) -> Result<bool, Stop> {
        let (stripe, Two { holder, at, is_leaf, .. }) = (session.stripe(), two);
        M::mark(if is_leaf { "bztree.merge" } else { "bztree.merge_inner" });
        let has_two = rebuild.spare_count() > 2;
        let most = if is_leaf && !has_two { V::SLOT_COUNT } else { Self::most_of(is_leaf) };
        for attempt in 0..thaw_tries::<M>() {
            // The path first: behind another pin they may be other nodes, or have other contents.
            let path = self.find_path(stripe, key);
            let Some(level) = path.iter().position(|step| step.node == holder) else { break };
            let Some(all) = self.contents_of(stripe, two, left, right) else { break };
            rebuild.restart();
            rebuild.replaces(left);
            rebuild.replaces(right);
            let done = self
                .build_parts(session, rebuild, (is_leaf, most), &all)
                .map_err(Stop::from)
                .and_then(|by| {
                    self.edit(session, rebuild, &path[..=level], Edit { at, count: 2, by })
                });
            match done {
                Ok(false) => {}
                // As in `thaw`.
                Err(stop) if stop.lacks_space() => {}
                Err(Stop::NoDescriptor) if !M::mutant("bztree.leaves_frozen") => {
                    if !self.waited_for_descriptor(session) {
                        return Err(Stop::NoDescriptor);
                    }
                    continue;
                }
                done => return done,
            }
            M::spin(attempt);
        }
        Ok(false)
    }

    /// The contents of two nodes as those of one, if they and what is above them are frozen.
    fn contents_of(&self, stripe: usize, two: Two, left: u64, right: u64) -> Option<Pairs> {
        let Two { holder, at, is_leaf, .. } = two;
        if self.shape(holder).0 || !self.status(stripe, holder).is_frozen() {
            return None;
        }
        let children = self.children(stripe, holder);
        let [(_, first), (bound, second)] = children.get(at..at + 2)? else { return None };
        if (*first, *second) != (left, right) {
            return None;
        }
        let is_one = |node| self.shape(node).0 == is_leaf && self.status(stripe, node).is_frozen();
        if !is_one(left) || !is_one(right) {
            return None;
        }
        let mut all = self.contents(stripe, left, is_leaf);
        let mut more = self.contents(stripe, right, is_leaf);
        if let (false, Some(first)) = (is_leaf, more.first_mut()) {
            // The first child of an inner node has no bound of its own.
            first.0 = *bound;
        }
        all.append(&mut more);
        Some(all)
    }

    /// Whether a node is on the way to a key.
    fn is_on_path(&self, stripe: usize, key: u64, node: u64) -> bool {
        self.find_path(stripe, key).iter().any(|step: &Step| step.node == node)
    }

    /// The pairs of a leaf, or the children of an inner node.
    pub(super) fn contents(&self, stripe: usize, node: u64, is_leaf: bool) -> Pairs {
        if is_leaf { self.pairs(stripe, node) } else { self.children(stripe, node) }
    }
}
