//! The log: append, wait, and which thread writes for the others.
//!
//! Threads take places and leave their groups in the append buffers. The first that has to wait
//! becomes the *leader*: it writes everything for which a place was taken with one write and one sync;
//! the others wait for it, and those it did not cover choose the next leader among themselves.

mod interval;
mod lead;
mod owed;
mod place;
mod shared;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar};
use std::thread::JoinHandle;
use std::time::Duration;

use everleaf_machine::OwnerProcess;
use everleaf_machine::lock_rank::Rank;
use everleaf_machine::ranked_mutex::RankedMutex;

use self::interval::Clock;
pub use self::place::Place;
pub(crate) use self::shared::{Shared, Turn};
use crate::buffers::{Buffers, Taken, thread_number};
use crate::record::group_size;
use crate::recovery::{self, Recovered};
use crate::{Disk, Error, LogOptions, Lsn, RealDisk, Record, Result, SyncMode};

/// How many bytes may wait in one buffer before the background thread writes them.
const EAGER_SIZE: usize = 256 << 10;

/// A write-ahead log. It may be used by any number of threads at once.
///
/// # Order
/// Each group has the next LSN, from when its [place](Log::place) is taken. A thread that takes it while it
/// holds the lock of the keys that the group changes has them logged in the order in which they change;
/// replay follows the LSNs. A group is durable only when all groups with smaller LSNs are. So a thread that takes
/// the place *before* the change can be seen has it logged before whatever comes of its being seen.
///
/// A forked process may drop what it inherits of a log, which touches nothing, and must do nothing else with it.
///
/// # Example
/// ```
/// # fn main() -> everleaf_log::Result<()> {
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// use everleaf_log::{Log, LogOptions, RealDisk, Record};
///
/// let options = LogOptions::new([7; 16]);
/// let (log, _) = Log::open(RealDisk::open(folder.path())?, &options)?;
/// let lsn = log.append(&[Record::put(1, b"oak", b"Quercus"), Record::delete(1, b"elm")])?;
/// log.wait(lsn)?;
/// drop(log);
///
/// let (_, recovered) = Log::open(RealDisk::open(folder.path())?, &options)?;
/// let start = recovered.replay_start()?;
/// let mut count = 0;
/// recovered.replay(start.from_lsn(), |_, records| -> everleaf_log::Result<()> {
///     count += records.len();
///     Ok(())
/// })?;
/// assert_eq!(count, 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Log<D: Disk = RealDisk> {
    pub(crate) shared: Arc<Shared<D>>,
    background: Option<JoinHandle<()>>,
    /// Nothing of the log is touched in a process that was forked from this one.
    pub(crate) owner: OwnerProcess,
}

impl<D: Disk> Log<D> {
    /// Opens the log in this folder, or makes one if there is none. What was there before is told
    /// by what comes with it.
    ///
    /// # Errors
    /// [`Error::Damaged`] if something that was durable is missing (see [`LogOptions::salvage`]),
    /// [`Error::Foreign`] if the log is of another store or a newer version, [`Error::Full`] and
    /// [`Error::Io`] as the disk answers.
    pub fn open(disk: D, options: &LogOptions) -> Result<(Log<D>, Recovered<D>)> {
        let disk = Arc::new(disk);
        let (writer, recovered) = recovery::open(Arc::clone(&disk), options)?;
        let shared = Arc::new(Shared {
            disk,
            uuid: options.uuid,
            mode: options.mode,
            buffers: Buffers::new(options.buffer_count, writer.written() + 1),
            durable: writer.durable(),
            stored: writer.stored(),
            is_owing: AtomicBool::new(writer.is_owing()),
            writer: RankedMutex::new(Rank::LogWriter, writer),
            turn: RankedMutex::new(
                Rank::LogTurn,
                Turn {
                    is_led: false,
                    failed: None,
                    is_ending: false,
                    is_sync_due: false,
                    clock: Clock::new(options.mode),
                },
            ),
            done: Condvar::new(),
            work: Condvar::new(),
            has_failed: AtomicBool::new(false),
            is_work_due: AtomicBool::new(false),
            is_snapshotting: AtomicBool::new(false),
            is_owed_being_written: AtomicBool::new(false),
            is_snapshot_spoiled: AtomicBool::new(false),
        });
        let background = match options.mode {
            SyncMode::Interval(_) if options.background => Some(interval::start(&shared)?),
            _ => None,
        };
        Ok((Log { shared, background, owner: OwnerProcess::current() }, recovered))
    }

    /// Takes the next place in the log for a group that is to be appended. Nothing that takes a place
    /// later is durable before it: a thread that holds the lock of the keys that the group changes, takes the
    /// place, then changes the store, and then [fills](Place::fill) the place, leaves no moment at which
    /// another can see the change and have something durable that lacks it. Until then no thread that
    /// commits gets on: do not wait for other threads in between.
    ///
    /// A log that has failed gives places too, and takes no group.
    #[inline]
    pub fn place(&self) -> Place<'_, D> {
        Place::new(self, self.shared.buffers.take())
    }

    /// Appends one atomic group: after a crash all of its records are there or none is. Makes no
    /// system call. The group is not durable before [`Log::wait`] says so.
    ///
    /// For a change that nobody can see before this call, nor after it without the group; others take
    /// a [place](Self::place) first.
    ///
    /// # Errors
    /// [`Error::TooLarge`]; [`Error::Failed`] if the log has failed.
    pub fn append(&self, records: &[Record<'_>]) -> Result<Lsn> {
        self.append_to(thread_number(), records)
    }

    /// [`Log::append`] for callers that number their threads themselves: threads with different
    /// numbers get in each other's way less.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn append_to(&self, thread: usize, records: &[Record<'_>]) -> Result<Lsn> {
        group_size(records)?;
        self.check()?;
        self.place().fill_from(thread, records)
    }

    /// Leaves a group at its place.
    pub(crate) fn fill(&self, place: Taken, thread: usize, size: usize, records: &[Record<'_>]) {
        let shared = &self.shared;
        let waiting = shared.buffers.fill(thread, place, size, records);
        // Relaxed: a hint. A thread that misses it lets the bytes wait for the next round.
        if waiting > EAGER_SIZE
            && self.background.is_some()
            && !shared.is_work_due.swap(true, Ordering::Relaxed)
        {
            // Under the lock, or the thread might be about to wait and miss it.
            let turn = shared.turn();
            shared.work.notify_one();
            drop(turn);
        }
    }

    /// Waits until the commit counts: in [`SyncMode::Sync`] until it is durable, otherwise not at
    /// all, unless the disk cannot keep up.
    ///
    /// # Errors
    /// [`Error::Failed`] if the log failed before the group was durable.
    pub fn wait(&self, lsn: Lsn) -> Result<()> {
        match self.shared.mode {
            SyncMode::Sync => self.wait_durable(lsn),
            SyncMode::Interval(_) => {
                if self.shared.buffers.is_crowded() {
                    self.shared.take_turn(false)?;
                }
                self.check()
            }
        }
    }

    /// Waits until the group with this LSN, and all before it, are durable, whatever the mode. For an
    /// LSN that was not given yet: until the last that was.
    ///
    /// # Errors
    /// [`Error::Failed`] if the log failed before.
    pub fn wait_durable(&self, lsn: Lsn) -> Result<()> {
        self.shared.wait_durable(lsn.min(self.last_lsn())).map(drop)
    }

    /// Whether nothing that is logged counts until there is a snapshot: [`LogOptions::owes_snapshot`]. Until
    /// then [`Log::wait_durable`] and [`Log::sync`] wait for it, so somebody has to write it.
    #[inline]
    pub fn owes_snapshot(&self) -> bool {
        self.shared.owes_snapshot()
    }

    /// Waits until no snapshot is owed, or the one that is being written is not any more. For callers that
    /// would otherwise write one.
    ///
    /// # Errors
    /// [`Error::Failed`] if the log has failed.
    pub fn await_snapshot(&self) -> Result<()> {
        self.shared.await_owed(|| !self.is_snapshotting())
    }

    /// Waits until the thread that writes the snapshot that is owed, or was, has let the older log go, too: then
    /// another can be begun. Returns at once if nobody does.
    ///
    /// # Errors
    /// [`Error::Failed`] if the log has failed.
    pub fn await_owed_writer(&self) -> Result<()> {
        self.shared.await_owed_writer()
    }

    /// Ends the log, because the snapshot that is owed cannot be written: nothing would ever count.
    pub fn fail_owed(&self, why: &str) {
        if self.owes_snapshot() {
            self.shared.fail(&Error::Failed(format!(
                "the snapshot that the log needs since the process died cannot be written, so nothing more \
                 is taken, and what was written since the store was opened does not survive the machine: \
                 {why}; repair the cause, then open the store again (restart the server)"
            )));
        }
    }

    /// Makes everything durable that was appended before the call, and every change for which a place
    /// was taken before, so all that the caller can have seen; returns the last LSN of it.
    ///
    /// # Errors
    /// As [`Log::wait_durable`].
    pub fn sync(&self) -> Result<Lsn> {
        self.shared.wait_durable(self.last_lsn())
    }

    /// Looks whether the log is still where it can be found: each sync does that, and a caller that wants to know
    /// before the next one asks here.
    ///
    /// # Errors
    /// [`Error::Failed`] if it was removed, or the log has failed.
    pub fn check_names(&self) -> Result<()> {
        self.check()?;
        let checked = self.shared.writer().check_names();
        checked.map_err(|error| self.shared.fail(&error))
    }

    /// What the log's own thread does in [`SyncMode::Interval`], for a program that has it do without
    /// ([`LogOptions::background_thread`]): syncs if half of the interval is over. `now` is the time since any fixed
    /// moment; call it often: what may be lost grows by the time until the first call, and between two. Does not wait
    /// for a thread that is writing: the next that writes, or the next call, syncs then. In [`SyncMode::Sync`], and in
    /// a log that has the thread, it does nothing.
    ///
    /// # Errors
    /// [`Error::Failed`] if the log fails or has failed.
    pub fn tick(&self, now: Duration) -> Result<()> {
        if self.background.is_some() {
            return self.check();
        }
        let mut turn = self.shared.turn();
        let was_due = turn.is_sync_due && !self.shared.disk.mutant("log.tick_forgets");
        turn.is_sync_due = turn.clock.is_due(now) || was_due;
        if let Some(error) = &turn.failed {
            return Err(error.clone());
        }
        match turn.is_sync_due && !turn.is_led {
            true => self.shared.lead(turn, false),
            false => Ok(()),
        }
    }

    /// Writes what waits, without a sync, if it is more than memory should be spent on. To be called now and
    /// then by threads that wait for nothing, because they gave their places up; not by one that holds what
    /// others wait for.
    ///
    /// # Errors
    /// As [`Log::write_out`].
    pub fn relieve(&self) -> Result<()> {
        if self.shared.buffers.is_crowded() { self.shared.take_turn(false) } else { Ok(()) }
    }

    /// Writes what was appended to the file without making it durable, unless a sync is due.
    ///
    /// # Errors
    /// [`Error::Failed`] if the log fails or has failed.
    pub fn write_out(&self) -> Result<()> {
        self.shared.take_turn(false)
    }

    /// The LSN given last, perhaps to a place that is not filled yet; 0 if there is none. A place that
    /// is given up can have its LSN given again.
    pub fn last_lsn(&self) -> Lsn {
        self.shared.buffers.last_lsn()
    }

    /// Everything up to this LSN is durable.
    pub fn durable_lsn(&self) -> Lsn {
        self.shared.durable_lsn()
    }

    /// Bytes that were written to segments since the log was opened. A write that is waited for alone
    /// takes a block of 4096 bytes, however small it is.
    pub fn stored_bytes(&self) -> u64 {
        // Relaxed: a statistic.
        self.shared.stored.load(Ordering::Relaxed)
    }

    /// The disk that the log is on. Its owner may keep small files beside the log, under names that
    /// are not of the log.
    pub fn disk(&self) -> &D {
        &self.shared.disk
    }

    /// Whether a snapshot is being written. A change of a thread that has a [place](Self::place), and is told that none
    /// is, is read by none either before the place is filled or given up: the next waits for it.
    pub fn is_snapshotting(&self) -> bool {
        // Acquire: pairs with the AcqRel in `Shared::begin_snapshot`; one that began to read before our
        // place was taken had set it before it turned, and the taking of the place has seen that.
        self.shared.is_snapshotting.load(Ordering::Acquire)
    }

    /// Why the log takes nothing more; `None` if it works.
    pub fn failed(&self) -> Option<Error> {
        self.check().err()
    }

    pub(crate) fn check(&self) -> Result<()> {
        // Acquire: the reason is there when the flag is; pairs with the Release in `Shared::fail`.
        if !self.shared.has_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        self.shared.turn().failed.clone().map_or(Ok(()), Err)
    }

    /// Ends the log: makes everything durable and gives back the space that was taken ahead.
    ///
    /// # Errors
    /// As [`Log::sync`]; [`Error::Failed`] in a forked process, which touches nothing.
    pub fn close(mut self) -> Result<()> {
        if !self.owner.is_current() {
            return Err(Error::Failed("the log is of the process before the fork".into()));
        }
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        self.shared.turn().is_ending = true;
        self.shared.work.notify_all();
        if let Some(thread) = self.background.take() {
            // A panic in it has stopped the log, and is reported by `check`.
            drop(thread.join());
        }
        self.check()?;
        let result = self.shared.writer().close(&self.shared.buffers);
        result.map_err(|error| self.shared.fail(&error))
    }
}

impl<D: Disk> Drop for Log<D> {
    fn drop(&mut self) {
        if !self.owner.is_current() {
            // Inherited by a fork: its locks may be held by threads that are not here, and so is the
            // one that would be waited for.
            std::mem::forget(self.background.take());
            return;
        }
        if !self.shared.turn().is_ending {
            // Nobody is left to be told. A caller that wants to know calls `close`.
            drop(self.end());
        }
    }
}
