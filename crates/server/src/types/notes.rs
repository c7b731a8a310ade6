//! The map of the members, and its keys that are not members: the mark, and notes about collections.

use everleaf::Map;

use super::header::MARK_SIZE;
use crate::databases::MapNumber;

/// The map of the members.
pub const MEMBERS: &str = "server.members";
/// Keys of the map of the members that are not members: the number 0.
pub const MARK_KEY: &[u8] = b"\0\0\0\0\0\0\0\0mark";
/// What follows the mark since lists may have runs: a server that does not know them finds no mark, and refuses the
/// pool.
const WITH_RUNS: u8 = 1;
pub const START_KEY: &[u8] = b"\0\0\0\0\0\0\0\0start";
/// The number under which the key of every collection of the first place is noted; of another place it is its number
/// added to this base.
pub const LIVE: u64 = 1;
const LIVE_OTHERS: u64 = 0x100;
/// The number under which lists are noted that have elements outside of their bounds.
pub const TRIMMED: u64 = 2;

/// The mark with which headers begin, if it is there.
pub fn mark_of(members: &Map) -> everleaf::Result<Option<[u8; MARK_SIZE]>> {
    Ok(members.get(MARK_KEY)?.and_then(|entry| match entry.split_first_chunk() {
        Some((mark, [] | [WITH_RUNS])) => Some(*mark),
        _ => None,
    }))
}

/// What the map of the members has under the key of the mark.
pub fn mark_entry(mark: &[u8; MARK_SIZE]) -> [u8; MARK_SIZE + 1] {
    let mut entry = [WITH_RUNS; MARK_SIZE + 1];
    entry[..MARK_SIZE].copy_from_slice(mark);
    entry
}

/// The number under which the collections of a place note their keys.
pub fn live_number(place: MapNumber) -> u64 {
    if place.0 == 0 { LIVE } else { LIVE_OTHERS + place.0 as u64 }
}

/// The key under which a collection of a place notes its own key.
pub fn live_key(place: MapNumber, id: u64) -> [u8; 16] {
    note_key(live_number(place), id)
}

/// The key that a list has beside it while elements outside of its bounds are still to be freed.
pub fn trimmed_key(id: u64) -> [u8; 16] {
    note_key(TRIMMED, id)
}

fn note_key(kind: u64, id: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&kind.to_be_bytes());
    key[8..].copy_from_slice(&id.to_be_bytes());
    key
}
