//! CDDS B-tree: sorted leaves of versioned entries, which are shifted to make room and ended, not
//! overwritten.
//!
//! ```text
//!   leaf, 1024 bytes
//!   line 0      | lock 8 | next 8 | low 8 | version 8 | count 8 | 0 |
//!   line 1 ..   | 30 entries of key, value, start, end (8 each), two a line, ascending keys |
//! ```
//!
//! An entry is *live* at the versions from its start on and before its end. A write makes changes
//! that count from the next version on - a new entry starts, an old one ends - makes them durable,
//! and then stores that version: the commit. Since entries are sorted in place, a new one shifts all
//! behind it, and each line that this touches is flushed: the write amplification that made others
//! give up sorting, or sort elsewhere.
//!
//! *Source*: Shivaram Venkataraman, Niraj Tolia, Parthasarathy Ranganathan, Roy H. Campbell,
//! "Consistent and Durable Data Structures for Non-Volatile Byte-Addressable Memory", FAST 2011.
//!
//! *Departures.* The published tree is for one thread, has its inner nodes in persistent memory, and
//! one version for the whole tree; here, as in the evaluation of the RNTree paper, inner nodes are in
//! DRAM, a write locks its leaf, readers validate the leaf's version lock, and each leaf has a version
//! of its own, so that writers of different leaves need not wait for each other. A shift makes each
//! line durable before it touches the one that the entries come from: flushed in any order, as
//! published, a crash could keep the later change and lose the earlier one, and with it an entry. A
//! full leaf is replaced by new ones with the live entries, which ends all its versions at once: that
//! is also the collection of old versions. Reading in the past is not offered.
//!
//! | operation | function | linearizes at | durable when |
//! |---|---|---|---|
//! | find | `leaf.rs` `get` | the version, before the lock's is found unchanged | it was before the lock was opened |
//! | insert, update, remove | `leaf.rs` `apply` | the opening of the lock | the version is drained, before |
//! | split, collection of old versions | `hybrid` `replace` | no effect on contents | the link of the left neighbour |
//! | recovery | `leaf.rs` `repair` | - | - |
//!
//! Invariants (with those of `hybrid`):
//! - C1 the keys of the used places ascend (a key may be there in several versions, the later ones
//!   behind), in every crash image too;
//! - C2 an entry's start is stored after the rest of it, and is none while the rest changes: an entry
//!   whose start is not later than the leaf's version is whole;
//! - C3 an entry is overwritten only when it is durable in its new place, so a crash can leave it
//!   twice, with the same key and start, next to each other, and cannot lose it;
//! - C4 whenever the lock is open, no start and no end is later than the leaf's version, no entry is
//!   there twice, and of each key at most one version is live.

mod array;
mod leaf;

use everleaf_index::Production;
use everleaf_machine::Hardware;

use crate::node::hybrid::Hybrid;

/// CDDS B-tree.
pub type CddsTree<G = Production, M = Hardware> = Hybrid<leaf::CddsLeaf, G, M>;
