//! Opening all trees of a pool at once, and restoring later what that has left.

use std::sync::Arc;

use everleaf_alloc::{AllocError, Heap, LateMarks, Recovery, Session};
use everleaf_machine::Machine;
use everleaf_pool::Pool;

use super::{Named, Trees};
use crate::api::error::IndexError;
use crate::geometry::Geometry;
use crate::pool_trees::registry::Registry;

/// Leaves that are restored between two looks at the trees when all are wanted.
const SHARE: usize = 64;

/// Where a thread is that restores in the background.
#[derive(Clone, Debug, Default)]
pub struct RestorePlace {
    /// Names before this one are done.
    name: String,
    /// Within the tree of this name; from its first leaf on if none.
    key: Option<PlaceKey>,
}

#[derive(Clone, Debug)]
enum PlaceKey {
    U64(u64),
    Bytes(Vec<u8>),
}

impl PlaceKey {
    fn as_u64(&self) -> Option<&u64> {
        if let PlaceKey::U64(key) = self { Some(key) } else { None }
    }

    fn as_bytes(&self) -> Option<&Vec<u8>> {
        if let PlaceKey::Bytes(key) = self { Some(key) } else { None }
    }
}

impl RestorePlace {
    fn within(name: &str, key: Option<PlaceKey>) -> Self {
        match key {
            Some(_) => RestorePlace { name: name.to_owned(), key },
            // The least of the greater names.
            None => RestorePlace { name: format!("{name}\0"), key: None },
        }
    }
}

/// Where recovery marks what is in use.
pub(super) enum Marks<M: Machine> {
    /// All of it before the pool is open.
    Now(Recovery<M>),
    /// Some of it later.
    Late(Arc<LateMarks<M>>),
}

impl<M: Machine> Marks<M> {
    pub fn new(recovery: Recovery<M>, at_once: bool) -> Self {
        match at_once {
            true => Marks::Late(Arc::new(LateMarks::new(recovery))),
            false => Marks::Now(recovery),
        }
    }

    pub fn recovery(&self) -> &Recovery<M> {
        match self {
            Marks::Now(recovery) => recovery,
            Marks::Late(late) => late.recovery(),
        }
    }

    pub fn late(&self) -> Option<&Arc<LateMarks<M>>> {
        if let Marks::Late(late) = self { Some(late) } else { None }
    }

    /// Makes the heap usable, as far as the marks are there.
    pub fn finish(self, heap: &Heap<M>) {
        match self {
            Marks::Now(recovery) => recovery.finish(heap),
            Marks::Late(late) => {
                late.begin(heap);
                late.finish(heap);
            }
        }
    }
}

impl<G: Geometry, M: Machine> Trees<G, M> {
    /// As [`Self::open`], and soon done: of trees with hashed leaves it reads the header of each leaf and its lower
    /// bound, and leaves the rest to the operation that touches a leaf first, and to [`Self::restore_next`]. A pool
    /// that was closed cleanly is restored whole, for it has sums to compare with; so are trees without hashed leaves.
    ///
    /// Until everything is restored and [`Self::finish_opening`] was called
    /// - space that records had before the opening, and that is free, is not used: new records are put where the pool
    ///   was free or has grown. A thread that finds no space calls [`Self::reclaim`], which restores everything first;
    /// - a damaged leaf is an error of the operation that touches it first, and not of the opening;
    /// - counting keys restores all leaves of the tree first.
    ///
    /// A crash meanwhile does no harm: nothing that opening has left is recorded anywhere.
    ///
    /// *Time*: O(blocks + leaves log leaves); of a file that is not in memory it reads the page of each header.
    ///
    /// # Errors
    /// As [`Self::open`], as far as it is found by reading so much.
    pub fn open_at_once(pool: Pool<M>, threads: usize) -> Result<Self, IndexError> {
        Self::open_at_once_with(pool, threads, Registry::NONE)
    }

    /// As [`Self::open_at_once`], with trees of further designs, which are opened whole.
    ///
    /// # Errors
    /// As [`Self::open_at_once`].
    pub fn open_at_once_with(
        pool: Pool<M>,
        threads: usize,
        designs: Registry<M>,
    ) -> Result<Self, IndexError> {
        Self::open_as(pool, threads, designs, true)
    }

    /// Leaves that opening has left and nobody has restored yet, of all trees. O(1).
    pub fn unrestored(&self) -> u64 {
        self.late.as_ref().map_or(0, |late| late.owed())
    }

    /// Whether something is left to be restored, or free space to be found.
    pub fn is_opening(&self) -> bool {
        self.late.as_ref().is_some_and(|late| !late.is_finished())
    }

    /// Restores up to `leaves` leaves that opening has left, of one tree, from `place` on (at first the default);
    /// gives the place to go on from, if there are more or other trees. For a thread in the background, which calls
    /// [`Self::finish_opening`] at the end. Any number of threads may do so, beside all operations. Leaves that are
    /// damaged are passed, and told.
    ///
    /// The session is pinned for as long as the call takes: about 10 us a leaf.
    ///
    /// # Errors
    /// None as of now but those of a fork.
    pub fn restore_next(
        &self,
        session: &mut Session<M>,
        place: &RestorePlace,
        leaves: usize,
        damaged: &mut Vec<IndexError>,
    ) -> Result<Option<RestorePlace>, IndexError> {
        if self.unrestored() == 0 {
            return Ok(None);
        }
        let Some((name, tree)) = self.first_named(&place.name) else { return Ok(None) };
        let key = if name == place.name { place.key.as_ref() } else { None };
        let mut found: Vec<AllocError> = vec![];
        let next = match &tree {
            Named::U64(tree) => {
                let key = key.and_then(PlaceKey::as_u64);
                let next = tree.cell().restore_next(session, key, leaves, &mut found);
                next.map(|next| next.map(PlaceKey::U64))
            }
            Named::Bytes(tree) => {
                let key = key.and_then(PlaceKey::as_bytes);
                let next = tree.cell().restore_next(session, key, leaves, &mut found);
                next.map(|next| next.map(PlaceKey::Bytes))
            }
            Named::Other(..) => Ok(None),
        };
        damaged.extend(found.into_iter().map(IndexError::from));
        match next {
            Ok(key) => Ok(Some(RestorePlace::within(&name, key))),
            // Of what was emptied or removed there is nothing left to restore.
            Err(IndexError::Removed) => Ok(Some(RestorePlace::within(&name, None))),
            Err(error) => Err(error),
        }
    }

    /// The tree with the least name from this one on.
    fn first_named(&self, from: &str) -> Option<(String, Named<G, M>)> {
        let named = self.named.lock();
        let rest = named.iter().filter(|(name, _)| name.as_str() >= from);
        rest.min_by(|(a, _), (b, _)| a.cmp(b)).cloned()
    }

    /// Restores what opening has left, of all trees, and waits for others that restore some of it; the damage that it
    /// met. What is left of trees that were removed goes with them.
    ///
    /// # Errors
    /// As [`Self::restore_next`].
    pub fn restore_all(&self, session: &mut Session<M>) -> Result<Vec<IndexError>, IndexError> {
        let mut damaged = vec![];
        let mut place = Some(RestorePlace::default());
        while let Some(from) = place {
            place = self.restore_next(session, &from, SHARE, &mut damaged)?;
        }
        if damaged.is_empty() && self.unrestored() != 0 {
            let named: Vec<_> = self.named.lock().iter().map(|(_, tree)| tree.clone()).collect();
            for tree in named {
                // Of what was damaged before, or has gone meanwhile, there is nobody to wait for.
                let _ = match tree {
                    Named::U64(tree) => tree.cell().whole(session, |_, _| ()),
                    Named::Bytes(tree) => tree.cell().whole(session, |_, _| ()),
                    Named::Other(..) => Ok(()),
                };
            }
        }
        Ok(damaged)
    }

    /// Makes the space usable that was free when the pool was opened, if everything is restored; whether it is
    /// usable, by whatever thread. O(records) once. Not if a leaf that opening has left is damaged, until the tree is
    /// emptied: nobody knows what it holds. Frees trees that were emptied or removed, if only their leaves are left.
    /// Waits for a check that is made. Not inside of an operation.
    pub fn finish_opening(&self) -> bool {
        let Some(late) = self.late.as_ref().filter(|late| !late.is_finished()) else { return true };
        if late.owed() != 0 && !M::mutant("late.finishes_early") {
            self.free_gone_unrestored();
            if late.owed() != 0 {
                return false;
            }
        }
        let _quiet = self.maintenance.lock();
        late.finish(&self.heap)
    }

    /// Restores all that opening has left, and makes the space usable that was free, as far as nothing of it is
    /// damaged.
    pub fn reclaim_opening(&self) {
        if self.is_opening()
            && let Ok(mut session) = self.heap.session()
        {
            // Whatever is damaged is told to the call that touches it.
            let _ = self.restore_all(&mut session);
            self.finish_opening();
        }
    }

    /// As [`Self::finish_opening`], if no thread makes a check: by one that others wait for.
    pub(super) fn try_finish_opening(&self) {
        if let Some(late) = self.late.as_ref().filter(|late| !late.is_finished())
            && let Some(_quiet) = self.maintenance.try_lock()
        {
            late.finish(&self.heap);
        }
    }

    /// The marks that are still to be made, if there may be some.
    pub(super) fn late(&self) -> Option<&Arc<LateMarks<M>>> {
        self.late.as_ref()
    }
}
