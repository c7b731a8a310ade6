//! Range scans, data node by data node, both ways.
//!
//! Each node is read at one instant (its version is validated before its pairs count), so a scan is a
//! sequence of such instants, in the order of the keys: no key twice, none that was there all the time is
//! missed. It is not a snapshot of several nodes.
//!
//! The first scan of a node that was written to notes the order of its slots, under the lock; those after
//! it follow the order. It is tagged with the opening of the pool, so a crash needs no repair.

use everleaf_machine::{LINE_SIZE, Machine};

use super::PacTree;
use super::layout::{NODE_SIZE, Node, slots};
use super::search::Elsewhere;
use super::variant::Variant;
use crate::node::version_lock::{Retry, Version};

/// Keys and values.
type Pairs = Vec<(u64, u64)>;

/// What a scan saw of a data node: its range and its neighbour.
struct Seen {
    low: u64,
    high: u64,
    next: u64,
}

impl<V: Variant, const BITS: u32, M: Machine> PacTree<V, BITS, M> {
    /// Appends up to `limit` pairs from `from` on, which is below the largest number.
    pub(super) fn scan_forward(&self, mut from: u64, limit: usize, pairs: &mut Pairs) {
        // A short scan allocates once; a long one grows as it goes.
        pairs.reserve(limit.min(256));
        let end = pairs.len().saturating_add(limit);
        let mut attempt = 0;
        let mut offset = self.seek(from);
        self.prefetch_whole(offset);
        while pairs.len() < end {
            let before = pairs.len();
            match self.visit(self.node(offset), from, from, end - before, pairs) {
                Ok(Seen { next: 0, .. }) => return,
                Ok(Seen { next, high, .. }) => (offset, from, attempt) = (next, high, 0),
                Err(elsewhere) => {
                    // Only what this node gave is given up.
                    pairs.truncate(before);
                    self.go(elsewhere, from, &mut offset, &mut attempt);
                }
            }
        }
    }

    /// Appends up to `limit` pairs from `from` on, which is below the largest number, descending.
    pub(super) fn scan_backward(&self, mut from: u64, limit: usize, pairs: &mut Pairs) {
        let end = pairs.len().saturating_add(limit);
        let (mut attempt, mut part) = (0, vec![]);
        let mut offset = self.seek(from);
        while pairs.len() < end {
            part.clear();
            // All of the node; the range is checked with the key that is looked for.
            match self.visit(self.node(offset), from, 0, usize::MAX, &mut part) {
                Ok(Seen { low, .. }) => {
                    let fits = part.iter().rev().skip_while(|(key, _)| *key > from);
                    pairs.extend(fits.take(end - pairs.len()));
                    let Some(below) = low.checked_sub(1) else { return };
                    (from, attempt) = (below, 0);
                    offset = self.seek(from);
                }
                Err(elsewhere) => self.go(elsewhere, from, &mut offset, &mut attempt),
            }
        }
    }

    #[inline(always)]
    fn prefetch_whole(&self, offset: u64) {
        let start = self.node(offset).as_ptr();
        let last = NODE_SIZE / LINE_SIZE - 1;
        // Line 0 and the order, which say what is read next, and then the entries.
        for line in [0, last].into_iter().chain(2..last) {
            M::prefetch(start.wrapping_add(line * LINE_SIZE));
        }
    }

    /// Appends the pairs from `from` on of the node for `key`.
    #[inline(always)]
    fn visit(
        &self,
        node: &Node<M>,
        key: u64,
        from: u64,
        limit: usize,
        pairs: &mut Pairs,
    ) -> Result<Seen, Elsewhere> {
        let version = self.view(node, key)?;
        let seen = Seen { low: node.low(), high: node.high(), next: node.next() };
        if seen.next != 0 {
            self.prefetch_whole(seen.next);
        }
        self.collect(node, version, from, limit, pairs);
        if self.is_current(node, version) { Ok(seen) } else { Err(Elsewhere::Here(Retry::Now)) }
    }

    /// Appends up to `limit` pairs from `from` on, ascending, good if the version is found unchanged
    /// afterwards.
    #[inline(always)]
    fn collect(
        &self,
        node: &Node<M>,
        version: Version,
        from: u64,
        limit: usize,
        pairs: &mut Pairs,
    ) {
        if node.sorted() != node.stamp(self.generation) {
            return self.collect_unsorted(node, version, from, limit, pairs);
        }
        let end = pairs.len().saturating_add(limit);
        let count = node.count();
        for word in 0..count.div_ceil(8) {
            let mut slots = node.order_word(word);
            for _ in 0..(count - word * 8).min(8) {
                let pair = node.pair(slots as u8 as usize);
                slots >>= 8;
                if pair.0 >= from {
                    if pairs.len() == end {
                        return;
                    }
                    pairs.push(pair);
                }
            }
        }
    }

    /// The same of a node whose order is not known. Notes it if nobody else is at work on the node.
    fn collect_unsorted(
        &self,
        node: &Node<M>,
        version: Version,
        from: u64,
        limit: usize,
        pairs: &mut Pairs,
    ) {
        let notes = self.is_writable && self.lock_at(node, version);
        let stamp = node.stamp(self.generation);
        let keyed = |slot| (node.pair(slot).0, slot as u8);
        let mut order: Vec<(u64, u8)> = slots(node.bitmap()).map(keyed).collect();
        order.sort_unstable();
        let slots: Vec<u8> = order.iter().map(|(_, slot)| *slot).collect();
        let fits = slots.iter().map(|slot| node.pair(usize::from(*slot)));
        pairs.extend(fits.filter(|(key, _)| *key >= from).take(limit));
        if notes {
            node.set_order(&slots, stamp);
            node.lock.unlock_unchanged();
        }
    }

    /// Locks a node if nothing has changed since the version was taken.
    fn lock_at(&self, node: &Node<M>, version: Version) -> bool {
        // Not by an exchange of the version: the word may still be that of an earlier opening.
        if !node.lock.try_lock(self.generation) {
            return false;
        }
        let is_it = node.lock.is_held_from(version);
        if !is_it {
            node.lock.unlock_unchanged();
        }
        is_it
    }
}
