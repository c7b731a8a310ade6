//! A clock that moves while an operation runs: all of the operation sees a key as it was at one moment.
//!
//! What was told: an update looked at the clock to learn that its key had not expired, and again for its answer. If the
//! key expired in between, it was done and had found nothing, which no order of a write and an expiry explains; a
//! removal was done, told that it was not, and asked once more. With a clock that is set back an insertion was done
//! over a value.

use std::alloc::Layout;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use everleaf_index::{
    Answer, BytesTree, Change, Decision, Domain, Hardware, Machine, Pool, Production, Session,
    Trees,
};
use everleaf_machine::mapping::Mapping;
use everleaf_machine::{FingerprintLine, Integer, Pair, PairCell, Word};
use everleaf_pool::Backing;

thread_local! {
    /// What the clock tells at the next look, and what it moves by with each.
    static CLOCK: Cell<(u64, i64)> = const { Cell::new((0, 0)) };
}

/// The hardware, with a clock that moves when it is looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Moving;

impl Machine for Moving {
    const SIMULATED: bool = false;

    fn wall_clock_ms() -> u64 {
        let (now, step) = CLOCK.get();
        CLOCK.set((now.saturating_add_signed(step), step));
        now
    }

    fn match_bytes(line: &FingerprintLine<Self>, byte: u8) -> u64 {
        (0..64).filter(|slot| line.read_private(*slot) == byte).fold(0, |all, slot| all | 1 << slot)
    }

    fn load<W: Word>(cell: &W::Cell, order: Ordering) -> W {
        Hardware::load(cell, order)
    }

    fn store<W: Word>(cell: &W::Cell, value: W, order: Ordering) {
        Hardware::store(cell, value, order)
    }

    fn swap<W: Word>(cell: &W::Cell, value: W, order: Ordering) -> W {
        Hardware::swap(cell, value, order)
    }

    fn compare_exchange<W: Word>(
        cell: &W::Cell,
        current: W,
        new: W,
        success: Ordering,
        failure: Ordering,
    ) -> Result<W, W> {
        Hardware::compare_exchange(cell, current, new, success, failure)
    }

    fn fetch_add<W: Integer>(cell: &W::Cell, value: W, order: Ordering) -> W {
        Hardware::fetch_add(cell, value, order)
    }

    fn fetch_or<W: Integer>(cell: &W::Cell, value: W, order: Ordering) -> W {
        Hardware::fetch_or(cell, value, order)
    }

    fn fetch_and<W: Integer>(cell: &W::Cell, value: W, order: Ordering) -> W {
        Hardware::fetch_and(cell, value, order)
    }

    fn read_private<W: Word>(cell: &W::Cell) -> W {
        Hardware::read_private(cell)
    }

    fn write_private<W: Word>(cell: &W::Cell, value: W) {
        Hardware::write_private(cell, value)
    }

    fn load_pair(cell: &PairCell) -> Pair {
        Hardware::load_pair(cell)
    }

    fn compare_exchange_pair(cell: &PairCell, current: Pair, new: Pair) -> Result<Pair, Pair> {
        Hardware::compare_exchange_pair(cell, current, new)
    }

    fn store_pair(cell: &PairCell, value: Pair) {
        Hardware::store_pair(cell, value)
    }

    fn fence(order: Ordering) {
        Hardware::fence(order)
    }

    fn light_barrier() {
        Hardware::light_barrier()
    }

    fn heavy_barrier() {
        Hardware::heavy_barrier()
    }

    fn flush(address: *const u8) {
        Hardware::flush(address)
    }

    fn drain() {
        Hardware::drain()
    }

    unsafe fn write_bytes(destination: *mut u8, source: &[u8]) {
        // SAFETY: the caller's promise.
        unsafe { Hardware::write_bytes(destination, source) }
    }

    unsafe fn read_bytes(source: *const u8, length: usize) {
        // SAFETY: the caller's promise.
        unsafe { Hardware::read_bytes(source, length) }
    }

    fn prefetch(address: *const u8) {
        Hardware::prefetch(address)
    }

    fn spin(attempt: u32) {
        Hardware::spin(attempt)
    }

    fn allocate(layout: Layout) -> *mut u8 {
        Hardware::allocate(layout)
    }

    unsafe fn deallocate(pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { Hardware::deallocate(pointer, layout) }
    }

    fn lifetime(_start: *const u8, _length: usize, _live: bool) {}

    fn mark(_name: &'static str) {}

    fn mutant(_name: &'static str) -> bool {
        false
    }

    fn now_ns() -> u64 {
        Hardware::now_ns()
    }
}

/// Memory of a pool that does not grow.
struct Memory(Mapping);

// SAFETY: a mapping of plain memory never moves, and nothing else reaches it.
unsafe impl Backing for Memory {
    fn base(&self) -> *mut u8 {
        self.0.base()
    }

    fn size(&self) -> u64 {
        self.0.length() as u64
    }

    fn capacity(&self) -> u64 {
        self.0.length() as u64
    }

    fn extend(&self, _old: u64, _new: u64) -> Result<(), everleaf_index::PoolError> {
        unreachable!("the pool is as large as it can be")
    }
}

/// A tree with a key that expires at 1000.
fn with_key(see: impl FnOnce(&Arc<BytesTree<Production, Moving>>, &mut Session<Moving>)) {
    let memory = Memory(Mapping::of_memory(8 << 20, 8 << 20).expect("memory"));
    let pool = Pool::with_backing(Box::new(memory), Domain::Process, 0, true).expect("memory");
    let trees: Trees<Production, Moving> = Trees::create(pool).expect("room");
    let tree = trees.bytes_tree("t").expect("room");
    let mut session = trees.heap().session().expect("a session");
    CLOCK.set((0, 0));
    let put = Change::upsert(b"key", b"value").expiring(1000);
    tree.change(&mut session, &put).expect("room");
    see(&tree, &mut session);
}

/// It had the value, and has another.
const DONE: Answer = Answer { changed: true, old_size: Some(5) };

#[test]
fn what_is_done_to_a_key_has_found_it() {
    for change in [
        Change::update(b"key", b"other"),
        Change::update(b"key", b"other").expiring(5000),
        Change::upsert(b"key", b"other"),
        Change::expire(b"key", 5000),
        Change::remove(b"key"),
    ] {
        with_key(|tree, session| {
            // It expires behind the first look.
            CLOCK.set((999, 1));
            assert_eq!(tree.change(session, &change).expect("room"), DONE, "{change:?}");
        });
    }
}

#[test]
fn a_removal_that_was_decided_is_not_decided_again() {
    with_key(|tree, session| {
        CLOCK.set((999, 1));
        let mut asked = vec![];
        let decide = |found: Option<&[u8]>| {
            asked.push(found.is_some());
            Decision::Remove
        };
        assert!(tree.decide(session, b"key", decide).expect("room"));
        assert_eq!(asked, [true]);
    });
}

#[test]
fn an_insertion_over_what_has_expired_has_found_nothing() {
    with_key(|tree, session| {
        // The clock is set back behind the first look.
        CLOCK.set((1000, -1));
        let insert = Change::insert(b"key", b"other");
        let done = Answer { changed: true, old_size: None };
        assert_eq!(tree.change(session, &insert).expect("room"), done);
    });
}
