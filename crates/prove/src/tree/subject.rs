//! What a tree of 64-bit integers must offer to be proven.

use std::fmt::Debug;
use std::sync::Arc;

use everleaf_alloc::{Heap, Session};
use everleaf_index::{Geometry, IndexError, OrderedIndex, Scans};
use everleaf_machine::Simulated;
use everleaf_pool::Pool;

/// Pairs of key and value.
pub type Pairs = Vec<(u64, u64)>;

/// A geometry that programs can be made of.
pub trait Nodes: Geometry + Clone + Debug + 'static {}

impl<G: Geometry + Clone + Debug + 'static> Nodes for G {}

/// A tree of numbers under test: a type that says how to make, open and use one.
///
/// Implement it with small nodes, so that a handful of keys splits and
/// merges them.
pub trait Subject: Clone + Debug + 'static {
    /// The opened tree with everything that must live as long.
    type OpenTree: 'static;

    /// Whether every thread can finish whatever becomes of the others.
    const LOCK_FREE: bool = false;
    /// Whether what a reader has seen survives a crash in every domain. If not, reads are not judged
    /// in the domain `Adr`.
    const READS_COMMITTED: bool = true;
    /// Whether writes become durable later than they answer.
    const DEFERS: bool = false;
    /// Whether insert, update and upsert all set the value, and no write says what was there.
    const WRITES_BLINDLY: bool = false;
    /// Whether all of the tree is in DRAM. Then it is made anew where others are opened, and no crash is judged.
    const VOLATILE: bool = false;
    /// Whether opening leaves the space that was free, so that there may be none in a small pool.
    const LEAVES_SPACE: bool = false;
    /// Whether there are scans. If not, programs get keys instead
    /// ([`AnyTree::fit`](crate::tree::living::AnyTree::fit)).
    const ORDERED: bool = true;
    /// The smallest key the tree takes.
    const KEY_MIN: u64 = 0;
    /// The largest key the tree takes.
    const KEY_MAX: u64 = u64::MAX;
    /// The smallest value the tree takes.
    const VALUE_MIN: u64 = 0;
    /// The largest value the tree takes.
    const VALUE_MAX: u64 = u64::MAX;

    /// An empty tree on a new pool, with chunks of `1 << chunk_shift` bytes.
    ///
    /// # Errors
    /// No space.
    fn create(pool: Pool<Simulated>, chunk_shift: u32) -> Result<Self::OpenTree, IndexError>;

    /// The tree in a pool that [`Self::create`] made, whatever the pool went through since.
    ///
    /// # Errors
    /// What makes it unusable, in words.
    fn open(pool: Pool<Simulated>) -> Result<Self::OpenTree, String>;

    /// Where the tree lives.
    fn heap(opened: &Self::OpenTree) -> &Arc<Heap<Simulated>>;

    /// The tree.
    fn tree(opened: &Self::OpenTree) -> &dyn OrderedIndex<Simulated>;

    /// Adds up to `limit` pairs from `from` on, descending, to `pairs`: by a scan of all if the tree
    /// cannot do it.
    ///
    /// # Errors
    /// As the tree's.
    fn scan_back(
        opened: &Self::OpenTree,
        session: &mut Session<Simulated>,
        from: u64,
        limit: usize,
        pairs: &mut Pairs,
    ) -> Result<(), IndexError> {
        let tree = Self::tree(opened);
        if tree.info().scans == Scans::BothWays {
            return tree.scan_back(session, from, limit, pairs);
        }
        let mut all = Pairs::new();
        tree.scan(session, Self::KEY_MIN, usize::MAX, &mut all)?;
        pairs.extend(all.into_iter().rev().filter(|(key, _)| *key <= from).take(limit));
        Ok(())
    }

    /// Empties the tree, which can hold no keys but `keys`; not necessarily at once.
    ///
    /// # Errors
    /// As the tree's.
    fn clear(
        opened: &Self::OpenTree,
        session: &mut Session<Simulated>,
        keys: &[u64],
    ) -> Result<(), IndexError> {
        keys.iter().try_for_each(|key| Self::tree(opened).remove(session, *key).map(drop))
    }

    /// Gives all that the tree has back, in memory and in the pool. Nobody uses it any more.
    ///
    /// # Errors
    /// As the tree's.
    fn give_back(
        opened: &Self::OpenTree,
        session: &mut Session<Simulated>,
    ) -> Result<(), IndexError> {
        Self::tree(opened).free_all(session);
        Ok(())
    }

    /// Closes the pool cleanly, with a seal if it has one. Nobody writes any more.
    ///
    /// # Errors
    /// The mark cannot be written.
    fn close(opened: &Self::OpenTree) -> Result<(), IndexError> {
        Ok(Self::heap(opened).pool().set_clean()?)
    }

    /// What is wrong with the structure and its space: order, reachability, leaks, double use.
    /// Nobody uses the tree meanwhile.
    ///
    /// # Errors
    /// The check itself could not be made.
    fn check(opened: &Self::OpenTree) -> Result<Vec<String>, IndexError>;
}
