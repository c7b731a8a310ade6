//! The figures of many threads: 4, 7 a to d and 8, as far as the cores go.

use everleaf_bench::{Distribution, Workload};

use super::super::cores::Field;

/// Pairs of a scan in the paper.
const SCANNED: u32 = 50;

/// What the paper compares: its tree without buffers, which its other claims are about, comes first.
const TREES: &[&str] = &["sptree", "sptree-buffered", "fast-fair", "pactree"];

/// Caching is the last of the three techniques: each host without them, with the others, and with it too.
/// The P-Skiplist has none of them here.
pub(super) const HOSTS: &[&str] = &[
    "fast-fair-boc",
    "fast-fair-bo",
    "fast-fair-c",
    "fast-fair",
    "cceh-boc",
    "cceh-bo",
    "cceh-c",
    "cceh",
];

pub(super) static FIGURE_4: Field = Field {
    designs: HOSTS,
    cases: &[(Workload::Insert, Distribution::Uniform), (Workload::Get, Distribution::Uniform)],
    claims: &[
        ("fast-fair-bo", 0, "much: it follows many pointers, 20 threads"),
        ("fast-fair-bo", 1, "much: it follows many pointers, 20 threads"),
    ],
    scan_length: SCANNED,
};

pub(super) static FIGURE_7: Field = Field {
    designs: TREES,
    cases: &[
        (Workload::Insert, Distribution::Uniform),
        (Workload::Get, Distribution::Uniform),
        (Workload::GetAbsent, Distribution::Uniform),
        (Workload::Scan, Distribution::Uniform),
    ],
    claims: &[
        ("fast-fair", 0, "up to 2 times all with 1 to 40 threads"),
        ("pactree", 0, "up to 2 times all with 1 to 40 threads"),
        ("fast-fair", 1, "up to 1.25 times all with 1 to 40 threads"),
        ("pactree", 1, "up to 1.25 times all with 1 to 40 threads"),
        ("fast-fair", 2, "up to 4 times all with 1 to 40 threads"),
        ("pactree", 2, "up to 4 times all with 1 to 40 threads"),
        ("fast-fair", 3, "0.9 with 1 to 40 threads"),
    ],
    scan_length: SCANNED,
};

pub(super) static FIGURE_8: Field = Field {
    designs: TREES,
    cases: &[
        (Workload::Insert, Distribution::Uniform),
        (Workload::Get, Distribution::Uniform),
        (Workload::GetAbsent, Distribution::Uniform),
    ],
    claims: &[(
        "sptree-buffered",
        0,
        "a third of its speed: buffers take 3 times less, 20 threads",
    )],
    scan_length: SCANNED,
};
