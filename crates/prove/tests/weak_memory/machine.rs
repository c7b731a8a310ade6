//! A third machine: words behave as the memory model of C11 allows, as loom explores it.
//!
//! The kernels run unchanged. A word of the seam is an ordinary atomic; beside it, by its address, is
//! the atomic of loom that is really read and written. Loom wants to see an atomic made before a
//! thread uses it, so a model touches every word once before it starts its threads.

use std::alloc::Layout;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use everleaf_machine::{
    FingerprintLine, Hardware, Integer, Machine, Ordering, Pair, PairCell, Word,
};
use loom::sync::atomic::{AtomicU64, fence};

thread_local! {
    // Unordered: never iterated. Loom runs all threads of a model on one thread of the system.
    static WORDS: RefCell<HashMap<usize, Rc<AtomicU64>>> = RefCell::new(HashMap::new());
}

/// Runs `model` in every way that the C11 memory model allows, with few preemptions.
pub fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    builder.check(move || {
        // What an execution before left belongs to it.
        WORDS.with_borrow_mut(HashMap::clear);
        model();
        WORDS.with_borrow_mut(HashMap::clear);
    });
}

/// The atomic of loom beside a word; made with the word's value when it is first met.
fn beside<W: Word>(cell: &W::Cell) -> Rc<AtomicU64> {
    let address = std::ptr::from_ref(cell).addr();
    WORDS.with_borrow_mut(|words| {
        // Relaxed: the word itself is written when it is made, and never again.
        let initial = || Rc::new(AtomicU64::new(W::raw_load(cell, Ordering::Relaxed).to_bits()));
        Rc::clone(words.entry(address).or_insert_with(initial))
    })
}

/// The machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loom;

impl Machine for Loom {
    const SIMULATED: bool = true;

    fn load<W: Word>(cell: &W::Cell, order: Ordering) -> W {
        W::from_bits(beside::<W>(cell).load(order))
    }
    fn store<W: Word>(cell: &W::Cell, value: W, order: Ordering) {
        beside::<W>(cell).store(value.to_bits(), order);
    }
    fn swap<W: Word>(cell: &W::Cell, value: W, order: Ordering) -> W {
        W::from_bits(beside::<W>(cell).swap(value.to_bits(), order))
    }
    fn compare_exchange<W: Word>(
        cell: &W::Cell,
        current: W,
        new: W,
        success: Ordering,
        failure: Ordering,
    ) -> Result<W, W> {
        let word = beside::<W>(cell);
        let result = word.compare_exchange(current.to_bits(), new.to_bits(), success, failure);
        result.map(W::from_bits).map_err(W::from_bits)
    }
    fn fetch_add<W: Integer>(cell: &W::Cell, value: W, order: Ordering) -> W {
        W::from_bits(beside::<W>(cell).fetch_add(value.to_bits(), order))
    }
    fn fetch_or<W: Integer>(cell: &W::Cell, value: W, order: Ordering) -> W {
        W::from_bits(beside::<W>(cell).fetch_or(value.to_bits(), order))
    }
    fn fetch_and<W: Integer>(cell: &W::Cell, value: W, order: Ordering) -> W {
        W::from_bits(beside::<W>(cell).fetch_and(value.to_bits(), order))
    }
    fn read_private<W: Word>(cell: &W::Cell) -> W {
        Self::load(cell, Ordering::Relaxed)
    }
    fn write_private<W: Word>(cell: &W::Cell, value: W) {
        Self::store(cell, value, Ordering::Relaxed);
    }

    fn load_pair(_cell: &PairCell) -> Pair {
        unreachable!("the kernels have no pairs")
    }
    fn compare_exchange_pair(_cell: &PairCell, _: Pair, _: Pair) -> Result<Pair, Pair> {
        unreachable!("the kernels have no pairs")
    }
    fn store_pair(_cell: &PairCell, _value: Pair) {
        unreachable!("the kernels have no pairs")
    }

    fn fence(order: Ordering) {
        fence(order);
    }
    /// With the heavy one a pair of full fences: what the asymmetric pair amounts to.
    fn light_barrier() {
        fence(Ordering::SeqCst);
    }
    fn heavy_barrier() {
        fence(Ordering::SeqCst);
    }
    fn match_bytes(_line: &FingerprintLine<Self>, _byte: u8) -> u64 {
        unreachable!("the kernels have no fingerprints")
    }

    fn flush(_address: *const u8) {}
    fn drain() {}
    unsafe fn write_bytes(_destination: *mut u8, _source: &[u8]) {
        unreachable!("the kernels copy no bytes")
    }
    unsafe fn read_bytes(_source: *const u8, _length: usize) {}
    fn prefetch(_address: *const u8) {}
    fn spin(_attempt: u32) {
        loom::thread::yield_now();
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
    fn mutant(name: &'static str) -> bool {
        BUG.with_borrow(|planted| *planted == Some(name))
    }
    fn now_ns() -> u64 {
        0
    }
}

thread_local! {
    static BUG: RefCell<Option<&'static str>> = const { RefCell::new(None) };
}

/// Runs `work` with a planted bug.
pub fn with_bug<T>(name: &'static str, work: impl FnOnce() -> T) -> T {
    BUG.set(Some(name));
    let result = work();
    BUG.set(None);
    result
}
