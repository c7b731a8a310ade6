//! Splitting a full leaf, unlinking an empty one, and finishing either after a crash.

use everleaf_alloc::Session;
use everleaf_index::{Geometry, IndexError};
use everleaf_machine::Machine;

use super::leaf::FpLeaf;
use crate::node::hybrid::Hybrid;
use crate::node::hybrid::leaf::LeafDesign;
use crate::node::micro_log::Record;

type Tree<G, M> = Hybrid<FpLeaf, G, M>;

/// Moves the upper half of a full leaf, locked by the caller, to a new one.
pub(super) fn split<G: Geometry, M: Machine>(
    tree: &Tree<G, M>,
    session: &mut Session<M>,
    offset: u64,
) -> Result<(), IndexError> {
    M::mark("fptree.split");
    let leaf = tree.leaf(offset);
    let pairs = FpLeaf::pairs(tree.context, leaf);
    let low = pairs[pairs.len() / 2].0;
    let named = leaf.bitmap();
    let upper = (0..64)
        .filter(|slot| named >> slot & 1 == 1 && leaf.key(*slot) >= low)
        .fold(0, |bits, slot| bits | 1u64 << slot);
    let new = tree.new_leaf(session, low, leaf.header.next())?;
    let right = tree.leaf(new);
    right.copy_from(leaf, upper);
    if !M::mutant("fptree.no_new_flush") {
        // Persist: the whole new leaf before the log names it (F4).
        tree.persist_leaf(right);
    }
    if let Err(error) = tree.inner.insert_separator(session, low, new) {
        tree.discard_leaf(session, new);
        return Err(error.into());
    }
    let log = tree.logs.claim(session.stripe());
    log.write(Record::Split { leaf: offset, new });
    leaf.commit(tree.context, named & !upper);
    link(tree, offset, new);
    log.end();
    right.header.lock.unlock();
    tree.note_split(session, 1);
    Ok(())
}

/// Makes `next` the right neighbour of `left`, durably.
fn link<G: Geometry, M: Machine>(tree: &Tree<G, M>, left: u64, next: u64) {
    let header = &tree.leaf(left).header;
    header.set_next(next);
    if !M::mutant("fptree.no_link_flush") {
        // Persist: the link before the record of the change is cleared (H1).
        tree.context.medium.persist(header.next.as_ptr(), 8);
    }
}

/// Takes an empty leaf, locked by the caller, out of list and inner tree, if its left neighbour is
/// at hand. Then its lock has been opened for ever.
pub(super) fn unlink<G: Geometry, M: Machine>(
    tree: &Tree<G, M>,
    session: &mut Session<M>,
    offset: u64,
) -> bool {
    let header = &tree.leaf(offset).header;
    let low = header.low();
    let Some(left) = tree.inner.left_neighbour(low, offset) else { return false };
    let before = &tree.leaf(left).header;
    // Only tried: the thread that holds it may want the lock that we hold.
    if !before.lock.try_lock(tree.context.generation) {
        return false;
    }
    if before.next() != offset || !tree.inner.remove_separator(low, offset, left) {
        before.lock.unlock_unchanged();
        return false;
    }
    M::mark("fptree.unlink");
    let log = tree.logs.claim(session.stripe());
    log.write(Record::Unlink { leaf: offset, left });
    link(tree, left, header.next());
    log.end();
    header.lock.unlock_dead();
    before.lock.unlock();
    tree.retire_leaf(session, offset);
    true
}

/// Finishes a logged change. May be repeated: nobody has touched its leaves since.
pub(super) fn finish<G: Geometry, M: Machine>(tree: &Tree<G, M>, record: Record) {
    match record {
        Record::Split { leaf: left, new } => {
            M::mark("fptree.finished_split");
            let leaf = tree.leaf(left);
            if !M::mutant("fptree.half_a_redo") {
                leaf.commit(tree.context, leaf.bitmap() & !tree.leaf(new).bitmap());
            }
            link(tree, left, new);
        }
        Record::Unlink { leaf, left } => {
            M::mark("fptree.finished_unlink");
            link(tree, left, tree.leaf(leaf).header.next());
        }
        Record::Rewrite { .. } => {}
    }
}
