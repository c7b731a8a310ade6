//! What of a store survives a crash of its machine.

use std::time::Duration;

/// What is to survive, and when a write returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// Everything acknowledged survives the death of the process; on persistent memory also the loss of power. On an
    /// ordinary disk a pool whose process died must be opened once before the machine is restarted or its volume
    /// unmounted, in order or not: otherwise it is refused as after a crash of the machine
    /// ([`Error::MachineCrashed`](crate::Error::MachineCrashed)).
    #[default]
    Process,
    /// As `Process`, and with a log: a crash of the machine loses the last changes. These are the changes of
    /// this time (whole milliseconds, at least 1), of one sync more if the disk takes more than half of it for
    /// one, and what was written while [`crate::Statistics::log_owes_snapshot`]. No change that is left depends
    /// on one that is lost.
    Interval(Duration),
    /// Everything acknowledged survives the loss of power, on any disk that keeps what was synced. A
    /// write returns when it is on the disk; writes at the same time share a sync.
    ///
    /// A write can be read as soon as it is made, before it is on the disk: what a read says, or a write
    /// that changed nothing (an insertion of a key that is there, an exchange that found another
    /// value), may be lost with the write it saw. But no effect in the store survives without its cause: a
    /// write that returns, by whatever thread, makes everything durable that could be read when it
    /// began. A program that acts on what was read outside of the store calls
    /// [`Store::sync`](crate::Store::sync) first, which does the same.
    Power,
}

impl Durability {
    /// Its name on command lines and in reports: `process`, `interval` or `power`.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Process => "process",
            Durability::Interval(_) => "interval",
            Durability::Power => "power",
        }
    }

    /// The interval in milliseconds; 0 if each write waits.
    pub(crate) fn interval_ms(self) -> u64 {
        match self {
            Durability::Interval(interval) => interval.as_millis().max(1) as u64,
            _ => 0,
        }
    }

    pub(crate) fn of_interval_ms(interval_ms: u64) -> Durability {
        match interval_ms {
            0 => Durability::Power,
            _ => Durability::Interval(Duration::from_millis(interval_ms)),
        }
    }
}

impl std::fmt::Display for Durability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}
