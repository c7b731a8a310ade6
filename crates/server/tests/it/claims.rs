//! Requests of a few bytes that ask for much: they are answered, or refused, without the memory that they claim.

use std::collections::BTreeSet;

use crate::support::{Client, PROCESS_REPLY_SIZE, ServerProcess, TestServer, encode};

const TOO_LONG: &str = "-ERR the reply would have more than";

/// A request with the same argument many times at its end.
fn repeated<'a>(args: &[&'a str], last: &'a str, count: usize) -> Vec<&'a str> {
    args.iter().copied().chain(std::iter::repeat_n(last, count)).collect()
}

/// What was lost: each of these ended the server, because it copied what was asked for before it looked at any limit.
#[test]
#[cfg(target_os = "linux")]
fn what_is_asked_for_many_times_is_not_held_many_times() {
    let folder = tempfile::tempdir().unwrap();
    // In KiB: what all of these claim is ten times as much and more.
    let setup = format!("export {PROCESS_REPLY_SIZE}=4000000 && ulimit -d 600000 &&");
    let server = ServerProcess::start(folder.path(), &setup);
    let mut client = server.connect();
    let long = vec![b'v'; 1 << 20];
    for command in [["HSET", "h", "f"], ["HSET", "many", "f"]] {
        let request: Vec<&[u8]> =
            command.iter().map(|arg| arg.as_bytes()).chain([&long[..]]).collect();
        assert_eq!(client.ask(&request), ":1");
    }
    assert_eq!(client.ask(&[&b"SET"[..], b"w_1", &long]), "+OK");
    assert_eq!(client.line("SADD s a"), ":1");
    for number in 0..300 {
        assert_eq!(client.line(&format!("HSET many field{number} value")), ":1");
        assert_eq!(client.line(&format!("SADD large member{number}")), ":1");
    }
    assert_eq!(client.ask(&repeated(&["RPUSH", "l"], "1", 8000)), ":8000");
    for line in [
        "HRANDFIELD h -8000 WITHVALUES",
        "HRANDFIELD many -1000000 WITHVALUES",
        "SRANDMEMBER s -67108864",
        "SRANDMEMBER large -67108864",
        "SRANDMEMBER large -9223372036854775807",
        "LRANGE l 0 -1",
    ] {
        let reply = client.line(line);
        let is_short = line == "LRANGE l 0 -1";
        assert_eq!(reply.starts_with(TOO_LONG), !is_short, "{line}: {:.80}", reply);
    }
    let reply = client.ask(&repeated(&["HMGET", "h"], "f", 8000));
    assert!(reply.starts_with(TOO_LONG), "{reply:.80}");
    let reply = client.line("SORT l BY w_* ALPHA");
    assert!(reply.starts_with("-OOM so many members"), "{reply:.80}");
    assert_eq!(client.line("HRANDFIELD h"), "\"f\"");
    assert_eq!(client.line("SRANDMEMBER s -3"), "[\"a\" \"a\" \"a\"]");
    drop(client);
    server.stop();
}

/// The count of a command that takes several steps was compared in each of them with the room that those before it had
/// left: a reply that fits was refused.
#[test]
fn draws_in_several_steps_may_fill_a_reply() {
    let server = TestServer::with(|config| config.reply_size_max = 400_000);
    let mut client = server.connect();
    assert_eq!(client.line("SADD s m"), ":1");
    // An element takes seven bytes, of at least six that a count is refused by.
    let reply = client.line("SRANDMEMBER s -55000");
    assert_eq!(reply.matches("\"m\"").count(), 55_000, "{reply:.80}");
    assert!(client.line("SRANDMEMBER s -58000").starts_with(TOO_LONG));
    assert!(client.line("SRANDMEMBER s -70000").starts_with(TOO_LONG));
}

/// A collection of long values comes in steps that are no longer than a reply may be: what was refused at each step.
#[test]
fn a_scan_of_long_values_ends_each_step_early() {
    let server = TestServer::with(|config| config.reply_size_max = 100_000);
    let mut client = server.connect();
    let value = "v".repeat(9_000);
    for number in 0..60 {
        assert_eq!(client.ask(&["HSET", "h", &format!("field{number}"), &value]), ":1");
        let member = format!("member{number}:{value}");
        assert_eq!(client.ask(&["SADD", "s", &member]), ":1");
        assert_eq!(client.ask(&["ZADD", "z", "1", &member]), ":1");
    }
    for (command, key) in [("HSCAN", "h"), ("SSCAN", "s"), ("ZSCAN", "z")] {
        let (mut cursor, mut steps, mut seen) = ("0".to_string(), 0, BTreeSet::new());
        loop {
            let reply = client.line(&format!("{command} {key} {cursor} COUNT 1000"));
            let (next, items) = reply[1..].split_once(' ').expect(&reply);
            let names = items.split(['"', '[', ']', ' ']);
            let names =
                names.filter(|name| name.starts_with("field") || name.starts_with("member"));
            let found: Vec<String> = names.map(|name| name[..9.min(name.len())].into()).collect();
            assert!(found.len() < 20, "{command}: {}", found.len());
            seen.extend(found);
            steps += 1;
            cursor = next.trim_matches('"').to_string();
            if cursor == "0" {
                break;
            }
        }
        assert!(steps >= 6, "{command}: {steps}");
        assert_eq!(seen.len(), 60, "{command}: {seen:?}");
    }
}

/// What was wrong: a step went on through as many keys or members as were asked for, however long each was matched.
#[test]
fn a_scan_with_a_long_pattern_ends_each_step_in_time() {
    let server = TestServer::start();
    let mut client = server.connect();
    for number in 0..100 {
        let name = format!("{}{number}", "a".repeat(3_000));
        assert_eq!(client.ask(&["HSET", "h", &name, "v"]), ":1");
        assert_eq!(client.ask(&["SADD", "s", &name]), ":1");
        assert_eq!(client.ask(&["ZADD", "z", "1", &name]), ":1");
        assert_eq!(client.ask(&["SET", &name, "v"]), "+OK");
    }
    let pattern = format!("*{}b*", "a".repeat(1_500));
    for command in ["SCAN", "HSCAN h", "SSCAN s", "ZSCAN z"] {
        let (mut cursor, mut steps) = ("0".to_string(), 0);
        loop {
            let reply = client.line(&format!("{command} {cursor} MATCH {pattern} COUNT 1000"));
            let (next, items) = reply[2..].split_once('"').unwrap();
            assert_eq!(items, " []]", "nothing matches");
            steps += 1;
            cursor = next.to_string();
            if cursor == "0" {
                break;
            }
        }
        assert!(steps >= 3, "{command}: {steps}");
    }
}

/// Whatever a command answers ends at the limit, and what was cut is no reply.
#[test]
fn no_command_answers_more_than_a_reply_may_have() {
    let server = TestServer::with(|config| config.reply_size_max = 100_000);
    let mut client = server.connect();
    let names = ["get"; 2000];
    for subcommand in ["INFO", "DOCS"] {
        let request = [&["COMMAND", subcommand][..], &names].concat();
        client.send(&[encode(&request), encode(&["PING"])].concat());
        let reply = client.reply();
        assert!(reply.starts_with(TOO_LONG), "{reply:.80}");
        assert_eq!(client.reply(), "+PONG");
    }
}

/// So many different ones, as often as wanted, from small collections and large ones.
#[test]
fn what_is_drawn_is_there_and_so_often() {
    let server = TestServer::start();
    let mut client = server.connect();
    for size in [1, 5, 127, 129, 1000] {
        for number in 0..size {
            client.line(&format!("SADD s{size} m{number}"));
            client.line(&format!("HSET h{size} m{number} v{number}"));
            client.line(&format!("ZADD z{size} {number} m{number}"));
        }
        for count in [1_i64, 2, 4, 100, 700, 5000, -1, -3, -300] {
            let expected = if count > 0 { count.min(size) } else { -count } as usize;
            for command in ["SRANDMEMBER s", "HRANDFIELD h", "ZRANDMEMBER z"] {
                let line = format!("{command}{size} {count}");
                let reply = client.line(&line);
                let members: Vec<&str> =
                    reply.split(['"', '[', ']', ' ']).filter(|word| !word.is_empty()).collect();
                assert_eq!(members.len(), expected, "{line}: {reply}");
                let is_member = |word: &&str| {
                    let number = word.strip_prefix('m').and_then(|text| text.parse::<i64>().ok());
                    number.is_some_and(|number| (0..size).contains(&number))
                };
                assert!(members.iter().all(is_member), "{line}: {reply}");
                let different: BTreeSet<&str> = members.into_iter().collect();
                assert!(count < 0 || different.len() == expected, "{line}: {reply}");
            }
        }
        let reply = client.line(&format!("HRANDFIELD h{size} -2 WITHVALUES"));
        assert_eq!((reply.matches("\"m").count(), reply.matches("\"v").count()), (2, 2), "{reply}");
        let seen: BTreeSet<String> =
            (0..200).map(|_| client.line(&format!("SRANDMEMBER s{size} 1"))).collect();
        assert!(seen.len() as i64 > size.min(50) / 2, "{size}: {seen:?}");
    }
}

/// What was lost: the header of an array shrinks when it is closed, and what had been left out for want of room was
/// forgotten with it: a client waited for the last value, or took the next reply for it.
#[test]
fn a_reply_of_which_something_was_left_out_is_an_error() {
    let server = TestServer::with(|config| config.reply_size_max = 100_000);
    let mut client = server.connect();
    for hundred in 0..60 {
        let fields: Vec<String> = (0..100).map(|one| format!("{hundred:02}{one:02}")).collect();
        let pairs = fields.iter().flat_map(|field| [field.as_str(), "v"]);
        let request: Vec<&str> = ["HSET", "h"].into_iter().chain(pairs).collect();
        assert_eq!(client.ask(&request), ":100");
    }
    assert_eq!(client.ask(&repeated(&["RPUSH", "l"], "1", 14_300)), ":14300");
    assert_eq!(client.line("SADD s a"), ":1");
    for line in
        ["HGETALL h", "SRANDMEMBER s -14300", "LRANGE l 0 -1", "HRANDFIELD h -6000 WITHVALUES"]
    {
        let reply = client.line(line);
        assert!(reply.starts_with(TOO_LONG), "{line}: {reply:.80}");
        assert_eq!(client.line("PING"), "+PONG", "{line}");
        assert_eq!(client.line("MULTI"), "+OK");
        assert_eq!(client.line(line), "+QUEUED");
        assert_eq!(client.line("PING"), "+QUEUED");
        let reply = client.line("EXEC");
        assert!(reply.contains("the reply would have more than"), "{line}: {reply:.80}");
        assert_eq!(client.line("PING"), "+PONG", "{line}");
    }
}

/// What was refused: commands that hold what they answer charged 64 bytes for each item, so that replies of short ones
/// were too long for them that were not.
#[test]
fn whatever_fits_into_a_reply_is_answered() {
    // Each item takes ten bytes at most in a reply, and took 64 in the account.
    let server = TestServer::with(|config| config.reply_size_max = 65_000);
    let mut client = server.connect();
    let count = 5000;
    let fill = |client: &mut Client, key: &str| {
        for first in (0..count).step_by(500) {
            let numbers = first..first + 500;
            let words: Vec<String> = match key {
                "l" => numbers.map(|_| "x".to_string()).collect(),
                "s" => numbers.map(|number| number.to_string()).collect(),
                _ => numbers.flat_map(|number| ["1".to_string(), number.to_string()]).collect(),
            };
            let name = match key {
                "l" => "RPUSH",
                "s" => "SADD",
                "h" => "HSET",
                _ => "ZADD",
            };
            // Fields are as many as pairs.
            let words = if name == "HSET" {
                words.chunks(2).flat_map(|pair| [pair[1].clone(), pair[0].clone()]).collect()
            } else {
                words
            };
            let request = [vec![name.to_string(), key.to_string()], words].concat();
            assert_eq!(
                client.ask(&request),
                format!(":{}", if name == "RPUSH" { first + 500 } else { 500 })
            );
        }
    };
    let items = |reply: &str| reply.split(' ').count();
    ["l", "s", "z", "h"].into_iter().for_each(|key| fill(&mut client, key));
    for (line, expected) in [
        ("LPOS l x COUNT 0", count),
        ("ZRANGE z 0 -1", count),
        ("ZREVRANGE z 0 -1", count),
        ("ZRANGEBYSCORE z 0 2", count),
        ("ZRANGE z 0 2000 WITHSCORES", 4002),
        ("SRANDMEMBER s 1200", 1200),
        ("HRANDFIELD h 1200", 1200),
        ("ZRANDMEMBER z 1200", 1200),
        ("SRANDMEMBER s 4999", 4999),
    ] {
        let reply = client.line(line);
        assert!(reply.starts_with('['), "{line}: {reply:.100}");
        assert_eq!(items(&reply), expected, "{line}");
    }
    for (key, line) in [
        ("l", "LPOP l 5000"),
        ("l", "RPOP l 4000"),
        ("s", "SPOP s 5000"),
        ("s", "SPOP s 3000"),
        ("z", "ZPOPMIN z 3000"),
        ("l", "LMPOP 1 l LEFT COUNT 5000"),
    ] {
        client.line(&format!("DEL {key}"));
        fill(&mut client, key);
        let reply = client.line(line);
        assert!(reply.starts_with('['), "{line}: {reply:.100}");
        assert!(items(&reply) >= 3000, "{line}: {}", items(&reply));
    }
    // What does not fit is refused, and nothing is removed.
    fill(&mut client, "z2");
    let before = client.line("ZCARD z2");
    for line in ["ZRANGE z2 0 -1 WITHSCORES", "ZPOPMIN z2 5000"] {
        let reply = client.line(line);
        assert!(reply.starts_with(TOO_LONG), "{line}: {reply:.100}");
    }
    assert_eq!(client.line("ZCARD z2"), before);
}

/// What took memory: the places of all elements to be removed, of which a list may have any number.
#[test]
fn removing_very_many_equal_elements_is_refused_or_a_no_op() {
    let server = TestServer::start();
    let mut client = server.connect();
    let words = vec!["x"; 10_000];
    for _ in 0..3 {
        client.ask(&[&["RPUSH", "l"][..], &words].concat());
    }
    assert_eq!(client.line("LREM l 0 x"), ":30000");
    assert_eq!(client.line("EXISTS l"), ":0");
    client.ask(&[&["RPUSH", "l", "y"][..], &words, &["y"]].concat());
    assert_eq!(client.line("LREM l 9000 x"), ":9000");
    assert_eq!(client.line("LREM l -500 x"), ":500");
    assert_eq!(client.line("LREM l 0 x"), ":500");
    assert_eq!(client.line("LRANGE l 0 -1"), "[\"y\" \"y\"]");
}
