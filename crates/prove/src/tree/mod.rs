//! A tree as a program.
//!
//! ```text
//!   Subject (subject): Of (design), Nb (nbtree)  --> AnyTree (living) --> U64Program
//!   trees of byte strings                        --> AnyWords         --> BytesProgram
//! ```
//!
//! `operation` has what the threads of both do. To prove another tree of numbers, implement `Subject`, or have a
//! design of the catalogue, and add one line to the list in `structures.rs`.

pub mod bytes_program;
pub(crate) mod design;
pub mod living;
pub(crate) mod nbtree;
pub mod operation;
pub mod subject;
pub mod u64_program;
