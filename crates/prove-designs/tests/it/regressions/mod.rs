//! What published protocols lose, and must not be lost where a safeguard stands against it.

#![allow(clippy::print_stdout, reason = "what was explored is the result")]

mod published_nbtree;
mod published_trees;
