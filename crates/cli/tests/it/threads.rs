//! Commands for which no thread, or too few, can be started: no address is left for their stacks.
//!
//! What was lost: an opening that rebuilds a pool ended by a panic.

use crate::common::{Ended, PoolFolder};
use std::process::{Command, Stdio};

/// Addresses that the stack of a thread needs here, in KiB: more than all else together.
const STACK_KIB: u64 = 4 << 20;

/// A command for which so many threads can be started.
fn with_threads(place: &PoolFolder, threads: u64, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    let addresses = threads * STACK_KIB + STACK_KIB / 2;
    let first = format!("ulimit -v {addresses}; exec \"$0\" \"$@\"");
    command.args(["-c", &first, crate::PROGRAM]).args(arguments);
    command.env("RUST_MIN_STACK", (STACK_KIB << 10).to_string());
    command.current_dir(place.path(".")).stdin(Stdio::null()).env_remove("EVERLEAF_POOL");
    command
}

fn run_with(place: &PoolFolder, threads: u64, arguments: &[&str]) -> Ended {
    with_threads(place, threads, arguments).output().expect("there is a shell").into()
}

/// A pool of few addresses, with a key in it.
fn place(durability: &str) -> PoolFolder {
    let place = PoolFolder::empty();
    let create = ["create", "pool", "--max-size", "64M", "--durability", durability, "--quiet"];
    place.run(create).succeeded();
    place.run(["put", "pool", "key", "value", "--quiet"]).succeeded();
    place
}

/// It goes on with fewer threads, and without any changes nothing.
#[test]
fn a_pool_is_rebuilt_with_the_threads_that_can_be_started() {
    let first = place("power");
    std::fs::remove_file(first.path("pool")).expect("it is there");
    for threads in 0..6 {
        let place = first.copy();
        let ended = run_with(&place, threads, &["put", "pool", "other", "value", "--quiet"]);
        let what = format!("{threads}: {}", ended.err);
        assert!(!ended.err.contains("panicked"), "{what}");
        assert!(ended.code == 0 || ended.code == 7 && ended.err.contains("cannot start"), "{what}");
        assert_eq!(threads == 0, ended.err.contains("replays the log"), "{what}");
        place.run(["put", "pool", "third", "value", "--quiet"]).succeeded();
        assert_eq!(place.run(["get", "pool", "key"]).succeeded(), "value");
    }
}
