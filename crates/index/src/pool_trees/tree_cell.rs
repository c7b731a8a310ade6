//! A named tree's place: which tree it is right now.
//!
//! Emptying a map swaps in a new tree by one durable word in the pool's directory; operations that
//! found the old one finish on it and count as having come before.

use std::sync::Arc;

use everleaf_alloc::{AllocError, Heap, Session};
use everleaf_machine::lock_rank::Rank;
use everleaf_machine::{AtomicPointer, Machine, Ordering, SpinLock};
use everleaf_pool::RootIndex;

use crate::api::error::IndexError;
use crate::geometry::Geometry;
use crate::kind::Kind;
use crate::nbtree::NbTree;

/// A tree that a cell can hold.
pub(crate) trait CellTree<M: Machine>: Send + Sync + Sized {
    /// Its id in the pool's directory.
    fn id(&self) -> u32;

    /// What another tree of the same kind is made by.
    type Design;

    /// What such a tree is made by.
    fn design(&self) -> Self::Design;

    /// An empty tree with this id.
    fn create(design: &Self::Design, session: &mut Session<M>, id: u32)
    -> Result<Self, AllocError>;

    /// Gives back all it uses, when nobody can reach it any more.
    fn free_all(&self, session: &mut Session<M>);
}

impl<K: Kind<M>, G: Geometry, M: Machine> CellTree<M> for NbTree<K, G, M> {
    fn id(&self) -> u32 {
        self.id()
    }

    type Design = ();

    fn design(&self) {}

    fn create((): &(), session: &mut Session<M>, id: u32) -> Result<Self, AllocError> {
        NbTree::create(session, id)
    }

    fn free_all(&self, session: &mut Session<M>) {
        self.free_all(session);
    }
}

/// A tree that was swapped out, and the epoch of that moment.
struct RetiredTree<T> {
    epoch: u64,
    tree: *mut T,
}

/// The current tree of a name; null once the name was removed.
pub(crate) struct TreeCell<T, M: Machine> {
    current: AtomicPointer<T, M>,
    /// Its entry in the pool's directory; a temporary tree has none.
    root: Option<RootIndex>,
    heap: Arc<Heap<M>>,
    /// Held while the tree is swapped; also the trees that nobody can find any more.
    retired_trees: SpinLock<Vec<RetiredTree<T>>, M>,
    /// Held while such trees are freed, which may take long: nobody swaps behind it.
    freeing: SpinLock<(), M>,
}

// SAFETY: trees are Send and Sync; the raw pointers are owned by the cell.
unsafe impl<T: CellTree<M>, M: Machine> Send for TreeCell<T, M> {}
// SAFETY: as for `Send`.
unsafe impl<T: CellTree<M>, M: Machine> Sync for TreeCell<T, M> {}

impl<T: CellTree<M>, M: Machine> TreeCell<T, M> {
    pub fn new(heap: Arc<Heap<M>>, root: Option<RootIndex>, tree: T) -> Self {
        let current = AtomicPointer::new(Box::into_raw(Box::new(tree)));
        let retired_trees = SpinLock::ranked(Rank::TreeSwap, vec![]);
        TreeCell {
            current,
            root,
            heap,
            retired_trees,
            freeing: SpinLock::ranked(Rank::TreeFreeing, ()),
        }
    }

    /// The id of the tree in a cell that nobody shares yet.
    pub fn first_id(&self) -> u32 {
        // SAFETY: not null until the first `remove`; nobody frees the tree while we hold it alone.
        unsafe { &*self.current.read_private() }.id()
    }

    /// Tells a cell that nobody shares yet where the pool's directory has it.
    pub fn attach(&mut self, root: RootIndex) {
        self.root = Some(root);
    }

    #[inline(always)]
    pub fn heap(&self) -> &Heap<M> {
        &self.heap
    }

    /// Runs `operation` on the current tree, pinned.
    #[inline(always)]
    pub fn with<R>(
        &self,
        session: &mut Session<M>,
        operation: impl FnOnce(&T, &mut Session<M>) -> R,
    ) -> Result<R, IndexError> {
        self.try_with(session, |tree, session| Ok(operation(tree, session)))
    }

    /// As [`Self::with`], of an operation that may fail. A result within a result would be moved from one place
    /// of the stack to another, byte by byte, once for each.
    #[inline(always)]
    pub fn try_with<R>(
        &self,
        session: &mut Session<M>,
        operation: impl FnOnce(&T, &mut Session<M>) -> Result<R, IndexError>,
    ) -> Result<R, IndexError> {
        debug_assert!(Arc::ptr_eq(&self.heap, session.heap()), "a session of another pool");
        // Also ends when the operation panics: it may run code of the user.
        let mut session = session.pinned();
        // Acquire: the tree is complete; pairs with the release in `swap`.
        let tree = self.current.load(Ordering::Acquire);
        // SAFETY: not null only while the cell owns the tree; it is freed two epochs after it was
        // swapped out, and we are pinned since before the load.
        match unsafe { tree.as_ref() } {
            // Here, and not behind a call of `map`: the key stays in registers.
            Some(tree) => operation(tree, &mut session),
            None => Err(IndexError::Removed),
        }
    }

    /// Replaces the tree by an empty one, atomically also across a crash. [`Self::tidy`] frees the old
    /// one.
    ///
    /// *Linearizes* at the swap; *durable* when the directory's word is, just before.
    pub fn clear(&self, session: &mut Session<M>) -> Result<(), IndexError> {
        let mut retired_trees = self.retired_trees.lock();
        let (old, design) = self.with(session, |tree, _| (tree.id(), tree.design()))?;
        let same = M::mutant("cell.clear_same_id");
        let id = if same { old } else { self.heap.pool().next_id()? };
        let tree = T::create(&design, session, id)?;
        let skips = M::mutant("cell.clear_keeps_id");
        if let Some(root) = self.root.filter(|_| !skips)
            && let Err(error) = self.heap.pool().set_root_value(root, old, id)
        {
            tree.free_all(session);
            return Err(error.into());
        }
        self.swap(&mut retired_trees, Box::into_raw(Box::new(tree)));
        Ok(())
    }

    /// Removes the name from the pool. Operations that come later fail. [`Self::tidy`] frees the tree.
    ///
    /// # Errors
    /// Then nothing was changed.
    pub fn remove(&self, session: &mut Session<M>) -> Result<(), IndexError> {
        let mut retired_trees = self.retired_trees.lock();
        self.with(session, |_, _| ())?;
        if let Some(root) = self.root.filter(|_| !M::mutant("cell.remove_keeps_root")) {
            self.heap.pool().remove_root(root)?;
        }
        self.swap(&mut retired_trees, std::ptr::null_mut());
        Ok(())
    }

    fn swap(&self, retired_trees: &mut Vec<RetiredTree<T>>, new: *mut T) {
        // AcqRel: publishes the new tree; pairs with the load in `with`.
        let old = self.current.swap(new, Ordering::AcqRel);
        let epoch = self.heap.retire_epoch();
        retired_trees.push(RetiredTree { epoch, tree: old });
    }

    /// Frees what [`Self::clear`] and [`Self::remove`] have left, as far as no pinned operation can hold
    /// it any more: as long as there is much in it. Waits for another that does the same, so that
    /// nothing is half freed afterwards. Returns whether anything is left.
    pub fn tidy(&self, session: &mut Session<M>) -> bool {
        let _alone = self.freeing.lock();
        self.free_retired(session)
    }

    /// As [`Self::tidy`], unless another thread is at it: that may take long.
    pub fn tidy_at_once(&self, session: &mut Session<M>) -> bool {
        self.freeing.try_lock().is_none_or(|_alone| self.free_retired(session))
    }

    /// Looks at each tree that was here and waits to be freed.
    pub fn gone<R>(&self, look: impl Fn(&T) -> R) -> Vec<R> {
        let retired_trees = self.retired_trees.lock();
        // SAFETY: a tree is freed only when it was taken out of the list, which needs the lock that we have.
        retired_trees.iter().map(|retired| look(unsafe { &*retired.tree })).collect()
    }

    /// The caller has `freeing`.
    fn free_retired(&self, session: &mut Session<M>) -> bool {
        if self.retired_trees.lock().is_empty() {
            return false;
        }
        self.heap.advance_epoch();
        let is_over = |retired: &mut RetiredTree<T>| {
            self.heap.is_expired(retired.epoch) || M::mutant("cell.no_grace")
        };
        // Taken out, so that the tree can be swapped meanwhile.
        let over: Vec<_> = self.retired_trees.lock().extract_if(.., is_over).collect();
        let is_any = !over.is_empty();
        for retired in over {
            // SAFETY: swapped out once, its grace period is over: we are the last to know it.
            let tree = unsafe { Box::from_raw(retired.tree) };
            tree.free_all(session);
        }
        if is_any {
            // Before `freeing` goes: a check waits for that, and knows nothing of this session, which may then wait for
            // the check.
            session.give_back();
        }
        !self.retired_trees.lock().is_empty()
    }
}

impl<T, M: Machine> Drop for TreeCell<T, M> {
    fn drop(&mut self) {
        for retired in self.retired_trees.get_mut().drain(..) {
            // SAFETY: owned by the cell; nobody uses it any more. Its space in the pool is found
            // free at the next open, because the directory does not name it.
            drop(unsafe { Box::from_raw(retired.tree) });
        }
        let current = self.current.read_private();
        if !current.is_null() {
            // SAFETY: owned by the cell, which is going.
            drop(unsafe { Box::from_raw(current) });
        }
    }
}

#[cfg(test)]
mod tests {
    use everleaf_pool::{Domain, Pool};

    use crate::{Change, Trees};

    /// A thread that reclaims space and then waits for a check kept what it had freed of a tree in a session that the
    /// check knows nothing of: a sound pool was told to leak.
    #[test]
    fn what_is_freed_of_a_tree_is_in_the_books_at_once() {
        let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process).expect("memory");
        let trees: Trees = Trees::create(pool).expect("room");
        let tree = trees.bytes_tree("emptied").expect("room");
        let mut session = trees.heap().session().expect("a session");
        for number in 0..5000_u32 {
            let key = number.to_be_bytes();
            tree.change(&mut session, &Change::upsert(&key, &[7; 100])).expect("room");
        }
        tree.cell().clear(&mut session).expect("room");
        drop(session);
        // Of a thread that goes on to wait for the check.
        let mut session = trees.heap().session().expect("a session");
        while tree.cell().tidy(&mut session) {}
        assert_eq!(trees.check().expect("a check").problems, Vec::<String>::new());
        drop(session);
        assert_eq!(trees.check().expect("a check").problems, Vec::<String>::new());
    }

    /// A thread that had the stripes of all keys waited, when space had run out, for another that was freeing a
    /// large tree, and all others waited for the stripes. Here it waited for ever.
    #[test]
    fn a_thread_that_reclaims_at_once_waits_for_none_that_frees() {
        let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process).expect("memory");
        let trees: Trees = Trees::create(pool).expect("room");
        let (kept, removed) = (trees.bytes_tree("kept"), trees.bytes_tree("removed"));
        let (kept, removed) = (kept.expect("room"), removed.expect("room"));
        let mut session = trees.heap().session().expect("a session");
        assert!(trees.unlink(&mut session, "removed").expect("writable"));
        kept.clear_at_once(&mut session).expect("room");
        for tree in [&kept, &removed] {
            let busy = tree.cell().freeing.lock();
            let reclaimed =
                std::thread::scope(|scope| scope.spawn(|| trees.reclaim_at_once()).join());
            reclaimed.expect("no panic");
            drop(busy);
        }
    }
}
