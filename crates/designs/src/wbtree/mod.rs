//! wB+Tree: leaves whose sorted order is kept by a slot array in place, guarded by a valid bit.
//!
//! ```text
//!   WbTree, 1152 bytes                               WbTreeSo, 192 bytes
//!   line 0      | lock | next | low | bitmap | 0 |   line 0     | lock | next | low | slot word | 0 |
//!   line 1      | count 1 | slots 63 |               line 1, 2  | 7 entries                        |
//!   line 2 ..   | 64 entries of key and value, 63 used |
//! ```
//!
//! The slot array of a line cannot be changed at once, so a write first declares it invalid, changes
//! it, and declares it valid again together with the entry's bit: four persists. The variant with
//! slots only ([`WbTreeSo`]) keeps the array in one word, which is changed at once: two persists, but
//! seven entries a leaf.
//!
//! *Source*: Shimin Chen, Qin Jin, "Persistent B+-Trees in Non-Volatile Main Memory", PVLDB 8(7),
//! 2015.
//!
//! *Departures.* The published tree is for one thread and has its inner nodes in persistent memory;
//! here, as in the evaluation of the RNTree paper, they are in DRAM, a write locks its leaf and
//! readers validate the leaf's version. An update appends a new entry and moves the slot, so that it
//! is as atomic as an insert. A split rewrites the leaf under the protection of an image and a
//! micro-log where the original logs both nodes. Leaves are never merged.
//!
//! | operation | function | linearizes at | durable when |
//! |---|---|---|---|
//! | find | `leaf.rs`, `slots_only.rs` `search` | the slot array, before the version is found unchanged | it was before the lock was opened |
//! | insert, update, remove | `apply` | the opening of the lock | the bitmap, or the slot word, is drained, before |
//! | split | `hybrid` `rewrite` | no effect on contents | its record is cleared |
//! | recovery | `repair` | - | - |
//!
//! Invariants (with those of `hybrid`):
//! - W1 while the valid bit is durable, so is the slot array, and it names exactly the entries of the
//!   bitmap, in key order; while it is not, the bitmap alone says which entries there are;
//! - W2 an entry is durable before the bitmap, or the slot word, names it;
//! - W3 the valid bit is set whenever the lock is open (but for a pool that is open read-only).

mod leaf;
mod slots_only;

use everleaf_index::Production;
use everleaf_machine::Hardware;

use crate::node::hybrid::Hybrid;

/// wB+Tree with bitmap and slot array.
pub type WbTree<G = Production, M = Hardware> = Hybrid<leaf::WbLeaf, G, M>;

/// wB+Tree whose leaves have a slot word only.
pub type WbTreeSo<G = Production, M = Hardware> = Hybrid<slots_only::SoLeaf, G, M>;
