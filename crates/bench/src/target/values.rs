//! The values of byte-string keys, which tell whose they are.

use crate::error::BenchError;

/// Bytes of the mark at the beginning of a value, at most.
const MARK_SIZE: usize = 8;

/// Makes and checks the values of byte-string keys.
///
/// ```text
///   the end of the key (8 bytes at most) | version (8) | filler        as much as there is room
/// ```
///
/// # Example
/// ```
/// let mut values = everleaf_bench::target::Values::new(100);
/// let value = values.fill(b"user0001", 7).to_vec();
/// assert!(values.is_right(b"user0001", &value));
/// assert!(!values.is_right(b"user0002", &value));
/// ```
#[derive(Clone, Debug)]
pub struct Values {
    value: Vec<u8>,
    /// Whether all values have one size.
    is_one_size: bool,
}

impl Values {
    /// Values of `size` bytes.
    pub fn new(size: usize) -> Self {
        Values { value: vec![b'v'; size], is_one_size: true }
    }

    /// From now on values have `size` bytes, and those that are read may have any size.
    pub fn set_size(&mut self, size: usize) {
        self.value.resize(size, b'v');
        self.is_one_size = false;
    }

    /// The value to write for a key; versions tell the values of a key apart.
    #[inline(always)]
    pub fn fill(&mut self, key: &[u8], version: u64) -> &[u8] {
        let mark = mark(key);
        let size = self.value.len().min(mark.len());
        let (first, rest) = self.value.split_at_mut(size);
        first.copy_from_slice(&mark[..size]);
        let count = rest.len().min(8);
        rest[..count].copy_from_slice(&version.to_le_bytes()[..count]);
        &self.value
    }

    /// Whether a value has the right size and the mark of its key.
    #[inline(always)]
    pub fn is_right(&self, key: &[u8], value: &[u8]) -> bool {
        let mark = mark(key);
        let size = value.len().min(mark.len());
        (!self.is_one_size || value.len() == self.value.len()) && value[..size] == mark[..size]
    }

    /// `found` if what was read for `key` is right.
    ///
    /// # Errors
    /// [`BenchError::Wrong`], which names the key, if it is not.
    #[inline(always)]
    pub fn verdict<R>(is_right: bool, key: &[u8], found: R) -> Result<R, BenchError> {
        if is_right { Ok(found) } else { Err(wrong(key)) }
    }
}

/// The end of a key.
#[inline(always)]
fn mark(key: &[u8]) -> &[u8] {
    &key[key.len().saturating_sub(MARK_SIZE)..]
}

#[cold]
fn wrong(key: &[u8]) -> BenchError {
    let key = key.escape_ascii();
    BenchError::Wrong(format!("key \"{key}\" has a value that was never written for it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_right_for_its_key_and_size_alone() {
        for size in [0, 3, 8, 12, 100] {
            let mut values = Values::new(size);
            let value = values.fill(b"user:0000000001", 5).to_vec();
            assert_eq!(value.len(), size);
            assert!(values.is_right(b"user:0000000001", &value));
            assert_eq!(values.is_right(b"user:9876543210", &value), size == 0);
            assert!(!values.is_right(b"user:0000000001", &[value.as_slice(), b"v"].concat()));
        }
    }

    #[test]
    fn values_of_any_size_are_checked_by_their_mark() {
        let mut values = Values::new(10);
        let long = values.fill(b"k", 1).to_vec();
        values.set_size(2);
        let short = values.fill(b"k", 2).to_vec();
        assert_eq!((long.len(), short.len()), (10, 2));
        assert!(values.is_right(b"k", &long) && values.is_right(b"k", &short));
        assert!(!values.is_right(b"l", &short));
        assert!(Values::verdict(false, b"l", ()).unwrap_err().to_string().contains("\"l\""));
    }
}
