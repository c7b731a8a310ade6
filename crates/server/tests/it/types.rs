//! Hashes, sets, sorted sets and lists, as clients see them.

#![allow(clippy::unwrap_used, clippy::too_many_lines, reason = "tests may fail, and have tables")]

mod attacks;
mod check;
mod collections;
mod damaged;
mod databases;
mod draws;
mod forged;
mod full;
mod gone;
mod indices;
mod lists;
mod looked_up;
mod rolled_back;
pub mod series;
mod singles;
mod sorted_sets;
mod swapping;
mod taken;
mod waiting;
