//! The C interface of the laboratory: what `include/everleaf_lab.h` declares, generated from this crate.
//!
//! It adds to the interface of the store (`everleaf-capi`, whose rules hold) the integer trees of all
//! designs by name, so that programs in C, and benchmarks of others, can use each of them.

#![allow(non_camel_case_types, reason = "the types have the names they have in C")]

pub mod index;

/// The functions of the store are in this library, too.
pub use everleaf_capi as store;
