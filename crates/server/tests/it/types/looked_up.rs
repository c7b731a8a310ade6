//! Members that a pipeline looks up together: it answers as if each command had come by itself.

use std::thread;

use super::series::pipeline;
use crate::support::TestServer;

/// Numbers that look drawn, each below a limit.
fn drawn(state: &mut u64, limit: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    (*state >> 33) % limit
}

/// A command of a key, and what it is given besides.
fn line(command: &str, key: &str, state: &mut u64) -> String {
    let member = format!("m{}", drawn(state, 24));
    // Of long ones no copy is kept.
    let value = "7".repeat([1, 2, 300][drawn(state, 3) as usize]);
    match command {
        "HSET" => format!("HSET {key} {member} {value}"),
        "HINCRBY" => format!("HINCRBY {key} {member} {}", drawn(state, 9)),
        "ZADD" | "ZINCRBY" => format!("{command} {key} {} {member}", drawn(state, 9)),
        _ => format!("{command} {key} {member}"),
    }
}

#[test]
fn pipelines_of_one_key_answer_as_one_by_one() {
    let server = TestServer::start();
    let (mut client, mut state) = (server.connect(), 7);
    let kinds: [(&str, &[&str]); 3] = [
        ("set", &["SADD", "SADD", "SREM", "SISMEMBER"]),
        ("hash", &["HSET", "HGET", "HDEL", "HINCRBY"]),
        ("sorted", &["ZADD", "ZADD", "ZSCORE", "ZREM", "ZINCRBY"]),
    ];
    for round in 0..120 {
        let (kind, commands) = kinds[round % 3];
        let mut lines = Vec::new();
        while lines.len() < 40 {
            let command = commands[drawn(&mut state, commands.len() as u64) as usize];
            for _ in 0..=drawn(&mut state, 12) {
                // Another key in between, which may be of another kind.
                let other = ["other", "set", "hash"][drawn(&mut state, 3) as usize];
                let key = if drawn(&mut state, 15) == 0 { other } else { kind };
                lines.push(line(command, key, &mut state));
            }
        }
        // The same in another database, one by one.
        assert_eq!(client.line("SELECT 1"), "+OK");
        let wanted: Vec<String> = lines.iter().map(|line| client.line(line)).collect();
        assert_eq!(client.line("SELECT 0"), "+OK");
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let replies = pipeline(&mut client, &lines);
        for ((line, reply), wanted) in lines.iter().zip(replies).zip(wanted) {
            assert_eq!(reply, wanted, "{line}, round {round}");
        }
    }
    let report = everleaf_server::check_collections(&server.store).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
}

/// What another client changed since the members were looked up is not lost.
#[test]
fn pipelines_of_two_clients_add_up() {
    const PIPELINES: usize = 60;
    let server = TestServer::with(|config| config.threads = 2);
    thread::scope(|scope| {
        for _ in 0..2 {
            let mut client = server.connect();
            scope.spawn(move || {
                let lines: Vec<String> =
                    (0..32).map(|number| format!("HINCRBY hash n{} 1", number % 8)).collect();
                let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
                for _ in 0..PIPELINES {
                    let replies = pipeline(&mut client, &lines);
                    assert!(replies.iter().all(|reply| reply.starts_with(':')), "{replies:?}");
                }
            });
        }
    });
    let mut client = server.connect();
    for number in 0..8 {
        let sum = client.line(&format!("HGET hash n{number}"));
        assert_eq!(sum, format!("\"{}\"", 2 * PIPELINES * 4));
    }
}
