//! Cursors of `HSCAN`, `SSCAN` and `ZSCAN`: places that tell nothing.
//!
//! A scan goes on at a place (`collection.rs`), which comes of the member and the pool's mark by steps that can be gone
//! backwards: two of them told the mark. So a client is given the upper bits of the place behind a permutation of the
//! 52-bit numbers, a Feistel network with SHA-256 in its rounds (Luby, Rackoff, "How to construct pseudorandom
//! permutations", SIAM J. Comput. 17(2), 1988), whose key comes of the mark by SHA-256, too. So cursors need no memory,
//! and mean the same after a restart; what a client could learn of many of them is outputs of SHA-256, of 128 bits
//! that it does not know. A cursor has no more bits than a floating-point number holds exactly: many client libraries
//! keep it as one. Places that differ only in the bits below are one group, and come in one step.

use sha2::{Digest, Sha256};

/// Four would do for a client that sees few numbers.
const ROUND_COUNT: u8 = 8;
/// Bits of each half of a cursor.
const HALF_BITS: u32 = 26;
/// Bits of a place that are left out of a cursor.
const REST_BITS: u32 = u64::BITS - 2 * HALF_BITS;
/// What makes the key another number than what else could come of the mark.
const PURPOSE: &[u8] = b"everleaf.cursors";

/// Makes cursors of places, and the other way round.
pub struct Cursors {
    key: [u8; 32],
}

impl Cursors {
    /// Those of the pool with this mark.
    pub fn of(mark: &[u8]) -> Self {
        Cursors { key: Sha256::new().chain_update(PURPOSE).chain_update(mark).finalize().into() }
    }

    /// The group of a place: a scan goes on at its first place.
    pub fn group(place: u64) -> u64 {
        place >> REST_BITS
    }

    /// The cursor to go on with at the group of a place: 0 for the one where a scan begins, and for no other.
    pub fn at(&self, place: u64) -> u64 {
        self.walk(Self::group(place), Self::forward)
    }

    /// The place to go on at with a cursor; `None` if it is none that is ever given.
    pub fn place(&self, cursor: u64) -> Option<u64> {
        let is_given = cursor < 1 << (2 * HALF_BITS);
        is_given.then(|| self.walk(cursor, Self::backward) << REST_BITS)
    }

    /// A permutation in which 0 stays: what would be 0 is one step further, where 0 would have gone.
    fn walk(&self, number: u64, step: impl Fn(&Self, u64) -> u64) -> u64 {
        match (number, step(self, number)) {
            (0, _) => 0,
            (_, 0) => step(self, 0),
            (_, other) => other,
        }
    }

    fn forward(&self, number: u64) -> u64 {
        (0..ROUND_COUNT).fold(number, |number, round| {
            let (left, right) = halves(number);
            whole(right, left ^ self.function(round, right))
        })
    }

    fn backward(&self, number: u64) -> u64 {
        (0..ROUND_COUNT).rev().fold(number, |number, round| {
            let (left, right) = halves(number);
            whole(right ^ self.function(round, left), left)
        })
    }

    fn function(&self, round: u8, half: u32) -> u32 {
        let hash = Sha256::new().chain_update(self.key).chain_update([round]);
        let hash: [u8; 32] = hash.chain_update(half.to_le_bytes()).finalize().into();
        u32::from_le_bytes([hash[0], hash[1], hash[2], hash[3]]) >> (u32::BITS - HALF_BITS)
    }
}

fn halves(number: u64) -> (u32, u32) {
    ((number >> HALF_BITS) as u32, (number & ((1 << HALF_BITS) - 1)) as u32)
}

fn whole(left: u32, right: u32) -> u64 {
    u64::from(left) << HALF_BITS | u64::from(right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf::random::next;
    use std::collections::BTreeSet;

    #[test]
    fn a_cursor_leads_back_to_its_place() {
        let cursors = Cursors::of(&[7; 16]);
        let mut state = 1;
        let chosen = [0, 1, u64::MAX, 1 << 63, u64::from(u32::MAX)];
        let random: Vec<u64> = (0..2000).map(|_| next(&mut state)).collect();
        let mut given = BTreeSet::new();
        for place in chosen.into_iter().chain(random) {
            let (first, cursor) = (Cursors::group(place) << REST_BITS, cursors.at(place));
            assert!(cursor < 1 << 53, "a client may keep it as a floating-point number");
            assert_eq!(cursors.place(cursor), Some(first));
            let group = cursors.place(first >> REST_BITS).unwrap();
            assert_eq!(cursors.at(group), first >> REST_BITS, "every number is a cursor");
            assert_eq!(cursor == 0, first == 0);
            assert!(given.insert(cursor) || first == 0);
        }
        // The one group of which the network would make the end of a scan.
        let place = cursors.backward(0) << REST_BITS;
        assert_ne!(cursors.at(place), 0);
        assert_eq!(cursors.place(cursors.at(place)), Some(place));
        assert_eq!([1 << 52, u64::MAX].map(|cursor| cursors.place(cursor)), [None; 2]);
    }

    /// Clients keep cursors while a server is restarted.
    #[test]
    fn a_cursor_stays_what_it_is() {
        let one = Cursors::of(b"0123456789abcdef");
        let stays = [1_112_867_507_116_555, 1_168_091_802_215_245];
        assert_eq!([1 << 12, 1 << 63].map(|place| one.at(place)), stays);
        assert_ne!(Cursors::of(b"0123456789abcdeg").at(1 << 63), one.at(1 << 63));
    }
}
