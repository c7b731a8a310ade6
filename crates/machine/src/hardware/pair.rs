//! Sixteen bytes as one: the loads and exchanges of a leaf's entries.
//!
//! All in `asm!`, because the language has no 128-bit atomic yet and must not see a 16-byte access
//! and an 8-byte access of one location as a race.

use crate::seam::{Pair, PairCell};

#[cfg(target_arch = "x86_64")]
mod arch {
    use super::{Pair, PairCell};
    use std::arch::asm;

    /// Acquire load of both halves: an aligned 16-byte load is atomic on every CPU with AVX
    /// (checked when a pool is opened), and every x86-64 load is an acquire. Without `readonly`: the compiler may move
    /// plain loads over a block that writes nothing, and what is read behind this one must not be from before it.
    #[inline(always)]
    pub fn load(cell: &PairCell) -> Pair {
        let (first, second): (u64, u64);
        // SAFETY: reads the 16 aligned bytes of `cell`.
        unsafe {
            asm!(
                "movdqa {x}, xmmword ptr [{cell}]",
                "movq {first}, {x}",
                "psrldq {x}, 8",
                "movq {second}, {x}",
                cell = in(reg) cell,
                x = out(xmm_reg) _,
                first = lateout(reg) first,
                second = lateout(reg) second,
                options(nostack, preserves_flags),
            );
        }
        Pair { first, second }
    }

    /// `lock cmpxchg16b`: a full fence, so acquire and release.
    #[inline(always)]
    pub fn compare_exchange(cell: &PairCell, current: Pair, new: Pair) -> Result<Pair, Pair> {
        let (first, second): (u64, u64);
        let exchanged: u8;
        // SAFETY: writes only the 16 aligned bytes of `cell`. `rbx` is the compiler's; it is saved
        // in the register that brought its operand and put back. `cell` has a register of its own,
        // because the compiler may choose `rbx` for any other input, and it is overwritten before
        // the address is used.
        unsafe {
            asm!(
                "xchg {low}, rbx",
                "lock cmpxchg16b xmmword ptr [rdi]",
                "sete r8b",
                "mov rbx, {low}",
                low = inout(reg) new.first => _,
                in("rdi") cell,
                in("rcx") new.second,
                inout("rax") current.first => first,
                inout("rdx") current.second => second,
                out("r8b") exchanged,
                options(nostack),
            );
        }
        let seen = Pair { first, second };
        if exchanged != 0 { Ok(seen) } else { Err(seen) }
    }
}

#[cfg(target_arch = "aarch64")]
mod arch {
    use super::{Pair, PairCell};
    use std::arch::asm;

    /// Both halves at once where the CPU has LSE2, which makes an aligned `ldp` atomic; else by an
    /// exclusive pair whose store-back proves that they belong together.
    #[inline(always)]
    pub fn load(cell: &PairCell) -> Pair {
        let (first, second): (u64, u64);
        if crate::cpu::pair_loads_write() {
            // SAFETY: reads, and writes back unchanged, the 16 aligned bytes of `cell`. Mappings for
            // readers are private and writable on such CPUs (`mapping.rs`).
            unsafe {
                asm!(
                    "2: ldaxp {first}, {second}, [{cell}]",
                    "stxp {status:w}, {first}, {second}, [{cell}]",
                    "cbnz {status:w}, 2b",
                    cell = in(reg) cell,
                    first = out(reg) first,
                    second = out(reg) second,
                    status = out(reg) _,
                    options(nostack, preserves_flags),
                );
            }
        } else {
            // SAFETY: reads the 16 aligned bytes of `cell`; the barrier makes it an acquire load, and so it is to the
            // compiler, too, which is not told that the block writes nothing.
            unsafe {
                asm!(
                    "ldp {first}, {second}, [{cell}]",
                    "dmb ishld",
                    cell = in(reg) cell,
                    first = out(reg) first,
                    second = out(reg) second,
                    options(nostack, preserves_flags),
                );
            }
        }
        Pair { first, second }
    }

    /// Exclusive load and store of the pair, acquire and release.
    #[inline(always)]
    pub fn compare_exchange(cell: &PairCell, current: Pair, new: Pair) -> Result<Pair, Pair> {
        let (first, second): (u64, u64);
        // SAFETY: writes only the 16 aligned bytes of `cell`.
        unsafe {
            asm!(
                "2: ldaxp {first}, {second}, [{cell}]",
                "cmp {first}, {old_first}",
                "ccmp {second}, {old_second}, #0, eq",
                "b.ne 3f",
                "stlxp {status:w}, {new_first}, {new_second}, [{cell}]",
                "cbnz {status:w}, 2b",
                "b 4f",
                // The failed read must be atomic too: store it back unchanged.
                "3: stxp {status:w}, {first}, {second}, [{cell}]",
                "cbnz {status:w}, 2b",
                "4:",
                cell = in(reg) cell,
                old_first = in(reg) current.first,
                old_second = in(reg) current.second,
                new_first = in(reg) new.first,
                new_second = in(reg) new.second,
                first = out(reg) first,
                second = out(reg) second,
                status = out(reg) _,
                options(nostack),
            );
        }
        let seen = Pair { first, second };
        if seen == current { Ok(seen) } else { Err(seen) }
    }
}

pub use arch::{compare_exchange, load};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exchange_compares_both_halves() {
        let cell = PairCell::default();
        let zero = Pair { first: 0, second: 0 };
        let value = Pair { first: u64::MAX, second: 7 };
        assert_eq!(compare_exchange(&cell, zero, value), Ok(zero));
        assert_eq!(compare_exchange(&cell, zero, value), Err(value));
        let near = Pair { first: u64::MAX, second: 8 };
        assert_eq!(compare_exchange(&cell, near, zero), Err(value));
        assert_eq!(load(&cell), value);
    }

    /// Keeps the cell's address in a register that survives calls, which invites the compiler to
    /// pass it to the exchange in `rbx`.
    #[inline(never)]
    fn exchange_between_calls(cell: &PairCell, call: fn(u64) -> u64) -> bool {
        call(1);
        compare_exchange(cell, Pair { first: 0, second: 0 }, Pair { first: 1, second: 1 }).is_ok()
    }

    #[test]
    fn an_exchange_works_whatever_registers_the_compiler_chooses() {
        let cell = PairCell::default();
        assert!(exchange_between_calls(&cell, std::hint::black_box(std::hint::black_box)));
        assert_eq!(load(&cell), Pair { first: 1, second: 1 });
    }

    #[test]
    fn a_load_never_mixes_two_exchanges() {
        let cell = PairCell::default();
        let exchanging = std::sync::Arc::new(());
        let watch = std::sync::Arc::downgrade(&exchanging);
        std::thread::scope(|scope| {
            let cell = &cell;
            scope.spawn(move || {
                for n in 0..200_000u64 {
                    let old = Pair { first: n, second: !n };
                    let old = if n == 0 { Pair { first: 0, second: 0 } } else { old };
                    let new = Pair { first: n + 1, second: !(n + 1) };
                    assert_eq!(compare_exchange(cell, old, new), Ok(old));
                }
                drop(exchanging);
            });
            while watch.strong_count() > 0 {
                let seen = load(cell);
                assert!(seen.first == 0 || seen.second == !seen.first, "torn: {seen:?}");
            }
        });
    }
}
