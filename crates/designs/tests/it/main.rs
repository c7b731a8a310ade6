//! The tests of the published designs on hardware, in one program.

mod allocators;
mod at_once;
mod buffered_trees;
mod bw_tree;
mod bztree;
mod cceh;
mod checkpoints;
mod common;
mod damaged_logs;
mod every_tree;
mod f3_tree;
mod fast_fair;
mod full_pools;
mod masstree;
mod nbtree_blocks;
mod pactree;
mod shared_numbers;
mod skiplist;
mod unknown;
