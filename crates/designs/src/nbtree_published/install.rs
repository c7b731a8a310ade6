//! The parent follows: a leaf that was replaced leaves the inner nodes.
//!
//! Until then a thread that meets the leaf goes on to its copies, so none has to wait for this, and
//! nobody waits for its lock, but where another allocator has the leaves: there the thread whose log names the old
//! leaf ends that when a ring names it.

use everleaf_alloc::Session;
use everleaf_index::Geometry;
use everleaf_machine::{Machine, SpinGuard};

use super::NbPublished;
use super::layout::{LEAF_SIZE, Leaf, in_pool};
use super::leaves::Leaves;
use super::variant::Variant;

impl<V: Variant, G: Geometry, M: Machine> NbPublished<V, G, M> {
    /// As [`Self::try_install`], for the thread whose log names a leaf that was replaced: where another allocator has
    /// the leaves it waits for a thread that is at the inner nodes.
    pub(super) fn install(&self, session: &mut Session<M>, key: u64) {
        let waits =
            matches!(self.space, Leaves::Blocks(_)) && !M::mutant("nbtree_blocks.leaves_to_others");
        let writer = if waits { Some(self.inner.lock()) } else { self.inner.try_lock() };
        self.install_with(session, key, writer);
    }

    /// Makes the inner nodes lead to the leaf that has `key`, unless somebody is at them, or there is no memory for a
    /// node.
    pub(super) fn try_install(&self, session: &mut Session<M>, key: u64) {
        self.install_with(session, key, self.inner.try_lock());
    }

    fn install_with(
        &self,
        session: &mut Session<M>,
        key: u64,
        writer: Option<SpinGuard<'_, (), M>>,
    ) {
        let Some(writer) = writer else {
            M::mark("nbtree_published.install_busy");
            return;
        };
        loop {
            let place = self.inner.find(key);
            let leaf = self.leaf(place);
            if !self.is_linked(leaf) {
                return;
            }
            let left = self.copy_of(leaf).expect("a leaf is linked when it has copies");
            let right = left.right();
            if !right.is_null() {
                // First: a thread that looks for its keys goes there, or over the old leaf.
                let low = self.leaf(right).low();
                if self.inner.insert(&writer, session, low, right).is_err() {
                    M::mark("nbtree_published.install_failed");
                    self.space.note_unnamed(session);
                    return;
                }
            }
            let copy = leaf.copy.read_private();
            self.inner.replace(&writer, leaf.low(), place, copy);
            self.retire(session, leaf, place);
        }
    }

    /// Gives a leaf back that the list and the inner nodes have lost, when nobody can hold it.
    fn retire(&self, session: &mut Session<M>, leaf: &Leaf<M>, place: *mut Leaf<M>) {
        self.space.retire(session, leaf.block());
        if !in_pool::<V>(self.is_writable) {
            // SAFETY: allocated with this size; out of the inner nodes, and the leaf that leads
            // here by its copies was retired before, so only threads that are pinned now can hold
            // it. Once, by the holder of the lock, which took it out.
            unsafe { session.retire_node(place.cast(), LEAF_SIZE) };
        }
    }
}
