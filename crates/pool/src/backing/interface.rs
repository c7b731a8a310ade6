//! What a pool needs of the memory under it.

use std::io;
use std::path::Path;

use super::environment::Environment;
use crate::PoolError;

/// What has become of the name of a file while it was open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileName {
    /// The file can be found: by the name that it was opened by, or, if it was moved, by another.
    Kept,
    /// It has no name any more, and is gone when it is closed.
    Removed,
    /// It has no name any more, as [`Self::Removed`], and another file has the one that it was opened by.
    Replaced,
    /// Another file has the name that it was opened by; it has another name, as it was moved or linked.
    Displaced,
}

/// The memory under a pool.
///
/// # Safety
/// For as long as the backing lives:
/// - [`Backing::base`] always gives the same address, aligned to 4096 bytes, and
///   `base .. base + capacity()` are addresses that nothing else uses;
/// - `base .. base + size()` can be read, and unless [`Backing::is_read_only`] also written, where
///   the size is the present one;
/// - this process reaches these bytes through the base only.
///
/// # Example
/// ```
/// use std::io;
/// use everleaf_machine::Hardware;
/// use everleaf_machine::mapping::Mapping;
/// use everleaf_pool::{Backing, Domain, Pool, PoolError};
///
/// struct Fixed(Mapping);
///
/// // SAFETY: a mapping of plain memory never moves and is used by nobody else.
/// unsafe impl Backing for Fixed {
///     fn base(&self) -> *mut u8 {
///         self.0.base()
///     }
///     fn size(&self) -> u64 {
///         self.0.length() as u64
///     }
///     fn capacity(&self) -> u64 {
///         self.0.length() as u64
///     }
///     fn extend(&self, _old: u64, new: u64) -> Result<(), PoolError> {
///         let source = io::ErrorKind::StorageFull.into();
///         Err(PoolError::DiskFull { path: "fixed".into(), needed: new, source })
///     }
/// }
///
/// let backing = Fixed(Mapping::of_memory(1 << 18, 1 << 21)?);
/// let pool: Pool<Hardware> = Pool::with_backing(Box::new(backing), Domain::Adr, 0, true)?;
/// assert_eq!(pool.size(), 1 << 18);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub unsafe trait Backing: Send + Sync {
    /// The address of the first byte.
    fn base(&self) -> *mut u8;

    /// Bytes that can be used now.
    fn size(&self) -> u64;

    /// Bytes of addresses: the most that [`Backing::extend`] can ever give.
    fn capacity(&self) -> u64;

    /// Makes `new` bytes usable, of which the pool uses `old` so far; those from `old` on read as
    /// zero, and their space is allocated. One caller at a time; `old < new <= capacity()`.
    ///
    /// # Errors
    /// `DiskFull` if there is no space (the pool may then ask for less); others as they
    /// come. Nothing has then changed.
    fn extend(&self, old: u64, new: u64) -> Result<(), PoolError>;

    /// What a store may need the space of: the aligned bytes around it, so many, a power of two and at least
    /// 4096. Beside a hole within them a store to what has space may fail as one to the hole.
    fn hole_unit(&self) -> u64 {
        4096
    }

    /// Gives the disk space of the bytes from `start` to `end`, multiples of [`Backing::hole_unit`], back: they
    /// read as zero from then on, and nothing may be stored there before [`Backing::secure`]. Returns whether
    /// there was space that could be given back. Nobody touches these bytes meanwhile.
    ///
    /// # Errors
    /// The kernel's. Some of the space may then have been given back.
    fn release(&self, _start: u64, _end: u64) -> io::Result<bool> {
        Ok(false)
    }

    /// Makes sure that the bytes from `start` to `end` have space: what is there is kept.
    ///
    /// # Errors
    /// As [`Backing::extend`].
    fn secure(&self, _start: u64, _end: u64) -> Result<(), PoolError> {
        Ok(())
    }

    /// Whether some bytes may have no space, so that they must be secured before they are written.
    fn has_holes(&self) -> bool {
        false
    }

    /// The parts that may have no space, in ascending order: first byte, and the one behind the last.
    ///
    /// # Errors
    /// The kernel's.
    fn holes(&self) -> io::Result<Vec<(u64, u64)>> {
        Ok(if self.has_holes() { vec![(0, self.size())] } else { vec![] })
    }

    /// Writes what was stored to the disk and waits; nothing where stores alone survive, or nothing
    /// does.
    ///
    /// # Errors
    /// The kernel's.
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    /// Has the next [`Backing::sync`] write the first `length` bytes as they are now, whether or not the system takes
    /// them for written; nobody changes them meanwhile. Nothing where there is no disk.
    ///
    /// # Errors
    /// The kernel's.
    fn write_anew(&self, _length: u64) -> io::Result<()> {
        Ok(())
    }

    /// Whether a store that is durable by its domain survives the machine and not only the process:
    /// not so on a disk, where stores wait in the kernel's cache. Consulted by the pool to decide
    /// what to trust after a crash, whatever domain it was ordered to work by.
    fn survives_machine(&self) -> bool {
        true
    }

    /// Whether stores of an earlier process may still wait in the CPU's caches: so on directly
    /// mapped persistent memory.
    fn outlives_stores(&self) -> bool {
        false
    }

    /// Whether the bytes must not be written.
    fn is_read_only(&self) -> bool {
        false
    }

    /// The file, if there is one.
    fn path(&self) -> Option<&Path> {
        None
    }

    /// What has become of the name of the file. Always [`FileName::Kept`] where there is no file.
    fn name(&self) -> FileName {
        FileName::Kept
    }

    /// Makes what there is, which has been found to be sound, ready to be written: the file gets blocks of its own for
    /// those that it shares, and a mark in the kernel's memory, by which [`Environment::is_kept`] tells the next
    /// session that it is still there. Returns whether it is marked.
    ///
    /// # Errors
    /// `DiskFull` if there is no space; others as they come.
    fn begin_writing(&self) -> Result<bool, PoolError> {
        Ok(false)
    }

    /// Writes the first bytes back to what keeps them, as [`Self::sync`] does with all.
    fn sync_start(&self, length: usize) -> io::Result<()> {
        let _ = length;
        self.sync()
    }

    /// What the world looks like to this session; all zeros for a backing that has no world.
    fn environment(&self) -> Environment {
        Environment::default()
    }
}
