//! The tests of the published designs on hardware, in one program.

mod f3_tree;
mod fast_fair;
mod hybrid_trees;
mod shared_numbers;
mod unknown;
