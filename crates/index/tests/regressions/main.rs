//! Bugs that were found and must not come back: one file each, with its story.

#[path = "../prover/mod.rs"]
mod prover;

mod failed_allocation_leaked_blocks;
mod scan_forgot_removals;
