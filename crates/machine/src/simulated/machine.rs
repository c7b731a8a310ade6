//! The simulated side of the seam. Without a current machine, or in one of its pass-through modes,
//! each operation is the plain one.

use std::alloc::Layout;
use std::panic::Location;
use std::sync::atomic::Ordering;

use super::access::Orders;
use super::core::{Core, Mode};
use super::counting::{self, Access};
use super::current;
use super::fault::FaultKind;
use super::raw::Place;
use crate::atomic::AtomicLine;
use crate::fingerprint::{FingerprintLine, match_words};
use crate::line_store::LineStore;
use crate::seam::{Integer, Machine, Pair, PairCell, Word};
use crate::{Hardware, LINE_SIZE, keys};

/// The simulated machine: a deterministic scheduler, store buffers, cache lines that lose what was
/// not flushed, and memory that knows when it was freed.
///
/// Code generic over [`Machine`] runs on it unchanged. Outside of a run by a
/// [`Runner`](super::Runner) every operation is the plain one of [`Hardware`], except that flushes
/// and drains do nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Simulated;

/// The machine whose operations are simulated now.
#[inline(always)]
fn running<'a>() -> Option<&'a Core> {
    current::core().filter(|core| core.is_running())
}

/// The words of so many lines, a step for each, in any order as on hardware: from the last one, which
/// is not how they would be read one by one.
fn load_lines<const LINES: usize>(
    core: &Core,
    start: *const u8,
    at: &'static Location<'static>,
) -> [[u64; 8]; LINES] {
    let mut lines = [[0; 8]; LINES];
    for (index, line) in lines.iter_mut().enumerate().rev() {
        *line = core.load_line(start.expose_provenance() + index * LINE_SIZE, at);
    }
    lines
}

/// Notes a plain access for whoever wants to know: a counting machine all of them, a simulated one
/// between its runs those that may write.
#[inline(always)]
fn note_plain(access: Access, place: Place) {
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
fn noted<W>(result: Result<W, W>) -> Result<W, W> {
    if result.is_err() {
        counting::note(Access::Refused, NOWHERE);
    }
    result
}

fn halves(cell: &PairCell) -> [Place; 2] {
    [Place::of::<u64>(&cell.first), Place::of::<u64>(&cell.second)]
}

fn whole(cell: &PairCell) -> Place {
    Place { size: 16, ..halves(cell)[0] }
}

/// A call that is no access to a place.
const NOWHERE: Place = Place { address: 0, size: 0 };

/// The orderings of a locked operation that cannot fail.
fn always(success: Ordering) -> Orders {
    Orders { success, failure: Ordering::Relaxed }
}

/// A locked operation on a word.
#[inline]
fn modify<W: Word>(
    core: &Core,
    cell: &W::Cell,
    orders: Orders,
    at: &'static Location<'static>,
    change: impl FnOnce(W) -> Option<W>,
) -> W {
    let change = |bits| change(W::from_bits(bits)).map(W::to_bits);
    W::from_bits(core.exchange(Place::of::<W>(cell), orders, at, change))
}

impl Machine for Simulated {
    const SIMULATED: bool = true;

    #[inline]
    fn load<W: Word>(cell: &W::Cell, order: Ordering) -> W {
        match running() {
            Some(core) => W::from_bits(core.load(Place::of::<W>(cell), order, Location::caller())),
            None => {
                note_plain(Access::Read, Place::of::<W>(cell));
                W::raw_load(cell, order)
            }
        }
    }

    #[inline]
    fn store<W: Word>(cell: &W::Cell, value: W, order: Ordering) {
        match running() {
            Some(core) => {
                core.store(Place::of::<W>(cell), value.to_bits(), order, Location::caller());
            }
            None => {
                note_plain(Access::Write, Place::of::<W>(cell));
                W::raw_store(cell, value, order);
            }
        }
    }

    #[inline]
    fn swap<W: Word>(cell: &W::Cell, value: W, order: Ordering) -> W {
        match running() {
            Some(core) => modify(core, cell, always(order), Location::caller(), |_: W| Some(value)),
            None => {
                note_plain(Access::Locked, Place::of::<W>(cell));
                W::raw_swap(cell, value, order)
            }
        }
    }

    #[inline]
    fn compare_exchange<W: Word>(
        cell: &W::Cell,
        current: W,
        new: W,
        success: Ordering,
        failure: Ordering,
    ) -> Result<W, W> {
        let Some(core) = running() else {
            note_plain(Access::Locked, Place::of::<W>(cell));
            return noted(W::raw_compare_exchange(cell, current, new, success, failure));
        };
        let at = Location::caller();
        let blind = core.is_spoilt(FaultKind::Blind, at);
        let seen = modify(core, cell, Orders { success, failure }, at, |old: W| {
            (blind || old == current).then_some(new)
        });
        if blind || seen == current { Ok(current) } else { Err(seen) }
    }

    #[inline]
    fn fetch_add<W: Integer>(cell: &W::Cell, value: W, order: Ordering) -> W {
        match running() {
            Some(core) => modify(core, cell, always(order), Location::caller(), |old: W| {
                Some(old.wrapping_sum(value))
            }),
            None => {
                note_plain(Access::Locked, Place::of::<W>(cell));
                W::raw_fetch_add(cell, value, order)
            }
        }
    }

    #[inline]
    fn fetch_or<W: Integer>(cell: &W::Cell, value: W, order: Ordering) -> W {
        match running() {
            Some(core) => modify(core, cell, always(order), Location::caller(), |old: W| {
                Some(old.bit_or(value))
            }),
            None => {
                note_plain(Access::Locked, Place::of::<W>(cell));
                W::raw_fetch_or(cell, value, order)
            }
        }
    }

    #[inline]
    fn fetch_and<W: Integer>(cell: &W::Cell, value: W, order: Ordering) -> W {
        match running() {
            Some(core) => modify(core, cell, always(order), Location::caller(), |old: W| {
                Some(old.bit_and(value))
            }),
            None => {
                note_plain(Access::Locked, Place::of::<W>(cell));
                W::raw_fetch_and(cell, value, order)
            }
        }
    }

    #[inline]
    fn read_private<W: Word>(cell: &W::Cell) -> W {
        match running() {
            Some(core) => W::from_bits(core.read_private(Place::of::<W>(cell), Location::caller())),
            None => {
                note_plain(Access::Read, Place::of::<W>(cell));
                // Relaxed: nobody else writes the word now.
                W::raw_load(cell, Ordering::Relaxed)
            }
        }
    }

    #[inline]
    fn write_private<W: Word>(cell: &W::Cell, value: W) {
        match running() {
            Some(core) => core.put(Place::of::<W>(cell), value.to_bits(), None, Location::caller()),
            None => {
                note_plain(Access::Write, Place::of::<W>(cell));
                // Relaxed: nobody else can reach the word yet.
                W::raw_store(cell, value, Ordering::Relaxed);
            }
        }
    }

    #[inline]
    fn load_pair(cell: &PairCell) -> Pair {
        match running() {
            Some(core) => core.load_pair(halves(cell), Location::caller()),
            None => {
                note_plain(Access::Read, whole(cell));
                Hardware::load_pair(cell)
            }
        }
    }

    #[inline]
    fn compare_exchange_pair(cell: &PairCell, current: Pair, new: Pair) -> Result<Pair, Pair> {
        match running() {
            Some(core) => core.exchange_pair(halves(cell), current, new, Location::caller()),
            None => {
                note_plain(Access::Locked, whole(cell));
                noted(Hardware::compare_exchange_pair(cell, current, new))
            }
        }
    }

    #[inline]
    fn claim_pair(cell: &PairCell, current: Pair, new: Pair) -> Result<Pair, Pair> {
        match running() {
            Some(core) => core.claim_pair(halves(cell), current, new, Location::caller()),
            None => {
                note_plain(Access::Locked, whole(cell));
                noted(Hardware::compare_exchange_pair(cell, current, new))
            }
        }
    }

    #[inline]
    fn store_pair(cell: &PairCell, value: Pair) {
        match running() {
            Some(core) => core.store_pair(halves(cell), value, Location::caller()),
            None => {
                note_plain(Access::Write, whole(cell));
                Hardware::store_pair(cell, value);
            }
        }
    }

    #[inline]
    fn fence(order: Ordering) {
        match running() {
            Some(core) => core.fence(order, Location::caller()),
            None if order == Ordering::SeqCst => counting::note(Access::Fence, NOWHERE),
            None => {}
        }
    }

    /// On hardware it is a compiler barrier; simulated store buffers stay as they are.
    #[inline]
    fn light_barrier() {
        Hardware::light_barrier();
    }

    /// Without a machine, threads may share what is plain: then it is the barrier of the hardware.
    fn heavy_barrier() {
        match current::core() {
            Some(core) if core.is_running() => core.heavy_barrier(),
            Some(_) => {}
            None => Hardware::heavy_barrier(),
        }
    }

    fn match_bytes(line: &FingerprintLine<Self>, byte: u8) -> u64 {
        let words = match running() {
            Some(core) => core.load_line(line.as_ptr().expose_provenance(), Location::caller()),
            None => {
                let place = Place { address: line.as_ptr().addr(), size: LINE_SIZE };
                counting::note(Access::Read, place);
                // SAFETY: a fingerprint line is 64 aligned bytes; eight words of them are read.
                unsafe { line.as_ptr().cast::<[u64; LINE_SIZE / 8]>().read_volatile() }
            }
        };
        match_words(words, byte)
    }

    #[track_caller]
    unsafe fn match_entries(entries: *const u8, key: u64) -> Option<u64> {
        let core = running().filter(|core| core.compares_widely())?;
        let words = load_lines::<16>(core, entries, Location::caller());
        let bit = |index: usize| u64::from(words[index / 4][index % 4 * 2] == key) << index;
        Some((0..keys::ENTRY_TABLE_LENGTH).map(bit).sum())
    }

    #[track_caller]
    unsafe fn match_at_most(words: *const u8, key: u64) -> Option<u32> {
        let core = running().filter(|core| core.compares_widely())?;
        let words = load_lines::<4>(core, words, Location::caller());
        let bit = |index: usize| u32::from(words[index / 8][index % 8] <= key) << index;
        Some((0..keys::WORD_TABLE_SIZE / 8).map(bit).sum())
    }

    #[inline]
    fn flush(address: *const u8) {
        match running() {
            Some(core) => core.flush(address.addr(), Location::caller()),
            None => counting::note(Access::Flush, Place { address: address.addr(), size: 64 }),
        }
    }

    #[inline]
    fn drain() {
        match running() {
            Some(core) => core.drain(Location::caller()),
            None => counting::note(Access::Drain, NOWHERE),
        }
    }

    unsafe fn write_bytes(destination: *mut u8, source: &[u8]) {
        if let Some(core) = running() {
            let address = destination.expose_provenance();
            return core.write_bytes(address, source, Location::caller());
        }
        note_plain(Access::Write, Place { address: destination.addr(), size: source.len() });
        // SAFETY: the caller owns the destination.
        unsafe { Hardware::write_bytes(destination, source) }
    }

    unsafe fn read_bytes(source: *const u8, length: usize) {
        match running() {
            Some(core) => core.read_bytes(source.addr(), length, Location::caller()),
            None => counting::note(Access::Read, Place { address: source.addr(), size: length }),
        }
    }

    #[inline]
    fn prefetch(address: *const u8) {
        if running().is_none() {
            counting::note(Access::Prefetch, Place { address: address.addr(), size: 1 });
        }
    }

    fn spin(attempt: u32) {
        match current::core() {
            Some(core) if core.is_running() => core.spin(),
            Some(core) => core.spin_plainly(attempt),
            None => {
                counting::note(Access::Spin, NOWHERE);
                Hardware::spin(attempt);
            }
        }
    }

    fn allocate(layout: Layout) -> *mut u8 {
        match current::core() {
            Some(core) if core.mode.get() != Mode::Recover => core.allocate(layout),
            Some(core) => core.lend(layout),
            None => {
                counting::note(Access::Node, NOWHERE);
                Hardware::allocate(layout)
            }
        }
    }

    unsafe fn deallocate(pointer: *mut u8, layout: Layout) {
        if current::core().is_some_and(|core| core.deallocate(pointer.addr(), layout)) {
            return;
        }
        // SAFETY: not of the arena, hence from `Hardware::allocate`; the rest is the caller's word.
        unsafe { Hardware::deallocate(pointer, layout) }
    }

    fn drop_words(start: *const u8, length: usize) {
        if let Some(core) = running() {
            core.state.borrow_mut().drop_words(Place { address: start.addr(), size: length });
        }
    }

    fn lifetime(start: *const u8, length: usize, live: bool) {
        match current::core() {
            Some(core) if core.mode.get() != Mode::Recover => {
                core.lifetime(start.addr(), length, live);
            }
            Some(_) => {}
            None if live => counting::note(Access::Piece, NOWHERE),
            None => {}
        }
    }

    fn has_line_store(_how: LineStore) -> bool {
        true
    }

    fn store_line(line: &AtomicLine<Self>, words: &[u64; 8], how: LineStore) -> bool {
        let place = Place { address: line.as_ptr().expose_provenance(), size: LINE_SIZE };
        if let Some(core) = running() {
            return core.store_line(place.address, words, how, Location::caller());
        }
        note_plain(Access::Write, place);
        for (word, value) in line.words.iter().zip(words) {
            word.raw_store(*value);
        }
        if how == LineStore::Direct {
            note_plain(Access::Flush, place);
        }
        true
    }

    fn mark(name: &'static str) {
        match current::core() {
            Some(core) => core.state.borrow_mut().mark(name),
            None => counting::mark(name),
        }
    }

    fn mutant(name: &'static str) -> bool {
        current::core().is_some_and(|core| core.mutant(name))
    }

    fn now_ns() -> u64 {
        match current::core() {
            Some(core) => core.now_ns(),
            None => Hardware::now_ns(),
        }
    }

    fn wall_clock_ms() -> u64 {
        current::core().map_or(0, |core| core.wall_clock_ms.get())
    }
}
