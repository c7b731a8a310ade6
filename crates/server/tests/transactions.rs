//! Times at which keys expire, and transactions, as clients see them.

#![allow(clippy::unwrap_used, reason = "tests may fail")]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};

use support::{Client, TestServer, eventually};

/// Runs lines on one connection and compares each reply.
fn run(client: &mut Client, script: &[(&str, &str)]) {
    for (line, expected) in script {
        assert_eq!(client.line(line), *expected, "{line}");
    }
}

fn number(reply: &str) -> i64 {
    reply.strip_prefix(':').unwrap().parse().unwrap()
}

#[test]
fn times_are_set_told_and_taken_away_in_every_way() {
    let server = TestServer::start();
    let mut client = server.connect();
    run(
        &mut client,
        &[
            ("TTL k", ":-2"),
            ("EXPIRE k 10", ":0"),
            ("PERSIST k", ":0"),
            ("SET k v", "+OK"),
            ("TTL k", ":-1"),
            ("EXPIRETIME k", ":-1"),
            ("PERSIST k", ":0"),
            ("EXPIREAT k 4000000000", ":1"),
            ("EXPIRETIME k", ":4000000000"),
            ("PEXPIRETIME k", ":4000000000000"),
            ("SET k w KEEPTTL", "+OK"),
            ("PEXPIRETIME k", ":4000000000000"),
            ("APPEND k x", ":2"),
            ("PEXPIRETIME k", ":4000000000000"),
            ("PERSIST k", ":1"),
            ("TTL k", ":-1"),
            ("PEXPIREAT k 4000000000001 XX", ":0"),
            ("PEXPIREAT k 4000000000001 GT", ":0"),
            ("PEXPIREAT k 4000000000001 NX", ":1"),
            ("PEXPIREAT k 4000000000000 GT", ":0"),
            ("PEXPIREAT k 4000000000000 LT", ":1"),
            ("PEXPIRETIME k", ":4000000000000"),
            ("SET k v", "+OK"),
            ("TTL k", ":-1"),
            ("GETEX k PXAT 4000000000000", "\"v\""),
            ("PEXPIRETIME k", ":4000000000000"),
            ("GETEX k", "\"v\""),
            ("GETEX k PERSIST", "\"v\""),
            ("TTL k", ":-1"),
            ("GETEX none EX 10", "nil"),
            ("SET n 1 EXAT 4000000000", "+OK"),
            ("INCR n", ":2"),
            ("EXPIRETIME n", ":4000000000"),
            ("SET n 5 NX EX 10", "nil"),
            ("SET n 5 XX GET PXAT 4000000000001", "\"2\""),
            ("PEXPIRETIME n", ":4000000000001"),
            // In the past: gone at once.
            ("EXPIRE n -1", ":1"),
            ("EXISTS n", ":0"),
            ("SET p 1 PXAT 1", "+OK"),
            ("GET p", "nil"),
            ("EXPIREAT k 1", ":1"),
            ("GET k", "nil"),
        ],
    );
    assert_eq!(client.line("SETEX s 100 v"), "+OK");
    assert!((99..=100).contains(&number(&client.line("TTL s"))));
    assert_eq!(client.line("PSETEX s 100000 v"), "+OK");
    assert!((90_000..=100_000).contains(&number(&client.line("PTTL s"))));
    assert_eq!(client.line("SET s v PX 30"), "+OK");
    eventually("the key expires", || client.line("GET s") == "nil");
    assert_eq!(client.line("TTL s"), ":-2");
    assert_eq!(client.line("DBSIZE").len(), 2);
}

#[test]
fn a_transaction_is_run_as_a_whole() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    run(
        &mut client,
        &[
            ("MULTI", "+OK"),
            ("SET a 1", "+QUEUED"),
            ("INCR a", "+QUEUED"),
            ("GET a", "+QUEUED"),
            ("GET none", "+QUEUED"),
            ("EXPIREAT a 4000000000", "+QUEUED"),
            ("MSET b 1 c 2", "+QUEUED"),
            ("DEL b none", "+QUEUED"),
            ("INCR c", "+QUEUED"),
            ("PING", "+QUEUED"),
        ],
    );
    assert_eq!(other.line("EXISTS a b c"), ":0", "nothing is done before EXEC");
    assert_eq!(client.line("EXEC"), "[+OK :2 \"2\" nil :1 +OK :1 :3 +PONG]");
    assert_eq!(other.line("MGET a b c"), "[\"2\" nil \"3\"]");
    assert_eq!(other.line("EXPIRETIME a"), ":4000000000");
    run(
        &mut client,
        &[
            ("MULTI", "+OK"),
            ("MULTI", "-ERR MULTI calls can not be nested"),
            ("WATCH a", "-ERR WATCH inside MULTI is not allowed"),
            ("SET a 9", "+QUEUED"),
            ("DISCARD", "+OK"),
            ("GET a", "\"2\""),
            ("MULTI", "+OK"),
            ("SET a 9", "+QUEUED"),
            ("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: "),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("MULTI", "+OK"),
            ("GET", "-ERR wrong number of arguments for 'get' command"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("MULTI", "+OK"),
            ("KEYS *", "-ERR 'keys' is not allowed inside a transaction"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            // One that fails when it is run leaves the others done.
            ("SET text x", "+OK"),
            ("MULTI", "+OK"),
            ("INCR text", "+QUEUED"),
            ("SET a 7", "+QUEUED"),
            ("EXEC", "[-ERR value is not an integer or out of range +OK]"),
            ("GET a", "\"7\""),
            ("MULTI", "+OK"),
            ("EXEC", "[]"),
        ],
    );
}

#[test]
fn a_watched_key_that_changes_stops_the_transaction() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    run(&mut client, &[("SET k 1", "+OK"), ("WATCH k none", "+OK"), ("MULTI", "+OK")]);
    assert_eq!(other.line("SET k 2"), "+OK");
    run(&mut client, &[("SET k 3", "+QUEUED"), ("EXEC", "nil[]"), ("GET k", "\"2\"")]);
    run(&mut client, &[("WATCH k none", "+OK"), ("MULTI", "+OK")]);
    assert_eq!(other.line("SET none 2"), "+OK");
    run(&mut client, &[("SET k 3", "+QUEUED"), ("EXEC", "nil[]"), ("GET k", "\"2\"")]);
    run(&mut client, &[("WATCH k", "+OK"), ("MULTI", "+OK")]);
    assert_eq!(other.line("EXPIRE k 100"), ":1");
    run(&mut client, &[("SET k 3", "+QUEUED"), ("EXEC", "nil[]")]);
    run(&mut client, &[("WATCH k", "+OK"), ("UNWATCH", "+OK"), ("MULTI", "+OK")]);
    assert_eq!(other.line("SET k 4"), "+OK");
    run(&mut client, &[("SET k 5", "+QUEUED"), ("EXEC", "[+OK]"), ("GET k", "\"5\"")]);
}

#[test]
fn transfers_of_many_clients_keep_the_sum() {
    let server = TestServer::start();
    let mut client = server.connect();
    for account in 0..4 {
        client.line(&format!("SET account:{account} 100"));
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (mut client, done) = (server.connect(), &done);
            scope.spawn(move || {
                for round in 0..150 {
                    let (from, to) = ((thread + round) % 4, (thread + round * 2 + 1) % 4);
                    client.line("MULTI");
                    client.line(&format!("DECR account:{from}"));
                    client.line(&format!("INCR account:{to}"));
                    let reply = client.line("EXEC");
                    assert!(reply.starts_with("[:"), "{reply}");
                }
                done.store(true, Ordering::Release);
            });
        }
        while !done.load(Ordering::Acquire) {
            client.line("MULTI");
            (0..4).for_each(|account| drop(client.line(&format!("GET account:{account}"))));
            let reply = client.line("EXEC");
            let sum: i64 = reply
                .split(|c: char| !c.is_ascii_digit() && c != '-')
                .filter_map(|part| part.parse::<i64>().ok())
                .sum();
            assert_eq!(sum, 400, "{reply}");
        }
    });
}
