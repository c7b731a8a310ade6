//! Fences, flushes, drains, waiting, and memory of the running thread.

use std::alloc::Layout;
use std::panic::Location;
use std::sync::atomic::Ordering;

use super::core::{Core, Mode};
use super::failure::FailureKind;
use super::fault::FaultKind;
use super::raw::AddressRange;
use super::sites::SiteKind;
use super::space::{DEAD, Freed, HANDED};
use super::state::Buffered;

type At = &'static Location<'static>;

impl Core {
    /// Whether a fence that drains flushes or not has anything to do now.
    fn has_work(&self, drains: bool) -> bool {
        let state = self.state.borrow();
        let thread = &state.threads[state.current];
        !thread.buffer.is_empty() || drains && !thread.flushes.is_empty()
    }

    pub fn fence(&self, order: Ordering, at: At) {
        self.put_late();
        if self.has_fault(FaultKind::Skip, at) {
            return;
        }
        {
            let mut state = self.state.borrow_mut();
            let thread = state.current;
            if let Some(races) = &mut state.races {
                races.fence(thread, order);
            }
        }
        // Weaker fences order nothing that either memory model reorders.
        if order != Ordering::SeqCst {
            return;
        }
        let drains = self.state.borrow().config.rmw_drains;
        if self.has_work(drains) {
            self.point();
            self.state.borrow_mut().note("fence", AddressRange { address: 0, size: 0 }, 0, at);
            self.complete(drains);
        }
    }

    #[inline]
    pub fn light_barrier(&self) {
        if self.is_weak {
            let mut state = self.state.borrow_mut();
            let thread = state.current;
            if let Some(races) = &mut state.races {
                races.light_barrier(thread);
            }
        }
    }

    pub fn heavy_barrier(&self) {
        self.point();
        let (thread, threads) = {
            let state = self.state.borrow();
            (state.current, state.threads.len())
        };
        if let Some(races) = &mut self.state.borrow_mut().races {
            races.heavy_barrier(thread, threads);
        }
        (0..threads).for_each(|thread| self.drain_buffer(thread));
    }

    pub fn flush(&self, address: usize, at: At) {
        self.put_late();
        let is_left_out = self.has_fault(FaultKind::Skip, at);
        let mut state = self.state.borrow_mut();
        if !state.sites.hit(SiteKind::Flush, at) || is_left_out {
            return;
        }
        state.counts.flushes += 1;
        state.note("flush", AddressRange { address: address & !63, size: 64 }, 0, at);
        let thread = state.current;
        if state.is_tso() {
            state.threads[thread].buffer.push_back(Buffered::Flush(address));
        } else {
            state.flush_now(thread, address);
        }
    }

    pub fn drain(&self, at: At) {
        self.put_late();
        let is_left_out = self.has_fault(FaultKind::Skip, at);
        if !self.state.borrow_mut().sites.hit(SiteKind::Drain, at) || is_left_out {
            return;
        }
        self.state.borrow_mut().counts.drains += 1;
        if self.has_work(true) {
            self.point();
            self.state.borrow_mut().note("drain", AddressRange { address: 0, size: 0 }, 0, at);
            self.complete(true);
        }
    }

    /// A waiting loop at full speed, where nobody can come: it must have found a lock that was left
    /// held in the pool, say.
    pub fn spin_plainly(&self, attempt: u32) {
        assert!(attempt < 1000, "waits for another thread while there is none");
    }

    /// One turn of a waiting loop.
    pub fn spin(&self) {
        self.state.borrow_mut().fall_asleep();
        self.point();
        self.state.borrow_mut().wake_up();
    }

    pub fn allocate(&self, layout: Layout) -> *mut u8 {
        let mut state = self.state.borrow_mut();
        // An opening without memory is refused, which is no failure of recovery.
        let may_refuse = self.is_running() && !self.opening.get();
        let refuse = state.config.fail_allocation;
        let pointer = state.space.allocate(layout, may_refuse, refuse);
        let thread = state.current;
        let is_judged = state.config.births && self.is_running() && !pointer.is_null();
        if let Some(races) = state.races.as_mut().filter(|_| is_judged) {
            races.hand_out(thread, pointer.addr(), layout.size());
        }
        pointer
    }

    /// Whether this request for space of the pool is the one to be refused. An opening without space is refused, which
    /// is no failure of recovery.
    pub fn refuses_space(&self) -> bool {
        if self.opening.get() {
            return false;
        }
        let mut state = self.state.borrow_mut();
        let refuse = state.config.fail_space;
        state.space.refuses_space(refuse)
    }

    /// Takes arena memory out of use for the rest of the schedule; false if it is not the arena's.
    pub fn deallocate(&self, address: usize, layout: Layout) -> bool {
        if self.mode.get() == Mode::Recover {
            return true;
        }
        let mut state = self.state.borrow_mut();
        let Some(start) = state.space.offset(address) else { return false };
        let twice = state.space.flags(start) & DEAD != 0;
        if twice {
            let text = state.describe_dead(address, true);
            drop(state);
            self.note_double_free(&text);
            return true;
        }
        let (thread, step) = (state.current, state.steps);
        let length = layout.size().max(1);
        state.space.kill(Freed { start, length, thread, step });
        drop(state);
        self.demand_last_use(address, length);
        true
    }

    /// Demands that all others are done with a range that the running thread gives up.
    fn demand_last_use(&self, address: usize, length: usize) {
        if !self.is_running() || self.dying.get() {
            return;
        }
        let state = self.state.borrow();
        let Some(races) = &state.races else { return };
        if let Err(text) = races.free(state.current, address, length) {
            let text = format!("{}: {text}", state.space.name(address));
            drop(state);
            self.fail(FailureKind::DataRace, text);
        }
    }

    /// A range of the pool was handed out or taken back.
    pub fn lifetime(&self, address: usize, length: usize, live: bool) {
        let mut state = self.state.borrow_mut();
        let Some(start) = state.space.offset(address) else { return };
        if length == 0 || start + length > state.space.pool_bytes {
            return;
        }
        let (thread, step) = (state.current, state.steps);
        // A single word is the header of a chunk, whose place has been anything before.
        if !live && length > 8 && state.space.flags(start) & DEAD != 0 {
            let text = state.describe_dead(address, true);
            drop(state);
            return self.note_double_free(&text);
        }
        if !live {
            state.space.kill(Freed { start, length, thread, step });
            drop(state);
            if length > 8 {
                self.demand_last_use(address, length);
            }
            return;
        }
        if self.is_running() && state.space.flags(start) & HANDED != 0 {
            let name = state.space.name(address);
            drop(state);
            let text = format!("{name} was handed out to T{thread} while it is still in use");
            self.fail(FailureKind::UseAfterFree, text);
        }
        // What a recovery hands out was written in an earlier life.
        let is_fresh = self.is_running() && !self.opening.get();
        state.space.revive(start, length, is_fresh);
        let is_judged = state.config.births && self.is_running();
        if let Some(races) = &mut state.races {
            races.forget(address, length);
            if is_judged {
                races.hand_out(thread, address, length);
            }
        }
    }

    /// Something was freed twice. While threads run that ends the schedule here; where a session ends
    /// or the pool is closed, at full speed, it is kept for the end of the schedule.
    fn note_double_free(&self, text: &str) {
        let failure = (FailureKind::UseAfterFree, format!("freed twice: {text}"));
        if self.is_running() {
            self.fail(failure.0, failure.1);
        }
        self.state.borrow_mut().failure.get_or_insert(failure);
    }

    /// Nanoseconds of the virtual clock: a scheduling point takes 10.
    pub fn now_ns(&self) -> u64 {
        self.state.borrow().steps * 10
    }

    /// The planted bug `name` is switched on.
    pub fn mutant(&self, name: &'static str) -> bool {
        self.state.borrow().config.mutants.contains(&name)
    }
}
