//! Counts that many threads add to and hardly anybody reads.

use everleaf_machine::{Atomic, Machine, Ordering};

/// Stripes: one each for the first sessions, one for all others.
const STRIPES: usize = 32;

#[repr(align(128))]
struct Stripe<M: Machine>(Atomic<u64, M>);

/// A sum kept in stripes, one per session, so that adding touches no shared line.
///
/// Statistics: all accesses are Relaxed. Exact when nobody adds.
pub struct Tally<M: Machine> {
    stripes: Box<[Stripe<M>]>,
}

impl<M: Machine> Tally<M> {
    /// A sum that starts at `value`.
    pub fn new(value: u64) -> Self {
        let stripe = |index| Stripe(Atomic::new(if index == 0 { value } else { 0 }));
        Tally { stripes: (0..STRIPES).map(stripe).collect() }
    }

    /// Adds `delta` (wrapping, so that stripes may go below zero).
    #[inline(always)]
    pub fn add(&self, stripe: usize, delta: i64) {
        let word = &self.stripes[stripe.min(STRIPES - 1)].0;
        if stripe < STRIPES - 1 {
            // All but the last stripe have one session each, so nobody else writes here.
            word.write_private(word.read_private().wrapping_add_signed(delta));
        } else {
            // Relaxed: a statistic.
            word.fetch_add(delta as u64, Ordering::Relaxed);
        }
    }

    /// The sum; zero if it is below. While others count, it may have one's removal without another's insert.
    pub fn sum(&self) -> u64 {
        // Relaxed: a statistic.
        let sum =
            self.stripes.iter().map(|stripe| stripe.0.read_private()).fold(0, u64::wrapping_add);
        (sum as i64).max(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;
    use everleaf_machine::Hardware;

    #[test]
    fn a_sum_is_never_below_zero() {
        let tally = Tally::<Hardware>::new(1);
        // Two removals that have counted before the insert between them.
        tally.add(1, -2);
        assert_eq!(tally.sum(), 0);
        tally.add(2, 3);
        assert_eq!(tally.sum(), 2);
    }
}
