//! A new index, and recovery: the directory is read, and splits that a cut left half done are undone.

use everleaf_alloc::layout::POOL_SIZE_MAX;
use everleaf_alloc::{AllocError, Recovery, Session};
use everleaf_index::{IndexError, PoolBase, RootObject};
use everleaf_machine::{Atomic, Machine, Ordering};

use super::Cceh;
use super::directory_copy::DirectoryCopy;
use super::directory_word::{DEPTH_MAX, Directory};
use super::layout::{DIRECTORY_WORD, LOG_WORD, Segment, tag};
use super::variant::Variant;
use crate::node::buffer_table::Buffers;
use crate::node::version_lock::VersionLock;
use crate::node::write_log::{Logs, SEQUENCE_BOUND, sort_by_sequence};

fn damage(offset: u64, what: String) -> AllocError {
    AllocError::Corrupt { offset, what }
}

impl<V: Variant, M: Machine> Cceh<V, M> {
    fn assemble(
        session: &Session<M>,
        root_object: RootObject<M>,
        directory: Directory,
    ) -> Result<Self, IndexError> {
        let heap = session.heap().clone();
        let is_writable = !heap.pool().is_read_only();
        // Nobody locks anything in a pool that is open read-only: all locks count as open.
        let generation = if is_writable { heap.pool().next_id()? } else { u32::MAX };
        let (base, medium) = (PoolBase::of(&heap), heap.medium());
        let shape = V::LOGS.shape();
        let logs = Logs::new(base, medium, (root_object, LOG_WORD), generation, shape);
        let bytes = heap.pool().max_size().min(POOL_SIZE_MAX);
        let end = if V::BUFFERED { bytes } else { 0 };
        let places = end.div_ceil(Segment::<V, M>::SIZE as u64);
        Ok(Cceh {
            base,
            medium,
            root_object,
            current: Atomic::new(directory.word()),
            directory_lock: VersionLock::new(0),
            copy: DirectoryCopy::new(if V::CACHED { bytes } else { 0 }),
            buffers: Buffers::new(places, V::NODES as u64, logs),
            generation,
            is_writable,
            _heap: heap,
            variant: std::marker::PhantomData,
        })
    }

    pub(super) fn create_in(session: &mut Session<M>) -> Result<Self, IndexError> {
        let root_object = RootObject::create(session, tag::<V>())?;
        let made = Self::create_below(session, root_object);
        made.inspect_err(|_| root_object.free(session))
    }

    /// The first directory, of two segments, and the index.
    fn create_below(
        session: &mut Session<M>,
        root_object: RootObject<M>,
    ) -> Result<Self, IndexError> {
        let segment_size = Segment::<V, M>::SIZE;
        let sizes = [Directory::size(1), segment_size, segment_size];
        let mut made = vec![];
        let all = sizes.iter().try_for_each(|size| {
            session.allocate_record(*size).map(|offset| made.push(offset)).map_err(IndexError::from)
        });
        let index = all.and_then(|()| {
            Self::assemble(session, root_object, Directory { offset: made[0], depth: 1 })
        });
        let index = index.inspect_err(|_| {
            made.iter().zip(sizes).for_each(|(offset, size)| session.free_record(*offset, size));
        })?;
        let give_back = |session: &mut Session<M>| {
            index.free_volatile(session);
            made.iter().zip(sizes).for_each(|(offset, size)| session.free_record(*offset, size));
        };
        let room = made[1..]
            .iter()
            .try_for_each(|offset| index.make_room(session, index.segment(*offset)));
        room.inspect_err(|_| give_back(session))?;
        let directory = index.directory();
        for (number, offset) in made[1..].iter().enumerate() {
            let segment = index.segment(*offset);
            segment.build(index.generation, ((number as u64) << 63, 1), None);
            segment.head.lock.unlock();
            // Persist: the segment before the directory leads to it.
            index.medium.persist(segment.as_ptr(), segment_size);
            index.entry(directory, number as u64).write_private(*offset);
        }
        // Persist: the directory before the root object names it (C2).
        index.medium.persist(index.entry(directory, 0).as_ptr(), 16);
        if V::BUFFERED {
            index.buffers.logs.create();
        }
        root_object.word(DIRECTORY_WORD).write_private(directory.word());
        // Persist: the root object before the pool's directory names the index.
        index.medium.persist(root_object.word(0).as_ptr(), 16);
        index.copy_directory(session, directory).inspect_err(|_| give_back(session))?;
        Ok(index)
    }

    pub(super) fn open_in(
        session: &mut Session<M>,
        recovery: &Recovery<M>,
        root: u32,
    ) -> Result<Self, IndexError> {
        let root_object = RootObject::open(session.heap(), recovery, root, tag::<V>())?;
        let word = root_object.word(DIRECTORY_WORD).read_private();
        let directory = Directory::from_word(word);
        if !(1..=DEPTH_MAX).contains(&directory.depth) {
            let what =
                format!("an index's root object names a directory of depth {}", directory.depth);
            return Err(damage(directory.offset, what).into());
        }
        recovery.mark_record(directory.offset, Directory::size(directory.depth))?;
        let index = Self::assemble(session, root_object, directory)?;
        let restored = index.restore(session, recovery);
        restored.inspect_err(|_| index.free_volatile(session))?;
        Ok(index)
    }

    /// Marks and repairs what the directory leads to, and fills what is in DRAM.
    fn restore(&self, session: &mut Session<M>, recovery: &Recovery<M>) -> Result<(), IndexError> {
        for found in self.strides() {
            let stride = found?;
            recovery.mark_record(stride.segment, Segment::<V, M>::SIZE)?;
            self.complete_stride(self.directory(), &stride)?;
            let segment = self.segment(stride.segment);
            self.make_room(session, segment)?;
            if V::BUFFERED {
                let flushed = segment.flushed();
                // Far from what records can hold, and more than any index will ever write.
                if flushed >= SEQUENCE_BOUND {
                    let what = format!("a segment says that {flushed} writes are in their place");
                    return Err(damage(stride.segment, what).into());
                }
                self.set_sequence(segment, flushed);
            }
        }
        self.copy_directory(session, self.directory())?;
        if V::BUFFERED {
            self.restore_buffers(recovery)?;
        }
        Ok(())
    }

    /// Brings the log's records to the buffers.
    fn restore_buffers(&self, recovery: &Recovery<M>) -> Result<(), AllocError> {
        let logs = &self.buffers.logs;
        let mut records = vec![];
        logs.recover(recovery, &[], |place, record| records.push((place, record)))?;
        // The numbers of a segment's writes ascend, whatever logs they are in (C5).
        sort_by_sequence(&mut records);
        if M::mutant("cceh.no_sequence") {
            records.reverse();
        }
        let lost = records.into_iter().find(|(_, record)| !self.restore_record(*record));
        lost.map_or(Ok(()), |(place, record)| {
            let what = format!("record {} of the log has no room in its buffer", record.sequence);
            Err(damage(place, what))
        })
    }

    /// Marks the chunks of the log.
    pub(super) fn mark_logs(&self, used: &Recovery<M>) -> Result<(), AllocError> {
        if !V::BUFFERED {
            return Ok(());
        }
        let size = V::LOGS.shape().chunk_size();
        self.buffers.logs.for_each_chunk(|chunk| used.mark_record(chunk, size))
    }

    /// Gives the memory outside of the pool back. Nobody uses the index any more.
    fn free_volatile(&self, session: &mut Session<M>) {
        self.buffers.free(session);
        self.copy.free(session);
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

    /// Makes all entries of a stride lead where the first one does: those that do not are of a split, or of a
    /// segment to take another's place, that was cut off before a lock was opened, and of which nothing was
    /// used (C3, C6). Not made durable: no recovery believes an entry that is not the first of its stride.
    ///
    /// # Errors
    /// There is something to be done in a pool that is open read-only.
    fn complete_stride(&self, directory: Directory, stride: &Stride) -> Result<(), IndexError> {
        for index in stride.first + 1..stride.first + stride.count {
            let entry = self.entry(directory, index);
            if entry.read_private() == stride.segment || M::mutant("cceh.no_repair") {
                continue;
            }
            if !self.is_writable {
                return Err(IndexError::ReadOnly);
            }
            M::mark("cceh.undo_split");
            // Relaxed: nobody else is active.
            entry.store(stride.segment, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Gives everything back; nobody can reach the index any more.
    pub(super) fn free_everything(&self, session: &mut Session<M>) {
        let segments: Vec<u64> = self.strides().flatten().map(|stride| stride.segment).collect();
        for segment in segments {
            session.free_record(segment, Segment::<V, M>::SIZE);
        }
        for chunk in self.buffers.logs.chunks() {
            session.free_record(chunk, V::LOGS.shape().chunk_size());
        }
        let directory = self.directory();
        session.free_record(directory.offset, Directory::size(directory.depth));
        self.free_volatile(session);
        self.root_object.free(session);
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
