//! A cache line, and the ways to store one at once, where the machine can.

/// Bytes in a cache line: the unit of write-back and of persistence.
pub const LINE_SIZE: usize = 64;

/// How a whole line is stored at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineStore {
    /// One aligned store of 64 bytes (AVX-512). It reaches the first-level cache as one on server
    /// cores of Intel, and in two halves on some others; the architecture promises nothing, so a
    /// crash may keep a part of it.
    Wide,
    /// A direct store (MOVDIR64B): whole by architecture. It goes past the caches, so that only a
    /// drain is needed to make it durable, and the next load of the line misses.
    Direct,
    /// Eight stores in a hardware transaction (RTM): nobody, and no crash, sees a part of them. The
    /// machine may give up.
    Transaction,
}
