//! From a key to its leaf, and to its pair.

use everleaf_machine::Machine;

use super::BzTree;
use super::state::{RESERVED, Status, VISIBLE};
use super::variant::Variant;

/// A leaf, and the keys that it is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeafRange {
    pub leaf: u64,
    /// The smallest one.
    pub low: u64,
    /// The one behind the largest; none at the end.
    pub high: Option<u64>,
}

/// A node on the way to a leaf.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub node: u64,
    /// Which child comes next; 0 in a leaf.
    pub index: usize,
}

/// What a leaf says of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// Its pair.
    pub slot: Option<usize>,
    /// A bit for each pair that was reserved, and may have the key.
    pub reserved: u64,
}

impl<V: Variant, M: Machine> BzTree<V, M> {
    /// The root.
    #[inline(always)]
    pub(super) fn root(&self, stripe: usize) -> u64 {
        self.words.read(stripe, self.root_place)
    }

    /// Which child of an inner node `key` belongs to.
    #[inline(always)]
    fn index_of(&self, inner: u64, count: usize, key: u64) -> usize {
        // The first child has no key: all that are smaller than the second one's are its own.
        let (mut low, mut high) = (0, count);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.key(inner, false, middle) <= key { low = middle } else { high = middle }
        }
        low
    }

    /// The leaf of a key: one that was its leaf at some moment since the call began, and may be replaced.
    #[inline(always)]
    pub(super) fn find_leaf(&self, stripe: usize, key: u64) -> u64 {
        let mut node = self.root(stripe);
        loop {
            let (is_leaf, count) = self.shape(node);
            if is_leaf {
                return node;
            }
            node = self.child(stripe, node, self.index_of(node, count, key));
        }
    }

    /// The same, with its bounds.
    pub(super) fn find_place(&self, stripe: usize, key: u64) -> LeafRange {
        let mut place = LeafRange { leaf: self.root(stripe), low: 0, high: None };
        loop {
            let (is_leaf, count) = self.shape(place.leaf);
            if is_leaf {
                return place;
            }
            let (inner, index) = (place.leaf, self.index_of(place.leaf, count, key));
            if index > 0 {
                place.low = self.key(inner, false, index);
            }
            if index + 1 < count {
                place.high = Some(self.key(inner, false, index + 1));
            }
            place.leaf = self.child(stripe, inner, index);
        }
    }

    /// The same, with all nodes on the way.
    pub(super) fn find_path(&self, stripe: usize, key: u64) -> Vec<Step> {
        let (mut path, mut node) = (vec![], self.root(stripe));
        loop {
            let (is_leaf, count) = self.shape(node);
            let index = if is_leaf { 0 } else { self.index_of(node, count, key) };
            path.push(Step { node, index });
            if is_leaf {
                return path;
            }
            node = self.child(stripe, node, index);
        }
    }

    /// Looks for a key in a leaf of this status. If it is not found, there was a moment since the status was
    /// read when it was not there: else one visible pair had it all the time.
    #[inline(always)]
    pub(super) fn look(&self, stripe: usize, leaf: u64, status: Status, key: u64) -> Found {
        let (_, sorted) = self.shape(leaf);
        let mut found = Found { slot: None, reserved: 0 };
        let (mut low, mut high) = (0, sorted);
        while low < high {
            let middle = low.midpoint(high);
            if self.key(leaf, true, middle) < key { low = middle + 1 } else { high = middle }
        }
        if low < sorted
            && self.key(leaf, true, low) == key
            && self.meta(stripe, leaf, low) == VISIBLE
        {
            return Found { slot: Some(low), ..found };
        }
        for slot in sorted..status.count() {
            match self.meta(stripe, leaf, slot) {
                VISIBLE if self.key(leaf, true, slot) == key => found.slot = Some(slot),
                RESERVED => found.reserved |= 1 << slot,
                _ => {}
            }
        }
        found
    }

    /// The value of `key`.
    ///
    /// *Linearizes at* the load of the value, or just before the pair was removed or its leaf replaced by one with
    /// another value, if that comes first; if the key is absent, at a moment when it was, since the call began.
    #[inline(always)]
    pub(super) fn get_value(&self, stripe: usize, key: u64) -> Option<u64> {
        let leaf = self.find_leaf(stripe, key);
        let status = self.status(stripe, leaf);
        let slot = self.look(stripe, leaf, status, key).slot?;
        Some(self.value(stripe, leaf, slot))
    }
}
