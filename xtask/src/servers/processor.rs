//! The processor's time that servers take for commands that come many at once: also on a machine that others use.

use std::fmt::Write;
use std::path::Path;

use super::client::benchmark;
use super::contender::{Contender, Folder, Server};

/// Each round asks everybody, another one first.
const ROUNDS: usize = 5;
/// Requests of a test.
const REQUESTS: u32 = 40_000;
/// The tests of redis-benchmark, each with the one that makes what it takes.
const TESTS: [(&str, Option<&str>); 12] = [
    ("set", None),
    ("incr", None),
    ("mset", None),
    ("lpush", None),
    ("rpush", None),
    ("lpop", Some("lpush")),
    ("rpop", Some("rpush")),
    ("sadd", None),
    ("hset", None),
    ("spop", Some("sadd")),
    ("zadd", None),
    ("zpopmin", Some("zadd")),
];

/// Measures everybody, Everleaf with two durabilities, and tells it as a table: of the tests of these names, parted by
/// commas, or of all.
pub fn section(contenders: &[Contender], build: &Path, tests: &str) -> Result<String, String> {
    let is_wanted = |test: &&str| tests.is_empty() || tests.split(',').any(|it| it == *test);
    if let Some(unknown) = tests.split(',').find(|it| TESTS.iter().all(|(test, _)| it != test))
        && !tests.is_empty()
    {
        return Err(format!("processor:{unknown}: there is no such test"));
    }
    let (memory, disk) = (Folder::new()?, Folder::inside(build)?);
    let mut servers = vec![contenders[0].start_with(&disk.0, "interval")?];
    let mut names = vec!["Everleaf, interval".to_string()];
    for it in contenders {
        servers.push(it.start(&memory.0)?);
        names.push(if names.len() == 1 { "Everleaf, process".into() } else { it.name.into() });
    }
    let mut text = String::from("## Processor time, 32 in flight\n\n");
    let _ = write!(
        text,
        "Nanoseconds of the processor that all threads of a server take for a command, by the kernel's count, and \
         those of Redis by those of Everleaf: 50 connections, {ROUNDS} rounds in turn of {REQUESTS} requests, \
         medians.\n\n| |"
    );
    for name in &names {
        let _ = write!(text, " {name} |");
    }
    text += " Redis / interval | Redis / process |\n|---|---|---|";
    text += &"---|".repeat(names.len());
    for (test, before) in TESTS.iter().filter(|(test, _)| is_wanted(test)) {
        let times = times_of(&servers, test, *before)?;
        let _ = write!(text, "\n| {} |", test.to_uppercase());
        for time in &times {
            let _ = write!(text, " {time:.0} |");
        }
        let _ = write!(text, " {:.2} | {:.2} |", times[2] / times[0], times[2] / times[1]);
    }
    Ok(text + "\n")
}

/// Nanoseconds for a command of a test, of each server.
fn times_of(servers: &[Server], test: &str, before: Option<&str>) -> Result<Vec<f64>, String> {
    let mut times = vec![Vec::new(); servers.len()];
    for round in 0..ROUNDS {
        for turn in 0..servers.len() {
            let index = (turn + round) % servers.len();
            times[index].push(time_of(&servers[index], test, before)?);
        }
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    Ok(times.into_iter().map(median).collect())
}

fn time_of(server: &Server, test: &str, before: Option<&str>) -> Result<f64, String> {
    let run = |test: &str, requests: u32| {
        let requests = requests.to_string();
        let arguments = ["-P", "32", "-c", "50", "-r", "1000000", "-n", &requests, "-t", test];
        benchmark(server.port, &arguments)
    };
    if let Some(before) = before {
        // More than are taken.
        run(before, 2 * REQUESTS)?;
    }
    let start = server.processor_ns()?;
    run(test, REQUESTS)?;
    Ok((server.processor_ns()? - start) / f64::from(REQUESTS))
}
