//! The tests of the laboratory's C interface, in one program.

mod header;
mod indexes;
mod pibench;
