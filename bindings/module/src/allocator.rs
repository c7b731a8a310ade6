//! The server's allocator, as Rust's: what the module allocates is counted, and ends the server as its own
//! requests do if it cannot be met.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::Ordering;

use crate::memory::OUTSIDE;
use crate::server::server;

/// The alignment that every allocator of the server gives.
const ALIGNMENT: usize = 16;

/// The server's allocator, as Rust's.
pub struct ServerMemory;

// SAFETY: every block comes from, and goes to, one of two allocators, chosen by its alignment alone;
// both keep the contract, and the server's gives blocks aligned to 16 bytes.
unsafe impl GlobalAlloc for ServerMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNMENT {
            // SAFETY: the module allocates nothing before it knows the server's functions.
            return unsafe { server_allocator(layout.size()) };
        }
        // SAFETY: the caller's promise.
        let pointer = unsafe { System.alloc(layout) };
        if !pointer.is_null() {
            // Relaxed: a sum of its own.
            OUTSIDE.fetch_add(layout.size(), Ordering::Relaxed);
        }
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if layout.align() <= ALIGNMENT {
            // SAFETY: a block of the server's allocator, by the choice above.
            return unsafe { server!(RedisModule_Free(pointer.cast())) };
        }
        // Relaxed: a sum of its own.
        OUTSIDE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise; a block of `System`, by the choice above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= ALIGNMENT {
            // SAFETY: a block of the server's allocator, by the choice above.
            return unsafe { server!(RedisModule_Realloc(pointer.cast(), size)) }.cast();
        }
        // SAFETY: the caller's promise; a block of `System`, by the choice above.
        let grown = unsafe { System.realloc(pointer, layout, size) };
        if !grown.is_null() {
            // Relaxed: a sum of its own.
            OUTSIDE.fetch_add(size.wrapping_sub(layout.size()), Ordering::Relaxed);
        }
        grown
    }
}

/// # Safety
/// The server's functions are known.
unsafe fn server_allocator(size: usize) -> *mut u8 {
    // SAFETY: the caller's promise. A request that cannot be met ends the server, as its own do.
    unsafe { server!(RedisModule_Alloc(size)) }.cast()
}
