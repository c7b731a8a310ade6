//! The write buffers of places of the pool, the numbers of their writes, and the log of what is in them: what a
//! tree has that gathers writes in DRAM, but keeps no other node there.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Atomic, Machine, Ordering};

use super::place_table::{Cell, Table};
use super::write_buffer::Buffer;
use super::write_log::Logs;

/// The number of the last buffered write of a place.
#[repr(transparent)]
pub struct Sequence<M: Machine>(Atomic<u64, M>);

impl<M: Machine> Cell for Sequence<M> {
    fn clear(&self) {
        self.0.write_private(0);
    }
}

/// Buffers of some parts each for places with numbers. In a variant without buffers nothing is ever put in.
pub struct Buffers<M: Machine> {
    parts: Table<Buffer<M>, M, 1>,
    sequences: Table<Sequence<M>, M, 1>,
    /// Parts of a buffer.
    part_count: u64,
    pub logs: Logs<M>,
}

impl<M: Machine> Buffers<M> {
    /// For places with numbers below `places`.
    pub fn new(places: u64, part_count: u64, logs: Logs<M>) -> Self {
        let parts = Table::new(places * part_count);
        Buffers { parts, sequences: Table::new(places), part_count, logs }
    }

    /// Gives the memory outside of the pool back. Nobody uses the tree any more.
    pub fn free(&self, session: &mut Session<M>) {
        self.parts.free(session);
        self.sequences.free(session);
    }

    /// Makes sure that a place has its parts; those of one that never had some are empty.
    ///
    /// # Errors
    /// No memory.
    pub fn make_room(&self, session: &mut Session<M>, place: u64) -> Result<(), AllocError> {
        self.sequences.make_room(session, place)?;
        let first = place * self.part_count;
        (first..first + self.part_count).try_for_each(|part| self.parts.make_room(session, part))
    }

    /// A part of the buffer of a place.
    #[inline(always)]
    pub fn part(&self, place: u64, part: u64) -> &Buffer<M> {
        self.parts.at(place * self.part_count + part)
    }

    /// The buffer of a place.
    pub fn parts(&self, place: u64) -> impl Iterator<Item = &Buffer<M>> {
        (0..self.part_count).map(move |part| self.part(place, part))
    }

    /// The number of the last buffered write of a place. The caller holds its lock.
    #[inline(always)]
    pub fn sequence(&self, place: u64) -> u64 {
        // Relaxed: only holders of the lock look at it.
        self.sequences.at(place).0.load(Ordering::Relaxed)
    }

    /// Notes a buffered write. The caller holds the lock.
    #[inline(always)]
    pub fn set_sequence(&self, place: u64, sequence: u64) {
        // Relaxed: as in `sequence`.
        self.sequences.at(place).0.store(sequence, Ordering::Relaxed);
    }
}
