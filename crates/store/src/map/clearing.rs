//! Emptying a map: its tree is exchanged, and what was in it is freed behind that.

use std::sync::Arc;

use everleaf_index::IndexError;

use super::Map;
use crate::{Error, Result};

impl Map {
    /// Removes everything, atomically, also across a crash. Operations that run at the same time
    /// count as having come before.
    ///
    /// *Cost*: O(n) to free what was there, for which other operations need not wait. While a view is open,
    /// its n pairs are copied into memory first, and writers of all maps wait for that.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn clear(&self) -> Result<()> {
        if self.shared.trees.heap().pool().is_read_only() {
            return Err(Error::ReadOnly);
        }
        match self.try_clear() {
            Err(error) if error.lacks_space() => self.shared.with_room(|| self.try_clear()),
            result => result,
        }?;
        self.shared.note_free_space();
        Ok(())
    }

    fn try_clear(&self) -> Result<()> {
        let mut session = self.shared.session()?;
        let lsn = self.shared.alone_with(&mut session, |in_order, session| {
            self.shared.check_writes()?;
            if in_order {
                if !self.shared.mutant("store.clear_saves_nothing") {
                    self.shared.save_all(&self.tree, session)?;
                }
                if !self.shared.mutant("store.clear_marks_nothing") {
                    self.shared.watches.mark_present(&self.tree, session);
                }
            }
            let Some(log) = &self.shared.log else {
                self.tree.clear_at_once(session)?;
                return Ok(None);
            };
            let name = self.shared.trees.names().into_iter().find(|name| {
                let found = self.shared.trees.find_bytes_tree(name);
                matches!(found, Ok(Some(tree)) if Arc::ptr_eq(&tree, &self.tree))
            });
            let Some(name) = name else {
                // It was dropped, and the log says so.
                return Err(IndexError::Removed.into());
            };
            log.clear_map(&self.tree, &name, session).map(Some)
        })?;
        self.shared.reached("store.frees");
        // Only now: it takes as long as there is much, and nobody has to wait for it.
        self.tree.tidy(&mut session);
        drop(session);
        self.shared.wait(lsn)
    }
}
