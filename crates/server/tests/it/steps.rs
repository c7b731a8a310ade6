//! A command or a transaction has one time.

#![allow(clippy::unwrap_used, reason = "tests may fail")]

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
