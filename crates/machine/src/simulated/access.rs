//! Loads, stores and atomic operations of the running thread.

use std::panic::Location;
use std::sync::atomic::Ordering;

use super::config::{Domain, MemoryModel};
use super::core::Core;
use super::failure::FailureKind;
use super::fault::FaultKind;
use super::races::Races;
use super::raw::{AddressRange, read_raw};
use super::space::RAW;
use super::state::Buffered;
use crate::seam::Pair;

type At = &'static Location<'static>;

/// The orderings of a compare-and-exchange; other locked operations always succeed.
#[derive(Clone, Copy)]
pub struct Orders {
    pub success: Ordering,
    pub failure: Ordering,
}

/// The longest a store buffer gets.
const BUFFER_MAX: usize = 32;

impl Core {
    /// The value at `place` as the running thread sees it, without a scheduling point.
    pub fn peek(&self, place: AddressRange) -> u64 {
        let mut state = self.state.borrow_mut();
        let checked = state.check(place, false);
        let value = state.value_at(place);
        let thread = state.current;
        drop(state);
        self.demand(checked);
        value.unwrap_or_else(|| {
            // A partial overlap cannot be forwarded: the load waits for the buffer.
            self.drain_buffer(thread);
            read_raw(place)
        })
    }

    pub fn load(&self, place: AddressRange, order: Ordering, at: At) -> u64 {
        self.point();
        let newest = self.peek(place);
        if let Some(older) = self.older(place, newest.into(), order, at) {
            return older as u64;
        }
        let value = self.possibly_stale(place, newest, at);
        self.order(place, |races, thread| races.read(thread, place, Some(order), at));
        self.state.borrow_mut().note("load", place, value, at);
        value
    }

    /// A read of a word that nobody else writes now.
    pub fn read_private(&self, place: AddressRange, at: At) -> u64 {
        let value = self.peek(place);
        self.order(place, |races, thread| races.read(thread, place, None, at));
        value
    }

    /// A store without a scheduling point; without an order it is private.
    pub fn put(&self, place: AddressRange, bits: u64, order: Option<Ordering>, at: At) {
        if self.has_fault(FaultKind::Skip, at) {
            return;
        }
        self.order(place, |races, thread| races.write(thread, place, order, at));
        if self.has_fault(FaultKind::Late, at) {
            self.put_late();
            let state = &mut *self.state.borrow_mut();
            state.threads[state.current].late = Some((place, bits));
            return;
        }
        self.store_now(place, bits, at);
        self.put_late();
    }

    /// A store without its named ordering.
    pub fn store_now(&self, place: AddressRange, bits: u64, at: At) {
        let mut state = self.state.borrow_mut();
        state.note("store", place, bits, at);
        let checked = state.check(place, true);
        let (thread, is_tso) = (state.current, state.is_tso());
        if checked.is_err() || !is_tso || self.is_on_stack(place.address) {
            drop(state);
            self.demand(checked);
            // A word on the stack may be gone when a waiting store comes: it and all before it
            // become visible now.
            self.drain_buffer(thread);
            return self.commit(thread, place, bits);
        }
        state.threads[thread].buffer.push_back(Buffered::Store(place, bits));
        let full = state.threads[thread].buffer.len() > BUFFER_MAX;
        let in_pool =
            state.space.offset(place.address).is_some_and(|at| at < state.space.pool_bytes);
        let kept = state.config.domain == Domain::Process && in_pool;
        drop(state);
        if full {
            self.drain_one(thread);
        }
        if kept {
            self.crash_point();
        }
    }

    pub fn store(&self, place: AddressRange, bits: u64, order: Ordering, at: At) {
        self.point();
        self.keep_older(place, bits.into());
        self.put(place, bits, Some(order), at);
        // SeqCst: such a store is an exchange on the machines that buffer stores.
        if order == Ordering::SeqCst && self.state.borrow().is_tso() {
            let rmw_drains = self.state.borrow().config.rmw_drains;
            self.complete(rmw_drains);
        }
    }

    fn commit(&self, thread: usize, place: AddressRange, bits: u64) {
        let due = self.state.borrow_mut().commit(thread, place, bits);
        if due {
            self.crash_point();
        }
    }

    /// The oldest entry of a thread's store buffer takes effect.
    pub fn drain_one(&self, thread: usize) {
        let mut state = self.state.borrow_mut();
        match state.threads[thread].buffer.pop_front() {
            None => {}
            Some(Buffered::Flush(address)) => state.flush_now(thread, address),
            Some(Buffered::Store(place, bits)) => {
                if state.trace.is_some() {
                    let name = state.space.name(place.address);
                    state.tell(format!("buffer   T{thread}'s store {name} = {bits:#x} is visible"));
                }
                drop(state);
                self.commit(thread, place, bits);
            }
        }
    }

    /// All of a thread's store buffer takes effect.
    pub fn drain_buffer(&self, thread: usize) {
        while !self.state.borrow().threads[thread].buffer.is_empty() {
            self.drain_one(thread);
        }
    }

    /// Empties the running thread's store buffer and, if `drains`, makes its flushes durable.
    pub fn complete(&self, drains: bool) {
        let thread = self.state.borrow().current;
        self.drain_buffer(thread);
        if !drains || self.state.borrow().threads[thread].flushes.is_empty() {
            return;
        }
        // Only this removes crash images: check the set just before it shrinks.
        if self.state.borrow().config.domain == Domain::Adr && self.state.borrow().would_drain() {
            self.crash_point();
        }
        self.state.borrow_mut().drain_flushes();
    }

    /// A locked operation: `change` gives the new value, or none to leave the word. Returns the
    /// previous value.
    pub fn exchange(
        &self,
        place: AddressRange,
        orders: Orders,
        at: At,
        change: impl FnOnce(u64) -> Option<u64>,
    ) -> u64 {
        self.point();
        self.put_late();
        let rmw_drains = self.state.borrow().config.rmw_drains;
        self.complete(rmw_drains);
        let (checked, thread) = {
            let mut state = self.state.borrow_mut();
            (state.check(place, true), state.current)
        };
        self.demand(checked);
        let old = read_raw(place);
        match change(old) {
            None => {
                self.state.borrow_mut().note("keep", place, old, at);
                self.see_newest(place, at);
                let order = Some(orders.failure);
                self.order(place, |races, thread| races.read(thread, place, order, at));
            }
            Some(new) => {
                let order = orders.success;
                self.keep_older(place, new.into());
                self.order(place, |races, thread| races.exchange(thread, place, order, at));
                self.state.borrow_mut().note("exchange", place, new, at);
                self.commit(thread, place, new);
            }
        }
        old
    }

    pub fn load_pair(&self, halves: [AddressRange; 2], at: At) -> Pair {
        self.point();
        let pair = Pair { first: self.peek(halves[0]), second: self.peek(halves[1]) };
        // Acquire: as the load of a pair is.
        if let Some(older) = self.older(whole(halves), bits(pair), Ordering::Acquire, at) {
            return Pair { first: older as u64, second: (older >> 64) as u64 };
        }
        let pair = Pair {
            first: self.possibly_stale(halves[0], pair.first, at),
            second: self.possibly_stale(halves[1], pair.second, at),
        };
        self.order_pair(halves, |races, thread, half| {
            races.read(thread, half, Some(Ordering::Acquire), at)
        });
        let mut state = self.state.borrow_mut();
        state.note("load", halves[0], pair.first, at);
        state.note("load", halves[1], pair.second, at);
        pair
    }

    pub fn exchange_pair(
        &self,
        halves: [AddressRange; 2],
        current: Pair,
        new: Pair,
        at: At,
    ) -> Result<Pair, Pair> {
        let old = self.begin_exchange(halves, current, new, at)?;
        let (thread, in_pool, name) = {
            let state = self.state.borrow();
            let offset = state.space.offset(halves[0].address);
            let in_pool = offset.is_some_and(|offset| offset < state.space.pool_bytes);
            (state.current, in_pool, state.space.name(halves[0].address))
        };
        if in_pool && old.first != new.first && old.second != new.second {
            let text = format!("T{thread} exchanges both halves of {name} at {at}");
            self.fail(FailureKind::TornPair, text);
        }
        self.end_exchange(halves, old, new, at);
        Ok(old)
    }

    /// As [`Self::exchange_pair`], and the medium may see the halves in either order.
    pub fn claim_pair(
        &self,
        halves: [AddressRange; 2],
        current: Pair,
        new: Pair,
        at: At,
    ) -> Result<Pair, Pair> {
        let old = self.begin_exchange(halves, current, new, at)?;
        let flips = self.state.borrow_mut().random.one_in(2);
        let flip = |pair: Pair| Pair { first: pair.second, second: pair.first };
        if flips {
            self.end_exchange([halves[1], halves[0]], flip(old), flip(new), at);
        } else {
            self.end_exchange(halves, old, new, at);
        }
        Ok(old)
    }

    /// Compares both halves; the caller stores the new ones if they are as expected.
    fn begin_exchange(
        &self,
        halves: [AddressRange; 2],
        current: Pair,
        new: Pair,
        at: At,
    ) -> Result<Pair, Pair> {
        self.point();
        let rmw_drains = self.state.borrow().config.rmw_drains;
        self.complete(rmw_drains);
        let checked = self.state.borrow_mut().check(halves[0], true);
        self.demand(checked);
        let old = Pair { first: read_raw(halves[0]), second: read_raw(halves[1]) };
        let current = if self.has_fault(FaultKind::Blind, at) { old } else { current };
        if old == current {
            self.keep_older(whole(halves), bits(new));
        } else {
            self.see_newest(whole(halves), at);
        }
        self.order_pair(halves, |races, thread, half| {
            if old == current {
                return races.exchange(thread, half, Ordering::AcqRel, at);
            }
            races.read(thread, half, Some(Ordering::Acquire), at)
        });
        if old != current {
            self.state.borrow_mut().note("keep", halves[0], old.first, at);
            return Err(old);
        }
        Ok(old)
    }

    /// Stores both halves, in this order, at one instant.
    fn end_exchange(&self, halves: [AddressRange; 2], old: Pair, new: Pair, at: At) {
        let thread = self.state.borrow().current;
        for (half, (value, was)) in
            halves.into_iter().zip([(new.first, old.first), (new.second, old.second)])
        {
            if value != was {
                self.state.borrow_mut().note("exchange", half, value, at);
                self.commit(thread, half, value);
            }
        }
    }

    /// Both halves, `second` visible first; the medium may see them in either order.
    pub fn store_pair(&self, halves: [AddressRange; 2], value: Pair, at: At) {
        self.point();
        let first = read_raw(halves[0]);
        self.keep_older(whole(halves), bits(Pair { first, second: value.second }));
        self.put(halves[1], value.second, Some(Ordering::Relaxed), at);
        self.point();
        self.keep_older_still(whole(halves), bits(value));
        self.put(halves[0], value.first, Some(Ordering::Release), at);
        let mut state = self.state.borrow_mut();
        if state.config.memory == MemoryModel::Sc
            && state.config.domain == Domain::Adr
            && let Some(offset) = state.space.offset(halves[0].address)
            && offset < state.space.pool_bytes
            && state.random.one_in(2)
        {
            // Only if nothing else was written to the line between the two.
            let log = &state.persistence.lines[offset / 64].log;
            let word = (offset / 8 % 8) as u8;
            if let [.., a, b] = log.as_slice()
                && (a.word, b.word) == (word + 1, word)
            {
                state.persistence.swap_last_two(offset / 64);
            }
        }
    }

    /// Whether the machine has the comparisons of many words at once.
    pub fn compares_widely(&self) -> bool {
        self.state.borrow().config.wide_compares
    }

    /// The eight words of a line at one instant, or one by one with others running in between.
    pub fn load_line(&self, address: usize, at: At) -> [u64; 8] {
        let torn = self.state.borrow().config.torn_matches;
        if !torn {
            self.point();
        }
        let line = AddressRange { address, size: 64 };
        let mut words = [0; 8];
        for (index, word) in words.iter_mut().enumerate() {
            if torn {
                self.point();
            }
            let (thread, waits) = {
                let state = self.state.borrow();
                (state.current, state.is_tso() && state.has_buffered(line))
            };
            if waits {
                self.drain_buffer(thread);
            }
            let place = AddressRange { address: address + 8 * index, size: 8 };
            *word = self.peek(place);
            // As an acquire, like the newest below: what is read next is at an address that follows from the bytes.
            if let Some(older) = self.older(place, (*word).into(), Ordering::Acquire, at) {
                *word = older as u64;
                continue;
            }
            let order = Some(Ordering::Relaxed);
            self.order(place, |races, thread| {
                races.learn_bytes(thread, place);
                races.read(thread, place, order, at)
            });
        }
        self.state.borrow_mut().note("match", line, words[0], at);
        words
    }

    /// A copy into private memory: one scheduling point, its words in a random order.
    pub fn write_bytes(&self, address: usize, source: &[u8], at: At) {
        if source.is_empty() {
            return;
        }
        self.point();
        if self.has_fault(FaultKind::Skip, at) {
            return;
        }
        let mut pieces = pieces(address, source);
        self.state.borrow_mut().random.shuffle(&mut pieces);
        for (place, bits) in pieces {
            self.order(place, |races, thread| races.write(thread, place, None, at));
            self.store_now(place, bits, at);
        }
        self.put_late();
    }

    /// Checks that a range may be read as plain bytes now.
    pub fn read_bytes(&self, address: usize, length: usize, at: At) {
        if length == 0 {
            return;
        }
        self.point();
        let range = AddressRange { address, size: length };
        let (thread, waits) = {
            let state = self.state.borrow();
            (state.current, state.has_buffered(range))
        };
        if waits {
            self.drain_buffer(thread);
        }
        let mut state = self.state.borrow_mut();
        state.note("bytes", range, length as u64, at);
        let mut result = Ok(());
        for address in (address / 8 * 8..address + length).step_by(8) {
            let place = AddressRange { address, size: 8 };
            result = result.and_then(|()| state.check(place, false));
            if result.is_ok()
                && let Some(offset) = state.space.offset(address)
                && state.space.flags(offset) & RAW != 0
            {
                let name = state.space.name(address);
                let text = format!("T{thread} reads {name}, handed out and never written, at {at}");
                result = Err((FailureKind::Uninitialised, text));
            }
        }
        drop(state);
        self.demand(result);
        for address in (address / 8 * 8..address + length).step_by(8) {
            let place = AddressRange { address, size: 8 };
            self.order(place, |races, thread| races.read(thread, place, None, at));
        }
    }

    /// Follows the named orderings, if that is wanted, for a word of the machine's own memory.
    #[inline]
    pub fn order(
        &self,
        place: AddressRange,
        follow: impl FnOnce(&mut Races, usize) -> Result<(), String>,
    ) {
        let mut state = self.state.borrow_mut();
        let (thread, is_ours) = (state.current, state.space.offset(place.address).is_some());
        let Some(races) = &mut state.races else { return };
        let followed = follow(races, thread);
        drop(state);
        // Memory of the process's own heap changes hands without the machine's knowledge.
        if let Err(message) = followed
            && is_ours
        {
            self.fail(FailureKind::DataRace, message);
        }
    }

    fn order_pair(
        &self,
        halves: [AddressRange; 2],
        mut follow: impl FnMut(&mut Races, usize, AddressRange) -> Result<(), String>,
    ) {
        for half in halves {
            self.order(half, |races, thread| follow(races, thread, half));
        }
    }
}

/// Both halves as one.
fn whole(halves: [AddressRange; 2]) -> AddressRange {
    AddressRange { size: 16, ..halves[0] }
}

fn bits(pair: Pair) -> u128 {
    u128::from(pair.first) | u128::from(pair.second) << 64
}

/// A byte range as naturally aligned words of 8 bytes, the tail as 4, 2 and 1.
fn pieces(address: usize, source: &[u8]) -> Vec<(AddressRange, u64)> {
    let mut pieces = Vec::with_capacity(source.len() / 8 + 3);
    let mut at = 0;
    for size in [8, 4, 2, 1] {
        while source.len() - at >= size {
            let mut bytes = [0; 8];
            bytes[..size].copy_from_slice(&source[at..at + size]);
            pieces.push((AddressRange { address: address + at, size }, u64::from_le_bytes(bytes)));
            at += size;
        }
    }
    pieces
}
