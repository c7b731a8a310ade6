//! Commands of collections that come in one write, which are done together: each answers as if it were alone.

use crate::support::{Client, TestServer, encode, eventually, open};

/// Sends lines in one write, and returns the replies.
pub fn pipeline(client: &mut Client, lines: &[&str]) -> Vec<String> {
    let words = |line: &&str| encode(&line.split_whitespace().collect::<Vec<_>>());
    client.send(&lines.iter().flat_map(words).collect::<Vec<u8>>());
    lines.iter().map(|_| client.reply()).collect()
}

fn check(client: &mut Client, table: &[(&str, &str)]) {
    let lines: Vec<&str> = table.iter().map(|(line, _)| *line).collect();
    let replies = pipeline(client, &lines);
    for (index, ((line, expected), reply)) in table.iter().zip(&replies).enumerate() {
        assert!(reply.starts_with(expected), "{index}, {line}: {reply} instead of {expected}");
    }
}

#[test]
fn each_command_sees_what_those_before_it_did() {
    let server = TestServer::start();
    let mut client = server.connect();
    check(
        &mut client,
        &[
            ("LPUSH l a b c", ":3"),
            ("RPOP l", "\"a\""),
            ("LLEN l", ":2"),
            ("SADD s x y", ":2"),
            ("SADD s y z", ":1"),
            ("SCARD s", ":3"),
            ("HSET h f 1", ":1"),
            ("HINCRBY h f 5", ":6"),
            ("HGET h f", "\"6\""),
            ("ZADD z 3 c 1 a 2 b", ":3"),
            ("ZPOPMIN z", "[\"a\" \"1\"]"),
            ("ZRANK z c", ":1"),
            ("LPOP l 9", "[\"c\" \"b\"]"),
            ("LLEN l", ":0"),
            ("RPUSH l new", ":1"),
            ("LRANGE l 0 -1", "[\"new\"]"),
        ],
    );
    assert_eq!(client.line("TYPE l"), "+list");
    assert_eq!(client.line("ZRANGE z 0 -1"), "[\"b\" \"c\"]");
}

/// What the pool has no room for is refused; reads and what makes room are not, wherever they stand.
#[test]
fn a_full_pool_refuses_only_what_does_not_fit() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder.path().join("small.pool"), 64 << 20);
    let server = TestServer::on(folder, store, |_| {});
    let mut client = server.connect();
    assert_eq!(client.line("HSET h f 1 g 2"), ":2");
    // More than the pool may grow to.
    let value = vec![b'v'; 6 << 20];
    let mut request = vec![];
    for words in [&["HGET", "h", "f"][..], &["HDEL", "h", "g"]] {
        request.extend(encode(words));
    }
    for key in 0..12u8 {
        let key = [b'l', key];
        request.extend(b"*3\r\n$5\r\nRPUSH\r\n$2\r\n");
        request.extend(key);
        request.extend(format!("\r\n${}\r\n", value.len()).bytes());
        request.extend(&value);
        request.extend(b"\r\n");
    }
    request.extend(encode(&["HGET", "h", "f"]));
    client.send(&request);
    assert_eq!([client.reply(), client.reply()], ["\"1\"", ":1"]);
    let replies: Vec<String> = (0..12).map(|_| client.reply()).collect();
    assert!(replies[0].starts_with(':'), "{replies:?}");
    assert!(replies.iter().any(|reply| reply.starts_with("-OOM")), "{replies:?}");
    assert_eq!(client.reply(), "\"1\"");
}

#[test]
fn an_error_in_the_middle_harms_no_other_command() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.line("SET text t");
    check(
        &mut client,
        &[
            ("SADD s a", ":1"),
            ("SADD text b", "-WRONGTYPE"),
            ("LPUSH s b", "-WRONGTYPE"),
            ("ZADD z one a", "-ERR value is not a valid float"),
            ("ZADD z NX XX 1 a", "-ERR XX and NX"),
            ("HINCRBY h f x", "-ERR value is not an integer"),
            ("SADD s b", ":1"),
            ("HSET h f", "-ERR wrong number"),
            ("SCARD s", ":2"),
        ],
    );
    // Fails with a member that is on the stage already: nothing of it may be left.
    let long = "m".repeat(everleaf::KEY_SIZE_MAX + 1);
    let failing = format!("SADD s c {long} d");
    check(
        &mut client,
        &[
            ("SADD s e", ":1"),
            ("SADD other o", ":1"),
            (&failing, "-ERR"),
            ("SISMEMBER s c", ":0"),
            ("SISMEMBER s d", ":0"),
            ("SADD s c", ":1"),
            ("SCARD s", ":4"),
        ],
    );
    assert_eq!(client.line("SCARD other"), ":1");
    let report = everleaf_server::check_collections(&server.store).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
}

#[test]
fn other_commands_in_between_keep_their_place() {
    let server = TestServer::start();
    let mut client = server.connect();
    check(
        &mut client,
        &[
            ("SADD a 1", ":1"),
            ("SADD a 2", ":1"),
            ("RENAME a b", "+OK"),
            ("SADD a 3", ":1"),
            ("SADD b 3", ":1"),
            ("SCARD b", ":3"),
            ("SET a text", "+OK"),
            ("SADD a 4", "-WRONGTYPE"),
            ("DEL a b", ":2"),
            ("SADD b 5", ":1"),
            ("SCARD b", ":1"),
            ("SWAPDB 0 1", "+OK"),
            ("SADD b 6", ":1"),
            ("SADD b 7", ":1"),
            ("SELECT 1", "+OK"),
            ("SCARD b", ":1"),
            ("SADD b 8", ":1"),
            ("FLUSHALL", "+OK"),
            ("SCARD b", ":0"),
            ("SADD b 9", ":1"),
            ("SADD b 9", ":0"),
            ("SELECT 0", "+OK"),
            ("SCARD b", ":0"),
            ("MULTI", "+OK"),
            ("SADD t 1", "+QUEUED"),
            ("SADD t 2", "+QUEUED"),
            ("EXEC", "[:1 :1]"),
            ("SCARD t", ":2"),
            ("PEXPIREAT t 1", ":1"),
            ("SADD t 1", ":1"),
            ("SCARD t", ":1"),
        ],
    );
}

#[test]
fn a_series_breaks_the_watch_of_another_transaction_only() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    assert_eq!(other.line("WATCH k"), "+OK");
    check(&mut client, &[("SADD x 1", ":1"), ("SADD k 1", ":1"), ("SADD k 2", ":1")]);
    check(&mut other, &[("MULTI", "+OK"), ("SADD k 3", "+QUEUED"), ("EXEC", "nil")]);
    assert_eq!(other.line("WATCH k"), "+OK");
    check(&mut client, &[("SCARD k", ":2"), ("SADD k 1", ":0"), ("SMEMBERS none", "[]")]);
    check(&mut other, &[("MULTI", "+OK"), ("SADD k 3", "+QUEUED"), ("EXEC", "[:1]")]);
}

#[test]
fn a_waiting_client_is_served_between_commands_of_a_series() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    for (wish, answer) in [("BLPOP q 0", "[\"q\" \"a\"]"), ("BRPOP q 0", "[\"q\" \"a\"]")] {
        other.send(&encode(&wish.split(' ').collect::<Vec<_>>()));
        eventually("the command waits", || {
            client.line("INFO clients").contains("blocked_clients:1")
        });
        // The element of the second command is gone when the third looks.
        check(
            &mut client,
            &[
                ("RPUSH before 1", ":"),
                ("RPUSH q a", ":1"),
                ("LPOP q", "nil"),
                ("RPUSH q b", ":1"),
                ("LLEN q", ":1"),
                ("LPOP q", "\"b\""),
            ],
        );
        assert_eq!(other.reply(), answer);
    }
}

#[test]
fn what_expires_in_the_middle_of_a_series_is_gone() {
    let server = TestServer::start();
    let mut client = server.connect();
    for round in 0..40 {
        client.line("DEL s");
        client.line("SADD s old");
        client.line(&format!("PEXPIRE s {}", 1 + round % 4));
        let mut lines = Vec::new();
        (0..400).for_each(|number| {
            lines.push(format!("SADD s m{number}"));
            lines.push("SCARD s".to_string());
        });
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let replies = pipeline(&mut client, &lines);
        let counts: Vec<usize> =
            replies.iter().skip(1).step_by(2).map(|it| it[1..].parse().unwrap()).collect();
        // One more with each command, but for the one that finds it gone: what is counted begins anew.
        let restarts = counts.windows(2).filter(|pair| pair[1] != pair[0] + 1).collect::<Vec<_>>();
        assert!(restarts.len() <= 1 && restarts.iter().all(|pair| pair[1] <= 1), "{restarts:?}");
    }
}

#[test]
fn several_clients_at_one_key_lose_nothing() {
    const ROUNDS: usize = 60;
    const LENGTH: usize = 50;
    let server = TestServer::with(|config| config.threads = 3);
    let clients = 6;
    std::thread::scope(|scope| {
        for number in 0..clients {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.connect();
                for round in 0..ROUNDS {
                    let lines: Vec<String> = (0..LENGTH)
                        .map(|index| match index % 5 {
                            0 => format!("RPUSH list {number}"),
                            1 => "HINCRBY hash field 1".to_string(),
                            2 => format!("SADD set {number}-{round}-{index}"),
                            3 => format!("ZINCRBY zset{} 1 m", number % 2),
                            _ => format!("RPUSH own{number} {round}"),
                        })
                        .collect();
                    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
                    let replies = pipeline(&mut client, &lines);
                    assert!(replies.iter().all(|reply| !reply.starts_with('-')), "{replies:?}");
                    assert_eq!(replies[LENGTH - 1], format!(":{}", (round + 1) * LENGTH / 5));
                }
            });
        }
    });
    let mut client = server.connect();
    let total = clients * ROUNDS * LENGTH / 5;
    assert_eq!(client.line("LLEN list"), format!(":{total}"));
    assert_eq!(client.line("HGET hash field"), format!("\"{total}\""));
    assert_eq!(client.line("SCARD set"), format!(":{total}"));
    for key in ["zset0", "zset1"] {
        assert_eq!(client.line(&format!("ZSCORE {key} m")), format!("\"{}\"", total / 2));
    }
    let report = everleaf_server::check_collections(&server.store).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
}

#[test]
fn counters_and_the_slow_log_know_each_command_of_a_series() {
    let server = TestServer::start();
    let mut client = server.connect();
    let value = |client: &mut Client, name: &str| -> u64 {
        let info = client.line("INFO stats");
        let rest = info.split(&format!("{name}:")).nth(1).unwrap().to_string();
        rest.split("\\r").next().unwrap().parse().unwrap()
    };
    client.line("HSET h f v");
    let before =
        ["total_commands_processed", "total_error_replies", "keyspace_hits", "keyspace_misses"]
            .map(|name| (name, value(&mut client, name)));
    check(
        &mut client,
        &[("HGET h f", "\"v\""), ("HGET h g", "nil"), ("LPOP h", "-WRONGTYPE"), ("HLEN h", ":1")],
    );
    let after = before.map(|(name, _)| value(&mut client, name));
    let grown: Vec<u64> = after.iter().zip(before).map(|(now, (_, then))| now - then).collect();
    // Four `INFO` come between.
    assert_eq!(grown, [4 + 4, 1, 1, 1]);
    client.line("CONFIG SET slowlog-log-slower-than 1000");
    client.line("SLOWLOG RESET");
    let many: String = (0..30_000).map(|number| format!(" m{number}")).collect();
    let slow = format!("SADD many{many}");
    check(&mut client, &[("SCARD many", ":0"), (&slow, ":30000"), ("SCARD many", ":30000")]);
    assert!(client.line("SLOWLOG GET").contains("\"SADD\" \"many\" \"m0\""));
    client.line("SLOWLOG RESET");
    client.line("CONFIG SET slowlog-log-slower-than 0");
    check(&mut client, &[("SADD s 1", ":1"), ("SADD s 2", ":1"), ("SCARD s", ":2")]);
    assert_eq!(client.line("SLOWLOG LEN"), ":4");
}

#[test]
fn numbers_that_are_counted_up_together_answer_one_by_one() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.line("MSET text t big 9223372036854775807");
    client.line("SADD set m");
    let long = format!("INCR {}", "k".repeat(everleaf::KEY_SIZE_MAX + 1));
    check(
        &mut client,
        &[
            ("INCR n", ":1"),
            ("incr n", ":2"),
            ("INCR text", "-ERR value is not an integer"),
            ("INCR set", "-WRONGTYPE"),
            (&long, "-ERR"),
            ("INCR big", "-ERR increment or decrement would overflow"),
            ("INCR n", ":3"),
            ("INCR m n", "-ERR wrong number"),
            ("GET n", "\"3\""),
        ],
    );
}

#[test]
fn a_long_series_is_bounded_in_what_it_holds() {
    let server = TestServer::start();
    let mut client = server.connect();
    let text = "x".repeat(300_000);
    let lines: Vec<String> = (0..40).map(|number| format!("RPUSH l {number}{text}")).collect();
    let mut lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    lines.extend(["LRANGE l 0 -1"; 5]);
    let replies = pipeline(&mut client, &lines);
    assert_eq!(replies[39], ":40");
    assert!(replies[40..].iter().all(|reply| reply.len() > 40 * text.len()));
}
