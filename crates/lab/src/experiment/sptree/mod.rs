//! SPTree: Xingsheng Zhao, Chen Zhong, Prajwal Challa, Song Jiang, "Developing Index Structures in
//! Persistent Memory Using Spot-on Optimizations with DRAM", ICPE 2024.

use super::{Entry, Family, Kind, Make, cores, proof};

mod built;
mod many;
mod media;
mod resumed;

/// An experiment that counts, on the variants of the tree.
const fn made(
    id: &'static str,
    what: &'static str,
    claim: &'static str,
    seconds: (u32, u32),
    make: Make,
) -> Entry {
    let kinds = &[Kind::Counts];
    let needs = &["sptree", "sptree-buffered", "sptree-plain", "sptree-unfiltered"];
    Entry { id, what, claim, kinds, seconds, needs, make }
}

pub(super) const FAMILY: Family = Family {
    name: "sptree",
    source: "Zhao, Zhong, Challa, Jiang: Developing Index Structures in Persistent Memory Using \
             Spot-on Optimizations with DRAM, ICPE 2024",
    setting: "Xeon 6230 with 20 cores, six modules of persistent memory; 121 M keys of 8 + 8 bytes",
    entries: &[
        Entry {
            id: "sptree.layout",
            what: "Figures 1, 5 and 6: structures",
            claim: "leaves of 64 pairs in 1208 bytes; a crash after any step loses nothing",
            kinds: &[Kind::Space, Kind::Crashes],
            seconds: (5, 310),
            needs: &["sptree", "sptree-buffered"],
            make: built::layout,
        },
        made(
            "sptree.fig2",
            "Figure 2: media bytes written by inserts with buffers and without",
            "70.6 to 16.6 GB for CCEH, 98.4 to 17.9 for FAST & FAIR, 53.4 to 28.6 for a skip list",
            (3, 60),
            media::buffers,
        ),
        made(
            "sptree.fig3",
            "Figure 3: buffers, new places and caching, one after the other, with a log and without; \
             the volumes of one thread, of the authors' programs played back",
            "volumes fall to a quarter",
            (7, 180),
            media::techniques,
        ),
        Entry {
            id: "sptree.fig3-speed",
            what: "Figure 3: the throughput of the same, on one thread and all cores",
            claim: "every technique helps: 1.5 to 2.0 times with all three and a log",
            kinds: &[Kind::ManyCores],
            seconds: (17, 1000),
            needs: many::HOSTS,
            make: many::techniques,
        },
        Entry {
            id: "sptree.fig4",
            what: "Figure 4: latencies of inserts and reads, 20 threads",
            claim: "nothing for CCEH, much for FAST & FAIR and the skip list",
            kinds: &[Kind::ManyCores],
            seconds: (15, 900),
            needs: many::HOSTS,
            make: |context| cores::run(context, &many::FIGURE_4),
        },
        Entry {
            id: "sptree.fig7",
            what: "Figure 7 a to d: throughput on 1 to 40 threads",
            claim: "inserts up to 2 times, reads of absent keys up to 4 times",
            kinds: &[Kind::ManyCores],
            seconds: (14, 900),
            needs: &["pactree"],
            make: |context| cores::run(context, &many::FIGURE_7),
        },
        made(
            "sptree.fig7-media",
            "Figure 7 e to h: media bytes of the same, one thread, of the authors' programs played back \
             and of ours as counted",
            "a third for inserts and reads, next to nothing for absent keys",
            (10, 400),
            media::trees,
        ),
        Entry {
            id: "sptree.fig7-bandwidth",
            what: "Figure 7 i to l: bandwidth of the medium, by bytes of an operation and the speed of one thread",
            claim: "the others use as much for less throughput, 20 threads",
            kinds: &[Kind::Counts, Kind::Latency],
            seconds: (7, 300),
            needs: &["sptree", "sptree-buffered", "fast-fair", "pactree"],
            make: media::bandwidth,
        },
        Entry {
            id: "sptree.fig8",
            what: "Figure 8: latencies of three workloads, 20 threads",
            claim: "the lowest of all",
            kinds: &[Kind::ManyCores],
            seconds: (10, 700),
            needs: &["pactree"],
            make: |context| cores::run(context, &many::FIGURE_8),
        },
        Entry {
            id: "sptree.fig9",
            what: "Figure 9: rebuilding, by what it reads and how long it takes",
            claim: "linear, 1 s for 250 M keys; a block of each leaf, by the authors' data",
            kinds: &[Kind::Counts, Kind::Recovery],
            seconds: (5, 130),
            needs: &["sptree"],
            make: built::rebuilding,
        },
        Entry {
            id: "sptree.fig10",
            what: "Figure 10 a: time to the first lookup and the first write by the size of the log, opened as a \
                   whole and at once",
            claim: "about nothing, where others grow with the log",
            kinds: &[Kind::Recovery],
            seconds: (3, 240),
            needs: &["sptree", "sptree-buffered", "sptree-checkpointed", "sptree-plain"],
            make: resumed::first_lookup,
        },
        Entry {
            id: "sptree.fig10b",
            what: "Figure 10 b: lookups served by the time since a restart, while the rest is restored, opened \
                   as a whole and at once",
            claim: "none before 1.4 s with a plain log of 1.8 GB; at once with the linked one",
            kinds: &[Kind::Recovery],
            seconds: (4, 200),
            needs: &["sptree-buffered", "sptree-checkpointed", "sptree-plain"],
            make: resumed::served_lookups,
        },
        made(
            "sptree.footprint",
            "section 5: DRAM, false positives of the filters",
            "12 to 33 % of the data; about 5 % false positives",
            (3, 40),
            built::footprint,
        ),
        Entry {
            id: "sptree.crash",
            what: "section 4.6: crashes in splits and merges",
            claim: "one repair for each state",
            kinds: &[Kind::Crashes],
            seconds: proof::SECONDS_OF_ONE,
            needs: &["sptree"],
            make: |context| proof::search(context, &["sptree"]),
        },
    ],
};
