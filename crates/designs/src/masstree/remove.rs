//! Border nodes that became empty leave the tree.

use everleaf_alloc::Session;
use everleaf_machine::Machine;

use super::Masstree;
use super::layout::Border;

impl<const WIDTH: usize, M: Machine> Masstree<WIDTH, M> {
    /// Takes an empty node, whose lock the caller gives up, out of the tree: its keys belong to the node
    /// on its left from then on. It stays, empty, if it is its parent's first child, or if the one on its
    /// left is locked: the thread that holds that lock may wait for the parent.
    pub(super) fn remove_empty(&self, session: &mut Session<M>, node: &Border<M>) {
        let Some(parent) = self.lock_parent(&node.header) else {
            return node.header.version.unlock_after(true);
        };
        let mut children = parent.children();
        let this = std::ptr::from_ref(&node.header).cast_mut();
        let place = children.iter().position(|child| child.1 == this);
        let left = place.and_then(|place| place.checked_sub(1));
        let left = left.map(|left| self.border(children[left].1));
        let (Some(place), Some(left)) = (place, left.filter(|left| left.header.version.try_lock()))
        else {
            parent.header.version.unlock_unchanged();
            return node.header.version.unlock_after(true);
        };
        M::mark("masstree.node_removed");
        // All marks before all changes (T3). Nothing leaves the left node, but its range grows: a thread
        // that reads it and its link sees both of one instant.
        node.header.version.begin_delete();
        left.header.version.begin_insert();
        parent.header.version.begin_insert();
        debug_assert!(std::ptr::eq(left.next(), node), "neighbours below one node");
        left.set_next(node.next());
        children.remove(place);
        parent.set_children(&children);
        parent.header.version.unlock();
        left.header.version.unlock();
        node.header.version.unlock();
        self.merges.add(session.stripe(), 1);
        let place: *mut u8 = this.cast();
        if M::mutant("masstree.free_at_once") {
            // SAFETY: planted: others may still read it.
            unsafe { session.free_node(place, size_of::<Border<M>>()) };
        } else {
            // SAFETY: made with this size, by a session of this heap, and unlinked just now, by its only
            // remover: it was locked and not deleted. A thread that is pinned may still read it.
            unsafe { session.retire_node(place, size_of::<Border<M>>()) };
        }
    }
}
