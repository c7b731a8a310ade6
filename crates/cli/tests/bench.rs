//! `everleaf bench`, small: what it prints and what it refuses. No times are asserted.

mod common;
use common::Place;

/// Arguments that keep a run short.
const SHORT: [&str; 6] = ["--keys", "3k", "--ops", "500", "--rounds", "1"];

fn bench(arguments: &[&str]) -> common::Ended {
    let place = Place::empty();
    let all: Vec<&str> = ["bench"].iter().chain(arguments).chain(&SHORT).copied().collect();
    place.run(all)
}

#[test]
fn the_table_has_a_line_for_each_workload_and_each_number_of_threads() {
    let text = bench(&["get", "a", "--threads", "1,2"]).succeeded();
    let lines = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!((lines("get "), lines("ycsb-a ")), (2, 2), "{text}");
    assert!(text.contains("3,000 keys of 8 B") && text.contains("zipfian .99"), "{text}");
    assert!(text.contains("B/key"), "{text}");
}

#[test]
fn json_holds_every_round_and_the_settings() {
    let mut report = bench(&["scan", "remove", "--index", "bytes", "--json"]).json();
    let rows = report["rows"].as_array().expect("rows").clone();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["workload"], "scan");
    assert_eq!(rows[0]["unit"], "key");
    assert_eq!(rows[1]["rounds"][0]["operations"], 500);
    assert_eq!(report["setup"]["key_size_bytes"], 16);
    assert_eq!(report["memory"]["keys"], 3000);
    assert!(report["verdicts"].take().is_null());
}

#[test]
fn the_preset_gives_a_verdict_on_every_target() {
    let place = Place::empty();
    let arguments = ["bench", "--preset", "targets", "--keys", "5k", "--rounds", "1"];
    let text = place.run(arguments).succeeded();
    assert!(text.lines().last().is_some_and(|line| line.contains(" of 22 targets met")), "{text}");
    assert!(text.contains("2 threads, get, zipfian .99"), "{text}");
}

#[test]
fn a_pool_at_a_path_must_be_new_and_is_removed() {
    let place = Place::empty();
    let arguments = ["bench", "get", "--pool", "bench.pool", "--keys", "100", "--rounds", "1"];
    place.run(arguments).succeeded();
    assert!(!place.path("bench.pool").exists());
    place.write("bench.pool", "precious");
    assert!(place.run(arguments).failed(4).contains("bench.pool"));
    assert_eq!(place.read("bench.pool"), b"precious");
}

#[test]
fn designs_are_measured_by_name_and_side_by_side() {
    let text = bench(&["get", "scan", "--index", "fast-fair"]).succeeded();
    assert!(text.contains("index fast-fair"), "{text}");
    let text = bench(&["get", "insert", "--index", "all"]).succeeded();
    for name in ["nbtree", "fast-fair", "fast-fair-4096"] {
        let lines = text.lines().filter(|line| line.split_whitespace().next() == Some(name));
        assert_eq!(lines.count(), 2, "one line for misses, one for speed: {text}");
    }
    assert!(text.lines().any(|line| line.starts_with("index") && line.contains("insert")));
    let refused = bench(&["get", "--index", "slow-fair"]).failed(2);
    assert!(refused.contains("fast-fair"), "{refused}");
}

#[test]
fn a_pool_is_created_with_an_index() {
    let place = Place::empty();
    place.run(["create", "pool", "--index", "fast-fair"]).succeeded();
    place.run(["check", "pool"]).succeeded();
    let maps = place.run(["maps", "pool"]).succeeded();
    assert!(maps.contains("index\tintegers"), "{maps}");
    place.run(["put", "pool", "a", "b"]).succeeded();
    assert!(place.run(["create", "other", "--index", "fair"]).failed(2).contains("fast-fair"));
    assert!(!place.path("other").exists());
}
