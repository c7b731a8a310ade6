//! What this CPU can do, asked once.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::line_store::LineStore;

/// The instruction that writes a cache line back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum FlushKind {
    /// No instruction is known: only on processors that Everleaf does not run on.
    None = 1,
    /// `clflush`: writes back, evicts, serialises with itself.
    ClFlush = 2,
    /// `clflushopt`: writes back, evicts, weakly ordered.
    ClFlushOpt = 3,
    /// `clwb` (x86-64) or `dc cvap` (AArch64): writes back, may keep the line.
    WriteBack = 4,
    /// `dc cvac` (AArch64 without a point of persistence of its own): writes back.
    Clean = 5,
}

/// The widest comparison of bytes and words this CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum SimdKind {
    /// Word arithmetic.
    Scalar = 1,
    /// 16 bytes at a time (SSE2).
    Sse2 = 2,
    /// 32 bytes at a time.
    Avx2 = 3,
    /// 64 bytes at a time.
    Avx512 = 4,
}

// Relaxed throughout: each is an idempotent cache of one CPUID answer, no other memory hangs on it.
static FLUSH: AtomicU8 = AtomicU8::new(0);
static SIMD: AtomicU8 = AtomicU8::new(0);
#[cfg(target_arch = "x86_64")]
static CRC: AtomicU8 = AtomicU8::new(0);
/// A bit for each way to store a line, and [`ASKED`].
static LINE_STORES: AtomicU8 = AtomicU8::new(0);

const ASKED: u8 = 1 << 7;

/// The flush instruction in use.
#[inline(always)]
pub fn flush_kind() -> FlushKind {
    match FLUSH.load(Ordering::Relaxed) {
        4 => FlushKind::WriteBack,
        5 => FlushKind::Clean,
        3 => FlushKind::ClFlushOpt,
        2 => FlushKind::ClFlush,
        1 => FlushKind::None,
        _ => detect_flush(),
    }
}

/// The comparison in use.
#[inline(always)]
pub fn simd_kind() -> SimdKind {
    match SIMD.load(Ordering::Relaxed) {
        4 => SimdKind::Avx512,
        3 => SimdKind::Avx2,
        2 => SimdKind::Sse2,
        1 => SimdKind::Scalar,
        _ => detect_simd(),
    }
}

/// Whether the CPU has the instructions that `check_sum` uses.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn has_crc32() -> bool {
    match CRC.load(Ordering::Relaxed) {
        0 => detect_crc32(),
        known => known == 1,
    }
}

#[cfg(target_arch = "x86_64")]
#[cold]
fn detect_crc32() -> bool {
    let has = is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("pclmulqdq");
    CRC.store(if has { 1 } else { 2 }, Ordering::Relaxed);
    has
}

#[cold]
fn detect_flush() -> FlushKind {
    let kind = flush_kind_of_cpu();
    FLUSH.store(kind as u8, Ordering::Relaxed);
    kind
}

#[cfg(target_arch = "x86_64")]
fn flush_kind_of_cpu() -> FlushKind {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let highest = __cpuid(0).eax;
    let extended = if highest >= 7 { __cpuid_count(7, 0).ebx } else { 0 };
    if extended & 1 << 24 != 0 {
        FlushKind::WriteBack
    } else if extended & 1 << 23 != 0 {
        FlushKind::ClFlushOpt
    } else {
        FlushKind::ClFlush
    }
}

#[cfg(target_arch = "aarch64")]
fn flush_kind_of_cpu() -> FlushKind {
    // `dc cvap` needs ARMv8.2 DPB; the kernel says so.
    if std::arch::is_aarch64_feature_detected!("dpb") {
        FlushKind::WriteBack
    } else {
        FlushKind::Clean
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn flush_kind_of_cpu() -> FlushKind {
    FlushKind::None
}

/// Whether this CPU can store a line of 64 bytes in this way.
#[inline(always)]
pub fn has_line_store(how: LineStore) -> bool {
    let known = LINE_STORES.load(Ordering::Relaxed);
    let known = if known & ASKED != 0 { known } else { detect_line_stores() };
    known & 1 << how as u8 != 0
}

#[cold]
fn detect_line_stores() -> u8 {
    let [wide, direct, transaction] = line_stores_of_cpu();
    let known = ASKED
        | u8::from(wide) << LineStore::Wide as u8
        | u8::from(direct) << LineStore::Direct as u8
        | u8::from(transaction) << LineStore::Transaction as u8;
    LINE_STORES.store(known, Ordering::Relaxed);
    known
}

/// Wide stores, direct stores, transactions.
#[cfg(target_arch = "x86_64")]
fn line_stores_of_cpu() -> [bool; 3] {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let wide = is_x86_feature_detected!("avx512f");
    if __cpuid(0).eax < 7 {
        return [wide, false, false];
    }
    let extended = __cpuid_count(7, 0);
    let has = |register: u32, bit: u32| register & 1 << bit != 0;
    // A CPU whose transactions were switched off by its maker still has the instructions, and says
    // that it gives up every one.
    let transaction = has(extended.ebx, 11) && !has(extended.edx, 11);
    [wide, has(extended.ecx, 28), transaction]
}

#[cfg(not(target_arch = "x86_64"))]
fn line_stores_of_cpu() -> [bool; 3] {
    [false; 3]
}

/// Whether loading a pair also writes it, unchanged: on CPUs that cannot load 16 bytes at once
/// (AArch64 before LSE2). What cannot be written can then not be loaded as a pair either.
#[inline(always)]
pub fn pair_loads_write() -> bool {
    #[cfg(target_arch = "aarch64")]
    let writes = !std::arch::is_aarch64_feature_detected!("lse2");
    #[cfg(not(target_arch = "aarch64"))]
    let writes = false;
    writes
}

#[cold]
fn detect_simd() -> SimdKind {
    let kind = simd_kinds().last().copied().unwrap_or(SimdKind::Scalar);
    SIMD.store(kind as u8, Ordering::Relaxed);
    kind
}

/// All comparisons this CPU can run, narrowest first.
pub fn simd_kinds() -> Vec<SimdKind> {
    #[cfg(target_arch = "x86_64")]
    let (sse2, avx2, avx512) = (
        true,
        is_x86_feature_detected!("avx2"),
        is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512f"),
    );
    #[cfg(not(target_arch = "x86_64"))]
    let (sse2, avx2, avx512) = (false, false, false);
    let kinds = [
        (SimdKind::Scalar, true),
        (SimdKind::Sse2, sse2),
        (SimdKind::Avx2, avx2),
        (SimdKind::Avx512, avx512),
    ];
    kinds.into_iter().filter_map(|(kind, exists)| exists.then_some(kind)).collect()
}

/// What is missing for Everleaf to run on this CPU, in a sentence; `None` when nothing is.
///
/// Entries are loaded 16 bytes at a time, which x86-64 CPUs guarantee to be atomic from AVX on, and
/// exchanged by `cmpxchg16b`.
pub fn missing_feature() -> Option<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        if !is_x86_feature_detected!("cmpxchg16b") {
            return Some("this CPU has no cmpxchg16b (every x86-64 CPU since 2006 has it)");
        }
        if !is_x86_feature_detected!("avx") {
            return Some("this CPU has no AVX, so 16-byte loads are not atomic on it");
        }
    }
    None
}
