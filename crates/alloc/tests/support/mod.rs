//! What the tests of the allocator on the simulated machine share.

pub mod backing;
pub mod shelf;
