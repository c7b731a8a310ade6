//! The published designs in the prover: the structures of `everleaf-prove`, and beside them those of
//! `everleaf-designs`. Programs and searches are all in `everleaf-prove`, but for those of what only designs have: the
//! allocators that NBTree's paper compares, the radix tree that leads to leaves, and the F3-tree's evaluators.
//!
//! A crate of its own, because every design is compiled here in many sizes, which takes minutes: a developer who works
//! on the product builds `everleaf-prove` alone.

pub mod art_program;
pub mod block_program;
pub mod f3_program;
pub mod structures;
