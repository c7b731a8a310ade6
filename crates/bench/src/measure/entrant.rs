//! What takes part in a contest.

use super::instruments::Instruments;
use super::progress::Progress;
use crate::error::BenchError;
use crate::report::Report;

/// What takes part in a contest. Made by [`entrant`](super::contest::entrant) and [`ours`](super::contest::ours).
pub trait Entrant {
    /// What reports call it.
    fn name(&self) -> &'static str;

    /// Measures every case once.
    ///
    /// # Errors
    /// An operation failed, returned a wrong value, or missed a key; no room.
    #[expect(private_interfaces, reason = "only this crate implements and calls it")]
    fn round(
        &mut self,
        instruments: &mut Instruments,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), BenchError>;

    /// Gives the index up, with its files.
    fn rest(&mut self);

    /// What the rounds found; there was at least one.
    fn report(self: Box<Self>) -> Report;
}
