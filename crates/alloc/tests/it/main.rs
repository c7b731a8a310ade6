//! The tests of the allocator on hardware, in one program.

mod emptied;
mod largest;
mod late;
mod reopen;
mod returned_space;
