//! NBTree: Bowen Zhang and others, "Revisiting PM-Based B+-Tree With Persistent CPU Cache", IEEE
//! Transactions on Parallel and Distributed Systems, 2024.

mod allocators;
mod counts;
mod latency;
mod many;
mod redis;
mod rivals;
mod skewed;
mod space;

use super::{Entry, Family, Kind, cores, proof};

use rivals::PAPERS_TREE;
pub(super) use space::memory;

pub(super) const FAMILY: Family = Family {
    name: "nbtree",
    source: "Zhang, Zheng, Nie, Qi, Chen, Huang, Mei: Revisiting PM-Based B+-Tree With Persistent \
             CPU Cache, IEEE TPDS 2024",
    setting: "two Xeon 6348 with 28 cores, 4 TB of persistent memory with eADR; 16 M keys of 8 + 8 \
              bytes, nodes of 1 KB",
    entries: &[
        Entry {
            id: "nbtree.steps",
            what: "Figures 1 to 3: layout, steps of an insert, allocator",
            claim: "a crash after any step loses nothing",
            kinds: &[Kind::Crashes],
            seconds: proof::SECONDS_OF_TWO,
            needs: &[],
            make: |context| proof::search(context, &[PAPERS_TREE, "nbtree"]),
        },
        Entry {
            id: "nbtree.table1",
            what: "Table I: flushes, lines written and read of single operations on a leaf",
            claim: "one of each for NBTree; 2 to 15 for the others",
            kinds: &[Kind::Counts],
            seconds: (12, 120),
            needs: &[PAPERS_TREE, "nbtree", "fast-fair", "rntree", "fptree", "wbtree", "nvtree"],
            make: counts::table1,
        },
        Entry {
            id: "nbtree.smo",
            what: "Tables II and III, Figures 4 and 5: every operation against every phase of a split",
            claim: "no update is lost, nothing stale is read",
            kinds: &[Kind::Crashes],
            seconds: proof::SECONDS_OF_TWO,
            needs: &[],
            make: |context| {
                proof::search(context, &[proof::PAPERS_PROTOCOL_WITH_THREADS, "nbtree"])
            },
        },
        Entry {
            id: "nbtree.table4",
            what: "Table IV: memory by component, by the number of keys",
            claim: "22.3 bytes a key in the pool, 2.26 of leaf metadata and 0.55 of inner nodes in \
                    DRAM: one to eight",
            kinds: &[Kind::Space],
            seconds: (3, 120),
            needs: &[PAPERS_TREE, "nbtree"],
            make: space::table4,
        },
        Entry {
            id: "nbtree.fig6",
            what: "Figure 6: mean latency of the four operations on one thread",
            claim: "NBTree has the lowest of all in each",
            kinds: &[Kind::Counts, Kind::Latency],
            seconds: (28, 2700),
            needs: &[PAPERS_TREE, "nbtree", "fast-fair", "rntree", "fptree"],
            make: latency::run,
        },
        Entry {
            id: "nbtree.fig7",
            what: "Figure 7: throughput of the four operations, uniform, 1 to 56 threads",
            claim: "1.6 to 7.5 times the others' inserts, 1.5 to 5.0 updates, 2.0 to 4.9 deletes, 1.6 \
                    to 5.1 searches",
            kinds: &[Kind::ManyCores],
            seconds: (12, 1350),
            needs: &["utree", "bztree"],
            make: |context| cores::run(context, &many::FIGURE_7),
        },
        Entry {
            id: "nbtree.fig8",
            what: "Figure 8: bytes in DRAM and in the pool of all trees",
            claim: "more DRAM than the others but one, for the metadata of its leaves",
            kinds: &[Kind::Space],
            seconds: (4, 300),
            needs: &[PAPERS_TREE, "nbtree", "fast-fair", "rntree", "fptree"],
            make: space::all,
        },
        Entry {
            id: "nbtree.recovery",
            what: "section VI.C: recovery of 16 M keys on one thread",
            claim: "0.32 s; 0.16 s for FPTree, 0.34 s for RNTree, 7.25 s for uTree",
            kinds: &[Kind::Recovery, Kind::Counts],
            seconds: (18, 400),
            needs: &["nbtree", "fptree", "rntree", "utree"],
            make: space::recovery,
        },
        Entry {
            id: "nbtree.fig9",
            what: "Figure 9: reads and writes half and half, zipfian .99, 1 to 56 threads",
            claim: "6.0 times the throughput of the others, a 32nd of their 99th percentile",
            kinds: &[Kind::ManyCores],
            seconds: (8, 900),
            needs: &["utree", "bztree"],
            make: |context| cores::run(context, &many::FIGURE_9),
        },
        Entry {
            id: "nbtree.fig10",
            what: "Figure 10: conflicts on hot leaves",
            claim: "fewer in uTree than in FAST & FAIR than in FPTree and RNTree",
            kinds: &[Kind::Counts, Kind::ManyCores],
            seconds: (16, 600),
            needs: &["utree", "fast-fair", "fptree", "rntree"],
            make: skewed::conflicts,
        },
        Entry {
            id: "nbtree.fig11",
            what: "Figure 11: skew 0 to .99, and writes 0 to 100 %",
            claim: "the others fall beyond .8; 11 times their throughput with writes only",
            kinds: &[Kind::ManyCores],
            seconds: (4, 1800),
            needs: &["utree", "bztree"],
            make: |context| cores::run(context, &many::FIGURE_11),
        },
        Entry {
            id: "nbtree.fig12",
            what: "Figure 12: larger keys and values against BzTree",
            claim: "the gap gets smaller",
            kinds: &[Kind::Counts],
            seconds: (3, 200),
            needs: &[PAPERS_TREE, "nbtree", "bztree"],
            make: counts::large,
        },
        Entry {
            id: "nbtree.fig13",
            what: "Figure 13: leaf metadata in DRAM or in the pool: lines of the pool an operation",
            claim: "2.4 times the inserts with metadata in DRAM, up to 29 % more of the rest",
            kinds: &[Kind::Counts],
            seconds: (3, 60),
            needs: &["nbtree-published", "nbtree-coupled"],
            make: counts::decoupled,
        },
        Entry {
            id: "nbtree.fig14",
            what: "Figure 14: without lock-free writes, and without lock-free reads too",
            claim: "5.5 times the throughput of locked writes; these 1.8 times that of locked reads",
            kinds: &[Kind::ManyCores],
            seconds: (6, 500),
            needs: &[],
            make: |context| cores::run(context, &many::FIGURE_14),
        },
        Entry {
            id: "nbtree.fig15",
            what: "Figure 15: Calloc and the allocators it is compared with: inserts; inserts and removals",
            claim: "up to 6.5 times the inserts; a quarter of the structural changes after removals",
            kinds: &[Kind::Counts, Kind::Latency],
            seconds: (9, 600),
            needs: &[PAPERS_TREE],
            make: allocators::run,
        },
        Entry {
            id: "nbtree.fig17",
            what: "Figure 17: cost of the leaf with and without persistent caches, one thread",
            claim: "every tree is cheaper with them; NBTree is the cheapest without",
            kinds: &[Kind::Counts, Kind::Latency],
            seconds: (25, 800),
            needs: &[PAPERS_TREE, "nbtree", "fast-fair", "rntree", "fptree"],
            make: counts::domains,
        },
        Entry {
            id: "nbtree.fig18",
            what: "Figure 18: the same with half reads, half writes, zipfian .99, 56 threads",
            claim: "NBTree gains most; RNTree, FPTree and BzTree gain nothing",
            kinds: &[Kind::Counts, Kind::ManyCores],
            seconds: (30, 1400),
            needs: &[PAPERS_TREE, "fast-fair", "rntree", "fptree"],
            make: skewed::domains,
        },
        Entry {
            id: "nbtree.fig19",
            what: "Figure 19: against Masstree and Bw-tree in DRAM",
            claim: "up to 7.6 times with skew and 24.2 times with writes only",
            kinds: &[Kind::ManyCores],
            seconds: (5, 600),
            needs: &["masstree", "bw-tree"],
            make: |context| cores::run(context, &many::FIGURE_19),
        },
        Entry {
            id: "nbtree.redis",
            what: "section VI.I: the trees behind a server of the protocol of Redis",
            claim: "1.13 to 1.53 times the throughput of the others",
            kinds: &[Kind::ManyCores],
            seconds: (9, 300),
            needs: &["nbtree", "fast-fair", "rntree", "fptree", "utree", "bztree"],
            make: redis::run,
        },
    ],
};
