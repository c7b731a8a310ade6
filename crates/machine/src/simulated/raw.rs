//! Plain access to the memory behind a simulated word.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::seam::Word;

/// An address range that is read or written as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressRange {
    pub address: usize,
    pub size: usize,
}

impl AddressRange {
    /// The place of a word.
    #[inline(always)]
    pub fn of<W: Word>(cell: &W::Cell) -> Self {
        AddressRange { address: std::ptr::from_ref(cell).expose_provenance(), size: size_of::<W>() }
    }

    /// Whether the ranges share a byte.
    #[inline]
    pub fn overlaps(self, other: AddressRange) -> bool {
        self.address < other.address + other.size && other.address < self.address + self.size
    }
}

/// The word at `place`, seen as an atomic of type `A`.
fn cell<'a, A>(place: AddressRange) -> &'a A {
    debug_assert!(place.address.is_multiple_of(size_of::<A>()), "a word is aligned to its size");
    // SAFETY: a place is made from a reference to a live word, or from a range that the caller of a
    // bulk operation vouched for. A buffered store does not outlive its word: dropping one in memory of
    // the process forgets it, and arena and pool stay mapped as long as their machine.
    unsafe { &*std::ptr::with_exposed_provenance::<A>(place.address) }
}

/// Evaluates an expression for the standard atomic at a place, a word of 1, 2, 4 or 8 bytes, whose type has the
/// name that is given second.
macro_rules! with_cell {
    ($place:expr, $cell:ident, $word:ident, $result:expr) => {{
        macro_rules! sized {
            ($atomic:ty, $integer:ty) => {{
                type $word = $integer;
                let $cell = cell::<$atomic>($place);
                $result
            }};
        }
        match $place.size {
            1 => sized!(AtomicU8, u8),
            2 => sized!(AtomicU16, u16),
            4 => sized!(AtomicU32, u32),
            _ => sized!(AtomicU64, u64),
        }
    }};
}

/// Plain load.
#[inline]
pub fn load(place: AddressRange, order: Ordering) -> u64 {
    with_cell!(place, cell, Integer, Integer::into(cell.load(order)))
}

/// Plain store of the low `place.size` bytes of `bits`.
#[inline]
pub fn store(place: AddressRange, bits: u64, order: Ordering) {
    with_cell!(place, cell, Integer, cell.store(bits as Integer, order))
}

/// Plain exchange; gives the previous bits. So do those that follow.
pub fn swap(place: AddressRange, bits: u64, order: Ordering) -> u64 {
    with_cell!(place, cell, Integer, Integer::into(cell.swap(bits as Integer, order)))
}

/// Plain add, wrapping.
pub fn fetch_add(place: AddressRange, bits: u64, order: Ordering) -> u64 {
    with_cell!(place, cell, Integer, Integer::into(cell.fetch_add(bits as Integer, order)))
}

/// Plain or.
pub fn fetch_or(place: AddressRange, bits: u64, order: Ordering) -> u64 {
    with_cell!(place, cell, Integer, Integer::into(cell.fetch_or(bits as Integer, order)))
}

/// Plain and.
pub fn fetch_and(place: AddressRange, bits: u64, order: Ordering) -> u64 {
    with_cell!(place, cell, Integer, Integer::into(cell.fetch_and(bits as Integer, order)))
}

/// Plain compare-and-exchange (strong).
pub fn compare_exchange(
    place: AddressRange,
    current: u64,
    new: u64,
    success: Ordering,
    failure: Ordering,
) -> Result<u64, u64> {
    with_cell!(place, cell, Integer, {
        let (current, new) = (current as Integer, new as Integer);
        match cell.compare_exchange(current, new, success, failure) {
            Ok(old) => Ok(old.into()),
            Err(old) => Err(old.into()),
        }
    })
}

/// The bits at `place`.
///
/// Relaxed: the words of a simulation are touched by one OS thread only.
#[inline]
pub fn read_raw(place: AddressRange) -> u64 {
    load(place, Ordering::Relaxed)
}

/// Writes the low `place.size` bytes of `bits`.
///
/// Relaxed: as for [`read_raw`].
#[inline]
pub fn write_raw(place: AddressRange, bits: u64) {
    store(place, bits, Ordering::Relaxed);
}
