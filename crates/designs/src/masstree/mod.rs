//! Masstree in DRAM: a B+-tree whose leaves are sorted by a permutation of one word, with one layer.
//!
//! ```text
//!   root -> inner  | version | parent | count | 15 keys | 16 children |             5 lines
//!              |
//!   border  | version | parent | permutation | next | low | 15 keys | 15 values |   5 lines
//! ```
//!
//! Readers take no lock: they read a node between two looks at its version, and go to the right when a
//! split has moved their key. A writer locks its border node, fills a free slot, and publishes it by one
//! store of the permutation; only what could lead a reader astray (a slot used again, a split) is announced
//! in the version, and makes readers wait. Nothing of it is in the pool, and nothing survives.
//!
//! *Source*: Yandong Mao, Eddie Kohler, Robert Morris, "Cache Craftiness for Fast Multicore Key-Value
//! Storage", EuroSys 2012.
//!
//! | operation | function | linearizes at |
//! |---|---|---|
//! | get | `search.rs` `read` | the load of the value, or just before the key's removal if that came behind the load of the permutation; the load of the permutation that lacks the key |
//! | insert | `write.rs` `put` | the store of the permutation; in a split, the opening of the node's lock |
//! | update | `write.rs` `put` | the store of the value |
//! | remove | `write.rs` `take_out` | the store of the permutation |
//! | scan | `scan.rs` | each border node as its keys' gets |
//! | recovery | none: `design.rs` `recover` refuses | - |
//!
//! Invariants (checked by `check.rs` and on the simulated machine):
//! - T1 a border node holds keys from its `low` on, which never changes, to the next node's, also while it
//!   is empty; so a thread that comes late to a node that was split finds the way by `next` and `low`;
//! - T2 a slot that a permutation has named is filled with something else only after the version says so;
//! - T3 all nodes that a split or removal changes are marked before the first of them changes, and stay
//!   locked until all are changed: a node's new version is not seen before its parent's mark;
//! - T4 `parent` changes under the lock of the node above that it leaves, or, in a root, under its own;
//! - T5 what a write stored is seen by all when it returns: it does not wait in a store buffer.
//!
//! *Departures.* Keys have eight bytes here, so there is one layer: no key suffixes, no links to further
//! layers. A split locks all nodes that it will change, and allocates all that it needs, before it changes
//! any, so that it can be refused without a trace; published splits let go of a level before the next. A
//! border node that becomes empty is removed unless it is its parent's first child or its left neighbour
//! is locked just then; published trees remove it always, and then their inner nodes. Scans downwards
//! descend anew for each node, so there is no link to the left.

mod check;
mod design;
mod layout;
mod permutation;
mod remove;
mod scan;
mod search;
mod split;
mod state;
mod write;

use std::sync::Arc;

use everleaf_alloc::Heap;
use everleaf_index::build::Tally;
use everleaf_machine::{AtomicPointer, Hardware, Machine};

use layout::Header;

/// The tree, whose nodes have `WIDTH` slots and keys (15; fewer are for tests, at least 2), on machine `M`.
///
/// # Example
/// ```
/// use everleaf_designs::Masstree;
/// use everleaf_index::{Domain, OrderedIndex, Pool, SingleTreePool};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process)?;
/// let tree_pool: SingleTreePool<Masstree> = SingleTreePool::create(pool)?;
/// let mut session = tree_pool.heap().session()?;
/// assert_eq!(tree_pool.tree().insert(&mut session, 7, 70)?, None);
/// assert_eq!(tree_pool.tree().upsert(&mut session, 7, 71)?, Some(70));
/// assert_eq!(tree_pool.tree().remove(&mut session, 7)?, Some(71));
/// # Ok(())
/// # }
/// ```
pub struct Masstree<const WIDTH: usize = 15, M: Machine = Hardware> {
    root: AtomicPointer<Header<M>, M>,
    keys: Tally<M>,
    splits: Tally<M>,
    merges: Tally<M>,
    /// Keeps the memory of the nodes.
    _heap: Arc<Heap<M>>,
}

// SAFETY: nodes are owned by the tree; what changes in them is atomic, and those that leave it are
// reclaimed by epochs.
unsafe impl<const WIDTH: usize, M: Machine> Send for Masstree<WIDTH, M> {}
// SAFETY: as for `Send`.
unsafe impl<const WIDTH: usize, M: Machine> Sync for Masstree<WIDTH, M> {}
