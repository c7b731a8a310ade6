//! Runs the real program, in one test program: its tests are processes of their own anyway.

#[path = "../../../cli/tests/it/common/mod.rs"]
mod common;
mod designs;
mod help;
mod laboratory;
mod proving;

/// The program that is tested, and what it calls itself.
const PROGRAM: &str = env!("CARGO_BIN_EXE_everleaf-lab");
const NAME: &str = "everleaf-lab";
