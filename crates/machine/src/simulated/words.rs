//! Accesses to words, each compiled once. Code under test is generic over the machine and has thousands of them:
//! it calls these, and does not grow with what an access does.

use std::panic::Location;
use std::sync::atomic::Ordering;

use super::access::Orders;
use super::core::Core;
use super::counting::{self, Access};
use super::current;
use super::fault::FaultKind;
use super::raw::{self, AddressRange};

type At = &'static Location<'static>;

/// What a locked operation that cannot fail does to a word.
#[derive(Clone, Copy)]
pub enum WordUpdate {
    /// The word becomes this.
    Set(u64),
    /// This is added, wrapping in the width of the word.
    Add(u64),
    /// Bits are set.
    Or(u64),
    /// Bits are kept.
    And(u64),
}

impl WordUpdate {
    /// The new bits of a word of `size` bytes.
    fn of(self, old: u64, size: usize) -> u64 {
        match self {
            WordUpdate::Set(bits) => bits,
            WordUpdate::Add(bits) => old.wrapping_add(bits) & (u64::MAX >> (64 - 8 * size)),
            WordUpdate::Or(bits) => old | bits,
            WordUpdate::And(bits) => old & bits,
        }
    }
}

/// A call that is no access to a place.
pub const NOWHERE: AddressRange = AddressRange { address: 0, size: 0 };

/// The machine whose operations are simulated now.
#[inline(always)]
pub fn running<'a>() -> Option<&'a Core> {
    current::core().filter(|core| core.is_running())
}

/// Notes a plain access for machines that want to know: a counting machine all of them, a simulated one
/// between its runs those that may write.
#[inline(always)]
pub fn note_plain(access: Access, place: AddressRange) {
    match current::core() {
        None => counting::note(access, place),
        Some(core) => {
            core.note_plain();
            if access != Access::Read {
                core.note_write(place.address, place.size);
            }
        }
    }
}

/// Notes a compare-and-exchange that was refused.
#[inline]
pub fn noted<W>(result: Result<W, W>) -> Result<W, W> {
    if result.is_err() {
        counting::note(Access::Refused, NOWHERE);
    }
    result
}

/// A load.
#[inline(never)]
pub fn load(place: AddressRange, order: Ordering, at: At) -> u64 {
    match running() {
        Some(core) => core.load(place, order, at),
        None => {
            note_plain(Access::Read, place);
            raw::load(place, order)
        }
    }
}

/// A store.
#[inline(never)]
pub fn store(place: AddressRange, bits: u64, order: Ordering, at: At) {
    match running() {
        Some(core) => core.store(place, bits, order, at),
        None => {
            note_plain(Access::Write, place);
            raw::store(place, bits, order);
        }
    }
}

/// A locked operation that cannot fail; gives the previous bits.
#[inline(never)]
pub fn modify(place: AddressRange, change: WordUpdate, order: Ordering, at: At) -> u64 {
    let Some(core) = running() else {
        note_plain(Access::Locked, place);
        return match change {
            WordUpdate::Set(bits) => raw::swap(place, bits, order),
            WordUpdate::Add(bits) => raw::fetch_add(place, bits, order),
            WordUpdate::Or(bits) => raw::fetch_or(place, bits, order),
            WordUpdate::And(bits) => raw::fetch_and(place, bits, order),
        };
    };
    let orders = Orders { success: order, failure: Ordering::Relaxed };
    core.exchange(place, orders, at, |old| Some(change.of(old, place.size)))
}

/// A compare-and-exchange.
#[inline(never)]
pub fn compare_exchange(
    place: AddressRange,
    current: u64,
    new: u64,
    orders: Orders,
    at: At,
) -> Result<u64, u64> {
    let Some(core) = running() else {
        note_plain(Access::Locked, place);
        return noted(raw::compare_exchange(place, current, new, orders.success, orders.failure));
    };
    let blind = core.has_fault(FaultKind::Blind, at);
    let seen = core.exchange(place, orders, at, |old| (blind || old == current).then_some(new));
    if blind || seen == current { Ok(current) } else { Err(seen) }
}

/// A read of a word that nobody else can write now.
#[inline(never)]
pub fn read_private(place: AddressRange, at: At) -> u64 {
    match running() {
        Some(core) => core.read_private(place, at),
        None => {
            note_plain(Access::Read, place);
            // Relaxed: nobody else writes the word now.
            raw::load(place, Ordering::Relaxed)
        }
    }
}

/// A write of a word that nobody else can reach yet.
#[inline(never)]
pub fn write_private(place: AddressRange, bits: u64, at: At) {
    match running() {
        Some(core) => core.put(place, bits, None, at),
        None => {
            note_plain(Access::Write, place);
            // Relaxed: nobody else can reach the word yet.
            raw::store(place, bits, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Simulated;
    use crate::atomic::Atomic;
    use crate::seam::Integer;

    #[test]
    fn an_addition_wraps_in_the_width_of_the_word() {
        for size in [1, 2, 4, 8] {
            let greatest = u64::MAX >> (64 - 8 * size);
            assert_eq!(WordUpdate::Add(2).of(greatest, size), 1);
            // What is subtracted comes as its negative.
            assert_eq!(WordUpdate::Add(greatest).of(7, size), 6);
        }
    }

    /// Without a machine the operations of a word of each width are those of its standard atomic.
    fn is_plain<W: Integer + From<u8>>(greatest: W) {
        use Ordering::{AcqRel, Acquire, Release};
        let word = Atomic::<W, Simulated>::new(greatest);
        let of = W::from;
        assert_eq!(word.fetch_add(of(3), AcqRel), greatest);
        assert_eq!(word.swap(of(0b1100), AcqRel), of(2));
        assert_eq!(word.fetch_or(of(0b0011), AcqRel), of(0b1100));
        assert_eq!(word.fetch_and(of(0b1001), AcqRel), of(0b1111));
        assert_eq!(word.compare_exchange(of(1), of(4), AcqRel, Acquire), Err(of(9)));
        assert_eq!(word.compare_exchange(of(9), greatest, AcqRel, Acquire), Ok(of(9)));
        assert_eq!(word.load(Acquire), greatest);
        word.store(of(5), Release);
        assert_eq!(word.fetch_sub(of(6), AcqRel), of(5));
        assert_eq!(word.read_private(), greatest);
        word.write_private(of(8));
        assert_eq!(word.load(Acquire), of(8));
    }

    #[test]
    fn without_a_machine_words_of_each_width_are_plain() {
        is_plain(u8::MAX);
        is_plain(u16::MAX);
        is_plain(u32::MAX);
        is_plain(u64::MAX);
    }

    #[test]
    fn a_word_is_read_and_written_within_its_width() {
        let words = [Atomic::<u8, Simulated>::new(1), Atomic::new(2), Atomic::new(3)];
        words[1].store(0xFF, Ordering::Release);
        assert_eq!(words[1].fetch_add(1, Ordering::AcqRel), 0xFF);
        let all = words.each_ref().map(|word| word.load(Ordering::Acquire));
        assert_eq!(all, [1, 0, 3]);
    }
}
