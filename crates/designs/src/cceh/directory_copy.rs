//! The directory in DRAM, for variants with caching: lookups read no entry in the pool.
//!
//! Each line of the directory in the pool has one here, found by its place. It has the same entries, and
//! changes with them, under the directory's lock. A new directory has other places, so that readers of the
//! old one go on reading that.

use everleaf_alloc::{AllocError, Session};
use everleaf_machine::{Atomic, LINE_SIZE, Machine, Ordering};

use super::directory_word::Directory;
use crate::node::place_table::{Cell, Table};

/// Entries of a line.
const LENGTH: usize = LINE_SIZE / 8;

/// A line of the directory.
#[repr(C, align(64))]
struct Line<M: Machine>([Atomic<u64, M>; LENGTH]);

impl<M: Machine> Cell for Line<M> {
    fn clear(&self) {
        self.0.iter().for_each(|entry| entry.write_private(0));
    }
}

/// See the module.
pub(super) struct DirectoryCopy<M: Machine>(Table<Line<M>, M, { LINE_SIZE as u64 }>);

impl<M: Machine> DirectoryCopy<M> {
    /// For directories below `end`: 0 in a variant without.
    pub fn new(end: u64) -> Self {
        DirectoryCopy(Table::new(end))
    }

    /// Makes room for a directory that nobody else knows.
    ///
    /// # Errors
    /// No memory.
    pub fn make_room(
        &self,
        session: &mut Session<M>,
        directory: Directory,
    ) -> Result<(), AllocError> {
        let end = directory.offset + 8 * directory.count();
        let mut lines = (directory.offset..end).step_by(LINE_SIZE);
        lines.try_for_each(|place| self.0.make_room(session, place))
    }

    #[inline(always)]
    fn entry(&self, directory: Directory, index: u64) -> &Atomic<u64, M> {
        // Directories begin where a line does.
        let place = directory.offset + 8 * index;
        &self.0.at(place).0[place as usize % LINE_SIZE / 8]
    }

    /// The segment that an entry leads to. The caller is pinned.
    #[inline(always)]
    pub fn get(&self, directory: Directory, index: u64) -> u64 {
        // Acquire: the segment; pairs with the release in `set`.
        self.entry(directory, index).load(Ordering::Acquire)
    }

    /// Stores an entry. The caller holds the directory's lock.
    pub fn set(&self, directory: Directory, index: u64, segment: u64) {
        // Release: the segment is complete; pairs with the acquire in `get`.
        self.entry(directory, index).store(segment, Ordering::Release);
    }

    /// Gives the memory back. Nobody uses it any more.
    pub fn free(&self, session: &mut Session<M>) {
        self.0.free(session);
    }
}
