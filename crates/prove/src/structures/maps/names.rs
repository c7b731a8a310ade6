//! The trees of a program of maps, and their keys: numbers to the judge, names and words to the pool.

/// Trees by number; those with even numbers have integers for keys, the others byte strings.
pub(crate) const MAPS: u64 = 3;
/// Keys of each tree.
pub(crate) const KEYS: u64 = 6;
/// Between the first keys of two trees, to the judge.
pub(crate) const STRIDE: u64 = 100;

pub(crate) fn name_of(map: u64) -> String {
    format!("map {map}")
}

pub(crate) fn word_of(key: u64) -> Vec<u8> {
    // Longer than what an entry holds, and alike in that.
    format!("a common beginning, {key:02}").into_bytes()
}

pub(crate) fn key_of(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.strip_prefix("a common beginning, ")?.parse().ok()
}

pub(crate) fn is_integers(map: u64) -> bool {
    map.is_multiple_of(2)
}
