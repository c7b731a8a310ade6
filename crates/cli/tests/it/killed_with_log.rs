//! A command on a pool with a log is killed before each of its system calls that changes something.
//! Whatever is lost then, the pool or nothing, all that was acknowledged is there, and what is salvaged of a damaged
//! log is the same as without the kill.
//!
//! The commands are traced (`ptrace`); where the system does not allow that, nothing is tested.

use crate::common::PoolFolder;
use crate::traced::{kill_before, syncs_before};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

const KEYS: usize = 12;
/// Of so many changes one is tried, and three more at landings; `EVERLEAF_KILL_EVERY=1` tries all.
const EVERY: usize = 20;

/// The changes to be killed before, from this one.
fn kills(from: usize) -> impl Iterator<Item = usize> {
    let every = std::env::var("EVERLEAF_KILL_EVERY").ok().and_then(|every| every.parse().ok());
    (from..).step_by(every.unwrap_or(EVERY).max(1))
}

/// A pool that is in the log with all of its keys.
fn with_log() -> PoolFolder {
    let place = PoolFolder::empty();
    place.run(["create", "pool", "--durability", "power", "--quiet"]).succeeded();
    let lines: String = (0..KEYS).map(|key| format!("{key:04}\tvalue {key}\n")).collect();
    // One by one: as many commits as keys.
    for line in lines.lines() {
        let (key, value) = line.split_once('\t').expect("a key and a value");
        place.run(["put", "pool", key, value, "--quiet"]).succeeded();
    }
    place
}

/// The number of keys, which must be the first ones with their values, but for `extra`.
fn prefix(place: &PoolFolder) -> usize {
    let checked = place.run(["check", "pool"]).succeeded();
    assert!(checked.starts_with("sound: "), "{checked}");
    let scanned = place.run(["scan", "pool"]).succeeded();
    let lines = scanned.lines().filter(|line| !line.starts_with("extra\t"));
    let lines: Vec<&str> = lines.collect();
    for (key, line) in lines.iter().enumerate() {
        assert_eq!(*line, format!("{key:04}\tvalue {key}"));
    }
    lines.len()
}

/// Removes the pool and has it rebuilt from the log.
fn rebuild(place: &PoolFolder) {
    std::fs::remove_file(place.path("pool")).expect("it was there");
    place.run(["put", "pool", "extra", "1", "--quiet"]).succeeded();
}

/// Kills a command before changes; then everything is in the pool, and in the log alone.
fn loses_nothing(arguments: &[&str], from: usize) {
    let first = with_log();
    for at in kills(from) {
        let place = first.copy();
        let Some(killed) = kill_before(&mut place.command(arguments), at) else { return };
        if !killed {
            assert!(at > 10, "{arguments:?} changes something");
            return;
        }
        if place.path("pool").exists() {
            let other = place.copy();
            rebuild(&other);
            assert_eq!(prefix(&other), KEYS, "{arguments:?} at {at}, the pool is lost");
        }
        place.run(["put", "pool", "extra", "1", "--quiet"]).succeeded();
        assert_eq!(prefix(&place), KEYS, "{arguments:?} at {at}");
        rebuild(&place);
        assert_eq!(prefix(&place), KEYS, "{arguments:?} at {at}, the pool is lost later");
    }
}

const SNAPSHOT: [&str; 2] = ["snapshot", "pool"];
const COMPACT: [&str; 2] = ["compact", "pool"];
const PUT: [&str; 4] = ["put", "pool", "extra", "0"];
const PUT_OR_SALVAGE: [&str; 5] = ["put", "pool", "extra", "0", "--salvage-log"];

#[test]
fn a_killed_snapshot_loses_nothing_of_pool_or_log() {
    loses_nothing(&SNAPSHOT, 0);
}

#[test]
fn a_killed_compaction_loses_nothing_of_pool_or_log() {
    loses_nothing(&COMPACT, 0);
}

#[test]
fn a_killed_put_loses_nothing_of_pool_or_log() {
    loses_nothing(&PUT, 0);
}

/// A log that is whole is not one that is being salvaged, whatever the command allows.
#[test]
fn a_killed_put_that_may_salvage_loses_nothing_of_pool_or_log() {
    loses_nothing(&PUT_OR_SALVAGE, 0);
}

#[test]
#[ignore = "guards a landing"]
fn landing_more_kills_lose_nothing_of_pool_or_log() {
    let commands = [&SNAPSHOT[..], &COMPACT, &PUT, &PUT_OR_SALVAGE];
    for from in [EVERY / 4, EVERY / 2, EVERY * 3 / 4] {
        commands.iter().for_each(|arguments| loses_nothing(arguments, from));
        ends_as_if_it_had_not_been_killed(from);
    }
}

/// A damaged log without its pool, of which a part can be salvaged.
fn damaged() -> PoolFolder {
    let place = with_log();
    std::fs::remove_file(place.path("pool")).expect("it was there");
    let files = std::fs::read_dir(place.path("pool.log")).expect("readable");
    let files = files.map(|file| file.expect("readable").path());
    let is_segment = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log-"))
    };
    let wanted = format!("value {}", KEYS / 2);
    for segment in files.filter(is_segment) {
        let mut bytes = std::fs::read(&segment).expect("readable");
        let at = bytes.windows(wanted.len()).position(|window| window == wanted.as_bytes());
        if let Some(at) = at {
            bytes[at] ^= 1;
            std::fs::write(&segment, bytes).expect("writable");
            return place;
        }
    }
    panic!("it is in the log");
}

const SALVAGE: [&str; 5] = ["put", "pool", "extra", "1", "--salvage-log"];

#[test]
fn a_killed_salvage_ends_as_if_it_had_not_been_killed() {
    ends_as_if_it_had_not_been_killed(0);
}

fn ends_as_if_it_had_not_been_killed(from: usize) {
    let first = damaged();
    let refused = first.run(["put", "pool", "extra", "1"]);
    assert_ne!(refused.code, 0);
    assert!(refused.err.contains("--salvage-log"), "{}", refused.err);
    let whole = first.copy();
    let ended = whole.run(SALVAGE);
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(ended.err.contains("what was logged behind it is lost: "), "{}", ended.err);
    let left = prefix(&whole);
    assert!((1..KEYS).contains(&left), "{left} of {KEYS}");

    for at in kills(from) {
        let place = first.copy();
        let Some(killed) = kill_before(&mut place.command(SALVAGE), at) else { return };
        if !killed {
            assert!(at > 10, "it changes something");
            return;
        }
        // A user who does not ask for it is refused, or has what is left.
        let unasked = place.copy();
        if unasked.run(["put", "pool", "extra", "1", "--quiet"]).code == 0 {
            assert_eq!(prefix(&unasked), left, "at {at}");
        }
        assert_eq!(place.run(SALVAGE).code, 0, "at {at}");
        assert_eq!(prefix(&place), left, "at {at}");
        rebuild(&place);
        assert_eq!(prefix(&place), left, "at {at}, the pool is lost later");
    }
}

/// What was lost: what a killed server had acknowledged with `power` and the kernel had not written to the disk yet, if
/// the next one had no log and the power failed.
#[test]
fn a_log_is_removed_only_when_the_disk_has_all_of_the_pool() {
    let place = with_log();
    // Not closed: the next opening finds nothing to be noted in the pool, which would bring it to the disk.
    let mut command = place.command(["serve", "pool", "--port", "0"]);
    let mut server = command.stderr(Stdio::piped()).spawn().expect("it runs");
    let mut lines = BufReader::new(server.stderr.take().expect("it is piped")).lines();
    assert!(lines.any(|line| line.expect("text").contains("ready on ")), "it serves");
    server.kill().expect("it is ours");
    server.wait().expect("it is ours");
    let identity = place.path("pool.log/identity");
    assert!(identity.exists());
    let file = place.path("pool").canonicalize().expect("it is there");
    let mut next = place.command(["serve", "pool", "--port", "0", "--durability", "process"]);
    let Some(synced) = syncs_before(&mut next, &file, || !identity.exists()) else { return };
    assert!(synced, "the log has what the disk does not");
    assert_eq!(prefix(&place), KEYS);
}
