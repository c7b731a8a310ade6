//! Bugs that were found and must not come back: one file each, with its story.

#![allow(clippy::print_stdout, reason = "what was explored is the result")]

mod crash_left_a_frozen_leaf;
mod failed_allocation_leaked_blocks;
mod merge_left_a_frozen_leaf;
mod program_larger_than_its_pool;
mod scan_forgot_removals;
