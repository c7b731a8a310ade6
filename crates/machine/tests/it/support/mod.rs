//! The structures the simulator's own tests run.
#![allow(dead_code, reason = "each test file uses a part")]

pub mod list;
pub mod words;
