//! BzTree: a tree without locks and without a log, whose every change is one exchange of several words.
//!
//! ```text
//!   root --> inner nodes, copied when their children become more or less
//!               |
//!             leaf   | status | metadata .. | sorted pairs | pairs in the order they were added |
//! ```
//!
//! A leaf gets pairs behind those it has: a place is reserved, written and made visible, with an exchange of
//! status and metadata each. A full leaf is frozen and copied, as are inner nodes, and the copies take its place
//! by an exchange of one link. `node::pmwcas` makes exchanges durable, and helps threads that stopped.
//!
//! *Source*: Joy Arulraj, Justin Levandoski, Umar Farooq Minhas, Per-Ake Larson, "BzTree: A High-Performance
//! Latch-free Range Index for Non-Volatile Memory", PVLDB 11(5), 2018. *Departures*: nodes are frozen before
//! the exchange that replaces them, so that all of its words are in one node. Pairs have one size. Pairs
//! reserved before a crash are given up by recovery, not told by an epoch; those of slow threads are given up by
//! others. A removal says the value that it removed. What is not reachable is free, so nothing is logged.
//!
//! | operation | function | linearizes at | durable (`Adr`) when |
//! |---|---|---|---|
//! | get | `search.rs` `get_value` | the load of the value; if absent, a moment of the search | it was, or will be |
//! | insert | `write.rs` `publish` | the exchange of status and metadata | it is decided, durably |
//! | update | `write.rs` `update` | the exchange of value, metadata and status | same |
//! | remove | `write.rs` `remove` | the exchange of metadata and status | same |
//! | a write that replaces its leaf | `split.rs` `replace` | the exchange of a link | same |
//! | merge | `split.rs` `substitute` | no effect on contents | same |
//! | scan | `scan.rs` | each pair as a get | as get |
//! | recovery | `recover.rs` | - | - |
//!
//! Invariants (checked by `check.rs` and on the simulated machine), besides those of PMwCAS:
//! - Z1 a node is durable before a link leads to it. Its keys and shape do not change; a leaf's pairs are
//!   reserved one after the other, each once;
//! - Z2 key and value are durable before the pair is visible;
//! - Z3 every exchange in a node has its status as one of its words: so none succeeds in a frozen node, and
//!   what was copied from it stays true. A frozen node is never active again, but after a crash, when
//!   nobody has a copy: so freezing need not be durable;
//! - Z4 a reserved pair becomes visible only by the thread that reserved it, and gone by any thread. Recovery
//!   makes it gone, so giving up need not be durable;
//! - Z5 one visible pair has a key: a thread that reserved one looks, before making it visible, until every pair
//!   in front of it that was reserved when it looked first is visible or gone;
//! - Z6 a node that is replaced is retired by the thread that replaced it, when that is durable;
//! - Z7 a thread that has frozen a node replaces it before its call ends, or another does, or it gives up for want of
//!   descriptors or of room that others have. So no node is frozen at rest, or a full pool would refuse updates.

mod check;
mod design;
mod layout;
mod merge;
mod recover;
mod scan;
mod search;
mod split;
mod state;
#[cfg(test)]
mod tests;
pub mod variant;
mod write;

use std::sync::Arc;

use everleaf_alloc::Heap;
use everleaf_index::build::Tally;
use everleaf_index::{PoolBase, RootObject};
use everleaf_machine::{Atomic, Hardware, Machine};
use everleaf_pool::Medium;

use crate::node::pmwcas::Pmwcas;
use variant::{Standard, Variant};

/// The tree, configured by `V`, on machine `M`.
///
/// # Example
/// ```
/// use everleaf_designs::BzTree;
/// use everleaf_index::{Domain, OrderedIndex, Pool, SingleTreePool};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process)?;
/// let tree_pool: SingleTreePool<BzTree> = SingleTreePool::create(pool)?;
/// let mut session = tree_pool.heap().session()?;
/// assert_eq!(tree_pool.tree().insert(&mut session, 7, 70)?, None);
/// assert_eq!(tree_pool.tree().upsert(&mut session, 7, 71)?, Some(70));
/// assert_eq!(tree_pool.tree().remove(&mut session, 7)?, Some(71));
/// # Ok(())
/// # }
/// ```
pub struct BzTree<V: Variant = Standard, M: Machine = Hardware> {
    base: PoolBase<M>,
    medium: Medium<M>,
    root_object: RootObject<M>,
    /// Offset of the root object's word that leads to the root.
    root_place: u64,
    is_writable: bool,
    keys: Tally<M>,
    words: Pmwcas<M>,
    /// 1 if some thread has given up replacing a node that it had frozen.
    has_left_frozen: Atomic<u8, M>,
    variant: std::marker::PhantomData<V>,
    /// Keeps the pool open.
    _heap: Arc<Heap<M>>,
}

// SAFETY: `base` is the pool's mapping, which the heap keeps; everything shared is atomic.
unsafe impl<V: Variant, M: Machine> Send for BzTree<V, M> {}
// SAFETY: as for `Send`.
unsafe impl<V: Variant, M: Machine> Sync for BzTree<V, M> {}
