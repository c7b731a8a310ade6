//! The C interface: every function from Rust, and programs from the compilers that are here.

mod atomic;
mod compilers;
mod cursors;
mod data;
mod header;
mod hostile;
mod opaque;
mod processes;
mod refused;
mod stores;
mod support;
mod upkeep;
