//! How many of eight sorted words are at most a key: the step of a descent through inner nodes.
//!
//! The words are immutable while they can be read, so plain loads suffice; one cache line is
//! compared at once. All variants give the same answer (tested against the scalar one).

use crate::cpu::{self, SimdKind};

/// Eight sorted words on one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct SortedLine(pub [u64; 8]);

impl SortedLine {
    /// How many of the words are `<= key`. The words must be sorted ascending.
    ///
    /// # Example
    /// ```
    /// use everleaf_machine::SortedLine;
    /// let line = SortedLine([1, 3, 5, 7, 9, 11, 13, u64::MAX]);
    /// assert_eq!(line.count_le(8), 4);
    /// assert_eq!(line.count_le(0), 0);
    /// assert_eq!(line.count_le(u64::MAX), 8);
    /// ```
    #[inline(always)]
    pub fn count_le(&self, key: u64) -> usize {
        count_le_by(cpu::simd_kind(), self, key)
    }
}

#[inline(always)]
fn count_le_by(kind: SimdKind, line: &SortedLine, key: u64) -> usize {
    match kind {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `kind` is one that CPUID offers.
        SimdKind::Avx512 => unsafe { x86::count_le_avx512(line, key) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `kind` is one that CPUID offers.
        SimdKind::Avx2 => unsafe { x86::count_le_avx2(line, key) },
        _ => count_le_scalar(line, key),
    }
}

#[inline(always)]
fn count_le_scalar(line: &SortedLine, key: u64) -> usize {
    line.0.iter().map(|word| usize::from(*word <= key)).sum()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::SortedLine;
    use std::arch::asm;

    /// # Safety
    /// The CPU has AVX-512 F.
    #[inline(always)]
    pub unsafe fn count_le_avx512(line: &SortedLine, key: u64) -> usize {
        let mask: u32;
        // SAFETY: reads the 64 aligned bytes of `line`; clobbers are declared.
        unsafe {
            asm!(
                "vpbroadcastq zmm16, {key}",
                "vpcmpuq k1, zmm16, zmmword ptr [{line}], 5",
                "kmovw {mask:e}, k1",
                key = in(reg) key,
                line = in(reg) line,
                mask = lateout(reg) mask,
                out("xmm16") _,
                out("k1") _,
                options(nostack, readonly, preserves_flags, pure),
            );
        }
        // Sorted: the words that qualify are the first ones.
        (!mask).trailing_zeros() as usize
    }

    /// # Safety
    /// The CPU has AVX2.
    #[inline(always)]
    pub unsafe fn count_le_avx2(line: &SortedLine, key: u64) -> usize {
        const SIGN: u64 = 1 << 63;
        let (low, high): (u32, u32);
        // SAFETY: reads the 64 aligned bytes of `line`; clobbers are declared. The compare is
        // signed, so both sides have their sign bit flipped.
        unsafe {
            asm!(
                "vmovq xmm0, {key}",
                "vpbroadcastq ymm0, xmm0",
                "vmovq xmm1, {sign}",
                "vpbroadcastq ymm1, xmm1",
                "vpxor ymm2, ymm1, ymmword ptr [{line}]",
                "vpxor ymm1, ymm1, ymmword ptr [{line} + 32]",
                "vpcmpgtq ymm2, ymm2, ymm0",
                "vpcmpgtq ymm1, ymm1, ymm0",
                "vmovmskpd {low:e}, ymm2",
                "vmovmskpd {high:e}, ymm1",
                "vzeroupper",
                key = in(reg) key ^ SIGN,
                sign = in(reg) SIGN,
                line = in(reg) line,
                low = out(reg) low,
                high = lateout(reg) high,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nostack, readonly, preserves_flags, pure),
            );
        }
        ((low | high << 4) | 1 << 8).trailing_zeros() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_compare_of_this_cpu_counts_the_same() {
        let lines = [
            [0, 0, 1, 2, 3, 4, 5, u64::MAX],
            [1, 1 << 62, 1 << 63, (1 << 63) + 1, u64::MAX - 1, u64::MAX, u64::MAX, u64::MAX],
            [u64::MAX; 8],
            [0; 8],
        ];
        for words in lines {
            let line = SortedLine(words);
            let near = words.iter().flat_map(|w| [w.wrapping_sub(1), *w, w.wrapping_add(1)]);
            for key in near {
                let expected = words.iter().filter(|word| **word <= key).count();
                for kind in cpu::simd_kinds() {
                    assert_eq!(count_le_by(kind, &line, key), expected, "{kind:?} {words:?} {key}");
                }
            }
        }
    }
}
