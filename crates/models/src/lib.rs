//! Small models of protocols, in which every schedule and every crash is tried.
//!
//! A model comes before the code: it says which steps a protocol needs, and which only look as if
//! they were needed. It has no shared memory, no threads and no pool, only states. What runs is then
//! searched on the simulated machine, which has all of that but cannot try everything.

#![forbid(unsafe_code)]

pub mod hashed_leaf;
pub mod pmwcas;
