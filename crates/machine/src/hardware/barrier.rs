//! The asymmetric fence: cheap for the many, expensive for the few.
//!
//! A thread that pins an epoch runs [`light`] on every operation; a thread that advances the epoch
//! runs [`heavy`] once in a while. Where the kernel has `membarrier`, `light` is only a compiler
//! barrier, because `heavy` interrupts every CPU that runs this process; elsewhere both are full
//! fences.
//!
//! A kernel that has registered the process may refuse it later: a program locks itself in by a filter of system calls
//! when its store is open. From then on both are full fences. What a thread stored before a light barrier of the cheap
//! kind may then still be in the buffer of its CPU, which empties it within microseconds without being asked, or when
//! the thread loses the CPU: the heavy barrier waits much longer than that, once.

use std::sync::atomic::{AtomicU8, Ordering, compiler_fence, fence};
use std::time::{Duration, Instant};

const UNKNOWN: u8 = 0;
const MEMBARRIER: u8 = 1;
const FENCES: u8 = 2;
/// As [`FENCES`], but what was stored before the last cheap barriers need not be seen yet.
const LEAVING: u8 = 3;

/// Longer by far than any CPU keeps what was stored.
const STORES_SEEN_AFTER: Duration = Duration::from_millis(100);

static BARRIER: Barrier = Barrier::new();

/// Orders earlier stores before later loads, as seen by a thread that runs [`heavy`].
#[inline(always)]
pub fn light() {
    BARRIER.light();
}

/// Every other thread behaves as if it had run a full fence during this call.
pub fn heavy() {
    BARRIER.heavy(kernel::run);
}

/// How the barriers of this process work.
struct Barrier {
    kind: AtomicU8,
}

impl Barrier {
    const fn new() -> Self {
        Barrier { kind: AtomicU8::new(UNKNOWN) }
    }

    #[inline(always)]
    fn light(&self) {
        // Relaxed: a thread that still sees UNKNOWN registers again, which is idempotent; one that still sees
        // MEMBARRIER has loaded it before `heavy` began to wait for what the thread had stored.
        match self.kind.load(Ordering::Relaxed) {
            MEMBARRIER => compiler_fence(Ordering::SeqCst),
            FENCES => fence(Ordering::SeqCst),
            _ => self.light_first_time(),
        }
    }

    #[cold]
    fn light_first_time(&self) {
        self.kind();
        fence(Ordering::SeqCst);
    }

    fn heavy(&self, run: impl FnOnce() -> bool) {
        let kind = self.kind();
        fence(Ordering::SeqCst);
        if kind == LEAVING || kind == MEMBARRIER && !run() {
            self.leave();
        }
        fence(Ordering::SeqCst);
    }

    /// Goes over to fences. A thread that comes while another waits has to wait as well: its call, too, speaks of all.
    #[cold]
    fn leave(&self) {
        // Relaxed on failure: another thread has left it.
        let _ =
            self.kind.compare_exchange(MEMBARRIER, LEAVING, Ordering::SeqCst, Ordering::Relaxed);
        // No sleep: what refuses one call may refuse that, too, for which the standard library panics.
        let began = Instant::now();
        while began.elapsed() < STORES_SEEN_AFTER {
            std::thread::yield_now();
        }
        // SeqCst: behind the wait.
        self.kind.store(FENCES, Ordering::SeqCst);
    }

    /// How the barriers work now; the first call decides it.
    fn kind(&self) -> u8 {
        // Relaxed: as in `light`.
        let kind = self.kind.load(Ordering::Relaxed);
        if kind != UNKNOWN {
            return kind;
        }
        let kind = if kernel::register() { MEMBARRIER } else { FENCES };
        // Relaxed: what another thread has decided counts, also if it was registered and this one is refused.
        let decided =
            self.kind.compare_exchange(UNKNOWN, kind, Ordering::Relaxed, Ordering::Relaxed);
        decided.err().unwrap_or(kind)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What panicked, in the middle of a write: a program that locked itself in behind the opening of its store.
    #[test]
    fn a_kernel_that_refuses_the_barrier_later_is_left() {
        let barrier = Barrier::new();
        // The first, and one that comes while it waits.
        for kind in [MEMBARRIER, LEAVING] {
            barrier.kind.store(kind, Ordering::Relaxed);
            let began = Instant::now();
            barrier.heavy(|| false);
            assert!(began.elapsed() >= STORES_SEEN_AFTER, "each of them waits");
            assert_eq!(barrier.kind(), FENCES);
        }
        barrier.light();
        barrier.heavy(|| panic!("the kernel is not asked any more"));
    }
}
