//! Times at which keys expire, and transactions, as clients see them.

#![allow(clippy::unwrap_used, reason = "tests may fail")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::{Client, TestServer, encode, eventually};

/// Runs lines on one connection and compares each reply.
fn run(client: &mut Client, script: &[(&str, &str)]) {
    for (line, expected) in script {
        assert_eq!(client.line(line), *expected, "{line}");
    }
}

fn number(reply: &str) -> i64 {
    reply.strip_prefix(':').unwrap().parse().unwrap()
}

/// What is done to the expiry of a long value in a transaction, which keeps no copy of the value: all commands of the
/// transaction see it, and whatever else writes the key comes in its order.
#[test]
fn a_transaction_changes_the_expiry_of_a_long_value_alone() {
    let server = TestServer::start();
    let mut client = server.connect();
    let long = vec![b'v'; 5000];
    // With KEYS among them, nobody else may write meanwhile: that is another way through the server.
    for alone in [false, true] {
        let mut exec = |commands: &[&str], expected: &str| {
            assert_eq!(client.ask(&[&b"SET"[..], b"k", &long]), "+OK");
            assert_eq!(client.line("EXPIREAT k 4000000000"), ":1");
            assert_eq!(client.line("MULTI"), "+OK");
            let commands = commands.iter().copied().chain(alone.then_some("KEYS none"));
            for command in commands {
                assert_eq!(client.line(command), "+QUEUED", "{command}");
            }
            let expected = if alone { expected.replace(']', " []]") } else { expected.to_string() };
            assert_eq!(client.line("EXEC"), expected);
            let size = client.line("STRLEN k");
            (client.line("EXPIRETIME k"), size)
        };
        let kept = |expiry: &str| (expiry.to_string(), ":5000".to_string());
        let seen = ["EXPIREAT k 4000000005", "EXPIRETIME k", "STRLEN k", "EXPIREAT k 1 GT"];
        assert_eq!(exec(&seen, "[:1 :4000000005 :5000 :0]"), kept(":4000000005"));
        let twice = ["EXPIREAT k 4000000005", "PERSIST k", "PERSIST k", "TTL k"];
        assert_eq!(exec(&twice, "[:1 :1 :0 :-1]"), kept(":-1"));
        let grown = ["PERSIST k", "APPEND k x", "EXPIREAT k 4000000006"];
        let (expiry, size) = exec(&grown, "[:1 :5001 :1]");
        assert_eq!((&*expiry, &*size), (":4000000006", ":5001"));
        let put = ["EXPIREAT k 4000000005", "SET k w", "TTL k", "GET k"];
        let (expiry, size) = exec(&put, "[:1 +OK :-1 \"w\"]");
        assert_eq!((&*expiry, &*size), (":-1", ":1"));
        let removed = ["EXPIREAT k 4000000005", "DEL k", "EXISTS k", "EXPIREAT k 4000000005"];
        assert_eq!(exec(&removed, "[:1 :1 :0 :0]").0, ":-2");
        let renamed = ["EXPIREAT k 4000000005", "RENAME k other", "EXPIRETIME other", "EXISTS k"];
        assert_eq!(exec(&renamed, "[:1 +OK :4000000005 :0]").0, ":-2");
        let failed = ["EXPIREAT k 4000000005", "LPUSH k x", "EXPIREAT k 4000000007"];
        let error = "-WRONGTYPE Operation against a key holding the wrong kind of value";
        assert_eq!(exec(&failed, &format!("[:1 {error} :1]")), kept(":4000000007"));
    }
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

/// What broke programs: a wrong subcommand, or a wrong number of its arguments, did not end the transaction it was
/// queued in.
#[test]
fn a_transaction_is_run_as_a_whole() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    let unknown = client.line("CLIENT NONE");
    assert!(
        unknown.starts_with("-ERR unknown subcommand 'NONE'. CLIENT knows GETNAME, GETREDIR, ID")
    );
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
            (
                "NOSUCH",
                "-ERR unknown command 'NOSUCH', with args beginning with: (what differs from Redis: \
                 docs/redis-differences.md)",
            ),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("MULTI", "+OK"),
            ("GET", "-ERR wrong number of arguments for 'get' command"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("MULTI", "+OK"),
            ("SAVE", "-ERR Command not allowed inside a transaction"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("MULTI", "+OK"),
            ("CLIENT NONE", &unknown),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("MULTI", "+OK"),
            (
                "CONFIG RESETSTAT now",
                "-ERR wrong number of arguments for 'config|resetstat' command",
            ),
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

/// `EXEC` without `MULTI` is refused; it also ended the watching, and the next `EXEC` missed a write.
#[test]
fn an_exec_that_is_refused_leaves_the_watches() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    run(&mut client, &[("WATCH k", "+OK"), ("EXEC", "-ERR EXEC without MULTI")]);
    assert_eq!(other.line("SET k 1"), "+OK");
    run(&mut client, &[("MULTI", "+OK"), ("EXEC", "nil[]")]);
}

/// `WATCH` notes what a key is then: whatever comes between it and `EXEC` counts, also before `MULTI`,
/// and also if it is watched again.
#[test]
fn what_a_key_was_when_it_was_watched_counts_and_nothing_later() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    let long = "x".repeat(100_000);
    let other_long = format!("{}y", &long[1..]);
    let changes = [
        ("SET k 2".to_string(), "+OK"),
        ("EXPIREAT k 4000000000".to_string(), ":1"),
        ("DEL k".to_string(), ":1"),
        (format!("SET k {other_long}"), "+OK"),
    ];
    for (change, answer) in &changes {
        client.line(&format!("SET k {long}"));
        assert_eq!(client.line("WATCH none k k"), "+OK");
        assert_eq!(other.line(change), *answer);
        // What it is now is of no interest to what was noted.
        assert_eq!(client.line("WATCH k"), "+OK");
        run(&mut client, &[("MULTI", "+OK"), ("SET done 1", "+QUEUED"), ("EXEC", "nil[]")]);
        assert_eq!(client.line("EXISTS done"), ":0", "after {change:.20}");
        // With EXEC nothing is watched any more.
        run(&mut client, &[("MULTI", "+OK"), ("SET k 1", "+QUEUED"), ("EXEC", "[+OK]")]);
    }
    // A key that was not there; one's own change, in one piece with the watching; and time.
    run(&mut client, &[("WATCH new", "+OK"), ("SET new 1", "+OK"), ("MULTI", "+OK")]);
    run(&mut client, &[("SET done 1", "+QUEUED"), ("EXEC", "nil[]")]);
    let requests = [
        &["SET", "k", "1"][..],
        &["WATCH", "k"],
        &["SET", "k", "2"],
        &["MULTI"],
        &["SET", "done", "1"],
        &["EXEC"],
    ];
    let bytes: Vec<u8> =
        requests.iter().flat_map(|request| crate::support::encode(request)).collect();
    client.send(&bytes);
    let replies: Vec<String> = (0..6).map(|_| client.reply()).collect();
    assert_eq!(replies, ["+OK", "+OK", "+OK", "+OK", "+QUEUED", "nil[]"]);
    run(&mut client, &[("SET k v PX 30", "+OK"), ("WATCH k", "+OK"), ("MULTI", "+OK")]);
    eventually("the key expires", || other.line("EXISTS k") == ":0");
    run(&mut client, &[("SET done 1", "+QUEUED"), ("EXEC", "nil[]"), ("EXISTS done", ":0")]);
}

/// A write of a watched key counts, also if it changes nothing: a digest of the value was kept, and
/// the transaction was done although another client had written the key.
#[test]
fn a_write_of_a_watched_key_counts_whatever_it_writes() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    let setup = ["SET k 1 EXAT 4000000000", "SET plain 1", "DEL none"];
    let writes: [(&[&str], bool); 18] = [
        (&["SET k 1 EXAT 4000000000"], true),
        (&["SET plain 1"], true),
        (&["EXPIREAT k 4000000000"], true),
        (&["GETEX k EXAT 4000000000"], true),
        (&["DEL plain", "SET plain 1"], true),
        (&["SET none 1", "DEL none"], true),
        (&["APPEND plain"], true),
        (&["INCRBY plain 0"], true),
        (&["MSET x 1 plain 1"], true),
        (&["MULTI", "SET plain 1", "EXEC"], true),
        (&["MULTI", "SET none 1", "DEL none", "EXEC"], true),
        (&["FLUSHALL"], true),
        (&["PERSIST plain"], false),
        (&["SETNX plain 2"], false),
        (&["EXPIREAT k 4000000001 NX"], false),
        (&["DEL none"], false),
        (&["MULTI", "DEL none", "GETEX plain PERSIST", "EXEC"], false),
        (&["GETEX plain"], false),
    ];
    for (lines, breaks) in writes {
        setup.iter().for_each(|line| drop(client.line(line)));
        run(&mut client, &[("WATCH k plain none", "+OK"), ("MULTI", "+OK")]);
        for line in lines {
            let mut words: Vec<&str> = line.split(' ').collect();
            if words[0] == "APPEND" {
                words.push("");
            }
            other.ask(&words);
        }
        let answer = if breaks { "nil[]" } else { "[:0]" };
        run(&mut client, &[("STRLEN done", "+QUEUED"), ("EXEC", answer)]);
        run(&mut client, &[("MULTI", "+OK"), ("EXEC", "[]")]);
    }
    // An empty store has nothing that FLUSHALL could touch.
    run(&mut client, &[("FLUSHALL", "+OK"), ("WATCH k", "+OK"), ("FLUSHALL", "+OK")]);
    run(&mut client, &[("MULTI", "+OK"), ("EXEC", "[]")]);
}

/// Many connections write and watch one key on several event loops; each transaction that is done
/// must have seen the number of the one before, although every other write stores what was there.
#[test]
fn no_write_slips_between_a_watch_and_its_exec() {
    let server = TestServer::with(|config| config.threads = 3);
    server.connect().line("SET n 0");
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (mut client, done) = (server.connect(), &done);
            scope.spawn(move || {
                for _ in 0..200 {
                    client.line("WATCH n touched");
                    let n: u64 = client.line("GET n").trim_matches('"').parse().unwrap();
                    run(&mut client, &[("MULTI", "+OK"), ("SET touched 1", "+QUEUED")]);
                    assert_eq!(client.line(&format!("SET n {}", n + 1)), "+QUEUED");
                    if client.line("EXEC") == "[+OK +OK]" {
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let n = server.connect().line("GET n");
    assert_eq!(n, format!("\"{}\"", done.into_inner()));
}

/// Commands about all keys were refused inside of a transaction. They see what the transaction has
/// done so far.
#[test]
fn commands_about_all_keys_are_part_of_a_transaction() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    run(&mut client, &[("MSET a 1 b 2 c 3", "+OK"), ("WATCH a", "+OK"), ("MULTI", "+OK")]);
    let queued = [
        "DEL b",
        "SET aa 4",
        "SET d 5 PXAT 1",
        "KEYS *",
        "RANGE - + WITHVALUES",
        "RANGE - + REV LIMIT 2",
        "PREFIX a",
        "SCAN 0 MATCH a*",
        "DBSIZE",
        "UNWATCH",
        "SELECT 0",
        "CLIENT SETNAME me",
        "FLUSHALL",
        "KEYS *",
        "SET e 6",
        "DBSIZE",
        "CONFIG GET databases",
    ];
    queued.iter().for_each(|line| assert_eq!(client.line(line), "+QUEUED", "{line}"));
    assert_eq!(other.line("DBSIZE"), ":3", "nothing is done before EXEC");
    assert_eq!(
        client.line("EXEC"),
        "[:1 +OK +OK [\"a\" \"aa\" \"c\"] [\"a\" \"1\" \"aa\" \"4\" \"c\" \"3\"] \
         [\"c\" \"aa\"] [\"a\" \"aa\"] [\"0\" [\"a\" \"aa\"]] :3 +OK +OK +OK +OK [] +OK :1 \
         [\"databases\" \"16\"]]"
    );
    run(&mut other, &[("KEYS *", "[\"e\"]"), ("DBSIZE", ":1")]);
    assert_eq!(client.line("CLIENT GETNAME"), "\"me\"");
    run(&mut client, &[("MULTI", "+OK"), ("INFO keyspace", "+QUEUED"), ("DBSIZE", "+QUEUED")]);
    assert!(client.line("EXEC").contains("db0:keys=1,expires=0,avg_ttl=0"));
    // Nothing of what a transaction does that is refused is done.
    run(&mut client, &[("WATCH e", "+OK"), ("MULTI", "+OK")]);
    run(&mut client, &[("CLIENT SETNAME other", "+QUEUED"), ("FLUSHALL", "+QUEUED")]);
    assert_eq!(other.line("SET e 6"), "+OK");
    run(&mut client, &[("EXEC", "nil[]"), ("CLIENT GETNAME", "\"me\""), ("DBSIZE", ":1")]);
}

#[test]
fn a_connection_cannot_watch_without_end() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    let watch = |client: &mut Client, numbers: std::ops::Range<usize>| {
        let keys = numbers.map(|number| format!("{number:060000}"));
        client.ask(&std::iter::once("WATCH".to_string()).chain(keys).collect::<Vec<_>>())
    };
    // 16 MiB are 93 keys of this length, each kept three times.
    assert_eq!(watch(&mut client, 0..60), "+OK");
    assert_eq!(watch(&mut client, 0..60), "+OK", "they are watched already");
    let refused = watch(&mut client, 60..94);
    assert!(refused.starts_with("-ERR watched keys may take 16777216 bytes"), "{refused}");
    assert_eq!(watch(&mut client, 60..93), "+OK", "nothing of what was refused is watched");
    assert!(watch(&mut client, 93..94).starts_with("-ERR"));
    // What is watched is watched, however much was refused.
    other.ask(&["SET", &format!("{:060000}", 92), "1"]);
    run(&mut client, &[("MULTI", "+OK"), ("SET k 1", "+QUEUED"), ("EXEC", "nil[]")]);
    assert_eq!(watch(&mut client, 0..93), "+OK", "EXEC has made room");
    assert_eq!(client.line("UNWATCH"), "+OK");
    assert_eq!(watch(&mut client, 1..94), "+OK", "so has UNWATCH");
    // A long value takes no more than a short one.
    assert_eq!(other.ask(&["SET".as_bytes(), b"long", &vec![b'v'; 20 << 20]]), "+OK");
    run(&mut client, &[("UNWATCH", "+OK"), ("WATCH long", "+OK"), ("MULTI", "+OK")]);
    run(&mut client, &[("STRLEN long", "+QUEUED"), ("EXEC", "[:20971520]")]);
}

/// The values of watched keys were copied at `EXEC`, and limited.
#[test]
fn watched_values_may_be_of_any_size() {
    let server = TestServer::with(|config| {
        config.bulk_size_max = 1 << 20;
        config.request_size_max = 2 << 20;
    });
    let mut client = server.connect();
    for key in ["a", "b", "c"] {
        assert_eq!(client.ask(&["SET".as_bytes(), key.as_bytes(), &vec![b'v'; 900_000]]), "+OK");
    }
    run(&mut client, &[("WATCH a b c", "+OK"), ("MULTI", "+OK"), ("SET k 1", "+QUEUED")]);
    run(&mut client, &[("EXEC", "[+OK]"), ("GET k", "\"1\"")]);
}

#[test]
fn transfers_of_many_clients_keep_the_sum() {
    let server = TestServer::start();
    let mut client = server.connect();
    for account in 0..4 {
        client.line(&format!("SET account:{account} 100"));
    }
    // Each that moves has one; a panic drops it, too.
    let moving = [(); 3].map(|()| Arc::new(()));
    let watches = moving.each_ref().map(Arc::downgrade);
    std::thread::scope(|scope| {
        for (thread, moving) in moving.into_iter().enumerate() {
            let mut client = server.connect();
            scope.spawn(move || {
                for round in 0..150 {
                    let (from, to) = ((thread + round) % 4, (thread + round * 2 + 1) % 4);
                    client.line("MULTI");
                    client.line(&format!("DECR account:{from}"));
                    client.line(&format!("INCR account:{to}"));
                    let reply = client.line("EXEC");
                    assert!(reply.starts_with("[:"), "{reply}");
                }
                drop(moving);
            });
        }
        while watches.iter().all(|watch| watch.strong_count() > 0) {
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

/// The names that `INFO` and `CONFIG` give to what a client may not have changed.
fn setting(client: &mut Client, name: &str) -> String {
    client.line(&format!("CONFIG GET {name}"))
}

/// `EXEC` kept a copy of each value that a command looked at: `EXISTS` of a few long keys took as
/// much memory as they have.
#[test]
fn a_transaction_keeps_no_long_values_that_it_only_reads() {
    let server = TestServer::with(|config| config.client_memory_max = Some(8 << 20));
    let mut client = server.connect();
    for key in 0..40 {
        let key = format!("long:{key}");
        assert_eq!(client.ask(&[b"SET".as_slice(), key.as_bytes(), &vec![b'v'; 1 << 20]]), "+OK");
    }
    client.line("MULTI");
    for key in 0..40 {
        client.line(&format!("EXISTS long:{key}"));
        client.line(&format!("STRLEN long:{key}"));
    }
    let replies = client.line("EXEC");
    assert_eq!(replies.matches(":1048576").count(), 40, "{replies}");
    // What it must keep, because it is to be written, has a limit, and then nothing is done.
    client.line("MULTI");
    (0..40).for_each(|key| drop(client.line(&format!("APPEND long:{key} x"))));
    assert!(client.line("EXEC").starts_with("-OOM "), "40 MiB are too much");
    assert_eq!(client.line("STRLEN long:0"), ":1048576");
    // So has the list of the keys that are to be removed.
    (0..200_000)
        .for_each(|key| server.store.default_map().put(format!("k{key}"), b"").map(drop).unwrap());
    run(&mut client, &[("MULTI", "+OK"), ("FLUSHALL", "+QUEUED")]);
    assert!(client.line("EXEC").starts_with("-OOM "));
    assert_eq!(client.line("DBSIZE"), ":200040");
}

/// Each `APPEND` of a transaction copied what those before it had made: 20,000 of them on a value of
/// a megabyte moved 20 GB.
#[test]
fn many_appends_in_a_transaction_copy_the_value_once() {
    let server = TestServer::start();
    let mut client = server.connect();
    assert_eq!(client.ask(&[b"SET".as_slice(), b"k", &vec![b'v'; 1 << 20]]), "+OK");
    client.line("MULTI");
    client.send(&encode(&["APPEND", "k", "x"]).repeat(20_000));
    (0..20_000).for_each(|_| assert_eq!(client.reply(), "+QUEUED"));
    let replies = client.line("EXEC");
    assert!(replies.ends_with(":1068576]"), "{}", replies.len());
    assert_eq!(client.line("STRLEN k"), ":1068576");
}

/// A long value that another client changes between the commands of a transaction and its end: of it
/// there is no copy to compare with.
#[test]
fn transfers_between_long_values_keep_their_total_length() {
    let server = TestServer::start();
    let mut client = server.connect();
    for key in ["a", "b"] {
        assert_eq!(client.ask(&[b"SET".as_slice(), key.as_bytes(), &vec![b'v'; 5_000]]), "+OK");
    }
    let writing = Arc::new(());
    let watch = Arc::downgrade(&writing);
    std::thread::scope(|scope| {
        let mut writer = server.connect();
        scope.spawn(move || {
            for _ in 0..300 {
                writer.line("MULTI");
                writer.line("APPEND a x");
                writer.line("APPEND b x");
                writer.line("EXEC");
            }
            drop(writing);
        });
        while watch.strong_count() > 0 {
            run(&mut client, &[("MULTI", "+OK"), ("STRLEN a", "+QUEUED"), ("STRLEN b", "+QUEUED")]);
            let reply = client.line("EXEC");
            let (a, b) = reply[1..reply.len() - 1].split_once(' ').unwrap();
            assert_eq!(a, b, "one of them was read before a transaction, and one after it");
        }
    });
}

/// `CONFIG SET`, `CLIENT KILL` and what a connection says of itself took place while the batch could
/// still fail.
#[test]
fn a_failed_transaction_leaves_settings_and_connections_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = crate::support::open(&folder.path().join("small"), 24 << 20);
    let server = TestServer::on(folder, store, |_| {});
    let (mut client, mut other) = (server.connect(), server.connect());
    let id = number(&other.line("CLIENT ID"));
    let before = setting(&mut client, "maxclients");
    run(
        &mut client,
        &[
            ("CLIENT SETNAME before", "+OK"),
            ("MULTI", "+OK"),
            ("CONFIG SET maxclients 77", "+QUEUED"),
            ("CLIENT SETNAME after", "+QUEUED"),
            ("CLIENT REPLY OFF", "+QUEUED"),
        ],
    );
    assert_eq!(client.line(&format!("CLIENT KILL ID {id}")), "+QUEUED");
    assert_eq!(client.ask(&[b"SET".as_slice(), b"k", &vec![b'v'; 30 << 20]]), "+QUEUED");
    assert!(client.line("EXEC").starts_with("-OOM "), "the pool is too small");
    assert_eq!(setting(&mut client, "maxclients"), before);
    assert_eq!(client.line("CLIENT GETNAME"), "\"before\"");
    assert_eq!(other.line("PING"), "+PONG", "it was not killed");
    client.line("MULTI");
    client.line("CONFIG SET maxclients 77");
    client.line(&format!("CLIENT KILL ID {id}"));
    assert_eq!(client.line("EXEC"), "[+OK :1]");
    assert_eq!(setting(&mut client, "maxclients"), "[\"maxclients\" \"77\"]");
    other.assert_closed();
}

/// `ACL` was refused between `MULTI` and `EXEC`, where Redis takes it.
#[test]
fn users_are_changed_and_told_of_in_a_transaction() {
    let server = TestServer::start();
    let mut client = server.connect();
    let queued = [
        "ACL WHOAMI",
        "ACL SETUSER ann on >secret +get ~a*",
        "ACL USERS",
        "ACL SETUSER ben nonsense",
        "ACL SAVE",
        "ACL DELUSER ann",
        "SET a 1",
    ];
    client.line("MULTI");
    queued.iter().for_each(|line| assert_eq!(client.line(line), "+QUEUED", "{line}"));
    assert_eq!(
        client.line("EXEC"),
        "[\"default\" +OK [\"default\"] -ERR Error in ACL SETUSER modifier 'nonsense': Syntax error -ERR ACL SAVE \
         inside of a transaction is not possible -ERR ACL DELUSER inside of a transaction is not possible +OK]"
    );
    assert_eq!(client.line("ACL USERS"), "[\"ann\" \"default\"]");
    let mut ann = server.connect();
    run(&mut ann, &[("AUTH ann secret", "+OK"), ("GET a", "\"1\"")]);
    // One that is not done changes nobody.
    run(&mut client, &[("WATCH a", "+OK"), ("MULTI", "+OK"), ("ACL SETUSER ann off", "+QUEUED")]);
    let mut other = server.connect();
    run(&mut other, &[("SET a 2", "+OK")]);
    run(&mut client, &[("EXEC", "nil[]")]);
    assert!(!client.line("ACL LIST").contains("ann off"));
}

/// The array of `EXEC` said that it had more elements than there were, and a client took the next replies for them.
#[test]
fn exec_tells_as_many_replies_as_there_are() {
    let server = TestServer::start();
    let mut client = server.connect();
    for mode in ["SKIP", "OFF"] {
        let lines = ["MULTI".into(), "PING".into(), format!("CLIENT REPLY {mode}"), "EXEC".into()];
        lines[..3].iter().for_each(|line| drop(client.line(line)));
        assert_eq!(client.line("EXEC"), "[+PONG]", "{mode}");
        client.send(&crate::support::encode(&["ECHO", "skipped"]));
        assert_eq!(client.line("CLIENT REPLY ON"), "+OK", "{mode}");
        assert_eq!(client.line("ECHO told"), "\"told\"", "{mode}");
    }
}

/// What had no limit: a transaction that closes clients had a note of each for each of its commands, a million times
/// all of them.
#[test]
fn a_transaction_closes_each_client_once() {
    let server = TestServer::start();
    let mut others = [server.connect(), server.connect(), server.connect()];
    others.iter_mut().for_each(|other| drop(other.line("CLIENT SETNAME other")));
    let id = others[0].line("CLIENT ID");
    let mut client = server.connect();
    client.line("MULTI");
    client.line(&format!("CLIENT KILL ID {}", &id[1..]));
    (0..3).for_each(|_| drop(client.line("CLIENT KILL TYPE normal")));
    assert_eq!(client.line("EXEC"), "[:1 :2 :0 :0]");
    others.iter_mut().for_each(|other| assert_eq!(other.rest(), b""));
    assert_eq!(client.line("PING"), "+PONG");
}
