//! The commands: one function each, found through one table.
//!
//! Files here use each other one way: what is known of commands (`facts`), what they read and write (`keys.rs`,
//! `stage.rs`), what they are given (`context.rs`), the commands, the table of their functions (`table.rs`), and what
//! runs one of these (`dispatch.rs`, `series.rs`). This file only names them. Below the table nothing knows it: `EXEC`
//! is told where functions are.

mod acl;
mod admin;
mod at_once;
mod bits;
mod certificates;
mod client;
mod client_line;
mod configuration;
mod connection;
pub mod context;
pub mod copy_budget;
pub mod counter;
mod debug;
mod description;
pub mod dispatch;
mod draws;
pub mod dump;
pub mod error_reply;
pub mod expiry;
pub mod facts;
mod hash;
mod info;
pub mod integer;
pub mod key_positions;
pub mod keys;
pub mod keyspace;
mod latency;
mod lcs;
mod limits;
mod list;
mod members;
pub mod mset_series;
mod object;
pub mod permission;
pub mod queue;
mod random_key;
mod range;
pub mod rename;
mod save;
mod scan;
mod scan_members;
pub mod series;
mod set;
mod sets;
mod slow_log;
mod sort;
pub mod source;
pub mod stage;
mod staged_members;
mod staged_value;
mod string;
mod table;
pub mod timing;
pub mod transaction;
mod undo;
pub mod waiting;
pub mod walk;
pub mod watched;
mod zset;
