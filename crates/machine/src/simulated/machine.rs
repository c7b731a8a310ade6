//! The simulated side of the seam. Without a current machine, or in one of its pass-through modes,
//! each operation is the plain one.

use std::alloc::Layout;
use std::panic::Location;
use std::sync::atomic::Ordering;

use super::access::Orders;
use super::core::{Core, Mode};
use super::counting::{self, Access};
use super::current;
use super::raw::AddressRange;
use super::words::{self, NOWHERE, WordUpdate, note_plain, noted, running};
use crate::atomic::{AtomicLine, FingerprintLine};
use crate::fingerprint::match_words;
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

fn halves(cell: &PairCell) -> [AddressRange; 2] {
    [AddressRange::of::<u64>(&cell.first), AddressRange::of::<u64>(&cell.second)]
}

fn whole(cell: &PairCell) -> AddressRange {
    AddressRange { size: 16, ..halves(cell)[0] }
}

/// A locked operation that cannot fail, on a word.
#[inline]
fn modify<W: Word>(
    cell: &W::Cell,
    change: WordUpdate,
    order: Ordering,
    at: &'static Location<'static>,
) -> W {
    W::from_bits(words::modify(AddressRange::of::<W>(cell), change, order, at))
}

impl Machine for Simulated {
    const SIMULATED: bool = true;

    #[inline]
    fn load<W: Word>(cell: &W::Cell, order: Ordering) -> W {
        W::from_bits(words::load(AddressRange::of::<W>(cell), order, Location::caller()))
    }

    #[inline]
    fn store<W: Word>(cell: &W::Cell, value: W, order: Ordering) {
        words::store(AddressRange::of::<W>(cell), value.to_bits(), order, Location::caller());
    }

    #[inline]
    fn swap<W: Word>(cell: &W::Cell, value: W, order: Ordering) -> W {
        modify(cell, WordUpdate::Set(value.to_bits()), order, Location::caller())
    }

    #[inline]
    fn compare_exchange<W: Word>(
        cell: &W::Cell,
        current: W,
        new: W,
        success: Ordering,
        failure: Ordering,
    ) -> Result<W, W> {
        let (place, orders) = (AddressRange::of::<W>(cell), Orders { success, failure });
        let (current, new) = (current.to_bits(), new.to_bits());
        match words::compare_exchange(place, current, new, orders, Location::caller()) {
            Ok(old) => Ok(W::from_bits(old)),
            Err(old) => Err(W::from_bits(old)),
        }
    }

    #[inline]
    fn fetch_add<W: Integer>(cell: &W::Cell, value: W, order: Ordering) -> W {
        modify(cell, WordUpdate::Add(value.to_bits()), order, Location::caller())
    }

    #[inline]
    fn fetch_or<W: Integer>(cell: &W::Cell, value: W, order: Ordering) -> W {
        modify(cell, WordUpdate::Or(value.to_bits()), order, Location::caller())
    }

    #[inline]
    fn fetch_and<W: Integer>(cell: &W::Cell, value: W, order: Ordering) -> W {
        modify(cell, WordUpdate::And(value.to_bits()), order, Location::caller())
    }

    #[inline]
    fn read_private<W: Word>(cell: &W::Cell) -> W {
        W::from_bits(words::read_private(AddressRange::of::<W>(cell), Location::caller()))
    }

    #[inline]
    fn write_private<W: Word>(cell: &W::Cell, value: W) {
        words::write_private(AddressRange::of::<W>(cell), value.to_bits(), Location::caller());
    }

    fn load_pair(cell: &PairCell) -> Pair {
        match running() {
            Some(core) => core.load_pair(halves(cell), Location::caller()),
            None => {
                note_plain(Access::Read, whole(cell));
                Hardware::load_pair(cell)
            }
        }
    }

    fn compare_exchange_pair(cell: &PairCell, current: Pair, new: Pair) -> Result<Pair, Pair> {
        match running() {
            Some(core) => core.exchange_pair(halves(cell), current, new, Location::caller()),
            None => {
                note_plain(Access::Locked, whole(cell));
                noted(Hardware::compare_exchange_pair(cell, current, new))
            }
        }
    }

    fn claim_pair(cell: &PairCell, current: Pair, new: Pair) -> Result<Pair, Pair> {
        match running() {
            Some(core) => core.claim_pair(halves(cell), current, new, Location::caller()),
            None => {
                note_plain(Access::Locked, whole(cell));
                noted(Hardware::compare_exchange_pair(cell, current, new))
            }
        }
    }

    fn store_pair(cell: &PairCell, value: Pair) {
        match running() {
            Some(core) => core.store_pair(halves(cell), value, Location::caller()),
            None => {
                note_plain(Access::Write, whole(cell));
                Hardware::store_pair(cell, value);
            }
        }
    }

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
        if let Some(core) = running() {
            core.light_barrier();
        }
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
                let place = AddressRange { address: line.as_ptr().addr(), size: LINE_SIZE };
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

    fn flush(address: *const u8) {
        match running() {
            Some(core) => core.flush(address.addr(), Location::caller()),
            None => {
                counting::note(Access::Flush, AddressRange { address: address.addr(), size: 64 })
            }
        }
    }

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
        note_plain(Access::Write, AddressRange { address: destination.addr(), size: source.len() });
        // SAFETY: the caller owns the destination.
        unsafe { Hardware::write_bytes(destination, source) }
    }

    unsafe fn read_bytes(source: *const u8, length: usize) {
        match running() {
            Some(core) => core.read_bytes(source.addr(), length, Location::caller()),
            None => {
                counting::note(Access::Read, AddressRange { address: source.addr(), size: length })
            }
        }
    }

    fn prefetch(address: *const u8) {
        if running().is_none() {
            counting::note(Access::Prefetch, AddressRange { address: address.addr(), size: 1 });
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
                let node = Hardware::allocate(layout);
                counting::note(
                    Access::Node,
                    AddressRange { address: node.addr(), size: layout.size() },
                );
                node
            }
        }
    }

    unsafe fn deallocate(pointer: *mut u8, layout: Layout) {
        if current::core().is_some_and(|core| core.deallocate(pointer.addr(), layout)) {
            return;
        }
        if current::core().is_none() {
            counting::free(AddressRange { address: pointer.addr(), size: layout.size() });
        }
        // SAFETY: not of the arena, hence from `Hardware::allocate`; the rest is the caller's word.
        unsafe { Hardware::deallocate(pointer, layout) }
    }

    fn drop_words(start: *const u8, length: usize) {
        if let Some(core) = running() {
            core.state
                .borrow_mut()
                .drop_words(AddressRange { address: start.addr(), size: length });
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
        let place = AddressRange { address: line.as_ptr().expose_provenance(), size: LINE_SIZE };
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

    fn is_stepped() -> bool {
        running().is_some()
    }

    fn refuses_space() -> bool {
        running().is_some_and(|core| core.refuses_space())
    }

    fn mark(name: &'static str) {
        match current::core() {
            Some(core) => core.state.borrow_mut().mark(name),
            None => counting::mark(name),
        }
    }

    fn holds_lock(is_held: bool) {
        if current::core().is_none() {
            counting::holds_lock(is_held);
        }
    }

    fn mutant(name: &'static str) -> bool {
        current::core().is_some_and(|core| core.mutant(name))
    }

    fn parallel(threads: usize, count: usize, task: &(dyn Fn(usize) + Sync)) {
        match running() {
            Some(core) => core.parallel(threads, count, task),
            None => (0..count).for_each(task),
        }
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
