//! Write-back of cache lines, by the best instruction of this CPU.

#[cfg(target_arch = "x86_64")]
mod arch {
    use crate::cpu::{FlushKind, flush_kind};
    use std::arch::asm;

    #[inline(always)]
    pub fn flush(address: *const u8) {
        match flush_kind() {
            // SAFETY: a write-back changes no value and faults only on an unmapped address, which
            // would be a fault of the store before it; CPUID offers the instruction.
            FlushKind::WriteBack => unsafe {
                asm!("clwb byte ptr [{}]", in(reg) address, options(nostack, preserves_flags));
            },
            // SAFETY: it changes no value, as `clwb`; CPUID offers it.
            FlushKind::ClFlushOpt => unsafe {
                asm!("clflushopt byte ptr [{}]", in(reg) address, options(nostack, preserves_flags));
            },
            // SAFETY: it changes no value, as `clwb`; every such CPU has it.
            FlushKind::ClFlush => unsafe {
                asm!("clflush byte ptr [{}]", in(reg) address, options(nostack, preserves_flags));
            },
            FlushKind::None | FlushKind::Clean => {}
        }
    }

    #[inline(always)]
    pub fn drain() {
        // SAFETY: `sfence` has no operands and no effect on values.
        unsafe { asm!("sfence", options(nostack, preserves_flags)) }
    }
}

#[cfg(target_arch = "aarch64")]
mod arch {
    use crate::cpu::{FlushKind, flush_kind};
    use std::arch::asm;

    #[inline(always)]
    pub fn flush(address: *const u8) {
        if flush_kind() == FlushKind::WriteBack {
            // SAFETY: `dc cvap` (as its system instruction, for assemblers without DPB) cleans the
            // line to the point of persistence and changes no value; the kernel reports DPB.
            unsafe {
                asm!("sys #3, c7, c12, #1, {}", in(reg) address, options(nostack, preserves_flags));
            }
        } else {
            // SAFETY: it changes no value, as `dc cvap`; `dc cvac` cleans to the point of coherency, which is also that
            // of persistence on a CPU that does not tell the two apart.
            unsafe { asm!("dc cvac, {}", in(reg) address, options(nostack, preserves_flags)) }
        }
    }

    #[inline(always)]
    pub fn drain() {
        // SAFETY: a barrier has no operands and no effect on values.
        unsafe { asm!("dsb sy", options(nostack, preserves_flags)) }
    }
}

pub use arch::{drain, flush};
