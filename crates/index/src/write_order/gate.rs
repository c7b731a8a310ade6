//! The gate: one word that tells writers whether they must keep an order.
//!
//! ```text
//!   63          62        61           32 31            0
//!  | quiescent | kept raised |       0       | raised by    |
//! ```
//!
//! While the word is 0, a write does nothing but load it, pinned. A thread that raises the gate waits
//! until all pins of that moment have ended, which makes it *quiescent*: from then on until it is lowered,
//! every write and every read has seen it raised.
//!
//! Invariants:
//! - G1 `quiescent` is set only by a thread that has the gate raised, after a wait that began later;
//! - G2 the word falls to 0 as a whole: no raising finds `quiescent` of an earlier time.

use everleaf_alloc::Heap;
use everleaf_machine::{Atomic, Machine, Ordering};

const QUIESCENT: u64 = 1 << 63;
/// Left raised by the last batch, for the next one.
const KEPT_RAISED: u64 = 1 << 62;
const COUNT: u64 = (1 << 32) - 1;

/// The gate. On a line of its own: every operation loads it, and few store it.
#[repr(align(128))]
pub struct OrderingGate<M: Machine> {
    word: Atomic<u64, M>,
}

impl<M: Machine> Default for OrderingGate<M> {
    fn default() -> Self {
        OrderingGate { word: Atomic::new(0) }
    }
}

impl<M: Machine> OrderingGate<M> {
    /// Whether the caller, whose session is pinned since before this call, must keep to the order.
    #[inline(always)]
    pub fn is_raised(&self) -> bool {
        // Acquire: nothing the caller does next happens before this load; pairs with the addition in
        // `raise`. The pin before and the wait in `raise` do the rest.
        self.word.load(Ordering::Acquire) != 0
    }

    /// Whether every write of now keeps to the order. It was so all the time between two answers that it is, if the
    /// caller was pinned since before the first: to become so again, it would have to wait for that pin.
    #[inline]
    pub fn is_quiescent(&self) -> bool {
        // Acquire: what was waited for is over, and what was written without order; pairs with the `or` in
        // `try_raise`.
        self.word.load(Ordering::Acquire) & QUIESCENT != 0
    }

    /// Raises the gate, and returns when every running operation has seen it raised. The caller's
    /// session must not be pinned.
    ///
    /// *Blocking*: on the first raising, until all pins of this moment are over.
    pub fn raise(&self, heap: &Heap<M>) {
        let raised = self.try_raise(heap, || false);
        debug_assert!(raised, "nobody said that it is pinned");
    }

    /// As [`Self::raise`], by a thread that may be pinned in another session: if that would have to be waited
    /// for, the gate is not raised, and the answer is false.
    pub fn try_raise(&self, heap: &Heap<M>, is_pinned: impl FnOnce() -> bool) -> bool {
        // SeqCst: before the epoch is read in `await_pins`, which pairs with the pins. Acquire: what
        // the thread that made the gate quiescent waited for is over; pairs with the `or` below.
        let before = self.word.fetch_add(1, Ordering::SeqCst);
        let trusts = before != 0 && M::mutant("gate.second_trusts_first");
        if before & QUIESCENT == 0 && !trusts {
            if is_pinned() {
                self.lower(false);
                return false;
            }
            if !M::mutant("gate.no_wait") {
                heap.await_pins();
            }
            // AcqRel: hands on what the wait has seen end; pairs with the addition above (G1).
            self.word.fetch_or(QUIESCENT, Ordering::AcqRel);
        }
        true
    }

    /// Ends one raising. With `keep_raised` the gate stays raised until [`Self::lower_if_idle`].
    pub fn lower(&self, keep_raised: bool) {
        // Relaxed: the exchange checks it.
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            debug_assert!(word & COUNT > 0, "lowered without being raised");
            let left = (word - 1) | if keep_raised { KEPT_RAISED } else { 0 };
            let new = if left & (COUNT | KEPT_RAISED) == 0 { 0 } else { left };
            // Release: a thread that finds the gate down sees all that was done behind it; pairs with the
            // load in `is_raised`. Relaxed on failure: tried again.
            match self.word.compare_exchange(word, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Lowers a gate that nobody has raised and that is only kept raised.
    pub fn lower_if_idle(&self) {
        let idle = QUIESCENT | KEPT_RAISED;
        // Release, and relaxed on failure: as in `lower`. A failure says that somebody needs it.
        let _ = self.word.compare_exchange(idle, 0, Ordering::Release, Ordering::Relaxed);
    }

    /// Whether nobody needs the gate that is raised. Only a hint.
    pub fn is_only_kept(&self) -> bool {
        // Relaxed: a hint.
        self.word.load(Ordering::Relaxed) & COUNT == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf_machine::Hardware;
    use everleaf_pool::{Domain, Pool};

    #[test]
    fn the_gate_is_up_while_somebody_holds_or_left_it_so() {
        let pool = Pool::in_memory(1 << 20, 1 << 24, Domain::Process).expect("memory");
        let heap = Heap::<Hardware>::create(pool).expect("room");
        let gate = OrderingGate::default();
        assert!(!gate.is_raised());
        gate.raise(&heap);
        gate.raise(&heap);
        gate.lower(false);
        assert!(gate.is_raised() && !gate.is_only_kept());
        gate.lower_if_idle();
        assert!(gate.is_raised(), "somebody still needs it");
        gate.lower(true);
        assert!(gate.is_raised() && gate.is_only_kept());
        gate.raise(&heap);
        gate.lower(false);
        assert!(gate.is_raised(), "a lowering does not end the time that it is kept raised");
        gate.lower_if_idle();
        assert!(!gate.is_raised());
    }

    #[test]
    fn raising_waits_for_threads_that_are_pinned() {
        let pool = Pool::in_memory(1 << 20, 1 << 24, Domain::Process).expect("memory");
        let heap = Heap::<Hardware>::create(pool).expect("room");
        let (gate, mut session) = (OrderingGate::default(), heap.session().expect("a session"));
        session.pin();
        let has_waited = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let raiser = scope.spawn(|| {
                gate.raise(&heap);
                has_waited.store(true, Ordering::Release);
            });
            while !gate.is_raised() {
                std::thread::yield_now();
            }
            // Long enough for one that does not wait to come to its end.
            for _ in 0..1000 {
                assert!(
                    !has_waited.load(Ordering::Acquire),
                    "we are pinned since before it was raised"
                );
                std::thread::yield_now();
            }
            session.unpin();
            raiser.join().expect("it does not panic");
        });
        assert!(gate.is_raised());
    }
}
