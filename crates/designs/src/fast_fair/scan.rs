//! Ordered scans: leaf after leaf.
//!
//! What a scan gives of one leaf was there at one moment, up to records that were put in while it
//! read; different leaves are read at different moments. A key that is there during the whole call
//! is not missed, and none is given twice.

use everleaf_alloc::AllocError;
use everleaf_index::TreeShape;
use everleaf_machine::{Machine, Ordering};

use super::FastFair;
use super::variant::Variant;
use crate::node::fast_node::{NONCE_BITS, Node};

impl<V: Variant, M: Machine> FastFair<V, M> {
    /// Appends up to `limit` pairs from `from` on, ascending. Pinned.
    pub(super) fn scan_forward(
        &self,
        from: u64,
        limit: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<(), AllocError> {
        let end = pairs.len().saturating_add(limit);
        let mut from = from;
        'restart: loop {
            let Some(mut leaf) = self.find(from, 0, None)? else { return Ok(()) };
            loop {
                self.prefetch_next(leaf);
                let start = pairs.len();
                let Some(sibling) = self.collect(leaf, from, pairs)? else { continue 'restart };
                pairs.truncate(end);
                for (_, value) in &mut pairs[start..] {
                    *value >>= NONCE_BITS;
                }
                if let Some((last, _)) = pairs[start..].last() {
                    let Some(next) = last.checked_add(1) else { return Ok(()) };
                    from = next;
                }
                if pairs.len() == end || sibling == 0 {
                    return Ok(());
                }
                leaf = self.nodes.at(sibling)?;
            }
        }
    }

    /// Appends up to `limit` pairs from `from` on, descending. Pinned.
    pub(super) fn scan_backward(
        &self,
        from: u64,
        limit: usize,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<(), AllocError> {
        let end = pairs.len().saturating_add(limit);
        let mut from = from;
        'restart: loop {
            let Some(mut leaf) = self.find(from, 0, None)? else { return Ok(()) };
            loop {
                let start = pairs.len();
                let low = self.nodes.low(leaf);
                if low > from {
                    return Err(self.damage(leaf, "a search for a smaller key led to this leaf"));
                }
                let Some(sibling) = self.collect(leaf, low, pairs)? else { continue 'restart };
                let next = self.nodes.follow(sibling)?;
                if let Some(next) = next.filter(|next| self.nodes.is_right(*next, from)) {
                    pairs.truncate(start);
                    leaf = next;
                    continue;
                }
                let keep = pairs[start..].partition_point(|(key, _)| *key <= from);
                pairs.truncate(start + keep);
                pairs[start..].reverse();
                pairs.truncate(end);
                for (_, value) in &mut pairs[start..] {
                    *value >>= NONCE_BITS;
                }
                if pairs.len() == end || low == 0 {
                    return Ok(());
                }
                from = low - 1;
                continue 'restart;
            }
        }
    }

    /// The words of one leaf, and its right sibling; see `Nodes::collect`.
    fn collect(
        &self,
        leaf: Node<V, M>,
        from: u64,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<Option<u64>, AllocError> {
        let (locks, start) = (self.locks_readers(), pairs.len());
        if locks {
            self.lock_to_read(leaf)?;
        }
        let result = self.nodes.collect(leaf, from, pairs);
        if V::BUFFERED && matches!(result, Ok(Some(_))) {
            self.overlay(leaf, from, start, pairs);
        }
        if locks {
            self.nodes.unlock_shared(leaf);
        }
        result
    }

    /// Asks for the next leaf while this one is read.
    #[inline(always)]
    fn prefetch_next(&self, leaf: Node<V, M>) {
        // (A simulated machine has nothing to gain from it.)
        if !M::SIMULATED {
            // Relaxed: a hint; a wrong address is not followed.
            let sibling = leaf.sibling().load(Ordering::Relaxed);
            self.nodes.node(sibling).prefetch();
        }
    }
}

impl<V: Variant, M: Machine> FastFair<V, M> {
    /// Counts keys and leaves. Pinned.
    pub(super) fn count_leaves(&self) -> Result<TreeShape, AllocError> {
        let mut shape = TreeShape::default();
        shape.height = self.root()?.level() + 1;
        let mut pairs = vec![];
        let mut from = Some(0);
        'restart: while let Some(first) = from {
            let Some(mut leaf) = self.find(first, 0, None)? else { break };
            loop {
                pairs.clear();
                let Some(sibling) = self.collect(leaf, from.unwrap_or(0), &mut pairs)? else {
                    continue 'restart;
                };
                shape.keys += pairs.len() as u64;
                shape.leaves += 1;
                from = pairs.last().map_or(from, |(last, _)| last.checked_add(1));
                if sibling == 0 {
                    break 'restart;
                }
                leaf = self.nodes.at(sibling)?;
            }
        }
        Ok(shape)
    }
}
