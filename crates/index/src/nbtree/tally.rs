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

    /// The sum.
    pub fn sum(&self) -> u64 {
        // Relaxed: a statistic.
        self.stripes.iter().map(|stripe| stripe.0.read_private()).fold(0, u64::wrapping_add)
    }
}
