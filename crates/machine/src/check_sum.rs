//! CRC-32C of a few bytes, as they are verified at every read of a record.
//!
//! The crate `crc32c` asks for the CPU's features, calls a function and takes what is left over byte by
//! byte, and from 768 bytes on it looks up tables that are not in the cache. Here a short sum is
//! inlined, and a long one has three streams, because the instruction takes three cycles and one can
//! begin in each. The streams are joined by carry-less multiplication.

#[cfg(target_arch = "x86_64")]
use crate::cpu;

/// The CRC-32C of some bytes.
///
/// # Example
/// ```
/// assert_eq!(everleaf_machine::check_sum::crc32c(b"123456789"), 0xE306_9283);
/// ```
#[inline(always)]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_append(0, bytes)
}

/// The CRC-32C of bytes that follow others, of which the sum is known.
///
/// # Example
/// ```
/// use everleaf_machine::check_sum::{crc32c, crc32c_append};
/// assert_eq!(crc32c_append(crc32c(b"1234"), b"56789"), 0xE306_9283);
/// ```
#[inline(always)]
pub fn crc32c_append(sum: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if cpu::has_crc32() {
        // SAFETY: the CPU was asked.
        return unsafe { x86::crc32c(sum, bytes) };
    }
    crc32c::crc32c_append(sum, bytes)
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::{
        _mm_clmulepi64_si128, _mm_crc32_u64, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_xor_si128,
    };

    /// Words from which on three streams are faster than one.
    const LONG: usize = 24;
    /// Words of a stream, at most.
    const STREAM_MAX: usize = 64;
    /// x^32 + .. of CRC-32C, reflected.
    const POLYNOMIAL: u32 = 0x82F6_3B78;

    /// What a sum is multiplied by to stand `index` words further left: x^(64 index - 33).
    static SHIFTS: [u32; 2 * STREAM_MAX + 1] = shifts();

    const fn shifts() -> [u32; 2 * STREAM_MAX + 1] {
        let mut shifts = [0; 2 * STREAM_MAX + 1];
        let (mut power, mut exponent, mut index) = (1 << 31, 0, 1);
        while index < shifts.len() {
            while exponent < 64 * index - 33 {
                power = if power & 1 == 0 { power >> 1 } else { power >> 1 ^ POLYNOMIAL };
                exponent += 1;
            }
            shifts[index] = power;
            index += 1;
        }
        shifts
    }

    /// # Safety
    /// The CPU has SSE 4.2 and carry-less multiplication.
    #[inline(always)]
    pub unsafe fn crc32c(sum: u32, bytes: &[u8]) -> u32 {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut crc = u64::from(!sum);
        if words.len() >= LONG {
            // SAFETY: the caller's promise.
            crc = unsafe { long(crc, words) };
        } else {
            for word in words {
                // SAFETY: the caller's promise.
                crc = unsafe { add(crc, u64::from_le_bytes(*word)) };
            }
        }
        // SAFETY: the caller's promise.
        !unsafe { add_rest(crc as u32, rest) }
    }

    /// Adds a word. Not the intrinsic, which cannot be inlined into what every CPU may run.
    ///
    /// # Safety
    /// The CPU has SSE 4.2.
    #[inline(always)]
    unsafe fn add(mut crc: u64, word: u64) -> u64 {
        // SAFETY: an instruction on registers, which the CPU has by the caller's promise.
        unsafe {
            asm!("crc32 {0}, {1}", inout(reg) crc, in(reg) word, options(pure, nomem, nostack, preserves_flags));
        }
        crc
    }

    /// Adds less than a word.
    ///
    /// # Safety
    /// As [`add`].
    #[inline(always)]
    unsafe fn add_rest(mut crc: u32, rest: &[u8]) -> u32 {
        let (fours, rest) = rest.as_chunks::<4>();
        let (twos, ones) = rest.as_chunks::<2>();
        if let [four] = fours {
            let four = u32::from_le_bytes(*four);
            // SAFETY: as in `add`.
            unsafe {
                asm!("crc32 {0:e}, {1:e}", inout(reg) crc, in(reg) four,
                    options(pure, nomem, nostack, preserves_flags));
            }
        }
        if let [two] = twos {
            let two = u16::from_le_bytes(*two);
            // SAFETY: as in `add`.
            unsafe {
                asm!("crc32 {0:e}, {1:x}", inout(reg) crc, in(reg) two, options(pure, nomem, nostack, preserves_flags));
            }
        }
        if let [one] = ones {
            // SAFETY: as in `add`.
            unsafe {
                asm!("crc32 {0:e}, {1}", inout(reg) crc, in(reg_byte) *one,
                    options(pure, nomem, nostack, preserves_flags));
            }
        }
        crc
    }

    /// Adds many words, in three streams at once.
    ///
    /// # Safety
    /// The CPU has SSE 4.2 and carry-less multiplication.
    #[target_feature(enable = "sse4.2,pclmulqdq")]
    #[inline(never)]
    unsafe fn long(mut crc: u64, mut words: &[[u8; 8]]) -> u64 {
        let number = |word: &[u8; 8]| u64::from_le_bytes(*word);
        while words.len() >= LONG {
            let length = (words.len() / 3).min(STREAM_MAX);
            let (first, rest) = words.split_at(length);
            let (second, rest) = rest.split_at(length);
            let (third, rest) = rest.split_at(length);
            let (mut b, mut c) = (0, 0);
            for ((x, y), z) in first.iter().zip(second).zip(third) {
                crc = _mm_crc32_u64(crc, number(x));
                b = _mm_crc32_u64(b, number(y));
                c = _mm_crc32_u64(c, number(z));
            }
            // The product of two reflected sums stands a bit too low, and what is added to 0 is
            // multiplied by x^32: hence the 33.
            let shifted = |sum: u64, by: usize| {
                let factor = _mm_cvtsi64_si128(i64::from(SHIFTS[by]));
                _mm_clmulepi64_si128::<0>(_mm_cvtsi64_si128(sum as i64), factor)
            };
            let joined = _mm_xor_si128(shifted(crc, 2 * length), shifted(b, length));
            crc = _mm_crc32_u64(0, _mm_cvtsi128_si64(joined) as u64) ^ c;
            words = rest;
        }
        words.iter().fold(crc, |crc, word| _mm_crc32_u64(crc, number(word)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_at_every_place_has_the_sum_that_others_have() {
        let mut state = 1_u64;
        let bytes: Vec<u8> = (0..6000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        for length in (0..700).chain((700..5900).step_by(61)) {
            for start in 0..9 {
                let part = &bytes[start..start + length];
                assert_eq!(crc32c(part), crc32c::crc32c(part), "{length} bytes from {start}");
                let (first, second) = part.split_at(length / 3);
                assert_eq!(crc32c_append(crc32c(first), second), crc32c(part));
            }
        }
    }
}
