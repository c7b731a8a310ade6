//! `MSET`s that come in one write, which are written together, and changes that change nothing: each answers as if it
//! were alone, and a connection that watches a key is told.

#![allow(clippy::unwrap_used, reason = "tests may fail")]

use std::path::Path;

use crate::support::{Client, TestServer, encode, open};
use crate::types::series::pipeline;

fn check(client: &mut Client, table: &[(&str, &str)]) {
    let lines: Vec<&str> = table.iter().map(|(line, _)| *line).collect();
    let replies = pipeline(client, &lines);
    for (index, ((line, expected), reply)) in table.iter().zip(&replies).enumerate() {
        assert!(reply.starts_with(expected), "{index}, {line}: {reply} instead of {expected}");
    }
}

#[test]
fn msets_of_a_pipeline_answer_each_and_the_last_counts() {
    let server = TestServer::start();
    let mut client = server.connect();
    check(
        &mut client,
        &[
            ("SADD set a b", ":2"),
            ("SET timed old PX 100000", "+OK"),
            ("MSET k 1 other 1", "+OK"),
            ("mset k 2 k 3", "+OK"),
            ("MSET k 4 set text timed new", "+OK"),
            ("GET k", "\"4\""),
            ("GET other", "\"1\""),
            ("TYPE set", "+string"),
            ("TTL timed", ":-1"),
            ("MSET k 5 other", "-ERR wrong number"),
            ("MSET k 6", "+OK"),
            ("MSET", "-ERR wrong number"),
            ("MSET k 7 l 7", "+OK"),
            ("SADD k a", "-WRONGTYPE"),
            ("MSET k 8", "+OK"),
            ("MSETNX k 9 m 9", ":0"),
            ("SELECT 3", "+OK"),
            ("MSET k here", "+OK"),
            ("MSET m here", "+OK"),
            ("SELECT 0", "+OK"),
            ("MGET k l m", "[\"8\" \"7\" nil]"),
        ],
    );
    // More than are written together.
    let many: Vec<String> = (0..300)
        .map(|number| {
            let pair = |key: u32| format!(" key{} {number}", (number * 7 + key) % 1000);
            format!("MSET{}", (0..10).map(pair).collect::<String>())
        })
        .collect();
    let lines: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(pipeline(&mut client, &lines).iter().all(|reply| reply == "+OK"));
    for key in 0..1000_u32 {
        let last = (0..300).rev().find(|number| (key + 1000 - number * 7 % 1000) % 1000 < 10);
        let wanted = last.map_or("nil".into(), |number| format!("\"{number}\""));
        assert_eq!(client.line(&format!("GET key{key}")), wanted, "{key}");
    }
}

#[test]
fn an_mset_that_is_refused_harms_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("small.pool"), 64 << 20);
    let server = TestServer::on(folder, store, |_| {});
    let mut client = server.connect();
    let long = "k".repeat(66_000);
    let mut replies = pipeline(
        &mut client,
        &["MSET a 1 b 1", &format!("MSET c 2 {long} 2"), "MSET b 3 d 3", "MGET a b c d"],
    );
    assert!(replies[1].starts_with("-ERR") && replies[1].contains("key"), "{}", replies[1]);
    replies.remove(1);
    assert_eq!(replies, ["+OK", "+OK", "[\"1\" \"3\" nil \"3\"]"]);
    // What the pool has no room for.
    let value = "v".repeat(40 << 20);
    let large = format!("MSET e {value} f {value}");
    let mut replies = pipeline(&mut client, &["MSET a 4", &large, "MSET b 5", "MGET a b e f"]);
    assert!(replies[1].starts_with("-OOM"), "{}", replies[1]);
    replies.remove(1);
    assert_eq!(replies, ["+OK", "+OK", "[\"4\" \"5\" nil nil]"]);
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Makes the reference of one entry lead nowhere: of a leaf of 4 KiB that has more than so many, the one of this
/// number. Returns whether there is one.
pub fn damage_leaf(pool: &Path, more_than: usize, number: usize) -> bool {
    const LIVE: u64 = 2 << 61 | ((1 << 30) - 1) << 31 | ((1 << 30) - 1) << 1;
    let mut bytes = std::fs::read(pool).unwrap();
    let leaves = (0..bytes.len()).step_by(4096).filter(|at| word(&bytes, *at) == LIVE);
    let live = |leaf: usize| {
        let places = (leaf + 32..leaf + 4096).step_by(16);
        places.filter(|at| word(&bytes, at + 8) >> 61 == 2).collect::<Vec<_>>()
    };
    let mut full = leaves.map(live).filter(|live| live.len() > more_than);
    let Some(place) = full.nth(number).map(|live| live[3] + 8) else { return false };
    let damaged = word(&bytes, place) ^ 1 << 40;
    bytes[place..place + 8].copy_from_slice(&damaged.to_le_bytes());
    std::fs::write(pool, bytes).unwrap();
    true
}

/// What was lost: all `MSET`s of a pipeline were refused if the leaf of one of their keys is damaged, as it is met in a
/// store that was opened at once. (A damaged record is replaced without a word.)
#[test]
fn a_key_of_a_damaged_leaf_refuses_its_own_mset_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name| folder.path().join(name);
    let open = |name| {
        let options = everleaf::Options::new().create(true).max_size_bytes(1 << 28).sweep(false);
        options.tree(everleaf::Tree::HashedLeaf).open_at_once(true).open(path(name)).unwrap()
    };
    let key = |number: u32| format!("key{number:05}");
    {
        let store = open("whole.pool");
        (0..8000).for_each(|number| _ = store.default_map().put(key(number), "v").unwrap());
        // As if the process were killed now.
        std::fs::copy(path("whole.pool"), path("damaged.pool")).unwrap();
    }
    assert!(damage_leaf(&path("damaged.pool"), 50, 10));
    let store = open("damaged.pool");
    let server = TestServer::on(folder, store, |_| {});
    let mut client = server.connect();
    let is_damaged = |client: &mut Client, number: u32| {
        client.line(&format!("GET {}", key(number))).starts_with('-')
    };
    let (damaged, sound): (Vec<u32>, Vec<u32>) =
        (0..8000).partition(|number| is_damaged(&mut client, *number));
    assert!(!damaged.is_empty() && sound.len() > 4000, "{} are damaged", damaged.len());
    let sound: Vec<String> = (0..4).map(|at| key(sound[at * 1000])).collect();
    let lines = [
        format!("MSET {} 1", sound[0]),
        format!("MSET {} 1", sound[1]),
        format!("MSET {} 1 {} 1", sound[2], key(damaged[0])),
        format!("MSET {} 1", sound[3]),
        format!("MGET {}", sound.join(" ")),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let mut replies = pipeline(&mut client, &lines);
    let refused = replies.remove(2);
    assert!(refused.starts_with('-') && refused.contains("damaged"), "{refused}");
    assert_eq!(replies, ["+OK", "+OK", "+OK", "[\"1\" \"1\" \"v\" \"1\"]"]);
}

/// What changes nothing touches the key as well.
#[test]
fn whoever_watches_is_told_of_what_is_written_together_or_anew() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    let writes = [
        &["MSET k 1 l 1", "MSET m 1 n 1"][..],
        &["MSET k 1 l 1", "MSET m 1 n 1"],
        &["HSET k f same"],
        &["HSET k f same"],
        &["HSET k f same", "HSET x f same"],
        &["HMSET k f same g same", "HMSET k f same g same"],
    ];
    for (round, lines) in writes.iter().enumerate() {
        if round == 2 {
            assert_eq!(other.line("DEL k"), ":1");
        }
        assert_eq!(client.line("WATCH k"), "+OK");
        pipeline(&mut other, lines);
        assert_eq!(client.line("MULTI"), "+OK");
        assert_eq!(client.line("PING"), "+QUEUED");
        assert_eq!(client.line("EXEC"), "nil[]", "round {round}");
    }
    assert_eq!(other.line("HMGET k f g"), "[\"same\" \"same\"]");
    // The number of changes goes up, the count does not.
    assert_eq!(other.line("HLEN k"), ":2");
    assert_eq!(
        pipeline(&mut other, &["HSET k f same g new h 1", "HGET k g", "HLEN k"]),
        [":1", "\"new\"", ":3"]
    );
    assert_eq!(other.line("HSET k f v f w"), ":0");
    assert_eq!(other.line("HGET k f"), "\"w\"");
    // What the step has written itself comes first.
    assert_eq!(
        pipeline(&mut other, &["HDEL k f", "HSET k f w", "HGET k f"]),
        [":1", ":1", "\"w\""]
    );
}

/// Counters of a pipeline beside others that change the same: no change is lost, with a log and without.
#[test]
fn counters_are_added_to_by_many_at_once() {
    let server = TestServer::start();
    let mut first = server.connect();
    assert_eq!(first.line("SADD wrong a"), ":1");
    assert_eq!(first.line("SET timed 5 EX 1000"), "+OK");
    let rounds = 40;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = server.connect();
                for _ in 0..rounds {
                    let mut request = Vec::new();
                    for _ in 0..10 {
                        request.extend(encode(&["INCR", "n"]));
                        request.extend(encode(&["INCR", "timed"]));
                        request.extend(encode(&["INCR", "wrong"]));
                    }
                    request.extend(encode(&["MSET", "m", "1", "o", "2"]));
                    client.send(&request);
                    for _ in 0..10 {
                        assert!(client.reply().starts_with(':'));
                        assert!(client.reply().starts_with(':'));
                        assert!(client.reply().starts_with("-WRONGTYPE"));
                    }
                    assert_eq!(client.reply(), "+OK");
                }
            });
        }
    });
    assert_eq!(first.line("GET n"), format!("\"{}\"", 4 * rounds * 10));
    assert_eq!(first.line("GET timed"), format!("\"{}\"", 4 * rounds * 10 + 5));
    assert!(first.line("TTL timed").trim_start_matches(':').parse::<i64>().unwrap() > 900);
    assert_eq!(first.line("SCARD wrong"), ":1");
    assert_eq!(first.line("SET n 9223372036854775807"), "+OK");
    assert!(pipeline(&mut first, &["INCR n", "INCR n"]).iter().all(|it| it.contains("overflow")));
}
