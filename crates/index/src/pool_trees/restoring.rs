//! Restoring what opening at once has left, of the tree of one name.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Machine, Ordering};

use crate::api::error::IndexError;
use crate::geometry::Geometry;
use crate::kind::Kind;
use crate::pool_trees::nodes::Nodes;
use crate::pool_trees::tree_cell::TreeCell;

/// Leaves that are restored under one pin when all are wanted.
const SHARE: usize = 64;

impl<K: Kind<M>, G: Geometry, M: Machine> TreeCell<Nodes<K, G, M>, M> {
    /// Restores the next `leaves` leaves that opening has left, from `from` on or from the first; where to go on, if
    /// there are more. Damaged leaves are passed, and told.
    ///
    /// # Errors
    /// [`IndexError::Removed`].
    pub fn restore_next(
        &self,
        session: &mut Session<M>,
        from: Option<&K::Kept>,
        leaves: usize,
        damaged: &mut Vec<AllocError>,
    ) -> Result<Option<K::Kept>, IndexError> {
        self.with(session, |tree, session| tree.restore_leaves(session, from, leaves, damaged))
    }

    /// Restores all leaves that opening has left, and waits for others that do.
    ///
    /// # Errors
    /// A leaf is damaged; then all others are restored.
    fn restore_all(&self, session: &mut Session<M>) -> Result<(), IndexError> {
        let mut damaged = vec![];
        let mut next = self.restore_next(session, None, SHARE, &mut damaged)?;
        while let Some(from) = next {
            next = self.restore_next(session, Some(&from), SHARE, &mut damaged)?;
        }
        if let Some(first) = damaged.into_iter().next() {
            return Err(first.into());
        }
        Ok(self.with(session, |tree, session| tree.restore_all(session))??)
    }

    /// Leaves that opening has left of the trees that were here, and are not freed yet.
    pub fn unrestored_of_gone(&self) -> u64 {
        self.gone(|tree| tree.unrestored()).into_iter().sum()
    }

    /// Looks at the tree when no leaf is left to be restored, and restores those that are.
    ///
    /// # Errors
    /// [`IndexError::Removed`]; a leaf is damaged.
    pub fn whole<R>(
        &self,
        session: &mut Session<M>,
        look: impl Fn(&Nodes<K, G, M>, &mut Session<M>) -> R,
    ) -> Result<R, IndexError> {
        loop {
            let seen = self.with(session, |tree, session| {
                (tree.unrestored() == 0).then(|| {
                    // Acquire: the keys of all leaves that were restored; pairs with the fence of the thread that
                    // restored the last.
                    M::fence(Ordering::Acquire);
                    look(tree, session)
                })
            })?;
            match seen {
                Some(seen) => return Ok(seen),
                None => self.restore_all(session)?,
            }
        }
    }
}
