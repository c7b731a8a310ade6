//! Where in the map of the members what begins: constants of the format (`docs/types.md`).

use crate::short_bytes::ShortBytes;

/// The index of the first element of a new list.
pub const MIDDLE: u64 = 1 << 63;
/// What the first byte of a place in the order of a sorted set is at least.
pub const ORDER: u8 = 0x80;
/// Levels of the order of a sorted set above that of the members, at most.
pub const LEVEL_MAX: u8 = 10;

/// The key of an entry of the order of a sorted set.
pub fn order_key(id: u64, level: u8, position: &[u8]) -> ShortBytes {
    ShortBytes::of_parts([&id.to_be_bytes(), &[ORDER | level], position])
}
