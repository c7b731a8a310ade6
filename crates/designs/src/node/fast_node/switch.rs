//! The switch of a node: which way its records are shifted, and that they end earlier.

use everleaf_machine::{Machine, Ordering};

use super::{COUNT_MASK, Node, NodeShape, SWITCH_ONE};

/// A node's state with another direction, or with another number of the same one if `always`.
#[inline(always)]
fn turned<M: Machine>(state: u64, odd: bool, always: bool) -> u64 {
    let is_odd = state & SWITCH_ONE != 0;
    let step = match (is_odd == odd, always) {
        _ if M::mutant("fast_fair.no_turn") => 0,
        (false, _) => SWITCH_ONE,
        (true, true) => 2 * SWITCH_ONE,
        (true, false) => 0,
    };
    state.wrapping_add(step)
}

impl<S: NodeShape, M: Machine> Node<S, M> {
    /// Announces the direction of what follows; `always`: even if it was the same before.
    #[inline(always)]
    pub(super) fn turn(self, odd: bool, always: bool) {
        let state = self.state_word().read_private();
        let turned = turned::<M>(state, odd, always || S::BINARY);
        if turned != state {
            // Release, as every store to a node: each is visible after those before it. A reader that
            // has seen one of the stores that follow therefore finds the switch changed at its end.
            self.state_word().store(turned, Ordering::Release);
        }
    }

    /// Says that the records end at `keep` now, and that what was read meanwhile is to be read again: with one
    /// store, or a reader could begin between two and believe records behind the end.
    pub(super) fn turn_shorter(self, keep: usize) {
        let state = self.state_word().read_private();
        let turned = turned::<M>(state, state & SWITCH_ONE != 0, true);
        // Release: after the end; pairs with the loads of the state in `read.rs`.
        self.state_word().store(turned & !COUNT_MASK | keep as u64, Ordering::Release);
    }
}
