//! A new index, and recovery: the directory is read, and splits that a cut left half done are undone.

use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::{IndexError, PoolBase, RootObject};
use everleaf_machine::{Atomic, Machine, Ordering};

use super::Cceh;
use super::directory::{DEPTH_MAX, Directory};
use super::layout::{DIRECTORY_WORD, Segment, TAG};
use super::variant::Variant;
use crate::node::version_lock::VersionLock;

fn damage(offset: u64, what: String) -> AllocError {
    AllocError::Corrupt { offset, what }
}

impl<V: Variant, M: Machine> Cceh<V, M> {
    fn assemble(
        session: &Session<M>,
        anchor: RootObject<M>,
        directory: Directory,
    ) -> Result<Self, IndexError> {
        let heap = session.heap().clone();
        let is_writable = !heap.pool().is_read_only();
        // Nobody locks anything in a pool that is open read-only: all locks count as open.
        let generation = if is_writable { heap.pool().next_id()? } else { u32::MAX };
        Ok(Cceh {
            base: PoolBase::of(&heap),
            medium: heap.medium(),
            anchor,
            current: Atomic::new(directory.word()),
            directory_lock: VersionLock::new(0),
            generation,
            is_writable,
            _heap: heap,
            variant: std::marker::PhantomData,
        })
    }

    pub(super) fn create_in(session: &mut Session<M>) -> Result<Self, IndexError> {
        let anchor = RootObject::create(session, TAG)?;
        let made = Self::create_below(session, anchor);
        made.inspect_err(|_| anchor.free(session))
    }

    /// The first directory, of two segments, and the index.
    fn create_below(session: &mut Session<M>, anchor: RootObject<M>) -> Result<Self, IndexError> {
        let segment_size = Segment::<V, M>::SIZE;
        let sizes = [Directory::size(1), segment_size, segment_size];
        let mut made = vec![];
        let all = sizes.iter().try_for_each(|size| {
            session.allocate_record(*size).map(|offset| made.push(offset)).map_err(IndexError::from)
        });
        let index = all.and_then(|()| {
            Self::assemble(session, anchor, Directory { offset: made[0], depth: 1 })
        });
        let index = index.inspect_err(|_| {
            made.iter().zip(sizes).for_each(|(offset, size)| session.free_record(*offset, size));
        })?;
        let directory = index.directory();
        for (number, offset) in made[1..].iter().enumerate() {
            let segment = index.segment(*offset);
            segment.build(index.generation, ((number as u64) << 63, 1), None);
            segment.head.lock.unlock();
            // Persist: the segment before the directory leads to it.
            index.medium.persist(segment.as_ptr(), segment_size);
            index.entry(directory, number as u64).write_private(*offset);
        }
        // Persist: the directory before the anchor names it (C2).
        index.medium.persist(index.entry(directory, 0).as_ptr(), 16);
        anchor.word(DIRECTORY_WORD).write_private(directory.word());
        // Persist: the anchor before the pool's directory names the index.
        index.medium.persist(anchor.word(0).as_ptr(), 16);
        Ok(index)
    }

    pub(super) fn open_in(
        session: &Session<M>,
        recovery: &Recovery<M>,
        root: u32,
    ) -> Result<Self, IndexError> {
        let anchor = RootObject::open(session.heap(), recovery, root, TAG)?;
        let word = anchor.word(DIRECTORY_WORD).read_private();
        let directory = Directory::from_word(word);
        if !(1..=DEPTH_MAX).contains(&directory.depth) {
            let what = format!("an index's anchor names a directory of depth {}", directory.depth);
            return Err(damage(directory.offset, what).into());
        }
        recovery.mark_record(directory.offset, Directory::size(directory.depth))?;
        let index = Self::assemble(session, anchor, directory)?;
        for found in index.strides() {
            let stride = found?;
            recovery.mark_record(stride.segment, Segment::<V, M>::SIZE)?;
            index.settle(recovery, directory, &stride)?;
        }
        Ok(index)
    }

    /// The directory as its leftmost entries have it: each stands for as many as the depth of its segment
    /// says. Nobody else is active.
    pub(super) fn strides(&self) -> impl Iterator<Item = Result<Stride, AllocError>> {
        let directory = self.directory();
        let mut next = Some(0).filter(|first| *first < directory.count());
        std::iter::from_fn(move || {
            let first = next.take()?;
            let found = self.stride(directory, first);
            let end = found.as_ref().map_or(directory.count(), |stride| first + stride.count);
            next = Some(end).filter(|end| *end < directory.count());
            Some(found)
        })
    }

    /// The stride that begins at an entry.
    fn stride(&self, directory: Directory, first: u64) -> Result<Stride, AllocError> {
        let segment = self.entry(directory, first).read_private();
        let depth = self.depth_of(directory, first, segment)?;
        let count = 1 << (directory.depth - depth);
        if first.is_multiple_of(count) {
            return Ok(Stride { first, count, segment });
        }
        let what = format!("a segment of depth {depth} begins at entry {first} of its directory");
        Err(damage(segment, what))
    }

    /// The depth of the segment that an entry leads to, if it is one that can be there.
    fn depth_of(&self, directory: Directory, index: u64, offset: u64) -> Result<u32, AllocError> {
        let is_place = offset.is_multiple_of(64) && offset != 0;
        if !is_place || !self.base.holds(offset, Segment::<V, M>::SIZE) {
            let what = format!("entry {index} of a directory leads to no segment");
            return Err(damage(offset, what));
        }
        let segment = self.segment(offset);
        let (low, depth) = (segment.low(), segment.depth());
        let hash = index << (64 - directory.depth);
        let is_right = (1..=directory.depth).contains(&depth)
            && segment.covers(hash)
            && low.trailing_zeros() >= 64 - depth;
        let what = || format!("entry {index} of a directory leads to hashes from {low:#x} on");
        if is_right { Ok(depth) } else { Err(damage(offset, what())) }
    }

    /// Makes all entries of a stride lead where the first one does: those that do not are of a split that
    /// was cut off before its depth was durable, and of whose upper half nothing was used (C3).
    fn settle(
        &self,
        recovery: &Recovery<M>,
        directory: Directory,
        stride: &Stride,
    ) -> Result<(), AllocError> {
        let mut is_changed = false;
        for index in stride.first + 1..stride.first + stride.count {
            let entry = self.entry(directory, index);
            let found = entry.read_private();
            if found == stride.segment || M::mutant("cceh.no_repair") {
                continue;
            }
            if self.is_writable {
                M::mark("cceh.undo_split");
                // Relaxed: nobody else is active.
                entry.store(stride.segment, Ordering::Relaxed);
                is_changed = true;
            } else {
                // Nothing can be changed: the upper half has the same pairs, and can be read.
                recovery.record_mark(found, Segment::<V, M>::SIZE)?;
                self.depth_of(directory, index, found)?;
            }
        }
        if is_changed && !M::mutant("cceh.no_repair_flush") {
            let start = self.entry(directory, stride.first).as_ptr();
            // Persist: the entries before the record of the upper half is used for something else.
            self.medium.persist(start, 8 * stride.count as usize);
        }
        Ok(())
    }

    /// Gives everything back; nobody can reach the index any more.
    pub(super) fn free_everything(&self, session: &mut Session<M>) {
        let segments: Vec<u64> = self.strides().flatten().map(|stride| stride.segment).collect();
        for segment in segments {
            session.free_record(segment, Segment::<V, M>::SIZE);
        }
        let directory = self.directory();
        session.free_record(directory.offset, Directory::size(directory.depth));
        self.anchor.free(session);
    }
}

/// Entries that follow each other and lead to one segment.
pub(super) struct Stride {
    /// The first entry.
    pub first: u64,
    /// How many there are: a power of two.
    pub count: u64,
    /// The segment that the first leads to.
    pub segment: u64,
}
