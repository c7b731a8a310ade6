//! Everleaf as a module of Redis and Valkey: a native data type, the ordered map, inside a key.
//!
//! Commands, limits and what a cluster does with the type: `docs/module.md`.
//!
//! | file | what it decides |
//! |---|---|
//! | `register` | what the server is told: commands, their keys, arity and documentation |
//! | `commands` | what each command does, answers, and tells replicas |
//! | `arguments` | what arguments mean |
//! | `call` | arguments, replies and keys, as safe types |
//! | `data_type` | saving, loading, copying, freeing |
//! | `format` | the saved form, its check sums and its refusals |
//! | `expiry` | removing entries whose time has come |
//! | `homes` | which maps have entries whose time will come, and where |
//! | `map` | the map: packed while small, in the tree from then on |
//! | `packed` | the packed form |
//! | `space` | the tree, its memory, and forks |
//! | `allocator` | the server's allocator, as Rust's |
//! | `memory` | the module's memory in the server's count |
//! | `server` | the server's functions |

mod allocator;
mod arguments;
mod call;
mod commands;
mod data_type;
mod entry;
mod expiry;
mod format;
mod homes;
mod map;
mod memory;
mod packed;
mod register;
mod server;
mod space;

#[cfg(test)]
mod tests;

/// Tests run without a server.
#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: allocator::ServerMemory = allocator::ServerMemory;
