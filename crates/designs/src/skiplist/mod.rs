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
//! Variants have one or more of the techniques of SPTree's authors (`variant.rs`). With them the nodes above the low
//! levels, the *tall* ones, begin *partitions* of the list (`partitions.rs`), and stay when their key is removed:
//! - *buffering* (`buffered.rs`): a write is a record of a log and an entry of its partition's buffer, which is in
//!   DRAM. When that is full, all of it goes to the list (`fill.rs`), entry by entry. What changes in a partition, on
//!   its low levels too, changes under its lock, and readers look again if it did: nothing is dirty or marked;
//! - *out-of-place writing*: the new nodes of a full buffer are made and flushed together, and runs of them are linked
//!   by one store each;
//! - *caching*: an inner tree in DRAM leads to the tall nodes, in place of the levels above the low ones.
//!
//! *Source*: a case study of Xingsheng Zhao, Chen Zhong, Prajwal Challa, Song Jiang, "Developing Index
//! Structures in Persistent Memory Using Spot-on Optimizations with DRAM", ICPE 2024: the list of RocksDB, put
//! into persistent memory. *Departures*: it has no removal, and gives up nodes that a crash leaves unlinked.
//! Marks are those of Maurice Herlihy, Nir Shavit, "The Art of Multiprocessor Programming", 14.4, but that
//! memory is given back (K6, K7). Dirty bits keep readers from what a crash takes back. The variants are that study's,
//! but that there the flush of log records is commented out, buffers have keys without values (8; or 16 pairs in the
//! text), and copies of the tall nodes are what is cached. Here a buffer is one of 14 pairs or removals, as SPTree's,
//! and the variants without a log say that a crash takes back what was written last. Out-of-place writing is said there
//! to be in the nature of a list; what it can be beyond that is here.
//!
//! | operation | function | linearizes at | durable (`Adr`) when |
//! |---|---|---|---|
//! | get | `search.rs` `read` | the load of the value, of a link past the key, or when a node that it finds dead was removed | it was, or the reader drains it |
//! | insert | `write.rs` `link` | the exchange of the link on level 0 | the link is drained |
//! | update | `write.rs` `exchange` | the exchange of the value | the value is drained |
//! | remove | `write.rs` `exchange` | the exchange of the value | the value is drained |
//! | scan | `scan.rs` | each pair as a get; with buffers each partition | as get |
//! | get with buffers | `buffered.rs` `read_buffered` | the load of the version that is found unchanged afterwards | it was before the lock was opened |
//! | a write with buffers | `buffered.rs` `write_buffered` | the opening of the partition's lock | its record is drained, before |
//! | a full buffer | `fill.rs` `fill` | - | the tall nodes say that they have it, drained |
//! | recovery | `recover.rs` | - | - |
//!
//! Invariants (checked by `check.rs` and on the simulated machine):
//! - K1 link 0, value, key and height of a node are durable before a link leads to it, and keys and heights
//!   never change;
//! - K2 a link on level 0 to a new node is dirty until it is durable, and a thread that comes upon a dirty one makes
//!   it durable before going on. It is cleaned by an exchange: a node is put behind another once in its
//!   life, so the exchange cannot meet a later link of the same bits;
//! - K3 a node is linked on level 1 and up after its link on level 0 is durable. So a thread that comes from above
//!   stands on a node that no crash takes back;
//! - K4 a value with the dirty bit is exchanged by no thread but the one that stored it, and read by all, which make it
//!   durable first. (It cannot be cleaned by others: a value may return.) The dead value stays, but in a tall node;
//! - K5 the dead value is durable before a link of the node is marked. Marks come from the top down, stay,
//!   and keep the link; a node is unlinked where it is marked. So a key that is not found is durably gone,
//!   and a node whose link on some level is not marked is on level 0;
//! - K6 on each level, nodes have ascending keys, each once: no node is linked in front of one of its key;
//! - K7 a node is retired once: by the thread that removed it if all its links were made before, else by the one that
//!   makes them (both bits are set by an exchange that shows the other). Before that it is unlinked on all levels, and
//!   the link on level 0 that spans it is durable: so no crash image leads to a node that was retired;
//! - K8 links on level 0 that only unlink are not waited for: what they unlink is durably dead, and what they
//!   lead to is durably linked behind it;
//!
//! and, of partitions:
//! - K9 a partition has the keys from its tall node up to the next one, on the low levels between the two. What leads
//!   to it in DRAM or from the levels above is a hint: from a partition on the left the way goes on to the right;
//! - K10 a tall node that says `flushed: n` has in its partition every buffered write of its keys up to number `n`, and
//!   the log has all later ones, durable before the lock was opened; numbers of a partition's writes ascend, and a
//!   partition that is split off goes on with them, but says of itself what the old one did until all of the buffer
//!   is in the list. What else of later writes is in the list already is what the log and the buffer say, or older;
//!   a key that is not in the buffer has none. A chunk of the log goes when the partitions of its records have them;
//! - K11 a tall node is durable before it is found from above, and is not unlinked as long as the pool is open. With a
//!   log it never is.
//!
//! Values have 63 bits less one value. Heights are drawn by the key and the session's turn.

mod buffered;
mod check;
mod design;
mod fill;
mod layout;
mod partitions;
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

use partitions::Partitions;
use variant::{Standard, Variant};

/// The list, configured by `V`, on machine `M`.
///
/// # Example
/// ```
/// use everleaf_designs::PSkiplist;
/// use everleaf_index::{Domain, OrderedIndex, Pool, SingleTreePool};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process)?;
/// let single: SingleTreePool<PSkiplist> = SingleTreePool::create(pool)?;
/// let mut session = single.heap().session()?;
/// assert_eq!(single.tree().insert(&mut session, 7, 70)?, None);
/// assert_eq!(single.tree().upsert(&mut session, 7, 71)?, Some(70));
/// assert_eq!(single.tree().remove(&mut session, 7)?, Some(71));
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
    /// nodes of more than one level, or the tall ones.
    guide: Vec<(u64, u64)>,
    /// In variants with buffers or caching.
    partitions: Partitions<M>,
    variant: std::marker::PhantomData<V>,
    /// Keeps the pool open.
    _heap: Arc<Heap<M>>,
}

// SAFETY: `base` is the pool's mapping, which the heap keeps; everything shared is atomic.
unsafe impl<V: Variant, M: Machine> Send for PSkiplist<V, M> {}
// SAFETY: as for `Send`.
unsafe impl<V: Variant, M: Machine> Sync for PSkiplist<V, M> {}
