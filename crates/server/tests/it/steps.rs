//! A command or a transaction has one time.

#![allow(clippy::unwrap_used, reason = "tests may fail")]

use everleaf::{Durability, Options};
use everleaf_server::DebugCommand;

use crate::support::TestServer;

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
