//! How a log is kept.

use std::time::Duration;

use crate::Lsn;

/// When a commit is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// [`crate::Log::wait`] returns when the commit is on the disk. Threads that wait at the same
    /// time share one sync.
    Sync,
    /// [`crate::Log::wait`] returns at once, and the disk is synced so often that at most this much
    /// time is lost (and as long as the disk takes for a sync, if that is more than half of it).
    Interval(Duration),
}

/// How a log is opened and kept.
///
/// # Example
/// ```
/// use everleaf_log::{LogOptions, SyncMode};
/// use std::time::Duration;
///
/// let options = LogOptions::new([7; 16])
///     .sync_mode(SyncMode::Interval(Duration::from_secs(1)))
///     .segment_size_bytes(16 << 20);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct LogOptions {
    pub(crate) uuid: [u8; 16],
    pub(crate) mode: SyncMode,
    pub(crate) segment_size: u64,
    pub(crate) buffer_count: usize,
    pub(crate) starts_empty: bool,
    pub(crate) salvage: bool,
    pub(crate) background: bool,
    pub(crate) reached: Lsn,
    pub(crate) owner_has_all: bool,
    pub(crate) owner_is_proven: bool,
    pub(crate) owes_snapshot: bool,
}

impl LogOptions {
    /// The defaults, for the store with this identity.
    pub fn new(uuid: [u8; 16]) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        LogOptions {
            uuid,
            mode: SyncMode::Sync,
            segment_size: 64 << 20,
            buffer_count: (4 * cpus).next_power_of_two().clamp(4, 64),
            starts_empty: true,
            salvage: false,
            background: true,
            reached: 0,
            owner_has_all: false,
            owner_is_proven: false,
            owes_snapshot: false,
        }
    }

    /// When a commit is durable. Default: [`SyncMode::Sync`].
    pub fn sync_mode(mut self, mode: SyncMode) -> Self {
        self.mode = mode;
        self
    }

    /// Size of a segment file, in bytes, rounded up to whole blocks, at least two. A larger commit
    /// gets a segment of its own size. Default: 64 MiB.
    pub fn segment_size_bytes(mut self, size: u64) -> Self {
        self.segment_size = crate::layout::whole_blocks(size.max(2 * crate::layout::BLOCK_SIZE));
        self
    }

    /// Number of append buffers: threads are spread over them. Default: four per CPU, 4 to 64.
    pub fn buffer_count(mut self, count: usize) -> Self {
        self.buffer_count = count.max(1);
        self
    }

    /// Whether the store had nothing in it when the log was made. If it had, a new log is of use
    /// only together with a snapshot, and says so when it is recovered without one. Default: yes.
    pub fn starts_empty(mut self, yes: bool) -> Self {
        self.starts_empty = yes;
        self
    }

    /// Go on although something that was durable is damaged or missing, with what can be proven
    /// from before it. [`crate::Report::damages`] then lists what was found. The log goes on behind
    /// what was proven and is whole from then on; files from behind the damage are kept under the
    /// names `damaged-log-..` and `stale-..`, with a copy of the last segment if something is behind
    /// the damage in it and there is room, and nothing reads them again. Default: no.
    pub fn salvage(mut self, yes: bool) -> Self {
        self.salvage = yes;
        self
    }

    /// An LSN that was durable once, as its owner knows from elsewhere: a log that ends before it is refused,
    /// and nothing in it is changed, because nothing else tells that its end was cut off. Default: 0.
    pub fn reached(mut self, lsn: Lsn) -> Self {
        self.reached = lsn;
        self
    }

    /// Whether the owner has everything itself that was ever logged, and can write it to a snapshot. A log
    /// whose end was cut off is then not refused: it goes on behind the last LSN that is known, with a gap,
    /// so that nothing before it can be taken for whole, and is of no use until a snapshot is written
    /// ([`crate::Report::is_cut`]). Default: no.
    pub fn owner_has_all(mut self, yes: bool) -> Self {
        self.owner_has_all = yes;
        self
    }

    /// Whether the owner has proven that it has everything and that nothing of it is damaged. With
    /// [`Self::owner_has_all`] a log whose last segment is damaged is then not refused either: it goes on as
    /// one that was cut off there, and what is damaged stays until two snapshots are newer. Default: no.
    pub fn owner_is_proven(mut self, yes: bool) -> Self {
        self.owner_is_proven = yes;
        self
    }

    /// Whether the owner has something that was never logged, on which what is logged from now on may
    /// depend. Then nothing of that counts as durable until a snapshot is there that was begun after the
    /// opening, and a crash before leaves the log as it was found ([`crate::Log::owes_snapshot`]). A store that
    /// owed one before that never came is told ([`crate::Report::was_owing`]). A log that is cut needs a snapshot
    /// anyhow, and is not kept in this way. Default: no.
    pub fn owes_snapshot(mut self, yes: bool) -> Self {
        self.owes_snapshot = yes;
        self
    }

    /// Whether the log has a thread of its own that syncs in [`SyncMode::Interval`]. Without it,
    /// the owner of the log calls [`crate::Log::tick`]; simulated runs do. Default: yes.
    pub fn background_thread(mut self, yes: bool) -> Self {
        self.background = yes;
        self
    }
}
