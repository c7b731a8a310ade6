//! Sorting the positions of a leaf by the heads of their entries.
//!
//! The heads of a leaf begin with what its keys have in common, and differ soon behind it. So two passes that
//! distribute them by the sixteen bits there bring them nearly into order, without a comparison that could be
//! mispredicted, and an insertion sort does the rest. Heads that are far from in order by then (those of few
//! heaps, each of which differs later) are compared with each other.
//!
//! Integers of a leaf whose range is narrow enough lie with their positions in one word each. One pass distributes them
//! by where they are in the range, which is where they belong if they are spread evenly, and insertion does the rest.
//!
//! *Source*: distribution by digits, the least significant first, and insertion at the end as in Knuth, The Art
//! of Computer Programming 3, 5.2.5.

use super::layout::POSITION_COUNT_MAX;

/// Bits of a digit.
const DIGIT_BITS: u32 = 8;
/// Values of a digit.
const DIGITS: usize = 1 << DIGIT_BITS;

/// Positions with the heads of their entries.
pub(super) struct Held {
    items: [(u64, u8); POSITION_COUNT_MAX],
    count: usize,
}

impl Held {
    /// None.
    #[inline(always)]
    pub fn new() -> Self {
        Held { items: [(0, 0); POSITION_COUNT_MAX], count: 0 }
    }

    /// Adds a position.
    #[inline(always)]
    pub fn push(&mut self, head: u64, position: u8) {
        self.items[self.count] = (head, position);
        self.count += 1;
    }

    /// Those added so far.
    pub fn as_mut_slice(&mut self) -> &mut [(u64, u8)] {
        &mut self.items[..self.count]
    }

    /// Brings them in the order of their heads; equal ones in some order.
    pub fn sort(&mut self) {
        self.distribute();
        let items = self.as_mut_slice();
        if !insertion_sort(items, |(head, _)| *head) {
            items.sort_unstable();
        }
    }

    /// Brings them in the order of the sixteen bits behind those that all heads begin with.
    fn distribute(&mut self) {
        let items = &mut self.items[..self.count];
        let (any, all) =
            items.iter().fold((0, u64::MAX), |(any, all), (head, _)| (any | head, all & head));
        // The bits in which some differ.
        let differ: u64 = any & !all;
        let shift = differ.leading_zeros();
        if differ == 0 {
            return;
        }
        let digit = |head: u64, above: u32| {
            ((head << shift) >> (u64::BITS - DIGIT_BITS - above)) as usize % DIGITS
        };
        let mut ends = [[0u16; DIGITS]; 2];
        for (head, _) in &*items {
            ends[0][digit(*head, DIGIT_BITS)] += 1;
            ends[1][digit(*head, 0)] += 1;
        }
        for ends in &mut ends {
            let mut sum = 0;
            for end in ends {
                // Where those with this digit begin; after the pass, where they end.
                sum += std::mem::replace(end, sum);
            }
        }
        let mut other = [(0, 0); POSITION_COUNT_MAX];
        let mut pass = |from: &[(u64, u8)], to: &mut [(u64, u8)], turn: usize, above| {
            for item in from {
                let end = &mut ends[turn][digit(item.0, above)];
                to[usize::from(*end)] = *item;
                *end += 1;
            }
        };
        let other = &mut other[..items.len()];
        pass(items, other, 0, DIGIT_BITS);
        pass(other, items, 1, 0);
    }
}

/// Bits of a word in which a position lies behind the distance of its head from the least.
const POSITION_BITS: u32 = 8;
/// Bits behind the point of the factor that makes a bucket of such a distance.
const FRACTION_BITS: u32 = 24;
/// Buckets over the range.
const BUCKETS: usize = 256;

/// Positions with heads of a range of less than 2^56.
pub(super) struct HeldInRange {
    /// Distance of the head from `least`, and the position.
    items: [u64; POSITION_COUNT_MAX],
    count: usize,
    least: u64,
    /// How a distance becomes a bucket.
    shift: u32,
    factor: u64,
    /// How many items each bucket has.
    sizes: [u8; BUCKETS],
}

impl HeldInRange {
    /// None, of heads from `least` on of a range of this width; `None` if that is too wide, or nothing.
    #[inline(always)]
    pub fn new(least: u64, width: u64) -> Option<Self> {
        if width == 0 || width >> (u64::BITS - POSITION_BITS) != 0 {
            return None;
        }
        let shift = (u64::BITS - width.leading_zeros()).saturating_sub(FRACTION_BITS);
        let factor = ((BUCKETS as u64) << FRACTION_BITS) / ((width >> shift) + 1);
        let (items, sizes) = ([0; POSITION_COUNT_MAX], [0; BUCKETS]);
        Some(HeldInRange { items, count: 0, least, shift, factor, sizes })
    }

    /// Of an item: in the order of distances. One that is not of the range, which only damage can make, has any.
    #[inline(always)]
    fn bucket(&self, item: u64) -> usize {
        let distance = item >> POSITION_BITS;
        ((distance >> self.shift).wrapping_mul(self.factor) >> FRACTION_BITS) as usize % BUCKETS
    }

    /// Adds a position.
    #[inline(always)]
    pub fn push(&mut self, head: u64, position: u8) {
        let item = head.wrapping_sub(self.least) << POSITION_BITS | u64::from(position);
        self.items[self.count] = item;
        self.count += 1;
        let size = &mut self.sizes[self.bucket(item)];
        *size = size.wrapping_add(1);
    }

    /// Brings them in the order of their heads.
    pub fn sort(&mut self) {
        let mut ends = self.sizes;
        let mut sum = 0_u8;
        for end in &mut ends {
            // Where those of this bucket begin; after the pass, where they end. At most 255: a leaf has no more
            // entries.
            sum = sum.wrapping_add(std::mem::replace(end, sum));
        }
        let mut sorted = [0; POSITION_COUNT_MAX];
        for item in &self.items[..self.count] {
            let end = &mut ends[self.bucket(*item)];
            sorted[usize::from(*end)] = *item;
            *end = end.wrapping_add(1);
        }
        self.items = sorted;
        let items = &mut self.items[..self.count];
        if !insertion_sort(items, |item| *item) {
            items.sort_unstable();
        }
    }

    /// How many there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.count
    }

    /// The head and the position at an index.
    #[inline(always)]
    pub fn at(&self, index: usize) -> (u64, u8) {
        let item = self.items[index];
        (self.least.wrapping_add(item >> POSITION_BITS), item as u8)
    }
}

/// Sorts what is nearly in order, by insertion. Gives up, with the same items in some order, when it is
/// not.
fn insertion_sort<T: Copy>(held: &mut [T], key: impl Fn(&T) -> u64) -> bool {
    let mut patience = 8 * held.len() + 64;
    for index in 1..held.len() {
        let item = held[index];
        let mut at = index;
        while at > 0 && key(&held[at - 1]) > key(&item) {
            held[at] = held[at - 1];
            at -= 1;
        }
        held[at] = item;
        patience = patience.saturating_sub(index - at);
        if patience == 0 {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nearly_in_order_is_sorted_and_the_rest_left_whole() {
        let near: Vec<(u64, u8)> = (0..200u8).map(|index| (u64::from(index ^ 3), index)).collect();
        let far: Vec<(u64, u8)> = (0..200u8).map(|index| (u64::from(200 - index), index)).collect();
        for (items, is_near) in [(near, true), (far, false), (vec![], true), (vec![(1, 1)], true)] {
            let mut held = items.clone();
            assert_eq!(insertion_sort(&mut held, |(head, _)| *head), is_near);
            assert_eq!(held.is_sorted(), is_near);
            let mut expected = items;
            expected.sort_unstable();
            held.sort_unstable();
            assert_eq!(held, expected);
        }
    }

    #[test]
    fn heads_of_any_kind_are_sorted_and_none_is_lost() {
        let mut state = 1_u64;
        for round in 0..400 {
            let mut random = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                state.rotate_right(16)
            };
            let mut head = || match round % 8 {
                0 => random(),
                // Equal ones, and both ends of the range.
                1 => [0, 1, 1 << 63, u64::MAX][random() as usize % 4],
                // Digits behind a common beginning.
                2 => u64::from_be_bytes([b'k'; 8].map(|byte| byte - 20 - random() as u8 % 10)),
                3 => 0x6b65_7900_0000_0000 | (random() % 1000),
                // Heaps that differ late.
                4 => ((random() % 3) << 60) | (random() % 500),
                5 => random() % 2,
                6 => 7,
                _ => 1 << (random() % 64),
            };
            for count in [0, 1, 2, 3, 17, 178, 254, POSITION_COUNT_MAX] {
                let mut held = Held::new();
                let mut expected: Vec<(u64, u8)> =
                    (0..count).map(|position| (head(), position as u8)).collect();
                expected.iter().for_each(|(head, position)| held.push(*head, *position));
                held.sort();
                let sorted = held.as_mut_slice();
                assert!(sorted.is_sorted_by_key(|(head, _)| *head), "{round} {count}");
                // Equal ones in some order.
                sorted.sort_unstable();
                expected.sort_unstable();
                assert_eq!(sorted, expected, "{round} {count}");
            }
        }
    }

    #[test]
    fn heads_of_a_range_are_sorted_and_none_is_lost() {
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.rotate_right(16)
        };
        let least = (1 << 61) + 12_345;
        for width in [1, 2, 3, 255, 256, 257, 1 << 24, (1 << 24) + 1, 1 << 40, (1 << 56) - 1] {
            for count in [0, 1, 2, 3, 17, 178, 254, 255] {
                for spread in [1, 1000, u64::MAX] {
                    let mut held = HeldInRange::new(least, width).expect("narrow");
                    let mut expected: Vec<(u64, u8)> = (0..count)
                        .map(|position| (least + random() % width.div_ceil(spread), position as u8))
                        .collect();
                    expected.iter().for_each(|(head, position)| held.push(*head, *position));
                    held.sort();
                    let sorted: Vec<(u64, u8)> = (0..held.len()).map(|at| held.at(at)).collect();
                    expected.sort_unstable();
                    assert_eq!(sorted, expected, "{width} {count} {spread}");
                }
            }
        }
        assert!(HeldInRange::new(0, 0).is_none() && HeldInRange::new(0, 1 << 56).is_none());
    }

    #[test]
    fn heads_outside_of_the_range_are_in_any_order() {
        let mut held = HeldInRange::new(1000, 10).expect("narrow");
        (0..255).for_each(|position| held.push(u64::from(position) << 56 | 7, position));
        held.sort();
        let mut positions: Vec<u8> = (0..held.len()).map(|at| held.at(at).1).collect();
        positions.sort_unstable();
        assert_eq!(positions, (0..255).collect::<Vec<u8>>());
    }
}
