//! Emptying a tree of byte strings, at once or with the freeing of what it held.

use everleaf_alloc::Session;
use everleaf_machine::Machine;

use crate::api::error::IndexError;
use crate::bytes::tree::BytesTree;
use crate::geometry::Geometry;

impl<G: Geometry, M: Machine, const HEADS: bool> BytesTree<G, M, HEADS> {
    /// Removes everything, atomically, also across a crash.
    ///
    /// # Errors
    /// No space for an empty tree; then nothing was changed.
    pub fn clear(&self, session: &mut Session<M>) -> Result<(), IndexError> {
        self.clear_at_once(session)?;
        self.tidy(session);
        Ok(())
    }

    /// As [`Self::clear`], in a time that does not depend on how much there is: it leaves what it took
    /// out to [`Self::tidy`].
    ///
    /// # Errors
    /// As [`Self::clear`].
    pub fn clear_at_once(&self, session: &mut Session<M>) -> Result<(), IndexError> {
        self.cell().clear(session)
    }

    /// Frees what was taken out, as far as nobody can be reading it any more.
    pub fn tidy(&self, session: &mut Session<M>) {
        self.cell().tidy(session);
    }

    /// As [`Self::tidy`], unless another thread is at it.
    pub fn tidy_at_once(&self, session: &mut Session<M>) {
        self.cell().tidy_at_once(session);
    }

    /// Keys of what was taken out and is not freed yet, but for those that [`crate::Trees::open_at_once`] has left.
    pub fn keys_of_gone(&self) -> u64 {
        self.cell().gone(|tree| tree.counted()).into_iter().sum()
    }
}
