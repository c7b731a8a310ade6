//! A key and its value in a leaf.

use everleaf_machine::{Atomic, Machine, Ordering};

/// Sixteen aligned bytes: an entry never straddles two lines.
///
/// Who may read it when is decided by what names it: a slot array, a bitmap, a counter. The halves
/// are read and written Relaxed; the word that names the entry is stored with Release after it.
#[repr(C, align(16))]
pub struct Entry<M: Machine> {
    key: Atomic<u64, M>,
    value: Atomic<u64, M>,
}

impl<M: Machine> Entry<M> {
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
        // Relaxed: as above.
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
