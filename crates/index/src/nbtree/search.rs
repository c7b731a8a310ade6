//! Finding the leaf for a key, and the entry in the leaf.
//!
//! Inner nodes may be stale: a search that comes to a replaced leaf follows its successor. In the leaf
//! it compares the fingerprints of all committed slots at once and reads only the entries that match.

use everleaf_alloc::Session;
use everleaf_machine::{LINE_SIZE, Machine, Ordering, Pair};

use super::NbTree;
use super::inner_tree::Path;
use super::layout::{Block, Inner, Leaf};
use super::shared::Shared;
use super::state::{COMMITTED, PENDING, REPLACED, TOMB, holds};
use crate::geometry::Geometry;
use crate::kind::Kind;
use crate::once::once;

/// What shows that a key is absent (`NbTree::absence`, `HashedLeafTree::absence`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Absence {
    /// The leaf that would have it.
    pub leaf: u64,
    /// What an insert would change there.
    pub state: u64,
}

impl<K: Kind<M>, G: Geometry, M: Machine> NbTree<K, G, M> {
    /// The root; never null, always an inner node.
    #[inline(always)]
    pub(super) fn root(&self) -> Shared<Inner<M>> {
        self.inner.root()
    }

    /// The leaf that the inner nodes give for `key`; it may have been replaced.
    #[inline(always)]
    pub(super) fn descend(&self, key: K::Key<'_>) -> Shared<Leaf<M>> {
        if M::SIMULATED {
            return once(|| self.descend_here(key));
        }
        self.descend_here(key)
    }

    /// [`Self::descend`], compiled into its caller.
    #[inline(always)]
    fn descend_here(&self, key: K::Key<'_>) -> Shared<Leaf<M>> {
        let mut node = self.root();
        let mut level = node.level;
        while level > 1 {
            let child = node.child_at(level, node.find::<K>(level, self.base, key, false));
            level -= 1;
            Shared::<Inner<M>>::prefetch::<K>(child, level);
            // SAFETY: children above level 1 are inner nodes, read while pinned.
            node = unsafe { Shared::new(child.cast()) };
        }
        let child = node.child_at(1, node.find::<K>(1, self.base, key, false));
        M::prefetch(child.cast());
        M::prefetch(child.cast::<u8>().wrapping_add(LINE_SIZE));
        // SAFETY: children of level 1 are leaves, read while pinned.
        unsafe { Shared::new(child.cast()) }
    }

    /// The path to the leaf for `key`, or with `strict` for the greatest key below `key`.
    pub(super) fn descend_path(&self, key: K::Key<'_>, strict: bool) -> (Path<M>, Shared<Leaf<M>>) {
        let (path, child) = self.inner.descend_path(key, strict);
        // SAFETY: children of level 1 are leaves, read while pinned.
        (path, unsafe { Shared::new(child.cast()) })
    }

    /// The authority for `key` and its `meta` at some instant of this call, while it was not
    /// replaced.
    #[inline(always)]
    pub(super) fn resolve(
        &self,
        session: &mut Session<M>,
        key: K::Key<'_>,
    ) -> (Shared<Leaf<M>>, u64) {
        let leaf = self.descend(key);
        self.resolve_from(session, leaf, key)
    }

    /// [`Self::resolve`], begun in a leaf that the inner nodes gave for `key`, at or after the pin.
    #[inline(always)]
    pub(super) fn resolve_from(
        &self,
        session: &mut Session<M>,
        leaf: Shared<Leaf<M>>,
        key: K::Key<'_>,
    ) -> (Shared<Leaf<M>>, u64) {
        // Acquire: committed slots are written; pairs with the commits of `write.rs`. If REPLACED
        // is set, also the successor; pairs with the switch in `split.rs`.
        let meta = leaf.meta.load(Ordering::Acquire);
        if meta & REPLACED == 0 || M::mutant("nbtree.no_follow") {
            return (leaf, meta);
        }
        self.follow(session, leaf, key)
    }

    /// [`Self::resolve`] over leaves that have been replaced and not yet installed.
    #[cold]
    fn follow(
        &self,
        session: &mut Session<M>,
        start: Shared<Leaf<M>>,
        key: K::Key<'_>,
    ) -> (Shared<Leaf<M>>, u64) {
        M::mark("nbtree.search.follow");
        self.try_install(session, key);
        let mut leaf = start;
        loop {
            leaf = self.step(leaf, |split| match K::compare_fence(self.base, split, key) {
                std::cmp::Ordering::Less => true,
                std::cmp::Ordering::Equal => !M::mutant("nbtree.follow_key_left"),
                std::cmp::Ordering::Greater => false,
            });
            // Acquire: as in `resolve`.
            let meta = leaf.meta.load(Ordering::Acquire);
            if meta & REPLACED == 0 {
                return (leaf, meta);
            }
        }
    }

    /// From a replaced leaf to its successor: the right one if `goes_right(split)`.
    pub(super) fn step(
        &self,
        leaf: Shared<Leaf<M>>,
        goes_right: impl Fn(u64) -> bool,
    ) -> Shared<Leaf<M>> {
        // Acquire: the successor is complete; pairs with its installation in `split.rs`.
        let successor = leaf.successor.load(Ordering::Acquire);
        // SAFETY: a replaced leaf has a successor, retired no earlier than the leaf.
        let successor = unsafe { Shared::new(successor) };
        let to_right = !successor.right.is_null() && goes_right(successor.split);
        let next = if to_right { successor.right } else { successor.left };
        // SAFETY: leaves on the chain were linked at or after our pin (they are retired only when
        // the inner node stops leading to the chain).
        unsafe { Shared::new(next) }
    }

    /// The block of a leaf.
    #[inline(always)]
    pub(super) fn block(&self, leaf: Shared<Leaf<M>>) -> Shared<Block<M>> {
        let address =
            self.base.start().wrapping_add(leaf.block as usize * everleaf_alloc::BLOCK_SIZE);
        // SAFETY: a leaf's block lies inside the pool and is not reused before the leaf's grace
        // period is over.
        unsafe { Shared::new(address.cast()) }
    }

    /// `Adr` domain: if a writer in this leaf may have made something visible that is not durable
    /// yet, persists the entry's line, so that what we report cannot be lost.
    #[inline(always)]
    #[track_caller]
    pub(super) fn observe(&self, leaf: Shared<Leaf<M>>, block: Shared<Block<M>>, slot: usize) {
        if !self.medium.needs_flush() {
            return;
        }
        // Acquire: if the writer's decrement is seen, its persist came before; pairs with the
        // release in `InFlight::end`.
        if leaf.in_flight.load(Ordering::Acquire) != 0 && !M::mutant("nbtree.no_observe") {
            M::mark("nbtree.observe");
            // Persist: the entry before our answer that depends on it, or a crash could take back
            // what somebody has seen (I11).
            self.medium.persist(block.entries[slot].as_ptr(), 16);
        }
    }

    /// The payload of `key`.
    ///
    /// *Linearizes*: hit, at the load of the entry if it was not frozen, else at the later of the
    /// load of `meta` and the freeze; miss, at the load of `meta`, or right after the tombstone.
    /// *Blocking*: wait-free but for hops over replaced leaves, each of which is a completed split.
    #[inline]
    pub(crate) fn get_payload(&self, session: &mut Session<M>, key: K::Key<'_>) -> Option<u64> {
        let (leaf, meta) = self.resolve(session, key);
        self.get_in_leaf(leaf, meta, key)
    }

    /// What shows that a key is absent, unless it is there or is being inserted: as long as it stays the same, under
    /// one pin, nobody has inserted the key. For that takes a slot that was not committed before, and so another
    /// `meta`, or another leaf; and no leaf that we may have met comes to be another one while we are pinned.
    pub(crate) fn absence(&self, session: &mut Session<M>, key: K::Key<'_>) -> Option<Absence> {
        let (leaf, meta) = self.resolve(session, key);
        let mut hits = leaf.fingerprints.matches(K::fingerprint(key)) & meta & COMMITTED;
        let block = self.block(leaf);
        while hits != 0 {
            let slot = hits.trailing_zeros() as usize;
            hits &= hits - 1;
            let entry = block.entries[slot].load();
            if !K::is_of(self.base, key, leaf.skip as usize, entry) {
                continue;
            }
            if K::state(entry) != TOMB {
                return None;
            }
            self.observe(leaf, block, slot);
        }
        Some(Absence { leaf: leaf.as_ptr().addr() as u64, state: meta })
    }

    #[inline(always)]
    pub(super) fn get_in_leaf(
        &self,
        leaf: Shared<Leaf<M>>,
        meta: u64,
        key: K::Key<'_>,
    ) -> Option<u64> {
        if M::SIMULATED {
            return once(|| self.get_in_leaf_here(leaf, meta, key));
        }
        self.get_in_leaf_here(leaf, meta, key)
    }

    /// [`Self::get_in_leaf`], compiled into its caller.
    #[inline(always)]
    fn get_in_leaf_here(&self, leaf: Shared<Leaf<M>>, meta: u64, key: K::Key<'_>) -> Option<u64> {
        let hits = leaf.fingerprints.matches(K::fingerprint(key)) & meta & COMMITTED;
        if hits == 0 {
            return None;
        }
        self.get_among(leaf, hits, key)
    }

    /// The payload of `key` if one of the slots `hits` has it: those that were committed when `meta` was
    /// loaded, and whose fingerprints were the key's some time after, while pinned. A slot is used once, and
    /// the thread that removes its key marks the entry before it takes the fingerprint away: so an entry that is read
    /// later than its fingerprint says what has become of the key since.
    #[inline(always)]
    pub(super) fn get_among(
        &self,
        leaf: Shared<Leaf<M>>,
        mut hits: u64,
        key: K::Key<'_>,
    ) -> Option<u64> {
        let block = self.block(leaf);
        while hits != 0 {
            let slot = hits.trailing_zeros() as usize;
            hits &= hits - 1;
            let entry = block.entries[slot].load();
            if !K::is_of(self.base, key, leaf.skip as usize, entry) {
                continue;
            }
            let state = K::state(entry);
            if holds(state) || (state == PENDING && M::mutant("nbtree.read_pending")) {
                self.observe(leaf, block, slot);
                return Some(K::payload(entry));
            }
            if state == TOMB {
                self.observe(leaf, block, slot);
            }
        }
        None
    }

    /// The live entry of `key` among the slots of `bits`. With `help`, a committed insert that is
    /// not linearized yet is linearized first.
    #[inline(always)]
    pub(super) fn find_live(
        &self,
        leaf: Shared<Leaf<M>>,
        bits: u64,
        key: K::Key<'_>,
        help: bool,
    ) -> Option<(usize, Pair)> {
        let mut hits = leaf.fingerprints.matches(K::fingerprint(key)) & bits & COMMITTED;
        let block = self.block(leaf);
        while hits != 0 {
            let slot = hits.trailing_zeros() as usize;
            hits &= hits - 1;
            let mut entry = block.entries[slot].load();
            if !K::is_of(self.base, key, leaf.skip as usize, entry) {
                continue;
            }
            if K::state(entry) == PENDING && help {
                M::mark("nbtree.write.help_pending");
                let live = K::with_state(entry, super::state::LIVE);
                entry = match block.entries[slot].compare_exchange(entry, live) {
                    Ok(_) => live,
                    Err(now) => now,
                };
            }
            if holds(K::state(entry)) {
                return Some((slot, entry));
            }
            if K::state(entry) == TOMB && !M::mutant("nbtree.no_tomb_observe") {
                // The tombstone must be durable before a new entry of the key can be.
                self.observe(leaf, block, slot);
            }
        }
        None
    }
}
