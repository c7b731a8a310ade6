//! The tests of what is proven of the product, in one program: the trees on the simulated machine are
//! compiled once. (What loom explores is another: `weak_memory`. Those of the published designs are in
//! `everleaf-prove-designs`, with the same `common`.)

mod ablation;
mod allocator;
mod at_once;
mod batches;
mod common;
mod counts;
mod creation;
mod expiries;
mod hashed_leaf_counts;
mod making;
mod maps;
mod marks;
mod mutants;
mod parts;
mod pool;
mod rare_branches;
mod recorder;
mod regressions;
mod restoring;
mod seal;
mod store;
mod stress;
mod structures;
mod trees;
