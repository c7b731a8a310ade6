//! The tests of the allocator on hardware, in one program.

mod emptied;
mod largest;
mod late;
mod lookups;
mod reopen;
mod returned_space;
