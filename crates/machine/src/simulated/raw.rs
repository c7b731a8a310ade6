//! Plain access to the memory behind a simulated word.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::seam::Word;

/// An address range that is read or written as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub address: usize,
    pub size: usize,
}

impl Place {
    /// The place of a word.
    #[inline(always)]
    pub fn of<W: Word>(cell: &W::Cell) -> Self {
        Place { address: std::ptr::from_ref(cell).expose_provenance(), size: size_of::<W>() }
    }

    /// Whether the ranges share a byte.
    #[inline]
    pub fn overlaps(self, other: Place) -> bool {
        self.address < other.address + other.size && other.address < self.address + self.size
    }
}

/// The word at `place`, seen as an atomic of type `A`.
fn cell<'a, A>(place: Place) -> &'a A {
    debug_assert!(place.address.is_multiple_of(size_of::<A>()), "a word is aligned to its size");
    // SAFETY: a place is made from a reference to a live word, or from a range that the caller of a
    // bulk operation vouched for. A buffered store does not outlive its word: dropping one in memory of
    // the process forgets it, and arena and pool stay mapped as long as their machine.
    unsafe { &*std::ptr::with_exposed_provenance::<A>(place.address) }
}

/// The bits at `place`, a word of 1, 2, 4 or 8 bytes.
///
/// Relaxed: the words of a simulation are touched by one OS thread only.
#[inline]
pub fn read_raw(place: Place) -> u64 {
    match place.size {
        1 => u64::from(cell::<AtomicU8>(place).load(Ordering::Relaxed)),
        2 => u64::from(cell::<AtomicU16>(place).load(Ordering::Relaxed)),
        4 => u64::from(cell::<AtomicU32>(place).load(Ordering::Relaxed)),
        _ => cell::<AtomicU64>(place).load(Ordering::Relaxed),
    }
}

/// Writes the low `place.size` bytes of `bits`.
///
/// Relaxed: as for [`read_raw`].
#[inline]
pub fn write_raw(place: Place, bits: u64) {
    match place.size {
        1 => cell::<AtomicU8>(place).store(bits as u8, Ordering::Relaxed),
        2 => cell::<AtomicU16>(place).store(bits as u16, Ordering::Relaxed),
        4 => cell::<AtomicU32>(place).store(bits as u32, Ordering::Relaxed),
        _ => cell::<AtomicU64>(place).store(bits, Ordering::Relaxed),
    }
}
