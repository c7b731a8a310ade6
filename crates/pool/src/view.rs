//! The pool's own records as words of the machine.

use everleaf_machine::{Atomic, Machine, Ordering};

use crate::layout::DATA_START;
use crate::{Domain, Medium};

/// The first [`DATA_START`] bytes of a mapped pool, and how they are made durable.
pub struct View<M: Machine> {
    base: *mut u8,
    medium: Medium<M>,
}

impl<M: Machine> Clone for View<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for View<M> {}

impl<M: Machine> View<M> {
    /// A view of the pool at `base`.
    ///
    /// # Safety
    /// `base .. base + DATA_START` is readable and 8-byte aligned as long as the view is used, is
    /// accessed by this process through words of the machine only, and is writable if a writing
    /// function of the view is called.
    pub unsafe fn new(base: *mut u8, domain: Domain) -> Self {
        debug_assert!(base.addr().is_multiple_of(8));
        View { base, medium: Medium::new(domain) }
    }

    /// The word at `offset`.
    pub fn word(&self, offset: u64) -> &Atomic<u64, M> {
        assert!(offset.is_multiple_of(8) && offset < DATA_START, "no word at {offset} in the view");
        let address = self.base.wrapping_add(offset as usize);
        // SAFETY: in bounds and aligned by the assertion and the promise made to `new`; an
        // `Atomic<u64, _>` is a transparent, interior mutable 8-byte word.
        unsafe { &*address.cast() }
    }

    /// `N` words from `offset` on, which nobody changes now.
    pub fn read<const N: usize>(&self, offset: u64) -> [u64; N] {
        std::array::from_fn(|index| self.word(offset + 8 * index as u64).read_private())
    }

    /// Writes `words` from `offset` on, without making them durable. Another thread must neither
    /// read nor write them now.
    pub fn prepare(&self, offset: u64, words: &[u64]) {
        for (index, word) in words.iter().enumerate() {
            self.word(offset + 8 * index as u64).write_private(*word);
        }
    }

    /// Writes `words` from `offset` on, the last one last, and makes them durable. Another thread
    /// must neither read nor write them now.
    #[track_caller]
    pub fn write(&self, offset: u64, words: &[u64]) {
        let Some((last, rest)) = words.split_last() else { return };
        self.prepare(offset, rest);
        // Release (within AcqRel): a checksum is visible after what it covers; pairs with the
        // acquire of the process that maps the pool next. A locked instruction, so that it is visible on
        // return and in a domain without flushes durable.
        self.word(offset + 8 * rest.len() as u64).swap(*last, Ordering::AcqRel);
        if !M::mutant("pool.no_record_persist") {
            // Persist: the whole record before its caller goes on to the other copy (I1).
            self.medium.persist(self.word(offset).as_ptr(), 8 * words.len());
        }
    }

    /// Replaces one word at once and makes it durable.
    #[track_caller]
    pub fn replace(&self, offset: u64, value: u64) {
        let word = self.word(offset);
        // Release (within AcqRel): what the word commits is visible before it; pairs with the
        // acquire load of a reader of the record. Locked, as in `write`.
        word.swap(value, Ordering::AcqRel);
        if !M::mutant("pool.no_replace_persist") {
            // Persist: the commit before the caller reports it (I3, I4).
            self.medium.persist(word.as_ptr(), 8);
        }
    }
}
