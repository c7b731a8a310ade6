//! Thin leaves that were left, and are merged later.
//!
//! A removal merges the leaf that it has made thin. It does so without waiting: where there is no space for the merged
//! leaf, or somebody has a lock, the thin leaf stays, and no other removal needs to come there. What is missed is
//! counted, and who finds the pool full goes through the leaves once more (`pool_trees/trees/thin.rs`): each step is a
//! merge as a removal makes it.

use everleaf_alloc::Session;
use everleaf_machine::{Machine, Ordering};

use super::NbTree;
use super::layout::Leaf;
use super::merge::live_count;
use super::missed::{Missed, SWEPT_TOGETHER, SweepPlace};
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

    /// Goes on from `place` over some leaves, up to the first one that it merges; there it stays. Returns whether it
    /// has merged one. The session is pinned.
    pub(crate) fn merge_some(
        &self,
        session: &mut Session<M>,
        place: &mut SweepPlace<K::Kept>,
    ) -> bool {
        for _ in 0..SWEPT_TOGETHER {
            let Some(path) = place.path(&self.inner) else { return false };
            let (parent, first) = path.step(path.len() - 1);
            let last = usize::from(parent.count) - 1;
            for index in first..=last {
                // SAFETY: children of level 1 are leaves, read while pinned.
                let leaf: Shared<Leaf<M>> = unsafe { Shared::new(parent.child(index).cast()) };
                let low = parent.fence::<K>(index);
                if self.merge_again(session, leaf, low) {
                    *place = SweepPlace::At(K::keep_fence(self.base, low));
                    return true;
                }
            }
            *place = SweepPlace::behind::<K, M>(self.base, path.beside(last).bounds::<K>().1);
        }
        false
    }

    /// Merges the leaf with this lower bound, if it is thin.
    fn merge_again(&self, session: &mut Session<M>, leaf: Shared<Leaf<M>>, low: u64) -> bool {
        let mut leaf = leaf;
        // Acquire: as in `resolve`.
        if leaf.meta.load(Ordering::Acquire) & REPLACED != 0 {
            let key = K::fence_as_key(self.base, low);
            self.try_install(session, key);
            (_, leaf) = self.descend_path(key, false);
        }
        let is_thin = Self::is_thin(live_count(leaf));
        is_thin && self.clean_up(session, K::fence_as_key(self.base, low))
    }
}
