//! Streams that no honest client sends.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests may fail, and say how far they came"
)]

mod frames;

use std::io::Write;
use std::net::Shutdown;

use crate::support::{Client, TestServer, encode};

/// What the server answers to a stream before it closes the connection.
fn answer(server: &TestServer, stream: &[u8]) -> String {
    let mut client = server.connect();
    client.send(stream);
    client.rest().escape_ascii().to_string()
}

#[test]
fn broken_streams_get_a_reason_and_an_end() {
    let server = TestServer::start();
    let cases: [(&[u8], &str); 13] = [
        (b"*99999999999999999999\r\n", "invalid multibulk length"),
        (b"*1048577\r\n", "invalid multibulk length"),
        (b"*x\r\n", "invalid multibulk length"),
        (b"*2147483648\r\n", "invalid multibulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$-9223372036854775808\r\n", "invalid bulk length"),
        (b"*1\r\n$536870913\r\n", "invalid bulk length"),
        (b"*1\r\n$18446744073709551615\r\n", "invalid bulk length"),
        (b"*1\r\n*1\r\n$4\r\nPING\r\n", "expected \\'$\\', got \\'*\\'"),
        (b"*1\r\n\0", "expected \\'$\\', got \\'\\\\x00\\'"),
        (b"*1\r\n$4\r\nPINGxx", "expected CRLF after a bulk string"),
        (b"GET \"unbalanced\r\n", "unbalanced quotes in request"),
        (&[b'x'; 65_537], "too big inline request"),
    ];
    for (stream, reason) in cases {
        let expected = format!("-ERR Protocol error: {reason}\\r\\n");
        assert_eq!(
            answer(&server, stream),
            expected,
            "{}",
            stream[..stream.len().min(50)].escape_ascii()
        );
    }
    assert_eq!(server.connect().line("PING"), "+PONG");
}

#[test]
fn what_came_before_the_break_is_answered() {
    let server = TestServer::start();
    let mut stream = encode(&["SET", "k", "v"]);
    stream.extend(encode(&["GET", "k"]));
    stream.extend(encode(&["GET", "k"]));
    stream.extend_from_slice(b"*1\r\n!\r\n");
    stream.extend(encode(&["SET", "k", "never"]));
    let expected = "+OK\\r\\n$1\\r\\nv\\r\\n$1\\r\\nv\\r\\n-ERR Protocol error: expected \\'$\\', got \\'!\\'\\r\\n";
    assert_eq!(answer(&server, &stream), expected);
    assert_eq!(server.store.default_map().get(b"k").unwrap().unwrap(), b"v");
}

#[test]
fn a_browser_cannot_be_made_to_send_commands() {
    let server = TestServer::start();
    let post = b"POST / HTTP/1.1\r\nHost: localhost:6399\r\n\r\nSET k stolen\r\n";
    assert_eq!(answer(&server, post), "");
    let get = b"GET / HTTP/1.1\r\nHost: localhost:6399\r\n\r\nSET k stolen\r\n";
    assert!(answer(&server, get).starts_with("-ERR wrong number of arguments"));
    assert_eq!(server.store.default_map().len(), 0);
}

/// What was lost: a page in a browser could try passwords at a server of the same machine, in the body of a form.
#[test]
fn a_browser_cannot_be_made_to_try_passwords() {
    let server = TestServer::with(|config| config.password = Some("secret".into()));
    let tried = b"AUTH guess\r\nAUTH secret\r\nSET k stolen\r\n";
    for head in ["POST / HTTP/1.1\r\n", "Host: localhost:6399\r\n"] {
        assert_eq!(answer(&server, &[head.as_bytes(), tried].concat()), "", "{head}");
    }
    assert_eq!(server.store.default_map().len(), 0);
    assert!(server.connect().line("NOSUCH").starts_with("-NOAUTH"), "others are told as before");
}

#[test]
fn a_request_that_comes_byte_by_byte_is_understood() {
    let server = TestServer::start();
    let mut client = server.connect();
    let mut stream = encode(&["SET", "key", "value"]);
    stream.extend(encode(&["GET", "key"]));
    stream.extend_from_slice(b"PING\r\nECHO \"a b\"\r\n");
    for byte in stream {
        client.send(&[byte]);
    }
    let replies: Vec<String> = (0..4).map(|_| client.reply()).collect();
    assert_eq!(replies, ["+OK", "\"value\"", "+PONG", "\"a b\""]);
}

#[test]
fn a_client_that_stops_sending_still_gets_its_replies() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.send(b"SET k v\r\nGET k\r\nGET k");
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.rest(), b"+OK\r\n$1\r\nv\r\n", "the unfinished request is not run");
}

#[test]
fn a_client_that_leaves_in_the_middle_harms_nobody() {
    let server = TestServer::start();
    for cut in [&b""[..], b"*", b"*3\r\n$3\r\nSE", b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\nabc"]
    {
        let mut client = server.connect();
        client.send(cut);
        drop(client);
    }
    let mut client = server.connect();
    assert_eq!(client.line("PING"), "+PONG");
    crate::support::eventually("the others are gone", || {
        client.line("INFO clients").contains("connected_clients:1\\r")
    });
    assert_eq!(client.line("DBSIZE"), ":0");
}

#[test]
fn claimed_sizes_cost_no_memory() {
    let server = TestServer::start();
    let resident = |client: &mut Client| {
        let info = client.line("INFO memory");
        let start = info.find("used_memory_rss:").unwrap() + "used_memory_rss:".len();
        let rest = &info[start..];
        rest[..rest.find("\\r").unwrap()].parse::<u64>().unwrap()
    };
    let mut observer = server.connect();
    let before = resident(&mut observer);
    let mut liars = Vec::new();
    for _ in 0..50 {
        let mut client = server.connect();
        client.send(b"*1048576\r\n$536870912\r\nabc");
        liars.push(client);
    }
    // Each liar's bytes have been read when a later connection on the same thread is answered.
    for _ in 0..4 {
        server.connect().line("PING");
    }
    let grown = resident(&mut observer).saturating_sub(before);
    assert!(grown < 64 << 20, "50 claims of 512 MiB cost {grown} bytes");
}

#[test]
fn a_value_of_many_megabytes_goes_in_and_out_unchanged() {
    let server = TestServer::start();
    let mut client = server.connect();
    let value: Vec<u8> = (0..40_000_000u32).map(|index| (index % 251) as u8).collect();
    assert_eq!(client.ask(&[&b"SET"[..], b"big", &value]), "+OK");
    client.send(&encode(&["GET", "big"]));
    assert!(client.bulk() == value);
    assert_eq!(client.line("STRLEN big"), ":40000000");
    // Several in a row, pipelined, from a thread so that neither side blocks the other.
    let stream = encode(&[&b"SET"[..], b"big2", &value[..5_000_000]]).repeat(5);
    let mut writer = client.stream.try_clone().unwrap();
    let thread = std::thread::spawn(move || writer.write_all(&stream).unwrap());
    for _ in 0..5 {
        assert_eq!(client.reply(), "+OK");
    }
    thread.join().unwrap();
    assert_eq!(client.line("STRLEN big2"), ":5000000");
}

#[test]
fn values_around_the_sizes_of_the_buffers_survive() {
    let server = TestServer::start();
    let mut client = server.connect();
    for base in [4_096usize, 16_384, 65_536, 262_144, 1 << 20] {
        for size in base - 40..base + 3 {
            let value = vec![b'v'; size];
            client.send(&encode(&[&b"SET"[..], b"k", &value]));
            client.send(&encode(&["GET", "k"]));
            assert_eq!(client.reply(), "+OK");
            assert_eq!(client.bulk().len(), size);
        }
    }
}

#[test]
fn too_long_a_reply_becomes_an_error_and_the_connection_lives() {
    let server = TestServer::with(|config| {
        config.reply_size_max = 100_000;
        config.bulk_size_max = 50_000;
    });
    let mut client = server.connect();
    let value = "v".repeat(40_000);
    for key in ["a", "b", "c"] {
        assert_eq!(client.ask(&["SET", key, &value]), "+OK");
    }
    for request in ["MGET a b c", "RANGE - + WITHVALUES"] {
        let reply = client.line(request);
        assert!(reply.starts_with("-ERR the reply would have more than 97.7 KiB"), "{reply}");
    }
    assert!(client.line("MGET a b").len() > 80_000);
    assert!(client.ask(&["APPEND", "a", &value]).starts_with("-ERR string exceeds maximum"));
    assert_eq!(client.line("STRLEN a"), ":40000");
}

/// What was lost: the replies on their way to a client that sent more behind its `QUIT`, or behind an
/// error of the protocol: closing a socket with unread bytes resets the connection.
#[test]
fn replies_before_the_end_arrive_whatever_follows_it() {
    let server = TestServer::with(|config| config.output_pause_size = 16 << 20);
    let mut client = server.connect();
    assert_eq!(client.ask(&[&b"SET"[..], b"k", &vec![b'x'; 100 << 10]]), "+OK");
    for end in [&b"QUIT\r\n"[..], b"*1\r\n!\r\n"] {
        let mut client = server.connect();
        let mut stream = encode(&["GET", "k"]).repeat(80);
        stream.extend_from_slice(end);
        stream.resize(stream.len() + (2 << 20), b'x');
        let mut writer = client.stream.try_clone().unwrap();
        // The server need not take what follows the end.
        let thread = std::thread::spawn(move || drop(writer.write_all(&stream)));
        for _ in 0..80 {
            assert_eq!(client.bulk().len(), 100 << 10);
        }
        let last = client.reply();
        assert!(last == "+OK" || last.starts_with("-ERR Protocol error"), "{last}");
        client.assert_closed();
        thread.join().unwrap();
    }
}

#[test]
fn a_peer_that_never_ends_the_connection_is_closed_all_the_same() {
    let server = TestServer::start();
    let mut client = server.connect();
    assert_eq!(client.line("QUIT"), "+OK");
    client.assert_closed();
    let mut observer = server.connect();
    crate::support::eventually("it is closed", || {
        observer.line("INFO clients").contains("connected_clients:1\\r")
    });
}

/// What arguments are made of: numbers at limits, options of all commands, and bytes.
const WORDS: &[&str] = &[
    "k",
    "l",
    "h",
    "s",
    "z",
    "0",
    "1",
    "-1",
    "2",
    "7",
    "x",
    "",
    "#1",
    "#9223372036854775807",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "524287",
    "524288",
    "1e308",
    "-inf",
    "nan",
    "(1",
    "[a",
    "+",
    "*",
    "w_*->f",
    "\u{0}",
    "u8",
    "i64",
    "u63",
    "GET",
    "SET",
    "INCRBY",
    "OVERFLOW",
    "SAT",
    "FAIL",
    "AND",
    "NOT",
    "XOR",
    "BIT",
    "BYTE",
    "BY",
    "LIMIT",
    "STORE",
    "ALPHA",
    "DESC",
    "REPLACE",
    "DB",
    "ABSTTL",
    "FREQ",
    "IDLETIME",
    "IDX",
    "LEN",
    "MINMATCHLEN",
    "WITHMATCHLEN",
    "USAGE",
    "SAMPLES",
    "ENCODING",
    "REFCOUNT",
    "STATS",
    "DOCTOR",
    "HELP",
    "RESET",
    "COUNT",
    "MATCH",
    "WITHSCORES",
    "BEFORE",
    "LEFT",
    "RIGHT",
    "RANK",
    "MAXLEN",
    "EX",
    "PXAT",
    "NX",
];

/// Whether a command is left out: it ends connection or server, waits, mutes the replies, or sends more of them; or it
/// is a subcommand, which comes with its command.
fn is_left_out(name: &str) -> bool {
    let waits = ["bl", "br", "bz"].iter().any(|start| name.starts_with(start));
    waits
        || name.contains('|')
        || matches!(
            name,
            "shutdown" | "quit" | "client" | "hello" | "save" | "bgsave" | "config" | "monitor"
        )
}

#[test]
fn every_command_answers_whatever_its_arguments_are() {
    let server = TestServer::with(|config| config.bulk_size_max = 64 << 10);
    let mut client = server.connect();
    let list = client.line("COMMAND LIST");
    let names: Vec<&str> =
        list.split('"').skip(1).step_by(2).filter(|name| !is_left_out(name)).collect();
    assert!(names.len() > 150, "{list}");
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for round in 0..400 {
        let payload = client.ask(&["DUMP", WORDS[random(5)]]);
        for _ in 0..100 {
            let mut request = vec![names[random(names.len())]];
            for _ in 0..random(8) {
                let word = WORDS[random(WORDS.len())];
                request.push(if random(40) == 0 { &payload } else { word });
            }
            client.send(&encode(&request));
        }
        // As many answers as there were requests: then this one has its own.
        for _ in 0..100 {
            client.reply();
        }
        client.line("DISCARD");
        let marker = round.to_string();
        assert_eq!(client.line(&format!("ECHO {marker}")), format!("\"{marker}\""));
    }
}
