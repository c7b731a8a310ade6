//! What the connections do together.

use crate::measure::settings::Settings;
use crate::workload::Workload;

/// What the connections do together.
pub(super) struct Phase<'s> {
    pub settings: &'s Settings,
    pub workload: Workload,
    /// Whether what the workload removed is written again.
    pub is_putting_back: bool,
    pub is_scheduled: bool,
    pub depth: usize,
}
