//! Commands for which no thread, or too few, can be started: no address is left for their stacks.
//!
//! What was lost: `load`, `serve` and an opening that rebuilds a pool ended by a panic, and a server said that it is
//! ready before it had its threads.

use crate::common::{Ended, PoolFolder};
use std::io::{BufRead, BufReader};
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

/// Runs a server until it says that it is ready, if it does, and ends it then.
fn serve_with(place: &PoolFolder, threads: u64) -> (Ended, bool) {
    let serve =
        ["serve", "pool", "--port", "0", "--unixsocket", "socket", "--threads", "3", "--json"];
    let metrics = ["--metrics", "127.0.0.1:0"];
    let mut command = with_threads(place, threads, &[&serve[..], &metrics].concat());
    let mut server =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("there is a shell");
    let mut line = String::new();
    let said = BufReader::new(server.stdout.take().expect("it is piped")).read_line(&mut line);
    let is_ready = said.expect("it can be read") > 0;
    if is_ready {
        assert!(line.contains("\"ready\""), "{line}");
        // SAFETY: a signal to a child that was not waited for.
        unsafe { libc::kill(server.id() as i32, libc::SIGTERM) };
    }
    (server.wait_with_output().expect("it ends").into(), is_ready)
}

/// A server has threads for the store, signals, collections, metrics and three event loops.
#[test]
fn a_server_without_its_threads_says_so_and_was_never_ready() {
    for durability in ["process", "interval", "power"] {
        let place = place(durability);
        let mut refused = 0;
        for threads in 0..10 {
            let (ended, is_ready) = serve_with(&place, threads);
            let what = format!("{durability}, {threads}: {}", ended.err);
            assert!(!ended.err.contains("panicked"), "{what}");
            assert_eq!(ended.code, if is_ready { 0 } else { 7 }, "{what}");
            let is_told = ended.err.contains("cannot start")
                && ended.err.contains("raise the limit on threads");
            assert_ne!(is_told, is_ready, "{what}");
            assert!(!place.path("socket").exists(), "{what}");
            refused += u32::from(!is_ready);
        }
        assert!((7..10).contains(&refused), "{durability}: {refused} of 10");
        assert_eq!(place.run(["stat", "pool", "--json"]).json()["was_clean"], true);
    }
}

/// It goes on with those that there are.
#[test]
fn a_load_without_threads_says_so() {
    for durability in ["process", "interval", "power"] {
        let place = place(durability);
        place.write("pairs.tsv", "a\t1\n");
        let said = run_with(&place, 0, &["put", "pool", "key", "other"]).failed(7);
        assert!(
            said.contains("cannot start the ") && said.contains("raise the limit on threads"),
            "{said}"
        );
        let mut refused = 0;
        for threads in 0..6 {
            let load = ["load", "pool", "pairs.tsv", "--threads", "4", "--quiet"];
            let ended = run_with(&place, threads, &load);
            let what = format!("{durability}, {threads}: {}", ended.err);
            assert!(!ended.err.contains("panicked"), "{what}");
            assert!(matches!(ended.code, 0 | 7), "{}: {what}", ended.code);
            assert_eq!(ended.code == 7, ended.err.contains("raise the limit on threads"), "{what}");
            refused += u32::from(ended.code == 7);
        }
        // None for the store, or none for the load; four are not needed.
        assert!((2..4).contains(&refused), "{durability}: {refused} of 6");
        assert_eq!(place.run(["get", "pool", "key"]).succeeded(), "value");
        assert_eq!(place.run(["get", "pool", "a"]).succeeded(), "1");
    }
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

/// A pool that was just made, and cannot be opened for want of threads, stayed, and with it its log: a user who tried
/// it again was told that it is there already.
#[test]
fn a_pool_whose_threads_cannot_be_started_is_not_made() {
    for durability in ["process", "interval", "power"] {
        let mut refused = 0;
        for threads in 0..4 {
            let place = PoolFolder::empty();
            let create =
                ["create", "pool", "--max-size", "64M", "--durability", durability, "--quiet"];
            let ended = run_with(&place, threads, &create);
            let what = format!("{durability}, {threads}: {}", ended.err);
            assert!(ended.code == 0 || ended.err.contains("cannot start"), "{what}");
            let is_there = ["pool", "pool.log"].map(|name| place.path(name).exists());
            let is_made = ended.code == 0;
            assert_eq!(is_there, [is_made, is_made && durability != "process"], "{what}");
            refused += u32::from(!is_made);
        }
        assert!((1..4).contains(&refused), "{durability}: {refused} of 4");
    }
}
