//! Where in the map of the members what begins: constants of the format (`docs/types.md`).

/// The index of the first element of a new list.
pub const MIDDLE: u64 = 1 << 63;
/// What the first byte of a place in the order of a sorted set is at least.
pub const ORDER: u8 = 0x80;
