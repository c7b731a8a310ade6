//! The two forms of pairs in maps of Rust: words if keys and values have 8 bytes, else boxed bytes.

use std::borrow::Borrow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use everleaf_bench::BenchError;
use everleaf_bench::measure::Settings;
use everleaf_bench::target::{BytesKeys, IntegerKeys, KeyList, Values};

/// How a map holds its pairs.
pub trait Form: Clone + Send + Sync + 'static {
    /// Lists of keys, as the driver draws them.
    type Keys: KeyList;
    /// A key, as the map owns it.
    type Key: Ord + Borrow<Self::Look> + Send + Sync + 'static;
    /// A key, as a search has it.
    type Look: Ord + ?Sized;
    /// A value, as the map owns it.
    type Value: Send + Sync + 'static;

    /// For the sizes of the settings.
    fn new(settings: &Settings) -> Self;

    /// An empty list of keys with room for `capacity`.
    fn new_keys(&self, capacity: usize) -> Self::Keys;

    /// A key of a list, to search with.
    fn look<'k>(key: &'k <Self::Keys as KeyList>::Key<'_>) -> &'k Self::Look;

    /// A key of a list, to own.
    fn own(key: <Self::Keys as KeyList>::Key<'_>) -> Self::Key;

    /// The value to write for a key.
    fn value(&mut self, key: &Self::Look, version: u64) -> Self::Value;

    /// Whether a value was written for this key.
    fn is_right(&self, key: &Self::Look, value: &Self::Value) -> bool;

    /// A key, to name in an error. It allocates, so that only a wrong answer may ask for it.
    fn name(key: &Self::Look) -> Vec<u8>;

    /// `found` if what was read for `key` is right.
    ///
    /// # Errors
    /// [`BenchError::Wrong`], which names the key, if it is not.
    #[inline(always)]
    fn verdict<R>(is_right: bool, key: &Self::Look, found: R) -> Result<R, BenchError> {
        if is_right { Ok(found) } else { wrong::<Self, R>(key, found) }
    }

    /// A value that can be replaced where it is, while others read it.
    type Cell: Send + Sync + 'static;

    /// A cell with this value.
    fn cell(value: Self::Value) -> Self::Cell;

    /// Replaces the value of a cell.
    fn replace(cell: &Self::Cell, value: Self::Value);

    /// Whether the value of a cell was written for this key.
    fn is_cell_right(&self, key: &Self::Look, cell: &Self::Cell) -> bool;
}

/// Out of line, so that the name of the key is made only here.
#[cold]
#[inline(never)]
fn wrong<F: Form, R>(key: &F::Look, found: R) -> Result<R, BenchError> {
    Values::verdict(false, &F::name(key), found)
}

/// Keys and values are 64-bit integers.
#[derive(Clone)]
pub struct Words;

/// Bits of a value that tell versions apart; the others are the key's.
const VERSION_MASK: u64 = 0xffff;

impl Form for Words {
    type Keys = IntegerKeys;
    type Key = u64;
    type Look = u64;
    type Value = u64;

    fn new(_: &Settings) -> Self {
        Words
    }

    fn new_keys(&self, capacity: usize) -> IntegerKeys {
        IntegerKeys(Vec::with_capacity(capacity))
    }

    fn look(key: &u64) -> &u64 {
        key
    }

    fn own(key: u64) -> u64 {
        key
    }

    fn value(&mut self, key: &u64, version: u64) -> u64 {
        key & !VERSION_MASK | version & VERSION_MASK
    }

    fn is_right(&self, key: &u64, value: &u64) -> bool {
        (key ^ value) & !VERSION_MASK == 0
    }

    fn name(key: &u64) -> Vec<u8> {
        key.to_string().into_bytes()
    }

    type Cell = AtomicU64;

    fn cell(value: u64) -> AtomicU64 {
        AtomicU64::new(value)
    }

    fn replace(cell: &AtomicU64, value: u64) {
        // Relaxed: nothing else is published with the value.
        cell.store(value, Ordering::Relaxed);
    }

    fn is_cell_right(&self, key: &u64, cell: &AtomicU64) -> bool {
        // Relaxed: nothing else is published with the value.
        self.is_right(key, &cell.load(Ordering::Relaxed))
    }
}

/// Keys and values are boxed byte strings.
#[derive(Clone)]
pub struct Strings {
    key_size: usize,
    values: Values,
}

impl Form for Strings {
    type Keys = BytesKeys;
    type Key = Box<[u8]>;
    type Look = [u8];
    type Value = Box<[u8]>;

    fn new(settings: &Settings) -> Self {
        Strings { key_size: settings.key_size, values: Values::new(settings.value_size) }
    }

    fn new_keys(&self, capacity: usize) -> BytesKeys {
        BytesKeys::new(self.key_size, capacity)
    }

    fn look<'k>(key: &'k &[u8]) -> &'k [u8] {
        key
    }

    fn own(key: &[u8]) -> Box<[u8]> {
        key.into()
    }

    fn value(&mut self, key: &[u8], version: u64) -> Box<[u8]> {
        self.values.fill(key, version).into()
    }

    fn is_right(&self, key: &[u8], value: &Box<[u8]>) -> bool {
        self.values.is_right(key, value)
    }

    fn name(key: &[u8]) -> Vec<u8> {
        key.to_vec()
    }

    type Cell = RwLock<Box<[u8]>>;

    fn cell(value: Box<[u8]>) -> RwLock<Box<[u8]>> {
        RwLock::new(value)
    }

    fn replace(cell: &RwLock<Box<[u8]>>, value: Box<[u8]>) {
        // A panic of another thread ends the run anyway. The old value is freed after the lock.
        let old = {
            let mut place = cell.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *place, value)
        };
        drop(old);
    }

    fn is_cell_right(&self, key: &[u8], cell: &RwLock<Box<[u8]>>) -> bool {
        let value = cell.read().unwrap_or_else(PoisonError::into_inner);
        self.is_right(key, &value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_answer_names_its_key_in_both_forms() {
        assert_eq!(Words::verdict(true, &12, 5).unwrap(), 5);
        assert_eq!(Strings::verdict(true, b"user12", 5).unwrap(), 5);
        let wrong = Words::verdict(false, &12, 5).unwrap_err().to_string();
        assert!(wrong.contains("\"12\""), "{wrong}");
        let wrong = Strings::verdict(false, b"user12", 5).unwrap_err().to_string();
        assert!(wrong.contains("\"user12\""), "{wrong}");
    }
}
