//! SPTree: Xingsheng Zhao, Chen Zhong, Prajwal Challa, Song Jiang, "Developing Index Structures in
//! Persistent Memory Using Spot-on Optimizations with DRAM", ICPE 2024.

use super::{Entry, Family, Kind, Method};

const BUILT: &str = "SPTree, CCEH and the skip list are not built";

/// An experiment that waits for the systems.
const fn later(
    id: &'static str,
    what: &'static str,
    claim: &'static str,
    kinds: &'static [Kind],
) -> Entry {
    Entry { id, what, claim, kinds, seconds: (0, 0), needs: &[], method: Method::NotYet(BUILT) }
}

pub(super) const FAMILY: Family = Family {
    name: "sptree",
    source: "Zhao, Zhong, Challa, Jiang: Developing Index Structures in Persistent Memory Using \
             Spot-on Optimizations with DRAM, ICPE 2024",
    setting: "Xeon 6230 with 20 cores, six modules of persistent memory; 121 M keys of 8 + 8 bytes",
    entries: &[
        later(
            "sptree.layout",
            "Figures 1, 5 and 6: structures",
            "sizes of nodes, buffers and tags",
            &[Kind::Crashes],
        ),
        later(
            "sptree.fig2",
            "Figure 2: media bytes written by inserts with buffers and without",
            "70.6 to 16.6 GB for CCEH, 98.4 to 17.9 for FAST & FAIR, 53.4 to 28.6 for a skip list",
            &[Kind::Counts],
        ),
        later(
            "sptree.fig3",
            "Figure 3: buffer, ordering and cache, one after the other, with a log and without",
            "volumes fall to a quarter; throughput doubles",
            &[Kind::Counts, Kind::ManyCores],
        ),
        later(
            "sptree.fig4",
            "Figure 4: latencies of inserts and reads, 20 threads",
            "nothing for CCEH, much for FAST & FAIR and the skip list",
            &[Kind::Counts, Kind::Latency, Kind::ManyCores],
        ),
        later(
            "sptree.fig7",
            "Figure 7 a to d: throughput on 1 to 40 threads",
            "inserts up to 2 times, reads of absent keys up to 4 times",
            &[Kind::ManyCores],
        ),
        later(
            "sptree.fig7-media",
            "Figure 7 e to h: media bytes of the same",
            "a third for inserts and reads, next to nothing for absent keys",
            &[Kind::Counts],
        ),
        later(
            "sptree.fig7-bandwidth",
            "Figure 7 i to l: bandwidth of the medium",
            "the others use as much for less",
            &[Kind::Counts, Kind::ManyCores],
        ),
        later(
            "sptree.fig8",
            "Figure 8: latencies of three workloads, 20 threads",
            "the lowest of all",
            &[Kind::Latency, Kind::ManyCores],
        ),
        later(
            "sptree.fig9",
            "Figure 9: rebuilding 4 to 256 M keys",
            "linear, about a second for 250 M",
            &[Kind::Recovery, Kind::Counts],
        ),
        later(
            "sptree.fig10",
            "Figure 10: time to the first lookup by the size of the log",
            "about nothing, where others grow with the log",
            &[Kind::Recovery],
        ),
        later(
            "sptree.footprint",
            "section 5: DRAM, false positives of the filters",
            "12 to 33 % of the data; about 5 % false positives",
            &[Kind::Space, Kind::Counts],
        ),
        later(
            "sptree.crash",
            "section 4.6: crashes in splits and merges",
            "one repair for each state",
            &[Kind::Crashes],
        ),
    ],
};
