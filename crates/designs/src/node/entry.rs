//! A key and its value in a leaf.

use everleaf_machine::{Atomic, Machine, Ordering};

/// Sixteen aligned bytes: an entry never straddles two lines.
///
/// Which thread may read it, and when, is decided by what names it: a slot array, a bitmap, a counter.
/// The halves are read and written Relaxed; the word that names the entry is stored with Release after
/// it.
#[repr(C, align(16))]
pub struct Entry<M: Machine> {
    key: Atomic<u64, M>,
    value: Atomic<u64, M>,
}

impl<M: Machine> Entry<M> {
    /// An entry of zeros.
    #[cfg(test)]
    pub fn zero() -> Self {
        Entry { key: Atomic::new(0), value: Atomic::new(0) }
    }

    /// The key.
    #[inline(always)]
    #[track_caller]
    pub fn key(&self) -> u64 {
        // Relaxed: see the type.
        self.key.load(Ordering::Relaxed)
    }

    /// The value.
    #[inline(always)]
    #[track_caller]
    pub fn value(&self) -> u64 {
        // Relaxed: see the type.
        self.value.load(Ordering::Relaxed)
    }

    /// Key and value.
    #[inline(always)]
    #[track_caller]
    pub fn pair(&self) -> (u64, u64) {
        (self.key(), self.value())
    }

    /// Fills an entry that nothing names.
    #[inline(always)]
    #[track_caller]
    pub fn set(&self, key: u64, value: u64) {
        // Relaxed: see the type.
        self.key.store(key, Ordering::Relaxed);
        // Relaxed: see the type.
        self.value.store(value, Ordering::Relaxed);
    }

    /// The address, for flushing.
    #[inline(always)]
    pub fn as_ptr(&self) -> *const u8 {
        self.key.as_ptr()
    }
}

/// Bytes of an entry.
pub const ENTRY_SIZE: usize = 16;

const _: () = assert!(size_of::<Entry<everleaf_machine::Hardware>>() == ENTRY_SIZE);

/// Entries of a table.
pub const TABLE_LENGTH: usize = 64;

/// The entries of a leaf with a slot array: whole lines of them, so that a key can be compared with all.
/// A leaf may have fewer slots, and then never names the last ones.
#[repr(C, align(64))]
pub struct Entries<M: Machine>([Entry<M>; TABLE_LENGTH]);

impl<M: Machine> Entries<M> {
    /// An entry; a number that a torn read gave is cut to the table.
    #[inline(always)]
    pub fn at(&self, slot: usize) -> &Entry<M> {
        &self.0[slot % TABLE_LENGTH]
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Entry<M>> {
        self.0.iter()
    }

    /// The slots with this key, used or not, as a bit mask; `None` if the machine has no fast way to
    /// find them.
    #[inline(always)]
    pub fn with_key(&self, key: u64) -> Option<u64> {
        // SAFETY: a table is 1024 bytes, aligned to a line, all of it atomic words.
        unsafe { M::match_entries(self.0.as_ptr().cast(), key) }
    }
}

const _: () = assert!(size_of::<Entries<everleaf_machine::Hardware>>() == 1024);
