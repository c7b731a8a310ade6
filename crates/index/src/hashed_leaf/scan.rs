//! Range scans, both ways, leaf by leaf.
//!
//! *What a scan promises*: keys strictly ascending (or descending), none twice; every pair was
//! current at some instant of the scan; a key present during the whole scan is returned, one absent
//! during the whole scan is not. It is not a snapshot.
//!
//! Entries lie unsorted in a leaf. The order of its positions is computed once, cached in DRAM and
//! made anew when positions were added. A leaf that is replaced while it is read is read to its end:
//! its entries are frozen.

use std::cmp::Ordering as KeyOrder;

use everleaf_alloc::Session;
use everleaf_machine::{LINE_SIZE, Machine, Ordering, Pair};

use super::HashedLeafTree;
use super::layout::{DEAD, LeafId, LeafShape, Order, POSITION_COUNT_MAX, UNKNOWN};
use super::probe::usable;
use super::state::FROZEN_EMPTY;
use crate::kind::Kind;
use crate::nbtree::layout::Inner;
use crate::nbtree::shared::Shared;
use crate::nbtree::state::{EMPTY, TOMB, holds};

/// The value of a retired leaf's `order`: no order is installed any more.
pub(super) fn closed() -> *mut Order {
    std::ptr::without_provenance_mut(1)
}

/// Entries are asked for this many visits before they are read.
const AHEAD: usize = 16;

/// A leaf and where it hangs, so that its neighbour is found without a descent.
struct Place<M: Machine> {
    leaf: LeafId,
    parent: Shared<Inner<M>>,
    index: usize,
}

/// Sorted positions of a leaf: a copy on the stack.
struct Sorted {
    positions: [u8; POSITION_COUNT_MAX],
    count: usize,
}

impl Sorted {
    #[inline(always)]
    fn as_slice(&self) -> &[u8] {
        &self.positions[..self.count]
    }
}

impl<K: Kind<M>, G: LeafShape, M: Machine> HashedLeafTree<K, G, M> {
    /// Visits the entries from `from` (inclusive) on, ascending, until `visit` returns false. The
    /// visitor gets the leaf's low fence (which completes `u64` keys) and the entry.
    pub(crate) fn scan_forward(
        &self,
        session: &mut Session<M>,
        from: K::Key<'_>,
        mut visit: impl FnMut(u64, Pair) -> bool,
    ) {
        let mut from = from;
        let mut place = self.place(session, from);
        let mut first = true;
        loop {
            let leaf = place.leaf;
            if first {
                self.prefetch_entries(leaf);
            }
            let next = self.neighbour(&place);
            let sorted = self.sorted_positions(session, leaf);
            let positions = sorted.as_slice();
            let start = if first { self.lower_bound(leaf, positions, from) } else { 0 };
            let low = self.cold(leaf).low.read_private();
            for (index, position) in positions.iter().enumerate().skip(start) {
                if let Some(ahead) = positions.get(index + AHEAD) {
                    self.prefetch_entry(leaf, *ahead);
                }
                let position = usize::from(*position);
                let entry = self.entry(leaf, position).load();
                if !holds(K::state(entry)) {
                    self.pass(leaf, position, entry);
                    continue;
                }
                self.observe(leaf, position);
                if !visit(low, entry) {
                    return;
                }
            }
            let high = self.cold(leaf).high.read_private();
            if high == 0 {
                return;
            }
            place = match next {
                // Fences are unique, so equality says that nothing lies between.
                Some(next)
                    if self.cold(next.leaf).low.read_private() == high
                        && !self.is_replaced(next.leaf) =>
                {
                    first = false;
                    next
                }
                _ => {
                    // After a merge the leaf may start below where we stand: skip what was seen.
                    from = K::fence_as_key(self.base, high);
                    first = true;
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
        mut visit: impl FnMut(u64, Pair) -> bool,
    ) {
        let mut bound = to;
        loop {
            let leaf = self.resolve_below(session, bound);
            self.prefetch_entries(leaf);
            let sorted = self.sorted_positions(session, leaf);
            let positions = sorted.as_slice();
            let end = match bound {
                Some(key) if !self.is_above(leaf, key) => self.lower_bound(leaf, positions, key),
                _ => positions.len(),
            };
            let low = self.cold(leaf).low.read_private();
            for position in positions[..end].iter().rev() {
                let position = usize::from(*position);
                let entry = self.entry(leaf, position).load();
                if !holds(K::state(entry)) {
                    self.pass(leaf, position, entry);
                    continue;
                }
                self.observe(leaf, position);
                if !visit(low, entry) {
                    return;
                }
            }
            if low == 0 {
                return;
            }
            bound = Some(K::fence_as_key(self.base, low));
        }
    }

    /// The authority for `key`, with its place under its parent if it hangs there directly.
    #[inline(always)]
    fn place(&self, session: &mut Session<M>, key: K::Key<'_>) -> Place<M> {
        let mut node = self.inner.root();
        loop {
            let index = node.find::<K>(node.level, self.base, key, false);
            let child = node.child(index);
            if node.level > 1 {
                Shared::<Inner<M>>::prefetch::<K>(child, node.level - 1);
                // SAFETY: children above level 1 are inner nodes, read while pinned.
                node = unsafe { Shared::new(child.cast()) };
                continue;
            }
            let mut place = Place { leaf: LeafId::of_child(child), parent: node, index };
            self.prefetch_metadata(place.leaf);
            if self.is_replaced(place.leaf) {
                place.leaf = self.resolve(session, key);
            }
            return place;
        }
    }

    /// The next leaf under the same parent, as the parent has it now.
    #[inline(always)]
    fn neighbour(&self, place: &Place<M>) -> Option<Place<M>> {
        let index = place.index + 1;
        if index >= usize::from(place.parent.count) {
            return None;
        }
        let leaf = LeafId::of_child(place.parent.child(index));
        self.prefetch_metadata(leaf);
        Some(Place { leaf, parent: place.parent, index })
    }

    /// The authority for the greatest keys below `bound`.
    fn resolve_below(&self, session: &mut Session<M>, bound: Option<K::Key<'_>>) -> LeafId {
        let mut leaf = match bound {
            Some(key) => LeafId::of_child(self.inner.descend_path(key, true).1),
            None => self.last_leaf(),
        };
        let mut hopped = false;
        while self.is_replaced(leaf) {
            hopped = true;
            leaf = self.step(leaf, |split| {
                bound.is_none_or(|key| K::compare_fence(self.base, split, key) == KeyOrder::Less)
            });
        }
        if hopped {
            let low = self.cold(leaf).low.read_private();
            self.try_install(session, K::fence_as_key(self.base, low));
        }
        leaf
    }

    fn last_leaf(&self) -> LeafId {
        let mut node = self.inner.root();
        loop {
            let child = node.child(usize::from(node.count) - 1);
            if node.level == 1 {
                return LeafId::of_child(child);
            }
            // SAFETY: children above level 1 are inner nodes, read while pinned.
            node = unsafe { Shared::new(child.cast()) };
        }
    }

    /// Whether `key` lies above all keys of the leaf.
    fn is_above(&self, leaf: LeafId, key: K::Key<'_>) -> bool {
        let high = self.cold(leaf).high.read_private();
        high != 0 && K::compare_fence(self.base, high, key) != KeyOrder::Greater
    }

    /// How many of the sorted positions come before `key`.
    fn lower_bound(&self, leaf: LeafId, positions: &[u8], key: K::Key<'_>) -> usize {
        let skip = self.skip(leaf);
        positions.partition_point(|position| {
            let entry = self.entry(leaf, usize::from(*position)).load();
            K::compare_to(self.base, entry, skip, key) == KeyOrder::Less
        })
    }

    /// `Adr` domain: a scan that passes a removed entry says that its key is absent, so the removal
    /// must be durable first, as in a search (I11).
    #[inline(always)]
    fn pass(&self, leaf: LeafId, position: usize, entry: Pair) {
        if K::state(entry) == TOMB && !M::mutant("hashed.no_scan_tomb_observe") {
            self.observe(leaf, position);
        }
    }

    /// The positions of a chunk that are claimed, or never will be.
    #[inline(always)]
    fn known(&self, leaf: LeafId, chunk: usize) -> u64 {
        !self.fingerprints(leaf, chunk).matches(UNKNOWN) & usable::<G>(chunk)
    }

    /// The positions that may hold keys, in key order.
    #[inline(always)]
    fn sorted_positions(&self, session: &mut Session<M>, leaf: LeafId) -> Sorted {
        let known: [u64; 4] =
            std::array::from_fn(
                |chunk| {
                    if chunk < G::CHUNKS { self.known(leaf, chunk) } else { 0 }
                },
            );
        let covered: u32 = known.iter().map(|mask| mask.count_ones()).sum();
        // Acquire: the order is complete; pairs with the exchange in `cache_order`.
        let cached = self.cold(leaf).order.load(Ordering::Acquire);
        if !cached.is_null() && cached != closed() {
            // SAFETY: orders are retired by whoever replaces them, and we are pinned.
            let order = unsafe { Shared::new(cached) };
            // What is known stays known, so equal counts mean equal sets.
            if u32::from(order.covered) == covered {
                let count = usize::from(order.count);
                return Sorted { positions: order.positions, count };
            }
        }
        self.sort_positions(session, leaf, known, cached)
    }

    /// Sorts the positions, and caches the result.
    #[cold]
    #[inline(never)]
    fn sort_positions(
        &self,
        session: &mut Session<M>,
        leaf: LeafId,
        known: [u64; 4],
        cached: *mut Order,
    ) -> Sorted {
        self.prefetch_entries(leaf);
        let mut held: Vec<(u64, u8, Pair)> = Vec::with_capacity(G::CAPACITY);
        for (chunk, mask) in known.iter().enumerate().take(G::CHUNKS) {
            // A dead position is one that was removed, durably, or that nobody ever claims.
            let mut mask = mask & !self.fingerprints(leaf, chunk).matches(DEAD);
            while mask != 0 {
                let position = chunk * G::CHUNK + mask.trailing_zeros() as usize;
                mask &= mask - 1;
                let entry = self.entry(leaf, position).load();
                match K::state(entry) {
                    TOMB => self.pass(leaf, position, entry),
                    EMPTY | FROZEN_EMPTY => {}
                    _ => held.push((K::head(entry), position as u8, entry)),
                }
            }
        }
        held.sort_unstable_by(|a, b| {
            let heads = a.0.cmp(&b.0);
            if K::HAS_TAILS { heads.then_with(|| K::compare(self.base, a.2, b.2)) } else { heads }
        });
        let mut sorted = Sorted { positions: [0; POSITION_COUNT_MAX], count: held.len() };
        for (place, (_, position, _)) in sorted.positions.iter_mut().zip(&held) {
            *place = *position;
        }
        if cached != closed() {
            let covered = known.iter().map(|mask| mask.count_ones()).sum::<u32>();
            self.cache_order(session, leaf, covered as u16, cached, &sorted);
        }
        sorted
    }

    /// Offers a new order; without memory for it the next scan sorts again.
    fn cache_order(
        &self,
        session: &mut Session<M>,
        leaf: LeafId,
        covered: u16,
        cached: *mut Order,
        sorted: &Sorted,
    ) {
        let Ok(memory) = session.allocate_node(size_of::<Order>()) else { return };
        let order: *mut Order = memory.cast();
        let contents = Order { covered, count: sorted.count as u16, positions: sorted.positions };
        // SAFETY: the memory is ours, large enough and aligned to 64.
        unsafe { order.write(contents) };
        // AcqRel: publishes the order; pairs with the load in `sorted_positions`. If the leaf was
        // retired meanwhile its order is `closed` and this fails. Relaxed: then nothing is read.
        let offered = self.cold(leaf).order.compare_exchange(
            cached,
            order,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        match offered {
            // SAFETY: allocated with this size; the exchange made us its only owner.
            Ok(old) if !old.is_null() => unsafe {
                session.retire_node(old.cast(), size_of::<Order>());
            },
            Ok(_) => {}
            // SAFETY: allocated with this size, never published.
            Err(_) => unsafe { session.free_node(memory, size_of::<Order>()) },
        }
    }

    /// Asks for fingerprints and metadata of a leaf.
    #[inline(always)]
    fn prefetch_metadata(&self, leaf: LeafId) {
        if M::SIMULATED {
            return;
        }
        M::prefetch(self.cold(leaf).flags.as_ptr());
        for chunk in 0..G::CHUNKS {
            M::prefetch(self.fingerprints(leaf, chunk).as_ptr());
        }
    }

    /// Asks for an entry.
    #[inline(always)]
    fn prefetch_entry(&self, leaf: LeafId, position: u8) {
        if !M::SIMULATED {
            M::prefetch(self.entry_place(leaf, usize::from(position)));
        }
    }

    /// Asks for a leaf's order and all its entries.
    #[inline(always)]
    fn prefetch_entries(&self, leaf: LeafId) {
        if M::SIMULATED {
            return;
        }
        // Relaxed: not followed, only asked for.
        let order = self.cold(leaf).order.load(Ordering::Relaxed).cast::<u8>();
        for line in (0..size_of::<Order>()).step_by(LINE_SIZE) {
            M::prefetch(order.wrapping_add(line));
        }
        let block = self.block_start(leaf);
        for line in (0..G::BLOCK_BYTES).step_by(LINE_SIZE) {
            M::prefetch(block.wrapping_add(line));
        }
    }
}
