//! Address space that never moves, and files or plain memory mapped into it.
//!
//! A [`Reservation`] is a range of addresses with nothing behind it. A [`Mapping`] lays a file, or
//! zeroed memory, over the front of a reservation and extends it in place, so a pointer into it
//! stays valid for as long as the mapping lives:
//!
//! ```text
//!  base (2 MiB aligned)                                                       base + reserved
//!  |<------------ mapped: file or memory ------------>|<----- inaccessible ----->|
//!  0                                             length()                 reserved()
//! ```
//!
//! *Thread safety.* Both types may be shared; [`Mapping::extend`] takes a lock of its own.
//!
//! *A mapping at a fixed address that fails leaves a hole.* The kernel first removes what lies there, and asks the file
//! system only then whether it can map the file like that; no disk file system can map one as persistent memory.
//! Another thread may be given the addresses of the hole for something else, and the next attempt would take them
//! from it. So each mapping is tried at an address of the kernel's choice first, where it can only fail; and a range
//! that was lost nevertheless is never touched again ([`Reservation`]).
//!
//! *Fork.* A child of this process has no mapping of a file: an access faults there instead of
//! changing what its parent uses.
//!
//! *A file that another program truncates* while it is mapped cannot be defended against: the kernel
//! answers an access behind its end with `SIGBUS`. The same signal would follow from a full disk if a hole of
//! the file were written, or what is beside one ([`FOLIO_SIZE_MAX`]); a caller that maps a file allocates its space
//! first.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::OnceLock;

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

use crate::cpu;
use crate::lock_rank::Rank;
use crate::{Hardware, OwnerProcess, SpinLock};

/// Alignment in bytes of every reservation: the size of a huge page.
pub const RESERVATION_ALIGNMENT: usize = 2 << 20;

/// The largest folio, the unit in which the kernel keeps a file in its page cache, where pages have 4 KiB: that of a
/// huge page. Folios are aligned to their size.
///
/// When a page becomes writable, ext4 (since Linux 6.16) and XFS (since 5.18) get blocks for all of its folio: a store
/// to bytes that have their space fills the holes beside them, and on a full disk ends the process by `SIGBUS`.
pub const FOLIO_SIZE_MAX: u64 = RESERVATION_ALIGNMENT as u64;

/// Bytes of the largest folio of a file that is mapped here, a power of two. Where pages are larger than 4 KiB huge
/// pages are, too, but disk file systems are not asked for them there, and what they read ahead is seldom as large.
pub fn largest_folio() -> u64 {
    FOLIO_SIZE_MAX.max(rustix::param::page_size() as u64)
}

/// A range of addresses that belongs to us and has nothing behind it yet.
///
/// Any access to it faults. Dropping it gives back the addresses and all that was placed there. (In a
/// forked process it gives back nothing: what lies at these addresses there may be something else.)
#[derive(Debug)]
pub struct Reservation {
    base: NonNull<u8>,
    size: usize,
    owner: OwnerProcess,
    /// Offsets that may belong to somebody else since a mapping there failed.
    lost: OnceLock<Range<usize>>,
}

// SAFETY: a reservation is a range of addresses; owning it on another thread means the same.
unsafe impl Send for Reservation {}
// SAFETY: shared, it only answers where it is; placing things is `unsafe` and argued there.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Reserves `size` bytes of addresses (rounded up to 2 MiB), aligned to 2 MiB.
    ///
    /// *Errors:* the kernel's, `ENOMEM` as a rule: no such range of addresses is free, or a limit
    /// on address space (`ulimit -v`) is in force. `InvalidInput` for a size of zero or one that
    /// overflows.
    pub fn new(size: usize) -> io::Result<Self> {
        let size = size
            .checked_next_multiple_of(RESERVATION_ALIGNMENT)
            .filter(|&size| size > 0 && size < isize::MAX as usize - RESERVATION_ALIGNMENT)
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let padded = size + RESERVATION_ALIGNMENT;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let raw = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                padded,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let raw = raw.cast::<u8>();
        let skip = raw.align_offset(RESERVATION_ALIGNMENT);
        let base = raw.wrapping_add(skip);
        trim(raw, skip);
        trim(base.wrapping_add(size), RESERVATION_ALIGNMENT - skip);
        let base = NonNull::new(base).expect("the kernel never maps the null page by choice");
        Ok(Reservation { base, size, owner: OwnerProcess::current(), lost: OnceLock::new() })
    }

    /// The first address of the range.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Bytes of addresses in the range.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Places a new mapping at `offset`.
    ///
    /// # Safety
    /// `offset .. offset + length` lies in the range, `offset` is a multiple of the page size, and
    /// nothing was placed there before (whatever was would be replaced under its users).
    unsafe fn place(
        &self,
        offset: usize,
        length: usize,
        source: &Source,
        sync: bool,
    ) -> io::Result<()> {
        debug_assert!(offset.checked_add(length).is_some_and(|end| end <= self.size));
        let address = self.base().wrapping_add(offset);
        let Source::File { file, access } = source else {
            // The pages are there, and need only be allowed: this replaces nothing, and can be tried again.
            let access = MprotectFlags::READ | MprotectFlags::WRITE;
            // SAFETY: the range is ours, and by the caller's promise nobody uses it yet.
            return Ok(unsafe { rustix::mm::mprotect(address.cast(), length, access) }?);
        };
        if self.lost.get().is_some() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        // A page says what the file system thinks of it, and needs no second range of that length.
        let page = length.min(rustix::param::page_size());
        // SAFETY: at an address of the kernel's choice it replaces nothing.
        let trial = unsafe { map_file(file, *access, std::ptr::null_mut(), page, offset, sync) }?;
        trim(trial, page);
        // SAFETY: by the caller's promise this replaces only inaccessible pages of ours: none was lost.
        if let Err(error) = unsafe { map_file(file, *access, address, length, offset, sync) } {
            self.reclaim(offset, length);
            return Err(error);
        }
        // A child must not reach the file: it has the locks of this moment, and shares
        // nothing else with those that use it.
        // SAFETY: the range was just mapped and is ours. A refusal leaves the child what it
        // has without the advice: its handles refuse.
        let _ = unsafe { rustix::mm::madvise(address.cast(), length, Advice::LinuxDontFork) };
        Ok(())
    }

    /// Takes back a range at which a mapping failed, if it is a hole now that nobody else was given; otherwise it is
    /// lost.
    fn reclaim(&self, offset: usize, length: usize) {
        let address = self.base().wrapping_add(offset).cast();
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
        // SAFETY: it replaces nothing: where anything is mapped it fails.
        let taken =
            unsafe { rustix::mm::mmap_anonymous(address, length, ProtFlags::empty(), flags) };
        match taken {
            Ok(taken) if taken == address => {}
            Ok(elsewhere) => {
                // A kernel that does not know the flag takes the address as a hint.
                trim(elsewhere.cast(), length);
                self.lose(offset..offset + length);
            }
            Err(_) => self.lose(offset..offset + length),
        }
    }

    /// Says that a range may belong to somebody else.
    fn lose(&self, range: Range<usize>) {
        // There is one at most: nothing is placed after it.
        let _ = self.lost.set(range);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.owner.is_current() {
            return;
        }
        let lost = self.lost.get().cloned().unwrap_or(self.size..self.size);
        let page = rustix::param::page_size();
        for ours in [0..lost.start, lost.end.next_multiple_of(page)..self.size] {
            if !ours.is_empty() {
                let start = self.base().wrapping_add(ours.start).cast();
                // SAFETY: the range is ours, and nobody can use it after its owner is gone: every pointer
                // into it is documented to live no longer than the reservation.
                let result = unsafe { rustix::mm::munmap(start, ours.len()) };
                debug_assert!(result.is_ok(), "munmap of a range of ours: {result:?}");
            }
        }
    }
}

/// Gives back what was mapped too much.
fn trim(start: *mut u8, length: usize) {
    if length > 0 {
        // SAFETY: the part was mapped by the caller a moment ago and nothing points into it. If the
        // kernel refuses (too many mappings), addresses are lost, nothing else.
        let _ = unsafe { rustix::mm::munmap(start.cast(), length) };
    }
}

/// What may be done with the bytes of a mapped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Loads only; a store faults, or is not seen by anybody else.
    Read,
    /// Loads and stores; stores are seen by every other mapping of the file.
    ReadWrite,
}

impl Access {
    /// Readers whose CPU writes back the pairs it loads get pages of their own for that; the file
    /// stays as it is.
    fn writes_back(self) -> bool {
        self == Access::Read && cpu::pair_loads_write()
    }

    fn protection(self) -> ProtFlags {
        match self {
            Access::Read if !self.writes_back() => ProtFlags::READ,
            Access::Read | Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        }
    }
}

/// What is laid over the addresses.
#[derive(Debug)]
enum Source {
    /// Zeroed memory of this process.
    Memory,
    /// A file, shared.
    File { file: File, access: Access },
}

/// Maps `length` bytes of a file from `offset` on at an address, or anywhere if that is null. Returns where.
///
/// # Safety
/// What lies at the address is the caller's to be replaced; also if this fails.
unsafe fn map_file(
    file: &File,
    access: Access,
    address: *mut u8,
    length: usize,
    offset: usize,
    sync: bool,
) -> io::Result<*mut u8> {
    let sharing = if access.writes_back() {
        // Not counted for what the system has promised: of a pool larger than memory only what is read is taken.
        MapFlags::PRIVATE | MapFlags::NORESERVE
    } else if sync {
        MapFlags::SHARED_VALIDATE | MapFlags::SYNC
    } else {
        MapFlags::SHARED
    };
    let fixed = if address.is_null() { MapFlags::empty() } else { MapFlags::FIXED };
    let (flags, fd, place) = (sharing | fixed, file.as_fd(), offset as u64);
    // SAFETY: by the caller's promise.
    let mapped =
        unsafe { rustix::mm::mmap(address.cast(), length, access.protection(), flags, fd, place) };
    Ok(mapped?.cast())
}

/// A file, or zeroed memory, at the front of a [`Reservation`]; extended in place, never moved.
///
/// # Example
/// ```
/// use everleaf_machine::mapping::Mapping;
/// let mapping = Mapping::of_memory(1 << 16, 1 << 30)?;
/// let base = mapping.base();
/// mapping.extend(1 << 20)?;
/// assert_eq!((mapping.base(), mapping.length()), (base, 1 << 20));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Mapping {
    // Fields are dropped in this order: the pages go before the file is closed (and its lock with
    // it), so that nobody else can lock a file we still have mapped.
    reservation: Reservation,
    source: Source,
    synchronous: bool,
    length: SpinLock<usize, Hardware>,
}

impl std::fmt::Debug for Mapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mapping")
            .field("base", &self.base())
            .field("length", &self.length())
            .field("reserved", &self.reserved())
            .field("source", &self.source)
            .field("synchronous", &self.synchronous)
            .finish()
    }
}

impl Mapping {
    /// Maps `length` bytes of zeroed memory in a reservation of `reserved` bytes.
    ///
    /// *Errors:* as [`Reservation::new`]; `InvalidInput` if `length > reserved`.
    pub fn of_memory(length: usize, reserved: usize) -> io::Result<Self> {
        Self::new(Source::Memory, length, reserved, false)
    }

    /// Maps the first `length` bytes of `file`, shared, in a reservation of `reserved` bytes.
    ///
    /// First tried as a synchronous mapping of directly accessed persistent memory (`MAP_SYNC`,
    /// see [`Mapping::is_synchronous`]), then as an ordinary one. The file must be open for what
    /// `access` asks, and must be at least `length` bytes long for the bytes to be usable.
    ///
    /// *Errors:* as [`Reservation::new`]; `InvalidInput` if `length > reserved`; the kernel's, such
    /// as `EACCES` (not open for this access) or `ENODEV` (the file system cannot map files).
    pub fn of_file(file: File, length: usize, reserved: usize, access: Access) -> io::Result<Self> {
        Self::new(Source::File { file, access }, length, reserved, true)
    }

    fn new(source: Source, length: usize, reserved: usize, try_sync: bool) -> io::Result<Self> {
        if length > reserved {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let reservation = Reservation::new(reserved)?;
        // A private mapping is none, though the kernel would take its request for one.
        let may_be_synchronous =
            matches!(&source, Source::File { access, .. } if !access.writes_back());
        let mut synchronous = false;
        if length > 0 {
            // SAFETY: the reservation is new: nothing is placed in it, and offset 0 is aligned.
            synchronous = may_be_synchronous
                && try_sync
                && unsafe { reservation.place(0, length, &source, true) }.is_ok();
            if !synchronous {
                // SAFETY: a failed attempt placed nothing in the reservation, and what was lost by it is refused.
                unsafe { reservation.place(0, length, &source, false) }?;
            }
        }
        let length_lock = SpinLock::ranked(Rank::Mapping, length);
        let mapping = Mapping { reservation, source, synchronous, length: length_lock };
        mapping.offer_huge_pages(0, length);
        Ok(mapping)
    }

    /// The address of the first byte; constant while the mapping lives, aligned to 2 MiB.
    pub fn base(&self) -> *mut u8 {
        self.reservation.base()
    }

    /// Bytes that are mapped now, from the base on.
    pub fn length(&self) -> usize {
        *self.length.lock()
    }

    /// Bytes of addresses reserved: the most the mapping can be extended to.
    pub fn reserved(&self) -> usize {
        self.reservation.size()
    }

    /// Whether the pages are persistent memory mapped with `MAP_SYNC`: a flushed and drained line
    /// is durable without any call to the kernel.
    pub fn is_synchronous(&self) -> bool {
        self.synchronous
    }

    /// The mapped file; `None` for plain memory.
    pub fn file(&self) -> Option<&File> {
        match &self.source {
            Source::Memory => None,
            Source::File { file, .. } => Some(file),
        }
    }

    /// Extends the mapping in place to `length` bytes; does nothing if it is that long already.
    ///
    /// The mapped length must have been a multiple of the page size. A file must already be
    /// `length` bytes long, and its space allocated, for the new bytes to be usable.
    ///
    /// *Errors:* `InvalidInput` beyond [`Mapping::reserved`] or if the present length is not a
    /// multiple of the page size; the kernel's, as a rule `ENOMEM` (too many mappings). The mapping
    /// is then as it was; that of a file refuses to grow for good if it cannot be proven that the addresses behind
    /// it are still its own.
    pub fn extend(&self, length: usize) -> io::Result<()> {
        let mut mapped = self.length.lock();
        let old = *mapped;
        if length <= old {
            return Ok(());
        }
        if length > self.reserved() || !old.is_multiple_of(rustix::param::page_size()) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: checked above: within the reservation and aligned; the lock is held and `mapped`
        // says that nothing was placed behind `old`.
        unsafe { self.reservation.place(old, length - old, &self.source, self.synchronous) }?;
        *mapped = length;
        self.offer_huge_pages(old, length - old);
        Ok(())
    }

    /// Offers the kernel to use huge pages: it does for plain memory, for files in memory (`tmpfs` mounted
    /// `huge=advise`), and for the folios of disk file systems that know large ones.
    fn offer_huge_pages(&self, offset: usize, length: usize) {
        // From the last boundary on: a huge page may begin in what earlier, small steps mapped.
        let start = offset / RESERVATION_ALIGNMENT * RESERVATION_ALIGNMENT;
        let length = offset + length - start;
        if length >= RESERVATION_ALIGNMENT && !self.is_of_large_pages_on_disk() {
            let place = self.base().wrapping_add(start).cast();
            // SAFETY: the range is mapped and ours; the advice changes no contents. A refusal costs
            // only speed, so it is not reported.
            let _ = unsafe { rustix::mm::madvise(place, length, Advice::LinuxHugepage) };
        }
    }

    /// Whether a huge page of it would be a folio larger than [`largest_folio`] says.
    fn is_of_large_pages_on_disk(&self) -> bool {
        /// Of `tmpfs`, whose stores need the space of their own page only.
        const TMPFS_MAGIC: u64 = 0x0102_1994;
        let Some(file) = self.file().filter(|_| !self.synchronous) else { return false };
        rustix::param::page_size() > 4096
            && !rustix::fs::fstatfs(file).is_ok_and(|fs| fs.f_type as u64 == TMPFS_MAGIC)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn byte(mapping: &Mapping, offset: usize) -> &std::sync::atomic::AtomicU8 {
        assert!(offset < mapping.length());
        // SAFETY: within the mapped bytes, which live as long as the borrow.
        unsafe { &*mapping.base().wrapping_add(offset).cast() }
    }

    fn scratch_file(length: u64) -> File {
        let path = std::env::temp_dir().join(format!(
            "everleaf-mapping-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(b"leaf").unwrap();
        file.set_len(length).unwrap();
        file
    }

    #[test]
    fn a_reservation_is_aligned_and_of_the_size_asked() {
        let reservation = Reservation::new((8 << 30) + 1).unwrap();
        assert_eq!(reservation.base() as usize % RESERVATION_ALIGNMENT, 0);
        assert_eq!(reservation.size(), (8 << 30) + RESERVATION_ALIGNMENT);
    }

    #[test]
    fn a_reservation_of_nothing_or_of_everything_is_refused() {
        assert!(Reservation::new(0).is_err());
        assert!(Reservation::new(usize::MAX).is_err());
        assert!(Reservation::new(isize::MAX as usize).is_err());
    }

    #[test]
    fn memory_is_zero_and_keeps_its_bytes_when_extended() {
        let mapping = Mapping::of_memory(1 << 16, 64 << 20).unwrap();
        let order = std::sync::atomic::Ordering::Relaxed;
        byte(&mapping, 100).store(7, order);
        mapping.extend(32 << 20).unwrap();
        assert_eq!(byte(&mapping, 100).load(order), 7);
        assert_eq!(byte(&mapping, (32 << 20) - 1).load(order), 0);
        assert!(mapping.extend((64 << 20) + 1).is_err());
        assert_eq!(mapping.length(), 32 << 20);
    }

    #[test]
    fn a_mapped_file_is_read_and_written_through_the_mapping() {
        use std::os::unix::fs::FileExt;
        let file = scratch_file(1 << 16);
        let other = file.try_clone().unwrap();
        let mapping = Mapping::of_file(file, 1 << 16, 1 << 30, Access::ReadWrite).unwrap();
        let order = std::sync::atomic::Ordering::Relaxed;
        assert_eq!(byte(&mapping, 0).load(order), b'l');
        byte(&mapping, 4).store(b'!', order);
        let mut read = [0; 5];
        other.read_exact_at(&mut read, 0).unwrap();
        assert_eq!(&read, b"leaf!");

        other.set_len(1 << 20).unwrap();
        other.write_all_at(b"far", (1 << 20) - 3).unwrap();
        mapping.extend(1 << 20).unwrap();
        assert_eq!(byte(&mapping, (1 << 20) - 3).load(order), b'f');
    }

    #[test]
    fn only_directly_accessed_memory_is_synchronous() {
        let file = scratch_file(1 << 16);
        let mapping = Mapping::of_file(file, 1 << 16, 1 << 21, Access::ReadWrite).unwrap();
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(mounts.contains("dax") || !mapping.is_synchronous());
        assert!(mapping.file().is_some());
        let memory = Mapping::of_memory(1 << 16, 1 << 21).unwrap();
        assert!(!memory.is_synchronous() && memory.file().is_none());
    }

    /// A mapping that was refused left a hole in a reservation, another thread was given its addresses, and the next
    /// attempt took them from it: two pools in one place. On a disk file system this ended by a signal, or had the
    /// words of one file in the other.
    #[test]
    fn threads_that_map_files_keep_their_addresses_apart() {
        use std::os::unix::fs::FileExt;
        const SIZE: usize = 4 << 20;
        let order = std::sync::atomic::Ordering::Relaxed;
        std::thread::scope(|scope| {
            for thread in 1..=4_u8 {
                let file = scratch_file(SIZE as u64);
                scope.spawn(move || {
                    for round in 0..500_u16 {
                        let opened = file.try_clone().unwrap();
                        let mapping =
                            Mapping::of_file(opened, SIZE, 1 << 30, Access::ReadWrite).unwrap();
                        let own = (round as u8).wrapping_mul(5).wrapping_add(thread);
                        let places = || (0..SIZE).step_by(SIZE / 4);
                        places().for_each(|at| byte(&mapping, at).store(own, order));
                        std::thread::yield_now();
                        let mut read = [0];
                        for at in places() {
                            assert_eq!(byte(&mapping, at).load(order), own);
                            file.read_exact_at(&mut read, at as u64).unwrap();
                            assert_eq!(read, [own]);
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn addresses_that_were_lost_are_left_alone() {
        let reservation = Reservation::new(8 << 20).unwrap();
        let base = reservation.base();
        let other = base.wrapping_add(2 << 20).cast();
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: addresses of the reservation, in which nothing is placed.
        unsafe { rustix::mm::mmap_anonymous(other, 4096, protection, flags) }.unwrap();
        reservation.reclaim(2 << 20, 4096);
        assert_eq!(reservation.lost.get(), Some(&(2 << 20..(2 << 20) + 4096)));
        let source = Source::File { file: scratch_file(8 << 20), access: Access::ReadWrite };
        // SAFETY: nothing is placed there.
        let refused = unsafe { reservation.place(4 << 20, 4096, &source, false) };
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        drop(reservation);
        // SAFETY: what was mapped above is nobody else's, and was not given back.
        unsafe { other.cast::<u64>().write(7) };
        // SAFETY: what was mapped here is nobody else's.
        unsafe { rustix::mm::munmap(other, 4096) }.unwrap();
    }

    #[test]
    fn a_hole_that_nobody_was_given_is_reclaimed() {
        // Another test may be given it, but not again and again.
        let is_reclaimed = |_| {
            let reservation = Reservation::new(8 << 20).unwrap();
            trim(reservation.base().wrapping_add(2 << 20), 4096);
            reservation.reclaim(2 << 20, 4096);
            if reservation.lost.get().is_some() {
                return false;
            }
            let source = Source::File { file: scratch_file(8 << 20), access: Access::ReadWrite };
            // SAFETY: nothing is placed there.
            unsafe { reservation.place(2 << 20, 4096, &source, false) }.unwrap();
            true
        };
        assert!((0..100).any(is_reclaimed));
    }

    #[test]
    fn a_mapping_longer_than_its_reservation_is_refused() {
        assert!(Mapping::of_memory((1 << 21) + 1, 1 << 21).is_err());
    }
}
