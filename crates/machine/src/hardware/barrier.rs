//! The asymmetric fence: cheap for the many, expensive for the few.
//!
//! A thread that pins an epoch runs [`light`] on every operation; a thread that advances the epoch
//! runs [`heavy`] once in a while. Where the kernel has `membarrier`, `light` is only a compiler
//! barrier, because `heavy` interrupts every CPU that runs this process; elsewhere both are full
//! fences.

use std::sync::atomic::{AtomicU8, Ordering, compiler_fence, fence};

const UNKNOWN: u8 = 0;
const MEMBARRIER: u8 = 1;
const FENCES: u8 = 2;

// Relaxed throughout: the answer is decided once, by an idempotent registration; a thread that
// still reads UNKNOWN registers again and gets the same answer.
static KIND: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Orders earlier stores before later loads, as seen by a thread that runs [`heavy`].
#[inline(always)]
pub fn light() {
    match KIND.load(Ordering::Relaxed) {
        MEMBARRIER => compiler_fence(Ordering::SeqCst),
        FENCES => fence(Ordering::SeqCst),
        _ => light_first_time(),
    }
}

#[cold]
fn light_first_time() {
    decide();
    fence(Ordering::SeqCst);
}

/// Every other thread behaves as if it had run a full fence during this call.
pub fn heavy() {
    if KIND.load(Ordering::Relaxed) == UNKNOWN {
        decide();
    }
    fence(Ordering::SeqCst);
    if KIND.load(Ordering::Relaxed) == MEMBARRIER {
        let done = kernel::run();
        assert!(done, "membarrier was registered and then refused: cannot go on safely");
    }
    fence(Ordering::SeqCst);
}

fn decide() {
    let kind = if kernel::register() { MEMBARRIER } else { FENCES };
    KIND.store(kind, Ordering::Relaxed);
}

/// The two calls of the kernel that are needed.
mod kernel {
    #[cfg(target_os = "linux")]
    pub fn register() -> bool {
        membarrier(16)
    }

    #[cfg(target_os = "linux")]
    pub fn run() -> bool {
        membarrier(8)
    }

    /// `membarrier(2)`; command 16 registers for private expedited, command 8 runs it.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    fn membarrier(command: u64) -> bool {
        let mut result: u64 = 324;
        // SAFETY: `membarrier` takes integers only and touches no memory of ours; the kernel
        // clobbers rcx and r11.
        unsafe {
            std::arch::asm!("syscall", inout("rax") result, in("rdi") command, in("rsi") 0u64,
                in("rdx") 0u64, out("rcx") _, out("r11") _, options(nostack));
        }
        result == 0
    }

    #[cfg(all(target_os = "linux", target_arch = "aarch64"))]
    fn membarrier(command: u64) -> bool {
        let mut result: u64 = command;
        // SAFETY: as on x86-64.
        unsafe {
            std::arch::asm!("svc #0", inout("x0") result, in("x1") 0u64, in("x2") 0u64,
                in("x8") 283u64, options(nostack));
        }
        result == 0
    }
}
