//! The mapping table: which record is the topmost of a page, by the number of the page.
//!
//! ```text
//!   page number | chunk | slot |        directory[chunk] -> slots[slot] -> record
//! ```
//!
//! Pages are known by their numbers everywhere, so one exchange of a slot changes a page for all that have
//! links to it. Chunks are made when a number in them is first used. Numbers whose page was not made in the
//! end are kept for the next one.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Atomic, AtomicPointer, Machine, Ordering};

use super::layout::Record;

/// Slots of a chunk: few on a simulated machine, which initialises them one by one.
const fn chunk_length<M: Machine>() -> usize {
    if M::SIMULATED { 8 } else { 1024 }
}

/// Chunks that there can be: four million pages.
const fn chunk_count<M: Machine>() -> usize {
    if M::SIMULATED { 512 } else { 4096 }
}

/// Numbers that are kept.
const SPARE_COUNT: usize = 8;

type Slot<M> = AtomicPointer<Record<M>, M>;

/// See the module.
pub(super) struct Table<M: Machine> {
    directory: Box<[AtomicPointer<Slot<M>, M>]>,
    /// Numbers that were ever used.
    used: Atomic<u64, M>,
    /// Numbers, increased by one, that were given back.
    spare: [Atomic<u64, M>; SPARE_COUNT],
}

impl<M: Machine> Table<M> {
    const CHUNK_SIZE: usize = chunk_length::<M>() * size_of::<Slot<M>>();

    /// A table without pages.
    pub fn new() -> Self {
        let empty = |_| AtomicPointer::new(std::ptr::null_mut());
        Table {
            directory: (0..chunk_count::<M>()).map(empty).collect(),
            used: Atomic::new(0),
            spare: std::array::from_fn(|_| Atomic::new(0)),
        }
    }

    /// A number for a new page, whose slot is empty.
    ///
    /// # Errors
    /// No memory, or all numbers are used.
    pub fn take(&self, session: &mut Session<M>) -> Result<u64, AllocError> {
        // Relaxed: a number is only a number; `make_room` has its own order.
        let page = self.take_spare().unwrap_or_else(|| self.used.fetch_add(1, Ordering::Relaxed));
        let made = self.make_room(session, page);
        if made.is_err() && (page as usize) < chunk_count::<M>() * chunk_length::<M>() {
            self.give_back(page);
        }
        made.map(|()| page)
    }

    fn take_spare(&self) -> Option<u64> {
        self.spare.iter().find_map(|spare| {
            // Relaxed: the exchange looks again.
            if spare.load(Ordering::Relaxed) == 0 {
                return None;
            }
            // AcqRel: the slot was emptied before; pairs with the exchange in `give_back`.
            spare.swap(0, Ordering::AcqRel).checked_sub(1)
        })
    }

    /// Keeps a number for which no page was made. If many are kept already it is lost, and with it eight
    /// bytes of the table.
    pub fn give_back(&self, page: u64) {
        for spare in &self.spare {
            // AcqRel: pairs with the exchange in `take`. Relaxed on failure: nothing is concluded.
            let kept = spare.compare_exchange(0, page + 1, Ordering::AcqRel, Ordering::Relaxed);
            if kept.is_ok() {
                return;
            }
        }
    }

    /// Makes the chunk of a number, unless it is there.
    fn make_room(&self, session: &mut Session<M>, page: u64) -> Result<(), AllocError> {
        let chunk = page as usize / chunk_length::<M>();
        let place = self.directory.get(chunk).ok_or(AllocError::OutOfMemory)?;
        // Acquire: its slots are there; pairs with the exchange below.
        if !place.load(Ordering::Acquire).is_null() {
            return Ok(());
        }
        let slots: *mut Slot<M> = session.allocate_node(Self::CHUNK_SIZE)?.cast();
        for index in 0..chunk_length::<M>() {
            // SAFETY: just allocated with room for so many slots, and nobody else's.
            unsafe { slots.wrapping_add(index).write(AtomicPointer::new(std::ptr::null_mut())) };
        }
        // AcqRel: the slots before the chunk; pairs with the acquires here and in `slot`. Acquire on failure:
        // the other chunk's slots are there.
        let null = std::ptr::null_mut();
        if place.compare_exchange(null, slots, Ordering::AcqRel, Ordering::Acquire).is_err() {
            M::mark("bwtree.chunk_lost");
            // SAFETY: allocated above with this size; nobody else has seen it.
            unsafe { session.free_node(slots.cast(), Self::CHUNK_SIZE) };
        }
        Ok(())
    }

    #[inline(always)]
    fn slot(&self, page: u64) -> &Slot<M> {
        let chunk = &self.directory[page as usize / chunk_length::<M>()];
        // Acquire: its slots are there; pairs with the exchange in `make_room`.
        let slots = chunk.load(Ordering::Acquire);
        assert!(!slots.is_null(), "a page has a number that was taken");
        // SAFETY: a chunk has so many slots and stays as long as the table.
        unsafe { &*slots.wrapping_add(page as usize % chunk_length::<M>()) }
    }

    /// The topmost record of a page; null if there is none.
    #[inline(always)]
    #[track_caller]
    pub fn top(&self, page: u64) -> *mut Record<M> {
        // Acquire: the record, and all below it, are complete; pairs with the exchange in `change` and the
        // store in `set`.
        self.slot(page).load(Ordering::Acquire)
    }

    /// Gives a new page, which nothing leads to yet, its first record; or takes it away.
    pub fn set(&self, page: u64, top: *mut Record<M>) {
        // Release: the record is complete; pairs with the acquire in `top`.
        self.slot(page).store(top, Ordering::Release);
    }

    /// Makes `new` the topmost record of a page if `seen` still is. Whether it was.
    #[track_caller]
    pub fn change(&self, page: u64, seen: *mut Record<M>, new: *mut Record<M>) -> bool {
        // AcqRel: the record is complete, and what it is put on was seen; pairs with the acquire in `top`, and
        // leaves nothing in a store buffer. Relaxed on failure: nothing is read.
        let slot = self.slot(page);
        slot.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// How many numbers were ever used.
    pub fn used(&self) -> u64 {
        // Relaxed: for walks while nobody else is active, and for counts.
        self.used.load(Ordering::Relaxed)
    }

    /// The topmost record of a number, if there is a page; whatever number. Nobody else is active.
    pub fn find(&self, page: u64) -> Option<*mut Record<M>> {
        let chunk = self.directory.get(page as usize / chunk_length::<M>())?;
        let top = if chunk.read_private().is_null() { return None } else { self.top(page) };
        (!top.is_null()).then_some(top)
    }

    /// Frees the chunks. Nobody uses the table any more.
    pub fn free(&self, session: &mut Session<M>) {
        for chunk in &self.directory {
            let slots = chunk.read_private();
            if !slots.is_null() {
                // SAFETY: allocated with this size by a session of the heap; nobody uses it any more.
                unsafe { session.free_node(slots.cast(), Self::CHUNK_SIZE) };
            }
        }
    }

    /// Bytes of the directory.
    pub fn bytes(&self) -> u64 {
        size_of_val(&*self.directory) as u64
    }
}
