//! RNTree: leaves sorted by a slot array in the pool, two persists a write, flushing outside locks.
//!
//! ```text
//!   leaf, 1216 bytes
//!   line 0      | lock 8 | next 8 | low 8 | reserved, allocated 8 | active 8 | completed 8 | 0 |
//!   line 1, 2   | the slot array, two versions in turn (node/slot_pair.rs)                 |
//!   line 3 ..   | 64 log entries of key and value, 62 of them used                            |
//! ```
//!
//! A write appends a log entry and then makes a new version of the slot array, the sorted order of
//! the live entries. An entry is reserved by a compare-and-exchange and made durable before the leaf
//! is locked, so that only the slot array is flushed under the lock. Readers bisect the slot array, or
//! compare all entries at once where the CPU can; scans read in its order and never sort.
//!
//! *Source*: Mengxing Liu, Jiankai Xing, Kang Chen, Yongwei Wu, "Building Scalable NVM-based B+tree
//! with HTM", ICPP 2019. [`RnTree`] is the published tree without, [`RnTreeDual`] with the dual slot
//! array: there readers are not disturbed by writers, only by splits.
//!
//! *Departures.* Without hardware transactions: (a) the slot array has two lines that take turns, of
//! which the one with the sequence number ahead counts, so that no crash and no eviction can show a
//! torn one; the two lines are at the same time the dual slot array, whose switch is the word
//! `active` (where a line can be stored at once, variants change it in place instead: `variant.rs`);
//! (b) the inner nodes are read optimistically; (c) a reservation carries the number of
//! splits that the traversal saw (`reserved`), so it cannot be made in a leaf that was split in
//! between: the published algorithm does not look again and loses the key; (d) a leaf is split by
//! the thread that finds no entry left, and only when all entries that were reserved are completed: the
//! published one recycles an entry under its owner; (e) a write that has no effect is refused before
//! it reserves an entry; (f) the split is protected by an image and a micro-log whose record is
//! written after its contents are durable; (g) every leaf has a low fence for recovery, so that a
//! leaf may be empty. Leaves are never merged, as published.
//!
//! | operation | paper | function | linearizes at | durable when |
//! |---|---|---|---|---|
//! | find | Alg. 4 | `hybrid` `read`, `leaf.rs` `search` | the load of `active` (dual) or the slot array before the version is found unchanged | it was before it could be seen |
//! | insert, update | Alg. 1, 2 | `write.rs` `put` | the switch of `active` (dual), the opening of the lock | its slot line is drained, before |
//! | remove | 5.2.3 | `write.rs` `delete` | same | same |
//! | split, compaction | Alg. 3 | `hybrid` `rewrite` | no effect on contents | its record is cleared |
//! | scan | 5.2.4 | `hybrid` `scan` | each leaf like a find | as find |
//! | recovery | 5.3 | `leaf.rs` `repair`, `hybrid` `recover` | - | - |
//!
//! Invariants (with those of `hybrid` and SP1-SP3 of the slot pair):
//! - R1 a slot names an entry that is durable, and no two slots of one version the same entry or key;
//! - R2 an entry is written by the thread that reserved it, before it completes, and then never until
//!   the leaf is rewritten;
//! - R3 `reserved` counts the entries handed out since the last rewrite, `completed` those whose
//!   owners are done with the leaf; a leaf is rewritten only when both equal the capacity;
//! - R4 the number of rewrites in `reserved` is odd exactly while the leaf is rewritten; a thread that
//!   reserves an entry has seen the leaf as the right one under that number;
//! - R5 `active` leads readers to a slot line that is durable; what `reserved`, `active` and
//!   `completed` hold is not used after a crash;
//! - R6 every change of the slot array leaves another version of the lock and, but for changes in place,
//!   another word `active`: a writer that finds what it saw before it took the lock need not search
//!   again.

mod leaf;
pub mod variant;
mod write;

use everleaf_index::Production;
use everleaf_machine::Hardware;

use crate::node::hybrid::Hybrid;

/// RNTree: readers validate the leaf's version, which every write changes.
pub type RnTree<G = Production, M = Hardware> = Hybrid<leaf::RnLeaf<variant::Turns>, G, M>;

/// RNTree with the dual slot array: readers are disturbed by splits only.
pub type RnTreeDual<G = Production, M = Hardware> = Hybrid<leaf::RnLeaf<variant::Dual>, G, M>;

/// RNTree whose slot array is changed by one store of 64 bytes: to be measured, see
/// [`Wide`](variant::Wide).
pub type RnTreeWide<G = Production, M = Hardware> = Hybrid<leaf::RnLeaf<variant::Wide>, G, M>;

/// RNTree whose slot array is changed by one direct store, where the CPU has it.
pub type RnTreeDirect<G = Production, M = Hardware> = Hybrid<leaf::RnLeaf<variant::Direct>, G, M>;

/// RNTree whose slot array is changed in a hardware transaction, where the CPU has it.
pub type RnTreeRtm<G = Production, M = Hardware> = Hybrid<leaf::RnLeaf<variant::Transaction>, G, M>;
