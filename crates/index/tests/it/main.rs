//! The tests of the flagship on hardware, in one program: its generic code is compiled once.

mod common;
mod damage_at_opening;
mod differential;
mod hashed_leaf;
mod hashed_leaf_bytes;
mod hostile_crash;
mod hostile_space;
mod loads;
mod moving_clock;
mod opened_at_once;
mod orders_of_arrival;
mod refused_growth;
mod single_tree_pool;
mod strings_at_once;
mod thin_leaves;
