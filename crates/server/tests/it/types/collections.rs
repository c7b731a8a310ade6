//! Collections as clients see them: one step for everybody, across a crash, and gone at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::support::{Client, ServerProcess, TestServer, encode, eventually};

#[test]
fn what_is_trimmed_is_gone_at_once_and_freed_later() {
    let server = TestServer::start();
    let mut client = server.connect();
    let push = |client: &mut Client, command: &str, name: &str, count: usize| {
        let mut request = vec![command.to_string(), "k".to_string()];
        request.extend((0..count).map(|number| format!("{name}{number}")));
        assert!(client.ask(&request).starts_with(':'));
    };
    push(&mut client, "RPUSH", "e", 9_000);
    assert_eq!(client.line("LTRIM k 3000 7999"), "+OK");
    // Over what is still there outside.
    push(&mut client, "LPUSH", "left", 700);
    push(&mut client, "RPUSH", "right", 700);
    let members = server.store.existing_map(MEMBERS).unwrap().unwrap();
    assert_eq!(client.line("LLEN k"), ":6400");
    assert_eq!(client.line("LINDEX k 0"), "\"left699\"");
    assert_eq!(client.line("LINDEX k 700"), "\"e3000\"");
    assert_eq!(client.line("LINDEX k 5699"), "\"e7999\"");
    assert_eq!(client.line("LINDEX k -1"), "\"right699\"");
    let report = everleaf_server::check_collections(&server.store).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    eventually("what is outside is freed", || {
        client.line("PING");
        // Runs of 128: 38 are as they were, and two parts of others at the ends; of what was pushed six at the left,
        // and seven at the right, where some have 1 KiB. The mark, the start, the note.
        members.len() == 38 + 2 + 6 + 7 + 3
    });
    let popped = client.line("RPOP k 5000");
    assert!(
        popped.starts_with("[\"right699\" ") && popped.ends_with("\"e3700\"]"),
        "{}",
        popped.len()
    );
    assert_eq!(client.line("LLEN k"), ":1400");
    assert_eq!(client.line("LPOP k 1400").split(' ').count(), 1_400);
    assert_eq!(client.line("EXISTS k"), ":0");
    eventually("nothing is left", || {
        client.line("PING");
        members.len() == 2
    });
    assert_eq!(everleaf_server::check_collections(&server.store).unwrap().collections, 0);
}

/// The map in which members lie.
const MEMBERS: &str = "server.members";

/// Runs lines on one connection and compares each reply.
fn run(client: &mut Client, script: &[(&str, &str)]) {
    for (line, expected) in script {
        assert_eq!(client.line(line), *expected, "{line}");
    }
}

#[test]
fn a_hash_is_no_string_and_a_string_no_hash() {
    let server = TestServer::start();
    let mut client = server.connect();
    const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    assert!(server.store.existing_map(MEMBERS).unwrap().is_none(), "strings need none");
    run(
        &mut client,
        &[
            ("HGET h f", "nil"),
            ("HSET h f 1 g 2", ":2"),
            ("TYPE h", "+hash"),
            ("GET h", WRONG),
            ("APPEND h x", WRONG),
            ("INCR h", WRONG),
            ("GETSET h x", WRONG),
            ("GETDEL h", WRONG),
            ("SET h x GET", WRONG),
            ("STRLEN h", WRONG),
            ("MGET h", "[nil]"),
            ("SETNX h x", ":0"),
            ("EXISTS h", ":1"),
            ("DBSIZE", ":1"),
            ("SCAN 0 TYPE hash", "[\"0\" [\"h\"]]"),
            ("SCAN 0 TYPE string", "[\"0\" []]"),
            ("HLEN h", ":2"),
            ("EXPIREAT h 4000000000", ":1"),
            ("HSET h f 3", ":0"),
            ("EXPIRETIME h", ":4000000000"),
            ("SET h x", "+OK"),
            ("HGET h f", WRONG),
            ("HSET h f 1", WRONG),
            ("GET h", "\"x\""),
            ("DEL h", ":1"),
            ("HSETNX h f 7", ":1"),
            ("HGETALL h", "[\"f\" \"7\"]"),
            ("HDEL h f x", ":1"),
            ("EXISTS h", ":0"),
            ("PREFIX h WITHVALUES", "[]"),
        ],
    );
    // As a pipeline, where GETs are looked up together.
    client.line("HSET h f 1");
    client
        .send(&[encode(&["SET", "s", "v"]), encode(&["GET", "s"]), encode(&["GET", "h"])].concat());
    assert_eq!([client.reply(), client.reply(), client.reply()], ["+OK", "\"v\"", WRONG]);
}

#[test]
fn hashes_are_part_of_transactions_and_of_watches() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    run(
        &mut client,
        &[
            ("MULTI", "+OK"),
            ("HSET h f 1", "+QUEUED"),
            ("HINCRBY h f 5", "+QUEUED"),
            ("HGETALL h", "+QUEUED"),
            ("HDEL h f", "+QUEUED"),
            ("TYPE h", "+QUEUED"),
            ("HSET h g 1", "+QUEUED"),
            ("DBSIZE", "+QUEUED"),
            ("GET h", "+QUEUED"),
        ],
    );
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    let replies = format!("[:1 :6 [\"f\" \"6\"] :1 +none :1 :1 {wrong}]");
    assert_eq!(client.line("EXEC"), replies);
    run(&mut client, &[("WATCH h", "+OK"), ("MULTI", "+OK"), ("SET k 1", "+QUEUED")]);
    assert_eq!(other.line("HSET h g 1"), ":0", "the value that it has");
    run(&mut client, &[("EXEC", "nil[]"), ("HGETALL h", "[\"g\" \"1\"]")]);
}

#[test]
fn several_fields_change_as_one_for_everybody() {
    let server = TestServer::with(|config| config.threads = 3);
    let writing = Arc::new(());
    let watch = Arc::downgrade(&writing);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let mut client = server.connect();
                scope.spawn(move || {
                    for round in 0..300 {
                        let value = format!("{writer}:{round}");
                        client.line(&format!("HSET h a {value} b {value}"));
                        client.line("HINCRBY h count 1");
                        client.line(&format!("HSET h own:{writer}:{round} 1"));
                        if round % 50 == 49 {
                            client.line("DEL other");
                            client.line("HSET other a 1 b 1");
                        }
                    }
                })
            })
            .collect();
        let mut reader = server.connect();
        scope.spawn(move || {
            while watch.strong_count() > 0 {
                let pair = reader.line("HMGET h a b");
                let (a, b) = pair[1..pair.len() - 1].split_once(' ').unwrap();
                assert_eq!(a, b);
                let other = reader.line("HGETALL other");
                let both = other.contains("\"a\" \"1\"") && other.contains("\"b\" \"1\"");
                assert!(both || other == "[]", "{other}");
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        drop(writing);
    });
    let mut client = server.connect();
    run(&mut client, &[("HGET h count", "\"900\""), ("HLEN h", ":903")]);
    assert_eq!(client.line("HKEYS h").matches("own:").count(), 900);
}

#[test]
fn what_is_removed_is_gone_at_once_and_freed_later() {
    let server = TestServer::start();
    let mut client = server.connect();
    let fill = |client: &mut Client, key: &str| {
        for part in 0..20 {
            let mut request = vec!["HSET".to_string(), key.to_string()];
            for field in 0..500 {
                request.extend([format!("{part}:{field}"), "value".to_string()]);
            }
            assert_eq!(client.ask(&request), ":500");
        }
    };
    for (key, removal) in
        [("a", "DEL a"), ("b", "SET b 1"), ("c", "EXPIREAT c 1"), ("d", "FLUSHALL")]
    {
        fill(&mut client, key);
        assert_eq!(client.line(&format!("HLEN {key}")), ":10000");
        client.line(removal);
        let there = i32::from(key == "b");
        assert_eq!(client.line(&format!("EXISTS {key}")), format!(":{there}"));
    }
    client.line("HSET kept f 1");
    let members = server.store.existing_map(MEMBERS).unwrap().unwrap();
    // The pool's mark, the number of the process, and one collection with one field.
    eventually("members are freed", || {
        client.line("PING");
        members.len() == 4
    });
    assert_eq!(client.line("HGETALL kept"), "[\"f\" \"1\"]");
}

/// What filled pools: a queue in a sorted set that empties all the time left each time what was to be freed later.
#[test]
fn a_sorted_set_that_is_emptied_leaves_nothing_to_be_freed() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.line("ZADD other 1 x");
    let members = server.store.existing_map(MEMBERS).unwrap().unwrap();
    let before = members.len();
    // Other members each time: of 64 one is chosen by the mark of the pool to be counted up to, and some are met.
    for round in 0..200 {
        let [a, b, c] = ["a", "b", "c"].map(|name| format!("{name}{round}"));
        let pops = ["ZPOPMIN q".into(), "ZPOPMAX q 5".into(), format!("ZREM q {a} {b} {c}")];
        for pop in pops {
            assert_eq!(client.line(&format!("ZADD q 1 {a} 2 {b} 3 {c}")), ":3");
            client.line(&pop);
            client.line("ZPOPMIN q 2");
            assert_eq!(client.line("EXISTS q"), ":0");
            assert_eq!(members.len(), before, "{pop}");
        }
    }
}

/// Numbers of what a killed server had acknowledged are all there, and counts are those of members.
#[test]
fn a_killed_server_comes_back_with_all_fields_and_their_count() {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = 0;
    for round in 0..4 {
        let server = ServerProcess::start(folder.path(), "");
        let mut client = server.connect();
        let count = |client: &mut Client| -> usize {
            client.line("HLEN h").strip_prefix(':').unwrap().parse().unwrap()
        };
        let all = client.line("HKEYS h");
        assert_eq!(count(&mut client), all.matches('"').count() / 2);
        for field in 0..acknowledged {
            assert!(all.contains(&format!("\"f{field}\"")), "f{field} was acknowledged");
        }
        if round == 3 {
            server.stop();
            return;
        }
        // More than is awaited, so that the end comes in the middle of some.
        let first = count(&mut client).max(acknowledged);
        for field in first..first + 2_000 {
            client.send(&encode(&["HSET", "h", &format!("f{field}"), "v"]));
        }
        for _ in 0..700 + 100 * round {
            assert!(client.reply().starts_with(':'));
        }
        acknowledged = first + 700 + 100 * round;
        server.kill();
    }
}

#[test]
fn a_scan_of_a_large_hash_returns_every_field_once() {
    let server = TestServer::start();
    let mut client = server.connect();
    for field in 0..1_000 {
        client.line(&format!("HSET h f{field} {field}"));
    }
    let (mut cursor, mut seen) = ("0".to_string(), Vec::new());
    loop {
        let reply = client.line(&format!("HSCAN h {cursor} COUNT 50"));
        let mut words: Vec<&str> = reply.split('"').skip(1).step_by(2).collect();
        let items = words.split_off(1);
        seen.extend(items.chunks(2).map(|pair| (pair[0].to_string(), pair[1].to_string())));
        cursor = words[0].to_string();
        if cursor == "0" {
            break;
        }
    }
    assert!(seen.iter().all(|(field, value)| field[1..] == *value));
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 1_000);
    let drawn = client.line("HRANDFIELD h 20");
    let mut fields: Vec<&str> = drawn.split('"').skip(1).step_by(2).collect();
    fields.sort_unstable();
    fields.dedup();
    assert_eq!(fields.len(), 20);
}

/// What was wrong: cursors had 64 bits, and clients that keep one as a floating-point number, as node-redis does, saw
/// about half of the members, and some of them several times.
#[test]
fn a_scan_is_whole_with_cursors_that_are_floats() {
    let server = TestServer::start();
    let mut client = server.connect();
    for number in 0..1_000 {
        client.send(&encode(&["HSET", "h", &format!("m{number}"), "1"]));
        client.send(&encode(&["SADD", "s", &format!("m{number}")]));
        client.send(&encode(&["ZADD", "z", "1", &format!("m{number}")]));
    }
    (0..3_000).for_each(|_| assert_eq!(client.reply(), ":1"));
    for (command, key, width) in [("HSCAN", "h", 2), ("SSCAN", "s", 1), ("ZSCAN", "z", 2)] {
        let (mut cursor, mut seen) = (0, Vec::new());
        loop {
            let reply = client.line(&format!("{command} {key} {cursor} COUNT 20"));
            let words: Vec<&str> = reply.split('"').skip(1).step_by(2).collect();
            seen.extend(words[1..].iter().step_by(width).map(|member| (*member).to_string()));
            cursor = words[0].parse::<f64>().unwrap() as u64;
            assert!(cursor < 1 << 53, "{command}: {cursor}");
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(seen.len(), 1_000, "{command}: each once");
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>().len(), 1_000, "{command}");
        // Nobody was ever given this one.
        let ended = client.line(&format!("{command} {key} {}", u64::MAX));
        assert_eq!(ended, "[\"0\" []]");
    }
}

#[test]
fn what_is_renamed_or_copied_is_whole_and_its_own() {
    let server = TestServer::start();
    let mut client = server.connect();
    run(
        &mut client,
        &[
            ("RENAME a b", "-ERR no such key"),
            ("COPY a b", ":0"),
            ("RPUSH list a b c", ":3"),
            ("LPUSH list z", ":4"),
            ("EXPIREAT list 4000000000", ":1"),
            ("ZADD zset 1 a 2 b 3 c", ":3"),
            ("RENAME list moved", "+OK"),
            ("LRANGE moved 0 -1", "[\"z\" \"a\" \"b\" \"c\"]"),
            ("EXPIRETIME moved", ":4000000000"),
            ("EXISTS list", ":0"),
            ("COPY moved list", ":1"),
            ("LPOP list", "\"z\""),
            ("EXPIRETIME list", ":4000000000"),
            ("LRANGE moved 0 0", "[\"z\"]"),
            ("COPY moved list", ":0"),
            ("RENAMENX moved zset", ":0"),
            ("COPY zset moved REPLACE", ":1"),
            ("ZADD moved 0 first", ":1"),
            ("ZRANK moved c", ":3"),
            ("ZRANK zset c", ":2"),
            ("RENAME moved moved", "+OK"),
            ("DEL moved", ":1"),
            ("RENAME list zset", "+OK"),
            ("LRANGE zset 0 -1", "[\"a\" \"b\" \"c\"]"),
            ("MULTI", "+OK"),
            ("SADD s 1 2 3", "+QUEUED"),
            ("COPY s t", "+QUEUED"),
            ("SREM t 1", "+QUEUED"),
            ("RENAME s u", "+QUEUED"),
            ("SCARD t", "+QUEUED"),
            ("SCARD u", "+QUEUED"),
            ("EXISTS s", "+QUEUED"),
            ("EXEC", "[:3 :1 :1 +OK :2 :3 :0]"),
            ("DEL t zset", ":2"),
        ],
    );
    let members = server.store.existing_map(MEMBERS).unwrap().unwrap();
    // The pool's mark, the number of the process, and one set of three.
    eventually("what is gone is freed, and what was renamed is not", || {
        client.line("PING");
        members.len() == 6
    });
    assert_eq!(client.line("SCARD u"), ":3");
    assert_eq!(client.line("SINTERCARD 1 u"), ":3");
}

/// What was wrong: a set or hash took a member of 65,520 bytes, and what `DUMP` made of it was refused by `RESTORE`.
#[test]
fn the_longest_members_are_restored() {
    let server = TestServer::start();
    let mut client = server.connect();
    let longest: [(&[&str], &str, usize); 3] = [
        (&["SADD", "k"], "SISMEMBER", (64 << 10) - 16),
        (&["HSET", "k"], "HGET", (64 << 10) - 16),
        (&["ZADD", "k", "1"], "ZSCORE", (64 << 10) - 17),
    ];
    for (add, ask, size) in longest {
        let mut put = |size: usize| {
            let member = "m".repeat(size);
            let value = (add[0] == "HSET").then_some("1");
            client.ask(&add.iter().copied().chain([&*member]).chain(value).collect::<Vec<_>>())
        };
        assert!(put(size + 1).starts_with("-ERR"), "{add:?}");
        assert_eq!(put(size), ":1", "{add:?}");
        client.send(&encode(&["DUMP", "k"]));
        let payload = client.bulk();
        client.send(&encode(&[&b"RESTORE"[..], b"restored", b"0", &payload, b"REPLACE"]));
        assert_eq!(client.reply(), "+OK", "{add:?}");
        let found = client.ask(&[ask, "restored", &"m".repeat(size)]);
        assert!([":1", "\"1\""].contains(&&*found), "{add:?}: {found}");
        assert_eq!(client.line("DEL k"), ":1");
    }
}
