//! P-Skiplist: a skip list whose nodes are in the pool, and whose lowest level alone is durable.
//!
//! ```text
//!   head --------------------------> 30 -> .                 level 2   \ not flushed,
//!   head ---------> 20 ------------> 30 ---------> 50 -> .   level 1   / made anew at opening
//!   head -> 10 ---> 20 ---> 25 ---> 30 ---> 40 --> 50 -> .   level 0   link and persist
//! ```
//!
//! A key is there if its node is on level 0 and has a value that is not the dead one. A node is added by an
//! exchange of one link, and removed by an exchange of its value. The links of a removed
//! node are marked, so that nothing is added behind it, and then it is unlinked by the next thread that comes by.
//!
//! *Source*: a case study of Xingsheng Zhao, Chen Zhong, Prajwal Challa, Song Jiang, "Developing Index
//! Structures in Persistent Memory Using Spot-on Optimizations with DRAM", ICPE 2024: the list of RocksDB, put
//! into persistent memory. *Departures*: it has no removal, and gives up nodes that a crash leaves unlinked.
//! Marks are those of Maurice Herlihy, Nir Shavit, "The Art of Multiprocessor Programming", 14.4, but that
//! memory is given back (K6, K7). Dirty bits keep readers from what a crash takes back.
//!
//! | operation | function | linearizes at | durable (`Adr`) when |
//! |---|---|---|---|
//! | get | `search.rs` `read` | the load of the value, of a link past the key, or when a node that it finds dead was removed | it was, or the reader drains it |
//! | insert | `write.rs` `link` | the exchange of the link on level 0 | the link is drained |
//! | update | `write.rs` `exchange` | the exchange of the value | the value is drained |
//! | remove | `write.rs` `exchange` | the exchange of the value | the value is drained |
//! | scan | `scan.rs` | each pair as a get | as get |
//! | recovery | `recover.rs` | - | - |
//!
//! Invariants (checked by `check.rs` and on the simulated machine):
//! - K1 link 0, value, key and height of a node are durable before a link leads to it, and keys and heights
//!   never change;
//! - K2 a link on level 0 to a new node is dirty until it is durable, and who comes upon a dirty one makes
//!   it durable before going on. It is cleaned by an exchange: a node is put behind another once in its
//!   life, so the exchange cannot meet a later link of the same bits;
//! - K3 a node is linked on level 1 and up after its link on level 0 is durable. So who comes from above
//!   stands on a node that no crash takes back;
//! - K4 a value with the dirty bit is exchanged by nobody but who stored it, and read by all, who make it
//!   durable first. (It cannot be cleaned by others: a value may return.) The dead value stays;
//! - K5 the dead value is durable before a link of the node is marked. Marks come from the top down, stay,
//!   and keep the link; a node is unlinked where it is marked. So a key that is not found is durably gone,
//!   and a node whose link on some level is not marked is on level 0;
//! - K6 on each level, nodes have ascending keys, each once: no node is linked in front of one of its key;
//! - K7 a node is retired once: by who removed it if all its links were made before, else by who makes them
//!   (both bits are set by an exchange that shows the other). Before that it is unlinked on all levels, and
//!   the link on level 0 that spans it is durable: so no crash image leads to a node that was retired;
//! - K8 links on level 0 that only unlink are not waited for: what they unlink is durably dead, and what they
//!   lead to is durably linked behind it.
//!
//! Values have 63 bits less one value. Heights are drawn by the key and the session's turn.

mod check;
mod design;
mod layout;
mod recover;
mod scan;
mod search;
mod state;
pub mod variant;
mod write;

use std::sync::Arc;

use everleaf_alloc::Heap;
use everleaf_index::build::Tally;
use everleaf_index::{PoolBase, RootObject};
use everleaf_machine::{Hardware, Machine};
use everleaf_pool::Medium;

use variant::{Standard, Variant};

/// The list, configured by `V`, on machine `M`.
///
/// # Example
/// ```
/// use everleaf_designs::PSkiplist;
/// use everleaf_index::{Domain, OrderedIndex, Pool, SingleTreePool};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process)?;
/// let solo: SingleTreePool<PSkiplist> = SingleTreePool::create(pool)?;
/// let mut session = solo.heap().session()?;
/// assert_eq!(solo.tree().insert(&mut session, 7, 70)?, None);
/// assert_eq!(solo.tree().upsert(&mut session, 7, 71)?, Some(70));
/// assert_eq!(solo.tree().remove(&mut session, 7)?, Some(71));
/// # Ok(())
/// # }
/// ```
pub struct PSkiplist<V: Variant = Standard, M: Machine = Hardware> {
    base: PoolBase<M>,
    medium: Medium<M>,
    root_object: RootObject<M>,
    /// Offset of the head, a node with neither key nor value.
    head: u64,
    is_writable: bool,
    keys: Tally<M>,
    /// Where the pool is open read-only, and what links above level 0 say cannot be made right: keys and
    /// nodes of more than one level.
    guide: Vec<(u64, u64)>,
    variant: std::marker::PhantomData<V>,
    /// Keeps the pool open.
    _heap: Arc<Heap<M>>,
}

// SAFETY: `base` is the pool's mapping, which the heap keeps; everything shared is atomic.
unsafe impl<V: Variant, M: Machine> Send for PSkiplist<V, M> {}
// SAFETY: as for `Send`.
unsafe impl<V: Variant, M: Machine> Sync for PSkiplist<V, M> {}
