//! How long the rest of a run takes.

use std::time::Duration;

use super::{Entry, Scale};

/// An estimate from the table of experiments, corrected by how long those took that were made.
///
/// # Example
/// ```
/// use everleaf_lab::experiment::{Pace, Scale, named};
/// let made = named("fast-fair");
/// let mut pace = Pace::new(Scale::Quick);
/// let before = pace.left(&made[1..]);
/// // The first took twice as long as the table says: so will the others.
/// pace.note(made[0], 2.0 * f64::from(made[0].seconds.0));
/// assert_eq!(pace.left(&made[1..]), before * 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    scale: Scale,
    expected_seconds: f64,
    taken_seconds: f64,
}

impl Pace {
    /// Nothing is made yet.
    pub fn new(scale: Scale) -> Self {
        Pace { scale, expected_seconds: 0.0, taken_seconds: 0.0 }
    }

    /// An experiment was made now, and took so long.
    pub fn note(&mut self, entry: &Entry, seconds: f64) {
        self.expected_seconds += self.expected(entry);
        self.taken_seconds += seconds;
    }

    /// How long these will take, about.
    pub fn left(&self, entries: &[&Entry]) -> Duration {
        let expected: f64 = entries.iter().map(|entry| self.expected(entry)).sum();
        let share = match self.expected_seconds > 0.0 {
            true => self.taken_seconds / self.expected_seconds,
            false => 1.0,
        };
        Duration::from_secs_f64(expected * share)
    }

    fn expected(&self, entry: &Entry) -> f64 {
        f64::from(self.scale.pick(entry.seconds.0, entry.seconds.1))
    }
}
