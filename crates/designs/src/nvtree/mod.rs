//! NVTree: leaves that are only ever appended to, and replaced when they are full.
//!
//! ```text
//!   leaf, 1088 bytes
//!   line 0      | lock 8 | next 8 | low 8 | removals 8 | count 8 | visible 8 | 0 |
//!   line 1 ..   | 64 entries of key and value                                     |
//! ```
//!
//! A write appends an entry, or the record of a removal, and then counts it: two persists, and no
//! entry is ever changed. A search reads from the last entry back. Conditional writes search first,
//! which is what they cost; [`NvTreeBlind`] does without, as the published tree: then insert, update
//! and upsert are the same, remove may append the removal of what is not there, none says what was
//! there before, and the keys have to be counted when their number is asked for.
//!
//! *Source*: Jun Yang, Qingsong Wei, Cheng Chen, Chundong Wang, Khai Leong Yong, Bingsheng He,
//! "NV-Tree: Reducing Consistency Cost for NVM-based Single Level Systems", FAST 2015.
//!
//! *Departures.* The array of inner nodes is replaced by the inner tree that all trees of this kind
//! share, as in the evaluation of the RNTree paper; writers lock the leaf. Whether an entry is a
//! removal stands in one word per leaf, in the line of the counter and stored before it, so that keys
//! keep all their bits. An update appends one entry, not a removal and an insertion, since the last
//! entry counts. Readers do not look at the persistent counter but at `visible`, which follows it
//! when it is durable: with the published reader a value can be read that a crash takes back (the
//! read-uncommitted anomaly that the RNTree paper points out).
//!
//! | operation | function | linearizes at | durable when |
//! |---|---|---|---|
//! | find | `leaf.rs` `search` | the load of `visible` | it was before it could be seen |
//! | insert, update, remove | `leaf.rs` `append` | the exchange of `visible` | the counter is drained, before |
//! | split, replacement | `hybrid` `replace` | no effect on contents | the link of the left neighbour |
//! | recovery | `leaf.rs` `repair` | - | - |
//!
//! Invariants (with those of `hybrid`):
//! - N1 the entries below the counter are durable before it is, and never change;
//! - N2 `visible` is at most the durable counter; equal to it whenever the lock is open;
//! - N3 a leaf that was replaced is dead and stays as it was, so that a thread that reached it in
//!   time may read it; its replacements hold what it held, and nobody writes to them before it is out
//!   of list and inner tree.

mod leaf;

use everleaf_index::Production;
use everleaf_machine::Hardware;

use crate::node::hybrid::Hybrid;

/// NVTree with conditional writes.
pub type NvTree<G = Production, M = Hardware> = Hybrid<leaf::NvLeaf<false>, G, M>;

/// NVTree without: insert, update and remove append without looking.
pub type NvTreeBlind<G = Production, M = Hardware> = Hybrid<leaf::NvLeaf<true>, G, M>;
