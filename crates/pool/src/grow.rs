//! Growth in place.

use everleaf_machine::{Machine, Ordering};

use crate::layout::SIZE_GRANULE;
use crate::{Pool, PoolError};

/// The least a pool grows by if it can, in bytes.
const STEP_MIN: u64 = 1 << 20;
/// Bytes of a huge page, which files in memory and plain memory may get.
const HUGE_PAGE_SIZE: u64 = 2 << 20;
/// The most a pool grows by beyond what is asked for, in bytes.
const STEP_MAX: u64 = 64 << 20;

impl<M: Machine> Pool<M> {
    /// Makes the pool at least `at_least` bytes large; returns its size, at once if it is that
    /// large already.
    ///
    /// A pool grows by an eighth, at least 1 MiB and at most 64 MiB, or by what is asked if that is
    /// more; and only by what is asked if the disk or the maximum allows no more. New space reads
    /// as zero. Nothing moves.
    ///
    /// # Errors
    /// `PoolFull` beyond [`Pool::max_size`]; `DiskFull`; `ReadOnly`; `Io` and
    /// `AddressSpace` as the operating system gives them. The pool is then as it was.
    ///
    /// *Durable when* it returns, as is everything stored into the new space later under the
    /// pool's domain. *Blocking:* one thread grows, others that want to grow wait for it.
    pub fn grow(&self, at_least: u64) -> Result<u64, PoolError> {
        self.grow_within(at_least, u64::MAX)
    }

    /// [`Self::grow`] to at most `at_most` bytes, if the pool is not larger already: for a user that
    /// cannot use more, and shall not get it by a comfortable step.
    ///
    /// # Errors
    /// As [`Self::grow`], `PoolFull` also beyond `at_most`.
    pub fn grow_within(&self, at_least: u64, at_most: u64) -> Result<u64, PoolError> {
        self.writable("grow")?;
        let mut session = self.session.lock();
        let old = session.size;
        if old >= at_least {
            return Ok(old);
        }
        let new = self.extend(old, at_least, at_most)?;
        if M::mutant("pool.size_before_record") {
            // Release: a planted bug.
            self.size.store(new, Ordering::Release);
        }
        let mut next = *session;
        next.size = new;
        next.generation += 1;
        // Durable in both copies before the size is published (I2).
        if !M::mutant("pool.no_size_record") {
            next.write(self.view(), 0);
        }
        *session = next;
        // Release: the new space is mapped and its size durable before the size is seen; pairs
        // with the acquire load in `Pool::size`.
        self.size.store(new, Ordering::Release);
        Ok(new)
    }

    /// What a store may need the space of: the aligned bytes around it, so many, a power of two and at least
    /// 4096. Beside a hole within them a store to what has space may fail as one to the hole.
    pub fn hole_unit(&self) -> u64 {
        self.backing.hole_unit()
    }

    /// Gives the disk space of the bytes from `start` to `end`, multiples of [`Self::hole_unit`], back to the
    /// system: they read as zero, and must be [secured](Self::secure) before anything is stored there.
    /// Returns whether the medium can do that.
    ///
    /// The caller sees to it that nobody can reach these bytes, also after a crash at any moment, and
    /// nobody touches them meanwhile.
    ///
    /// # Errors
    /// `ReadOnly`; `Io`, and then some of the space may have been given back.
    pub fn release(&self, start: u64, end: u64) -> Result<bool, PoolError> {
        self.writable("return space")?;
        debug_assert!(start <= end && end <= self.size(), "{start} .. {end} of {}", self.size());
        if start == end {
            return Ok(true);
        }
        self.backing.release(start, end).map_err(|source| PoolError::Io {
            path: self.place().into(),
            action: "return the space",
            source,
        })
    }

    /// Makes sure that the bytes from `start` to `end` have disk space; they are kept as they are.
    ///
    /// # Errors
    /// `DiskFull`, `ReadOnly`, `Io`.
    pub fn secure(&self, start: u64, end: u64) -> Result<(), PoolError> {
        self.writable("allocate space")?;
        if start < end { self.backing.secure(start, end) } else { Ok(()) }
    }

    /// All parts that may have no disk space, in ascending order: first byte, and the one behind the
    /// last. What was allocated and never written may be among them.
    ///
    /// # Errors
    /// `Io`.
    pub fn holes(&self) -> Result<Vec<(u64, u64)>, PoolError> {
        self.backing.holes().map_err(|source| PoolError::Io {
            path: self.place().into(),
            action: "find out which parts of it have space",
            source,
        })
    }

    /// Whether the file may have holes, because space was returned or it was copied: what is in use
    /// there must be secured before it is written. As [`Self::holes`], it may see some too many.
    pub fn has_holes(&self) -> bool {
        self.backing.has_holes()
    }

    /// Gets the space: a comfortable step, or else just what is needed. Returns the new size.
    fn extend(&self, old: u64, at_least: u64, at_most: u64) -> Result<u64, PoolError> {
        let max = self.max_size().min(at_most / SIZE_GRANULE * SIZE_GRANULE);
        let full = || PoolError::PoolFull { path: self.place().into(), needed: at_least, max };
        let needed = at_least.checked_next_multiple_of(SIZE_GRANULE).filter(|&size| size <= max);
        let needed = needed.ok_or_else(full)?;
        let wanted = wanted_size(old, needed, max);
        match self.backing.extend(old, wanted) {
            Err(PoolError::DiskFull { .. }) if wanted > needed => {
                self.backing.extend(old, needed)?;
                Ok(if M::mutant("pool.grows_beyond_disk") { wanted } else { needed })
            }
            result => result.map(|()| wanted),
        }
    }
}

/// The size to grow to, a multiple of the granule as `old`, `needed` and `max` are.
fn wanted_size(old: u64, needed: u64, max: u64) -> u64 {
    let step = (old / 8).clamp(STEP_MIN, STEP_MAX).next_multiple_of(SIZE_GRANULE);
    let wanted = needed.max(old.saturating_add(step));
    // Whole huge pages, once that is a small part of the step.
    let whole = if step >= 2 * HUGE_PAGE_SIZE { HUGE_PAGE_SIZE } else { SIZE_GRANULE };
    wanted.checked_next_multiple_of(whole).unwrap_or(wanted).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_an_eighth_between_their_bounds() {
        const MIB: u64 = 1 << 20;
        assert_eq!(wanted_size(MIB, MIB + SIZE_GRANULE, 1 << 40), 2 * MIB);
        assert_eq!(wanted_size(64 * MIB, 65 * MIB, 1 << 40), 72 * MIB);
        assert_eq!(wanted_size(1 << 34, (1 << 34) + MIB, 1 << 40), (1 << 34) + 64 * MIB);
        assert_eq!(wanted_size(MIB, 500 * MIB, 1 << 40), 500 * MIB);
        assert_eq!(wanted_size(MIB, MIB + SIZE_GRANULE, MIB + SIZE_GRANULE), MIB + SIZE_GRANULE);
        assert_eq!(wanted_size(65 * MIB, 66 * MIB, 1 << 40), 74 * MIB, "whole huge pages");
        let odd = 13 * MIB + SIZE_GRANULE;
        assert!(wanted_size(odd, odd + SIZE_GRANULE, 1 << 40).is_multiple_of(SIZE_GRANULE));
    }
}
