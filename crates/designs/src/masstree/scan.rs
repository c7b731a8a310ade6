//! Scans: border nodes one after another. The keys of a node are those of one instant, each value is that of
//! an instant of its own: updates change no version.

use everleaf_machine::Machine;

use super::Masstree;
use super::layout::Border;

impl<const WIDTH: usize, M: Machine> Masstree<WIDTH, M> {
    /// Appends up to `limit` pairs from `from` on, ascending. The caller is pinned.
    pub(super) fn scan_up(&self, mut from: u64, limit: usize, pairs: &mut Vec<(u64, u64)>) {
        let end = pairs.len().saturating_add(limit);
        'root: while pairs.len() < end {
            let (mut node, mut version) = self.find_border(from);
            while !version.is_deleted() {
                let start = pairs.len();
                append(pairs, end, node, false, |key| key >= from);
                let next = node.next();
                if !node.header.version.validate(version) {
                    pairs.truncate(start);
                    continue 'root;
                }
                if pairs.len() == end || next.is_null() {
                    return;
                }
                node = self.border(next.cast());
                // If it leaves the tree, or is split, the next descent leads to its keys.
                from = node.low;
                version = node.header.version.stable();
            }
        }
    }

    /// The same descending.
    pub(super) fn scan_down(&self, mut from: u64, limit: usize, pairs: &mut Vec<(u64, u64)>) {
        let end = pairs.len().saturating_add(limit);
        while pairs.len() < end {
            let (node, version) = self.find_border(from);
            let start = pairs.len();
            if !version.is_deleted() {
                append(pairs, end, node, true, |key| key <= from);
            }
            if version.is_deleted() || !node.header.version.validate(version) {
                pairs.truncate(start);
                continue;
            }
            let Some(before) = node.low.checked_sub(1) else { return };
            from = before;
        }
    }
}

/// Appends the pairs of a node that are wanted, until there are `end`.
fn append<M: Machine>(
    pairs: &mut Vec<(u64, u64)>,
    end: usize,
    node: &Border<M>,
    is_down: bool,
    wanted: impl Fn(u64) -> bool,
) {
    let permutation = node.permutation();
    for rank in 0..permutation.count() {
        let rank = if is_down { permutation.count() - 1 - rank } else { rank };
        let slot = permutation.slot(rank);
        let key = node.key(slot);
        if pairs.len() < end && wanted(key) {
            pairs.push((key, node.value(slot)));
        }
    }
}
