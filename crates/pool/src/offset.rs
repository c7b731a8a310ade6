//! Typed references within a pool.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use everleaf_machine::Machine;

use crate::Pool;

/// The place of a `T` in a pool: 8 bytes from the start of the pool, 0 for none.
///
/// Offsets, not addresses, are what a pool may contain: the next session maps it elsewhere.
///
/// # Example
/// ```
/// use everleaf_pool::{DATA_START, Domain, Offset, Pool};
/// let pool = Pool::in_memory(1 << 20, 1 << 20, Domain::Process)?;
/// let offset: Offset<u64> = Offset::new(DATA_START);
/// let address = offset.pointer(&pool);
/// assert_eq!(Offset::of(&pool, address), Some(offset));
/// assert!(Offset::<u64>::NULL.pointer(&pool).is_null());
/// # Ok::<(), everleaf_pool::PoolError>(())
/// ```
#[repr(transparent)]
pub struct Offset<T> {
    raw: u64,
    target: PhantomData<fn() -> T>,
}

const _: () = assert!(size_of::<Offset<[u8; 1000]>>() == 8);

impl<T> Offset<T> {
    /// The offset of nothing.
    pub const NULL: Self = Self::new(0);

    /// The offset `raw` in bytes from the start of the pool; 0 is [`Offset::NULL`].
    #[inline(always)]
    pub const fn new(raw: u64) -> Self {
        Offset { raw, target: PhantomData }
    }

    /// Bytes from the start of the pool; 0 for null.
    #[inline(always)]
    pub const fn raw(self) -> u64 {
        self.raw
    }

    /// Whether this refers to nothing.
    #[inline(always)]
    pub const fn is_null(self) -> bool {
        self.raw == 0
    }

    /// The same place as another type.
    #[inline(always)]
    pub const fn cast<U>(self) -> Offset<U> {
        Offset::new(self.raw)
    }

    /// The offset of an address in `pool`; `None` if the address is not in the mapped part.
    pub fn of<M: Machine>(pool: &Pool<M>, address: *const T) -> Option<Self> {
        let raw = address.addr().checked_sub(pool.base().addr())? as u64;
        (raw > 0 && raw < pool.size()).then(|| Self::new(raw))
    }

    /// The address in `pool`; null for null. A wrong offset gives an address that must not be
    /// followed.
    #[inline(always)]
    pub fn pointer<M: Machine>(self, pool: &Pool<M>) -> *mut T {
        if self.is_null() {
            return std::ptr::null_mut();
        }
        debug_assert!(self.raw + size_of::<T>() as u64 <= pool.size(), "offset {self:?}");
        pool.base().wrapping_add(self.raw as usize).cast()
    }

    /// The `T` in `pool`; `None` for null.
    ///
    /// # Safety
    /// A valid `T` starts at the offset, lies within the pool's size, is aligned, and is changed
    /// while the reference lives only where it is made of shared words.
    #[inline(always)]
    pub unsafe fn get<M: Machine>(self, pool: &Pool<M>) -> Option<&T> {
        // SAFETY: by the caller's promise; the pool is mapped as long as it is borrowed.
        unsafe { self.pointer(pool).as_ref() }
    }
}

impl<T> Clone for Offset<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Offset<T> {}

impl<T> Default for Offset<T> {
    fn default() -> Self {
        Self::NULL
    }
}

impl<T> PartialEq for Offset<T> {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl<T> Eq for Offset<T> {}

impl<T> PartialOrd for Offset<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Offset<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.raw.cmp(&other.raw)
    }
}

impl<T> Hash for Offset<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.raw.hash(state);
    }
}

impl<T> fmt::Debug for Offset<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Offset({:#x})", self.raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DATA_START, Domain};
    use everleaf_machine::{Atomic, Hardware, Ordering};

    #[test]
    fn an_offset_leads_to_its_word_and_back() {
        let pool = Pool::in_memory(1 << 20, 1 << 20, Domain::Adr).unwrap();
        let offset: Offset<Atomic<u64, Hardware>> = Offset::new(DATA_START + 64);
        // SAFETY: fresh zero bytes of the pool are a valid word, and nobody else uses them.
        let word = unsafe { offset.get(&pool) }.unwrap();
        word.store(9, Ordering::Relaxed);
        assert_eq!(pool.word(offset.raw()).load(Ordering::Relaxed), 9);
        assert_eq!(Offset::of(&pool, &raw const *word), Some(offset));
    }

    #[test]
    fn an_address_outside_of_the_pool_has_no_offset() {
        let pool = Pool::in_memory(1 << 20, 1 << 20, Domain::Adr).unwrap();
        let elsewhere = 1_u8;
        assert_eq!(Offset::of(&pool, &raw const elsewhere), None);
        assert_eq!(Offset::of(&pool, pool.base()), None);
        // SAFETY: null is not followed.
        assert!(unsafe { Offset::<u64>::NULL.get(&pool) }.is_none());
    }
}
