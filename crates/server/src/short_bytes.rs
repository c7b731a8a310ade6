//! Bytes that are mostly few: then they need no allocation of their own.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::Deref;

/// The most bytes that lie in place: a number, a place or a position, and a member of twenty bytes.
const SIZE_MAX: usize = 38;

/// Bytes, in place if they are few. They are compared as slices are.
#[derive(Clone, Debug)]
pub enum ShortBytes {
    InPlace(u8, [u8; SIZE_MAX]),
    Allocated(Box<[u8]>),
}

impl ShortBytes {
    /// The bytes of some parts, one behind the other.
    pub fn of_parts<const COUNT: usize>(parts: [&[u8]; COUNT]) -> Self {
        let size = parts.iter().map(|part| part.len()).sum::<usize>();
        if size > SIZE_MAX {
            return ShortBytes::Allocated(parts.concat().into());
        }
        let (mut bytes, mut at) = ([0; SIZE_MAX], 0);
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        ShortBytes::InPlace(size as u8, bytes)
    }
}

impl From<&[u8]> for ShortBytes {
    fn from(bytes: &[u8]) -> Self {
        ShortBytes::of_parts([bytes])
    }
}

impl Deref for ShortBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            ShortBytes::InPlace(size, bytes) => &bytes[..usize::from(*size)],
            ShortBytes::Allocated(bytes) => bytes,
        }
    }
}

impl Borrow<[u8]> for ShortBytes {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl AsRef<[u8]> for ShortBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for ShortBytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for ShortBytes {}

impl PartialOrd for ShortBytes {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ShortBytes {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_every_length_are_what_they_were_made_of() {
        let bytes: Vec<u8> = (0..100).collect();
        for length in 0..100 {
            let (first, second) = bytes[..length].split_at(length / 3);
            let short = ShortBytes::of_parts([first, second]);
            assert_eq!(&*short, &bytes[..length]);
            assert_eq!(short, ShortBytes::from(&bytes[..length]));
            assert_eq!(matches!(short, ShortBytes::InPlace(..)), length <= SIZE_MAX);
        }
    }

    /// What follows shorter bytes in place is no part of them.
    #[test]
    fn they_are_ordered_as_slices() {
        let all = [&b""[..], b"\0", b"\0\0", b"a", &[b'a'; 38], &[b'a'; 39], b"b"];
        for (a, b) in all.iter().zip(&all[1..]) {
            assert!(ShortBytes::from(*a) < ShortBytes::from(*b));
        }
    }
}
