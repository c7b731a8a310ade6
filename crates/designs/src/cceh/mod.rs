//! CCEH: extendible hashing whose segments are many cache lines, each of which takes a write by itself.
//!
//! ```text
//!   directory (pool), by the first bits of a hash:   00   01   10   11
//!                                                      \  /     |    |
//!   segments (pool), 16 KiB:                         [  0  ] [ 10 ] [ 11 ]
//!      line 0: lock | low | depth       then 255 lines of 4 pairs; a hash's last bits choose a line
//!   root object (pool): tag | directory
//! ```
//!
//! A key is in one of the four lines from its home on. A write changes one line and flushes it. A segment
//! that has no place for a pair is split: the pairs of the upper half go to a new segment, and stay behind
//! in the old one, where they count no more and are overwritten as places are needed. If a segment has as
//! many bits as the directory, that is doubled first. Segments are never merged. There is no order, and so
//! no scan.
//!
//! Variants have one or more of the techniques of SPTree's authors (`variant.rs`):
//! - *buffering* (`buffered.rs`): a write is a record of a log and an entry of its segment's buffer, which is
//!   in DRAM. When a part of the buffer is full, all of it goes to the segment;
//! - *out-of-place writing*: it goes to a copy of the segment instead, which then takes its place;
//! - *caching* (`directory_copy.rs`): the directory is in DRAM too.
//!
//! *Source*: Moohyeon Nam, Hokeun Cha, Young-ri Choi, Sam H. Noh, Beomseok Nam, "Write-Optimized Dynamic
//! Hashing for Persistent Memory", FAST 2019. The variants: Xingsheng Zhao, Chen Zhong, Prajwal Challa, Song
//! Jiang, "Developing Index Structures in Persistent Memory Using Spot-on Optimizations with DRAM", ICPE 2024.
//!
//! | operation | function | linearizes at | durable (`Adr`) when |
//! |---|---|---|---|
//! | get | `search.rs` `read` | the load of the version that is found unchanged afterwards | it was before the lock was opened |
//! | insert | `write.rs` `fill` | the opening of the segment's lock | the pair's line is drained, before |
//! | update | `write.rs` `set` | the same | the same |
//! | remove | `write.rs` `clear` | the same | the same |
//! | split | `split.rs` `split` | - | the old segment's depth is drained |
//! | doubling | `directory.rs` `double` | - | the root object is drained |
//! | a write with buffers | `buffered.rs` `write_buffered` | the opening of the segment's lock | its record is drained, before |
//! | a full buffer | `buffered.rs` `fill_in`, `replace` | - | the head, or the first entry, is drained |
//! | recovery | `recover.rs` | - | - |
//!
//! Invariants (checked by `check.rs` and on the simulated machine):
//! - C1 a pair is on one line, its value is stored before its key, and the line is durable before the lock
//!   of its segment is opened: no crash leaves half a pair, and none takes back what was read;
//! - C2 a segment is durable before an entry leads to it, a directory before the root object names it, and the
//!   root object before an entry of the new directory differs from the old one's;
//! - C3 a segment of depth `d` has the hashes that share `d` bits with it, and is what all their entries
//!   lead to; but while it is split, when both halves and the directory are locked, those of the upper half
//!   may lead there already. The first entry of the upper half is durable before the depth is, and the depth
//!   before a lock is opened. So recovery believes the first entry of each stride and the depth of its
//!   segment, and sets the others: what differs is not durable yet, or of a split of whose upper half nothing
//!   was used;
//! - C4 a key is in at most one place that counts, and a place is used again only if it is empty or its
//!   hash is not the segment's, durably: by C3 it never will be again.
//!
//! - C5 a segment whose head says `flushed: n` has every buffered write of its keys up to number `n`, and the
//!   log has all later ones, durable before their lock was opened; numbers of a segment's writes ascend, and
//!   the halves of a split go on with them. What else of them is in the segment already is what the log and
//!   the buffer say, or older. A chunk of the log goes when the segments of its records have them;
//! - C6 a segment that takes the place of another is durable with its head before an entry leads to it, and
//!   its first entry before either is opened: whichever of the two that entry leads to after a cut has
//!   everything;
//! - C7 what the directory in DRAM says of the current directory in the pool is what that says.
//!
//! Locks are taken in this order: a segment, the directory. A segment that is being made is locked by its
//! maker. Locks are tagged with the opening of the pool, so that a crash opens them.
//!
//! *Departures*, each for a hole of the published design or program:
//! - *marks in keys*: there an inserter marks a place in the key's word first; a crash leaves the mark and
//!   burns the place. Here writers of a segment exclude each other, and nothing but pairs is stored;
//! - *duplicates*: there an insert takes the first free place without looking for the key. Here all places
//!   of the key are looked at;
//! - *read before durable*: there a reader sees a pair before its line is flushed. Here it sees the lock;
//! - *directory seen before it is durable*: there the new directory is published first, and what is flushed
//!   is the local variable. Here C2;
//! - *no end of doubling*: there equal hashes double the directory until the program dies. Here no two keys
//!   have equal hashes, and a directory that finds no space makes the write fail;
//! - *some entries old, some new*: there a segment that is replaced has several entries, and a crash leaves
//!   both in use. Here the first entry decides (C6);
//! - *a log that is not flushed*: there the flush of log records is commented out. Here it is not, and the
//!   variants without a log say that a crash takes back what was written last;
//! - *space*: there old directories and lost segments are never freed. Here directories are retired, and a
//!   segment that no entry leads to is free after a crash.

mod buffered;
mod check;
mod design;
mod directory;
mod directory_copy;
mod directory_word;
mod layout;
mod recover;
mod search;
mod split;
pub mod variant;
mod write;

use std::sync::Arc;

use everleaf_alloc::Heap;
use everleaf_index::{PoolBase, RootObject};
use everleaf_machine::{Atomic, Hardware, Machine};
use everleaf_pool::Medium;

use crate::node::buffer_table::Buffers;
use crate::node::version_lock::VersionLock;
use directory_copy::DirectoryCopy;
use variant::{Standard, Variant};

/// The index, in the configuration `V`, on machine `M`.
///
/// # Example
/// ```
/// use everleaf_designs::Cceh;
/// use everleaf_index::{Domain, IndexError, OrderedIndex, Pool, SingleTreePool};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process)?;
/// let tree_pool: SingleTreePool<Cceh> = SingleTreePool::create(pool)?;
/// let mut session = tree_pool.heap().session()?;
/// assert_eq!(tree_pool.tree().insert(&mut session, 7, 70)?, None);
/// assert_eq!(tree_pool.tree().upsert(&mut session, 7, 71)?, Some(70));
/// assert_eq!(tree_pool.tree().remove(&mut session, 7)?, Some(71));
/// let scan = tree_pool.tree().scan(&mut session, 1, 10, &mut vec![]);
/// assert!(matches!(scan, Err(IndexError::Unsupported(_))), "it has no order");
/// # Ok(())
/// # }
/// ```
pub struct Cceh<V: Variant = Standard, M: Machine = Hardware> {
    base: PoolBase<M>,
    medium: Medium<M>,
    root_object: RootObject<M>,
    /// What the root object says of the directory.
    current: Atomic<u64, M>,
    /// Held by the thread that changes the directory.
    directory_lock: VersionLock<M>,
    /// The directory in DRAM, in a variant with one.
    copy: DirectoryCopy<M>,
    buffers: Buffers<M>,
    /// A number that no earlier opening of the pool had.
    generation: u32,
    is_writable: bool,
    /// Keeps the pool open.
    _heap: Arc<Heap<M>>,
    variant: std::marker::PhantomData<V>,
}

// SAFETY: `base` is the pool's mapping, which the heap keeps; everything shared is atomic.
unsafe impl<V: Variant, M: Machine> Send for Cceh<V, M> {}
// SAFETY: as for `Send`.
unsafe impl<V: Variant, M: Machine> Sync for Cceh<V, M> {}
