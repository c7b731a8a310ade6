//! Memory for volatile nodes, and prefetching.

use std::alloc::Layout;

/// Layouts of this size and more are mapped, aligned and offered to the kernel for huge pages.
const HUGE_PAGE: usize = 2 << 20;

pub fn allocate(layout: Layout) -> *mut u8 {
    if layout.size() == 0 {
        return std::ptr::null_mut();
    }
    // SAFETY: the layout has a size.
    let pointer = unsafe { std::alloc::alloc(layout) };
    if !pointer.is_null() && layout.size() >= HUGE_PAGE && layout.align() >= HUGE_PAGE {
        // SAFETY: the range is ours; the advice changes no contents. A refusal costs only speed.
        let _ = unsafe {
            rustix::mm::madvise(pointer.cast(), layout.size(), rustix::mm::Advice::LinuxHugepage)
        };
    }
    pointer
}

/// # Safety
/// `pointer` came from [`allocate`] with this layout.
pub unsafe fn deallocate(pointer: *mut u8, layout: Layout) {
    // SAFETY: by the caller's promise.
    unsafe { std::alloc::dealloc(pointer, layout) }
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
