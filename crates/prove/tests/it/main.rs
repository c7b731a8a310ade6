//! The tests of everything that is proven, in one program: the trees on the simulated machine are
//! compiled once. (What loom explores is another: `weak_memory`.)

mod ablation;
mod allocator;
mod at_once;
mod batches;
mod blocks;
mod common;
mod counts;
mod creation;
mod expiries;
mod f3_counts;
mod fast_fair;
mod fast_fair_counts;
mod hashed_leaf_counts;
mod hybrid;
mod hybrid_counts;
mod making;
mod maps;
mod marks;
mod mutants;
mod parts;
mod pool;
mod published;
mod rare_branches;
mod recorder;
mod regressions;
mod restoring;
mod seal;
mod skiplist_counts;
mod store;
mod stress;
mod structures;
mod trees;
mod unlocked;
