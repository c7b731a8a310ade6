//! Where a key may be in a leaf: its probe order, which never changes while the leaf lives.
//!
//! The order is the key's *chunk* (the positions whose fingerprints are in one line) from its home line
//! on, within the same 256 bytes first, then the rest of the chunk; then the other chunks, each from its
//! first position on.

use std::marker::PhantomData;

use super::layout::{DEAD, LeafShape};
use super::placement::Placement;

/// A key's way through a leaf of shape `S`.
#[derive(Clone, Copy)]
pub(super) struct Probe<S> {
    /// What its entries have as their fingerprint.
    pub fingerprint: u8,
    /// The position its search starts from.
    home: usize,
    shape: PhantomData<S>,
}

impl<S: LeafShape> Probe<S> {
    /// The way of a key with this hash and number in a leaf that places its keys so.
    #[inline(always)]
    pub fn new(placement: Placement, hash: u64, number: u64) -> Self {
        let lines = S::POSITIONS.div_ceil(S::LINE);
        let home = placement.line(lines, hash, number) * S::LINE;
        Probe { fingerprint: fingerprint(hash), home, shape: PhantomData }
    }

    /// The position its search starts from.
    #[inline(always)]
    pub fn home(&self) -> usize {
        self.home
    }

    /// The chunk that is looked at in this turn: 0 is its own.
    #[inline(always)]
    pub fn chunk(&self, turn: usize) -> usize {
        (self.home / S::CHUNK + turn) % S::CHUNKS
    }

    /// Of these positions of a chunk, given as a mask that is not zero, the first in the key's order.
    #[inline(always)]
    pub fn first(&self, turn: usize, positions: u64) -> usize {
        debug_assert!(positions != 0);
        let chosen = if turn > 0 {
            positions
        } else {
            let offset = self.home % S::CHUNK;
            let group = offset / S::GROUP * S::GROUP;
            let from_group = positions >> group << group;
            let in_group = from_group & (low_bits(S::GROUP) << group);
            let from_home = in_group >> offset << offset;
            let behind = from_group & !in_group;
            [from_home, in_group, behind].into_iter().find(|part| *part != 0).unwrap_or(positions)
        };
        chosen.trailing_zeros() as usize
    }
}

impl<S: LeafShape> Probe<S> {
    /// The positions of the chunk of this turn that come before the first of `positions` in the key's order, as a
    /// mask; all of them if that is empty. Compiled once, and not into each search: few instructions beside the miss of
    /// an entry.
    #[inline(never)]
    pub fn before_first(&self, turn: usize, positions: u64) -> u64 {
        if turn > 0 {
            return below_lowest(positions);
        }
        let offset = self.home % S::CHUNK;
        let group = offset / S::GROUP * S::GROUP;
        let in_group = low_bits(S::GROUP) << group;
        let from_home = in_group >> offset << offset;
        let before_group = low_bits(group);
        let behind = !(in_group | before_group);
        let mut before = 0;
        for part in [from_home, in_group & !from_home, behind, before_group] {
            if positions & part != 0 {
                return before | part & below_lowest(positions & part);
            }
            before |= part;
        }
        before
    }
}

/// The bits below the lowest one; all if there is none.
#[inline(always)]
const fn below_lowest(bits: u64) -> u64 {
    (bits & bits.wrapping_neg()).wrapping_sub(1)
}

/// The lowest `count` bits, at most 64.
#[inline(always)]
const fn low_bits(count: usize) -> u64 {
    if count == 64 { u64::MAX } else { (1 << count) - 1 }
}

/// The positions of a chunk that can be claimed at all, as a mask.
pub(super) const fn usable<S: LeafShape>(chunk: usize) -> u64 {
    let first = chunk * S::CHUNK;
    let end = if first + S::CHUNK < S::POSITIONS { first + S::CHUNK } else { S::POSITIONS };
    let header = S::HEADER_POSITIONS.saturating_sub(first);
    low_bits(end - first) & !low_bits(header)
}

/// The fingerprint of a hash: none of those that mean something else.
#[inline(always)]
pub(super) fn fingerprint(hash: u64) -> u8 {
    let byte = (hash >> 56) as u8;
    if byte <= DEAD { byte + 2 } else { byte }
}

/// Positions of a leaf that is being filled.
pub(super) struct Filling<S> {
    taken: [u64; 4],
    shape: PhantomData<S>,
}

impl<S: LeafShape> Filling<S> {
    /// All free.
    pub fn new() -> Self {
        Filling { taken: [0; 4], shape: PhantomData }
    }

    /// Takes the first free position of a key's order.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn take(&mut self, probe: &Probe<S>) -> usize {
        for turn in 0..S::CHUNKS {
            let chunk = probe.chunk(turn);
            let free = usable::<S>(chunk) & !self.taken[chunk];
            if free != 0 {
                let within = probe.first(turn, free);
                self.taken[chunk] |= 1 << within;
                return chunk * S::CHUNK + within;
            }
        }
        panic!("a leaf is filled with more than it can hold");
    }

    /// Whether a position was taken.
    #[inline]
    pub fn is_taken(&self, position: usize) -> bool {
        self.taken[position / S::CHUNK] >> (position % S::CHUNK) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::HalfLeaves;
    use super::*;
    use crate::geometry::{Production, Tiny};

    fn hashed<S: LeafShape>(hash: u64) -> Probe<S> {
        Probe::new(Placement::HASHED, hash, 0)
    }

    /// The order by definition: every usable position once, the home group first.
    fn order_of<S: LeafShape>(hash: u64) -> Vec<usize> {
        let probe = hashed::<S>(hash);
        let mut filling = Filling::<S>::new();
        (0..S::CAPACITY).map(|_| filling.take(&probe)).collect()
    }

    fn orders_are_whole<S: LeafShape>() {
        for number in 0..2000u64 {
            let hash = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let probe = hashed::<S>(hash);
            let mut order = order_of::<S>(hash);
            let chunk_of = |position: usize| position / S::CHUNK;
            let turns: Vec<usize> = order.iter().map(|at| chunk_of(*at)).collect();
            assert_eq!(turns[0], probe.chunk(0));
            assert!(
                turns
                    .windows(2)
                    .all(|two| { two[0] == two[1] || two[1] == (two[0] + 1) % S::CHUNKS })
            );
            let own = order.iter().take_while(|at| chunk_of(**at) == turns[0]);
            let in_group: Vec<bool> =
                own.map(|at| at / S::GROUP == probe.home() / S::GROUP).collect();
            assert!(in_group.windows(2).all(|two| two[0] >= two[1]), "the group comes first");
            order.sort_unstable();
            let all: Vec<usize> = (S::HEADER_POSITIONS..S::POSITIONS).collect();
            assert_eq!(order, all);
            assert!(fingerprint(hash) > DEAD);
        }
    }

    #[test]
    fn an_order_has_every_position_once() {
        orders_are_whole::<Production>();
        orders_are_whole::<HalfLeaves>();
        orders_are_whole::<Tiny<2, 3>>();
        orders_are_whole::<Tiny<3, 3>>();
        orders_are_whole::<Tiny<4, 3>>();
    }

    #[test]
    fn what_comes_before_a_position_is_what_an_order_has_before_it() {
        fn of<S: LeafShape>() {
            for number in 0..300u64 {
                let hash = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let (probe, order) = (hashed::<S>(hash), order_of::<S>(hash));
                for turn in 0..S::CHUNKS {
                    let chunk = probe.chunk(turn);
                    let own = order.iter().filter(|at| **at / S::CHUNK == chunk);
                    let mut before = 0;
                    for within in own.map(|at| at % S::CHUNK) {
                        let found = probe.before_first(turn, 1 << within) & usable::<S>(chunk);
                        assert_eq!(found, before, "{number} {turn} {within}");
                        // What comes later makes no difference.
                        let later = usable::<S>(chunk) & !before;
                        let found = probe.before_first(turn, later) & usable::<S>(chunk);
                        assert_eq!(found, before);
                        before |= 1 << within;
                    }
                    assert_eq!(probe.before_first(turn, 0) & usable::<S>(chunk), before);
                }
            }
        }
        of::<Production>();
        of::<HalfLeaves>();
        of::<Tiny<3, 3>>();
        of::<Tiny<7, 3>>();
    }

    #[test]
    fn the_order_of_what_is_free_does_not_depend_on_what_is_taken() {
        for number in 0..500u64 {
            let hash = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let probe = hashed::<Production>(hash);
            let order = order_of::<Production>(hash);
            let turn = (number % 4) as usize;
            let chunk = probe.chunk(turn);
            let mask = hash.rotate_left(17) & usable::<Production>(chunk);
            let is_free = |at: &&usize| **at / 64 == chunk && mask >> (**at % 64) & 1 == 1;
            if let Some(first) = order.iter().find(is_free) {
                assert_eq!(chunk * 64 + probe.first(turn, mask), *first);
            }
        }
    }
}
