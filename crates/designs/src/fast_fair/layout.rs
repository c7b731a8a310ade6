//! Where things are: the root object. (The bytes of a node: `node/fast_node`.)
//!
//! ```text
//!   root object   word 0       1                       2                 3..27                   27..32
//!           | the tag    | the variant's number  | root: an offset | logs (`write_log.rs`) | zero   |
//! ```
//!
//! The tag is "EVLFFAI2" in a variant with buffers, whose words of logs have sums, and "EVLFFAIR" in one without.
//! The root is one word; its level is in the node. So the tree's height changes by one store.

use super::variant::Variant;

/// First word of a root object. Programs whose logs had no sums had the same for all.
pub(super) const fn tag<V: Variant>() -> u64 {
    u64::from_le_bytes(if V::BUFFERED { *b"EVLFFAI2" } else { *b"EVLFFAIR" })
}

/// The root object's word that says which variant the nodes are of.
pub(super) const VARIANT_WORD: usize = 1;
/// The root object's word that refers to the root.
pub(super) const ROOT_WORD: usize = 2;
/// The root object's first word that names the oldest chunk of a log, in a variant with buffers.
pub(super) const LOG_WORD: usize = 3;
/// The largest value: a record's word has 8 more bits (`node/fast_node`).
pub(super) const VALUE_MAX: u64 = (1 << 56) - 1;
/// The generation of code that may not write: no node is ever of it.
pub(super) const NO_GENERATION: u32 = u32::MAX;
