//! Range scans: up along level 0, down by a search for each pair.

use everleaf_machine::Machine;

use super::PSkiplist;
use super::layout::live;
use super::variant::Variant;

/// Keys and values.
type Pairs = Vec<(u64, u64)>;

impl<V: Variant, M: Machine> PSkiplist<V, M> {
    /// Appends up to `limit` pairs from `from` on.
    pub(super) fn scan_forward(&self, from: u64, limit: usize, pairs: &mut Pairs) {
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
}
