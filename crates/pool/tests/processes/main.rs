//! The tests of the pool that start processes: those that kill them, take locks from them, limit them.

#[path = "../it/common/mod.rs"]
mod common;
mod file_systems;
mod fork;
mod growth;
mod kill;
mod lock;
