//! Where things are in the pool: the root object, the leaf and the inner node.
//!
//! ```text
//!   root object   word 0       1         2      3
//!           | "EVLPBZT1" | variant | root | descriptors | zero |
//!
//!   leaf of n pairs
//!           | status | shape | metadata of pair 0 | .. | n-1 | (to 16 bytes) | pair 0 | .. | pair n-1 |
//!   inner node of n children
//!           | status | shape | pair 0 | .. | pair n-1 |
//!
//!   status     frozen 1 | deleted 22 | count 16
//!   shape      leaf 1 | sorted 32
//!   metadata   0: free, 1: reserved, 2: visible, 3: gone
//!   pair       key 8 | value, or offset of the child 8
//! ```
//!
//! Status, metadata, values, children and the root are words of [`crate::node::pmwcas`]: 61 bits and three for
//! what is under way. Keys and shape do not change once others can see them. All pairs have one size, so a pair's
//! place follows from its number, and its metadata need not say it.
//!
//! An inner node's count is in its shape; the key of its first child means nothing.

/// First word of a root object: "EVLPBZT1".
pub(super) const TAG: u64 = u64::from_le_bytes(*b"EVLPBZT1");
/// The root object's word that says of which variant the tree is.
pub(super) const VARIANT_WORD: usize = 1;
/// The root object's word that leads to the root.
pub(super) const ROOT_WORD: usize = 2;
/// The root object's word that leads to the descriptors.
pub(super) const DESCRIPTORS_WORD: usize = 3;

/// The shape of a leaf has this bit.
pub(super) const LEAF: u64 = 1 << 32;
/// The part of a shape that says how many pairs are sorted, from the first one on.
pub(super) const SORTED_MASK: u64 = LEAF - 1;

/// Bytes of a pair.
pub(super) const PAIR_SIZE: u64 = 16;

/// Where a node has its shape.
pub(super) const SHAPE: u64 = 8;
const HEADER_SIZE: u64 = 16;

/// Where a leaf has the metadata of a pair.
pub(super) fn meta_at(slot: usize) -> u64 {
    HEADER_SIZE + 8 * slot as u64
}

/// Where a leaf of so many pairs has its first one.
pub(super) const fn leaf_pairs(slot_count: usize) -> u64 {
    (HEADER_SIZE + 8 * slot_count as u64).next_multiple_of(PAIR_SIZE)
}

/// Where an inner node has its first pair.
pub(super) const INNER_PAIRS: u64 = HEADER_SIZE;

/// Bytes of a node, whichever it is.
pub(super) const fn node_size(slot_count: usize, child_count: usize) -> usize {
    let leaf = leaf_pairs(slot_count) as usize + slot_count * PAIR_SIZE as usize;
    let inner = INNER_PAIRS as usize + child_count * PAIR_SIZE as usize;
    if leaf > inner { leaf } else { inner }
}

const _: () = assert!(node_size(42, 63) == 1024);
