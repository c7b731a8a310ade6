//! The tests of the bench, in one program.

mod presets;
mod redis;
mod workloads;
