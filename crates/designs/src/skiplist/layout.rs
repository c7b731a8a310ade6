//! Where things are in the pool: the root object, whose second line begins the head, and the node.
//!
//! ```text
//!   root object   word 0       1         2..8   8..23                          23..32
//!           | "EVLPSKL1" | variant | zero | the head, a node of 12 levels | zero |
//!
//!   node of h levels, 24 + 8 h bytes
//!           | link 0 | value | key | height and states | link 1 | .. | link h-1 |
//!
//!   link             | offset of the next node, a multiple of 16 | 0 0 | dirty 1 | mark 1 |
//!   value            | dirty 1 | 63 bits; all ones: the node is dead |
//!   height, states   | zero | linked up 1 | dead 1 | height 8 |
//! ```
//!
//! Link 0 and value are on one line: what is stored to them becomes durable in this order. Links 1 and up,
//! and the states, mean nothing after a crash. The head has neither key nor value.
//!
//! In variants with buffers:
//!
//! ```text
//!   root object   word 0       1         2..17                     17..32
//!           | "EVLPSKL2" | variant | the head, a node of 12 levels | logs (`write_log.rs`) |
//!
//!   tall node        | what any node has | number 8, unless an inner tree in DRAM has it |
//!   height           | zero | flushed 46 | 0 0 | height 8 |
//! ```
//!
//! *Flushed*, in a tall node and in the head, is the number of the last buffered write that the partition has. The
//! number is that of the partition, and means nothing after a crash.

use super::variant::{Buffered, LEVEL_COUNT_MAX, Standard, Variant};

/// First word of a root object. Programs whose logs had no sums had the same for all.
pub(super) const fn tag<V: Variant>() -> u64 {
    u64::from_le_bytes(if V::BUFFERED { *b"EVLPSKL2" } else { *b"EVLPSKL1" })
}

/// The root object's word that says of which variant the list is.
pub(super) const VARIANT_WORD: usize = 1;
/// The root object's first word that names the oldest chunk of a log, in a variant with buffers.
pub(super) const LOG_WORD: usize = 17;

/// The root object's first word that is the head's.
pub(super) const fn head_word<V: Variant>() -> usize {
    if V::BUFFERED { 2 } else { 8 }
}

/// The part of a node that has to be durable: link 0, value, key, height.
pub(super) const CORE_SIZE: usize = 32;
/// Where a node has its value.
pub(super) const VALUE: u64 = 8;
/// Where a node has its key.
pub(super) const KEY: u64 = 16;
/// Where a node has its height and states.
pub(super) const STATE: u64 = 24;

/// All links of the node that is left are there: nobody will add one.
pub(super) const LINKED_UP: u64 = 1 << 9;
/// All links of the node are marked.
pub(super) const DEAD: u64 = 1 << 8;
/// The levels of a node, in the same word.
pub(super) const HEIGHT_MASK: u64 = 0xFF;
/// Where the same word has the number of flushed writes.
pub(super) const FLUSHED_SHIFT: u32 = 10;
/// More than any number of flushed writes.
pub(super) const FLUSHED_END: u64 = 1 << 46;

/// A value with this bit may not be durable, and only the thread that stored it may store another one.
pub(super) const DIRTY_VALUE: u64 = 1 << 63;
/// The value of a node that is removed.
pub(super) const DEAD_VALUE: u64 = DIRTY_VALUE - 1;
/// The largest value of a key.
pub(super) const VALUE_MAX: u64 = DEAD_VALUE - 1;

/// Whether a node of this height begins a partition, in a variant that has them.
pub(super) const fn is_tall<V: Variant>(height: usize) -> bool {
    (V::BUFFERED || V::CACHED) && height > V::LOW_LEVELS
}

/// Whether tall nodes have a word for their number.
const fn has_number<V: Variant>(height: usize) -> bool {
    V::BUFFERED && !V::CACHED && is_tall::<V>(height)
}

/// Bytes of a node.
pub(super) const fn node_size<V: Variant>(height: usize) -> usize {
    number_at(height) as usize + if has_number::<V>(height) { 8 } else { 0 }
}

/// Where a tall node has its number.
pub(super) const fn number_at(height: usize) -> u64 {
    STATE + 8 * height as u64
}

/// Levels of the pool that a node of this height is on: with caching, what is above the low ones is in DRAM.
pub(super) fn linked_levels<V: Variant>(height: usize) -> usize {
    if V::CACHED { height.min(V::LOW_LEVELS) } else { height }
}

/// Where a node has its link on a level.
#[inline(always)]
pub(super) fn link_at(level: usize) -> u64 {
    if level == 0 { 0 } else { STATE + 8 * level as u64 }
}

/// The value that a word says a key has, durable or not; none if the key is removed.
#[inline(always)]
pub(super) fn live(word: u64) -> Option<u64> {
    let value = word & !DIRTY_VALUE;
    (value != DEAD_VALUE).then_some(value)
}

/// A link, as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link(pub u64);

impl Link {
    /// Set once, when the node that has the link is removed: the link stays as it is.
    pub const MARK: u64 = 1;
    /// Set on level 0 until the link to a new node is durable.
    pub const DIRTY: u64 = 2;

    /// The node that it leads to; 0 at the end.
    #[inline(always)]
    pub fn node(self) -> u64 {
        self.0 & !(Link::MARK | Link::DIRTY)
    }

    #[inline(always)]
    pub fn is_marked(self) -> bool {
        self.0 & Link::MARK != 0
    }

    #[inline(always)]
    pub fn is_dirty(self) -> bool {
        self.0 & Link::DIRTY != 0
    }
}

const _: () = assert!(head_word::<Standard>() * 8 + STATE as usize + 8 * LEVEL_COUNT_MAX <= 256);
const _: () =
    assert!(head_word::<Buffered>() * 8 + STATE as usize + 8 * LEVEL_COUNT_MAX == LOG_WORD * 8);

#[cfg(test)]
mod tests {
    use super::super::variant::Whole;
    use super::*;

    #[test]
    fn links_follow_each_other_and_the_last_ends_the_node() {
        let places: Vec<u64> = (0..LEVEL_COUNT_MAX).map(link_at).collect();
        assert_eq!(places[..4], [0, 32, 40, 48]);
        for height in 1..=LEVEL_COUNT_MAX {
            let links_end = (link_at(height - 1) as usize + 8).max(CORE_SIZE);
            assert_eq!(node_size::<Standard>(height), links_end);
            let number = if height > 2 { 8 } else { 0 };
            assert_eq!(node_size::<Buffered>(height), links_end + number);
            assert_eq!(node_size::<Whole>(height), links_end);
        }
    }

    #[test]
    fn a_value_is_live_whether_it_is_durable_or_not() {
        assert_eq!([0, VALUE_MAX].map(live), [Some(0), Some(VALUE_MAX)]);
        assert_eq!(live(VALUE_MAX | DIRTY_VALUE), Some(VALUE_MAX));
        assert_eq!([DEAD_VALUE, DEAD_VALUE | DIRTY_VALUE].map(live), [None, None]);
    }
}
