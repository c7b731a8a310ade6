//! F3-tree: Safdar Jamil, Awais Khan, Bernd Burgstaller, Youngjae Kim, "Towards Scalable
//! Manycore-aware Persistent B+-Trees for Efficient Indexing in Cloud Environments".

use super::{Entry, Family, Kind, Method};

const MISSING: &str =
    "the experiment is not written; of the system only the key-based variant is built (f3-tree)";

/// An experiment that is still to be written.
const fn later(
    id: &'static str,
    what: &'static str,
    claim: &'static str,
    kinds: &'static [Kind],
) -> Entry {
    Entry { id, what, claim, kinds, seconds: (0, 0), needs: &[], method: Method::NotYet(MISSING) }
}

pub(super) const FAMILY: Family = Family {
    name: "f3",
    source: "Jamil, Khan, Burgstaller, Kim: Towards Scalable Manycore-aware Persistent B+-Trees for \
             Efficient Indexing in Cloud Environments",
    setting: "four Xeon E5-4640v2 with 40 cores, latency of persistent memory emulated; 1 M keys",
    entries: &[
        later(
            "f3.points",
            "Figures 1 to 3: contention, design, durability points",
            "durably linearizable",
            &[Kind::Crashes],
        ),
        later(
            "f3.fig4a",
            "Figure 4a: sequential inserts by threads and evaluators",
            "3.3 and 2.4 times FAST & FAIR",
            &[Kind::ManyCores],
        ),
        later(
            "f3.fig4b",
            "Figure 4b: random inserts",
            "FAST & FAIR saturates at 8 threads; 3.4 times on average",
            &[Kind::ManyCores],
        ),
        later(
            "f3.fig5",
            "Figure 5: limits to pending operations",
            "producers wait; 1000 are as good as no limit at 40 threads",
            &[Kind::ManyCores],
        ),
        later(
            "f3.fig6",
            "Figure 6: reads with a fifth of the keys pending",
            "worst without the hash table, as FAST & FAIR with it",
            &[Kind::Latency, Kind::Counts],
        ),
        later(
            "f3.fig7",
            "Figure 7: the mix of 4 inserts, 16 searches, 1 removal",
            "2.6 times",
            &[Kind::ManyCores],
        ),
    ],
};
