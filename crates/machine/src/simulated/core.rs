//! One simulated machine: its state, and the points where a fiber gives up the processor.
//!
//! Everything mutable sits behind one `RefCell` that is never held across a suspension, so fibers
//! and driver cannot alias it; the rest are `Cell`s.

use std::alloc::Layout;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::panic::Location;
use std::ptr;

use corosensei::Yielder;

use super::THREADS_MAX;
use super::config::{Config, MemoryModel};
use super::failure::FailureKind;
use super::fault::FaultKind;
use super::parallel::Shared;
use super::raw::AddressRange;
use super::region::Memory;
use super::state::{Decision, State};
use crate::Hardware;
use crate::seam::Machine;

/// How machine operations behave now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Plain, at full speed; writes to the pool are noted, allocations come from the arena.
    Track,
    /// Plain, on a crash image: writes are saved for undoing, allocations are the process's own.
    Recover,
    /// Simulated.
    Run,
}

/// Why a fiber returned to the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// Thread `State::next` shall go on.
    Switch,
    /// The images of a crash at this point shall be checked; then the same fiber goes on.
    CrashPoint,
    /// The schedule is over: it failed, or nobody is left to run.
    Stop,
}

/// One simulated machine.
pub struct Core {
    pub mode: Cell<Mode>,
    pub request: Cell<Request>,
    pub state: RefCell<State>,
    /// Whether an access has a fault, or those that could have one are listed.
    has_faults: bool,
    /// Whether loads may be given older values.
    pub is_weak: bool,
    yielders: [Cell<*const Yielder<(), ()>>; THREADS_MAX],
    /// Start and end of each fiber's stack.
    stacks: [Cell<(usize, usize)>; THREADS_MAX],
    fiber: Cell<usize>,
    /// Thread 0 is still opening the pool.
    pub opening: Cell<bool>,
    /// Whether the threads that wait for that help, where it is split among threads.
    pub shares_opening: Cell<bool>,
    pub shared: Shared,
    /// The process died before this life, and the caches kept what it had stored.
    pub was_killed: Cell<bool>,
    /// Operations left until a recovery at full speed counts as endless.
    patience: Cell<u64>,
    /// What the calendar says, and goes on saying.
    pub wall_clock_ms: Cell<u64>,
    /// A panic is unwinding: nothing waits or switches until it was caught.
    pub dying: Cell<bool>,
    /// Volatile memory that the recovery of a crash image has from the process.
    lent: RefCell<Vec<(*mut u8, Layout)>>,
}

impl Core {
    pub fn new(config: Config, pool_bytes: usize) -> Self {
        Core {
            mode: Cell::new(Mode::Track),
            request: Cell::new(Request::Switch),
            wall_clock_ms: Cell::new(0),
            is_weak: config.memory == MemoryModel::Weak,
            has_faults: config.fault.is_some() || config.lists_faults,
            state: RefCell::new(State::new(config, pool_bytes)),
            yielders: std::array::from_fn(|_| Cell::new(ptr::null())),
            stacks: std::array::from_fn(|_| Cell::new((0, 0))),
            fiber: Cell::new(0),
            dying: Cell::new(false),
            opening: Cell::new(false),
            shares_opening: Cell::new(false),
            shared: Shared::default(),
            was_killed: Cell::new(false),
            patience: Cell::new(u64::MAX),
            lent: RefCell::default(),
        }
    }

    /// The running pool.
    pub fn memory(&self) -> Memory {
        let state = self.state.borrow();
        let base = state.space.region().base();
        Memory {
            base,
            size: state.space.pool_bytes,
            domain: state.config.domain,
            outlives_stores: self.was_killed.get(),
        }
    }

    /// The crash image that is built on top of the durable words.
    pub fn image_memory(&self) -> Memory {
        let state = self.state.borrow();
        let base = state.persistence.shadow.region().base();
        Memory {
            base,
            size: state.space.pool_bytes,
            domain: state.config.domain,
            outlives_stores: false,
        }
    }

    /// Whether operations are simulated now.
    #[inline(always)]
    pub fn is_running(&self) -> bool {
        self.mode.get() == Mode::Run
    }

    /// Registers the way back from the fiber of `thread`; called on that fiber.
    pub fn set_yielder(&self, thread: usize, yielder: &Yielder<(), ()>) {
        self.yielders[thread].set(yielder);
    }

    /// Says where the stack of `thread`'s fiber is.
    pub fn set_stack(&self, thread: usize, stack: Range<usize>) {
        self.stacks[thread].set((stack.start, stack.end));
    }

    /// Whether an address lies on the running fiber's stack, or on that of the one it helps.
    pub fn is_on_stack(&self, address: usize) -> bool {
        let contains = |thread: usize| {
            let (start, end) = self.stacks[thread].get();
            (start..end).contains(&address)
        };
        contains(self.fiber.get()) || self.opening.get() && contains(0)
    }

    /// Says which fiber is about to be resumed.
    pub fn set_fiber(&self, thread: usize) {
        self.fiber.set(thread);
        self.state.borrow_mut().current = thread;
    }

    /// Whether an access has this fault.
    #[inline(always)]
    pub fn has_fault(&self, kind: FaultKind, at: &'static Location<'static>) -> bool {
        self.has_faults && self.state.borrow_mut().faults.meet(kind, at)
    }

    /// What a load gives.
    #[inline(always)]
    pub fn possibly_stale(
        &self,
        place: AddressRange,
        value: u64,
        at: &'static Location<'static>,
    ) -> u64 {
        if !self.has_faults {
            return value;
        }
        let state = &mut *self.state.borrow_mut();
        state.faults.load(state.current, place.address, value, at)
    }

    /// A store that was to come late comes now.
    #[inline(always)]
    pub fn put_late(&self) {
        if self.has_faults {
            let late = {
                let state = &mut *self.state.borrow_mut();
                state.threads[state.current].late.take()
            };
            if let Some((place, bits)) = late {
                self.store_now(place, bits, Location::caller());
            }
        }
    }

    /// Returns to the driver until it resumes this fiber.
    pub fn suspend(&self, request: Request) {
        self.request.set(request);
        let yielder = self.yielders[self.fiber.get()].get();
        // SAFETY: each fiber registers its yielder, which lives on its own stack, before anything
        // that can suspend; only the running fiber gets here.
        unsafe { &*yielder }.suspend(());
    }

    /// A scheduling point: others may run before this returns.
    #[inline]
    pub fn point(&self) {
        while !self.dying.get() {
            let decision = self.state.borrow_mut().decide();
            match decision {
                Decision::Continue => return,
                Decision::Switch => return self.suspend(Request::Switch),
                Decision::Drain(thread) => self.drain_one(thread),
                Decision::End => self.stop(),
                Decision::Fail(kind, message) => self.fail(kind, message),
            }
        }
    }

    /// The running thread calls an operation.
    pub fn call(&self) {
        let state = &mut *self.state.borrow_mut();
        state.forget_waits();
        if let Some(races) = &mut state.races {
            races.call(state.current);
        }
    }

    /// The running thread's operation returns.
    pub fn give_answer(&self) {
        let state = &mut *self.state.borrow_mut();
        if let Some(races) = &mut state.races {
            races.give_answer(state.current);
        }
    }

    /// The running thread has ended: chooses what goes on. Store buffers that are left empty
    /// themselves here if nobody else will.
    pub fn finish(&self) {
        self.put_late();
        self.state.borrow_mut().threads[self.fiber.get()].finished = true;
        loop {
            if self.state.borrow().all_done() {
                let threads = self.state.borrow().threads.len();
                return (0..threads).for_each(|thread| self.drain_buffer(thread));
            }
            let decision = self.state.borrow_mut().decide();
            match decision {
                Decision::Continue | Decision::Switch => return self.request.set(Request::Switch),
                Decision::Drain(thread) => self.drain_one(thread),
                Decision::End => return,
                Decision::Fail(kind, message) => self.fail(kind, message),
            }
        }
    }

    /// Has the images of a crash here checked, in the middle of an operation, if that is wanted.
    pub fn crash_point(&self) {
        if !self.state.borrow().config.crash.at_returns {
            self.crash_point_at_return();
        }
    }

    /// The same where an operation has returned.
    pub fn crash_point_at_return(&self) {
        if self.state.borrow().config.crash.enabled && !self.dying.get() {
            self.suspend(Request::CrashPoint);
        }
    }

    /// Ends the schedule with a failure; this fiber never goes on.
    pub fn fail(&self, kind: FailureKind, message: String) -> ! {
        self.state.borrow_mut().failure.get_or_insert((kind, message));
        self.stop()
    }

    /// Ends the schedule; this fiber never goes on.
    fn stop(&self) -> ! {
        loop {
            self.suspend(Request::Stop);
        }
    }

    /// Unwraps the result of a check.
    #[inline]
    pub fn demand<T>(&self, result: Result<T, (FailureKind, String)>) -> T {
        match result {
            Ok(value) => value,
            Err((kind, message)) => self.fail(kind, message),
        }
    }

    /// Starts a recovery that must end.
    pub fn be_patient(&self) {
        self.patience.set(self.state.borrow().config.recovery_limit);
    }

    /// Starts what is done once, before all schedules, and must end, too: it may be long.
    pub fn be_very_patient(&self) {
        self.patience.set(self.state.borrow().config.recovery_limit.saturating_mul(20));
    }

    /// Volatile memory for the recovery of a crash image, until [`Core::free_lent`].
    pub fn lend(&self, layout: Layout) -> *mut u8 {
        let memory = Hardware::allocate(layout);
        if !memory.is_null() {
            self.lent.borrow_mut().push((memory, layout));
        }
        memory
    }

    /// The recovery is over and what it built is gone: so is its memory, freed by it or not.
    pub fn free_lent(&self) {
        for (memory, layout) in self.lent.borrow_mut().drain(..) {
            // SAFETY: from `lend` with this layout, and given back nowhere else.
            unsafe { Hardware::deallocate(memory, layout) }
        }
    }

    /// Notes an operation of the pass-through modes.
    ///
    /// # Panics
    /// When patience ends.
    #[inline]
    pub fn note_plain(&self) {
        let left = self.patience.get();
        if left == 0 {
            // Destructors that run because of this very panic may go on.
            assert!(self.dying.get(), "what one thread does alone, as recovery, does not end");
            return;
        }
        self.patience.set(left - 1);
    }

    /// Notes a plain write of the pass-through modes, before it happens.
    #[inline]
    pub fn note_write(&self, address: usize, length: usize) {
        let mut state = self.state.borrow_mut();
        let last = address + length.max(1) - 1;
        if self.mode.get() == Mode::Recover {
            let shadow = &mut state.persistence.shadow;
            if let (Some(start), Some(end)) =
                (shadow.region().offset(address), shadow.region().offset(last))
            {
                (start / 64..=end / 64).for_each(|line| shadow.save(line));
            }
        } else if let (Some(start), Some(end)) =
            (state.space.offset(address), state.space.offset(last))
            && end < state.space.pool_bytes
        {
            (start / 64..=end / 64).for_each(|line| state.persistence.touch(line));
        }
    }
}
