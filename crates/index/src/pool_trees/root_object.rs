//! The place in the pool where a tree starts: 256 bytes that never move.
//!
//! The pool's directory keeps 32 bits beside a name; a root object's place fits, because root objects are
//! records of one size. The first word says whose root object it is; the others belong to the tree and
//! start as zero.

use std::marker::PhantomData;

use everleaf_alloc::{AllocError, Heap, Recovery, Session};
use everleaf_machine::{Atomic, Machine};

use crate::pool_trees::pool_base::PoolBase;

/// Bytes of a root object.
pub const ROOT_OBJECT_SIZE: usize = 256;
/// Words of a root object.
pub const ROOT_OBJECT_WORDS: usize = ROOT_OBJECT_SIZE / 8;
/// What all records' offsets are modulo their size, if that divides a chunk: the chunk's header.
const BIAS: u64 = 64;

/// A tree's root object. A copy is used only while the heap it came from is open.
pub struct RootObject<M: Machine> {
    start: *mut u8,
    offset: u64,
    machine: PhantomData<M>,
}

impl<M: Machine> Clone for RootObject<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for RootObject<M> {}

// SAFETY: a root object is a place in the pool, all of whose words are atomic.
unsafe impl<M: Machine> Send for RootObject<M> {}
// SAFETY: as for `Send`.
unsafe impl<M: Machine> Sync for RootObject<M> {}

impl<M: Machine> RootObject<M> {
    /// A new root object whose first word is `tag` and whose others are zero, durably.
    ///
    /// # Errors
    /// No space.
    pub fn create(session: &mut Session<M>, tag: u64) -> Result<Self, AllocError> {
        let offset = session.allocate_record(ROOT_OBJECT_SIZE)?;
        let this = Self::at(session.heap(), offset);
        for index in 0..ROOT_OBJECT_WORDS {
            this.word(index).write_private(if index == 0 { tag } else { 0 });
        }
        // Persist: the root object before the directory or the tree refers to it.
        session.medium().persist(this.start, ROOT_OBJECT_SIZE);
        Ok(this)
    }

    /// The root object of a root value, marked as in use.
    ///
    /// # Errors
    /// There is no root object with this tag at the place.
    pub fn open(
        heap: &Heap<M>,
        recovery: &Recovery<M>,
        root: u32,
        tag: u64,
    ) -> Result<Self, AllocError> {
        let offset = u64::from(root) * ROOT_OBJECT_SIZE as u64 + BIAS;
        recovery.mark_record(offset, ROOT_OBJECT_SIZE)?;
        let this = Self::at(heap, offset);
        let found = this.word(0).read_private();
        if found != tag {
            let what =
                format!("a tree's root object starts with {found:#018x} instead of {tag:#018x}");
            return Err(AllocError::Corrupt { offset, what });
        }
        Ok(this)
    }

    fn at(heap: &Heap<M>, offset: u64) -> Self {
        let start = PoolBase::of(heap).start().wrapping_add(offset as usize);
        RootObject { start, offset, machine: PhantomData }
    }

    /// Marks the root object as in use.
    ///
    /// # Errors
    /// It is marked already.
    pub fn mark(self, used: &Recovery<M>) -> Result<(), AllocError> {
        used.mark_record(self.offset, ROOT_OBJECT_SIZE)
    }

    /// Gives the root object back.
    pub fn free(self, session: &mut Session<M>) {
        session.free_record(self.offset, ROOT_OBJECT_SIZE);
    }

    /// What the pool's directory keeps: the inverse of what [`Self::open`] takes.
    pub fn root_value(self) -> u32 {
        ((self.offset - BIAS) / ROOT_OBJECT_SIZE as u64) as u32
    }

    /// Word `index` of the root object.
    ///
    /// # Panics
    /// If `index` is not below [`ROOT_OBJECT_WORDS`].
    #[inline(always)]
    pub fn word(&self, index: usize) -> &Atomic<u64, M> {
        assert!(index < ROOT_OBJECT_WORDS, "a root object has {ROOT_OBJECT_WORDS} words");
        // SAFETY: inside the root object, aligned; an atomic word is valid whatever its bits are. The
        // pool is open as long as the value is used.
        unsafe { &*self.start.cast::<Atomic<u64, M>>().wrapping_add(index) }
    }
}
