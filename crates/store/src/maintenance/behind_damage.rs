//! Where a map can be read on behind a damaged key.
//!
//! A walk over a map that meets a record whose key is damaged cannot go on behind it by that key. But keys above the
//! damage can be read, and those below it lead to it; so where it ends is found byte by byte, each by halving.

use crate::Result;

/// Bytes of a key that are found at most. Of keys that are the same up to there some may be passed over.
const DEPTH_MAX: usize = 256;

/// A key above `behind`, near the lowest from which on a map can be read, where one that begins above `behind` cannot;
/// `None` if it cannot be read from anywhere. `is_readable` says whether the first key from this one on can be read, or
/// there is none. Where keys are damaged close to each other, sound ones between them may be passed over.
///
/// # Errors
/// What `is_readable` fails with.
pub fn first_readable(
    behind: &[u8],
    mut is_readable: impl FnMut(&[u8]) -> Result<bool>,
) -> Result<Option<Vec<u8>>> {
    let (mut found, mut key) = (None, Vec::new());
    while key.len() < DEPTH_MAX {
        key.push(0);
        let place = key.len() - 1;
        // The lowest last byte with which it can be read is above `low`, and not above `high`: 256 is none.
        let (mut low, mut high) = (-1, 256);
        while high - low > 1 {
            let middle = (low + high) / 2;
            key[place] = middle as u8;
            let is_behind = key[..] > *behind;
            match is_behind && is_readable(&key)? {
                true => high = middle,
                false => low = middle,
            }
        }
        if high < 256 {
            key[place] = high as u8;
            found = Some(key.clone());
        }
        if low < 0 {
            break;
        }
        key[place] = low as u8;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Whether the first of the keys from this one on can be read.
    fn first_of(keys: &BTreeMap<Vec<u8>, bool>, from: &[u8]) -> bool {
        keys.range(from.to_vec()..).next().is_none_or(|(_, is_sound)| *is_sound)
    }

    #[test]
    fn reading_goes_on_directly_behind_the_damage() {
        let words = ["", "a", "ab", "abc", "abd", "b", "user:0123", "user:0124", "user:0200", "z"];
        for damaged in 0..words.len() {
            let all = words.iter().enumerate();
            let keys: BTreeMap<Vec<u8>, bool> =
                all.map(|(at, word)| (word.as_bytes().to_vec(), at != damaged)).collect();
            let behind = damaged.checked_sub(1).map_or("", |before| words[before]);
            let found = first_readable(behind.as_bytes(), |key| Ok(first_of(&keys, key)));
            let found = found.expect("nothing fails").expect("there is an end");
            let next = keys.range(found.clone()..).next().map(|(key, _)| key.as_slice());
            assert_eq!(next, words.get(damaged + 1).map(|word| word.as_bytes()), "{damaged}");
            assert!(found > behind.as_bytes().to_vec());
        }
    }

    #[test]
    fn behind_the_highest_keys_nothing_is_found() {
        let found = first_readable(&[0xff; 300], |_| Ok(false)).expect("nothing fails");
        assert_eq!(found, None);
        let keys: BTreeMap<Vec<u8>, bool> = [(vec![7; 1000], false), (vec![8], true)].into();
        let found = first_readable(b"", |key| Ok(first_of(&keys, key))).expect("nothing fails");
        assert_eq!(keys.range(found.expect("there is one")..).next(), Some((&vec![8], &true)));
    }
}
