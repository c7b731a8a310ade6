//! Attacks where two mechanisms of the server meet that other tests try alone: long pipelines and commands
//! that wait, replies that are switched off and commands that wait, claims and limits, numbers at both ends,
//! and every kind of error in a transaction.

use std::io::{Read, Write};

use crate::support::{Client, TestServer, encode, eventually};

/// Pairs of a client that waits and one that gives, and what is given to each.
const PAIRS: usize = 4;
const ELEMENTS: usize = 48;
/// Commands of a pipeline that wait.
const WAITS: usize = 6;

/// Bytes of which each line says whose they are.
fn value(pair: usize, what: &str, number: usize) -> Vec<u8> {
    let line = format!("{what}{pair}:{number:06}\n").into_bytes();
    let size = (number * 7919 + pair * 104_729) % 250_000 + 1;
    let mut value = line.repeat(size / line.len() + 1);
    value.truncate(size);
    value
}

fn bulk(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// Sends long pipelines with commands in them that wait for what its partner gives, and looks at each byte
/// that comes.
fn take(server: &TestServer, pair: usize) {
    let mut client = server.connect();
    let (queue, own) = (format!("q:{pair}"), format!("own:{pair}"));
    for round in 0..ELEMENTS / WAITS {
        let (mut requests, mut replies) = (Vec::new(), Vec::new());
        for wait in 0..WAITS {
            let number = round * WAITS + wait;
            let kept = value(pair, "o", number + 3);
            requests.extend(encode(&[&b"SET"[..], own.as_bytes(), &kept]));
            replies.extend_from_slice(b"+OK\r\n");
            for _ in 0..number % 4 {
                requests.extend(encode(&["GET", &own]));
                replies.extend(bulk(&kept));
            }
            requests.extend(encode(&["BLPOP", "none", &queue, "0"]));
            replies.extend_from_slice(b"*2\r\n");
            replies.extend(bulk(queue.as_bytes()));
            replies.extend(bulk(&value(pair, "e", number)));
            requests.extend(encode(&["GET", &own]));
            replies.extend(bulk(&kept));
        }
        let mut stream = client.stream.try_clone().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || stream.write_all(&requests).unwrap());
            let mut got = vec![0; replies.len()];
            client.stream.read_exact(&mut got).unwrap();
            let wrong = got.iter().zip(&replies).position(|(got, wanted)| got != wanted);
            assert_eq!(wrong, None, "pair {pair}, round {round}: another byte");
        });
    }
    assert_eq!(client.line("PING"), "+PONG", "nothing more came");
}

fn give(server: &TestServer, pair: usize) {
    let mut client = server.connect();
    let queue = format!("q:{pair}");
    for first in (0..ELEMENTS).step_by(5) {
        let numbers = first..ELEMENTS.min(first + 5);
        for number in numbers.clone() {
            let element = value(pair, "e", number);
            client.send(&encode(&[&b"RPUSH"[..], queue.as_bytes(), &element]));
        }
        for _ in numbers {
            let reply = client.reply();
            assert!(reply.starts_with(':'), "{reply}");
        }
    }
}

#[test]
fn every_byte_around_commands_that_wait_is_right() {
    let server = TestServer::with(|config| config.threads = 3);
    std::thread::scope(|scope| {
        for pair in 0..PAIRS {
            let server = &server;
            scope.spawn(move || take(server, pair));
            scope.spawn(move || give(server, pair));
        }
    });
}

/// The reply to a command that has waited comes as any other, or does not, if replies are off.
#[test]
fn a_waiting_command_keeps_to_the_replies_that_were_asked_for() {
    let server = TestServer::start();
    let mut pusher = server.connect();
    for (before, behind, expected) in [
        ("CLIENT REPLY SKIP", "PING", "+PONG\r\n"),
        ("CLIENT REPLY OFF", "CLIENT REPLY ON", "+OK\r\n"),
        ("ECHO a", "PING", "$1\r\na\r\n*2\r\n$1\r\nk\r\n$1\r\nv\r\n+PONG\r\n"),
    ] {
        let mut client = server.connect();
        client.send(format!("{before}\r\nBLPOP k 0\r\n{behind}\r\n").as_bytes());
        eventually("it waits", || pusher.line("INFO clients").contains("blocked_clients:1"));
        assert_eq!(pusher.line("RPUSH k v"), ":1");
        let mut got = vec![0; expected.len()];
        client.stream.read_exact(&mut got).unwrap();
        assert_eq!(String::from_utf8_lossy(&got), expected, "{before}");
        assert_eq!(client.line("ECHO last"), "\"last\"", "{before}: nothing more came");
    }
}

/// A number that `INFO` shows.
fn number(client: &mut Client, name: &str) -> u64 {
    let info = client.line("INFO everything");
    let rest = info.split(&format!("{name}:")).nth(1).unwrap();
    rest.split("\\r").next().unwrap().parse().unwrap()
}

/// A few bytes ask for very much: a table of the product of two lengths, and replies that nobody reads.
#[test]
fn a_request_of_a_few_bytes_takes_no_memory_without_limit() {
    let server = TestServer::with(|config| config.client_memory_max = Some(48 << 20));
    let mut observer = server.connect();
    for key in ["a", "b"] {
        assert_eq!(observer.line(&format!("SETRANGE {key} 999999 x")), ":1000000");
    }
    let refused = observer.line("LCS a b");
    assert!(refused.starts_with("-ERR "), "{}", &refused[..refused.len().min(100)]);
    assert_eq!(observer.line("SETRANGE long 16777215 x"), ":16777216");
    let mut clients: Vec<Client> = (0..24).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(b"GET long\r\n");
    }
    // Each holds 16 MiB, less what the kernel has taken.
    eventually("the greediest are closed", || number(&mut observer, "evicted_clients") >= 12);
    eventually("the limit is kept", || number(&mut observer, "mem_clients_normal") <= 48 << 20);
    assert_eq!(observer.line("PING"), "+PONG");
}

/// Clients that wait for very many long keys hold their names: those over the limit are closed, and what comes
/// to their keys afterwards stays there.
#[test]
fn clients_that_wait_for_long_names_are_limited() {
    const CLIENTS: usize = 40;
    let server = TestServer::with(|config| config.client_memory_max = Some(8 << 20));
    let mut observer = server.connect();
    let name = |client: usize, key: usize| format!("{client}:{key}:{}", "k".repeat(1_000));
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| server.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let names: Vec<String> = (0..500).map(|key| name(number, key)).collect();
        let words: Vec<&str> = ["BLPOP"].into_iter().chain(names.iter().map(|n| &n[..])).collect();
        client.send(&encode(&[&words[..], &["0"]].concat()));
    }
    // Each has half a megabyte of names.
    eventually("as many wait as may", || {
        let gone = number(&mut observer, "evicted_clients");
        let waiting = number(&mut observer, "blocked_clients");
        gone >= 20 && gone + waiting == CLIENTS as u64
    });
    eventually("the limit is kept", || number(&mut observer, "mem_clients_normal") <= 8 << 20);
    let gone = number(&mut observer, "evicted_clients");
    let mut kept = 0;
    for (client, mut stream) in clients.into_iter().enumerate() {
        let key = name(client, 499);
        assert_eq!(observer.ask(&["RPUSH", &key, "element"]), ":1");
        let left = observer.ask(&["LLEN", &key]);
        match left == ":1" {
            true => kept += 1,
            // It was taken by the client that waited for it, and by no other.
            false => {
                let mut got = vec![0; bulk(b"element").len() + bulk(key.as_bytes()).len() + 4];
                stream.stream.read_exact(&mut got).unwrap();
                assert!(got.ends_with(&bulk(b"element")), "client {client}");
            }
        }
    }
    assert_eq!(kept, gone, "those that were closed took nothing");
}

/// Numbers at both ends of what fits into 64 bits.
#[test]
fn numbers_at_both_ends_are_taken_as_redis_takes_them() {
    const MAX: &str = "9223372036854775807";
    const MIN: &str = "-9223372036854775808";
    let server = TestServer::start();
    let mut client = server.connect();
    for line in ["SET s value", "RPUSH l a b c", "SADD set a b", "ZADD z 1 a", "SET n 1"] {
        assert!(!client.line(line).starts_with('-'), "{line}");
    }
    let out_of_range = "-ERR value is not an integer or out of range";
    for (line, expected) in [
        (format!("GETRANGE s {MIN} {MAX}"), "\"value\""),
        (format!("GETRANGE s {MAX} {MIN}"), "\"\""),
        (format!("SETRANGE s {MIN} x"), "-ERR offset is out of range"),
        (format!("LRANGE l {MIN} {MAX}"), "[\"a\" \"b\" \"c\"]"),
        (format!("LRANGE l {MAX} {MIN}"), "[]"),
        (format!("LINDEX l {MIN}"), "nil"),
        (format!("LINDEX l {MAX}"), "nil"),
        (format!("LSET l {MIN} x"), "-ERR index out of range"),
        (format!("LREM l {MIN} none"), ":0"),
        (format!("LTRIM l {MIN} {MAX}"), "+OK"),
        ("LLEN l".into(), ":3"),
        (format!("ZRANGE z {MIN} {MAX}"), "[\"a\"]"),
        (format!("ZREMRANGEBYRANK z {MAX} {MIN}"), ":0"),
        (format!("INCRBY n {MAX}"), "-ERR increment or decrement would overflow"),
        (format!("INCRBY n {MAX}0"), out_of_range),
        (format!("DECRBY n {MIN}"), "-ERR decrement would overflow"),
        ("INCRBYFLOAT n inf".into(), "-ERR increment would produce NaN or Infinity"),
        ("SETBIT bits 4294967296 1".into(), "-ERR bit offset is not an integer or out of range"),
        (format!("EXPIRE s {MAX}"), "-ERR invalid expire time in 'expire' command"),
        (format!("EXPIRE s {MIN}"), "-ERR invalid expire time in 'expire' command"),
        (format!("SETEX s {MIN} x"), "-ERR invalid expire time in 'setex' command"),
        (format!("SET s x PX {MIN}"), "-ERR invalid expire time in 'set' command"),
        ("LPOP l -1".into(), "-ERR value is out of range, must be positive"),
        ("SCAN 18446744073709551616".into(), "-ERR invalid cursor"),
        ("ZADD z nan m".into(), "-ERR value is not a valid float"),
        ("ZADD z inf m".into(), ":1"),
        ("ZINCRBY z -inf m".into(), "-ERR resulting score is not a number (NaN)"),
        ("GET n".into(), "\"1\""),
        ("GET s".into(), "\"value\""),
    ] {
        assert_eq!(client.line(&line), expected, "{line}");
    }
}

/// What is refused when it is queued ends the transaction, what fails when it is run does not, and what is
/// not allowed inside of one is told and changes nothing.
#[test]
fn each_error_in_a_transaction_has_its_effect_and_no_other() {
    let server = TestServer::start();
    let mut client = server.connect();
    let abort = "-EXECABORT Transaction discarded because of previous errors.";
    client.line("SET s text");
    for (line, reply, outcome) in [
        ("INCR s", "+QUEUED", "[-ERR value is not an integer or out of range +OK]"),
        (
            "LPUSH s x",
            "+QUEUED",
            "[-WRONGTYPE Operation against a key holding the wrong kind of value +OK]",
        ),
        ("MULTI", "-ERR MULTI calls can not be nested", "[+OK]"),
        ("WATCH s", "-ERR WATCH inside MULTI is not allowed", "[+OK]"),
        ("GET", "-ERR wrong number of arguments for 'get' command", abort),
        ("GET a b", "-ERR wrong number of arguments for 'get' command", abort),
        ("SET s x EX", "+QUEUED", "[-ERR syntax error +OK]"),
    ] {
        client.line("DEL done");
        assert_eq!(client.line("MULTI"), "+OK");
        assert_eq!(client.line(line), reply, "{line}");
        assert_eq!(client.line("SET done yes"), "+QUEUED", "{line}");
        assert_eq!(client.line("EXEC"), outcome, "{line}");
        let is_done = if outcome == abort { "nil" } else { "\"yes\"" };
        assert_eq!(client.line("GET done"), is_done, "{line}");
        assert_eq!(client.line("EXEC"), "-ERR EXEC without MULTI", "{line}");
    }
    assert_eq!(client.line("GET s"), "\"text\"");
}

/// What was lost: of a `SORT` that looked at very many keys each was kept, with its name, as one that must not have
/// changed; beyond 512 MiB the command was refused, alone and not in a transaction, where nobody else writes.
#[test]
fn a_sort_may_look_at_more_than_a_step_may_keep() {
    let server = TestServer::start();
    let mut client = server.connect();
    let numbers: Vec<String> = (0..9_200).map(|number| number.to_string()).collect();
    let push: Vec<&str> =
        ["RPUSH", "list"].into_iter().chain(numbers.iter().map(String::as_str)).collect();
    assert_eq!(client.ask(&push), ":9200");
    // None of these keys is there, which must not change meanwhile either.
    let pattern = format!("{}*", "k".repeat(60_000));
    let sorted = client.ask(&["SORT", "list", "BY", "nosort", "GET", "#", "GET", &pattern]);
    assert!(sorted.starts_with("[\"0\" nil \"1\" nil"), "{:.80}", sorted);
    assert!(sorted.ends_with("\"9199\" nil]"));
}
