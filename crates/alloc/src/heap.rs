//! The heap: everything the threads of one open pool share about space.

use std::sync::Arc;

use everleaf_machine::lock_rank::Rank;
use everleaf_machine::{Machine, SpinGuard, SpinLock};
use everleaf_pool::{Medium, Pool};

use crate::depot::Depot;
use crate::epoch::EpochClock;
use crate::error::AllocError;
use crate::holes::Holes;
use crate::layout::{BLOCK_SIZE, CHUNK_SHIFT, CHUNK_SHIFT_MAX, CHUNK_SHIFT_MIN, HEAP_MAGIC};
use crate::recover::Recovery;
use crate::session::Session;
use crate::space::{Space, unit_shift};

/// The space of one open pool. Shared by all threads; each works through its own [`Session`].
pub struct Heap<M: Machine> {
    pool: Pool<M>,
    shift: u32,
    pub(crate) epochs: EpochClock<M>,
    pub(crate) space: SpinLock<Space, M>,
    pub(crate) depot: SpinLock<Depot, M>,
    /// Held while a session begins.
    pub(crate) session_gate: SpinLock<(), M>,
}

impl<M: Machine> Heap<M> {
    /// Makes the heap of a new pool, with chunks of the ordinary size.
    ///
    /// # Errors
    /// The pool cannot be grown to the first chunk.
    pub fn create(pool: Pool<M>) -> Result<Arc<Self>, AllocError> {
        Self::create_with_chunks(pool, CHUNK_SHIFT)
    }

    /// Makes the heap of a new pool, with chunks of `1 << shift` bytes (shift 12..=24).
    ///
    /// # Errors
    /// The pool cannot be grown to the first chunk.
    pub fn create_with_chunks(pool: Pool<M>, shift: u32) -> Result<Arc<Self>, AllocError> {
        assert!((CHUNK_SHIFT_MIN..=CHUNK_SHIFT_MAX).contains(&shift), "chunk shift {shift}");
        let start = pool.data_start();
        if pool.size() < start + BLOCK_SIZE as u64 {
            pool.grow(start + BLOCK_SIZE as u64)?;
        }
        let shift_word = pool.word(start + 8);
        shift_word.write_private(u64::from(shift));
        // Persist: the chunk size before the magic that vouches for it.
        pool.medium().persist(shift_word.as_ptr(), 8);
        let magic = pool.word(start);
        magic.write_private(HEAP_MAGIC);
        // Persist: the heap exists before anything is taken from it.
        if !M::mutant("alloc.create_unflushed") {
            pool.medium().persist(magic.as_ptr(), 8);
        }
        let first = first_chunk(&pool, shift);
        let space = Space::new(&pool, shift, first);
        Ok(Arc::new(Self::assemble(pool, shift, space)))
    }

    /// Whether the pool holds a heap (a crash may have come before it was made).
    pub fn exists(pool: &Pool<M>) -> bool {
        let start = pool.data_start();
        pool.size() >= start + BLOCK_SIZE as u64 && pool.word(start).read_private() == HEAP_MAGIC
    }

    /// Opens the heap of an existing pool: walks the chunks and returns what recovery needs to find
    /// out which blocks and records are in use. The heap may be allocated from after
    /// [`Recovery::finish`].
    ///
    /// # Errors
    /// A header that cannot be ours.
    pub fn open(pool: Pool<M>) -> Result<(Arc<Self>, Recovery<M>), AllocError> {
        match Self::read(&pool) {
            Ok((shift, recovery)) => {
                let space = Space::new(&pool, shift, recovery.frontier());
                Ok((Arc::new(Self::assemble(pool, shift, space)), recovery))
            }
            Err(error) => {
                // Nothing was changed but the space of holes. Without its mark the pool counts as not closed.
                let _ = pool.leave_as_found();
                Err(error)
            }
        }
    }

    /// The chunk size, as a shift, and what the chunks' headers say.
    fn read(pool: &Pool<M>) -> Result<(u32, Recovery<M>), AllocError> {
        let start = pool.data_start();
        let corrupt = |what: &str| AllocError::Corrupt { offset: start, what: what.to_string() };
        if !Self::exists(pool) {
            return Err(corrupt("there is no heap header"));
        }
        let shift = pool.word(start + 8).read_private();
        if !(u64::from(CHUNK_SHIFT_MIN)..=u64::from(CHUNK_SHIFT_MAX)).contains(&shift) {
            return Err(corrupt("the chunk size is out of range"));
        }
        let shift = shift as u32;
        let mut recovery = Recovery::walk(pool, shift, first_chunk(pool, shift))?;
        if !pool.is_read_only() && pool.has_holes() {
            recovery.holes = Holes(pool.holes()?);
            let is_chunk = M::mutant("recovery.secures_chunks");
            let unit = if is_chunk { shift } else { unit_shift(pool, shift) };
            for (from, to) in recovery.used_ranges(pool.size(), unit) {
                for (from, to) in recovery.holes.within(from, to) {
                    pool.secure(from, to)?;
                }
            }
        }
        Ok((shift, recovery))
    }

    fn assemble(pool: Pool<M>, shift: u32, space: Space) -> Self {
        Heap {
            pool,
            shift,
            epochs: EpochClock::default(),
            space: SpinLock::ranked(Rank::Chunks, space),
            depot: SpinLock::ranked(Rank::Depot, Depot::default()),
            session_gate: SpinLock::ranked(Rank::SessionGate, ()),
        }
    }

    /// A session for the calling thread.
    ///
    /// # Errors
    /// [`AllocError::TooManySessions`]; a pool that was inherited by a fork.
    pub fn session(self: &Arc<Self>) -> Result<Session<M>, AllocError> {
        self.pool.check_process()?;
        Session::open(self.clone())
    }

    /// Lets no session begin until the guard is dropped: those that try wait.
    pub fn block_new_sessions(&self) -> SpinGuard<'_, (), M> {
        self.session_gate.lock()
    }

    /// How many sessions there are now.
    pub fn session_count(&self) -> usize {
        self.epochs.participant_count()
    }

    /// The pool the heap is in.
    pub fn pool(&self) -> &Pool<M> {
        &self.pool
    }

    /// The persistence verbs of the pool.
    #[inline(always)]
    pub fn medium(&self) -> Medium<M> {
        self.pool.medium()
    }

    /// Address of offset 0 of the pool.
    #[inline(always)]
    pub fn base(&self) -> *mut u8 {
        self.pool.base()
    }

    /// Address of a leaf block.
    #[inline(always)]
    pub fn block_address(&self, block: u32) -> *mut u8 {
        debug_assert!((u64::from(block) + 1) * BLOCK_SIZE as u64 <= self.pool.size());
        self.pool.base().wrapping_add(block as usize * BLOCK_SIZE)
    }

    /// Bytes of a chunk.
    pub fn chunk_size(&self) -> usize {
        1 << self.shift
    }

    /// Binary logarithm of the bytes of a chunk.
    pub fn chunk_shift(&self) -> u32 {
        self.shift
    }

    /// Bytes of the pool that belong to some chunk in use, headers and roots included.
    pub fn used_bytes(&self) -> u64 {
        let space = self.space.lock();
        (space.frontier() - space.free_chunks()) << self.shift
    }

    /// Bytes whose disk space could be returned to the system now, about: free chunks that have some and fill
    /// whole units ([`Pool::hole_unit`]), and free blocks and records, which may fill chunks.
    pub fn returnable_bytes(&self) -> u64 {
        let whole = self.space.lock().returnable_bytes();
        whole + self.depot.lock().free_bytes()
    }

    /// Bytes of free chunks whose disk space was returned and not taken again, or that had none at
    /// opening as far as the file system tells (some count space that was never written).
    pub fn returned_bytes(&self) -> u64 {
        self.space.lock().hole_bytes()
    }

    /// Returns the disk space of free chunks that fill whole units ([`Pool::hole_unit`]) to the system, which
    /// then reads as zero and is allocated again before it is used. Returns the bytes. The chunks are locked for
    /// one part of it at a time.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn return_space(&self) -> Result<u64, AllocError> {
        self.return_space_but(0, || true)
    }

    /// As [`Self::return_space`], of all but about `keep` bytes, and while `goes_on` says so.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn return_space_but(
        &self,
        keep: u64,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<u64, AllocError> {
        self.release_empty_chunks();
        let mut bytes = 0;
        while goes_on() {
            let returned = self.space.lock().return_some(&self.pool, keep)?;
            let Some(returned) = returned else { break };
            bytes += returned;
        }
        Ok(bytes)
    }

    /// The epoch under which something unlinked before this call may be retired by hand.
    pub fn retire_epoch(&self) -> u64 {
        self.epochs.retire_epoch()
    }

    /// Whether what was retired by hand under `epoch` may be reclaimed.
    pub fn is_expired(&self, epoch: u64) -> bool {
        self.epochs.is_expired(epoch)
    }

    /// Waits until every session that is pinned now has ended that pin. What the caller stored before
    /// is then seen by all that is pinned: a session that saw the state before has finished.
    ///
    /// *Blocking*: for as long as the longest of these pins. The caller's session must not be pinned,
    /// or it waits for itself.
    pub fn await_pins(&self) {
        // What a pinned session saw before our store is like something unlinked by it: two epochs
        // later nobody can hold it (E1).
        let epoch = self.epochs.retire_epoch();
        let (mut last, mut attempt) = (0, 0);
        while !self.epochs.is_expired(epoch) {
            let now = self.epochs.try_advance();
            if now == last {
                // Somebody is pinned, and has to do something before anything changes.
                M::spin(attempt);
                attempt += 1;
            }
            last = now;
        }
    }

    /// Moves the epoch as far as it can go now, so that what was retired can be reclaimed.
    pub fn advance_epoch(&self) {
        for _ in 0..3 {
            self.epochs.try_advance();
        }
    }
}

impl<M: Machine> Drop for Heap<M> {
    fn drop(&mut self) {
        let arena = std::mem::take(&mut self.depot.get_mut().arena);
        for region in arena.regions {
            // SAFETY: sessions and trees hold the heap by `Arc`, so none is left to use a node.
            unsafe { region.release::<M>() }
        }
    }
}

/// The first chunk that lies wholly behind the heap header.
fn first_chunk<M: Machine>(pool: &Pool<M>, shift: u32) -> u64 {
    (pool.data_start() + BLOCK_SIZE as u64).div_ceil(1 << shift)
}
