//! The keys of programs: numbers and strings of several kinds.

use std::collections::HashMap;
use std::sync::OnceLock;

use everleaf_index::WriteOrder;
use everleaf_machine::Hardware;

use crate::programs::made::Keys;

/// Between the classes of fingerprints that an inner node tells apart.
const CLASS: u64 = 1 << 61;

/// So many numbers, ascending.
pub(crate) fn numbers(kind: Keys, count: usize) -> Vec<u64> {
    let many = count as u64;
    match kind {
        Keys::Near => (1..=many).collect(),
        Keys::Alike => {
            let fingerprint = |key: u64| (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56).max(1);
            (1..).filter(|key| fingerprint(*key) == fingerprint(1)).take(count).collect()
        }
        Keys::Edges => {
            let around = |class: u64| [class.wrapping_sub(1), class, class + 1];
            let classes = (0..8).flat_map(|class| around(class * CLASS));
            let mut keys: Vec<u64> = [u64::MAX - 1, 0, 1].into_iter().chain(classes).collect();
            keys.truncate(count.max(4));
            keys.sort_unstable();
            keys.dedup();
            keys
        }
        Keys::Far => (0..many).map(|key| key * (u64::MAX / many)).collect(),
    }
}

/// What some strings that are alike begin with: more than an inner node holds of what its fences share.
const LONG_PREFIX: &str = "a prefix of which inner nodes hold no more than a part/";
/// What strings with a prefix of whole words begin with.
const PREFIX_BYTE: u8 = b'p';
/// The most words of it: as many as an inner node holds.
const PREFIX_WORDS_MAX: usize = 5;
/// Pairs of strings that are told apart by their records alone.
const TWINS: usize = 3;

/// Bits of the hash of a string that its entry in a leaf has.
fn tag_of(order: &WriteOrder<Hardware>, word: &[u8]) -> u64 {
    /// Bits of the hash that no entry has.
    const REST_BITS: u32 = 64 - 17;
    order.hash_of(word) >> REST_BITS
}

/// Pairs of strings of which the entries in a leaf are the same but for the records: eight bytes of the key, and
/// bits of its hash.
fn twins() -> &'static [[Vec<u8>; 2]] {
    static FOUND: OnceLock<Vec<[Vec<u8>; 2]>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let order = WriteOrder::<Hardware>::new(1);
        let (mut seen, mut found) = (HashMap::new(), vec![]);
        for number in 1000.. {
            let word = format!("{LONG_PREFIX}{number}").into_bytes();
            let tag = tag_of(&order, &word);
            found.extend(seen.insert(tag, word.clone()).map(|other| [other, word]));
            if found.len() == TWINS {
                break;
            }
        }
        found
    })
}

/// A string that is like all others. With a long prefix, two of eight are twins, as long as there are some.
fn alike(number: usize, has_long_prefix: bool) -> Vec<u8> {
    if !has_long_prefix {
        return format!("a prefix of more than eight bytes/{number:02}").into_bytes();
    }
    match twins().get(number / 8).filter(|_| number % 8 < 2) {
        Some(twins) => twins[number % 8].clone(),
        None => format!("{LONG_PREFIX}{number:02}").into_bytes(),
    }
}

/// A longer string whose entry in a leaf is the same as that of this many bytes of a prefix.
fn longer_twin(prefix_size: usize) -> Vec<u8> {
    /// One for each number of words.
    static FOUND: [OnceLock<Vec<u8>>; PREFIX_WORDS_MAX] =
        [const { OnceLock::new() }; PREFIX_WORDS_MAX];
    let find = || {
        let order = WriteOrder::<Hardware>::new(1);
        let prefix = vec![PREFIX_BYTE; prefix_size];
        let tag = tag_of(&order, &prefix);
        // Zeros, as if there was nothing.
        let longer = |number: u32| [&prefix[..], &[0; 8], &number.to_be_bytes()].concat();
        (0..).map(longer).find(|word| tag_of(&order, word) == tag).expect("tags are short")
    };
    FOUND[prefix_size / 8 - 1].get_or_init(find).clone()
}

/// A string of those that begin with the same bytes, which are one of them, and so is one that comes just before.
fn behind_prefix(number: usize, prefix_size: usize) -> Vec<u8> {
    let mut bytes = vec![PREFIX_BYTE; prefix_size];
    match number {
        0 => {}
        1 => drop(bytes.pop()),
        2 => return longer_twin(prefix_size),
        _ => bytes.push(number as u8 - 3),
    }
    bytes
}

/// So many strings, in no order. What is the same in all of some kinds is drawn from a number.
pub(crate) fn words(kind: Keys, count: usize, drawn: u32) -> Vec<Vec<u8>> {
    // Whole words, by which inner nodes compare.
    let is_of_words = kind == Keys::Alike && drawn % 3 == 1;
    let prefix_size = 8 * (1 + drawn as usize / 3 % PREFIX_WORDS_MAX);
    let word = |number: usize| match kind {
        _ if is_of_words => behind_prefix(number, prefix_size),
        Keys::Near => vec![b'a' + number as u8],
        Keys::Alike => alike(number, count % 2 == 1),
        Keys::Edges => match number % 3 {
            0 => vec![0xFF; number / 3],
            1 => vec![b'1'; 6 + number / 3],
            _ => vec![0; 1 + number / 3],
        },
        Keys::Far => {
            let mut bytes = vec![(number * 37 % 251) as u8];
            bytes.extend(std::iter::repeat_n(b'.', number * 7 % 40));
            bytes.extend(number.to_string().bytes());
            bytes
        }
    };
    (0..count).map(word).collect()
}

/// A key that takes some space, behind all others.
pub(crate) fn filler(kind: Keys, number: u64) -> Vec<u8> {
    let mut bytes = vec![0xFF; if kind == Keys::Edges { 12 } else { 2 }];
    bytes.extend(format!("{number:04}").into_bytes());
    bytes.resize(bytes.len() + 150 * (number as usize % 7), b'.');
    bytes
}
