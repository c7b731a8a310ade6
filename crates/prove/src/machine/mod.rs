//! The simulated machine that a program runs on: which one, and how much memory and space it has.
//!
//! `configure` says which machine a number stands for, `dimensions` what that of a random step is drawn of. `backing`
//! makes pools on its memory, `space` says how much of it there is, and `hoard` holds nearly all of a pool back.

pub mod backing;
pub mod configure;
pub mod dimensions;
pub(crate) mod hoard;
pub mod space;
