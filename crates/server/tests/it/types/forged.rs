//! Strings that would pass for headers of collections: a client that makes one has the collection of another, whatever
//! the rules for keys and databases say.

use std::collections::BTreeMap;

use everleaf::random::finish;

use crate::support::{Client, TestServer, encode};

/// The value under which a hash lies, which no client that has only commands has seen.
fn header_of(server: &TestServer, key: &str) -> Vec<u8> {
    let header = server.store.default_map().get(key).unwrap().unwrap();
    assert_eq!(header.len(), 56);
    header
}

/// A command that would make the header under `k`, behind others that prepare it.
type Attack = (&'static str, Vec<Vec<Vec<u8>>>, Vec<Vec<u8>>);

fn words(parts: &[&[u8]]) -> Vec<Vec<u8>> {
    parts.iter().map(|part| part.to_vec()).collect()
}

fn attacks(forged: &[u8], payload: &[u8]) -> Vec<Attack> {
    let inverted: Vec<u8> = forged.iter().map(|byte| !byte).collect();
    let (half, rest) = forged.split_at(20);
    let mut other = forged.to_vec();
    other[0] ^= 0x80;
    let set = |value: &[u8]| vec![words(&[b"SET", b"k", value])];
    let halves = vec![
        words(&[b"SET", b"one", half]),
        words(&[b"SET", b"two", &[&[0; 20][..], rest].concat()]),
    ];
    let bit: &[u8] = if forged[0] >= 0x80 { b"1" } else { b"0" };
    let first = forged[0].to_string();
    let none = Vec::new;
    vec![
        ("set", none(), words(&[b"SET", b"k", forged])),
        ("set nx", none(), words(&[b"SET", b"k", forged, b"NX"])),
        ("set xx", set(b"x"), words(&[b"SET", b"k", forged, b"XX"])),
        ("set ex", none(), words(&[b"SET", b"k", forged, b"EX", b"100"])),
        ("set keepttl", set(b"x"), words(&[b"SET", b"k", forged, b"KEEPTTL"])),
        ("set get", set(b"x"), words(&[b"SET", b"k", forged, b"GET"])),
        ("set get xx", set(b"x"), words(&[b"SET", b"k", forged, b"GET", b"XX"])),
        ("setnx", none(), words(&[b"SETNX", b"k", forged])),
        ("setex", none(), words(&[b"SETEX", b"k", b"100", forged])),
        ("psetex", none(), words(&[b"PSETEX", b"k", b"100000", forged])),
        ("getset", set(b"x"), words(&[b"GETSET", b"k", forged])),
        ("mset", none(), words(&[b"MSET", b"k", forged])),
        ("mset, two", none(), words(&[b"MSET", b"b", b"1", b"k", forged])),
        ("msetnx", none(), words(&[b"MSETNX", b"b", b"1", b"k", forged])),
        ("append", none(), words(&[b"APPEND", b"k", forged])),
        ("append, rest", set(half), words(&[b"APPEND", b"k", rest])),
        ("setrange", none(), words(&[b"SETRANGE", b"k", b"0", forged])),
        ("setrange, rest", set(half), words(&[b"SETRANGE", b"k", b"20", rest])),
        ("setrange, within", set(&other), words(&[b"SETRANGE", b"k", b"0", &forged[..1]])),
        ("setbit", set(&other), words(&[b"SETBIT", b"k", b"0", bit])),
        (
            "bitfield",
            set(&other),
            words(&[b"BITFIELD", b"k", b"SET", b"u8", b"0", first.as_bytes()]),
        ),
        (
            "bitop not",
            vec![words(&[b"SET", b"one", &inverted])],
            words(&[b"BITOP", b"NOT", b"k", b"one"]),
        ),
        ("bitop or", halves, words(&[b"BITOP", b"OR", b"k", b"one", b"two"])),
        ("restore", none(), words(&[b"RESTORE", b"k", b"0", payload])),
        ("restore, time", set(b"x"), words(&[b"RESTORE", b"k", b"9000", payload, b"REPLACE"])),
    ]
}

/// How the command comes.
#[derive(Clone, Copy, Debug)]
enum Way {
    Alone,
    /// With others before and behind it, in one write.
    Among,
    Transaction,
    /// In a transaction that is run while nobody else writes.
    TransactionAlone,
}

fn run(client: &mut Client, way: Way, command: &[Vec<u8>]) -> String {
    let send = |client: &mut Client, command: &[Vec<u8>]| client.send(&encode(command));
    match way {
        Way::Alone => client.ask(command),
        Way::Among => {
            let verb = command[0].as_slice();
            let beside: Vec<Vec<u8>> = match verb {
                b"MSET" => words(&[b"MSET", b"n", b"1", b"m", b"2"]),
                _ => words(&[b"SET", b"n", b"1"]),
            };
            let all = [encode(&beside), encode(command), encode(&beside)].concat();
            client.send(&all);
            assert_eq!(client.reply(), "+OK");
            let reply = client.reply();
            assert_eq!(client.reply(), "+OK");
            reply
        }
        Way::Transaction | Way::TransactionAlone => {
            client.send(&encode(&["MULTI"]));
            send(client, command);
            let has_more = matches!(way, Way::TransactionAlone);
            if has_more {
                client.send(&encode(&["DBSIZE"]));
            }
            client.send(&encode(&["EXEC"]));
            for _ in 0..2 + usize::from(has_more) {
                assert!(client.reply().starts_with('+'));
            }
            let reply = client.reply();
            reply.strip_prefix('[').unwrap().to_string()
        }
    }
}

/// What was lost: whatever lay in any database. A string of 56 bytes that begins with the pool's mark was served as the
/// collection whose number it has, to every client that could write a string.
#[test]
fn no_command_makes_a_string_that_is_a_header() {
    let (server, other) = (TestServer::start(), TestServer::start());
    let mut client = server.connect();
    assert_eq!(client.line("HSET secret f v"), ":1");
    let forged = header_of(&server, "secret");
    // In another pool it is a string as any other.
    let mut elsewhere = other.connect();
    assert_eq!(elsewhere.line("SADD any member"), ":1");
    assert_eq!(elsewhere.ask(&[&b"SET"[..], b"k", &forged]), "+OK");
    elsewhere.send(&encode(&["DUMP", "k"]));
    let payload = elsewhere.bulk();
    for (name, prepare, command) in attacks(&forged, &payload) {
        for way in [Way::Alone, Way::Among, Way::Transaction, Way::TransactionAlone] {
            client.line("DEL k one two b n m");
            for before in &prepare {
                assert_eq!(client.ask(before), "+OK", "{name}");
            }
            let was = client.line("GET k");
            let reply = run(&mut client, way, &command);
            assert!(reply.starts_with("-ERR this string cannot be"), "{name}, {way:?}: {reply}");
            assert_eq!(client.line("GET k"), was, "{name}, {way:?}: nothing was written");
            assert_eq!(client.line("EXISTS b"), ":0", "{name}, {way:?}: nor of the others");
            assert_eq!(client.line("HGETALL secret"), "[\"f\" \"v\"]", "{name}, {way:?}");
        }
    }
    // A string that a transaction has set itself grows where it lies.
    assert_eq!(client.line("MULTI"), "+OK");
    let (half, rest) = forged.split_at(20);
    for command in [[&b"SET"[..], b"k", half], [b"APPEND", b"k", rest], [b"APPEND", b"k", b"x"]] {
        assert_eq!(client.ask(&command), "+QUEUED");
    }
    let replies = client.line("EXEC");
    assert!(replies.starts_with("[+OK -ERR this string cannot be"), "{replies}");
    assert!(replies.ends_with(":21]"), "{replies}");
    // What only looks like one in part is a string, and what has members may have it as a member.
    for (length, text) in [(55, &forged[..55]), (57, &[&forged[..], b"x"].concat()[..])] {
        assert_eq!(client.ask(&[&b"SET"[..], b"k", text]), "+OK");
        assert_eq!(client.line("STRLEN k"), format!(":{length}"));
    }
    assert_eq!(client.line("APPEND k x"), ":58");
    assert_eq!(client.ask(&[&b"RPUSH"[..], b"list", &forged]), ":1");
    assert_eq!(client.ask(&[&b"HSET"[..], b"hash", &forged, &forged]), ":1");
}

/// Collections go on to be renamed, copied and moved, by which their headers are written.
#[test]
fn collections_keep_their_headers_wherever_they_go() {
    let server = TestServer::start();
    let mut client = server.connect();
    for line in ["HSET h f v", "RPUSH l a b", "SADD s m", "ZADD z 1 m"] {
        assert!(client.line(line).starts_with(':'), "{line}");
    }
    for key in ["h", "l", "s", "z"] {
        let kind = client.line(&format!("TYPE {key}"));
        for (line, expected) in [
            (format!("RENAME {key} x"), "+OK"),
            ("COPY x y".to_string(), ":1"),
            ("EXPIRE y 100".into(), ":1"),
            ("PERSIST y".into(), ":1"),
            ("MOVE x 3".into(), ":1"),
            ("MULTI".into(), "+OK"),
            ("RENAME y z2".into(), "+QUEUED"),
            ("COPY z2 x".into(), "+QUEUED"),
            ("EXPIRE x 100".into(), "+QUEUED"),
            ("EXEC".into(), "[+OK :1 :1]"),
        ] {
            assert_eq!(client.line(&line), expected, "{key}: {line}");
        }
        for found in ["TYPE x", "TYPE z2"] {
            assert_eq!(client.line(found), kind, "{key}: {found}");
        }
        assert_eq!(client.line("DEL x z2"), ":2");
        client.line("SELECT 3");
        assert_eq!(client.line("TYPE x"), kind);
        assert_eq!(client.line("DEL x"), ":1");
        client.line("SELECT 0");
    }
}

/// A pool in which somebody has made such a string before is served: as that was, and it can be replaced and removed.
#[test]
fn a_pool_that_has_such_a_string_is_served() {
    let mut server = TestServer::start();
    assert_eq!(server.connect().line("HSET secret f v"), ":1");
    let forged = header_of(&server, "secret");
    server.store.default_map().put("forged", &forged).unwrap();
    server.stop().unwrap();
    let folder = std::mem::replace(&mut server.folder, tempfile::tempdir().unwrap());
    drop(server);
    let store = crate::support::open(&folder.path().join("test.pool"), 4 << 30);
    let server = TestServer::on(folder, store, |_| {});
    let mut client = server.connect();
    assert_eq!(client.line("TYPE forged"), "+hash");
    assert_eq!(client.line("SET forged x"), "+OK");
    assert_eq!(client.line("DEL forged"), ":1");
    assert_eq!(client.line("HGETALL secret"), "[\"f\" \"v\"]");
}

/// All members, each with the cursor of the step that begins with it, in the order in which they came.
fn scan(client: &mut Client, command: &str) -> Vec<(String, u64)> {
    let (mut cursor, mut found) = (0, Vec::new());
    loop {
        let reply = client.line(&format!("{command} {cursor} COUNT 1"));
        let (next, rest) = reply.strip_prefix("[\"").unwrap().split_once("\" [").unwrap();
        let member = rest.strip_prefix('"').unwrap().split('"').next().unwrap();
        found.push((member.to_string(), cursor));
        cursor = next.parse().unwrap();
        if cursor == 0 {
            return found;
        }
    }
}

/// What was lost: the secret that tells headers from strings. A cursor was the hash of the next member, which nothing
/// but two halves of the mark goes into and which is computed backwards: two cursors told both.
#[test]
fn cursors_do_not_tell_the_mark_of_the_pool() {
    let server = TestServer::start();
    let mut client = server.connect();
    assert_eq!(client.ask(&["SADD", "s", "", "a"]), ":2");
    assert_eq!(client.ask(&["HSET", "h", "", "", "a", ""]), ":2");
    assert_eq!(client.ask(&["ZADD", "z", "1", "", "2", "a"]), ":2");
    for member in 0..400 {
        client.line(&format!("SADD s {member}"));
        client.line(&format!("HSET h {member} v"));
        client.line(&format!("ZADD z 1 {member}"));
    }
    let mark = header_of(&server, "s")[..16].to_vec();
    let word = |at: usize| u64::from_le_bytes(mark[at..at + 8].try_into().unwrap());
    for command in ["SSCAN s", "HSCAN h", "ZSCAN z"] {
        let found = scan(&mut client, command);
        let cursors: BTreeMap<String, u64> = found.iter().cloned().collect();
        assert_eq!((found.len(), cursors.len()), (402, 402), "{command}: each once");
        // Where they lie: each of these numbers was told, and goes backwards to a half of the mark.
        let empty = finish(word(0));
        let a = finish(finish(word(0) ^ 1 ^ u64::from(b'a')).wrapping_add(word(8)));
        for (member, place) in [("", empty), ("a", a)] {
            let place = if command == "ZSCAN z" { place >> 1 } else { place };
            assert_ne!(cursors[member], place, "{command} {member}");
        }
        // Nor do they grow with the places.
        assert!(!found.is_sorted_by_key(|(_, cursor)| *cursor), "{command}");
    }
}
