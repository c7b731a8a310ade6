//! PACTree: a list of unsorted data nodes and, above it, a radix tree that learns of splits and merges
//! later; both in the pool.
//!
//! ```text
//!   radix tree (pool)            low fence -> data node, some changes behind
//!      |          |
//!   [ node ] <-> [ node ] <-> [ node ]        pool, 1216 bytes
//!      ^
//!   root object (pool): tag | variant | first node | log of structure changes | root
//! ```
//!
//! A search comes to a data node by the radix tree, looks at its range, and goes on along the list if
//! the key is not there: right after a split, left after a merge. So a writer that splits a node need not
//! wait for the radix tree: it leaves a record in the log. Writers work off the log when it has more than
//! a few records; a program may do so on a thread of its own ([`PacTree::update_search`]).
//!
//! A write fills a free slot and then commits it by one store of the bitmap; an update stores the value in
//! place. The data node is locked for the whole of a write; readers validate its version.
//!
//! *Source*: Wook-Hee Kim, R. Madhava Krishnan, Xinwei Fu, Sanidhya Kashyap, Changwoo Min, "PACTree: A
//! High Performance Persistent Range Index Using PAC Guidelines", SOSP 2021.
//!
//! | operation | function | linearizes at | durable (`Adr`) when |
//! |---|---|---|---|
//! | get | `search.rs` `read` | last load before the version is found unchanged | it was before the lock was opened |
//! | insert | `write.rs` `put` | opening of the lock | line 0 is drained, before |
//! | update | `write.rs` `apply` | opening of the lock | the value is drained, before |
//! | remove | `write.rs` `apply` | opening of the lock | line 0 is drained, before |
//! | scan | `scan.rs` | a data node at a time, as get | as get |
//! | split | `split.rs` | no effect on contents | its record is linked |
//! | merge | `merge.rs` | no effect | same |
//! | recovery | `recover.rs` | - | - |
//!
//! Invariants (with those of `node/radix`; checked by `check.rs` and on the simulated machine):
//! - PT1 an entry and its fingerprint are durable before the bitmap names them;
//! - PT2 what a write stored is durable before the lock is opened;
//! - PT3 a new node is durable before the log or a link names it;
//! - PT4 a change of the list is in the log, durably, before it begins, and until the radix tree knows it;
//!   it is linked, durably, before the locks of its nodes are opened;
//! - PT5 the radix tree learns of changes in the order in which they were linked, which is, for each node,
//!   that of their numbers; then, and not before, their places in the log, and the nodes that were merged
//!   away, may be used again;
//! - PT6 the list is the truth: the radix tree has its nodes under their low fences, but for what is in
//!   the log, of which, for each fence, it may know the first after a crash; what it has besides was merged
//!   away, and leads left to the node that has the keys.
//!
//! *Departures*, each for a hole of the published design or of its code:
//! - *the log*: a place is used again when its record is erased, durably, and not before; there the ring
//!   is used again without a look. There is one log, not one for each core;
//! - *merged nodes*: a record names both nodes, and the radix tree forgets the right one under its own
//!   fence. A search that still comes there goes left; published, it starts again and comes there again;
//! - *scans* give up only what the node gave that changed, and nothing is there twice;
//! - *line 0* is a line: in objects with a header in front, whose stores do not become durable in their
//!   order, the published commit is none;
//! - the radix tree has nodes of 16 links and no node types; the first node's fence is in it like all
//!   others. The allocator learns from the tree what is in use, so opening reads line 0 of every data
//!   node and the radix tree.

mod check;
mod design;
mod follow;
mod layout;
mod log;
mod merge;
mod recover;
mod scan;
mod search;
mod split;
mod state;
pub mod variant;
mod write;

use std::marker::PhantomData;
use std::sync::Arc;

use everleaf_alloc::Heap;
use everleaf_index::build::Tally;
use everleaf_index::{PoolBase, RootObject};
use everleaf_machine::{Hardware, Machine};
use everleaf_pool::Medium;

use crate::node::radix::RadixTree;
use log::Log;
use variant::{Standard, Variant};

/// The tree, in variant `V`, with a radix tree that branches on `BITS` bits, on machine `M`.
///
/// # Example
/// ```
/// use everleaf_designs::PacTree;
/// use everleaf_index::{Domain, OrderedIndex, Pool, SingleTreePool};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process)?;
/// let tree_pool: SingleTreePool<PacTree> = SingleTreePool::create(pool)?;
/// let mut session = tree_pool.heap().session()?;
/// for key in 0..100 {
///     assert_eq!(tree_pool.tree().insert(&mut session, key, key)?, None);
/// }
/// assert!(tree_pool.tree().update_search(&mut session)? > 0);
/// assert_eq!(tree_pool.tree().get(&mut session, 70)?, Some(70));
/// # Ok(())
/// # }
/// ```
pub struct PacTree<V: Variant = Standard, const BITS: u32 = 4, M: Machine = Hardware> {
    search: RadixTree<BITS, M>,
    log: Log<M>,
    medium: Medium<M>,
    base: PoolBase<M>,
    root_object: RootObject<M>,
    /// The first data node: there is always one for the smallest keys.
    head: u64,
    /// A number that no earlier opening of the pool had.
    generation: u32,
    is_writable: bool,
    keys: Tally<M>,
    nodes: Tally<M>,
    splits: Tally<M>,
    /// Keeps the pool open.
    _heap: Arc<Heap<M>>,
    variant: PhantomData<V>,
}

// SAFETY: `base` is the pool's mapping, which the heap keeps; everything shared is atomic.
unsafe impl<V: Variant, const BITS: u32, M: Machine> Send for PacTree<V, BITS, M> {}
// SAFETY: as for `Send`.
unsafe impl<V: Variant, const BITS: u32, M: Machine> Sync for PacTree<V, BITS, M> {}
