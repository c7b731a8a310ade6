//! A load that is killed in the middle.

use crate::common::PoolFolder;
use std::io::Write;
use std::process::Stdio;

const COUNT: usize = 150_000;

fn value_of(key: usize) -> String {
    format!("value {key} {}", "v".repeat(key % 90))
}

#[test]
fn a_killed_load_leaves_a_sound_pool_with_what_it_had_put() {
    let place = PoolFolder::with_pool();
    let mut command = place.command(["load", "pool", "-", "--threads", "2"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = String::new();
    for key in 0..COUNT {
        lines.push_str(&format!("{key:08}\t{}\n", value_of(key)));
    }
    // Returns when the loader has read all but what the pipe holds. The input is not closed: the
    // loader waits for more and cannot have ended.
    stdin.write_all(lines.as_bytes()).unwrap();
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
    drop(stdin);

    assert!(place.run(["check", "pool"]).succeeded().starts_with("sound: "));
    let scanned = place.run(["scan", "pool"]).succeeded();
    for line in scanned.lines() {
        let (key, value) = line.split_once('\t').unwrap();
        assert_eq!(value, value_of(key.parse().unwrap()));
    }
    // What may still have been on its way: some batches for each of two writers.
    assert!(scanned.lines().count() > COUNT / 2, "{}", scanned.lines().count());
    place.run_with(["load", "pool", "-"], lines.as_bytes()).succeeded();
    assert_eq!(place.run(["scan", "pool", "--count"]).succeeded(), format!("{COUNT}\n"));
}
