//! A place in the log, taken before the change that its group tells of.

use std::sync::atomic::Ordering;

use crate::buffers::{Taken, thread_number};
use crate::record::group_size;
use crate::{Disk, Log, Lsn, RealDisk, Record, Result};

/// A place in the log, from [`Log::place`]: to be [filled](Self::fill), or [given up](Self::give_up) if
/// nothing was changed. One that is dropped instead, as by a panic, stops the log: whether its change
/// was made is not known, and what depends on it must not be durable without it.
///
/// # Example
/// ```
/// # fn main() -> everleaf_log::Result<()> {
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// use everleaf_log::{Log, LogOptions, RealDisk, Record};
///
/// let (log, _) = Log::open(RealDisk::open(folder.path())?, &LogOptions::new([7; 16]))?;
/// let place = log.place();
/// // Here the store changes, for all to see.
/// let lsn = place.fill(&[Record::put(1, b"oak", b"Quercus")])?;
/// log.place().give_up();
/// assert_eq!(log.sync()?, lsn);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a place that is dropped stops the log"]
pub struct Place<'a, D: Disk = RealDisk> {
    log: &'a Log<D>,
    taken: Taken,
    /// Whether it is filled or given up.
    has_ended: bool,
}

impl<'a, D: Disk> Place<'a, D> {
    #[inline]
    pub(crate) fn new(log: &'a Log<D>, taken: Taken) -> Self {
        Place { log, taken, has_ended: false }
    }

    /// Its LSN.
    pub fn lsn(&self) -> Lsn {
        self.taken.lsn
    }

    #[cfg(feature = "simulated")]
    pub(crate) fn into_taken(mut self) -> Taken {
        self.has_ended = true;
        self.taken
    }

    /// Leaves the group that the place was taken for: after a crash all of its records are there or none
    /// is. Makes no system call. Returns its LSN.
    ///
    /// # Errors
    /// [`Error::TooLarge`](crate::Error::TooLarge), which stops the log.
    pub fn fill(self, records: &[Record<'_>]) -> Result<Lsn> {
        self.fill_from(thread_number(), records)
    }

    /// [`Self::fill`] for callers that number their threads themselves.
    ///
    /// # Errors
    /// As [`Self::fill`].
    pub fn fill_from(mut self, thread: usize, records: &[Record<'_>]) -> Result<Lsn> {
        let size = group_size(records)?;
        self.has_ended = true;
        self.log.fill(self.taken, thread, size, records);
        Ok(self.taken.lsn)
    }

    /// Gives the place up: nothing was changed. Waits for nothing. A caller that does so often calls
    /// [`Log::relieve`] now and then, so that what is left at such places does not fill the memory.
    pub fn give_up(mut self) {
        self.has_ended = true;
        self.log.shared.give_up(self.taken, thread_number());
    }

    /// Gives the place up: what was changed was rolled back. A snapshot that is being written may have
    /// read it in between, and fails.
    pub fn give_up_rolled_back(self) {
        // Release: set before the place is given up, for which the end of the snapshot waits; pairs with
        // the Acquire in `SnapshotWriter::finish`.
        self.log.shared.is_snapshot_spoiled.store(true, Ordering::Release);
        self.give_up();
    }
}

impl<D: Disk> Drop for Place<'_, D> {
    fn drop(&mut self) {
        // Not if it was inherited by a fork: threads that are not here may hold the locks.
        if !self.has_ended && self.log.owner.is_current() {
            self.log.shared.break_off(thread_number());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Log, LogOptions, RealDisk, Record};

    /// A thread that gave up a place helped to write what waited, with locks of keys in its hands, and waited for the
    /// places of others.
    #[test]
    fn a_thread_that_gives_a_place_up_waits_for_nobody() {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = RealDisk::open(folder.path()).expect("a folder");
        let (log, _) = Log::open(disk, &LogOptions::new([7; 16])).expect("it opens");
        let open = log.place();
        for _ in 0..40_000 {
            let (first, second) = (log.place(), log.place());
            // Others have taken one since: it is left with nothing there.
            first.give_up();
            second.give_up();
        }
        let first = open.fill(&[Record::put(1, b"key", b"value")]).expect("the log works");
        assert_eq!(log.sync().expect("the disk works"), first + 40_000);
    }
}
