//! All designs of the catalogue, each known by its name only: counted on the simulated machine,
//! measured by the bench, opened again after a crash, kept in a pool of the store.
//!
//! This is the one crate in which every design is compiled for the laboratory; what experiments do
//! with the figures is in `everleaf-lab`.

#![forbid(unsafe_code)]

pub mod count;
mod design;
pub mod evaluated;
mod named;
pub mod openings;
mod pool;
pub mod resumption;

pub use count::blocks::OnAllocator;
pub use design::{design, designs};
pub use everleaf_index::{IndexError, Intent, Scans, Writes};
pub use named::{IndexOpening, NamedIndex};
pub use pool::{add_index, check_pool};
