//! A key compared with many words that other threads may change: a step of a search in a leaf or an
//! inner node whose readers validate afterwards.
//!
//! One instruction compares eight words, and none waits for the one before it, as the loads of a
//! bisection do. The loads race with stores of other threads: in an `asm!` block they are ordinary
//! loads of the machine; an intrinsic load would be a data race. The manuals promise whole words only
//! for narrower loads. That is enough: a word that is stored to while it is compared changes a result
//! that the caller's validation throws away, or a bit that the caller does not look at. Only with
//! AVX-512: on other CPUs the callers search in their own way.

#[cfg(target_arch = "x86_64")]
use crate::cpu::{self, SimdKind};

/// Entries that [`Machine::match_entries`](crate::Machine::match_entries) compares.
pub const ENTRY_TABLE_LENGTH: usize = 64;

/// Bytes in which [`Machine::match_at_most`](crate::Machine::match_at_most) compares the words.
pub const WORD_TABLE_SIZE: usize = 256;

/// # Safety
/// As [`Machine::match_entries`](crate::Machine::match_entries).
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub unsafe fn match_entries(entries: *const u8, key: u64) -> Option<u64> {
    match cpu::simd_kind() {
        // SAFETY: the caller vouches for the memory, CPUID for the instructions.
        SimdKind::Avx512 => Some(unsafe { x86::match_entries(entries, key) }),
        _ => None,
    }
}

/// # Safety
/// As [`Machine::match_at_most`](crate::Machine::match_at_most).
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub unsafe fn match_at_most(words: *const u8, key: u64) -> Option<u32> {
    match cpu::simd_kind() {
        // SAFETY: the caller vouches for the memory, CPUID for the instructions.
        SimdKind::Avx512 => Some(unsafe { x86::match_at_most(words, key) }),
        _ => None,
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;

    /// Which words of two lines of entries are their keys: the even ones of each.
    #[repr(C, align(64))]
    struct Order([u64; 8]);
    static KEYS_OF_TWO_LINES: Order = Order([0, 2, 4, 6, 8, 10, 12, 14]);

    /// # Safety
    /// As outside; and the CPU has AVX-512 F and BW.
    #[inline(always)]
    pub unsafe fn match_entries(entries: *const u8, key: u64) -> u64 {
        let mask: u64;
        // SAFETY: reads 1024 bytes at an aligned, readable address, and a constant; clobbers are
        // declared.
        unsafe {
            asm!(
                "vpbroadcastq zmm16, {key}",
                "vmovdqa64 zmm17, zmmword ptr [{order}]",
                "vmovdqa64 zmm18, zmmword ptr [{entries}]",
                "vmovdqa64 zmm19, zmmword ptr [{entries} + 128]",
                "vmovdqa64 zmm20, zmmword ptr [{entries} + 256]",
                "vmovdqa64 zmm21, zmmword ptr [{entries} + 384]",
                "vmovdqa64 zmm22, zmmword ptr [{entries} + 512]",
                "vmovdqa64 zmm23, zmmword ptr [{entries} + 640]",
                "vmovdqa64 zmm24, zmmword ptr [{entries} + 768]",
                "vmovdqa64 zmm25, zmmword ptr [{entries} + 896]",
                "vpermt2q zmm18, zmm17, zmmword ptr [{entries} + 64]",
                "vpermt2q zmm19, zmm17, zmmword ptr [{entries} + 192]",
                "vpermt2q zmm20, zmm17, zmmword ptr [{entries} + 320]",
                "vpermt2q zmm21, zmm17, zmmword ptr [{entries} + 448]",
                "vpermt2q zmm22, zmm17, zmmword ptr [{entries} + 576]",
                "vpermt2q zmm23, zmm17, zmmword ptr [{entries} + 704]",
                "vpermt2q zmm24, zmm17, zmmword ptr [{entries} + 832]",
                "vpermt2q zmm25, zmm17, zmmword ptr [{entries} + 960]",
                "vpcmpeqq k1, zmm16, zmm18",
                "vpcmpeqq k2, zmm16, zmm19",
                "kunpckbw k1, k2, k1",
                "vpcmpeqq k2, zmm16, zmm20",
                "vpcmpeqq k3, zmm16, zmm21",
                "kunpckbw k2, k3, k2",
                "kunpckwd k1, k2, k1",
                "vpcmpeqq k2, zmm16, zmm22",
                "vpcmpeqq k3, zmm16, zmm23",
                "kunpckbw k2, k3, k2",
                "vpcmpeqq k3, zmm16, zmm24",
                "vpcmpeqq k4, zmm16, zmm25",
                "kunpckbw k3, k4, k3",
                "kunpckwd k2, k3, k2",
                "kunpckdq k1, k2, k1",
                "kmovq {mask}, k1",
                key = in(reg) key,
                order = in(reg) &raw const KEYS_OF_TWO_LINES,
                entries = in(reg) entries,
                mask = lateout(reg) mask,
                out("xmm16") _, out("xmm17") _, out("xmm18") _, out("xmm19") _, out("xmm20") _,
                out("xmm21") _, out("xmm22") _, out("xmm23") _, out("xmm24") _, out("xmm25") _,
                out("k1") _, out("k2") _, out("k3") _, out("k4") _,
                options(nostack, readonly, preserves_flags),
            );
        }
        mask
    }

    /// # Safety
    /// As outside; and the CPU has AVX-512 F and BW.
    #[inline(always)]
    pub unsafe fn match_at_most(words: *const u8, key: u64) -> u32 {
        let mask: u32;
        // SAFETY: reads 256 bytes at an aligned, readable address; clobbers are declared.
        unsafe {
            asm!(
                "vpbroadcastq zmm16, {key}",
                "vpcmpuq k1, zmm16, zmmword ptr [{words}], 5",
                "vpcmpuq k2, zmm16, zmmword ptr [{words} + 64], 5",
                "vpcmpuq k3, zmm16, zmmword ptr [{words} + 128], 5",
                "vpcmpuq k4, zmm16, zmmword ptr [{words} + 192], 5",
                "kunpckbw k1, k2, k1",
                "kunpckbw k3, k4, k3",
                "kunpckwd k1, k3, k1",
                "kmovd {mask:e}, k1",
                key = in(reg) key,
                words = in(reg) words,
                mask = lateout(reg) mask,
                out("xmm16") _,
                out("k1") _, out("k2") _, out("k3") _, out("k4") _,
                options(nostack, readonly, preserves_flags),
            );
        }
        mask
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[repr(C, align(64))]
    struct Entries([[u64; 2]; ENTRY_TABLE_LENGTH]);

    #[repr(C, align(64))]
    struct Words([u64; WORD_TABLE_SIZE / 8]);

    const KEYS: [u64; 7] = [0, 1, 7, 1 << 63, (1 << 63) - 1, u64::MAX - 1, u64::MAX];

    #[test]
    fn entries_are_found_by_their_first_word_wherever_they_are() {
        for key in KEYS {
            for place in 0..ENTRY_TABLE_LENGTH {
                let mut entries = Entries([[!key, key]; ENTRY_TABLE_LENGTH]);
                entries.0[place] = [key, !key];
                let also = place * 37 % ENTRY_TABLE_LENGTH;
                entries.0[also] = [key, key];
                // SAFETY: 1024 bytes of ours, aligned.
                let found = unsafe { match_entries(entries.0.as_ptr().cast(), key) };
                assert!(found.is_none_or(|found| found == 1 << place | 1 << also), "{place}");
            }
        }
    }

    #[test]
    fn each_word_is_compared_without_sign() {
        for key in KEYS {
            for other in KEYS {
                for place in 0..32 {
                    let mut words = Words([other; 32]);
                    words.0[place] = key;
                    let at_most = |word: u64| u32::from(word <= key);
                    let expected = (0..32).map(|index| at_most(words.0[index]) << index).sum();
                    // SAFETY: 256 bytes of ours, aligned.
                    let found = unsafe { match_at_most(words.0.as_ptr().cast(), key) };
                    assert!(found.is_none_or(|found| found == expected), "{key} {other} {place}");
                }
            }
        }
    }

    #[test]
    fn a_cpu_with_the_instructions_uses_them() {
        let words = Words([0; 32]);
        // SAFETY: 256 bytes of ours, aligned.
        let found = unsafe { match_at_most(words.0.as_ptr().cast(), 0) };
        assert_eq!(found.is_some(), cpu::simd_kind() == SimdKind::Avx512);
    }
}
