//! Range scans: up along level 0, down by a search for each pair; with buffers partition by partition.

use everleaf_machine::Machine;

use super::PSkiplist;
use super::layout::live;
use super::variant::Variant;

/// Keys and values.
type Pairs = Vec<(u64, u64)>;

impl<V: Variant, M: Machine> PSkiplist<V, M> {
    /// Appends up to `limit` pairs from `from` on.
    pub(super) fn scan_forward(&self, from: u64, limit: usize, pairs: &mut Pairs) {
        if V::BUFFERED {
            return self.scan_partitions_up(from, limit, pairs);
        }
        // A short scan allocates once; a long one grows as it goes.
        pairs.reserve(limit.min(256));
        let end = pairs.len().saturating_add(limit);
        let mut node = self.last(from, |key| key < from);
        while pairs.len() < end {
            // Behind a node that was removed meanwhile is what was there then (K5).
            node = self.follow(node, 0).node();
            if node == 0 {
                return;
            }
            M::prefetch(self.link(self.load(node, 0).node(), 0).as_ptr());
            let key = self.key(node);
            if let Some(value) = live(self.read_word(node)).filter(|_| key >= from) {
                pairs.push((key, value));
            }
        }
    }

    /// Appends up to `limit` pairs from `from` on, descending.
    pub(super) fn scan_backward(&self, mut from: u64, limit: usize, pairs: &mut Pairs) {
        if V::BUFFERED {
            return self.scan_partitions_down(from, limit, pairs);
        }
        let end = pairs.len().saturating_add(limit);
        while pairs.len() < end {
            let node = self.last(from, |key| key <= from);
            if node == self.head {
                return;
            }
            let key = self.key(node);
            if let Some(value) = live(self.read_word(node)) {
                pairs.push((key, value));
            }
            let Some(below) = key.checked_sub(1) else { return };
            from = below;
        }
    }

    /// The same in a variant with buffers: each partition at one instant.
    fn scan_partitions_up(&self, from: u64, limit: usize, pairs: &mut Pairs) {
        let end = pairs.len().saturating_add(limit);
        let mut from = Some(from);
        while let Some(key) = from.filter(|_| pairs.len() < end) {
            let (found, last) = self.partitions.look(self.partition_of(key), key, |number| {
                (self.pairs(number, key), self.partitions.at(number).last())
            });
            pairs.extend(found);
            pairs.truncate(end);
            from = last.checked_add(1);
        }
    }

    /// The same downwards.
    fn scan_partitions_down(&self, from: u64, limit: usize, pairs: &mut Pairs) {
        let end = pairs.len().saturating_add(limit);
        let mut from = Some(from);
        while let Some(key) = from.filter(|_| pairs.len() < end) {
            let (found, low) = self.partitions.look(self.partition_of(key), key, |number| {
                let low = self.low(number);
                (self.pairs(number, low), low)
            });
            pairs.extend(found.into_iter().filter(|pair| pair.0 <= key).rev());
            pairs.truncate(end);
            from = low.checked_sub(1);
        }
    }
}
