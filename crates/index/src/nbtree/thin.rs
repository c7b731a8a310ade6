//! Thin leaves that were left, and are merged later.
//!
//! A removal merges the leaf that it has made thin. It does so without waiting: where there is no space for the merged
//! leaf, or somebody has a lock, the thin leaf stays, and no other removal needs to come there. What is missed is
//! counted, and a thread that finds the pool full goes through the leaves once more (`pool_trees/trees/thin.rs`): each
//! step is a merge as a removal makes it.

use everleaf_alloc::Session;
use everleaf_machine::{Machine, Ordering};

use super::NbTree;
use super::layout::Leaf;
use super::merge::live_count;
use super::missed::{Look, Missed, SweepPlace, Swept};
use super::shared::Shared;
use super::state::REPLACED;
use crate::geometry::Geometry;
use crate::kind::Kind;

impl<K: Kind<M>, G: Geometry, M: Machine> NbTree<K, G, M> {
    /// The merges that were missed.
    pub(crate) fn missed(&self) -> &Missed<M> {
        &self.missed
    }

    /// Whether a leaf that holds so many keys should be merged.
    #[inline(always)]
    pub(super) fn is_thin(live_count: usize) -> bool {
        live_count * 8 <= G::SLOT_COUNT
    }

    /// Goes on from `place` over the leaves below one node, up to the first one that it merges, or that was replaced;
    /// there it stays. The session is pinned.
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
            // SAFETY: children of level 1 are leaves, read while pinned.
            let leaf: Shared<Leaf<M>> = unsafe { Shared::new(parent.child(index).cast()) };
            let low = parent.fence::<K>(index);
            if swept.ends_at(self.merge_again(session, leaf, low)) {
                *place = SweepPlace::At(K::keep_fence(self.base, low));
                return swept;
            }
        }
        *place = SweepPlace::behind::<K, M>(self.base, path.beside(last).bounds::<K>().1);
        swept
    }

    /// Merges the leaf with this lower bound, if it is thin.
    fn merge_again(&self, session: &mut Session<M>, leaf: Shared<Leaf<M>>, low: u64) -> Look {
        let key = K::fence_as_key(self.base, low);
        // Acquire: as in `resolve`.
        let is_replaced = |leaf: Shared<Leaf<M>>| leaf.meta.load(Ordering::Acquire) & REPLACED != 0;
        if is_replaced(leaf) {
            self.try_install(session, key);
            let (_, leaf) = self.descend_path(key, false);
            return if is_replaced(leaf) { Look::Busy } else { Look::Installed };
        }
        match Self::is_thin(live_count(leaf)) && self.clean_up(session, key) {
            true => Look::Merged,
            false => Look::Stays,
        }
    }
}
