//! The C interface of Everleaf: what `include/everleaf.h` declares, generated from this crate.
//!
//! Each function runs in [`entry::entry`], which turns errors into codes, keeps their text for the
//! thread, and lets no panic out. What C code promises is a part of the types of the arguments
//! ([`argument`], [`handle`]): a slice whose bytes can be read, a pointer that came from this library.
//! Such a value is made by C code, or in Rust by an unsafe function, so that the functions themselves
//! are safe and all unsafe code is in these two modules and in [`memory`].

#![allow(non_camel_case_types, reason = "the types have the names they have in C")]

pub mod argument;
pub mod atomic;
pub mod batch;
pub mod code;
pub mod cursor;
pub mod entry;
pub mod expiry;
pub mod files;
pub mod handle;
pub mod many;
pub mod map;
pub mod memory;
pub mod options;
pub mod statistics;
pub mod store;
pub mod upkeep;
pub mod view;
pub mod watch;
mod way;
