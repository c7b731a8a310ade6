//! Sorting the few words of a leaf: by counting, for each, how many are smaller.
//!
//! A comparison sort of forty words mispredicts about a hundred branches; counting has none. With
//! 64-byte vectors it compares eight words at once, which is why only that variant exists beside the
//! plain sort.

use crate::cpu::{self, SimdKind};

/// Words that can be sorted at once.
pub const WORD_COUNT_MAX: usize = 64;

/// Fills `order[..count]` with the indices of `words[..count]`, from the smallest word to the
/// greatest; equal words by index. O(n^2) comparisons, eight at a time, without branches; or a sort.
///
/// # Panics
/// If `count` is greater than [`WORD_COUNT_MAX`].
///
/// # Example
/// ```
/// use everleaf_machine::ascending::{ascending_order, WORD_COUNT_MAX};
/// let mut words = [0; WORD_COUNT_MAX];
/// words[..4].copy_from_slice(&[30, 10, 20, 10]);
/// let mut order = [0; WORD_COUNT_MAX];
/// ascending_order(&words, 4, &mut order);
/// assert_eq!(order[..4], [1, 3, 2, 0]);
/// ```
#[inline]
pub fn ascending_order(
    words: &[u64; WORD_COUNT_MAX],
    count: usize,
    order: &mut [u8; WORD_COUNT_MAX],
) {
    assert!(count <= WORD_COUNT_MAX, "{count} words");
    order_by(cpu::simd_kind(), words, count, order);
}

#[inline(always)]
fn order_by(
    kind: SimdKind,
    words: &[u64; WORD_COUNT_MAX],
    count: usize,
    order: &mut [u8; WORD_COUNT_MAX],
) {
    match kind {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `kind` is one that CPUID offers.
        SimdKind::Avx512 => unsafe { x86::order_avx512(words, count, order) },
        _ => order_by_sorting(words, count, order),
    }
}

fn order_by_sorting(words: &[u64; WORD_COUNT_MAX], count: usize, order: &mut [u8; WORD_COUNT_MAX]) {
    let mut pairs: [(u64, u8); WORD_COUNT_MAX] =
        std::array::from_fn(|index| (words[index], index as u8));
    pairs[..count].sort_unstable();
    for (place, (_, index)) in order.iter_mut().zip(&pairs[..count]) {
        *place = *index;
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::WORD_COUNT_MAX;
    use std::arch::x86_64::{
        _mm512_cmple_epu64_mask, _mm512_cmplt_epu64_mask, _mm512_loadu_si512,
        _mm512_mask_add_epi64, _mm512_set1_epi64, _mm512_setzero_si512, _mm512_storeu_si512,
    };

    /// # Safety
    /// The CPU has AVX-512 F.
    #[target_feature(enable = "avx512f")]
    pub unsafe fn order_avx512(
        words: &[u64; WORD_COUNT_MAX],
        count: usize,
        order: &mut [u8; WORD_COUNT_MAX],
    ) {
        let one = _mm512_set1_epi64(1);
        for start in (0..count).step_by(8) {
            let place = words[start..start + 8].as_ptr();
            // SAFETY: eight words follow, as the slice says.
            let lanes = unsafe { _mm512_loadu_si512(place.cast()) };
            let mut ranks = _mm512_setzero_si512();
            for (index, word) in words.iter().enumerate().take(count) {
                let other = _mm512_set1_epi64(*word as i64);
                let smaller = _mm512_cmplt_epu64_mask(other, lanes);
                let not_greater = _mm512_cmple_epu64_mask(other, lanes);
                // Lanes behind `index` also count an equal word before them.
                let behind = if index < start { 0xff } else { (0xfe_u64 << (index - start)) as u8 };
                ranks = _mm512_mask_add_epi64(ranks, smaller | (not_greater & behind), ranks, one);
            }
            let mut counts = [0_u64; 8];
            // SAFETY: 64 bytes of our own.
            unsafe { _mm512_storeu_si512(counts.as_mut_ptr().cast(), ranks) };
            for (lane, rank) in counts.iter().enumerate().take(count - start) {
                order[*rank as usize % WORD_COUNT_MAX] = (start + lane) as u8;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_of_this_cpu_orders_the_same() {
        let mut state = 1_u64;
        for round in 0..300 {
            let words: [u64; WORD_COUNT_MAX] = std::array::from_fn(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Many equal ones in some rounds, and both ends of the range.
                match round % 3 {
                    0 => state,
                    1 => state >> 61,
                    _ => [0, 1, 1 << 63, u64::MAX][(state >> 62) as usize],
                }
            });
            for count in [0, 1, 2, 7, 8, 9, 31, 43, 62, 63, 64] {
                let mut expected: Vec<u8> = (0..count as u8).collect();
                expected.sort_by_key(|index| words[usize::from(*index)]);
                for kind in cpu::simd_kinds() {
                    let mut order = [0; WORD_COUNT_MAX];
                    order_by(kind, &words, count, &mut order);
                    assert_eq!(order[..count], expected, "{kind:?} {count} {words:?}");
                }
            }
        }
    }
}
