//! Comparing short byte strings by words in registers, without a call of the C library: at every level of
//! a descent the search looks at a few bytes of the key, and a call, or bytes that are written one by one and
//! read as a word again, would cost more than the comparison of a whole line of heads.
//!
//! All is ordinary code over slices: what is read is inside of them.

use std::cmp::Ordering;

use crate::nbtree::layout::INLINE_PREFIX_SIZE;

const WORD: usize = size_of::<u64>();

/// The word at `at`, the first byte the most significant. The slice has so many bytes.
#[inline(always)]
fn word_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + WORD].try_into().expect("eight bytes"))
}

/// Eight bytes of `key` from `skip` on, big endian, padded with zeros.
#[inline(always)]
pub fn head_at(key: &[u8], skip: usize) -> u64 {
    let Some(last) = key.len().checked_sub(WORD) else { return short_head(key, skip) };
    // The last word of the key has all that is there, if a whole one is not: what is before `skip` is moved
    // out of it, and zeros follow. No branch depends on the length.
    let start = skip.min(last);
    let beyond = skip - start;
    let word = word_at(key, start);
    if beyond < WORD { word << (8 * beyond) } else { 0 }
}

/// [`head_at`] behind the first `length` bytes of `prefix`, which are followed by zeros, if the key starts with them.
/// `None`: it does not, or what tells so is not one word of each; then [`prefix_order`] and [`head_at`] tell.
#[inline(always)]
pub fn head_behind(prefix: &[u8; INLINE_PREFIX_SIZE], length: usize, key: &[u8]) -> Option<u64> {
    let last = key.len().checked_sub(WORD)?;
    if length >= WORD {
        return None;
    }
    let differing = word_at(key, 0) ^ word_at(prefix, 0);
    // Shifted in two steps: of no bytes, all bits are moved out.
    if differing >> 1 >> (8 * (WORD - length) - 1) != 0 {
        return None;
    }
    let start = length.min(last);
    Some(word_at(key, start) << (8 * (length - start)))
}

/// [`head_at`] of a key that is shorter than a word, from two parts that may overlap: the bytes they share are
/// the same.
#[inline(always)]
fn short_head(key: &[u8], skip: usize) -> u64 {
    let length = key.len();
    let half =
        |at: usize| u64::from(u32::from_be_bytes(key[at..at + 4].try_into().expect("four bytes")));
    let quarter =
        |at: usize| u64::from(u16::from_be_bytes(key[at..at + 2].try_into().expect("two bytes")));
    let word = match length {
        0 => return 0,
        1 => u64::from(key[0]) << 56,
        2 | 3 => quarter(0) << 48 | quarter(length - 2) << (8 * (WORD - length)),
        _ => half(0) << 32 | half(length - 4) << (8 * (WORD - length)),
    };
    if skip < WORD { word << (8 * skip) } else { 0 }
}

/// Whether two keys are the same.
#[inline(always)]
pub fn is_same(a: &[u8], b: &[u8]) -> bool {
    let length = a.len();
    if length != b.len() {
        return false;
    }
    match length {
        // The first word and the last, which may overlap.
        WORD..=16 => {
            let last = length - WORD;
            (word_at(a, 0) ^ word_at(b, 0)) | (word_at(a, last) ^ word_at(b, last)) == 0
        }
        _ => a == b,
    }
}

/// How `key` compares with everything that starts with the first `length` bytes of `prefix`, which are
/// followed by zeros: `Equal` if it starts with them, too.
#[inline(always)]
pub fn prefix_order(prefix: &[u8; INLINE_PREFIX_SIZE], length: usize, key: &[u8]) -> Ordering {
    debug_assert!(prefix[length..].iter().all(|byte| *byte == 0), "zeros follow");
    let (words, _) = prefix.as_chunks::<WORD>();
    for (index, word) in words.iter().enumerate() {
        let at = index * WORD;
        if at >= length {
            break;
        }
        // What the key has behind the prefix does not count.
        let kept = u64::MAX << (8 * (WORD - (length - at).min(WORD)));
        let (ours, theirs) = (head_at(key, at) & kept, u64::from_be_bytes(*word));
        if ours != theirs {
            return ours.cmp(&theirs);
        }
    }
    // A key that ends inside the prefix is less than everything that starts with it; the zeros that it was
    // padded with may be bytes of the prefix.
    if key.len() < length { Ordering::Less } else { Ordering::Equal }
}

const _: () = assert!(INLINE_PREFIX_SIZE.is_multiple_of(WORD));

#[cfg(test)]
mod tests {
    use super::*;

    /// Strings of all lengths around those where the code changes, some of which differ in one byte, or by
    /// zeros at the end.
    fn strings() -> Vec<Vec<u8>> {
        let mut strings = vec![];
        for length in (0..=18).chain([24, 39, 40, 41, 50]) {
            let bytes: Vec<u8> = (0..length).map(|at: u8| at.wrapping_mul(83) | 1).collect();
            strings.push(bytes.clone());
            for at in 0..bytes.len() {
                for other in [0, bytes[at] - 1, 255] {
                    let mut changed = bytes.clone();
                    changed[at] = other;
                    strings.push(changed);
                }
            }
            strings.push([&bytes[..], &[0]].concat());
            strings.push([&bytes[..], &[0; 9]].concat());
            strings.push(vec![0; bytes.len()]);
        }
        strings
    }

    #[test]
    fn a_head_has_the_bytes_from_there_on_and_zeros() {
        for string in strings() {
            for skip in (0..60).chain([1000, 65_536, usize::MAX]) {
                let mut expected = [0; WORD];
                for (to, from) in expected.iter_mut().zip(string.iter().skip(skip)) {
                    *to = *from;
                }
                let head = head_at(&string, skip);
                assert_eq!(head, u64::from_be_bytes(expected), "{string:?} from {skip}");
            }
        }
    }

    #[test]
    fn strings_are_the_same_if_all_their_bytes_are() {
        let strings = strings();
        for a in &strings {
            for b in &strings {
                assert_eq!(is_same(a, b), a == b, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn a_head_behind_a_prefix_is_that_of_a_key_that_starts_with_it() {
        let strings = strings();
        let mut told = 0;
        for prefix in strings.iter().filter(|prefix| prefix.len() <= INLINE_PREFIX_SIZE) {
            let mut room = [0; INLINE_PREFIX_SIZE];
            room[..prefix.len()].copy_from_slice(prefix);
            for key in &strings {
                let is_told = prefix.len() < WORD && key.len() >= WORD && key.starts_with(prefix);
                let expected = is_told.then(|| head_at(key, prefix.len()));
                assert_eq!(head_behind(&room, prefix.len(), key), expected, "{key:?} {prefix:?}");
                told += usize::from(is_told);
            }
        }
        assert!(told > 1000, "{told}");
    }

    #[test]
    fn a_key_compares_with_a_prefix_as_its_bytes_do() {
        let strings = strings();
        for prefix in strings.iter().filter(|prefix| prefix.len() <= INLINE_PREFIX_SIZE) {
            let mut room = [0; INLINE_PREFIX_SIZE];
            room[..prefix.len()].copy_from_slice(prefix);
            for key in &strings {
                let expected = key[..key.len().min(prefix.len())].cmp(prefix);
                let order = prefix_order(&room, prefix.len(), key);
                assert_eq!(order, expected, "{key:?} with {prefix:?}");
            }
        }
    }
}
