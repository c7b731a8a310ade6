//! Memory for volatile nodes, and prefetching.

use std::alloc::Layout;

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::topology;

/// Layouts of this size and alignment, and more, are mapped and offered to the kernel for huge pages.
const HUGE_PAGE: usize = 2 << 20;

/// Whether the memory of a layout is a mapping of its own.
fn is_mapped(layout: Layout) -> bool {
    layout.size() >= HUGE_PAGE && layout.align() == HUGE_PAGE
}

pub fn allocate(layout: Layout) -> *mut u8 {
    match layout.size() {
        0 => std::ptr::null_mut(),
        _ if is_mapped(layout) => map(layout, Advice::LinuxHugepage),
        // SAFETY: the layout has a size.
        _ => unsafe { std::alloc::alloc(layout) },
    }
}

pub fn allocate_zeroed(layout: Layout) -> *mut u8 {
    match layout.size() {
        0 => std::ptr::null_mut(),
        // Pages of the system are zero, and cost nothing until they are touched; an allocator would write
        // zeros to a block that is aligned so far.
        _ if is_mapped(layout) => map(layout, Advice::LinuxHugepage),
        // SAFETY: the layout has a size.
        _ => unsafe { std::alloc::alloc_zeroed(layout) },
    }
}

pub fn allocate_sparse(layout: Layout) -> *mut u8 {
    match is_mapped(layout) {
        true => map(layout, Advice::LinuxNoHugepage),
        false => allocate_zeroed(layout),
    }
}

/// `MADV_COLLAPSE` of Linux 6.1 and later, the same on all processors: musl's headers, of which static programs are
/// built, have no name for it.
const ADVICE_COLLAPSE: libc::c_int = 25;

pub fn join_pages(start: *mut u8, size: usize) -> bool {
    // The second call below does not ask whether huge pages are wanted.
    if topology::huge_page_size_bytes().is_none() {
        return false;
    }
    // SAFETY: the advice changes no contents. What is touched from now on gets huge pages.
    let advised = unsafe { rustix::mm::madvise(start.cast(), size, Advice::LinuxHugepage) };
    // SAFETY: likewise, of what was touched before.
    advised.is_ok() && unsafe { libc::madvise(start.cast(), size, ADVICE_COLLAPSE) } == 0
}

/// # Safety
/// `pointer` came from one of the functions above with this layout.
pub unsafe fn deallocate(pointer: *mut u8, layout: Layout) {
    if is_mapped(layout) {
        // SAFETY: by the caller's promise `map` gave this range, and nothing else is in its last page.
        let _ = unsafe { rustix::mm::munmap(pointer.cast(), layout.size()) };
    } else {
        // SAFETY: by the caller's promise.
        unsafe { std::alloc::dealloc(pointer, layout) }
    }
}

/// New pages, aligned to a huge one; null if there are none.
fn map(layout: Layout, pages: Advice) -> *mut u8 {
    let size = layout.size().next_multiple_of(rustix::param::page_size());
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping, where the system likes to have it.
    let raw = unsafe {
        rustix::mm::mmap_anonymous(std::ptr::null_mut(), size + HUGE_PAGE, access, flags)
    };
    let Ok(raw) = raw.map(|raw| raw.cast::<u8>()) else { return std::ptr::null_mut() };
    let before = raw.addr().next_multiple_of(HUGE_PAGE) - raw.addr();
    let start = raw.wrapping_add(before);
    let behind = HUGE_PAGE - before;
    // A refusal to take the rest back costs addresses only, and one of the advice only speed.
    if before > 0 {
        // SAFETY: the part of our mapping in front of `start`, which nobody has; whole pages.
        let _ = unsafe { rustix::mm::munmap(raw.cast(), before) };
    }
    if behind > 0 {
        // SAFETY: likewise the part behind the memory.
        let _ = unsafe { rustix::mm::munmap(start.wrapping_add(size).cast(), behind) };
    }
    // SAFETY: the range is ours; the advice changes no contents.
    let _ = unsafe { rustix::mm::madvise(start.cast(), size, pages) };
    start
}

/// Asks for the line at `address`.
#[inline(always)]
pub fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults and changes no value.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch never faults and changes no value.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, readonly, preserves_flags));
    }
}

/// Asks for the line at `address`, past the larger caches.
#[inline(always)]
pub fn prefetch_once(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults and changes no value.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_NTA }>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch never faults and changes no value.
    unsafe {
        std::arch::asm!("prfm pldl1strm, [{}]", in(reg) address, options(nostack, readonly, preserves_flags));
    }
}

/// Asks for the line at `address`, to store to it soon.
#[inline(always)]
pub fn prefetch_write(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults and changes no value; CPUs without this one pass over it.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, readonly, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch never faults and changes no value.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) address, options(nostack, readonly, preserves_flags));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    const SIZE: usize = 5 << 20;

    /// Bytes of a range that take memory, whole pages.
    fn resident(start: *const u8, size: usize) -> usize {
        let page = rustix::param::page_size();
        let mut words = vec![0; size / page * 8];
        let pages = File::open("/proc/self/pagemap").expect("the system tells");
        pages
            .read_exact_at(&mut words, (start.addr() / page * 8) as u64)
            .expect("the system tells");
        // The highest bit of a page's word: it is in memory.
        words.as_chunks::<8>().0.iter().filter(|word| word[7] & 0x80 != 0).count() * page
    }

    #[test]
    fn of_sparse_memory_only_what_is_touched_takes_any() {
        let layout = Layout::from_size_align(SIZE, HUGE_PAGE).expect("a layout");
        let memory = allocate_sparse(layout);
        assert!(!memory.is_null());
        for touched in 0..4 {
            assert_eq!(resident(memory, SIZE), touched * rustix::param::page_size());
            // SAFETY: inside of the memory, which is ours.
            unsafe { memory.wrapping_add(touched << 20).write(1) };
        }
        let joined = join_pages(memory, SIZE);
        assert!(!joined || resident(memory, SIZE) >= 2 * HUGE_PAGE);
        for at in (0..SIZE).step_by(64) {
            // SAFETY: inside of the memory, which is ours.
            let byte = unsafe { memory.wrapping_add(at).read() };
            assert_eq!(byte, u8::from(at % (1 << 20) == 0 && at < 4 << 20));
        }
        // SAFETY: from above, with this layout.
        unsafe { deallocate(memory, layout) };
    }
}
