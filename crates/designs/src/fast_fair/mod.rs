//! FAST & FAIR: a B-link tree that lives in the pool as a whole, sorted, without a log, and needs no
//! recovery: opening it reads one line.
//!
//! ```text
//!   root object -> root                  level 2
//!              |        \
//!            node -----> node       level 1     each node 512 bytes: header, sorted records
//!            |   \        |  \
//!           leaf->leaf-->leaf->leaf level 0     -> is the sibling word
//! ```
//!
//! Records are put in and taken out by 8-byte stores in an order of which every prefix is a state
//! that readers tolerate and writers mend (FAST: `node/fast_node`); nodes split and merge in
//! steps of which every prefix is one, too (FAIR). Readers take no locks. Writers lock one node at a
//! time, and repair what they meet: a cut shift, a cut split or merge, a separator that was never
//! inserted.
//!
//! *Source*: Deukyeon Hwang, Wook-Hee Kim, Youjip Won, Beomseok Nam, "Endurable Transient
//! Inconsistency in Byte-Addressable Persistent B+-Tree", FAST 2018.
//!
//! | operation | paper | function | linearizes at | durable (`Adr`) when |
//! |---|---|---|---|---|
//! | get | Alg. 3 | `search.rs` `get_word` | load of the record's word | see *Promise* |
//! | insert | Alg. 1 | `write.rs`, `Nodes::insert` | store of the record's word | its line was flushed and drained |
//! | update, exchange | - | `write.rs`, `Nodes::replace` | store of the record's word | same |
//! | remove | 3.2 | `write.rs`, `Nodes::remove` | store of the left neighbour's word | the lines it shifted through were |
//! | split | Alg. 2, 4.1 | `split.rs` | no effect on contents; the right half moves at the store of `sibling` | `sibling`, then the cut |
//! | merge | 4.2 | `merge.rs` | same, at the store of `sibling` | separator, records, `sibling` |
//! | run of inserts | - | `run.rs` | the store of the left leaf's `sibling` | `sibling` |
//! | scan | - | `scan.rs` | each pair as a get | as get |
//! | recovery | 4.3 | `node/fast_node/mend.rs`, `split.rs` `add_separator` | - | - |
//! | a write with buffers | - | `buffered.rs` `write_buffered` | opening of the leaf's lock | its record was drained, before |
//! | a full buffer | - | `buffered.rs` `fill_in`, `replace.rs` | no effect on contents | `flushed`, or the old leaf's sibling word |
//!
//! Invariants (checked by `check.rs` and on the simulated machine):
//! - F1 a record's line is durable before the place it came from is stored over; so every crash has
//!   at most one record twice, and none is lost;
//! - F2 on the medium, what lies behind a node's end belongs to nodes on its right: before the
//!   sibling becomes another one, nothing lies there;
//! - F3 a node is durable before anything refers to it, and is reused only when no durable word
//!   that is believed refers to it;
//! - F4 the low fence never changes. A node's keys are at least its own and less than its sibling's,
//!   but for a node that is `UNCUT`, unread or being merged into, whose other keys are all in the
//!   sibling with the same values;
//! - F5 the siblings of a level, from its leftmost node, are all its nodes, in ascending order; the
//!   separators of a level are some of the nodes below, each with its low fence;
//! - F6 a node's separator is removed, durably, before the node is merged away, and under the
//!   parent's lock nobody adds a separator of a node that has left the tree.
//!
//! *Promise.* Writes are durably linearizable. A reader takes no lock and finishes always (it waits
//! only while a node that a crash damaged is mended), but in the domain `Adr` may see what a crash
//! takes back: *read uncommitted*. The variant with leaf locks reads only what is durable.
//!
//! Variants have one or more of the techniques of SPTree's authors (`variant.rs`), and then these as well:
//! - B1 a leaf whose header says `flushed: n` has every buffered write of its keys up to number `n`, and the
//!   log has all later ones, durable before the leaf's lock was opened. The numbers of a leaf's writes
//!   ascend, and the halves of a split go on with them. What else of them is in the leaf is what the log and the
//!   buffer say, or older. A chunk of the log goes when the leaves of its records have them;
//! - B2 *out-of-place writing*: a leaf is replaced in this order, each step durable before the next: the copy,
//!   the old leaf's sibling word, which then leads to the copy and says so (`MOVED`), the left neighbour's
//!   sibling word, the parent's word. The old leaf is used again after that, and is locked until then. So
//!   recovery makes what leads to a leaf that is `MOVED` lead to its copy, and there is one;
//! - B3 *caching*: the tree in DRAM leads from a key to a leaf whose low fence is not greater, and which has
//!   not left its level: the search goes on to the right from there. What it misses is found from the left.
//!
//! *Deviations*, each for a hole of the published protocol or code:
//! - D1 *low fence*: published, a writer moves right if the sibling's first key is not greater than
//!   its key. An inner split takes its middle key away, a leaf's first key can be removed: then a key
//!   lands left of its place, where no search finds it. A node's own fence is fixed (F4);
//! - D2 moving right at `low <= key`, not `<`: the separator itself belongs to the right;
//! - D3 *nonces*: equal neighbouring values made a record invalid, the value 0 ended the node. Words
//!   carry 8 bits that make them unique in their node; values have 56 bits;
//! - D4 *the switch has 32 bits* and changes for updates in place, cuts and merges too;
//! - D5 *index 0 of a leaf*: putting in a new smallest key stores a constant that is not zero;
//! - D6 *the count* lies beside the switch, is a hint of this opening of the pool, and is counted
//!   again when a node is first locked;
//! - D7 *`UNCUT`*: between linking the right half and cutting the left one, a reader of the left one
//!   looks at the sibling's fence. As long as writers move right under locks only, nobody changes the
//!   right half before the left one is cut, and the copies are equal; the mark makes readers
//!   independent of that;
//! - D8 *locks* are words with the number of this opening of the pool, not pointers; they need no
//!   reset. The same number says which nodes a crash may have damaged;
//! - D9 *root*: one word; a root with a sibling grows when a separator for its level is asked for;
//!   a root without records gives way to its child;
//! - D10 *merge* follows section 4.2 (the public code leaves it out), in one step under the parent's
//!   lock, with the left neighbour of the same parent; there is no redistribution, which would lower
//!   a fence;
//! - D11 scans emit ascending keys only once; they go backwards by searching below a low fence.

mod buffered;
mod cache;
mod check;
mod design;
mod layout;
mod merge;
mod recover;
mod replace;
mod run;
mod scan;
mod search;
mod split;
mod state;
#[cfg(test)]
mod tests;
pub mod variant;
mod write;

use std::sync::Arc;

use everleaf_alloc::{AllocError, Heap, Session};
use everleaf_index::build::Tally;
use everleaf_index::{IndexError, PoolBase, Production, RootObject};
use everleaf_machine::{Atomic, Machine, Ordering};

use crate::node::buffer_table::Buffers;
use crate::node::fast_node::{Header, LEAF_LEFT, Node, Nodes};
use crate::node::inner::InnerTree;
use crate::node::write_log::Logs;
use layout::{LOG_WORD, NO_GENERATION, ROOT_WORD, VARIANT_WORD, tag};
pub(crate) use run::Linked;
use variant::{Standard, Variant};

/// The tree, in variant `V`, on machine `M`.
///
/// # Example
/// ```
/// use everleaf_designs::FastFair;
/// use everleaf_index::{Domain, OrderedIndex, Pool, SingleTreePool};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = Pool::in_memory(1 << 20, 1 << 30, Domain::Process)?;
/// let tree_pool: SingleTreePool<FastFair> = SingleTreePool::create(pool)?;
/// let mut session = tree_pool.heap().session()?;
/// assert_eq!(tree_pool.tree().insert(&mut session, 7, 70)?, None);
/// assert_eq!(tree_pool.tree().upsert(&mut session, 7, 71)?, Some(70));
/// assert_eq!(tree_pool.tree().remove(&mut session, 7)?, Some(71));
/// # Ok(())
/// # }
/// ```
pub struct FastFair<V: Variant = Standard, M: Machine = everleaf_machine::Hardware> {
    root_object: RootObject<M>,
    nodes: Nodes<V, M>,
    buffers: Buffers<M>,
    /// Leaves there are; counted in a variant with buffers only.
    leaves: Tally<M>,
    /// The inner tree in DRAM, in a variant with one.
    cache: Option<InnerTree<Production, M>>,
    heap: Arc<Heap<M>>,
}

impl<V: Variant, M: Machine> FastFair<V, M> {
    fn assemble(heap: Arc<Heap<M>>, root_object: RootObject<M>) -> Result<Self, IndexError> {
        let pool = heap.pool();
        let generation = if pool.is_read_only() { NO_GENERATION } else { pool.next_id()? };
        let (base, medium) = (PoolBase::of(&heap), heap.medium());
        let nodes = Nodes::new(base, medium, generation);
        let logs = Logs::new(base, medium, (root_object, LOG_WORD), generation, Self::LOGS);
        let end = if V::BUFFERED { pool.max_size() } else { 0 };
        let buffers = Buffers::new(end.div_ceil(V::NODE_SIZE as u64), 1, logs);
        Ok(FastFair { root_object, nodes, buffers, leaves: Tally::new(0), cache: None, heap })
    }

    fn create_in(session: &mut Session<M>) -> Result<Self, IndexError> {
        let root_object = RootObject::create(session, tag::<V>())?;
        let made = Self::assemble(session.heap().clone(), root_object).and_then(|mut tree| {
            let header = Header {
                level: 0,
                low: 0,
                leftmost: LEAF_LEFT,
                sibling: 0,
                flushed: 0,
                held: false,
            };
            let made = tree.build(session, &header, []).and_then(|root| {
                let loaded = tree.load_cache(session, &[(0, tree.nodes.offset(root))]);
                let offset = tree.nodes.offset(root);
                loaded.inspect_err(|_| session.free_record(offset, V::NODE_SIZE)).map(|()| root)
            });
            let root = made.inspect_err(|_| tree.free_volatile(session))?;
            if V::BUFFERED {
                tree.buffers.logs.create();
            }
            tree.root_object.word(VARIANT_WORD).write_private(u64::from(V::KIND));
            tree.root_word().write_private(tree.nodes.offset(root));
            tree.leaves.add(session.stripe(), 1);
            // Persist: the root object before the directory names the tree.
            session.medium().persist(tree.root_object.word(0).as_ptr(), 64);
            Ok(tree)
        });
        if made.is_err() {
            root_object.free(session);
        }
        made
    }

    fn root_word(&self) -> &Atomic<u64, M> {
        self.root_object.word(ROOT_WORD)
    }

    /// The root as it is now.
    #[inline(always)]
    fn root(&self) -> Result<Node<V, M>, AllocError> {
        // Acquire: the root is complete; pairs with the stores in `split.rs` and `merge.rs`.
        self.nodes.at(self.root_word().load(Ordering::Acquire))
    }

    /// A new node, durable, that nobody else knows.
    fn build(
        &self,
        session: &mut Session<M>,
        header: &Header,
        entries: impl IntoIterator<Item = (u64, u64)>,
    ) -> Result<Node<V, M>, AllocError> {
        let node = self.nodes.node(session.allocate_record(V::NODE_SIZE)?);
        if V::BUFFERED && header.level == 0 {
            let room = self.buffers.make_room(session, self.number(node));
            let offset = self.nodes.offset(node);
            room.inspect_err(|_| session.free_record(offset, V::NODE_SIZE))?;
            self.buffer(node).empty();
            // The numbers of its writes go on behind what it has, whatever was at its place before (B1).
            self.buffers.set_sequence(self.number(node), header.flushed);
        }
        self.nodes.build(node, header, entries.into_iter());
        Ok(node)
    }

    /// Takes back a node that was unlinked, durably.
    fn retire(&self, session: &mut Session<M>, node: Node<V, M>) {
        session.retire_record(self.nodes.offset(node), V::NODE_SIZE);
    }
}
