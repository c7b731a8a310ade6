//! A segment that has no place for a pair is split in two. The lower half stays where it is.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::Machine;

use super::Cceh;
use super::layout::Segment;
use super::variant::Variant;

impl<V: Variant, M: Machine> Cceh<V, M> {
    /// Splits a locked segment, and opens it.
    ///
    /// # Errors
    /// No space; then nothing was changed.
    pub(super) fn split(
        &self,
        session: &mut Session<M>,
        segment: Segment<'_, V, M>,
    ) -> Result<(), AllocError> {
        let upper = self.split_locked(session, segment);
        let upper = upper.inspect_err(|_| segment.head.lock.unlock())?;
        if !M::mutant("cceh.opens_first") {
            upper.head.lock.unlock();
        }
        segment.head.lock.unlock();
        Ok(())
    }

    /// Splits a locked segment, which stays locked, and gives its upper half, which is locked too.
    ///
    /// # Errors
    /// No space; then nothing was changed.
    pub(super) fn split_locked(
        &self,
        session: &mut Session<M>,
        segment: Segment<'_, V, M>,
    ) -> Result<Segment<'_, V, M>, AllocError> {
        let size = Segment::<V, M>::SIZE;
        let upper = self.new_segment(session)?;
        M::mark("cceh.split");
        let depth = segment.depth() + 1;
        let low = segment.low() | 1 << (64 - depth);
        upper.build(self.generation, (low, depth), Some(segment));
        if !M::mutant("cceh.no_segment_flush") {
            // Persist: the segment before an entry leads to it (C2).
            self.medium.persist(upper.as_ptr(), size);
        }
        if M::mutant("cceh.opens_first") {
            upper.head.lock.unlock();
        }
        self.lock_directory();
        let room = if self.directory().depth < depth { self.double(session) } else { Ok(()) };
        if let Err(error) = room {
            self.directory_lock.unlock_unchanged();
            session.free_record(upper.offset, size);
            return Err(error);
        }
        if M::mutant("cceh.depth_first") {
            self.deepen(segment, depth);
        }
        self.point(upper);
        self.deepen(segment, depth);
        self.directory_lock.unlock();
        self.split_buffer(segment, upper);
        Ok(upper)
    }

    /// Gives a locked segment its lower half only, durably: the upper half is another's from here on.
    fn deepen(&self, segment: Segment<'_, V, M>, depth: u32) {
        segment.set_depth(depth);
        if !M::mutant("cceh.no_depth_flush") {
            // Persist: the depth before either half is opened, or recovery would give what is written
            // to the upper half back (C3).
            self.medium.persist(segment.as_ptr(), 24);
        }
    }
}
