//! `everleaf-lab prove`: clean structures, planted bugs, failure files, and wrong arguments.

use crate::common::PoolFolder;
use serde_json::Value;

/// Finds a planted bug and writes the failure to `failure.json`.
fn with_failure(mutant: &str) -> PoolFolder {
    let place = PoolFolder::empty();
    let arguments = ["prove", "--mutant", mutant, "--budget", "60s", "--out", "failure.json"];
    let ended = place.run(arguments);
    assert_eq!(ended.code, 8, "{}", ended.err);
    assert!(ended.text().contains("everleaf-lab prove --replay failure.json"), "{}", ended.text());
    place
}

#[test]
fn what_is_right_is_clean_and_says_how_much_was_searched() {
    let place = PoolFolder::empty();
    let out = place.run(["prove", "epoch", "--budget", "1s"]).succeeded();
    assert!(out.starts_with("epoch ") && out.contains("schedules"), "{out}");
    let found = place.run(["prove", "pool", "--budget", "1s", "--json", "--random-only"]).json();
    assert_eq!(found["clean"], Value::Bool(true));
    let pool = &found["structures"][0];
    assert_eq!(pool["structure"], "pool");
    for count in ["schedules", "crash_states", "schedules_per_second", "programs"] {
        assert!(pool[count].as_f64().is_some_and(|count| count > 0.0), "{count}: {pool}");
    }
}

#[test]
fn domain_and_memory_model_are_held_to() {
    let place = PoolFolder::empty();
    for domain in ["adr", "eadr", "process"] {
        for memory in ["sc", "tso"] {
            let arguments = ["--domain", domain, "--memory", memory, "--budget", "0s"];
            place.run(["prove", "nbtree"].iter().chain(&arguments)).succeeded();
        }
    }
}

#[test]
fn a_planted_bug_is_found_and_its_file_replays_exactly() {
    let place = with_failure("nbtree.no_insert_flush");
    let record: Value = serde_json::from_slice(&place.read("failure.json")).expect("JSON");
    let first = place.run(["prove", "--replay", "failure.json"]);
    let second = place.run(["prove", "--replay", "failure.json"]);
    assert_eq!((first.code, second.code), (8, 8));
    assert_eq!(first.text(), second.text());
    let text = first.text();
    assert!(text.contains("CALL") && text.contains("plan:"), "{text}");
    let message = record["message"].as_str().expect("a message");
    assert!(text.contains(message), "{message}\n{text}");
    assert!(first.err.contains("nbtree is wrong"), "{}", first.err);
}

#[test]
fn a_replay_can_be_read_by_programs() {
    let place = with_failure("pool.no_replace_persist");
    let ended = place.run(["prove", "--replay", "failure.json", "--json"]);
    assert_eq!(ended.code, 8);
    let found: Value = serde_json::from_slice(&ended.out).expect("JSON");
    assert_eq!(found["structure"], "pool");
    assert!(found["trace"].as_array().is_some_and(|trace| trace.len() > 5), "{found}");
}

#[test]
fn the_same_seed_finds_the_same() {
    let run = || {
        let place = PoolFolder::empty();
        let mutant = ["--mutant", "epoch.no_grace", "--out", "f", "--no-shrink", "--seed", "5"];
        let ended = place.run(["prove", "epoch", "--random-only"].iter().chain(&mutant));
        assert_eq!(ended.code, 8, "{}", ended.err);
        place.read("f")
    };
    assert_eq!(run(), run());
}

#[test]
fn a_failure_that_does_not_happen_any_more_says_so() {
    let place = with_failure("nbtree.no_insert_flush");
    let text = String::from_utf8(place.read("failure.json")).expect("text");
    let mended = text.replacen("\"nbtree.no_insert_flush\"", "", 1);
    assert_ne!(mended, text);
    place.write("mended.json", mended);
    let sentence = place.run(["prove", "--replay", "mended.json"]).failed(3);
    assert!(sentence.contains("does not happen in this version"), "{sentence}");
}

#[test]
fn bad_and_foreign_files_are_refused_with_a_sentence() {
    let place = with_failure("nbtree.no_insert_flush");
    let whole = String::from_utf8(place.read("failure.json")).expect("text");
    let changed = |from: &str, to: &str| {
        let text = whole.replacen(from, to, 1);
        assert_ne!(text, whole, "{from}");
        text
    };
    for (name, content, part) in [
        ("empty", String::new(), "not JSON"),
        ("other", "{\"format\": \"x\"}".to_owned(), "its format is 'x'"),
        ("cut", whole[..whole.len() / 2].to_owned(), "not JSON"),
        ("structure", changed("\"nbtree\"", "\"btree\""), "no structure 'btree'"),
        ("domain", changed("\"domain\": \"adr\"", "\"domain\": \"lime\""), "'domain'"),
        ("mutant", changed("\"nbtree.no_insert_flush\"", "\"nbtree.no_bug\""), "no planted bug"),
    ] {
        place.write(name, content);
        let sentence = place.run(["prove", "--replay", name]).failed(3);
        assert!(sentence.contains(part), "{name}: {sentence}");
    }
    place.write("bytes", [0xFF, 0xFE, 0]);
    let sentence = place.run(["prove", "--replay", "bytes"]).failed(3);
    assert!(sentence.contains("not text"), "{sentence}");
    let sentence = place.run(["prove", "--replay", "missing"]).failed(7);
    assert!(sentence.contains("cannot read missing"), "{sentence}");
}

#[test]
fn wrong_arguments_are_refused_with_advice() {
    let place = PoolFolder::empty();
    for (arguments, part) in [
        (&["prove", "btree"][..], "nbtree-bytes"),
        (&["prove", "--mutant", "nbtree.none"], "--list"),
        (&["prove", "--budget", "1d"], "such as 30s"),
        (&["prove", "--domain", "pmem"], "eadr"),
        (&["prove", "nbtree", "--replay", "x"], "--replay"),
    ] {
        let sentence = place.run(arguments).failed(2);
        assert!(sentence.contains(part), "{arguments:?}: {sentence}");
    }
}

#[test]
fn the_list_has_structures_and_planted_bugs() {
    let place = PoolFolder::empty();
    let text = place.run(["prove", "--list"]).succeeded();
    for name in ["nbtree-bytes", "alloc", "epoch", "pool", "nbtree.no_pending", "nbtree.no_carry"] {
        assert!(text.contains(&format!("  {name} ")), "{name}: {text}");
    }
    let list = place.run(["prove", "--list", "--json"]).json();
    assert!(list["mutants"].as_array().is_some_and(|mutants| mutants.len() >= 20));
}
