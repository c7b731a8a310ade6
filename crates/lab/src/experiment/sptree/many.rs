//! The figures of many threads: 3, 4, 7 a to d and 8, as far as the cores go.

use everleaf_bench::{Distribution, Workload};

use everleaf_bench::BenchError;

use super::super::cores::{self, Field};
use super::super::{Context, Results};

/// Pairs of a scan in the paper.
const SCANNED: u32 = 50;

/// What the paper compares: its tree without buffers, which its other claims are about, comes first.
const TREES: &[&str] = &["sptree", "sptree-buffered", "fast-fair", "pactree"];

/// Caching is the last of the three techniques: each host without them, with the others, and with it too.
pub(super) const HOSTS: &[&str] = &[
    "fast-fair-boc",
    "fast-fair-bo",
    "fast-fair-c",
    "fast-fair",
    "cceh-boc",
    "cceh-bo",
    "cceh-c",
    "cceh",
    "p-skiplist-boc",
    "p-skiplist-bo",
    "p-skiplist-c",
    "p-skiplist",
];

/// Figure 3, its throughput: the techniques one after the other, with a log and without, on each host. By the
/// authors' data, 1, 20 and 40 threads.
static FIGURE_3: [Field; 3] = [
    Field {
        designs: &[
            "fast-fair-boc",
            "fast-fair-bo",
            "fast-fair-bc",
            "fast-fair-b",
            "fast-fair-boc-unlogged",
            "fast-fair-bo-unlogged",
            "fast-fair-bc-unlogged",
            "fast-fair-b-unlogged",
            "fast-fair",
        ],
        cases: INSERTS,
        claims: &[
            ("fast-fair", 0, "1.7, 1.8 and 2.0 with 1, 20 and 40 threads"),
            ("fast-fair-boc-unlogged", 0, "0.9, 0.9 and 0.8 with 1, 20 and 40 threads"),
        ],
        scan_length: SCANNED,
    },
    Field {
        designs: &[
            "cceh-boc",
            "cceh-bo",
            "cceh-bc",
            "cceh-b",
            "cceh-boc-unlogged",
            "cceh-bo-unlogged",
            "cceh-bc-unlogged",
            "cceh-b-unlogged",
            "cceh",
        ],
        cases: INSERTS,
        claims: &[
            ("cceh", 0, "1.5, 1.7 and 1.8 with 1, 20 and 40 threads"),
            ("cceh-boc-unlogged", 0, "0.9, 0.8 and 0.7 with 1, 20 and 40 threads"),
        ],
        scan_length: SCANNED,
    },
    // Of the skip list no data are published.
    Field {
        designs: &[
            "p-skiplist-boc",
            "p-skiplist-bo",
            "p-skiplist-bc",
            "p-skiplist-b",
            "p-skiplist-boc-unlogged",
            "p-skiplist-bo-unlogged",
            "p-skiplist-bc-unlogged",
            "p-skiplist-b-unlogged",
            "p-skiplist",
        ],
        cases: INSERTS,
        claims: &[("p-skiplist", 0, "more than 1; how much is not published")],
        scan_length: SCANNED,
    },
];

const INSERTS: &[(Workload, Distribution)] = &[(Workload::Insert, Distribution::Uniform)];

/// Makes Figure 3's throughput.
pub(super) fn techniques(context: &mut Context<'_>) -> Result<Results, BenchError> {
    let mut outcome = Results::default();
    for field in &FIGURE_3 {
        let Results { figures, tables, charts, notes, series } = cores::run(context, field)?;
        outcome.figures.extend(figures);
        outcome.tables.extend(tables);
        outcome.charts.extend(charts);
        outcome.series.extend(series);
        outcome.notes = notes;
    }
    Ok(outcome)
}

pub(super) static FIGURE_4: Field = Field {
    designs: HOSTS,
    cases: &[(Workload::Insert, Distribution::Uniform), (Workload::Get, Distribution::Uniform)],
    claims: &[
        ("fast-fair-bo", 0, "much: it follows many pointers, 20 threads"),
        ("fast-fair-bo", 1, "much: it follows many pointers, 20 threads"),
        ("p-skiplist-bo", 0, "much: it follows many pointers, 20 threads"),
        ("p-skiplist-bo", 1, "much: it follows many pointers, 20 threads"),
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
        ("pactree", 3, "1.3: it is 0.7 times FAST & FAIR, SPTree 0.9 times"),
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
