//! Thin leaves that were left, and are merged later; as `nbtree/thin.rs`.

use everleaf_alloc::Session;
use everleaf_machine::Machine;

use super::HashedLeafTree;
use super::layout::{LeafId, LeafShape};
use crate::kind::Kind;
use crate::nbtree::inner_tree::Path;
use crate::nbtree::{Look, Missed, SweepPlace, Swept};

impl<K: Kind<M>, G: LeafShape, M: Machine> HashedLeafTree<K, G, M> {
    /// The merges that were missed.
    pub(crate) fn missed(&self) -> &Missed<M> {
        &self.missed
    }

    /// Whether a leaf that holds so many keys should be merged.
    pub(super) fn is_thin(live_count: usize) -> bool {
        live_count * 8 <= G::CAPACITY
    }

    /// Goes on from `place` over the leaves below one node, up to the first one that it merges, or that was replaced;
    /// there it stays. Leaves that opening has left are passed, and not noted as looked at. The session is pinned.
    pub(crate) fn merge_some(
        &self,
        session: &mut Session<M>,
        place: &mut SweepPlace<K::Kept>,
    ) -> Swept {
        let mut swept = Swept::default();
        let Some(path) = place.path(&self.inner) else { return swept };
        let (parent, first) = path.step(path.len() - 1);
        let last = usize::from(parent.count) - 1;
        for index in first..=last {
            let low = parent.fence::<K>(index);
            let Some(leaf) = self.restored_leaf(&path.beside(index), parent.child(index)) else {
                swept.ends_at(Look::Busy);
                continue;
            };
            if swept.ends_at(self.merge_again(session, leaf, low)) {
                *place = SweepPlace::At(K::keep_fence(self.base, low));
                return swept;
            }
        }
        *place = SweepPlace::behind::<K, M>(self.base, path.beside(last).bounds::<K>().1);
        swept
    }

    /// The leaf that a path and its child lead to or stand in for, unless it is still to be restored.
    fn restored_leaf(&self, path: &Path<M>, child: *mut ()) -> Option<LeafId> {
        let is_there = LeafId::of_child(child).stands_in_for().is_none()
            || self.is_restored(self.leaf_behind(child));
        // Nothing of it is damaged: it is restored. If a lock was not free then, it may be now.
        if is_there { self.leaf_at(path, child).ok() } else { None }
    }

    /// Merges the leaf with this lower bound, if it is thin.
    fn merge_again(&self, session: &mut Session<M>, leaf: LeafId, low: u64) -> Look {
        let key = K::fence_as_key(self.base, low);
        if self.is_replaced(leaf) {
            self.try_install(session, key);
            let leaf = LeafId::of_child(self.inner.descend_path(key, false).1);
            return if self.is_replaced(leaf) { Look::Busy } else { Look::Installed };
        }
        match Self::is_thin(self.live_count(leaf)) && self.clean_up(session, key) {
            true => Look::Merged,
            false => Look::Stays,
        }
    }
}
