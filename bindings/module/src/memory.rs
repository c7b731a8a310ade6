//! The module's memory in the server's count, which `maxmemory`, eviction and `INFO` go by.
//!
//! What Rust allocates comes from the server's allocator. The tree has pages of its own, which the
//! server cannot see; for each MiB that they hold a MiB is taken from the server's allocator and never
//! touched, so that it is counted and costs addresses only.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::server::server;
use crate::space;

/// Bytes that are counted at once.
const STEP: usize = 1 << 20;
/// Bytes of blocks that the server's allocator could not align: the tree's nodes.
pub static OUTSIDE: AtomicUsize = AtomicUsize::new(0);
/// The blocks that are only counted.
static COUNTED: Mutex<Vec<Block>> = Mutex::new(vec![]);

/// A block that is counted and never touched.
struct Block(*mut c_void);

// SAFETY: an address that nobody follows, given back once.
unsafe impl Send for Block {}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: a block of the server's allocator, given back once.
        unsafe { server!(RedisModule_Free(self.0)) };
    }
}

/// Makes the server count what the tree takes now. Also looks for memory to give back.
pub fn account() {
    space::return_freed();
    // Relaxed: a sum.
    let used = space::used_bytes() as usize + OUTSIDE.load(Ordering::Relaxed);
    let wanted = used / STEP;
    let mut counted = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    while counted.len() < wanted {
        // SAFETY: the server's functions are known.
        counted.push(Block(unsafe { server!(RedisModule_Alloc(STEP)) }));
    }
    // One more than is wanted may stay, so that a size that goes up and down costs nothing.
    if counted.len() > wanted + 1 {
        counted.truncate(wanted);
    }
}
