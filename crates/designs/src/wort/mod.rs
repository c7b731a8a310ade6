//! WORT: a radix tree in the pool whose changes are one store of eight bytes each.
//!
//! ```text
//!   root object (pool)   | "EVLWORT1" | bits | 0 .. | 16 links |
//!                                                 |
//!   node, 136 bytes                    | header | 16 links |        see `node/radix`
//!                                                  |
//!   record, 16 bytes                             | key | value |
//! ```
//!
//! A key is found by its bits, four a level; nodes that would have one link are not there. A write makes
//! a record durable, and then the link that refers to it; nothing is sorted, split or merged.
//!
//! *Source*: Se Kwon Lee, K. Hyun Lim, Hyunsub Song, Beomseok Nam, Sam H. Noh, "WORT: Write Optimal Radix
//! Tree for Persistent Memory Storage Systems", FAST 2017. *Departures* in the nodes: see `node/radix`.
//! Published for one thread; here writers take turns and readers take no lock. Values have 63 bits: the
//! last says that a value may not be durable yet, and a thread that reads such a one makes it durable.
//!
//! | operation | function | linearizes at | durable (`Adr`) when |
//! |---|---|---|---|
//! | get | `leaf.rs` `read` | the load of the value, or of an empty link | it was, or the reader drains it |
//! | insert | `write.rs` `change_locked` | the store of the link | the link is drained |
//! | update | `write.rs` `change_locked` | the store of the value | the value is drained |
//! | remove | `write.rs` `change_locked` | the store of the link | the link is drained |
//! | scan | `design.rs` `walk` | each pair as a get | as get |
//! | recovery | `design.rs` `recover` | - | - |
//!
//! Invariants: those of `node/radix`, and
//! - W1 a record is durable before the link to it is stored, and its key never changes;
//! - W2 a value without the dirty bit is durable;
//! - W3 a value is seen by all when the update returns: it does not wait in a store buffer.

mod design;
mod leaf;
mod write;

use std::sync::Arc;

use everleaf_alloc::Heap;
use everleaf_index::RootObject;
use everleaf_index::build::Tally;
use everleaf_machine::{Hardware, Machine};

use crate::node::radix::RadixTree;
use leaf::Records;

/// The tree, with nodes that branch on `BITS` bits (4; fewer are for tests), on machine `M`.
///
/// # Example
/// ```
/// use everleaf_designs::Wort;
/// use everleaf_index::{Domain, OrderedIndex, Pool, SingleTreePool};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process)?;
/// let tree_pool: SingleTreePool<Wort> = SingleTreePool::create(pool)?;
/// let mut session = tree_pool.heap().session()?;
/// assert_eq!(tree_pool.tree().insert(&mut session, 7, 70)?, None);
/// assert_eq!(tree_pool.tree().upsert(&mut session, 7, 71)?, Some(70));
/// assert_eq!(tree_pool.tree().remove(&mut session, 7)?, Some(71));
/// # Ok(())
/// # }
/// ```
pub struct Wort<const BITS: u32 = 4, M: Machine = Hardware> {
    tree: RadixTree<BITS, M>,
    records: Records<M>,
    root_object: RootObject<M>,
    keys: Tally<M>,
    /// New nodes since the tree was opened.
    nodes: Tally<M>,
    is_writable: bool,
    /// Keeps the pool open.
    _heap: Arc<Heap<M>>,
}
