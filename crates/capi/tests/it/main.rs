//! The C interface: every function from Rust, and programs from the compilers that are here.

mod compilers;
mod cursors;
mod data;
mod header;
mod hostile;
mod processes;
mod stores;
mod support;
