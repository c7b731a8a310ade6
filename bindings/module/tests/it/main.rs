//! The module in live servers: `cargo xtask module` runs these.
//!
//! The server is `redis-server`, where there is none `valkey-server`, or what `EVERLEAF_SERVER` says; the module is what `cargo build --release`
//! left beside the tests, or what `EVERLEAF_MODULE` says. Random tests print their seed, and take it from
//! `EVERLEAF_SEED`.

mod behaviour;
mod cluster;
mod damage;
mod differential;
mod expiry;
mod persistence;
mod replication;
mod server;
