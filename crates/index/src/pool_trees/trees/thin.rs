//! Merging the thin leaves that removals had to leave, when the pool is full.

use everleaf_alloc::Session;
use everleaf_machine::{Atomic, Machine, Ordering};

use super::{Named, Trees};
use crate::api::error::IndexError;
use crate::geometry::Geometry;
use crate::kind::Kind;
use crate::nbtree::{SweepPlace, Swept};
use crate::pool_trees::nodes::Nodes;
use crate::pool_trees::tree_cell::{CellTree, TreeCell};

/// Leaves that are looked at between two questions whether to go on, and at most merged; some more, up to the end of a
/// node.
const LOOKED_TOGETHER: usize = 256;
/// Passes through the leaves of one tree: one that merges none is the last.
const PASSES: usize = 4;

impl<G: Geometry, M: Machine> Trees<G, M> {
    /// Merges thin leaves that removals have left, for want of space or because somebody was at work beside them; for
    /// when space has run out, and [`Self::reclaim`] was not enough. After every few hundred leaves `goes_on` is told
    /// of how many the space was given up since it was last asked, which others can use by then; it ends when that says
    /// no, or when nothing is left to be merged. `hint` is the one that the calling thread gives to [`Self::sessions`],
    /// of which it borrows one while one is free; it waits for nobody. One thread does it at a time: for others
    /// nothing is to be done.
    ///
    /// *Cost*: nothing if no leaf was left since all were gone through. Else a look at each leaf, and a copy for each
    /// two that are merged. Others go on meanwhile.
    pub fn merge_thin(&self, hint: usize, goes_on: &mut dyn FnMut(usize) -> bool) {
        if self.heap.pool().is_read_only() {
            return;
        }
        let Some(_only) = Only::among(&self.merging) else { return };
        // A copy: trees may come and go meanwhile.
        let named: Vec<_> = self.named.lock().iter().map(|(_, tree)| tree.clone()).collect();
        for tree in named {
            let wanted = match &tree {
                Named::U64(tree) => self.merge_thin_of(tree.cell(), hint, goes_on),
                Named::Bytes(tree) => self.merge_thin_of(tree.cell(), hint, goes_on),
                Named::Other(..) => Ok(true),
            };
            // A tree that was removed has nothing to merge.
            if matches!(wanted, Ok(false)) {
                return;
            }
        }
    }

    /// The same of one tree. Returns whether more is wanted.
    fn merge_thin_of<K: Kind<M>>(
        &self,
        cell: &TreeCell<Nodes<K, G, M>, M>,
        hint: usize,
        goes_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<bool, IndexError> {
        let owed = self.borrowed(hint, |session| cell.owed(session));
        let Some(Some((id, missed))) = owed.transpose()? else { return Ok(true) };
        // The write that was refused may have left there what a merge needs.
        self.sessions.collect_idle();
        for _ in 0..PASSES {
            let pass = self.merge_pass(cell, hint, goes_on)?;
            if !matches!(pass, Pass::Merged) {
                if matches!(pass, Pass::Nothing) {
                    let note = |session: &mut _| cell.note_retried(session, id, missed);
                    self.borrowed(hint, note).transpose()?;
                }
                return Ok(!matches!(pass, Pass::Enough));
            }
        }
        Ok(true)
    }

    /// Goes through the leaves of a tree once.
    fn merge_pass<K: Kind<M>>(
        &self,
        cell: &TreeCell<Nodes<K, G, M>, M>,
        hint: usize,
        goes_on: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Pass, IndexError> {
        let (mut place, mut all) = (SweepPlace::First, Swept::default());
        while !place.is_end() {
            let steps = self.borrowed(hint, |session| {
                let steps = cell.merge_steps(session, &mut place);
                // Others get what this has freed.
                session.collect_all();
                session.give_back();
                steps
            });
            let Some(steps) = steps.transpose()? else { return Ok(Pass::CutShort) };
            let Steps { swept, lacks_space } = steps;
            all.merged += swept.merged;
            all.is_unsure |= swept.is_unsure;
            if swept.freed > 0 {
                self.sessions.collect_idle();
            }
            if !goes_on(swept.freed) {
                return Ok(Pass::Enough);
            }
            if swept.freed > 0 {
                // What was tried again, and refused, has taken some.
                self.sessions.collect_idle();
            }
            if lacks_space {
                return Ok(Pass::CutShort);
            }
        }
        Ok(match all {
            Swept { merged: 1.., .. } => Pass::Merged,
            Swept { is_unsure: true, .. } => Pass::CutShort,
            _ => Pass::Nothing,
        })
    }

    /// Runs something in a session that is free. It is given back then: what `goes_on` does may need it.
    fn borrowed<R>(&self, hint: usize, run: impl FnOnce(&mut Session<M>) -> R) -> Option<R> {
        self.sessions.try_enter(hint).map(|mut session| run(&mut session))
    }
}

/// The right of the only thread that merges.
struct Only<'a, M: Machine>(&'a Atomic<u64, M>);

impl<'a, M: Machine> Only<'a, M> {
    fn among(taken: &'a Atomic<u64, M>) -> Option<Self> {
        // Relaxed: it keeps others from doing the same work, and carries nothing.
        (taken.swap(1, Ordering::Relaxed) == 0).then(|| Only(taken))
    }
}

impl<M: Machine> Drop for Only<'_, M> {
    fn drop(&mut self) {
        // Relaxed: as in `among`.
        self.0.store(0, Ordering::Relaxed);
    }
}

/// What became of a pass through the leaves of a tree.
enum Pass {
    /// It has merged some, so that a leaf that had no neighbour may have one now.
    Merged,
    /// Nothing is left to be merged.
    Nothing,
    /// There was no space, or no session; or leaves were replaced meanwhile.
    CutShort,
    /// No more is wanted.
    Enough,
}

/// What some steps have done.
struct Steps {
    swept: Swept,
    lacks_space: bool,
}

impl<K: Kind<M>, G: Geometry, M: Machine> TreeCell<Nodes<K, G, M>, M> {
    /// The id of the tree that is here now, and how many merges it has missed, if any is owed.
    fn owed(&self, session: &mut Session<M>) -> Result<Option<(u32, u64)>, IndexError> {
        self.with(session, |tree, _| tree.missed().owed().map(|missed| (tree.id(), missed)))
    }

    /// Notes that all leaves of the tree with this id were gone through; another may be here by now.
    fn note_retried(
        &self,
        session: &mut Session<M>,
        id: u32,
        missed: u64,
    ) -> Result<(), IndexError> {
        self.with(session, |tree, _| {
            if tree.id() == id {
                tree.missed().retried(missed);
            }
        })
    }

    /// Some steps from `place` on.
    fn merge_steps(
        &self,
        session: &mut Session<M>,
        place: &mut SweepPlace<K::Kept>,
    ) -> Result<Steps, IndexError> {
        let class = self.with(session, |tree, _| tree.block_class())?;
        let mut swept = Swept::default();
        while swept.looked < LOOKED_TOGETHER && !place.is_end() {
            // Not pinned: what the steps before have given up serves for this one.
            if session.reserve_blocks_of(class, 2).is_err() {
                return Ok(Steps { swept, lacks_space: true });
            }
            let step = self.with(session, |tree, session| tree.merge_some(session, place))?;
            swept.looked += step.looked;
            swept.merged += step.merged;
            swept.freed += step.freed;
            swept.is_unsure |= step.is_unsure;
        }
        Ok(Steps { swept, lacks_space: false })
    }
}
