//! Building a tree from sorted input, and inner nodes from the bottom.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Machine, Pair};

use super::NbTree;
use super::inner::Child;
use super::layout::Inner;
use crate::geometry::Geometry;
use crate::kind::Kind;

/// Part of the slots that a bulk load fills, in sixteenths: later inserts find room.
const LEAF_FILL: usize = 14;

/// Builds the leaves of a new tree from entries that come in key order.
pub(crate) struct BulkLoader<'s, K, G: Geometry, M: Machine> {
    tree: NbTree<K, G, M>,
    session: &'s mut Session<M>,
    /// Entries of the leaf being filled.
    entries: Vec<Pair>,
    /// Its low fence.
    low: u64,
    /// First low fences not reached yet.
    next_first: usize,
    children: Vec<Child>,
    keys: u64,
}

/// The leaves of one piece of a tree that is being built, handed over whole.
pub(crate) struct Part {
    children: Vec<Child>,
    keys: u64,
}

// SAFETY: the leaves are private to whoever has the part.
unsafe impl Send for Part {}

impl<'s, K: Kind<M>, G: Geometry, M: Machine> BulkLoader<'s, K, G, M> {
    /// Starts the piece of a new tree whose keys begin at the fence `low`, which the piece owns from
    /// now on. For kinds with one first leaf.
    pub fn piece(session: &'s mut Session<M>, id: u32, low: u64) -> Self {
        debug_assert_eq!(K::FIRST_LOWS.len(), 1, "the first lows would all be in the first piece");
        BulkLoader { low, ..Self::new(session, id) }
    }

    /// Starts a new tree with this id. It survives a crash once the pool's directory has the id.
    pub fn new(session: &'s mut Session<M>, id: u32) -> Self {
        let tree = NbTree::assemble(session.heap().clone(), id, 0);
        BulkLoader {
            tree,
            session,
            entries: vec![],
            low: K::FIRST_LOWS[0],
            next_first: 1,
            children: vec![],
            keys: 0,
        }
    }

    pub fn session(&mut self) -> &mut Session<M> {
        self.session
    }

    /// Adds the next entry, made with `skip` 0.
    pub fn push(&mut self, key: K::Key<'_>, entry: Pair) -> Result<(), AllocError> {
        let base = self.tree.base;
        while let Some(first) = K::FIRST_LOWS.get(self.next_first)
            && K::compare_fence(base, *first, key) != std::cmp::Ordering::Greater
        {
            self.finish_leaf(*first)?;
            self.next_first += 1;
        }
        let fill = (G::SLOT_COUNT * LEAF_FILL / 16).max(1);
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
        let skip = K::shared_prefix(self.tree.base, self.low, high);
        let keyed: Vec<Pair> =
            self.entries.iter().map(|entry| K::rekey(self.tree.base, *entry, skip)).collect();
        let leaf = self.tree.build_first_leaf(self.session, self.low, high, &keyed)?;
        self.children.push((self.low, leaf.cast()));
        self.entries.clear();
        self.low = high;
        Ok(())
    }

    /// The finished piece, up to `high`, which belongs to the next one.
    pub fn finish_piece(mut self, high: u64) -> Result<Part, AllocError> {
        match self.end_leaf(high) {
            Ok(()) => Ok(Part { children: self.children, keys: self.keys }),
            Err(error) => {
                self.abandon();
                Err(error)
            }
        }
    }

    /// The finished tree.
    pub fn finish(mut self) -> Result<NbTree<K, G, M>, AllocError> {
        match self.finish_root() {
            Ok(root) => {
                self.tree.inner.set_root(root);
                self.tree.keys.add(0, self.keys as i64);
                Ok(self.tree)
            }
            Err(error) => {
                self.abandon();
                Err(error)
            }
        }
    }

    fn finish_root(&mut self) -> Result<*mut Inner<M>, AllocError> {
        while let Some(first) = K::FIRST_LOWS.get(self.next_first) {
            self.finish_leaf(*first)?;
            self.next_first += 1;
        }
        self.finish_leaf(0)?;
        self.tree.leaves.add(0, self.children.len() as i64);
        self.tree.inner.build_levels(self.session, self.children.clone())
    }

    /// Gives everything back that was built or pushed so far.
    pub fn abandon(mut self) {
        for entry in self.entries.drain(..) {
            K::free_entry(self.session, entry);
        }
        if self.children.last().is_none_or(|(low, _)| *low != self.low) {
            K::free_fence(self.session, self.low);
        }
        self.tree.free_leaves(self.session, &self.children);
    }
}

impl<K: Kind<M>, G: Geometry, M: Machine> NbTree<K, G, M> {
    /// The tree of all its pieces, in the order of their keys.
    pub(crate) fn join(
        session: &mut Session<M>,
        id: u32,
        parts: Vec<Part>,
    ) -> Result<Self, AllocError> {
        let tree = Self::assemble(session.heap().clone(), id, 0);
        let keys: u64 = parts.iter().map(|part| part.keys).sum();
        let children: Vec<Child> = parts.into_iter().flat_map(|part| part.children).collect();
        tree.leaves.add(0, children.len() as i64);
        match tree.inner.build_levels(session, children.clone()) {
            Ok(root) => tree.inner.set_root(root),
            Err(error) => {
                tree.free_leaves(session, &children);
                return Err(error);
            }
        }
        tree.keys.add(0, keys as i64);
        Ok(tree)
    }

    /// Gives back a piece that is not to be part of a tree.
    pub(crate) fn give_back(session: &mut Session<M>, id: u32, part: &Part) {
        let tree = Self::assemble(session.heap().clone(), id, 0);
        tree.free_leaves(session, &part.children);
    }
}
