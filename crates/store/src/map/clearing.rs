//! Emptying a map: its tree is exchanged, and what was in it is freed behind that.

use std::sync::Arc;

use everleaf_index::{Hardware, IndexError, Session};

use super::Map;
use crate::{Error, Result};

/// Keys that are freed at once in any case, those included that were left to the store's thread before.
const FREED_MAX: u64 = 10_000;

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
        self.clear_and(|session| {
            self.shared.reached("store.frees");
            self.tree.tidy(session);
        })
    }

    /// For the server: as [`Self::clear`], in a time that does not depend on how much there was, also while another
    /// thread frees what there was before: the store's own thread frees much, if it has one.
    ///
    /// # Errors
    /// As [`Self::put`].
    #[doc(hidden)]
    pub fn clear_at_once(&self) -> Result<()> {
        self.clear_leaving_much(self.shared.has_upkeep)
    }

    fn clear_leaving_much(&self, has_upkeep: bool) -> Result<()> {
        let trees = &self.shared.trees;
        let has_much = || {
            let keys = self.tree.shape_so_far(&mut *self.shared.session()?)?.keys;
            // What is freed is all that waits, and not only what is here now.
            Ok::<_, Error>(keys.saturating_add(self.tree.keys_of_gone()) > FREED_MAX)
        };
        let is_left = has_upkeep && (trees.is_opening() || has_much()?);
        self.clear_and(|session| {
            if !is_left {
                self.shared.reached("store.frees");
                self.tree.tidy_at_once(session);
            }
        })
    }

    /// `free` is called behind the exchange: it takes as long as there was much, and nobody has to wait for it.
    fn clear_and(&self, free: impl Fn(&mut Session<Hardware>)) -> Result<()> {
        if self.shared.trees.heap().pool().is_read_only() {
            return Err(Error::ReadOnly);
        }
        match self.try_clear(&free) {
            Err(error) if error.lacks_space() => self.shared.with_room(|| self.try_clear(&free)),
            result => result,
        }?;
        self.shared.note_free_space();
        Ok(())
    }

    fn try_clear(&self, free: &impl Fn(&mut Session<Hardware>)) -> Result<()> {
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
        free(&mut session);
        drop(session);
        self.shared.wait(lsn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    /// What took seconds, with an event loop of the server: the thread that emptied a map freed all that was in it.
    #[test]
    fn much_that_is_cleared_at_once_is_left_to_the_store() {
        let folder = tempfile::tempdir().expect("a folder");
        // Without a thread of its own, so that nobody frees anything behind the test.
        let options = Options::new().create(true).sweep(false);
        let store = options.open(folder.path().join("p")).expect("opens");
        let (map, shared) = (store.default_map(), store.shared());
        assert!(!shared.has_upkeep);
        // How many bytes are freed for each key.
        let freed_of = |count: u64, has_upkeep| {
            for number in 0..count {
                map.put(number.to_be_bytes(), [7; 100]).expect("puts");
            }
            let free = || shared.trees.heap().returnable_bytes();
            let before = free();
            map.clear_leaving_much(has_upkeep).expect("clears");
            // Of what the first has left.
            map.clear_leaving_much(has_upkeep).expect("clears");
            assert_eq!(map.len(), 0);
            let freed = free().saturating_sub(before) / count;
            // What the thread does.
            shared.reclaim();
            assert!(free().saturating_sub(before) / count > 100);
            freed
        };
        assert!(freed_of(2 * FREED_MAX, true) < 10);
        assert!(freed_of(2 * FREED_MAX, false) > 100, "there is no thread");
        assert!(freed_of(FREED_MAX / 2, true) > 100, "it is little");
        drop(store);
        let store = Options::new().create(true).open(folder.path().join("q")).expect("opens");
        assert!(store.shared().has_upkeep);
    }
}
