//! Sixty-four bytes at once. All in `asm!`, because the language must not see a 64-byte access and an
//! 8-byte access of one location as a race.

use super::Hardware;
use crate::atomic::AtomicLine;
#[cfg(target_arch = "x86_64")]
use crate::cpu::{self, SimdKind};
#[cfg(target_arch = "x86_64")]
use crate::fingerprint::match_avx512;
use crate::line_store::{LINE_SIZE, LineStore};

const _: () = assert!(size_of::<AtomicLine<Hardware>>() == LINE_SIZE);

/// The bytes of a line of words that equal `byte`, if the CPU can load the line at once.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn match_words(line: &AtomicLine<Hardware>, byte: u8) -> Option<u64> {
    match cpu::simd_kind() {
        // SAFETY: a line is readable and aligned, and CPUID vouches for the instructions. Other threads
        // store whole words, of which the block reads each at some time during the call.
        SimdKind::Avx512 => Some(unsafe { match_avx512(line.as_ptr(), byte) }),
        _ => None,
    }
}

/// Stores a line; false if it was not stored. The caller has asked whether the CPU can.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn store(line: &AtomicLine<Hardware>, words: &[u64; 8], how: LineStore) -> bool {
    use x86_64::{direct, transaction, wide};
    let target = line.as_ptr().cast_mut();
    match how {
        // SAFETY: the CPU has AVX-512; the target is a live line of atomic words.
        LineStore::Wide => unsafe { wide(target, words) },
        // SAFETY: the CPU has MOVDIR64B; the target is a live line of atomic words.
        LineStore::Direct => unsafe { direct(target, words) },
        // SAFETY: the CPU has RTM; the target is a live line of atomic words.
        LineStore::Transaction => return unsafe { transaction(target, words) },
    }
    true
}

/// No other CPU has such stores.
#[cfg(not(target_arch = "x86_64"))]
pub fn store(_line: &AtomicLine<Hardware>, _words: &[u64; 8], _how: LineStore) -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::asm;

    /// One 64-byte store; an ordinary one for all other purposes, so total store order holds.
    ///
    /// # Safety
    /// The CPU has AVX-512; `target` is 64 aligned bytes of atomic words.
    #[target_feature(enable = "avx512f")]
    pub unsafe fn wide(target: *mut u8, words: &[u64; 8]) {
        // SAFETY: by the caller's promise; reads the words, writes the target, nothing else.
        unsafe {
            asm!(
                "vmovdqu64 {line}, zmmword ptr [{words}]",
                "vmovdqa64 zmmword ptr [{target}], {line}",
                words = in(reg) words.as_ptr(),
                target = in(reg) target,
                line = out(zmm_reg) _,
                options(nostack, preserves_flags),
            );
        }
    }

    /// A direct store. It is ordered by fences only: one before it, after all earlier stores, and one
    /// behind it, before whatever tells others of the line.
    ///
    /// # Safety
    /// The CPU has MOVDIR64B; `target` is 64 aligned bytes of atomic words.
    pub unsafe fn direct(target: *mut u8, words: &[u64; 8]) {
        // SAFETY: by the caller's promise; reads the words, writes the target, nothing else.
        unsafe {
            asm!(
                "sfence",
                // movdir64b rdi, [rsi]: as bytes, for assemblers that do not know it.
                ".byte 0x66, 0x0f, 0x38, 0xf8, 0x3e",
                "sfence",
                in("rsi") words.as_ptr(),
                in("rdi") target,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Eight stores in a transaction; false if it was given up, and then nothing was stored.
    ///
    /// # Safety
    /// The CPU has RTM; `target` is 64 aligned bytes of atomic words.
    pub unsafe fn transaction(target: *mut u8, words: &[u64; 8]) -> bool {
        let done: u32;
        // SAFETY: by the caller's promise; reads the words, writes the target, nothing else. A
        // transaction that is given up takes back all registers and stores, and goes on at 2 with
        // `eax` as its reason.
        unsafe {
            asm!(
                "xor {done:e}, {done:e}",
                "xbegin 2f",
                "mov {word}, qword ptr [{words}]",
                "mov qword ptr [{target}], {word}",
                "mov {word}, qword ptr [{words} + 8]",
                "mov qword ptr [{target} + 8], {word}",
                "mov {word}, qword ptr [{words} + 16]",
                "mov qword ptr [{target} + 16], {word}",
                "mov {word}, qword ptr [{words} + 24]",
                "mov qword ptr [{target} + 24], {word}",
                "mov {word}, qword ptr [{words} + 32]",
                "mov qword ptr [{target} + 32], {word}",
                "mov {word}, qword ptr [{words} + 40]",
                "mov qword ptr [{target} + 40], {word}",
                "mov {word}, qword ptr [{words} + 48]",
                "mov qword ptr [{target} + 48], {word}",
                "mov {word}, qword ptr [{words} + 56]",
                "mov qword ptr [{target} + 56], {word}",
                "xend",
                "mov {done:e}, 1",
                "2:",
                words = in(reg) words.as_ptr(),
                target = in(reg) target,
                word = out(reg) _,
                done = out(reg) done,
                out("rax") _,
                options(nostack),
            );
        }
        done != 0
    }
}
