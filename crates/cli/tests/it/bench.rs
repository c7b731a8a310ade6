//! `everleaf bench`, small: what it prints and what it refuses. No times are asserted.

use crate::common::PoolFolder;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// Arguments that keep a run short.
const SHORT: [&str; 6] = ["--keys", "3k", "--ops", "500", "--rounds", "1"];

fn bench(arguments: &[&str]) -> crate::common::Ended {
    let place = PoolFolder::empty();
    let all: Vec<&str> = ["bench"].iter().chain(arguments).chain(&SHORT).copied().collect();
    place.run(all)
}

#[test]
fn the_table_has_a_line_per_workload_and_thread_count() {
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
    let place = PoolFolder::empty();
    let arguments = ["bench", "--preset", "targets", "--keys", "5k", "--rounds", "1"];
    let text = place.run(arguments).succeeded();
    assert!(text.lines().last().is_some_and(|line| line.contains(" of 22 targets met")), "{text}");
    assert!(text.contains("2 threads, get, zipfian .99"), "{text}");
}

#[test]
fn a_pool_at_a_path_must_be_new_and_is_removed() {
    let place = PoolFolder::empty();
    let arguments = ["bench", "get", "--pool", "bench.pool", "--keys", "100", "--rounds", "1"];
    place.run(arguments).succeeded();
    assert!(!place.path("bench.pool").exists());
    place.write("bench.pool", "precious");
    assert!(place.run(arguments).failed(4).contains("bench.pool"));
    assert_eq!(place.read("bench.pool"), b"precious");
}

/// Memory for all of them was asked for, which ended the process; so many operations were cut without a word.
#[test]
fn more_than_can_be_measured_is_refused() {
    assert!(bench(&["get"]).code == 0);
    let place = PoolFolder::empty();
    for (words, part) in [
        ("bench get --keys 1000G", "number of keys"),
        ("bench get --keys 100 --ops 1G", "operations"),
        ("bench get --keys 100 --redis 127.0.0.1:1 --ops 18446744073709551615", "operations"),
    ] {
        let sentence = place.run(words.split(' ')).failed(2);
        assert!(sentence.contains(part), "{words}: {sentence}");
    }
}

/// The pool stayed, in memory if none is named, and no later run removed it.
#[test]
fn a_signal_leaves_no_pool() {
    for signal in ["INT", "TERM"] {
        let place = PoolFolder::empty();
        let folders = || std::fs::read_dir(place.path(".")).expect("a folder");
        let is_made = || folders().flatten().any(|it| it.path().join("bench.pool").exists());
        let arguments = ["bench", "get", "--index", "bytes", "--pool", "temp", "--keys", "5M"];
        let mut command = place.command(arguments);
        let mut child = command.env("TMPDIR", place.path(".")).spawn().expect("it runs");
        while !is_made() {
            assert!(child.try_wait().expect("it is ours").is_none(), "it ended before");
            std::thread::yield_now();
        }
        let id = child.id().to_string();
        let kill = std::process::Command::new("kill").args(["-s", signal, &id]).status();
        assert!(kill.expect("kill runs").success());
        let status = child.wait().expect("it ends");
        assert!(!status.success(), "{status}");
        assert_eq!(folders().count(), 0, "{signal}");
    }
}

#[test]
fn a_published_design_is_left_to_the_other_program() {
    for name in ["fast-fair", "all"] {
        let refused = bench(&["get", "--index", name]).failed(2);
        assert!(refused.contains("everleaf-lab bench"), "{refused}");
    }
}

#[test]
fn a_list_of_sizes_gives_a_report_for_each() {
    let sweep = ["scan", "--index", "bytes", "--value-size", "8,100", "--scan-length", "1,10"];
    let reports = bench(&[&sweep[..], &["--json"]].concat()).json();
    let reports = reports.as_array().expect("a list");
    let sizes = |report: &serde_json::Value| {
        let setup = &report["setup"];
        (setup["value_size_bytes"].as_u64(), setup["scan_length"].as_u64())
    };
    let found: Vec<_> = reports.iter().map(sizes).collect();
    let expected = [(8, 1), (8, 10), (100, 1), (100, 10)];
    assert_eq!(found, expected.map(|(value, length)| (Some(value), Some(length))));
    let text = bench(&sweep).succeeded();
    assert_eq!(text.lines().filter(|line| line.starts_with("scan ")).count(), 4, "{text}");
}

/// The reports that were finished were lost with the one that failed.
#[test]
fn what_was_measured_is_shown_though_more_fails() {
    for option in [&["--json"][..], &[]] {
        let place = PoolFolder::empty();
        let sizes = ["bench", "get", "--index", "bytes", "--key-size", "16,2", "--keys", "100"];
        let ended = place.run([&sizes[..], &["--rounds", "1"], option].concat());
        assert_eq!(ended.code, 2, "{}", ended.err);
        let text = ended.text();
        assert!(text.contains("get"), "{text}");
        if !option.is_empty() {
            let reports: serde_json::Value = serde_json::from_str(&text).expect("a list");
            assert_eq!(reports.as_array().map(Vec::len), Some(1));
        }
    }
}

#[test]
fn a_trace_is_replayed_from_a_file() {
    let place = PoolFolder::empty();
    place.write(
        "trace",
        "put user:1 30\nget user:1\nget user:2\nscan user:1 5\n\
         1339518083.107412 [0 127.0.0.1:60866] \"set\" \"user:3\" \"value\"\n\
         1339518083.107413 [0 127.0.0.1:60866] \"zadd\" \"z\" \"1\" \"m\"\n",
    );
    let arguments = ["bench", "--trace", "trace", "--index", "bytes", "--rounds", "1"];
    let ended = place.run(arguments);
    assert!(ended.err.contains("1 command of the trace left out"), "{}", ended.err);
    assert_eq!(ended.code, 0);
    let text = ended.text();
    assert!(text.lines().any(|line| line.starts_with("trace ")), "{text}");
    place.write("trace", "get a\nfetch b\n");
    assert!(place.run(arguments).failed(2).contains("trace, line 2"));
}

#[test]
fn mixes_of_papers_run_in_a_closed_and_in_an_open_loop() {
    let names = ["mix-4-16-1", "mix-quarters", "write-50", "tpcc-w1"];
    let text = bench(&names).succeeded();
    for name in names {
        assert!(text.lines().any(|line| line.starts_with(name)), "{name} in {text}");
    }
    let report = bench(&["get", "--rate", "100k", "--burst", "10", "--json"]).json();
    assert_eq!(report["setup"]["offered_per_second"], 100_000.0);
    assert_eq!(report["rows"][0]["latency"]["samples"], 500, "every operation is timed");
    assert!(bench(&["write-101"]).failed(2).contains("write-0 to write-100"));
}

#[test]
fn a_server_is_measured_and_an_absent_one_is_named() {
    let place = PoolFolder::empty();
    let mut child = place
        .command(["serve", "--port", "0"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut ready = String::new();
    let stderr = child.stderr.as_mut().expect("it is piped");
    BufReader::with_capacity(1, stderr).read_line(&mut ready).expect("stderr can be read");
    let address = ready.strip_prefix("everleaf: ready on ").and_then(|rest| rest.split(',').next());
    let address = address.unwrap_or_default().to_owned();
    let ask = |more: &[&str]| bench(&[&["--redis", &address, "--connections", "4"], more].concat());
    let report = ask(&["get", "update", "scan", "e", "--pipeline", "8", "--json"]);
    let text = ask(&["get", "--no-load", "--rate", "5k"]);
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let report = report.json();
    assert_eq!(report["rows"][0]["latency"]["samples"], 500);
    assert_eq!(report["rows"][2]["unit"], "key");
    let name = report["setup"]["domain"].as_str().expect("a name");
    assert!(name.starts_with("everleaf "), "{name}");
    assert!(text.succeeded().contains("open loop: 5,000 requests a second"));
    assert!(ask(&["get"]).failed(7).contains("cannot reach the server"));
    // A panic: 50 keys of 10 were to be removed, each once.
    let few = ["bench", "remove", "--keys", "10", "--no-load", "--redis", "127.0.0.1:1"];
    assert!(place.run(few).failed(2).contains("for each connection"));
    assert!(bench(&["get", "--pipeline", "8"]).failed(2).contains("--redis"));
}
