//! The tests of what is proven of the published designs, in one program: the trees on the simulated machine are
//! compiled once.

mod blocks;
mod bztree;
mod checkpoint_counts;
#[path = "../../../prove/tests/it/common/mod.rs"]
mod common;
mod f3_counts;
mod fast_fair;
mod fast_fair_counts;
mod hybrid;
mod hybrid_counts;
mod marks;
mod mutants;
mod published;
mod rare_branches;
mod regressions;
mod skiplist_counts;
mod structures;
mod unlocked;
