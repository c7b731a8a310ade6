//! Older values, as accesses of the running thread meet them.

use std::panic::Location;
use std::sync::atomic::Ordering;

use super::core::Core;
use super::failure::FailureKind;
use super::raw::AddressRange;
use super::weak::bits_at;

impl Core {
    /// What a load is given instead of the newest bits of a place, if it is given something older.
    #[inline]
    pub fn older(
        &self,
        place: AddressRange,
        newest: u128,
        order: Ordering,
        at: &'static Location<'static>,
    ) -> Option<u128> {
        if self.is_weak { self.older_of_weak(place, newest, order, at) } else { None }
    }

    fn older_of_weak(
        &self,
        place: AddressRange,
        newest: u128,
        order: Ordering,
        at: &'static Location<'static>,
    ) -> Option<u128> {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        let (thread, random) = (state.current, Some(&mut state.random));
        let races = state.races.as_mut()?;
        let (value, checked) = races.read_older(thread, place, newest, order, random, at)?;
        // The newest is still to be seen: a thread that waits for it must look again.
        state.forget_waits();
        state.note("older", place, value as u64, at);
        let is_ours = state.space.offset(place.address).is_some();
        drop(guard);
        // As in `order`.
        if let Err(message) = checked
            && is_ours
        {
            self.fail(FailureKind::DataRace, message);
        }
        Some(value)
    }

    /// A locked operation has seen the newest bits of a place, and leaves it.
    pub fn see_newest(&self, place: AddressRange, at: &'static Location<'static>) {
        if self.is_weak {
            let mut state = self.state.borrow_mut();
            let thread = state.current;
            if let Some(races) = &mut state.races {
                // Relaxed: the order is followed elsewhere.
                races.read_older(thread, place, bits_at(place), Ordering::Relaxed, None, at);
            }
        }
    }

    /// A place is about to be written; what it holds is older then.
    #[inline]
    pub fn keep_older(&self, place: AddressRange, newest: u128) {
        if self.is_weak && !self.is_on_stack(place.address) {
            let mut state = self.state.borrow_mut();
            let thread = state.current;
            if let Some(races) = &mut state.races {
                races.keep_older(thread, place, newest);
            }
        }
    }

    /// The other half of a pair is about to be written, too; what both held is older then.
    pub fn keep_older_still(&self, place: AddressRange, newest: u128) {
        if self.is_weak && !self.is_on_stack(place.address) {
            let mut state = self.state.borrow_mut();
            let thread = state.current;
            if let Some(races) = &mut state.races {
                races.keep_older_still(thread, place, newest);
            }
        }
    }
}
