//! The tests of the allocator on hardware, in one program.

mod largest;
mod reopen;
mod returned_space;
