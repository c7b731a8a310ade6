//! Memory for volatile nodes, and prefetching.

use std::alloc::Layout;

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Layouts of this size and alignment, and more, are mapped and offered to the kernel for huge pages.
const HUGE_PAGE: usize = 2 << 20;

/// Whether the memory of a layout is a mapping of its own.
fn is_mapped(layout: Layout) -> bool {
    layout.size() >= HUGE_PAGE && layout.align() == HUGE_PAGE
}

pub fn allocate(layout: Layout) -> *mut u8 {
    match layout.size() {
        0 => std::ptr::null_mut(),
        _ if is_mapped(layout) => map(layout),
        // SAFETY: the layout has a size.
        _ => unsafe { std::alloc::alloc(layout) },
    }
}

pub fn allocate_zeroed(layout: Layout) -> *mut u8 {
    match layout.size() {
        0 => std::ptr::null_mut(),
        // Pages of the system are zero, and cost nothing until they are touched; an allocator would write
        // zeros to a block that is aligned so far.
        _ if is_mapped(layout) => map(layout),
        // SAFETY: the layout has a size.
        _ => unsafe { std::alloc::alloc_zeroed(layout) },
    }
}

/// # Safety
/// `pointer` came from [`allocate`] or [`allocate_zeroed`] with this layout.
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
fn map(layout: Layout) -> *mut u8 {
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
    let _ = unsafe { rustix::mm::madvise(start.cast(), size, Advice::LinuxHugepage) };
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
