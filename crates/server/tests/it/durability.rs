//! What was acknowledged stays: when the process is killed, and when the pool is full.

#![allow(clippy::unwrap_used, reason = "tests may fail")]

use std::io::{Read, Write};

use crate::support::{Client, ServerProcess, TestServer, encode, open};

/// Writes until the server is gone; returns how many keys were acknowledged.
fn write_until_killed(thread: u64, round: u64, mut client: Client) -> u64 {
    let mut acknowledged = 0;
    loop {
        let keys = acknowledged..acknowledged + 16;
        let stream: Vec<u8> = keys
            .flat_map(|count| {
                let key = format!("{round}:{thread}:{count}");
                encode(&["SET", &key, &format!("value of {key}")])
            })
            .collect();
        if client.stream.write_all(&stream).is_err() {
            return acknowledged;
        }
        for _ in 0..16 {
            let mut reply = [0; 5];
            if client.stream.read_exact(&mut reply).is_err() {
                return acknowledged;
            }
            assert_eq!(&reply, b"+OK\r\n");
            acknowledged += 1;
        }
    }
}

#[test]
fn a_killed_server_has_lost_nothing_it_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let mut counts = Vec::new();
    for round in 0..5 {
        let server = ServerProcess::start(folder.path(), "");
        let writers: Vec<_> = (0..3)
            .map(|thread| {
                let client = server.connect();
                std::thread::spawn(move || write_until_killed(thread, round, client))
            })
            .collect();
        let mut observer = server.connect();
        let before: u64 = counts.iter().map(|&(_, _, count): &(u64, u64, u64)| count).sum();
        crate::support::eventually("the clients have written", || {
            observer.line("DBSIZE")[1..].parse::<u64>().unwrap() > before + 3_000 + 500 * round
        });
        server.kill();
        for (thread, writer) in writers.into_iter().enumerate() {
            counts.push((round, thread as u64, writer.join().unwrap()));
        }
        let server = ServerProcess::start(folder.path(), "");
        let mut client = server.connect();
        for &(round, thread, count) in &counts {
            for count in 0..count {
                let key = format!("{round}:{thread}:{count}");
                let value = client.ask(&["GET", &key]);
                assert_eq!(value, format!("\"value of {key}\""), "acknowledged before the kill");
            }
        }
        server.stop();
    }
}

#[test]
fn a_full_pool_refuses_writes_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("small.pool"), 24 << 20);
    let server = TestServer::on(folder, store, |_| {});
    let mut client = server.connect();
    let value = "v".repeat(20_000);
    let mut count = 0;
    let refusal = loop {
        let reply = client.ask(&["SET", &format!("k{count}"), &value]);
        if reply != "+OK" {
            break reply;
        }
        count += 1;
        assert!(count < 10_000, "a pool of 24 MiB holds 200 MB");
    };
    assert!(refusal.starts_with("-OOM "), "{refusal}");
    assert!(count > 100, "only {count} values of 20 KB fit into 24 MiB");
    assert_eq!(client.line("DBSIZE"), format!(":{count}"));
    assert_eq!(client.line(&format!("STRLEN k{}", count - 1)), ":20000");
    assert!(client.ask(&["MSET", "a", &value, "b", &value]).starts_with("-OOM "));
    for index in 0..count / 2 {
        assert_eq!(client.line(&format!("DEL k{index}")), ":1");
    }
    crate::support::eventually("there is room again", || {
        client.ask(&["SET", "new", &value]) == "+OK"
    });
    assert_eq!(client.line("FLUSHALL"), "+OK");
    assert_eq!(client.line("DBSIZE"), ":0");
}
