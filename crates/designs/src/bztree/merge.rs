//! Merging nodes with few pairs, or few children, and the end of a root with one child.

use everleaf_alloc::Session;
use everleaf_machine::Machine;

use super::BzTree;
use super::scan::Pairs;
use super::search::Step;
use super::split::Edit;
use super::variant::Variant;
use super::write::Stop;

impl<V: Variant, M: Machine> BzTree<V, M> {
    /// Merges the leaf of a key, and what is above it, with neighbours, as long as they have little. Only for the
    /// sake of space: what cannot be done now is done by a later removal.
    pub(super) fn merge_thin(&self, session: &mut Session<M>, key: u64) {
        let mut height = 0;
        while let Ok(true) = self.merge_at(session, key, height) {
            height += 1;
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
        let (above, node) = (&path[..level], path[level].node);
        let holder = above[level - 1];
        let is_leaf = height == 0;
        let most = if is_leaf { Self::LEAF_MAX } else { V::CHILD_COUNT };
        if self.contents(stripe, node, is_leaf).len() > (most / 4).max(height.min(1)) {
            return Ok(false);
        }
        let (_, count) = self.shape(holder.node);
        if count < 2 {
            // What is above has little, too.
            return Ok(true);
        }
        let at = if holder.index > 0 { holder.index - 1 } else { 0 };
        self.merge(session, above, at, (is_leaf, most))
    }

    /// Makes one node of two children of the last one of a path, or two that have as much as each other.
    fn merge(
        &self,
        session: &mut Session<M>,
        path: &[Step],
        at: usize,
        (is_leaf, most): (bool, usize),
    ) -> Result<bool, Stop> {
        let Some(holder) = path.last() else { return Ok(false) };
        let stripe = session.stripe();
        let mut rebuild = self.begin(session, 3)?;
        // The holder first: then its children are what they are.
        self.freeze(stripe, holder.node);
        let children = self.children(stripe, holder.node);
        let (left, right) = (children[at].1, children[at + 1]);
        for node in [left, right.1] {
            self.freeze(stripe, node);
            rebuild.replaces(node);
        }
        let mut all = self.contents(stripe, left, is_leaf);
        let mut more = self.contents(stripe, right.1, is_leaf);
        if let (false, Some(first)) = (is_leaf, more.first_mut()) {
            // The first child of an inner node has no bound of its own.
            first.0 = right.0;
        }
        all.append(&mut more);
        M::mark(if is_leaf { "bztree.merge" } else { "bztree.merge_inner" });
        let done = self
            .build_parts(session, &mut rebuild, (is_leaf, most), &all)
            .map_err(Stop::from)
            .and_then(|by| self.edit(session, &mut rebuild, path, Edit { at, count: 2, by }));
        self.end(session, rebuild, matches!(done, Ok(true)));
        done
    }

    /// The pairs of a leaf, or the children of an inner node.
    fn contents(&self, stripe: usize, node: u64, is_leaf: bool) -> Pairs {
        if is_leaf { self.pairs(stripe, node) } else { self.children(stripe, node) }
    }
}
