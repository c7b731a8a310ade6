//! The top index in DRAM, from low fences to leaves: the inner tree of all trees whose leaves alone are in the pool, or
//! an adaptive radix tree.

use everleaf_alloc::{AllocError, Session};
use everleaf_index::Geometry;
use everleaf_machine::Machine;

use crate::node::art::Art;
use crate::node::inner::InnerTree;

/// What finds leaves by their fences. `low_of` gives the low fence of a leaf; callers are pinned. There is always a
/// leaf from 0 on.
pub trait TopIndex<M: Machine>: Send + Sync + Sized {
    /// An index of these low fences, ascending, and leaves.
    ///
    /// # Errors
    /// No memory.
    fn load(session: &mut Session<M>, leaves: &[(u64, u64)]) -> Result<Self, AllocError>;

    /// The leaf of the greatest low fence that is not above `key`.
    fn find_le(&self, key: u64, low_of: impl Fn(u64) -> u64) -> u64;

    /// Makes `leaf` the leaf for the keys from `low` on, up to the next fence. The caller holds the lock of the leaf
    /// that had them, and of the new one until it may be read.
    ///
    /// # Errors
    /// No memory; then no leaf was added.
    fn insert(
        &self,
        session: &mut Session<M>,
        low: u64,
        leaf: u64,
        low_of: impl Fn(u64) -> u64,
    ) -> Result<(), AllocError>;

    /// Takes the first of two leaves, whose low fence is `low`, out: its keys fall to the second, the leaf on its left.
    /// False if it cannot be done; then nothing is changed. The caller holds the locks of both.
    fn remove(
        &self,
        session: &mut Session<M>,
        low: u64,
        leaf_and_left: (u64, u64),
        low_of: impl Fn(u64) -> u64,
    ) -> bool;

    /// The leaf on the left of `leaf`, whose low fence is `low`, if the two can be merged.
    fn left_neighbour(&self, low: u64, leaf: u64, low_of: impl Fn(u64) -> u64) -> Option<u64>;

    /// Levels of nodes.
    fn height(&self) -> u64;

    /// Visits all leaves in order with their fences. Nobody changes the index meanwhile.
    fn for_each_leaf(&self, low_of: impl Fn(u64) -> u64, visit: &mut impl FnMut(u64, u64));

    /// Reports what contradicts the invariants. Nobody changes the index meanwhile.
    fn check(&self, low_of: impl Fn(u64) -> u64, problems: &mut Vec<String>);

    /// Frees all nodes. Nobody uses the index any more.
    fn free(&self, session: &mut Session<M>);
}

impl<G: Geometry, M: Machine> TopIndex<M> for InnerTree<G, M> {
    fn load(session: &mut Session<M>, leaves: &[(u64, u64)]) -> Result<Self, AllocError> {
        InnerTree::load(session, leaves)
    }

    #[inline(always)]
    fn find_le(&self, key: u64, _low_of: impl Fn(u64) -> u64) -> u64 {
        self.find_le(key).leaf
    }

    fn insert(
        &self,
        session: &mut Session<M>,
        low: u64,
        leaf: u64,
        _low_of: impl Fn(u64) -> u64,
    ) -> Result<(), AllocError> {
        self.insert_separator(session, low, leaf)
    }

    fn remove(
        &self,
        _session: &mut Session<M>,
        low: u64,
        (leaf, left): (u64, u64),
        _low_of: impl Fn(u64) -> u64,
    ) -> bool {
        self.remove_separator(low, leaf, left)
    }

    fn left_neighbour(&self, low: u64, leaf: u64, _low_of: impl Fn(u64) -> u64) -> Option<u64> {
        self.left_neighbour(low, leaf)
    }

    fn height(&self) -> u64 {
        self.height()
    }

    fn for_each_leaf(&self, _low_of: impl Fn(u64) -> u64, visit: &mut impl FnMut(u64, u64)) {
        self.for_each_leaf(visit);
    }

    fn check(&self, _low_of: impl Fn(u64) -> u64, problems: &mut Vec<String>) {
        self.check(problems);
    }

    fn free(&self, session: &mut Session<M>) {
        self.free(session);
    }
}

impl<G: Geometry, M: Machine> TopIndex<M> for Art<G, M> {
    fn load(session: &mut Session<M>, leaves: &[(u64, u64)]) -> Result<Self, AllocError> {
        Art::load(session, leaves)
    }

    #[inline(always)]
    fn find_le(&self, key: u64, low_of: impl Fn(u64) -> u64) -> u64 {
        self.find_le(key, low_of).expect("there is a leaf from 0 on")
    }

    fn insert(
        &self,
        session: &mut Session<M>,
        low: u64,
        leaf: u64,
        low_of: impl Fn(u64) -> u64,
    ) -> Result<(), AllocError> {
        let replaced = self.insert(session, low, leaf, low_of)?;
        debug_assert_eq!(replaced, None, "a fence is that of one leaf");
        Ok(())
    }

    fn remove(
        &self,
        session: &mut Session<M>,
        low: u64,
        (leaf, _left): (u64, u64),
        low_of: impl Fn(u64) -> u64,
    ) -> bool {
        let removed = self.remove(session, low, low_of);
        debug_assert_eq!(removed, Some(leaf), "the caller holds the leaf's lock");
        true
    }

    fn left_neighbour(&self, low: u64, _leaf: u64, low_of: impl Fn(u64) -> u64) -> Option<u64> {
        self.find_le(low.checked_sub(1)?, low_of)
    }

    fn height(&self) -> u64 {
        self.height()
    }

    fn for_each_leaf(&self, low_of: impl Fn(u64) -> u64, visit: &mut impl FnMut(u64, u64)) {
        self.for_each(&mut |leaf| visit(low_of(leaf), leaf));
    }

    fn check(&self, low_of: impl Fn(u64) -> u64, problems: &mut Vec<String>) {
        self.check(low_of, problems);
    }

    fn free(&self, session: &mut Session<M>) {
        self.free(session);
    }
}
