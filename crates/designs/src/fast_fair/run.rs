//! Linking many records at once: a whole new leaf between two others, for trees in front of this one
//! that collect records and have them in order.
//!
//! ```text
//!   L: 1 2 8 9   + 4 5 6  =>  L: 1 2 8 9 --UNCUT--> N: 4 5 6 --> R: 8 9  =>  L: 1 2 --> N --> R
//!                 N, R durable                (durable)                        (durable)
//! ```
//!
//! It is a split (`split.rs`) whose right half has the new records in front: what a crash leaves is
//! what a cut split leaves, and so are the two separators that may be missing.
//!
//! *Source*: the node-based form of Jamil and others, FAS*W 2021, section IV: "checkpoints the entire
//! future object to the global B+-tree in a single operation". *Departure*: the paper does not say what
//! becomes of a leaf that the object's keys fall into. Here they must fall between two of its records,
//! or behind the last.

use everleaf_alloc::{AllocError, Session};
use everleaf_index::IndexError;
use everleaf_machine::{Machine, Ordering};

use super::FastFair;
use super::search::Stray;
use super::variant::Variant;
use crate::node::fast_node::{
    Header, LEAF_LEFT, NONCE_BITS, Node, UNCUT, capacity, next_nonce, slots,
};

/// What became of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linked {
    /// So many of its records, from the first on, are a leaf of their own, durably.
    Records(usize),
    /// Nothing was changed: so many from the first on (at least one) have to be put in one by one.
    Nothing(usize),
}

/// Where a run goes.
struct Gap<V, M: Machine> {
    leaf: Node<V, M>,
    /// Records of the leaf in front of the run, and all.
    slot: usize,
    count: usize,
    /// The leaf's sibling.
    sibling: u64,
}

impl<V: Variant, M: Machine> FastFair<V, M> {
    /// Makes the first records of `run`, in ascending order, a leaf of their own: as many as fit one and
    /// fall between two records that are neighbours. Fewer than `least` are not worth a leaf.
    ///
    /// *Linearizes* at the store of the left leaf's sibling, all together. *Durable* when it returns.
    ///
    /// # Errors
    /// No space, and damage; then nothing was changed.
    pub(crate) fn link_run(
        &self,
        session: &mut Session<M>,
        run: &[(u64, u64)],
        least: usize,
    ) -> Result<Linked, IndexError> {
        const {
            assert!(
                V::LOW_FENCE && !V::BUFFERED,
                "a leaf of a run is found by its fence, and has no buffer"
            )
        };
        let mut session = session.pinned();
        let mut stray = None;
        let leaf = self.lock_node(run[0].0, 0, &mut stray)?;
        let Some(leaf) = leaf else { unreachable!("there is always a level 0") };
        let result = self.link_locked(&mut session, leaf, run, least);
        if let Some(Stray { node, level }) = stray {
            // As after every write (`write.rs`).
            let _ = self.add_separator(&mut session, level + 1, self.nodes.low(node), node);
        }
        Ok(result?)
    }

    /// The same in the leaf of the first record, which is locked; unlocks it.
    fn link_locked(
        &self,
        session: &mut Session<M>,
        leaf: Node<V, M>,
        run: &[(u64, u64)],
        least: usize,
    ) -> Result<Linked, AllocError> {
        let count = leaf.count();
        let slot = leaf.position(run[0].0, count);
        // Relaxed: nobody stores to the word but the holder of the lock.
        let sibling = leaf.sibling().load(Ordering::Relaxed);
        let gap = Gap { leaf, slot, count, sibling };
        let fits = match self.fitting(&gap, run) {
            // A leaf in front of which nothing is left is not worth its lines.
            Ok(fits) if fits >= least && slot > 0 => fits,
            Ok(fits) => {
                self.nodes.unlock(leaf);
                return Ok(Linked::Nothing(fits.max(1)));
            }
            Err(error) => {
                self.nodes.unlock(leaf);
                return Err(error);
            }
        };
        let made = self.build_run(session, &gap, &run[..fits]);
        let (node, upper) = match made {
            Ok(made) => made,
            Err(error) => {
                self.nodes.unlock(leaf);
                return Err(error);
            }
        };
        self.link_after(&gap, node, upper.is_some());
        let nodes = std::iter::once(node).chain(upper);
        for node in nodes.clone() {
            self.nodes.unlock(node);
        }
        self.nodes.unlock(leaf);
        M::mark("fast_fair.run");
        for node in nodes {
            // As after a split: without space for the parents others try again.
            let _ = self.add_separator(session, 1, self.nodes.low(node), node);
        }
        Ok(Linked::Records(fits))
    }

    /// How many records of a run fit the gap, and a leaf.
    fn fitting(&self, gap: &Gap<V, M>, run: &[(u64, u64)]) -> Result<usize, AllocError> {
        let of_sibling = self.nodes.follow(gap.sibling)?.map(|next| self.nodes.low(next));
        let is_inside = gap.slot < gap.count && !M::mutant("f3.run_overlaps");
        let of_leaf = is_inside.then(|| gap.leaf.key(gap.slot).read_private());
        let bound =
            if M::mutant("f3.run_passes_sibling") { of_leaf } else { of_leaf.or(of_sibling) };
        let within = bound.map_or(run.len(), |bound| run.partition_point(|(key, _)| *key < bound));
        Ok(within.min(capacity::<V>()))
    }

    /// The leaf of a run, durable, and, if the gap has records above, the one that these go to.
    #[expect(clippy::type_complexity, reason = "two nodes are no idea of their own")]
    fn build_run(
        &self,
        session: &mut Session<M>,
        gap: &Gap<V, M>,
        run: &[(u64, u64)],
    ) -> Result<(Node<V, M>, Option<Node<V, M>>), AllocError> {
        let mut upper = None;
        if gap.slot < gap.count && !M::mutant("f3.run_drops_upper") {
            let moved = (gap.slot..gap.count).map(|slot| gap.leaf.entry(slot));
            let low = gap.leaf.key(gap.slot).read_private();
            upper = Some(self.build(session, &header(low, gap.sibling), moved)?);
        }
        let sibling = upper.map_or(gap.sibling, |node| self.nodes.offset(node));
        let made = self.build(session, &header(run[0].0, sibling), words::<V>(run));
        if made.is_err()
            && let Some(upper) = upper
        {
            session.free_record(self.nodes.offset(upper), V::NODE_SIZE);
        }
        Ok((made?, upper))
    }

    /// Links the leaf of a run behind a locked one, and cuts what moved.
    fn link_after(&self, gap: &Gap<V, M>, node: Node<V, M>, has_upper: bool) {
        let (leaf, offset) = (gap.leaf, self.nodes.offset(node));
        if M::mutant("f3.run_cuts_first") && has_upper {
            self.nodes.cut(leaf, gap.slot);
        }
        let mark = if has_upper { UNCUT } else { 0 };
        // Release: the new leaves are complete; pairs with the loads of siblings in `read.rs`.
        leaf.sibling().store(offset | mark, Ordering::Release);
        if !M::mutant("f3.run_unlinked") {
            // Persist: the way to the new records before the thread that has them elsewhere forgets them, and to
            // the moved ones before they go here.
            self.nodes.persist_header(leaf);
        }
        if !has_upper {
            return;
        }
        self.nodes.cut(leaf, gap.slot);
        // Release: the leaf has been cut; pairs with the loads of siblings in `read.rs`.
        leaf.sibling().store(offset, Ordering::Release);
        if !M::mutant("f3.run_unlinked") {
            // Persist: that it is cut, so that nobody has to look again after a crash.
            self.nodes.persist_header(leaf);
        }
    }
}

/// The header of a new leaf, locked.
fn header(low: u64, sibling: u64) -> Header {
    Header { level: 0, low, leftmost: LEAF_LEFT, sibling, flushed: 0, held: true }
}

/// The words of a run's values, all different.
fn words<V: Variant>(run: &[(u64, u64)]) -> Vec<(u64, u64)> {
    debug_assert!(run.len() < slots::<V>());
    let mut made: Vec<(u64, u64)> = Vec::with_capacity(run.len());
    for (key, value) in run {
        let mut word = value << NONCE_BITS | (1 + key % 255);
        while made.iter().any(|(_, other)| *other == word) {
            word = next_nonce(word);
        }
        made.push((*key, word));
    }
    made
}
