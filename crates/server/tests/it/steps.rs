//! Commands of several keys are one step, and a command or a transaction has one time.

#![allow(clippy::unwrap_used, reason = "tests may fail")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use everleaf::{Durability, Options};
use everleaf_server::DebugCommand;

use crate::support::{Client, TestServer, open};

/// Event loops: as many as there are clients in these tests, and one.
const LOOPS: usize = 4;
/// Keys of a command.
const KEYS: usize = 50;
const ROUNDS: usize = 1500;

/// A server on a store without a log, where writers keep no order unless they must, and one with a log, where they
/// always do.
fn servers() -> impl Iterator<Item = TestServer> {
    [Durability::Process, Durability::Interval(Duration::from_millis(5))].into_iter().map(
        |durability| {
            let folder = tempfile::tempdir().unwrap();
            let options =
                Options::new().create(true).max_size_bytes(1 << 30).durability(durability);
            let store = options.open(folder.path().join("test.pool")).unwrap();
            TestServer::on(folder, store, |config| config.threads = LOOPS)
        },
    )
}

fn names() -> String {
    (0..KEYS).map(|number| format!("k{number}")).collect::<Vec<_>>().join(" ")
}

/// `MSET` of all keys to a value.
fn set_all(value: &str) -> String {
    format!("MSET {} {value}", names().replace(' ', &format!(" {value} ")))
}

/// Runs what others do all the time beside what one does and judges.
fn beside(others: Vec<Box<dyn FnMut() + Send + '_>>, one: impl FnOnce()) {
    // Dropped behind the one, also by a panic: then the others end.
    let judging = Arc::new(());
    let watch = Arc::downgrade(&judging);
    std::thread::scope(|scope| {
        for mut other in others {
            let watch = &watch;
            scope.spawn(move || {
                while watch.strong_count() > 0 {
                    other();
                }
            });
        }
        one();
        drop(judging);
    });
}

/// What was wrong: beside `MSET a 1 b 1` and `MSET a 2 b 2`, `MGET a b` showed `1 2`.
#[test]
fn several_keys_are_read_at_one_moment() {
    for server in servers() {
        let (mut one, mut other, mut reader) =
            (server.connect(), server.connect(), server.connect());
        assert_eq!(one.line(&set_all("0")), "+OK");
        let mut number = 0;
        let sets = move || {
            number += 2;
            assert_eq!(one.line(&set_all(&number.to_string())), "+OK");
        };
        let mut number = 1;
        let transactions = move || {
            number += 2;
            other.send(b"MULTI\r\n");
            for name in names().split(' ') {
                other.send(format!("SET {name} {number}\r\n").as_bytes());
            }
            other.send(b"EXEC\r\n");
            assert_eq!(other.reply(), "+OK");
            (0..KEYS).for_each(|_| assert_eq!(other.reply(), "+QUEUED"));
            assert_eq!(other.reply(), format!("[{}]", vec!["+OK"; KEYS].join(" ")));
        };
        let mut wrong = vec![];
        let (mut last, mut changes) = (String::new(), 0);
        beside(vec![Box::new(sets), Box::new(transactions)], || {
            for _ in 0..ROUNDS {
                let values = reader.line(&format!("MGET {}", names()));
                let mut all = values[1..values.len() - 1].split(' ');
                let first = all.next().unwrap();
                if all.any(|value| value != first) {
                    wrong.push(values.clone());
                }
                changes += u64::from(first != last);
                last = first.to_string();
            }
        });
        assert!(wrong.is_empty(), "{} of {ROUNDS}, such as {}", wrong.len(), wrong[0]);
        assert!(changes > 10, "it was read beside {changes} changes");
    }
}

/// What was wrong: keys that come and go together were counted one by one.
#[test]
fn several_keys_are_counted_at_one_moment() {
    for server in servers() {
        let (mut writer, mut reader) = (server.connect(), server.connect());
        let writes = move || {
            assert_eq!(writer.line("MSET k1 a k2 b"), "+OK");
            assert_eq!(writer.line("DEL k1 none k2"), ":2");
            assert_eq!(writer.line("MSET k1 a k2 b"), "+OK");
            assert_eq!(writer.line("UNLINK k2 k1"), ":2");
        };
        let mut wrong = vec![];
        beside(vec![Box::new(writes)], || {
            for _ in 0..ROUNDS {
                for command in ["EXISTS k1 k2", "TOUCH k2 k1", "EXISTS k1 k1 k2 k2"] {
                    let count = reader.line(command);
                    if ![":0", if command.len() > 14 { ":4" } else { ":2" }].contains(&&*count) {
                        wrong.push(format!("{command}: {count}"));
                    }
                }
            }
        });
        assert!(wrong.is_empty(), "{} of {ROUNDS}, such as {}", wrong.len(), wrong[0]);
    }
}

/// What was wrong: of two clients that removed the same keys each got some of them.
#[test]
fn several_keys_are_removed_as_one() {
    for server in servers() {
        // So many that each takes longer over them than the other comes later.
        let names: Vec<String> = (0..1000).map(|number| format!("k{number}")).collect();
        let (set, names) = (format!("MSET {} v", names.join(" v ")), names.join(" "));
        let (barrier, set, names) = (Barrier::new(2), &set, &names);
        let [one, other] = std::thread::scope(|scope| {
            let threads = ["DEL", "UNLINK"].map(|command| {
                let (mut client, barrier) = (server.connect(), &barrier);
                scope.spawn(move || {
                    let mut count = || {
                        if command == "DEL" {
                            assert_eq!(client.line(set), "+OK");
                        }
                        barrier.wait();
                        let count = client.line(&format!("{command} {names}"));
                        barrier.wait();
                        count
                    };
                    (0..50).map(|_| count()).collect::<Vec<_>>()
                })
            });
            threads.map(|thread| thread.join().unwrap())
        });
        for pair in one.iter().zip(&other) {
            let is_one = [(":0", ":1000"), (":1000", ":0")].contains(&(&**pair.0, &**pair.1));
            assert!(is_one, "{pair:?}");
        }
    }
}

/// Asks for the replies to some lines.
fn expect(client: &mut Client, lines: &[(&str, &str)]) {
    for (line, expected) in lines {
        assert_eq!(client.line(line), *expected, "{line}");
    }
}

/// What is removed with others is what would have been removed by itself, to clients that watch it, too; and what has
/// expired was not there.
#[test]
fn of_several_keys_those_go_that_are_there() {
    for server in servers() {
        let (mut client, mut other) = (server.connect(), server.connect());
        for command in ["DEL", "UNLINK"] {
            for line in ["SET string v", "HSET hash f v", "SET past v PXAT 1", "WATCH none past"] {
                assert!(!client.line(line).starts_with('-'), "{line}");
            }
            let removed = other.line(&format!("{command} string none hash string past"));
            assert_eq!(removed, ":2", "{command}");
            let unwritten = [("MULTI", "+OK"), ("PING", "+QUEUED"), ("EXEC", "[+PONG]")];
            expect(&mut client, &unwritten);
            let gone = [
                ("EXISTS string none hash past string", ":0"),
                ("DBSIZE", ":0"),
                ("SET string v", "+OK"),
                ("EXISTS string none string", ":2"),
                ("MGET string none string", "[\"v\" nil \"v\"]"),
                ("WATCH string", "+OK"),
            ];
            expect(&mut client, &gone);
            assert_eq!(other.line(&format!("{command} none string")), ":1");
            let written = [("MULTI", "+OK"), ("PING", "+QUEUED"), ("EXEC", "nil[]")];
            expect(&mut client, &written);
        }
    }
}

/// Removing several keys as one step needs room to write them down, which a full pool has not: they make room all the
/// same.
#[test]
fn a_full_pool_is_emptied_by_several_keys_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("small.pool"), 16 << 20);
    let server = TestServer::on(folder, store, |_| {});
    let mut client = server.connect();
    let mut count = 0;
    for size in [60_000, 1000, 100, 10, 1] {
        let value = "v".repeat(size);
        while client.line(&format!("SET {count} {value}")) == "+OK" {
            count += 1;
        }
    }
    assert!(client.line("MSET a 1 b 2").starts_with("-OOM"));
    expect(
        &mut client,
        &[("DEL 0 1 none 2", ":3"), ("UNLINK 3 4 5", ":3"), ("MSET a 1 b 2", "+OK")],
    );
}

/// What was wrong: a transaction that nobody writes beside saw keys expire on its way. A command of it that looked at
/// such a key twice could answer nothing, and the array of `EXEC` was short.
#[test]
fn a_transaction_has_one_time() {
    let server = TestServer::with(|config| config.debug_command = DebugCommand::Yes);
    let mut client = server.connect();
    let long = "v".repeat(5000);
    // A busy machine may be late for the first look.
    let is_in_time = [50, 500, 5000].into_iter().any(|time| {
        let setup = ["FLUSHALL", "SADD set m", "RPUSH list a", "SET string v", "SET kept v"];
        for line in setup.map(str::to_string).into_iter().chain([format!("SET long {long}")]) {
            assert!(!client.line(&line).starts_with('-'), "{line}");
        }
        for key in ["set", "list", "string", "long"] {
            assert_eq!(client.line(&format!("PEXPIRE {key} {time}")), ":1");
        }
        let sleep = format!("DEBUG SLEEP {}", f64::from(time + 20) / 1000.0);
        let script = [
            ("EXISTS set list string long", ":4"),
            (&*sleep, "+OK"),
            ("SMOVE set other m", ":1"),
            ("LPUSHX list b", ":2"),
            ("RENAMENX string moved", ":1"),
            ("EXISTS moved", ":1"),
            ("STRLEN long", ":5000"),
            ("MGET moved kept", "[\"v\" \"v\"]"),
            ("SET own v PX 10", "+OK"),
            ("DEBUG SLEEP 0.02", "+OK"),
            ("GET own", "\"v\""),
            ("PTTL own", ":10"),
            ("DBSIZE", ":6"),
            ("KEYS l*", "[\"list\" \"long\"]"),
        ];
        assert_eq!(client.line("MULTI"), "+OK");
        for (line, _) in &script {
            assert_eq!(client.line(line), "+QUEUED", "{line}");
        }
        let replies = client.line("EXEC");
        let expected: Vec<&str> = script.iter().map(|(_, reply)| *reply).collect();
        let is_in_time = replies.starts_with("[:4 ");
        assert!(!is_in_time || replies == format!("[{}]", expected.join(" ")), "{replies}");
        is_in_time
    });
    assert!(is_in_time);
    assert_eq!(client.line("EXISTS other kept list long moved own"), ":2", "their time has come");
}

/// What was wrong: in a transaction, of several keys and with a log what had expired was not removed with the rest, and
/// `DBSIZE` counted it until the sweep came by.
#[test]
fn what_has_expired_and_is_removed_counts_no_more() {
    for durability in [Durability::Process, Durability::Power] {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new().create(true).max_size_bytes(1 << 28).durability(durability);
        let store = options.open(folder.path().join("test.pool")).unwrap();
        let server =
            TestServer::on(folder, store, |config| config.debug_command = DebugCommand::Yes);
        let mut client = server.connect();
        let mut expect = |line: &str, reply: &str| {
            assert_eq!(client.line(line), reply, "{line}, {durability:?}");
        };
        expect("DEBUG SET-ACTIVE-EXPIRE 0", "+OK");
        for (line, reply) in [
            ("FLUSHALL", "+OK"),
            ("FLUSHDB", "+OK"),
            ("DEL k", ":0"),
            ("UNLINK other k", ":0"),
            ("SUNIONSTORE k other", ":0"),
        ] {
            expect("SET k v PXAT 1", "+OK");
            expect("DBSIZE", ":1");
            expect(line, reply);
            expect("DBSIZE", ":0");
            // With a command for which it runs alone, and without.
            for second in ["DBSIZE", "EXISTS k"] {
                expect("SET k v PXAT 1", "+OK");
                expect("MULTI", "+OK");
                expect(line, "+QUEUED");
                expect(second, "+QUEUED");
                expect("EXEC", &format!("[{reply} :0]"));
                expect("DBSIZE", ":0");
            }
        }
        expect("MULTI", "+OK");
        expect("SET k v PXAT 1", "+QUEUED");
        expect("DEL k", "+QUEUED");
        expect("EXEC", "[+OK :0]");
        expect("DBSIZE", ":0");
    }
}

/// What was wrong: `LCS` made its table in the step that reads the strings. While another client changed one of them it
/// was made eight times in vain, and once more with every client waiting.
#[test]
fn nobody_waits_for_a_long_lcs() {
    let server = TestServer::with(|config| config.threads = 2);
    let (mut slow, mut quick) = (server.connect(), server.connect());
    assert_eq!(quick.ask(&["SET", "a", &"a".repeat(8_000)]), "+OK");
    assert_eq!(slow.ask(&["SET", "b", &"b".repeat(8_000)]), "+OK");
    // Others may have the processors in one of them.
    let times: Vec<_> = (0..4).map(|_| time_lcs(&mut slow, &mut quick)).collect();
    let is_short =
        |[alone, took, longest]: &[Duration; 3]| *took < 6 * *alone && *longest < *alone / 2;
    assert!(
        times.iter().any(is_short),
        "alone, beside another, the longest wait of the other: {times:?}"
    );
}

/// How long `LCS` takes alone, how long beside a client that changes a string until it has an answer, and for how long
/// that client waits at most.
fn time_lcs(slow: &mut Client, quick: &mut Client) -> [Duration; 3] {
    let began = Instant::now();
    slow.line("LCS a b LEN");
    let alone = began.elapsed();
    let (began, is_done) = (Instant::now(), AtomicBool::new(false));
    let mut longest = Duration::ZERO;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(slow.line("LCS a b LEN"), ":0");
            // Relaxed: nothing else is told by it.
            is_done.store(true, Ordering::Relaxed);
        });
        for number in 0.. {
            if is_done.load(Ordering::Relaxed) || began.elapsed() > 20 * alone {
                break;
            }
            let sent = Instant::now();
            assert_eq!(quick.ask(&["SET", "a", &format!("{number:0>8000}")]), "+OK");
            longest = longest.max(sent.elapsed());
        }
    });
    [alone, began.elapsed(), longest]
}

/// What was wrong: each name of a key was a copy of its string, so that a short request took as long as it liked.
#[test]
fn a_key_that_is_named_often_is_combined_once() {
    let server = TestServer::start();
    let mut client = server.connect();
    assert_eq!(client.line("SETRANGE k 1048575 a"), ":1048576");
    assert_eq!(client.line("SET short b"), "+OK");
    let began = Instant::now();
    for (operation, count, expected) in
        [("OR", 10_000, "a"), ("AND", 10_000, "a"), ("XOR", 9_999, "a"), ("XOR", 10_000, "\\x00")]
    {
        let request: Vec<&str> =
            ["BITOP", operation, "d"].into_iter().chain(vec!["k"; count]).collect();
        assert_eq!(client.ask(&request), ":1048576", "{operation}");
        assert_eq!(client.line("GETRANGE d -1 -1"), format!("\"{expected}\""), "{operation}");
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(client.line("BITOP XOR d short k short"), ":1048576");
    assert_eq!(client.line("GETRANGE d 0 0"), "\"\\x00\"");
    assert_eq!(client.line("BITOP XOR d none short"), ":1");
    assert_eq!(client.line("GET d"), "\"b\"");
}
