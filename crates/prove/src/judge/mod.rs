//! What is demanded of a program beside what the machine judges: the answers of threads, and what a crash leaves.
//!
//! `expected` is a map that the answers of one thread are held against. `leaks` demands that nothing is in use when all
//! was given back, `emptied` that a full tree can be emptied and has room then.

pub(crate) mod emptied;
pub mod expected;
pub mod leaks;
