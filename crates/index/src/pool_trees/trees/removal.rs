//! Trees that go: their names first, what is in them when nobody can be reading it any more.

use everleaf_alloc::Session;
use everleaf_machine::Machine;

use super::{Named, Trees};
use crate::api::error::IndexError;
use crate::geometry::Geometry;

impl<G: Geometry, M: Machine> Trees<G, M> {
    /// Removes a tree with everything in it; false if there is none of that name.
    ///
    /// # Errors
    /// As [`Self::unlink`].
    pub fn remove(&self, name: &str) -> Result<bool, IndexError> {
        let mut session = self.heap.session()?;
        let is_removed = self.unlink(&mut session, name)?;
        if is_removed {
            self.tidy_removed(&mut session);
        }
        Ok(is_removed)
    }

    /// Removes a tree, in a time that does not depend on how much there is in it: that is left to
    /// [`Self::tidy_removed`]. False if there is none of that name.
    ///
    /// # Errors
    /// The pool cannot be written; then nothing was changed.
    pub fn unlink(&self, session: &mut Session<M>, name: &str) -> Result<bool, IndexError> {
        let _busy = self.maintenance.lock();
        let mut named = self.named.lock();
        let Some(index) = named.iter().position(|(other, _)| other == name) else {
            return Ok(false);
        };
        match &named[index].1 {
            Named::U64(tree) => tree.cell().remove(session)?,
            Named::Bytes(tree) => tree.cell().remove(session)?,
            Named::Other(_, root) => self.heap.pool().remove_root(*root)?,
        }
        let (_, tree) = named.remove(index);
        drop(named);
        self.removed.lock().push(tree);
        Ok(true)
    }

    /// Reclaims all that can be reclaimed now: what idle sessions hold back, and trees that were
    /// emptied or removed while somebody used them, and what was free when the pool was opened at once, for which it
    /// restores all trees first. For when space has run out. Waits for threads that are
    /// freeing a tree: not to be called by a thread that others wait for.
    pub fn reclaim(&self) {
        self.reclaim_with(true);
    }

    /// As [`Self::reclaim`], but leaves trees alone that another thread is freeing.
    pub fn reclaim_at_once(&self) {
        self.reclaim_with(false);
    }

    fn reclaim_with(&self, waits: bool) {
        if let Ok(mut session) = self.heap.session() {
            if self.is_opening() {
                // Whatever is damaged is told to the call that touches it.
                let _ = self.restore_all(&mut session);
            }
            if waits {
                self.tidy_all(&mut session);
                self.finish_opening();
            } else {
                for tree in self.named_trees() {
                    tree.tidy_at_once(&mut session);
                }
                if let Some(_busy) = self.maintenance.try_lock() {
                    self.tidy_others(&mut session);
                }
                self.tidy_own(&mut session, false);
                self.try_finish_opening();
            }
        }
        for _ in 0..2 {
            self.sessions.collect_idle();
        }
    }

    /// Frees what was in trees that were emptied or removed, as far as nobody can be reading it any more. Waits for
    /// threads that do the same.
    pub(super) fn tidy_all(&self, session: &mut Session<M>) {
        for tree in self.named_trees() {
            tree.tidy(session);
        }
        self.tidy_removed(session);
    }

    /// A copy: trees may come and go meanwhile.
    pub(super) fn named_trees(&self) -> Vec<Named<G, M>> {
        self.named.lock().iter().map(|(_, tree)| tree.clone()).collect()
    }

    /// Leaves that opening has left of trees that were emptied or removed and are not freed yet. What they refer to is
    /// nobody's, and nothing of them is sealed. Nobody frees such a tree meanwhile.
    pub(super) fn unrestored_of_gone(&self) -> u64 {
        let of = |tree: &Named<G, M>| match tree {
            Named::U64(tree) => tree.cell().unrestored_of_gone(),
            Named::Bytes(tree) => tree.cell().unrestored_of_gone(),
            Named::Other(..) => 0,
        };
        let removed: Vec<_> = self.removed.lock().clone();
        self.named_trees().iter().chain(&removed).map(of).sum()
    }

    /// Frees trees that were emptied or removed, if the leaves that nobody has restored are all of such: nobody else
    /// may come to that. Not inside of an operation.
    pub(super) fn free_gone_unrestored(&self) {
        let Ok(mut session) = self.heap.session() else { return };
        let is_whole = |tree: &Named<G, M>, session: &mut Session<M>| match tree {
            Named::U64(tree) => tree.cell().with(session, |tree, _| tree.unrestored() == 0),
            Named::Bytes(tree) => tree.cell().with(session, |tree, _| tree.unrestored() == 0),
            Named::Other(..) => Ok(true),
        };
        // One that was removed meanwhile has gone, too.
        if self.named_trees().iter().all(|tree| is_whole(tree, &mut session).unwrap_or(true)) {
            self.tidy_all(&mut session);
        }
    }

    /// Frees what was in trees that were removed, as far as nobody can be reading it any more.
    pub fn tidy_removed(&self, session: &mut Session<M>) {
        {
            let _busy = self.maintenance.lock();
            self.tidy_others(session);
        }
        self.tidy_own(session, true);
    }

    /// As [`Self::tidy_removed`], by a thread that has the lock of maintenance.
    pub(super) fn tidy_removed_quietly(&self, session: &mut Session<M>) {
        self.tidy_others(session);
        self.tidy_own(session, true);
    }

    /// Trees of further designs. While they are out of the list they are in nobody's books.
    fn tidy_others(&self, session: &mut Session<M>) {
        let is_other = |tree: &mut Named<G, M>| matches!(tree, Named::Other(..));
        let removed: Vec<_> = self.removed.lock().extract_if(.., is_other).collect();
        let left = removed.into_iter().filter(|tree| tree.retire(session)).collect::<Vec<_>>();
        self.removed.lock().extend(left);
    }

    /// The others stay in the list until they are freed: a check of the pool waits for those that
    /// are being freed, and nobody else does.
    fn tidy_own(&self, session: &mut Session<M>, waits: bool) {
        let removed: Vec<_> = self.removed.lock().clone();
        for tree in removed.iter().filter(|tree| !matches!(tree, Named::Other(..))) {
            let is_left = match waits {
                true => tree.tidy(session),
                false => tree.tidy_at_once(session),
            };
            if !is_left {
                self.removed.lock().retain(|other| !other.is_same(tree));
            }
        }
    }
}
