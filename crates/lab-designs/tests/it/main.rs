//! The tests of all designs by name, in one program.

mod count;
mod leaf;
mod load;
mod openings;
mod threads;
