//! Range scans, node by node: up along the list, down by the tree.

use everleaf_index::Geometry;
use everleaf_machine::Machine;

use super::UTree;
use super::layout::{HEAD_KEY, node_of};

/// Keys and values.
type Pairs = Vec<(u64, u64)>;

impl<G: Geometry, M: Machine> UTree<G, M> {
    /// Appends up to `limit` pairs from `from` on.
    pub(super) fn scan_forward(&self, mut from: u64, limit: usize, pairs: &mut Pairs) {
        // A short scan allocates once; a long one grows as it goes.
        pairs.reserve(limit.min(256));
        let end = pairs.len().saturating_add(limit);
        let (mut next, mut attempt) = (None, 0);
        while pairs.len() < end {
            let offset = next.take().unwrap_or_else(|| node_of(self.inner.find_le(from).leaf));
            match self.read_node(self.node(offset)) {
                Ok((key, value, after)) => {
                    if key >= from && key != HEAD_KEY {
                        pairs.push((key, value));
                    }
                    let Some(above) = key.checked_add(1).filter(|_| after != 0) else { return };
                    M::prefetch(self.node(after).as_ptr());
                    (next, from, attempt) = (Some(after), from.max(above), 0);
                }
                // A node that left the list: the tree knows better.
                Err(retry) => {
                    M::mark("utree.scan_again");
                    retry.pause::<M>(&mut attempt);
                }
            }
        }
    }

    /// Appends up to `limit` pairs from `from` on, descending.
    pub(super) fn scan_backward(&self, mut from: u64, limit: usize, pairs: &mut Pairs) {
        let end = pairs.len().saturating_add(limit);
        let mut attempt = 0;
        while pairs.len() < end {
            match self.read_node(self.seek(from).node) {
                Ok((HEAD_KEY, ..)) => return,
                Ok((key, value, _)) => {
                    pairs.push((key, value));
                    (from, attempt) = (key - 1, 0);
                }
                Err(retry) => retry.pause::<M>(&mut attempt),
            }
        }
    }
}
