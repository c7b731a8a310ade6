//! Runs the real program, in one test program: its tests are processes of their own anyway.

mod attacks;
mod bench;
mod cluster;
mod common;
mod copies;
mod cut_short;
mod damage;
mod exit_codes;
mod following;
mod full_disk;
mod guide;
mod help;
mod import_sources;
mod importing;
mod intervals;
mod kill_server;
mod killed;
mod killed_with_log;
mod loading;
mod lost_pool;
mod pairs;
mod redis;
mod refusals;
mod round_trip;
mod scripted_sources;
mod serving;
mod standard_streams;
mod threads;
mod traced;
mod whole_files;

/// The program that is tested, and what it calls itself.
const PROGRAM: &str = env!("CARGO_BIN_EXE_everleaf");
const NAME: &str = "everleaf";
