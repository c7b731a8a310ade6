//! Sealing a pool when it is closed, and comparing it with its seal when it is opened.

use everleaf_alloc::{AllocError, Heap};
use everleaf_machine::Machine;
use everleaf_pool::layout::ROOT_OFFSET;
use everleaf_pool::{Root, Seal};

use super::{Named, Trees};
use crate::api::error::IndexError;
use crate::geometry::Geometry;
use crate::nbtree::Contents;

impl<G: Geometry, M: Machine> Trees<G, M> {
    /// Seals the pool and marks it cleanly closed. The caller makes sure that nobody writes any more, nor restores in
    /// the background. Restores first what opening at once has left.
    ///
    /// # Errors
    /// The mark cannot be written; a leaf that opening has left is damaged. Then the pool is as after a kill of the
    /// process.
    pub fn close(&self) -> Result<(), IndexError> {
        if self.heap.pool().is_read_only() {
            return Ok(());
        }
        let seal = self.seal_leaves()?;
        self.heap.pool().set_seal(seal)?;
        Ok(self.heap.pool().set_clean()?)
    }

    /// Seals the leaves of all trees, durably; what they hold.
    fn seal_leaves(&self) -> Result<Seal, IndexError> {
        let mut session = self.heap.session()?;
        if let Some(damage) = self.restore_all(&mut session)?.into_iter().next() {
            return Err(damage);
        }
        if self.unrestored() != 0 {
            // What nobody came back to when others had stopped reading it.
            self.tidy_all(&mut session);
        }
        if self.unrestored() > self.unrestored_of_gone() {
            // It was told when it was met.
            let what = "a record is in use twice: its leaf is not sealed".to_string();
            return Err(AllocError::Corrupt { offset: self.heap.pool().data_start(), what }.into());
        }
        let named: Vec<_> = self.named.lock().iter().map(|(_, tree)| tree.clone()).collect();
        let mut contents = Contents::default();
        for tree in named {
            let found = match tree {
                Named::U64(tree) => {
                    tree.cell().with(&mut session, |tree, session| tree.seal(session, self.threads))
                }
                Named::Bytes(tree) => {
                    tree.cell().with(&mut session, |tree, session| tree.seal(session, self.threads))
                }
                Named::Other(tree, _) => {
                    // Persist: what the tree defers before the seal, or it would say that nothing is missing.
                    tree.persist_deferred(&mut session)?;
                    continue;
                }
            };
            contents.add(found?);
        }
        let Contents { leaves, keys, sum } = contents;
        Ok(Seal { leaves, keys, sum, roots: sum_of_roots(&self.heap.pool().roots()) })
    }
}

/// A check sum over the directory of trees.
fn sum_of_roots(roots: &[Root]) -> u32 {
    roots.iter().fold(0, |sum, root| {
        let sum = crc32c::crc32c_append(sum, &root.kind.to_le_bytes());
        let sum = crc32c::crc32c_append(sum, &root.value.to_le_bytes());
        let sum = crc32c::crc32c_append(sum, &(root.name.len() as u32).to_le_bytes());
        crc32c::crc32c_append(sum, root.name.as_bytes())
    })
}

/// Refuses a directory that is not the one that was sealed.
pub(super) fn compare_roots<M: Machine>(heap: &Heap<M>, roots: &[Root]) -> Result<(), IndexError> {
    let seal = heap.pool().seal();
    if seal.is_none_or(|seal| seal.roots == sum_of_roots(roots)) {
        return Ok(());
    }
    let what =
        "a map is missing that was there when the pool was closed, or is another".to_string();
    Err(AllocError::Corrupt { offset: ROOT_OFFSET, what }.into())
}

/// Refuses leaves that are not those that were sealed: each of them is as it was, but there may be
/// others.
pub(super) fn compare_contents<M: Machine>(
    heap: &Heap<M>,
    found: Contents,
) -> Result<(), IndexError> {
    let Some(Seal { leaves, keys, sum, .. }) = heap.pool().seal() else { return Ok(()) };
    if (Contents { leaves, keys, sum }) == found {
        return Ok(());
    }
    let what = format!(
        "when the pool was closed it had {leaves} leaves with {keys} keys, and these {} with {} keys \
         are not the same",
        found.leaves, found.keys
    );
    Err(AllocError::Corrupt { offset: heap.pool().data_start(), what }.into())
}
