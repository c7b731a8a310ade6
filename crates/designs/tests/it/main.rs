//! The tests of the published designs on hardware, in one program.

mod allocators;
mod bw_tree;
mod bztree;
mod cceh;
mod common;
mod damaged_logs;
mod f3_tree;
mod fast_fair;
mod hybrid_trees;
mod masstree;
mod pactree;
mod shared_numbers;
mod skiplist;
mod unknown;
mod utree;
mod wort;
