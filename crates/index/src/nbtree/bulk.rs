//! Building a tree from sorted input: its leaves one after the other, or partition by partition.

use std::marker::PhantomData;

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Machine, Pair, SpinLock};

use super::NbTree;
use super::inner::Child;
use crate::geometry::Geometry;
use crate::kind::Kind;
use crate::pool_trees::pool_base::PoolBase;

/// Part of the slots that a bulk load fills, in sixteenths: later inserts find room.
const LEAF_FILL: usize = 14;

/// A tree of nobody's yet, to which leaves are given.
pub(crate) trait Loadable<K: Kind<M>, M: Machine>: Sized {
    /// Entries that a leaf can hold.
    fn leaf_capacity(&self) -> usize;

    /// A leaf with these entries, in key order, made with the prefix that the two fences share; as what an
    /// inner node leads to.
    fn load_leaf(
        &self,
        session: &mut Session<M>,
        low: u64,
        high: u64,
        entries: &[Pair],
    ) -> Result<*mut (), AllocError>;

    /// Makes these all leaves of the tree.
    fn set_leaves(
        &self,
        session: &mut Session<M>,
        children: Vec<Child>,
        keys: u64,
    ) -> Result<(), AllocError>;

    /// Gives such leaves back, with all they hold.
    fn free_loaded(&self, session: &mut Session<M>, children: &[Child]);
}

/// Builds the leaves of a new tree from entries that come in key order. What was built or pushed goes back when it is
/// dropped, so also when the caller's pairs panic; that of a partition, whose first fence its neighbour may be reading,
/// is left to the caller.
pub(crate) struct BulkLoader<'s, K: Kind<M>, T: Loadable<K, M>, M: Machine> {
    /// Until the end, which takes it.
    tree: Option<T>,
    session: &'s mut Session<M>,
    /// Entries of the leaf being filled.
    entries: Vec<Pair>,
    /// Its low fence.
    low: u64,
    /// First low fences not reached yet.
    next_first: usize,
    children: Vec<Child>,
    keys: u64,
    /// Of a partition: where what was built is left if it is dropped.
    left: Option<&'s Left<M>>,
    kind: PhantomData<K>,
}

/// Where a partition that is dropped leaves what was built of it.
pub(crate) type Left<M> = SpinLock<Option<Part>, M>;

/// What was built of one partition of a tree, handed over whole: its leaves, and of one that failed also what no
/// leaf has.
pub(crate) struct Part {
    children: Vec<Child>,
    keys: u64,
    /// Entries that no leaf has.
    entries: Vec<Pair>,
    /// The low fence of the leaf that was to have them, unless a leaf has it.
    low: Option<u64>,
}

// SAFETY: the leaves are private to the thread that has the part.
unsafe impl Send for Part {}

impl<'s, K: Kind<M>, T: Loadable<K, M>, M: Machine> BulkLoader<'s, K, T, M> {
    /// Starts the partition of a new tree whose keys begin at the fence `low`, which the partition owns from
    /// now on, and which the partition below reads when it ends. For kinds with one first leaf.
    pub fn partition(session: &'s mut Session<M>, tree: T, low: u64, left: &'s Left<M>) -> Self {
        debug_assert_eq!(
            K::FIRST_LOWS.len(),
            1,
            "the first lows would all be in the first partition"
        );
        let mut loader = Self::new(session, tree);
        loader.low = low;
        loader.left = Some(left);
        loader
    }

    /// Starts with a tree without leaves. It survives a crash once the pool's directory has its id.
    pub fn new(session: &'s mut Session<M>, tree: T) -> Self {
        BulkLoader {
            tree: Some(tree),
            session,
            entries: vec![],
            low: K::FIRST_LOWS[0],
            next_first: 1,
            children: vec![],
            keys: 0,
            left: None,
            kind: PhantomData,
        }
    }

    pub fn session(&mut self) -> &mut Session<M> {
        self.session
    }

    fn tree(&self) -> &T {
        self.tree.as_ref().expect("only an end takes the tree")
    }

    /// Adds the next entry, made with `skip` 0.
    pub fn push(&mut self, key: K::Key<'_>, entry: Pair) -> Result<(), AllocError> {
        let base = PoolBase::of(self.session.heap());
        while let Some(first) = K::FIRST_LOWS.get(self.next_first)
            && K::compare_fence(base, *first, key) != std::cmp::Ordering::Greater
        {
            self.finish_leaf(*first)?;
            self.next_first += 1;
        }
        let fill = (self.tree().leaf_capacity() * LEAF_FILL / 16).max(1);
        if self.entries.len() >= fill {
            let below = self.entries[self.entries.len() - 1];
            let made = K::make_fence(self.session, self.low, below, entry);
            if let Err(error) = made.and_then(|fence| self.finish_leaf(fence)) {
                // Ours from now on, to be given back with the others.
                self.entries.push(entry);
                return Err(error);
            }
        }
        self.entries.push(entry);
        self.keys += 1;
        Ok(())
    }

    /// Makes a leaf of the entries, up to `high`, which is given up if that fails.
    fn finish_leaf(&mut self, high: u64) -> Result<(), AllocError> {
        self.end_leaf(high).inspect_err(|_| K::free_fence(self.session, high))
    }

    /// Makes a leaf of the entries, up to `high`.
    fn end_leaf(&mut self, high: u64) -> Result<(), AllocError> {
        // Entries come without a skipped prefix; the leaf has its own.
        let base = PoolBase::of(self.session.heap());
        let skip = K::shared_prefix(base, self.low, high);
        let keyed: Vec<Pair> =
            self.entries.iter().map(|entry| K::rekey(base, *entry, skip)).collect();
        let tree = self.tree.as_ref().expect("only an end takes the tree");
        let leaf = tree.load_leaf(self.session, self.low, high, &keyed)?;
        self.children.push((self.low, leaf));
        self.entries.clear();
        self.low = high;
        Ok(())
    }

    /// The finished partition, up to `high`, which belongs to the next one; or all that there is of it.
    pub fn finish_partition(mut self, high: u64) -> (Part, Result<(), AllocError>) {
        // The fence is the next partition's, and all entries have a leaf if that was made.
        let ended = self.end_leaf(high);
        let part = self.take();
        (if ended.is_ok() { Part { low: None, ..part } } else { part }, ended)
    }

    /// The finished tree.
    pub fn finish(mut self) -> Result<T, AllocError> {
        self.finish_root()?;
        Ok(self.tree.take().expect("only an end takes the tree"))
    }

    fn finish_root(&mut self) -> Result<(), AllocError> {
        while let Some(first) = K::FIRST_LOWS.get(self.next_first) {
            self.finish_leaf(*first)?;
            self.next_first += 1;
        }
        self.finish_leaf(0)?;
        let tree = self.tree.as_ref().expect("only an end takes the tree");
        tree.set_leaves(self.session, self.children.clone(), self.keys)
    }

    /// All that was built or pushed so far, to be given back.
    pub fn stop(mut self) -> Part {
        self.take()
    }

    fn take(&mut self) -> Part {
        self.tree = None;
        let has_leaf = self.children.last().is_some_and(|(low, _)| *low == self.low);
        Part {
            children: std::mem::take(&mut self.children),
            keys: self.keys,
            entries: std::mem::take(&mut self.entries),
            low: (!has_leaf).then_some(self.low),
        }
    }
}

impl<K: Kind<M>, T: Loadable<K, M>, M: Machine> Drop for BulkLoader<'_, K, T, M> {
    fn drop(&mut self) {
        let Some(tree) = self.tree.take() else { return };
        let part = self.take();
        match self.left {
            Some(left) => *left.lock() = Some(part),
            None => part.give_back::<K, T, M>(self.session, &tree),
        }
    }
}

/// Makes partitions, in the order of their keys, the leaves of a tree that has none.
pub(crate) fn join<K: Kind<M>, T: Loadable<K, M>, M: Machine>(
    session: &mut Session<M>,
    tree: T,
    parts: Vec<Part>,
) -> Result<T, AllocError> {
    let keys: u64 = parts.iter().map(|part| part.keys).sum();
    let children: Vec<Child> = parts.into_iter().flat_map(|part| part.children).collect();
    match tree.set_leaves(session, children.clone(), keys) {
        Ok(()) => Ok(tree),
        Err(error) => {
            tree.free_loaded(session, &children);
            Err(error)
        }
    }
}

impl Part {
    /// A partition of which there is nothing yet but its low fence.
    pub fn of_fence(low: u64) -> Self {
        Part { children: vec![], keys: 0, entries: vec![], low: Some(low) }
    }

    /// Gives back a partition that is not to be part of the tree it was made for. The partition below it, whose last
    /// leaf ends at its low fence, is not being built any more.
    pub fn give_back<K: Kind<M>, T: Loadable<K, M>, M: Machine>(
        self,
        session: &mut Session<M>,
        tree: &T,
    ) {
        for entry in self.entries {
            K::free_entry(session, entry);
        }
        if let Some(low) = self.low {
            K::free_fence(session, low);
        }
        tree.free_loaded(session, &self.children);
    }
}

impl<K: Kind<M>, G: Geometry, M: Machine> Loadable<K, M> for NbTree<K, G, M> {
    #[inline(always)]
    fn leaf_capacity(&self) -> usize {
        G::SLOT_COUNT
    }

    fn load_leaf(
        &self,
        session: &mut Session<M>,
        low: u64,
        high: u64,
        entries: &[Pair],
    ) -> Result<*mut (), AllocError> {
        Ok(self.build_first_leaf(session, low, high, entries)?.cast())
    }

    fn set_leaves(
        &self,
        session: &mut Session<M>,
        children: Vec<Child>,
        keys: u64,
    ) -> Result<(), AllocError> {
        let count = children.len() as i64;
        self.inner.set_root(self.inner.build_levels(session, children)?);
        self.leaves.add(0, count);
        self.keys.add(0, keys as i64);
        Ok(())
    }

    fn free_loaded(&self, session: &mut Session<M>, children: &[Child]) {
        self.free_leaves(session, children);
    }
}
