//! Which bytes of a cache line equal one, all compared at once.
//!
//! A leaf keeps one byte of hash per slot in one line of DRAM; a search compares the whole line
//! with one or a few instructions and then reads only the slots that match. The compare is chosen
//! once from CPUID; all variants give the same answer (tested against the scalar one).

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::cpu::{self, SimdKind};
use crate::line_store::LINE_SIZE;

/// The bytes of the 64-byte line at `line` that equal `byte`, by the best compare of this CPU.
///
/// # Safety
/// `line` must be 64-byte aligned and readable; other threads may write single bytes meanwhile.
#[inline(always)]
pub(crate) unsafe fn match_line(line: *const u8, byte: u8) -> u64 {
    // SAFETY: the caller's promise is passed on; `simd_kind` names only what CPUID offers.
    unsafe { match_line_by(cpu::simd_kind(), line, byte) }
}

/// [`match_line`] by a given compare.
///
/// # Safety
/// As [`match_line`]; and the CPU must have `kind`.
#[inline(always)]
unsafe fn match_line_by(kind: SimdKind, line: *const u8, byte: u8) -> u64 {
    match kind {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller promises an aligned, readable line and that the CPU has `kind`.
        SimdKind::Avx512 => unsafe { x86::match_avx512(line, byte) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller's promise, and the CPU has `kind`.
        SimdKind::Avx2 => unsafe { x86::match_avx2(line, byte) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller's promise, and the CPU has `kind`.
        SimdKind::Sse2 => unsafe { x86::match_sse2(line, byte) },
        // SAFETY: the caller's promise; every CPU can do this.
        _ => unsafe { match_scalar(line, byte) },
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::match_avx512;

/// Portable compare, eight bytes at a time.
///
/// # Safety
/// As [`match_line`].
unsafe fn match_scalar(line: *const u8, byte: u8) -> u64 {
    let mut mask = 0;
    for index in 0..LINE_SIZE {
        let cell = line.wrapping_add(index).cast::<AtomicU8>();
        // SAFETY: inside the line the caller vouches for; byte atomics, since writers store bytes.
        let cell = unsafe { &*cell };
        // Relaxed: see `FingerprintLine::matches`.
        mask |= u64::from(cell.load(Ordering::Relaxed) == byte) << index;
    }
    mask
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! The loads race with byte stores of other threads. In an `asm!` block that is an ordinary
    //! machine load, which x86-64 performs byte-atomically; an intrinsic load would be a data race.

    use std::arch::asm;

    /// # Safety
    /// `line` is 64-byte aligned and readable; the CPU has AVX-512 F and BW.
    #[inline(always)]
    pub unsafe fn match_avx512(line: *const u8, byte: u8) -> u64 {
        let mask: u64;
        // SAFETY: reads 64 bytes at an aligned, readable address; clobbers are declared.
        unsafe {
            asm!(
                "vpbroadcastb zmm16, {byte:e}",
                "vpcmpeqb k1, zmm16, zmmword ptr [{line}]",
                "kmovq {mask}, k1",
                byte = in(reg) u32::from(byte),
                line = in(reg) line,
                mask = lateout(reg) mask,
                out("xmm16") _,
                out("k1") _,
                options(nostack, readonly, preserves_flags),
            );
        }
        mask
    }

    /// # Safety
    /// `line` is 64-byte aligned and readable; the CPU has AVX2.
    #[inline(always)]
    pub unsafe fn match_avx2(line: *const u8, byte: u8) -> u64 {
        let (low, high): (u32, u32);
        // SAFETY: reads two 32-byte halves of an aligned, readable line; clobbers are declared.
        unsafe {
            asm!(
                "vmovd xmm0, {byte:e}",
                "vpbroadcastb ymm0, xmm0",
                "vpcmpeqb ymm1, ymm0, ymmword ptr [{line}]",
                "vpcmpeqb ymm0, ymm0, ymmword ptr [{line} + 32]",
                "vpmovmskb {low:e}, ymm1",
                "vpmovmskb {high:e}, ymm0",
                "vzeroupper",
                byte = in(reg) u32::from(byte),
                line = in(reg) line,
                low = out(reg) low,
                high = lateout(reg) high,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nostack, readonly, preserves_flags),
            );
        }
        u64::from(low) | u64::from(high) << 32
    }

    /// # Safety
    /// `line` is 64-byte aligned and readable.
    #[inline(always)]
    pub unsafe fn match_sse2(line: *const u8, byte: u8) -> u64 {
        let pattern = u64::from(byte) * 0x0101_0101_0101_0101;
        let (a, b, c, d): (u32, u32, u32, u32);
        // SAFETY: reads four 16-byte quarters of an aligned, readable line; clobbers are declared.
        unsafe {
            asm!(
                "movq xmm0, {pattern}",
                "punpcklqdq xmm0, xmm0",
                "movdqa xmm1, xmm0",
                "movdqa xmm2, xmm0",
                "movdqa xmm3, xmm0",
                "pcmpeqb xmm0, xmmword ptr [{line}]",
                "pcmpeqb xmm1, xmmword ptr [{line} + 16]",
                "pcmpeqb xmm2, xmmword ptr [{line} + 32]",
                "pcmpeqb xmm3, xmmword ptr [{line} + 48]",
                "pmovmskb {a:e}, xmm0",
                "pmovmskb {b:e}, xmm1",
                "pmovmskb {c:e}, xmm2",
                "pmovmskb {d:e}, xmm3",
                pattern = in(reg) pattern,
                line = in(reg) line,
                a = out(reg) a,
                b = out(reg) b,
                c = lateout(reg) c,
                d = lateout(reg) d,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                options(nostack, readonly, preserves_flags),
            );
        }
        u64::from(a) | u64::from(b) << 16 | u64::from(c) << 32 | u64::from(d) << 48
    }
}

/// The slots of `line` that equal `byte`, word by word, for a simulated machine.
pub fn match_words(words: [u64; 8], byte: u8) -> u64 {
    let mut mask = 0;
    for (index, word) in words.iter().enumerate() {
        for lane in 0..8 {
            mask |= u64::from((word >> (8 * lane)) as u8 == byte) << (8 * index + lane);
        }
    }
    mask
}

const _: () = assert!(size_of::<[AtomicU64; 8]>() == LINE_SIZE);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::mix;
    use crate::{FingerprintLine, Hardware};

    #[test]
    fn every_compare_of_this_cpu_agrees_with_the_scalar_one() {
        let line: FingerprintLine<Hardware> = FingerprintLine::new();
        for round in 0..2000u64 {
            for slot in 0..LINE_SIZE {
                // Few distinct values, so that matches are common.
                let byte = mix(round * 64 + slot as u64) as u8 & 7;
                line.write_private(slot, byte.wrapping_mul(round as u8 | 1));
            }
            for byte in [0, 1, 7, 128, 255, mix(round) as u8] {
                // SAFETY: the line is aligned and ours.
                let expected = unsafe { match_scalar(line.as_ptr(), byte) };
                for kind in cpu::simd_kinds() {
                    // SAFETY: the line is aligned and ours; the kinds are those CPUID offers.
                    let got = unsafe { match_line_by(kind, line.as_ptr(), byte) };
                    assert_eq!(got, expected, "{kind:?}, byte {byte}, round {round}");
                }
                assert_eq!(line.matches(byte), expected);
            }
        }
    }
}
