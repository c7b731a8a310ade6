//! FAST & FAIR: Deukyeon Hwang, Wook-Hee Kim, Youjip Won, Beomseok Nam, "Endurable Transient
//! Inconsistency in Byte-Addressable Persistent B+-Tree", FAST 2018.

mod counts;
mod times;

use everleaf_bench::{Distribution, Workload};

use super::cores::{self, Field, SCAN_LENGTH};
use super::{Entry, Family, Kind, proof};

/// Figure 8, as far as the cores go.
static FIGURE_8: Field = Field {
    designs: &["fast-fair", "fast-fair-leaf-locks", "fptree", "blink", "p-skiplist"],
    cases: &[
        (Workload::Get, Distribution::Uniform),
        (Workload::Insert, Distribution::Uniform),
        (Workload::Mix4To16To1, Distribution::Uniform),
    ],
    claims: &[
        ("fast-fair-leaf-locks", 0, "about 1 with 16 threads"),
        ("fptree", 2, "11.4 against 7.7 times one thread, with 16"),
        ("blink", 2, "11.4 against 4.4 times one thread, with 16"),
        ("p-skiplist", 0, "more: the skip list scales to 16 threads, from a much lower throughput"),
    ],
    scan_length: SCAN_LENGTH,
};

pub(super) const FAMILY: Family = Family {
    name: "fast-fair",
    source: "Hwang, Kim, Won, Nam: Endurable Transient Inconsistency in Byte-Addressable Persistent \
             B+-Tree, FAST 2018",
    setting: "Haswell E7-4809v3, 16 vCPU, latency of persistent memory emulated; keys and values of \
              8 bytes, nodes of 512 bytes",
    entries: &[
        Entry {
            id: "fast-fair.steps",
            what: "Figures 1 and 2, algorithms: the state after every store of 8 bytes",
            claim: "readers and recovery tolerate every state",
            kinds: &[Kind::Crashes],
            seconds: proof::SECONDS_OF_ONE,
            needs: &[],
            make: |context| proof::search(context, &["fast-fair"]),
        },
        Entry {
            id: "fast-fair.fig3",
            what: "Figure 3: insert and search by the size of a node, 1 M keys; linear search and \
                   search by halving",
            claim: "inserts get more expensive with larger nodes; linear search wins below 4 KB; 512 bytes \
                    and 1 KB are best",
            kinds: &[Kind::Latency, Kind::Counts],
            seconds: (40, 600),
            needs: &["fast-fair", "fast-fair-256", "fast-fair-4096", "fast-fair-binary"],
            make: times::node_sizes,
        },
        Entry {
            id: "fast-fair.fig4",
            what: "Figure 4: range queries by the share of keys selected, nodes of 1 KB",
            claim: "6 to 27 % faster than FPTree, 25 to 33 % faster than wB+Tree, and up to 20 times a \
                    skip list",
            kinds: &[Kind::Counts, Kind::Latency],
            seconds: (13, 900),
            needs: &["fast-fair-1024", "fptree", "wbtree", "p-skiplist"],
            make: times::ranges,
        },
        Entry {
            id: "fast-fair.fig5",
            what: "Figure 5: where the time of an insert goes: search and write-back",
            claim: "logging costs 7 to 18 %; wB+Tree flushes 1.7 times as many lines; FPTree and WORT are \
                    comparable, wB+Tree and the skip list slower by a large margin",
            kinds: &[Kind::Counts, Kind::Latency],
            seconds: (9, 450),
            needs: &["fast-fair-logging", "fptree", "wbtree", "wort", "p-skiplist"],
            make: counts::breakdown,
        },
        Entry {
            id: "fast-fair.flushes",
            what: "section 6.4: lines flushed by a random insert, splits included",
            claim: "4.2, and 4.8 of FPTree",
            kinds: &[Kind::Counts],
            seconds: (7, 60),
            needs: &["fptree"],
            make: counts::flushes,
        },
        Entry {
            id: "fast-fair.fig6a",
            what: "Figure 6a: search by the read latency of persistent memory",
            claim: "8.3 cache misses a search; FPTree slightly ahead above 600 ns",
            kinds: &[Kind::Counts, Kind::Latency],
            seconds: (3, 300),
            needs: &["fptree", "wbtree", "wort", "p-skiplist"],
            make: counts::read_latency,
        },
        Entry {
            id: "fast-fair.fig6b",
            what: "Figure 6b: insert by the write latency of persistent memory",
            claim: "beats FPTree and wB+Tree at every latency, as it flushes fewer lines",
            kinds: &[Kind::Counts, Kind::Latency],
            seconds: (3, 300),
            needs: &["fptree", "wbtree", "wort", "p-skiplist"],
            make: counts::write_latency,
        },
        Entry {
            id: "fast-fair.fig6c",
            what: "Figure 6c: inserts on a machine that reorders stores",
            claim: "16.2 barriers an insert against 6.6 of FPTree, with nodes of 256 bytes and words \
                    of 4 bytes",
            kinds: &[Kind::Counts],
            seconds: (3, 40),
            needs: &["fast-fair-fenced", "fptree", "wbtree"],
            make: counts::barriers,
        },
        Entry {
            id: "fast-fair.fig7",
            what: "Figure 7: TPC-C in four mixes",
            claim: "the fastest of all; a radix tree suffers from ranges",
            kinds: &[Kind::Latency],
            seconds: (15, 2100),
            needs: &["fast-fair", "fptree", "wbtree", "wort", "p-skiplist"],
            make: times::transactions,
        },
        Entry {
            id: "fast-fair.fig8",
            what: "Figure 8: search, insert and the mix 4:16:1 on 1 to 16 threads, 50 M keys",
            claim: "11.7, 12.5 and 11.4 times one thread on 16; FPTree 7.7, B-link 4.4",
            kinds: &[Kind::ManyCores],
            seconds: (13, 1000),
            needs: &[],
            make: |context| cores::run(context, &FIGURE_8),
        },
        Entry {
            id: "fast-fair.isolation",
            what: "sections 5.1 and 5.2: what readers may see, repair by writers",
            claim: "read uncommitted, or committed with locks on leaves",
            kinds: &[Kind::Crashes],
            seconds: proof::SECONDS_OF_THREE,
            needs: &[],
            make: |context| proof::search(context, &["fast-fair", "fast-fair-leaf-locks", "blink"]),
        },
    ],
};
