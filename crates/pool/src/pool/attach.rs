//! Making a pool of memory that has one, or is to have one.

use std::path::Path;

use everleaf_machine::lock_rank::Rank;
use everleaf_machine::{Atomic, Hardware, Machine, OwnerProcess, SpinLock};

use super::format::{floor, format, lasting_domain};
use super::{HeaderState, MEMORY, Pool, directory, ids, seal};
use crate::backing::MemoryBacking;
use crate::layout::{HEADER_OFFSETS, SESSION_OFFSETS, SIZE_MIN};
use crate::session_record::{Evidence, SessionRecord, noted};
use crate::view::View;
use crate::{Backing, Domain, Medium, PoolError, header, session_record};

impl Pool<Hardware> {
    /// A new pool in plain memory, gone when dropped: for tests, benches and caches.
    ///
    /// `size` and `max` are in bytes, rounded up to 64 KiB, at least 128 KiB. Every domain can be
    /// asked for; the flushes are then made, though nothing survives anyway.
    ///
    /// # Errors
    /// `AddressSpace` if `max` bytes of addresses are not to be had.
    pub fn in_memory(size: u64, max: u64, domain: Domain) -> Result<Self, PoolError> {
        let backing = MemoryBacking::new(size, max)?;
        Self::with_backing(Box::new(backing), domain, max, true)
    }
}

impl<M: Machine> Pool<M> {
    /// A pool on memory that the caller provides: the simulated machine's, or a test's.
    ///
    /// With `format_new` the memory, which must read as zero, becomes a new pool that may grow to
    /// `max` bytes; without, it must contain one, whose maximum is raised to `max` if that is
    /// larger. `max` never exceeds the capacity of the backing; 0 leaves it to header or capacity.
    ///
    /// # Errors
    /// `Foreign`, `NewerFormat`, `UnknownFeatures`, `Damaged`, `Truncated`,
    /// `MachineCrashed` by the contents; `PoolFull` if the backing cannot hold the smallest pool;
    /// the backing's own.
    pub fn with_backing(
        backing: Box<dyn Backing>,
        domain: Domain,
        max: u64,
        format_new: bool,
    ) -> Result<Self, PoolError> {
        Self::attach(backing, domain, max, format_new, false)
    }

    /// As [`Pool::with_backing`] of memory that contains a pool, also after a crash of the machine, or if the disk has
    /// refused a write of it: the caller knows that nothing is lost.
    ///
    /// # Errors
    /// As [`Pool::with_backing`], but for `MachineCrashed`.
    pub fn with_backing_trusted(
        backing: Box<dyn Backing>,
        domain: Domain,
    ) -> Result<Self, PoolError> {
        Self::attach(backing, domain, 0, false, true)
    }

    /// [`Pool::with_backing`], optionally trusting a pool after a machine crash.
    pub(crate) fn attach(
        backing: Box<dyn Backing>,
        domain: Domain,
        max: u64,
        format_new: bool,
        trust: bool,
    ) -> Result<Self, PoolError> {
        let place = backing.path().unwrap_or(Path::new(MEMORY)).to_path_buf();
        let (length, capacity) = (backing.size(), backing.capacity());
        if length < SIZE_MIN || capacity < length {
            let short = PoolError::Truncated { path: place.clone(), length, needed: SIZE_MIN };
            let full = PoolError::PoolFull { path: place, needed: SIZE_MIN, max: capacity };
            return Err(if format_new { full } else { short });
        }
        // SAFETY: a backing promises `size()` bytes at its base for as long as it lives, aligned,
        // writable unless it is read-only; the view lives within the pool that owns the backing.
        let view = unsafe { View::<M>::new(backing.base(), domain) };
        if format_new {
            format(view, &*backing, domain, max);
        }
        let (mut header, whole, same) =
            header::choose(&HEADER_OFFSETS.map(|offset| view.read(offset)), &place)?;
        let (last, session_whole, session_same) =
            session_record::choose(&SESSION_OFFSETS.map(|offset| view.read(offset)), &place)?;
        if last.size > length {
            return Err(PoolError::Truncated { path: place, length, needed: last.size });
        }
        ids::last_id(view, &place)?;
        directory::check(view, &place)?;
        if let Some(evidence) = last.crashed_with_machine(&backing.environment())
            && !trust
        {
            let Evidence { told, is_certain } = evidence;
            return Err(PoolError::MachineCrashed { path: place, evidence: told, is_certain });
        }

        let max_size = max.max(header.max_size).max(last.size).min(floor(capacity));
        let read_only = backing.is_read_only();
        let mut pool = Pool {
            base: backing.base(),
            max_size,
            size: Atomic::new(last.size),
            medium: Medium::new(domain),
            read_only,
            was_clean: last.clean,
            seal: seal::at_opening(view, last.generation),
            uuid: header.uuid,
            features: Atomic::new(header.features),
            owner: OwnerProcess::current(),
            session: SpinLock::ranked(Rank::PoolSession, last),
            directory_lock: SpinLock::ranked(Rank::PoolDirectory, HeaderState::default()),
            backing,
        };
        let trusts_caches = M::mutant("pool.trusts_caches");
        if !last.clean && pool.backing.outlives_stores() && !trusts_caches {
            // Persist: what a killed process stored and did not flush is still in the caches; recovery
            // and readers will rely on it, and none of their flushes covers it.
            pool.medium.persist(pool.base, last.size as usize);
        }
        if !read_only {
            // Before anything else: of a pool that is marked clean both copies of the header are equal.
            pool.begin_session(session_whole, session_same)?;
            let raised = floor(max_size) > header.max_size;
            if raised {
                header.max_size = floor(max_size);
                header.generation += 1;
            }
            if raised || !same {
                header.write(view, whole);
            }
            pool.repair_ids()?;
        }
        Ok(pool)
    }

    /// Makes both copies of the id counter whole again.
    fn repair_ids(&self) -> Result<(), PoolError> {
        let [a, b]: [[u64; 1]; 2] =
            crate::layout::IDS_OFFSETS.map(|offset| self.view().read(offset));
        if a != b {
            ids::write(self.view(), ids::last_id(self.view(), self.place())?);
        }
        Ok(())
    }

    /// Notes durably that the pool is in use by this boot of the system, before anything in it is
    /// changed (I5).
    fn begin_session(&mut self, whole: usize, same: bool) -> Result<(), PoolError> {
        let environment = self.backing.environment();
        let is_marked = self.backing.begin_writing()?;
        let session = *self.session.get_mut();
        if session.has_failed_write() && !self.survives_machine() {
            // Somebody knows that nothing is lost: then the disk gets what it may lack, before anything counts on it.
            let action = "write all of it anew";
            let error = |source| PoolError::Io { path: self.place().into(), action, source };
            self.backing.write_anew(session.size).map_err(error)?;
            self.sync(action)?;
        }
        let mut next = SessionRecord {
            clean: false,
            domain: lasting_domain(&*self.backing, self.medium.domain()),
            // Without a mark nobody could tell whether the file was forgotten.
            boot_id: noted(environment.boot_id, if is_marked { environment.place } else { 0 }),
            dirty_shutdowns: environment.dirty_shutdowns,
            ..session
        };
        if (next != session || !same) && !M::mutant("pool.stays_clean") {
            next.generation += 1;
            next.write(self.view(), whole);
            *self.session.get_mut() = next;
            let synced = self.sync("sync the session record");
            synced.inspect_err(|_| self.end_session_in_vain(&session))?;
        } else if !self.survives_machine() {
            // Another process of this boot has written the record, and may have been killed, or refused by the disk,
            // before it was durable: the page cache shows it, and the disk may still have the clean mark of the session
            // before, under which what is changed from now on would be trusted after a loss of power.
            next.write(self.view(), whole);
            // Persist: the record before anything is changed (I5). Its pages are dirty again, also after a sync that
            // failed, and with them goes what the header says in the same pages, of a log or a feature. The rest, of
            // which much may be waiting, is not waited for.
            let synced = self.sync_records("sync the session record");
            synced.inspect_err(|_| self.note_failed_write())?;
        }
        Ok(())
    }

    /// Leaves a pool that was closed as it was, since the disk refused the record of a new session and nothing else has
    /// changed; one that was not closed may have been refused any other part of it.
    fn end_session_in_vain(&mut self, found: &SessionRecord) {
        if !found.clean {
            return self.note_failed_write();
        }
        let generation = self.session.get_mut().generation + 1;
        if let Some(seal) = self.seal {
            let _ = self.set_seal(seal);
        }
        // Not synced: the disk has the record that was found, which says the same.
        SessionRecord { generation, ..*found }.write(self.view(), 0);
    }
}
