//! Stores of a whole line.

use std::panic::Location;
use std::sync::atomic::Ordering;

use super::core::Core;
use super::raw::AddressRange;
use crate::line_store::LineStore;

/// One transaction in so many is given up.
const GIVES_UP: u64 = 4;

impl Core {
    /// Stores the eight words of the line at `address`, after all stores of the thread before; false
    /// if it was a transaction that is given up.
    ///
    /// What a crash keeps of it is all or nothing, but for a wide store with the planted bug
    /// `line_store.torn`: no architecture promises that one, and a crash then keeps any part from its
    /// beginning.
    pub fn store_line(
        &self,
        address: usize,
        words: &[u64; 8],
        how: LineStore,
        at: &'static Location<'static>,
    ) -> bool {
        self.point();
        let (thread, version) = {
            let state = self.state.borrow();
            (state.current, state.version)
        };
        if how == LineStore::Transaction && version % GIVES_UP == 0 {
            return false;
        }
        self.drain_buffer(thread);
        let is_torn = how == LineStore::Wide && self.mutant("line_store.torn");
        let mut is_due = false;
        for (index, bits) in words.iter().enumerate() {
            let place = AddressRange { address: address + 8 * index, size: 8 };
            // Release: as any store that publishes what was stored before.
            let order = Some(Ordering::Release);
            self.order(place, |races, thread| races.write(thread, place, order, at));
            let checked = self.state.borrow_mut().check(place, true);
            self.demand(checked);
            let mut state = self.state.borrow_mut();
            state.note("line", place, *bits, at);
            is_due |= state.commit(thread, place, *bits);
            if index + 1 < words.len() && !is_torn {
                state.glue(address);
            }
        }
        if is_due {
            self.crash_point();
        }
        if how == LineStore::Direct {
            // On its way to the medium without a flush.
            self.state.borrow_mut().flush_now(thread, address);
        }
        true
    }
}
