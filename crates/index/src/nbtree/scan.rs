//! Range scans, both ways, leaf by leaf.
//!
//! *What a scan promises*: keys strictly ascending (or descending), none twice; every pair was current at some instant
//! of the scan; a key present during all of it is returned, one absent during all of it is not. It is not a snapshot.
//!
//! Entries lie unsorted in a leaf. The order of its slots is computed once, cached in DRAM and extended when slots were
//! added, so that scans need not sort again. A leaf that is replaced while it is read is read to its end: its entries
//! are frozen.

use std::cmp::Ordering as KeyOrder;

use everleaf_alloc::Session;
use everleaf_machine::ascending::{WORD_COUNT_MAX, ascending_order};
use everleaf_machine::{LINE_SIZE, Machine, Ordering, Pair};

use super::NbTree;
use super::layout::{BLOCK_HEADER_SIZE, Block, Inner, Leaf, Order, SLOT_COUNT_MAX};
use super::shared::Shared;
use super::state::{COMMITTED, EMPTY, REPLACED, TOMB, holds};
use crate::bytes::record::Verify;
use crate::geometry::Geometry;
use crate::kind::{Kind, sort_places};
use crate::pool_trees::pool_base::PoolBase;

/// The value of a retired leaf's `order`: no order is installed any more.
pub(super) fn closed<M: Machine>() -> *mut Order<M> {
    std::ptr::without_provenance_mut(1)
}

/// Records are asked for this many entries before they are visited, to begin with: it is not known how far a scan will
/// go. The distance grows with each that is visited.
const AHEAD: usize = 6;
/// How many more are asked for with each that is visited.
const AHEAD_STEP: usize = 3;
/// The rest of a long record is asked for so many entries before it is visited.
const REST_AHEAD: usize = 3;

/// What of the records will be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Their first lines.
    Heads,
    /// Their first lines, up to this byte.
    Until(usize),
    /// All of them.
    Whole,
}

impl From<Verify> for Extent {
    fn from(verify: Verify) -> Self {
        if verify == Verify::Key { Extent::Heads } else { Extent::Whole }
    }
}

/// How far a scan has asked for the records of a leaf.
struct Asked {
    end: usize,
    extent: Extent,
}

impl Asked {
    /// Asks for the first records of a leaf.
    #[inline(always)]
    fn begin<K: Kind<M>, M: Machine>(
        &mut self,
        base: PoolBase<M>,
        block: &Block<M>,
        slots: &[u8],
        count: usize,
    ) {
        let end = slots.len().min(self.end + count);
        for slot in &slots[self.end..end] {
            M::prefetch(K::reference(base, block.entries[usize::from(*slot)].load()));
        }
        self.end = end;
    }

    /// Asks for more, before the entry at `index` is visited.
    #[inline(always)]
    fn go_on<K: Kind<M>, M: Machine>(
        &mut self,
        base: PoolBase<M>,
        block: &Block<M>,
        slots: &[u8],
        index: usize,
    ) {
        let entry = |index: usize| block.entries[usize::from(slots[index])].load();
        let end = slots.len().min(self.end + AHEAD_STEP);
        while self.end < end {
            M::prefetch(K::reference(base, entry(self.end)));
            self.end += 1;
        }
        if self.extent == Extent::Whole && index + REST_AHEAD < slots.len() {
            let entry = entry(index + REST_AHEAD);
            // The record of a tombstone may be gone.
            if holds(K::state(entry)) {
                K::ask_for_rest(base, K::payload(entry));
            }
        }
    }
}

/// A leaf and where it hangs, so that its neighbour is found without a descent.
struct LeafInParent<M: Machine> {
    leaf: Shared<Leaf<M>>,
    meta: u64,
    parent: Shared<Inner<M>>,
    index: usize,
}

/// Sorted slots of a leaf: a copy on the stack.
struct Slots {
    slots: [u8; SLOT_COUNT_MAX],
    count: usize,
}

impl Slots {
    #[inline(always)]
    fn as_slice(&self) -> &[u8] {
        &self.slots[..self.count]
    }
}

impl<K: Kind<M>, G: Geometry, M: Machine> NbTree<K, G, M> {
    /// Visits the entries from `from` (inclusive) on, ascending, until `visit` returns false. The
    /// visitor gets the leaf's low fence (which completes `u64` keys) and the entry.
    #[inline]
    pub(crate) fn scan_forward(
        &self,
        session: &mut Session<M>,
        from: K::Key<'_>,
        extent: Extent,
        mut visit: impl FnMut(u64, Pair) -> bool,
    ) {
        let mut from = from;
        let mut place = self.place(session, from);
        let mut first = true;
        let mut ahead = AHEAD;
        loop {
            let leaf = place.leaf;
            self.prefetch_leaf(&place, 2);
            self.prefetch_contents(leaf, place.meta);
            let next = self.neighbour(&place, 1);
            let slots = self.sorted_slots(session, leaf, place.meta);
            let slots = slots.as_slice();
            let start = if first { self.lower_bound(leaf, slots, from) } else { 0 };
            if let Some(next) = &next {
                self.prefetch_contents(next.leaf, next.meta);
            }
            let block = self.block(leaf);
            let mut asked = Asked { end: start, extent };
            if K::HAS_TAILS && !M::SIMULATED {
                asked.begin::<K, M>(self.base, &block, slots, ahead);
            }
            for (index, slot) in slots.iter().enumerate().skip(start) {
                let entry = block.entries[usize::from(*slot)].load();
                if K::HAS_TAILS && !M::SIMULATED {
                    asked.go_on::<K, M>(self.base, &block, slots, index);
                }
                if !holds(K::state(entry)) {
                    self.observe_removed(leaf, usize::from(*slot), entry);
                    continue;
                }
                self.observe(leaf, block, usize::from(*slot));
                if !visit(leaf.low, entry) {
                    return;
                }
            }
            if leaf.high == 0 {
                return;
            }
            // A scan that comes to a second leaf is likely to read all of it.
            ahead = SLOT_COUNT_MAX;
            place = match next {
                // Fences are unique, so equality says that nothing lies between.
                Some(next)
                    if (next.leaf.low == leaf.high
                        || M::mutant("nbtree.scan_trusts_neighbour"))
                        && (next.meta & REPLACED == 0
                            || M::mutant("nbtree.scan_ignores_replaced")) =>
                {
                    first = false;
                    next
                }
                _ => {
                    // After a merge the leaf may start below where we stand: skip what was seen.
                    from = K::fence_as_key(self.base, leaf.high);
                    first = !M::mutant("nbtree.scan_repeats_merged");
                    self.place(session, from)
                }
            };
        }
    }

    /// Visits the entries below `to` (exclusive; `None` for all), descending, until `visit` returns
    /// false.
    pub(crate) fn scan_backward(
        &self,
        session: &mut Session<M>,
        to: Option<K::Key<'_>>,
        extent: Extent,
        mut visit: impl FnMut(u64, Pair) -> bool,
    ) {
        let mut bound = to;
        let mut ahead = AHEAD;
        loop {
            let (leaf, meta) = self.resolve_below(session, bound);
            self.prefetch_contents(leaf, meta);
            let mut slots = self.sorted_slots(session, leaf, meta);
            let end = match bound {
                Some(key) if !self.is_above(leaf, key) => {
                    self.lower_bound(leaf, slots.as_slice(), key)
                }
                _ => slots.count,
            };
            let slots = &mut slots.slots[..end];
            slots.reverse();
            let block = self.block(leaf);
            let mut asked = Asked { end: 0, extent };
            if K::HAS_TAILS && !M::SIMULATED {
                asked.begin::<K, M>(self.base, &block, slots, ahead);
            }
            for (index, slot) in slots.iter().enumerate() {
                if K::HAS_TAILS && !M::SIMULATED {
                    asked.go_on::<K, M>(self.base, &block, slots, index);
                }
                let entry = block.entries[usize::from(*slot)].load();
                if !holds(K::state(entry)) {
                    self.observe_removed(leaf, usize::from(*slot), entry);
                    continue;
                }
                self.observe(leaf, block, usize::from(*slot));
                if !visit(leaf.low, entry) {
                    return;
                }
            }
            if leaf.low == 0 {
                return;
            }
            ahead = SLOT_COUNT_MAX;
            bound = Some(K::fence_as_key(self.base, leaf.low));
        }
    }

    /// The authority for `key`, with its place under its parent if it hangs there directly.
    #[inline(always)]
    fn place(&self, session: &mut Session<M>, key: K::Key<'_>) -> LeafInParent<M> {
        let mut node = self.root();
        loop {
            let index = node.find::<K>(node.level, self.base, key, false);
            let child = node.child(index);
            if node.level > 1 {
                Shared::<Inner<M>>::prefetch::<K>(child, node.level - 1);
                // SAFETY: children above level 1 are inner nodes, read while pinned.
                node = unsafe { Shared::new(child.cast()) };
                continue;
            }
            // SAFETY: children of level 1 are leaves, read while pinned.
            let leaf: Shared<Leaf<M>> = unsafe { Shared::new(child.cast()) };
            let mut place = LeafInParent { leaf, meta: 0, parent: node, index };
            self.prefetch_leaf(&place, 0);
            self.prefetch_leaf(&place, 1);
            // Acquire: as in `resolve`.
            place.meta = leaf.meta.load(Ordering::Acquire);
            if place.meta & REPLACED != 0 {
                (place.leaf, place.meta) = self.resolve(session, key);
            }
            return place;
        }
    }

    /// The leaf `distance` children further under the same parent, as the parent has it now.
    #[inline(always)]
    fn neighbour(&self, place: &LeafInParent<M>, distance: usize) -> Option<LeafInParent<M>> {
        let index = place.index + distance;
        if index >= usize::from(place.parent.count) {
            return None;
        }
        let child = place.parent.child(index);
        // SAFETY: children of level 1 are leaves, read while pinned.
        let leaf: Shared<Leaf<M>> = unsafe { Shared::new(child.cast()) };
        // Acquire: as in `resolve`.
        let meta = leaf.meta.load(Ordering::Acquire);
        Some(LeafInParent { leaf, meta, parent: place.parent, index })
    }

    /// The authority for the greatest keys below `bound`.
    fn resolve_below(
        &self,
        session: &mut Session<M>,
        bound: Option<K::Key<'_>>,
    ) -> (Shared<Leaf<M>>, u64) {
        let mut leaf = match bound {
            Some(key) => self.descend_path(key, true).1,
            None => self.last_leaf(),
        };
        let mut hopped = false;
        loop {
            // Acquire: as in `resolve`.
            let meta = leaf.meta.load(Ordering::Acquire);
            if meta & REPLACED == 0 {
                if hopped {
                    self.try_install(session, K::fence_as_key(self.base, leaf.low));
                }
                return (leaf, meta);
            }
            hopped = true;
            leaf = self.step(leaf, |split| {
                bound.is_none_or(|key| K::compare_fence(self.base, split, key) == KeyOrder::Less)
            });
        }
    }

    fn last_leaf(&self) -> Shared<Leaf<M>> {
        let mut node = self.root();
        loop {
            let child = node.child(usize::from(node.count) - 1);
            if node.level == 1 {
                // SAFETY: children of level 1 are leaves, read while pinned.
                return unsafe { Shared::new(child.cast()) };
            }
            // SAFETY: children above level 1 are inner nodes, read while pinned.
            node = unsafe { Shared::new(child.cast()) };
        }
    }

    /// Whether `key` lies above all keys of the leaf.
    fn is_above(&self, leaf: Shared<Leaf<M>>, key: K::Key<'_>) -> bool {
        leaf.high != 0 && K::compare_fence(self.base, leaf.high, key) != KeyOrder::Greater
    }

    /// How many of the sorted slots come before `key`. Tombstones that follow the last one are
    /// counted too: they are not visited anyway.
    fn lower_bound(&self, leaf: Shared<Leaf<M>>, slots: &[u8], key: K::Key<'_>) -> usize {
        let block = self.block(leaf);
        let skip = leaf.skip as usize;
        if !K::HAS_TAILS {
            return slots.partition_point(|slot| {
                let entry = block.entries[usize::from(*slot)].load();
                K::compare_to(self.base, entry, skip, key) == KeyOrder::Less
            });
        }
        let load = |slot: &u8| block.entries[usize::from(*slot)].load();
        let head = K::head(K::entry(key, skip, 0, EMPTY));
        let start = slots.partition_point(|slot| K::head(load(slot)) < head);
        let ties = slots[start..].iter().take_while(|slot| K::head(load(slot)) == head).count();
        let is_before = |entry| K::compare_to(self.base, entry, skip, key) == KeyOrder::Less;
        let ties = &slots[start..start + ties];
        // Among equal heads the records decide. A tombstone's record may be gone.
        let entries: Vec<Pair> = ties.iter().map(load).collect();
        if entries.iter().all(|entry| K::state(*entry) != TOMB) {
            return start + entries.partition_point(|entry| is_before(*entry));
        }
        let mut count = start;
        for (entry, slot) in entries.into_iter().zip(ties) {
            if K::state(entry) == TOMB {
                self.observe_removed(leaf, usize::from(*slot), entry);
            } else if !is_before(entry) {
                break;
            }
            count += 1;
        }
        count
    }

    /// `Adr` domain: a scan that passes a removed entry says that its key is absent, so the removal
    /// must be durable first, as in a search (I11).
    #[inline(always)]
    fn observe_removed(&self, leaf: Shared<Leaf<M>>, slot: usize, entry: Pair) {
        if K::state(entry) == TOMB && !M::mutant("nbtree.no_scan_tomb_observe") {
            self.observe(leaf, self.block(leaf), slot);
        }
    }

    /// The committed slots that hold keys, in key order.
    #[inline(always)]
    fn sorted_slots(&self, session: &mut Session<M>, leaf: Shared<Leaf<M>>, meta: u64) -> Slots {
        let covered = (meta & COMMITTED).count_ones();
        // Acquire: the order is complete; pairs with the exchange in `sort_slots`.
        let cached = leaf.order.load(Ordering::Acquire);
        if !cached.is_null() && cached != closed() {
            // SAFETY: orders are retired by the thread that replaces them, and we are pinned.
            let order = unsafe { Shared::new(cached) };
            // Slots are never uncommitted, so equal counts mean equal sets.
            if u32::from(order.covered) == covered
                || M::mutant("nbtree.old_order_does") && u32::from(order.covered) < covered
            {
                return Slots { slots: order.slots, count: usize::from(order.count) };
            }
        }
        self.sort_slots(session, leaf, meta, cached)
    }

    /// Sorts the slots, starting from the cached order if there is one, and caches the result.
    #[cold]
    #[inline(never)]
    fn sort_slots(
        &self,
        session: &mut Session<M>,
        leaf: Shared<Leaf<M>>,
        meta: u64,
        cached: *mut Order<M>,
    ) -> Slots {
        let block = self.block(leaf);
        let mut held = [0; WORD_COUNT_MAX];
        let mut heads = [0; WORD_COUNT_MAX];
        let mut count = 0;
        let mut slots = meta & COMMITTED;
        while slots != 0 {
            let slot = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            let entry = block.entries[slot].load();
            self.observe_removed(leaf, slot, entry);
            if K::state(entry) != TOMB {
                held[count] = slot as u8;
                heads[count] = K::head(entry);
                count += 1;
            }
        }
        let mut order = [0; WORD_COUNT_MAX];
        ascending_order(&heads, count, &mut order);
        let mut sorted = Slots { slots: [0; SLOT_COUNT_MAX], count };
        for (place, index) in sorted.slots.iter_mut().zip(&order[..count]) {
            *place = held[usize::from(*index)];
        }
        if K::HAS_TAILS {
            self.order_ties(leaf, &mut sorted.slots[..count]);
        }
        if cached != closed() {
            self.cache_order(session, leaf, meta, cached, &sorted);
        }
        sorted
    }

    /// Orders slots with equal heads, which lie side by side, by their records.
    fn order_ties(&self, leaf: Shared<Leaf<M>>, slots: &mut [u8]) {
        let block = self.block(leaf);
        let load = |slot: u8| block.entries[usize::from(slot)].load();
        let same_head = |a: &u8, b: &u8| K::head(load(*a)) == K::head(load(*b));
        for ties in slots.chunk_by_mut(same_head).filter(|ties| ties.len() > 1) {
            sort_places::<K, M, _>(self.base, ties, &|slot| load(*slot));
        }
    }

    /// Offers a new order; without memory for it the next scan sorts again.
    fn cache_order(
        &self,
        session: &mut Session<M>,
        leaf: Shared<Leaf<M>>,
        meta: u64,
        cached: *mut Order<M>,
        sorted: &Slots,
    ) {
        let Ok(memory) = session.allocate_node(size_of::<Order<M>>()) else { return };
        let order: *mut Order<M> = memory.cast();
        let later = M::mutant("nbtree.order_covers_later");
        // Acquire: a planted bug.
        let meta = if later { leaf.meta.load(Ordering::Acquire) } else { meta };
        // SAFETY: the memory is ours, large enough and aligned to 64.
        unsafe { order.write(Order::new((meta & COMMITTED).count_ones(), sorted.as_slice())) };
        // AcqRel: publishes the order; pairs with the load in `sorted_slots`. If the leaf was
        // retired meanwhile its order is `closed` and this fails. Relaxed: then nothing is read.
        let offered =
            leaf.order.compare_exchange(cached, order, Ordering::AcqRel, Ordering::Relaxed);
        match offered {
            // SAFETY: allocated with this size; the exchange made us its only owner.
            Ok(old) if !old.is_null() => unsafe {
                session.retire_node(old.cast(), size_of::<Order<M>>());
            },
            Ok(_) => {}
            // SAFETY: allocated with this size, never published.
            Err(_) => unsafe { session.free_node(memory, size_of::<Order<M>>()) },
        }
    }

    /// Asks for the metadata of the leaf `distance` children further under the same parent.
    #[inline(always)]
    fn prefetch_leaf(&self, place: &LeafInParent<M>, distance: usize) {
        let index = place.index + distance;
        if index < usize::from(place.parent.count) {
            let leaf = place.parent.child(index).cast::<u8>();
            M::prefetch(leaf);
            M::prefetch(leaf.wrapping_add(LINE_SIZE));
        }
    }

    /// Asks for what a scan of the leaf reads: its order, and the lines of the slots in use.
    #[inline(always)]
    fn prefetch_contents(&self, leaf: Shared<Leaf<M>>, meta: u64) {
        // Relaxed: not followed, only asked for.
        M::prefetch(leaf.order.load(Ordering::Relaxed).cast());
        let block = self.block(leaf).as_ptr().cast::<u8>();
        let used = BLOCK_HEADER_SIZE + (meta & COMMITTED).count_ones() as usize * size_of::<Pair>();
        for line in (0..used).step_by(LINE_SIZE) {
            M::prefetch(block.wrapping_add(line));
        }
    }
}
