//! The directory: from the first bits of a hash to its segment. It is doubled by a copy.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Atomic, Machine, Ordering};

use super::Cceh;
use super::directory_word::Directory;
use super::layout::{DIRECTORY_WORD, Head, Segment};
use super::variant::Variant;

impl<V: Variant, M: Machine> Cceh<V, M> {
    /// The directory as it is now.
    #[inline(always)]
    pub(super) fn directory(&self) -> Directory {
        // Acquire: the entries; pairs with the release in `double`.
        Directory::from_word(self.current.load(Ordering::Acquire))
    }

    /// An entry of a directory.
    #[inline(always)]
    pub(super) fn entry(&self, directory: Directory, index: u64) -> &Atomic<u64, M> {
        debug_assert!(index < directory.count());
        let place = directory.offset + 8 * index;
        let start = self.base.start().wrapping_add(place as usize).cast();
        // SAFETY: the directory is a record of the pool with so many atomic words: one that recovery has
        // marked, or that this opening made. One that was reclaimed meanwhile is still memory of the pool.
        unsafe { &*start }
    }

    /// The segment at an offset: one that an entry led to, or a new one.
    #[inline(always)]
    pub(super) fn segment(&self, offset: u64) -> Segment<'_, V, M> {
        let start = self.base.start().wrapping_add(offset as usize).cast::<Head<M>>();
        // SAFETY: offsets come from entries that recovery has checked or the running index has stored,
        // and from the allocator: records of a segment's size, 64-byte aligned, inside the pool, made of
        // atomic words.
        let head = unsafe { &*start };
        // SAFETY: the head of the segment at that offset; the pool is open as long as `self`.
        unsafe { Segment::new(offset, head) }
    }

    /// The segment that the directory has for a hash. If it does not cover the hash, it was split
    /// meanwhile.
    #[inline(always)]
    pub(super) fn segment_of(&self, hash: u64) -> Segment<'_, V, M> {
        let directory = self.directory();
        let index = directory.index(hash);
        if V::CACHED {
            return self.segment(self.copy.get(directory, index));
        }
        // Acquire: the segment; pairs with the release in `set_entry`.
        self.segment(self.entry(directory, index).load(Ordering::Acquire))
    }

    /// Holds the directory's lock: nobody else changes the directory.
    pub(super) fn lock_directory(&self) {
        let mut attempt = 0;
        while !self.directory_lock.try_lock(0) {
            M::spin(attempt);
            attempt += 1;
        }
    }

    /// Makes the entries of a segment lead to it, durably: that is the first one's doing, since recovery
    /// believes no other (C3). The caller holds the directory's lock.
    pub(super) fn point(&self, segment: Segment<'_, V, M>) {
        let directory = self.directory();
        let first = directory.index(segment.low());
        let count = 1 << (directory.depth - segment.depth());
        for index in first..first + count {
            self.set_entry(directory, index, segment.offset);
        }
        if !M::mutant("cceh.no_entry_flush") {
            // Persist: the first entry before the depth of the lower half (C3), or before the lock of a
            // segment that takes another's place is opened, and that one is used again (C6).
            self.medium.persist(self.entry(directory, first).as_ptr(), 8);
        }
    }

    /// Stores an entry; not durable yet. The caller holds the directory's lock.
    fn set_entry(&self, directory: Directory, index: u64, segment: u64) {
        // Release: the segment is complete; pairs with the acquire in `segment_of`.
        self.entry(directory, index).store(segment, Ordering::Release);
        if V::CACHED && !M::mutant("cceh.stale_copy") {
            self.copy.set(directory, index, segment);
        }
    }

    /// Copies the directory's entries to DRAM, in a variant with caching. Nobody else changes it.
    ///
    /// # Errors
    /// No memory.
    pub(super) fn copy_directory(
        &self,
        session: &mut Session<M>,
        directory: Directory,
    ) -> Result<(), AllocError> {
        if !V::CACHED {
            return Ok(());
        }
        self.copy.make_room(session, directory)?;
        for index in 0..directory.count() {
            self.copy.set(directory, index, self.entry(directory, index).read_private());
        }
        Ok(())
    }

    /// Doubles the directory. The caller holds its lock.
    ///
    /// # Errors
    /// No space; then nothing was changed.
    pub(super) fn double(&self, session: &mut Session<M>) -> Result<(), AllocError> {
        M::mark("cceh.double");
        let old = self.directory();
        let depth = old.depth + 1;
        let offset = session.allocate_record(Directory::size(depth))?;
        let new = Directory { offset, depth };
        for index in 0..old.count() {
            // Relaxed: only the holder of the lock changes entries.
            let segment = self.entry(old, index).load(Ordering::Relaxed);
            self.entry(new, 2 * index).write_private(segment);
            self.entry(new, 2 * index + 1).write_private(segment);
        }
        let copied = self.copy_directory(session, new);
        copied.inspect_err(|_| session.free_record(offset, Directory::size(depth)))?;
        if !M::mutant("cceh.no_directory_flush") {
            // Persist: the directory before the root object names it (C2).
            self.medium.persist(self.entry(new, 0).as_ptr(), 8 * new.count() as usize);
        }
        let word = self.root_object.word(DIRECTORY_WORD);
        // Release: the entries; recovery's view.
        word.store(new.word(), Ordering::Release);
        if !M::mutant("cceh.no_root_object_flush") {
            // Persist: the root object before an entry of the new directory differs from the old one's, and
            // before that one is used again (C2).
            self.medium.persist(word.as_ptr(), 8);
        }
        // Release: the entries; pairs with the acquire in `directory`.
        self.current.store(new.word(), Ordering::Release);
        if M::mutant("cceh.free_at_once") {
            session.free_record(old.offset, Directory::size(old.depth));
        } else {
            session.retire_record(old.offset, Directory::size(old.depth));
        }
        Ok(())
    }
}
