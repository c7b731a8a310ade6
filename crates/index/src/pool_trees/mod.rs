//! The trees of a pool: which there are, how each is opened, loaded, emptied and removed.

pub mod emptying;
pub mod many;
pub mod nodes;
pub mod pool_base;
pub mod registry;
pub mod restoring;
pub mod root_object;
pub mod single_tree_pool;
pub mod tree_cell;
pub mod trees;
