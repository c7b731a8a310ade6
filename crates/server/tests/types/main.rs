//! Hashes, sets, sorted sets and lists, as clients see them.

#![allow(clippy::unwrap_used, clippy::too_many_lines, reason = "tests may fail, and have tables")]

mod attacks;
mod check;
mod collections;
mod databases;
mod rolled_back;
mod series;
mod sorted_sets;
#[path = "../support/mod.rs"]
mod support;
mod swapping;
mod waiting;

/// Not a test of its own: see [`support::ServerProcess`].
#[test]
fn server_process() {
    support::ServerProcess::play();
}
