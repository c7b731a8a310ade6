//! The keys of the map with the log's metadata; the header of `wal.rs` says what is under them.

/// The map of the pool that says which log is its own.
pub(crate) const NAME: &str = "\u{1}log";
pub(super) const IDENTITY: &[u8] = b"identity";
pub(super) const MODE: &[u8] = b"mode";
pub(super) const LAST: &[u8] = b"last";
pub(super) const LOGGED: &[u8] = b"logged";
pub(super) const REACHED: &[u8] = b"reached";

/// The map of the log that has the names.
pub(super) const NAMES: u32 = 0;

/// Under which the pool has the number of a map.
pub(super) fn map_key(name: &str) -> Vec<u8> {
    [b"map:", name.as_bytes()].concat()
}
