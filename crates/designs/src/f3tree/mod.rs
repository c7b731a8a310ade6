//! F3-tree: writes go to lists of *future objects*, one entry each, and evaluation brings them to a
//! global FAST & FAIR tree, key by key (F3-K) or, where many follow each other, as whole leaves (F3-N).
//!
//! ```text
//!    session 1        session 2       get: table, then global tree
//!       | append         | append
//!       v                v
//!    front 1          front 2         future objects in the pool, a line and a flush each write
//!       |  \             |  \
//!       |   table of pending keys     in DRAM: the newest entry of each key
//!       v                v
//!    evaluation, by key or by leaf: FAST & FAIR tree in the pool
//! ```
//!
//! *Source*: Safdar Jamil, Awais Khan, Bernd Burgstaller, Youngjae Kim, "Towards Scalable
//! Manycore-aware Persistent B+-Trees for Efficient Indexing in Cloud Environments", FAS*W 2021.
//!
//! | operation | function | linearizes at | durable (`Adr`) when |
//! |---|---|---|---|
//! | get | `search.rs` `find` | the table's lock, or the global tree's load | it was before it could be seen |
//! | write of a key | `write.rs` `store` | the change of the table | its entry's line is drained, before |
//! | write without a free entry | `write.rs` `write_directly` | the global tree's store | the global tree's write is |
//! | scan | `scan.rs` | each pair as a get | as get |
//! | evaluation | `evaluate.rs` | no effect on contents | - |
//! | recovery | `recover.rs` | - | - |
//!
//! Invariants (checked by `check.rs` and on the simulated machine):
//! - F1 an entry is durable before the table shows it;
//! - F2 an object is durable before its front refers to it, and `drained` before an entry that it
//!   frees is filled;
//! - F3 an entry whose key is in the table has a number of at least `drained`, whatever number it has
//!   next;
//! - F4 while no evaluation is under way the table has the newest entries of all keys whose numbers are not below
//!   the horizon of their part of it.
//!
//! *Departures*, each for a hole of the published design:
//! - *order*: entries carry numbers of one clock. Published, two threads that write a key one after
//!   the other leave it to their evaluators which value lasts. Here a key is evaluated by one thread at a
//!   time, which takes its newest entry, and one durable word frees all entries below its number, so that
//!   recovery never finds an older entry of a key whose newer one is free (`evaluate.rs` argues it);
//! - *removals* are entries. Published, they go to table, list and tree by themselves, and a copy
//!   that is left anywhere brings the key back;
//! - *recovery* fills the table before the first call. Published, calls go on at once, and what is
//!   in the old objects is absent until it is evaluated;
//! - *bounded*: objects are used again, and a writer that finds none free evaluates, or, when what is
//!   pending finds no space, writes to the global tree directly;
//! - *a key that is pending is changed in place*, and takes no second entry;
//! - *scans* go over both levels: the table is ordered, and read before the tree;
//! - conditional writes look at both levels first, which is what they cost; the variant
//!   [`Blind`](variant::Blind) does without, as published;
//! - *node-based form*: published, a sorted object is linked into the global tree as a leaf. Its entries
//!   here carry stamps, and are used again, so a leaf is made of their keys and values
//!   (`fast_fair/run.rs`); of all that is pending, not of one object's;
//! - an entry leaves by the table, not by its object: what is evaluated is read from DRAM.
//!
//! Evaluator threads belong to the program that uses the tree: they call [`F3Tree::evaluate`], as many at once as
//! it likes. Without them writers evaluate when the objects are full, together.

mod check;
mod design;
mod evaluate;
mod front;
mod layout;
mod pending;
mod recover;
mod scan;
mod search;
mod state;
pub mod variant;
mod write;

use std::sync::Arc;

use everleaf_alloc::Heap;
use everleaf_index::RootObject;
use everleaf_machine::{Atomic, Machine, SpinLock};

use crate::fast_fair::FastFair;
use front::Front;
use layout::{FRONTS_MAX, Objects, entries_max};
use pending::Table;
use variant::{Objects500, Variant};

/// The tree, in variant `V`, on machine `M`.
///
/// # Example
/// ```
/// use everleaf_designs::F3Tree;
/// use everleaf_index::{Domain, OrderedIndex, Pool, SingleTreePool};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process)?;
/// let tree_pool: SingleTreePool<F3Tree> = SingleTreePool::create(pool)?;
/// let mut session = tree_pool.heap().session()?;
/// assert_eq!(tree_pool.tree().insert(&mut session, 7, 70)?, None);
/// assert_eq!(tree_pool.tree().evaluate(&mut session)?, 1);
/// assert_eq!(tree_pool.tree().get(&mut session, 7)?, Some(70));
/// # Ok(())
/// # }
/// ```
pub struct F3Tree<V: Variant = Objects500, M: Machine = everleaf_machine::Hardware> {
    root_object: RootObject<M>,
    global: FastFair<V::Global, M>,
    objects: Objects<M>,
    fronts: Vec<SpinLock<Front, M>>,
    table: Table<M>,
    /// The next sequence number.
    clock: Atomic<u64, M>,
    /// What the word of this name on the medium is at least.
    drained: Atomic<u64, M>,
    /// Writes that went to the global tree without an entry.
    direct: Atomic<u64, M>,
    /// Future objects of all fronts but for the first one of each.
    other_objects: Atomic<u64, M>,
    /// Held while `drained` is stored. No other lock is taken under it.
    advance: SpinLock<(), M>,
    /// Held by a thread that writes to the global tree without an entry. Taken before the claims of the shards
    /// and their locks.
    direct_turn: SpinLock<(), M>,
    heap: Arc<Heap<M>>,
}

impl<V: Variant, M: Machine> F3Tree<V, M> {
    const FITS: () = assert!(V::FRONTS <= FRONTS_MAX && V::ENTRIES <= entries_max(V::OBJECT_SIZE));
}
