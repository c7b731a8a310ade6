//! FPTree: unsorted leaves with a fingerprint per entry and a bitmap that commits.
//!
//! ```text
//!   leaf, 1152 bytes
//!   line 0      | lock 8 | next 8 | low 8 | bitmap 8 | 0 |
//!   line 1      | 64 fingerprints                        |
//!   line 2 ..   | 64 entries of key and value            |
//! ```
//!
//! A search compares 64 fingerprints at once and reads only entries that match. A write fills a free
//! slot and then commits it, and the end of what it replaces, by one store of the bitmap. The leaf is
//! locked for the whole of a write; readers validate its version.
//!
//! *Source*: Ismail Oukid, Johan Lasperas, Anisoara Nica, Thomas Willhalm, Wolfgang Lehner, "FPTree:
//! A Hybrid SCM-DRAM Persistent and Concurrent B-Tree for Storage Class Memory", SIGMOD 2016.
//!
//! *Departures.* Inner nodes are read optimistically where the paper uses hardware transactions; a
//! write that finds its leaf locked goes back to the root, as published. Bitmap and fingerprints have
//! a line each, for 64 entries. The new leaf of a split is complete and durable before the micro-log
//! names it, so recovery only ever goes forward; the published log names it first, because its
//! allocator must not lose it, and ours cannot. An empty leaf is unlinked if it has a left neighbour
//! below the same inner node whose lock is free; otherwise it stays, empty. Low fences are added.
//!
//! | operation | function | linearizes at | durable when |
//! |---|---|---|---|
//! | find | `leaf.rs` `search` | the bitmap, before the version is found unchanged | it was before the lock was opened |
//! | insert, update | `leaf.rs` `put` | the opening of the lock | the bitmap is drained, before |
//! | remove | `leaf.rs` `apply` | same | same |
//! | split | `structure.rs` `split` | no effect on contents | its record is cleared |
//! | unlinking of an empty leaf | `structure.rs` `unlink` | no effect | same |
//! | recovery | `structure.rs` `finish` | - | - |
//!
//! Invariants (with those of `hybrid`):
//! - F1 an entry and its fingerprint are durable before the bitmap names them;
//! - F2 no two named entries have the same key;
//! - F3 a slot that the bitmap does not name is free;
//! - F4 while a split is logged, the new leaf is durable and nobody has written to it.

mod leaf;
mod structure;

use everleaf_index::Production;
use everleaf_machine::Hardware;

use crate::node::hybrid::Hybrid;

/// FPTree.
pub type FpTree<G = Production, M = Hardware> = Hybrid<leaf::FpLeaf, G, M>;
