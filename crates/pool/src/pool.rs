//! The opened pool.

mod attach;
mod copies;
mod directory;
mod format;
mod ids;
mod seal;

use std::io;
use std::path::Path;

use everleaf_machine::{Atomic, Machine, Ordering, OwnerProcess, SpinLock};

pub use self::directory::{Root, is_root_whole};
pub use self::seal::Seal;
use crate::backing::is_boot_known;
use crate::header::{Header, LogNote};
use crate::layout::{
    DATA_START, FEATURE_LOG_NOTE, HEADER_OFFSETS, SESSION_OFFSETS, SESSION_SIZE, SIZE_GRANULE,
};
use crate::session_record::{SessionRecord, WRITE_FAILED};
use crate::view::View;
use crate::{Backing, Domain, FileName, Medium, PoolError, header};

/// The name of a pool without a file, in errors.
const MEMORY: &str = "(memory)";

/// What is known of the header besides what it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeaderState {
    /// It was written, and the disk has refused it: what it says is neither durable nor in force.
    is_unsynced: bool,
}

/// An opened pool. See the [crate's documentation](crate).
///
/// # Example
/// ```
/// use everleaf_machine::Ordering;
/// use everleaf_pool::{CreateMode, DATA_START, Pool, PoolOptions};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("example.pool");
/// let options = PoolOptions { create: CreateMode::IfMissing, ..PoolOptions::default() };
/// let pool = Pool::open(&path, &options)?;
/// let word = pool.word(DATA_START);
/// word.store(7, Ordering::Release);
/// pool.medium().persist(word.as_ptr(), 8);
/// drop(pool); // as if killed: no clean mark
///
/// let pool = Pool::open(&path, &PoolOptions::default())?;
/// assert!(!pool.was_clean());
/// assert_eq!(pool.word(DATA_START).load(Ordering::Acquire), 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pool<M: Machine> {
    base: *mut u8,
    max_size: u64,
    /// The size that is published; never smaller than the durable one was at that time.
    pub(crate) size: Atomic<u64, M>,
    medium: Medium<M>,
    read_only: bool,
    was_clean: bool,
    /// The one in force when it was opened.
    pub(crate) seal: Option<Seal>,
    uuid: [u8; 16],
    /// Incompatible features, as the header has them.
    features: Atomic<u64, M>,
    /// The session as both its copies have it; its lock is the right to change them.
    pub(crate) session: SpinLock<SessionRecord, M>,
    /// The right to change roots, ids and the header.
    pub(crate) directory_lock: SpinLock<HeaderState, M>,
    /// The process that may use it.
    owner: OwnerProcess,
    // Last, so that the memory goes after everything that refers to it.
    pub(crate) backing: Box<dyn Backing>,
}

// SAFETY: the base is the address of memory that the backing (itself `Send`) owns.
unsafe impl<M: Machine> Send for Pool<M> {}
// SAFETY: the memory is reached through words of the machine, or through `unsafe` code of others;
// everything else is immutable, atomic or behind a lock.
unsafe impl<M: Machine> Sync for Pool<M> {}

impl<M: Machine> Pool<M> {
    /// Whether what was stored survives the machine when it is durable by the domain of this pool: not on persistent
    /// memory that is used by the domain `Process`, which flushes nothing.
    fn survives_machine(&self) -> bool {
        let is_left_in_caches =
            self.backing.outlives_stores() && self.medium.domain() == Domain::Process;
        self.backing.survives_machine() && !is_left_in_caches
    }

    /// Sends what is stored to the disk, where stores alone do not survive the machine.
    fn sync(&self, action: &'static str) -> Result<(), PoolError> {
        if self.survives_machine() {
            return Ok(());
        }
        let error = |source| PoolError::Io { path: self.place().into(), action, source };
        self.backing.sync().map_err(error)
    }

    /// Notes that the disk refused to write something of the pool: from now on it is not said to be closed, and who
    /// opens it is told ([`WRITE_FAILED`]).
    fn note_failed_write_in(&self, session: &mut SessionRecord) {
        let generation = session.generation + 1;
        *session = SessionRecord { clean: false, boot_id: WRITE_FAILED, generation, ..*session };
        // Not synced: the next process of this boot finds it in memory, and another boot asks in any case.
        session.write(self.view(), 0);
    }

    /// Notes that the disk refused to write something of the pool, as a sync of its own does that fails: the system
    /// may have dropped what it could not write, and the next sync says nothing about that.
    ///
    /// *Thread-safe*; until the pool is closed, which is then refused. The next opening finds it as after a crash of
    /// the machine.
    pub fn note_failed_write(&self) {
        if self.writable("note a write that failed").is_ok() && !self.survives_machine() {
            self.note_failed_write_in(&mut self.session.lock());
        }
    }

    /// Marks the pool as closed cleanly: the next session need not look for what was left undone.
    ///
    /// To be called last, when no thread changes the pool any more. A pool on a disk is first
    /// written to it as a whole, which may take as long as the disk needs. Dropping
    /// a pool without this call is allowed; the next session then recovers.
    ///
    /// # Errors
    /// `ReadOnly`; `Io` if the disk refuses, or has refused a write of this pool before: what it did not write then
    /// may be lost, though later writes succeed. The pool then counts as not clean, and as doubtful at the next
    /// opening.
    pub fn set_clean(&self) -> Result<(), PoolError> {
        self.writable("mark it clean")?;
        let mut session = self.session.lock();
        self.write_clean(&mut session).inspect_err(|_| self.note_failed_write_in(&mut session))
    }

    fn write_clean(&self, session: &mut SessionRecord) -> Result<(), PoolError> {
        if session.has_failed_write() {
            return Err(PoolError::Io {
                path: self.place().into(),
                action: "mark it as closed",
                source: io::Error::other("the disk refused an earlier write of it"),
            });
        }
        // The data first, then the mark (I5).
        self.sync("sync the data")?;
        let next = SessionRecord { clean: true, generation: session.generation + 1, ..*session };
        next.write(self.view(), 0);
        *session = next;
        self.sync("sync the clean mark")
    }

    /// The address of the first byte of the pool; constant while it is open.
    #[inline(always)]
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// How stores to this pool are made durable.
    #[inline(always)]
    pub fn medium(&self) -> Medium<M> {
        self.medium
    }

    /// Offset of the first byte that belongs to the allocator: [`DATA_START`].
    #[inline(always)]
    pub fn data_start(&self) -> u64 {
        DATA_START
    }

    /// Bytes of the pool that may be used now; grows, never shrinks, at most [`Pool::max_size`].
    #[inline(always)]
    pub fn size(&self) -> u64 {
        // Acquire: the space up to this size is mapped; pairs with the release store in `grow`.
        self.size.load(Ordering::Acquire)
    }

    /// Bytes the pool may grow to.
    #[inline(always)]
    pub fn max_size(&self) -> u64 {
        self.max_size
    }

    /// Whether the pool may only be read; every changing call then fails with `ReadOnly`, and a
    /// store to a word of it faults.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The number that tells this pool from every other.
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// The path it was opened by; `None` for one without a file.
    pub fn path(&self) -> Option<&Path> {
        self.backing.path()
    }

    /// What has become of the name of its file since it was opened.
    pub fn file_name(&self) -> FileName {
        self.backing.name()
    }

    /// Whether the system tells its boots apart. Where it does not, the death of a process that had the pool open looks
    /// like a crash of the machine.
    pub fn is_boot_known(&self) -> bool {
        is_boot_known(self.backing.environment().boot_id)
    }

    /// Whether the last session ended with [`Pool::set_clean`]. A new pool was clean.
    pub fn was_clean(&self) -> bool {
        self.was_clean
    }

    /// The word at `offset` bytes from the start of the pool.
    ///
    /// *Panics* if the offset is not a multiple of 8 or not below [`Pool::size`], where there is nothing behind the
    /// address.
    #[inline(always)]
    pub fn word(&self, offset: u64) -> &Atomic<u64, M> {
        // Relaxed: a caller that has an offset has it from a thread that saw the size it lies below. (Not in a
        // simulation, where the load would be an event; it checks every access itself.)
        let size = if M::SIMULATED { self.max_size } else { self.size.load(Ordering::Relaxed) };
        // Sizes are multiples of 8, so an aligned offset below one leaves room for a word.
        assert!(
            offset < size && offset.is_multiple_of(8),
            "offset {offset} is not that of a word of the pool, which has {size} bytes"
        );
        let address = self.base.wrapping_add(offset as usize);
        // SAFETY: aligned, and below a size that the pool has had, up to which the backing keeps memory for
        // this pool alone (checked above; on a simulated machine by the access itself): it never shrinks. An
        // `Atomic<u64, _>` is a transparent, interior mutable 8-byte word for which every bit pattern is valid.
        unsafe { &*address.cast() }
    }

    /// The pool's own records.
    pub(crate) fn view(&self) -> View<M> {
        // SAFETY: as in `attach`; the view is not kept beyond the call that asked for it, and every caller that
        // writes has passed `writable`, or runs inside `attach` or `create`, which own the backing and are not
        // read-only.
        unsafe { View::new(self.base, self.medium.domain()) }
    }

    /// The name of the pool in errors.
    pub(crate) fn place(&self) -> &Path {
        self.backing.path().unwrap_or(Path::new(MEMORY))
    }

    /// The incompatible features that were ever used in the pool; see `layout.rs`.
    #[inline]
    pub fn features(&self) -> u64 {
        // Acquire: what came with the feature; pairs with the store in `enable_features`.
        self.features.load(Ordering::Acquire)
    }

    /// Notes durably that the pool has these features, before anything of them is in it: code that
    /// does not know them will refuse the pool.
    ///
    /// # Errors
    /// `ReadOnly`; `Io` if the disk refuses; `Damaged`.
    pub fn enable_features(&self, features: u64) -> Result<(), PoolError> {
        self.note_features(|header| {
            let is_known = header.features & features == features;
            header.features |= features;
            is_known
        })
    }

    /// Whether the pool says that it has these features, which older code ignores; see `layout.rs`.
    ///
    /// # Errors
    /// `Damaged`.
    pub fn has_compatible(&self, features: u64) -> Result<bool, PoolError> {
        let copies = HEADER_OFFSETS.map(|offset| self.view().read(offset));
        Ok(header::choose(&copies, self.place())?.0.compatible & features == features)
    }

    /// Notes durably that the pool has these features, which older code ignores.
    ///
    /// # Errors
    /// As [`Pool::enable_features`].
    pub fn enable_compatible(&self, features: u64) -> Result<(), PoolError> {
        self.note_features(|header| {
            let is_known = header.compatible & features == features;
            header.compatible |= features;
            is_known
        })
    }

    /// Lets those that open the pool from now on have `max` bytes of it at most, or what it has, if that is more: for a
    /// pool that was made with more room than it is to keep.
    ///
    /// # Errors
    /// As [`Pool::enable_features`].
    pub fn set_max_size(&self, max: u64) -> Result<(), PoolError> {
        self.note_features(|header| {
            let most = max.min(isize::MAX as u64) / SIZE_GRANULE * SIZE_GRANULE;
            let kept = most.max(self.size());
            std::mem::replace(&mut header.max_size, kept) == kept
        })
    }

    /// Which log the pool was opened with last; `None` if it does not say.
    ///
    /// # Errors
    /// `Damaged`.
    pub fn log_note(&self) -> Result<Option<LogNote>, PoolError> {
        let copies = HEADER_OFFSETS.map(|offset| self.view().read(offset));
        Ok(Some(header::choose(&copies, self.place())?.0.log).filter(|note| note.log != 0))
    }

    /// Notes durably which log the pool is opened with, so that after a crash of the machine it is not rebuilt from
    /// another one, or from an older copy. To be called when the log's folder says as much.
    ///
    /// # Errors
    /// As [`Pool::enable_features`].
    pub fn note_log(&self, log: LogNote) -> Result<(), PoolError> {
        let note = |header: &mut Header| {
            header.features |= FEATURE_LOG_NOTE;
            std::mem::replace(&mut header.log, log) == log
        };
        self.note(note, || self.sync_records("sync the header"))
    }

    /// Headers and sessions alone: of a pool whose process was killed, or that was loaded a moment ago, everything else
    /// may be waiting to be written, and who notes something is in the middle of an operation.
    fn sync_records(&self, action: &'static str) -> Result<(), PoolError> {
        if self.survives_machine() {
            return Ok(());
        }
        let end = SESSION_OFFSETS[1] + SESSION_SIZE;
        let error = |source| PoolError::Io { path: self.place().into(), action, source };
        self.backing.sync_start(end as usize).map_err(error)
    }

    /// Writes the header again with what `note` adds, unless it says that it is there.
    fn note_features(&self, note: impl FnOnce(&mut Header) -> bool) -> Result<(), PoolError> {
        self.note(note, || self.sync_records("note a feature"))
    }

    fn note(
        &self,
        note: impl FnOnce(&mut Header) -> bool,
        sync: impl FnOnce() -> Result<(), PoolError>,
    ) -> Result<(), PoolError> {
        self.writable("enable a feature")?;
        let mut state = self.directory_lock.lock();
        let copies = HEADER_OFFSETS.map(|offset| self.view().read(offset));
        let (mut header, whole, _) = header::choose(&copies, self.place())?;
        // What is there may be what a sync before this one has failed to bring to the disk.
        if note(&mut header) && !state.is_unsynced {
            return Ok(());
        }
        if M::mutant("pool.features_first") {
            // Release: a planted bug.
            self.features.store(header.features, Ordering::Release);
        }
        header.generation += 1;
        if !M::mutant("pool.features_forgotten") {
            header.write(self.view(), whole);
        }
        state.is_unsynced = true;
        // What the system tells of may be any page of the file.
        sync().inspect_err(|_| self.note_failed_write())?;
        state.is_unsynced = false;
        // Release: pairs with the load in `features`.
        self.features.store(header.features, Ordering::Release);
        Ok(())
    }

    /// Gives a pool that was just made the number of the one whose place it takes.
    pub(crate) fn set_uuid(&mut self, uuid: [u8; 16]) -> Result<(), PoolError> {
        let copies = HEADER_OFFSETS.map(|offset| self.view().read(offset));
        let (mut header, whole, _) = header::choose(&copies, self.place())?;
        header.uuid = uuid;
        header.write(self.view(), whole);
        self.uuid = uuid;
        Ok(())
    }

    /// Marks a pool clean again whose opening was refused before anything in it was changed that a seal
    /// covers or that could be read, with the seal that it had. One that was not clean keeps its seal, if it has one.
    ///
    /// # Errors
    /// As [`Pool::set_clean`].
    pub fn leave_as_found(&self) -> Result<(), PoolError> {
        if !self.was_clean || self.read_only {
            self.keep_seal();
            return Ok(());
        }
        if let Some(seal) = self.seal {
            self.set_seal(seal)?;
        }
        self.set_clean()
    }

    /// Whether the pool was opened by this very process, not by one that it was forked from. In a
    /// forked process nothing of the pool may be touched.
    #[inline(always)]
    pub fn is_of_this_process(&self) -> bool {
        self.owner.is_current()
    }

    /// Refuses the use of a pool that was inherited by a fork.
    ///
    /// # Errors
    /// `Forked`.
    #[inline(always)]
    pub fn check_process(&self) -> Result<(), PoolError> {
        if self.is_of_this_process() { Ok(()) } else { Err(self.forked()) }
    }

    #[cold]
    #[inline(never)]
    fn forked(&self) -> PoolError {
        PoolError::Forked { path: self.place().into() }
    }

    /// Refuses `action` on a pool that is open for reading only.
    pub(crate) fn writable(&self, action: &'static str) -> Result<(), PoolError> {
        self.check_process()?;
        if self.read_only {
            return Err(PoolError::ReadOnly { path: self.place().into(), action });
        }
        Ok(())
    }
}

impl<M: Machine> std::fmt::Debug for Pool<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("path", &self.place())
            .field("size", &self.size())
            .field("max_size", &self.max_size)
            .field("domain", &self.medium.domain())
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}
