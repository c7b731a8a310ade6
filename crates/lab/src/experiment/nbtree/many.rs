//! The figures of many threads: 7, 9, 11, 14 and 19, as far as the cores go. The published NBTree promises
//! something to one thread at a time only, so ours stands for it.

use everleaf_bench::{Distribution, Workload};

use super::super::cores::{Field, SCAN_LENGTH, skewed};

/// What the paper compares on many cores, as far as it is built.
pub(super) const RIVALS: &[&str] = &["nbtree", "fast-fair", "rntree", "fptree", "utree", "bztree"];

/// Reads and writes half and half.
const HALF: Workload = Workload::Writes { percent: 50 };

pub(super) static FIGURE_7: Field = Field {
    designs: RIVALS,
    cases: &[
        (Workload::Insert, Distribution::Uniform),
        (Workload::Update, Distribution::Uniform),
        (Workload::Remove, Distribution::Uniform),
        (Workload::Get, Distribution::Uniform),
    ],
    claims: &[
        ("fast-fair", 0, "1.6 to 7.5 times all with 56 threads"),
        ("fast-fair", 1, "1.5 to 5.0 times all with 56 threads"),
        ("fast-fair", 2, "2.0 to 4.9 times all with 56 threads"),
        ("fast-fair", 3, "1.6 to 5.1 times all with 56 threads"),
    ],
    scan_length: SCAN_LENGTH,
};

pub(super) static FIGURE_9: Field = Field {
    designs: RIVALS,
    cases: &[(HALF, skewed(0.99))],
    claims: &[
        ("fast-fair", 0, "6.0 times all with 56 threads"),
        ("rntree", 0, "6.0 times all with 56 threads"),
        ("fptree", 0, "6.0 times all with 56 threads"),
    ],
    scan_length: SCAN_LENGTH,
};

pub(super) static FIGURE_11: Field = Field {
    designs: RIVALS,
    cases: &[
        (HALF, Distribution::Uniform),
        (HALF, skewed(0.6)),
        (HALF, skewed(0.8)),
        (HALF, skewed(0.99)),
        (Workload::Writes { percent: 0 }, skewed(0.99)),
        (Workload::Writes { percent: 100 }, skewed(0.99)),
    ],
    claims: &[
        ("fptree", 5, "11 times all with 56 threads"),
        ("fast-fair", 5, "11 times all with 56 threads"),
    ],
    scan_length: SCAN_LENGTH,
};

pub(super) static FIGURE_14: Field = Field {
    designs: &["nbtree", "nbtree-w", "nbtree-wr"],
    cases: &[(HALF, skewed(0.99))],
    claims: &[
        ("nbtree-w", 0, "5.5 with 56 threads"),
        ("nbtree-wr", 0, "5.5 times 1.8 with 56 threads"),
    ],
    scan_length: SCAN_LENGTH,
};

/// In DRAM nobody persists anything: the measurement's pool is in domain `Process`, so that ours flushes nothing
/// either.
pub(super) static FIGURE_19: Field = Field {
    designs: &["nbtree", "masstree", "bw-tree"],
    cases: &[
        (HALF, Distribution::Uniform),
        (HALF, skewed(0.6)),
        (HALF, skewed(0.8)),
        (HALF, skewed(0.99)),
        (Workload::Writes { percent: 0 }, skewed(0.99)),
        (Workload::Writes { percent: 100 }, skewed(0.99)),
    ],
    claims: &[
        ("masstree", 3, "up to 7.6 times all with 56 threads"),
        ("bw-tree", 3, "up to 7.6 times all with 56 threads"),
        ("masstree", 5, "up to 24.2 times all with 56 threads"),
        ("bw-tree", 5, "up to 24.2 times all with 56 threads"),
    ],
    scan_length: SCAN_LENGTH,
};
