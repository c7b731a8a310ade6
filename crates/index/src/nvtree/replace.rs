//! Replacing a full leaf by one or two new ones.

use everleaf_alloc::Session;
use everleaf_machine::{Machine, Ordering};

use super::leaf::NvLeaf;
use crate::error::IndexError;
use crate::geometry::Geometry;
use crate::kernels::hybrid::Hybrid;
use crate::kernels::hybrid::leaf::LeafDesign;

type Tree<G, M> = Hybrid<NvLeaf, G, M>;

/// Replaces a full leaf, locked by the caller: by two if more than half of it is live, else by one.
/// Then its lock has been opened for ever, unless there was an error.
pub(super) fn replace<G: Geometry, M: Machine>(
    tree: &Tree<G, M>,
    session: &mut Session<M>,
    offset: u64,
) -> Result<(), IndexError> {
    let header = &tree.leaf(offset).header;
    let pairs = NvLeaf::pairs(tree.frame, tree.leaf(offset));
    let splits = pairs.len() > tree.frame.capacity / 2 && pairs.len() > 1;
    let keep = if splits { pairs.len() / 2 } else { pairs.len() };
    M::mark(if splits { "nvtree.split" } else { "nvtree.replace" });
    let mut right = 0;
    if splits {
        right = build(tree, session, pairs[keep].0, header.next(), &pairs[keep..])?;
    }
    let next = if splits { right } else { header.next() };
    let made = build(tree, session, header.low(), next, &pairs[..keep]).and_then(|left| {
        if splits && let Err(error) = tree.inner.insert_separator(session, pairs[keep].0, right) {
            tree.discard_leaf(session, left);
            return Err(error.into());
        }
        Ok(left)
    });
    let left = match made {
        Ok(left) => left,
        Err(error) => {
            if splits {
                tree.discard_leaf(session, right);
            }
            return Err(error);
        }
    };
    link(tree, offset, left);
    header.lock.unlock_dead();
    tree.leaf(left).header.lock.unlock();
    if splits {
        tree.leaf(right).header.lock.unlock();
    }
    tree.note_split(session, 1 + i64::from(splits));
    tree.retire_leaf(session, offset);
    Ok(())
}

/// A locked, durable leaf with these pairs.
fn build<G: Geometry, M: Machine>(
    tree: &Tree<G, M>,
    session: &mut Session<M>,
    low: u64,
    next: u64,
    pairs: &[(u64, u64)],
) -> Result<u64, IndexError> {
    let offset = tree.new_leaf(session, low, next)?;
    NvLeaf::fill(tree.frame, tree.leaf(offset), pairs);
    if !M::mutant("nvtree.no_new_flush") {
        // Persist: the whole leaf before the link to it (H1).
        tree.persist_leaf(tree.leaf(offset));
    }
    Ok(offset)
}

/// Puts `new` in the place of `old` in inner tree and list, durably.
fn link<G: Geometry, M: Machine>(tree: &Tree<G, M>, old: u64, new: u64) {
    let low = tree.leaf(old).header.low();
    if low == 0 {
        // The first leaf: only the holder of its lock changes the anchor.
        tree.inner.replace_leaf(low, old, new);
        // Release: the leaf is complete; pairs with the acquire in `first_leaf`.
        tree.head().store(new, Ordering::Release);
        // Persist: the link before anybody writes to the new leaf (N3).
        tree.frame.medium.persist(tree.head().as_ptr(), 8);
        return;
    }
    let before = lock_left_neighbour(tree, low, old);
    tree.inner.replace_leaf(low, old, new);
    let header = &tree.leaf(before).header;
    header.set_next(new);
    if !M::mutant("nvtree.no_link_flush") {
        // Persist: the link before anybody writes to the new leaf (N3).
        tree.frame.medium.persist(header.next.as_ptr(), 8);
    }
    header.lock.unlock();
}

/// Locks the leaf whose right neighbour is `leaf`, which the caller holds (N4).
fn lock_left_neighbour<G: Geometry, M: Machine>(tree: &Tree<G, M>, low: u64, leaf: u64) -> u64 {
    let mut attempt = 0;
    loop {
        let before = tree.inner.find_le(low - 1).leaf;
        let header = &tree.leaf(before).header;
        if header.lock.try_lock(tree.frame.generation) {
            if header.next() == leaf {
                return before;
            }
            header.lock.unlock_unchanged();
        } else if !header.lock.is_dead(tree.frame.generation) {
            M::spin(attempt);
            attempt += 1;
        }
    }
}
