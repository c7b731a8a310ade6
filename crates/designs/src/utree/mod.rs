//! uTree: a persistent list of nodes with one pair each, and a B+-tree in DRAM that leads to them.
//!
//! ```text
//!   InnerTree (DRAM)            every key -> its node
//!      |       |       |
//!   [ 0 ] -> [ 5 ] -> [ 9 ]     pool: nodes of 32 bytes, ascending keys; the first has no pair
//!      ^
//!   root object (pool): tag | first node
//! ```
//!
//! The tree is never written to the pool: a write costs the node it makes or changes, and the link of the
//! node before. An absent key is found absent in DRAM; a present one costs one line of the pool.
//!
//! *Source*: Youmin Chen, Youyou Lu, Kedong Fang, Qing Wang, Jiwu Shu, "uTree: a Persistent B+-Tree with
//! Low Tail Latency", PVLDB 13(11), 2020.
//!
//! | operation | function | linearizes at | durable (`Adr`) when |
//! |---|---|---|---|
//! | get | `search.rs` `read` | the value, before the version is found unchanged; absent: the descent | it was before the lock was opened |
//! | insert | `write.rs` `link` | the opening of the node's lock | the link is drained, before |
//! | update | `write.rs` `set` | the opening of the node's lock | the value is drained, before |
//! | remove | `write.rs` `unlink` | the node leaves the tree | the link is drained, before |
//! | scan | `scan.rs` | each pair as a get | as get |
//! | recovery | `recover.rs` | - | - |
//!
//! Invariants (with those of `inner`; checked by `check.rs` and on the simulated machine):
//! - U1 a node is durable before a link leads to it, and its key never changes;
//! - U2 a link is durable before the lock of the node that it is in is opened, and before the node that
//!   it leads to can be read;
//! - U3 links change only under the lock of their node, and a node that left the list is dead: so what is
//!   linked behind a node is in the list;
//! - U4 every node of the list is entered in the tree under its key, and keys between two nodes lead to
//!   the lower one: a node is entered, locked, before it is linked, and taken out after it is unlinked.
//!
//! *Departures*, each for a hole of the published design:
//! - *seen before it is linked*: there the tree shows a pair whose node is not in the list yet. Here the
//!   node is locked until it is;
//! - *behind a removed node*: there an insert may link its node behind one that was unlinked meanwhile,
//!   and a crash loses it. Here both hold the lock of the node before;
//! - *link not durable*: there an insert is acknowledged although the link to the node before it may
//!   still be lost. Here nobody can lock a node before the link to it is durable;
//! - published writers give up after ten attempts. Locks are in the nodes, one a node, and tagged with
//!   the opening of the pool.

mod check;
mod design;
mod layout;
mod recover;
mod scan;
mod search;
mod write;

use std::sync::Arc;

use everleaf_alloc::Heap;
use everleaf_index::build::Tally;
use everleaf_index::{Geometry, PoolBase, Production, RootObject};
use everleaf_machine::{Atomic, Hardware, Machine};
use everleaf_pool::Medium;

use crate::node::inner::InnerTree;

/// The tree, with nodes in DRAM of geometry `G`, on machine `M`.
///
/// # Example
/// ```
/// use everleaf_designs::UTree;
/// use everleaf_index::{Domain, OrderedIndex, Pool, SingleTreePool};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process)?;
/// let tree_pool: SingleTreePool<UTree> = SingleTreePool::create(pool)?;
/// let mut session = tree_pool.heap().session()?;
/// assert_eq!(tree_pool.tree().insert(&mut session, 7, 70)?, None);
/// assert_eq!(tree_pool.tree().upsert(&mut session, 7, 71)?, Some(70));
/// assert_eq!(tree_pool.tree().remove(&mut session, 7)?, Some(71));
/// # Ok(())
/// # }
/// ```
pub struct UTree<G: Geometry = Production, M: Machine = Hardware> {
    inner: InnerTree<G, M>,
    base: PoolBase<M>,
    medium: Medium<M>,
    root_object: RootObject<M>,
    /// A number that no earlier opening of the pool had.
    generation: u32,
    is_writable: bool,
    keys: Tally<M>,
    /// Not 0 once a node was given a place of the tree besides its own.
    given: Atomic<u64, M>,
    /// Keeps the pool open.
    _heap: Arc<Heap<M>>,
}

// SAFETY: `base` is the pool's mapping, which the heap keeps; everything shared is atomic.
unsafe impl<G: Geometry, M: Machine> Send for UTree<G, M> {}
// SAFETY: as for `Send`.
unsafe impl<G: Geometry, M: Machine> Sync for UTree<G, M> {}
