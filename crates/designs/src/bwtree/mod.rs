//! Bw-tree in DRAM: pages that are changed by records put on top of them, and a table that says where.
//!
//! ```text
//!   table  | page 0 | page 1 | page 2 | ..
//!               |
//!            [delete 7] -> [insert 9] -> [split: from 20 on in page 2] -> [base: 64 bytes and its pairs]
//! ```
//!
//! All links between pages are numbers of the table, so every change of a page is one exchange of its slot:
//! a record put on top, or a base in the place of a chain that became long. Nothing is ever changed in
//! place, and nobody waits. Nothing of it is in the pool, and nothing survives.
//!
//! *Source*: Justin J. Levandoski, David B. Lomet, Sudipta Sengupta, "The Bw-Tree: A B-tree for New Hardware
//! Platforms", ICDE 2013.
//!
//! | operation | function | linearizes at |
//! |---|---|---|
//! | get | `search.rs` `read` | the load of the leaf's slot |
//! | insert, update, remove | `write.rs` `write` | the exchange of the leaf's slot; without effect, its load |
//! | split | `split.rs` `split` | the exchange of the page's slot; the page above is told later |
//! | scan | `scan.rs` | each leaf at the load of its slot |
//! | recovery | none: `design.rs` `recover` refuses | - |
//!
//! Invariants (checked by `check.rs` and on the simulated machine):
//! - B1 a record never changes once it can be reached, and goes only with all of its chain, when the slot
//!   leads elsewhere;
//! - B2 the slot of a page is set before anything leads to its number, and never empty afterwards;
//! - B3 a page has the keys from its low key, which never changes, to its end, where its right neighbour's
//!   begin; a page above leads to a page or to one on its left;
//! - B4 page 0 is the root and has no neighbour: when it has too many pairs, two new pages get them, and it
//!   becomes the page above, by one exchange;
//! - B5 no record but that of a split is put on a page that has `CHAIN_MAX` of them.
//!
//! *Departures.* Pages are not removed: one that is empty stays, with its number (the published removal needs
//! a record that makes the page refuse writes, and another order of exchanges). The record of a new child
//! names its first key only, and searches look for the greatest one in the whole chain; the published one
//! names the end of the child, too, and ends a search. Published, a chain is consolidated by the thread that makes it
//! long, in vain if others write meanwhile, so that it has no bound. The root keeps its number. Published pages are
//! written to flash as well; here they are in memory only.

mod check;
mod consolidate;
mod design;
mod layout;
mod scan;
mod search;
mod split;
mod table;
mod write;

use std::sync::Arc;

use everleaf_alloc::Heap;
use everleaf_index::build::Tally;
use everleaf_machine::{Hardware, Machine};

use table::Table;

/// The number of the root.
const ROOT: u64 = 0;

/// The tree, whose pages have up to `PAIRS` pairs when they are consolidated, as is tried when `CHAIN` records
/// are on them and more come, on machine `M`. A page that several threads write without a pause can have more,
/// at most twice as many and the records of splits.
///
/// # Example
/// ```
/// use everleaf_designs::BwTree;
/// use everleaf_index::{Domain, OrderedIndex, Pool, SingleTreePool};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process)?;
/// let tree_pool: SingleTreePool<BwTree> = SingleTreePool::create(pool)?;
/// let mut session = tree_pool.heap().session()?;
/// assert_eq!(tree_pool.tree().insert(&mut session, 7, 70)?, None);
/// assert_eq!(tree_pool.tree().upsert(&mut session, 7, 71)?, Some(70));
/// assert_eq!(tree_pool.tree().remove(&mut session, 7)?, Some(71));
/// # Ok(())
/// # }
/// ```
pub struct BwTree<const PAIRS: usize = 128, const CHAIN: u64 = 8, M: Machine = Hardware> {
    table: Table<M>,
    keys: Tally<M>,
    splits: Tally<M>,
    /// Keeps the memory of the records.
    _heap: Arc<Heap<M>>,
}

impl<const PAIRS: usize, const CHAIN: u64, M: Machine> BwTree<PAIRS, CHAIN, M> {
    /// Records on a page from which on a thread that writes it makes one base of them first.
    pub(super) const CHAIN_MAX: u64 = 2 * CHAIN;
}
