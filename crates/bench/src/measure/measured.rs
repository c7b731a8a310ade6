//! What a case did.

use crate::driver::WorkloadRun;

/// What a case did.
pub(super) struct Measured {
    pub outcome: WorkloadRun,
    /// Operations, with those of a batch counted one by one.
    pub positions: u64,
    /// Nanoseconds of a dependent miss, just before.
    pub miss_before_ns: f64,
    /// The same, just after.
    pub miss_after_ns: f64,
}
