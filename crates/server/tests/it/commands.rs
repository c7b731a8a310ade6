//! Every command: what it does, what it answers, and how it refuses.

#![allow(clippy::unwrap_used, reason = "tests may fail")]

use crate::support::{Client, TestServer, encode};

/// Runs lines on one connection and compares each reply.
fn run(client: &mut Client, script: &[(&str, &str)]) {
    for (line, expected) in script {
        assert_eq!(client.line(line), *expected, "{line}");
    }
}

/// What broke programs: `GETRANGE` with both ends before the start, and options that are repeated, of which the last
/// counts.
#[test]
fn strings_are_set_and_got_in_every_way() {
    let server = TestServer::start();
    run(
        &mut server.connect(),
        &[
            ("GET k", "nil"),
            ("SET k v", "+OK"),
            ("get k", "\"v\""),
            ("SET k w NX", "nil"),
            ("SET n w NX", "+OK"),
            ("SET k w XX", "+OK"),
            ("SET absent w XX", "nil"),
            ("GET absent", "nil"),
            ("SET k x GET", "\"w\""),
            ("SET fresh x GET", "nil"),
            ("SET k y NX GET", "\"x\""),
            ("SET k z XX GET", "\"x\""),
            ("GET k", "\"z\""),
            ("SET fresh2 q NX GET", "nil"),
            ("GET fresh2", "\"q\""),
            ("SET fresh3 q XX GET", "nil"),
            ("EXISTS fresh3", ":0"),
            ("SETNX k 1", ":0"),
            ("SETNX s 1", ":1"),
            ("GETSET s 2", "\"1\""),
            ("GETSET t 2", "nil"),
            ("GETDEL t", "\"2\""),
            ("GETDEL t", "nil"),
            ("APPEND a hello", ":5"),
            ("APPEND a world", ":10"),
            ("STRLEN a", ":10"),
            ("STRLEN none", ":0"),
            ("GETRANGE a 0 4", "\"hello\""),
            ("GETRANGE a -5 -1", "\"world\""),
            ("GETRANGE none 0 -1", "\"\""),
            ("GETRANGE a -100 -50", "\"h\""),
            ("GETRANGE a -5 -100", "\"\""),
            // Of options that are repeated, the last counts.
            ("SET e v EX 10 EX 4000000", "+OK"),
            ("SET e v EXAT 1 EXAT 4000000000 XX XX", "+OK"),
            ("EXPIRETIME e", ":4000000000"),
            ("SET e v PXAT 4000000000500", "+OK"),
            ("EXPIRETIME e", ":4000000001"),
            ("SET e v KEEPTTL KEEPTTL", "+OK"),
            ("SET e v EX 10 PX 10", "-ERR syntax error"),
            ("SET e v EX x PX 10", "-ERR syntax error"),
            ("SET e v EX 10 KEEPTTL", "-ERR syntax error"),
            ("SET e v KEEPTTL EX 10", "-ERR syntax error"),
            ("GETEX e PERSIST PERSIST", "\"v\""),
            ("GETEX e EXAT 1 EXAT 4000000000", "\"v\""),
            ("EXPIRETIME e", ":4000000000"),
            ("GETEX e EX 10 PERSIST", "-ERR syntax error"),
            ("GETEX none EX -1", "nil"),
            ("SUBSTR a 1 2", "\"el\""),
        ],
    );
}

#[test]
fn many_keys_are_handled_at_once() {
    let server = TestServer::start();
    let mut client = server.connect();
    run(
        &mut client,
        &[
            ("MSET a 1 b 2 c 3", "+OK"),
            ("MGET a b none c a", "[\"1\" \"2\" nil \"3\" \"1\"]"),
            ("MSETNX d 4 a 9", ":0"),
            ("EXISTS d", ":0"),
            ("MSETNX d 4 e 5 d 6", ":1"),
            ("GET d", "\"6\""),
            ("EXISTS a a b none", ":3"),
            ("DEL a b none", ":2"),
            ("UNLINK c c", ":1"),
            ("DBSIZE", ":2"),
            ("MSET a 1 b", "-ERR wrong number of arguments for 'mset' command"),
            ("MSETNX a 1 b", "-ERR wrong number of arguments for 'msetnx' command"),
            ("MSET a", "-ERR wrong number of arguments for 'mset' command"),
            ("FLUSHALL", "+OK"),
            ("DBSIZE", ":0"),
            ("FLUSHDB ASYNC", "+OK"),
            ("FLUSHDB sync", "+OK"),
            ("FLUSHDB now", "-ERR syntax error"),
        ],
    );
    // More than are looked up together.
    let keys: Vec<String> = (0..300).map(|index| format!("k{index}")).collect();
    for key in &keys[..200] {
        assert_eq!(client.ask(&["SET", key, key]), "+OK");
    }
    let mut request = vec!["MGET".to_string()];
    request.extend(keys.iter().cloned());
    let values: Vec<String> = (0..300)
        .map(|index| if index < 200 { format!("\"k{index}\"") } else { "nil".into() })
        .collect();
    assert_eq!(client.ask(&request), format!("[{}]", values.join(" ")));
}

#[test]
fn counters_count_and_refuse_what_is_no_integer() {
    let server = TestServer::start();
    run(
        &mut server.connect(),
        &[
            ("INCR c", ":1"),
            ("INCR c", ":2"),
            ("DECR c", ":1"),
            ("INCRBY c 40", ":41"),
            ("DECRBY c 1", ":40"),
            ("INCRBY c -50", ":-10"),
            ("GET c", "\"-10\""),
            ("SET c 9223372036854775806", "+OK"),
            ("INCR c", ":9223372036854775807"),
            ("INCR c", "-ERR increment or decrement would overflow"),
            ("GET c", "\"9223372036854775807\""),
            ("SET c -9223372036854775808", "+OK"),
            ("DECR c", "-ERR increment or decrement would overflow"),
            ("DECRBY c -9223372036854775808", "-ERR decrement would overflow"),
            ("INCRBY c 1.5", "-ERR value is not an integer or out of range"),
            ("INCRBY c x", "-ERR value is not an integer or out of range"),
            ("SET t text", "+OK"),
            ("INCR t", "-ERR value is not an integer or out of range"),
            ("GET t", "\"text\""),
            ("SET z 007", "+OK"),
            ("INCR z", "-ERR value is not an integer or out of range"),
        ],
    );
}

#[test]
fn keys_are_listed_by_pattern_and_by_type() {
    let server = TestServer::start();
    run(
        &mut server.connect(),
        &[
            ("MSET user:1 a user:2 b user:10 c item:1 d", "+OK"),
            ("KEYS user:?", "[\"user:1\" \"user:2\"]"),
            ("KEYS *:1", "[\"item:1\" \"user:1\"]"),
            ("KEYS nothing*", "[]"),
            ("KEYS *", "[\"item:1\" \"user:1\" \"user:10\" \"user:2\"]"),
            ("TYPE user:1", "+string"),
            ("TYPE none", "+none"),
            ("TTL user:1", ":-1"),
            ("PTTL none", ":-2"),
        ],
    );
}

#[test]
fn ranges_are_ordered_and_bounded() {
    let server = TestServer::start();
    let mut client = server.connect();
    run(
        &mut client,
        &[
            ("MSET a 1 b 2 c 3 d 4 (x 5 - 6 + 7", "+OK"),
            ("RANGE a c", "[\"a\" \"b\" \"c\"]"),
            ("RANGE [a (c", "[\"a\" \"b\"]"),
            ("RANGE (a +", "[\"b\" \"c\" \"d\"]"),
            ("RANGE - (a", "[\"(x\" \"+\" \"-\"]"),
            ("RANGE [- [-", "[\"-\"]"),
            ("RANGE [(x [(x WITHVALUES", "[\"(x\" \"5\"]"),
            ("RANGE a + REV", "[\"d\" \"c\" \"b\" \"a\"]"),
            ("RANGE - + REV LIMIT 1", "[\"d\"]"),
            ("RANGE b + LIMIT 2 WITHVALUES", "[\"b\" \"2\" \"c\" \"3\"]"),
            ("RANGE - + LIMIT 0", "[]"),
            ("RANGE c a", "[]"),
            ("RANGE (a (a", "[]"),
            ("RANGE + -", "[]"),
            ("RANGE + +", "[]"),
            ("RANGE - + LIMIT -1", "-ERR the limit is negative: leave it out for no limit"),
            ("RANGE - + LIMIT x", "-ERR value is not an integer or out of range"),
            ("RANGE - + LIMIT", "-ERR syntax error"),
            ("RANGE - + FOO", "-ERR syntax error"),
            ("RANGE -", "-ERR wrong number of arguments for 'range' command"),
            ("MSET p:1 x p:2 y p;3 z", "+OK"),
            ("PREFIX p:", "[\"p:1\" \"p:2\"]"),
            ("PREFIX p: REV WITHVALUES LIMIT 1", "[\"p:2\" \"y\"]"),
            ("PREFIX nothing", "[]"),
        ],
    );
    assert!(client.line("HELLO 3").starts_with('{'));
    assert_eq!(client.line("RANGE b c WITHVALUES"), "[[\"b\" \"2\"] [\"c\" \"3\"]]");
}

#[test]
fn a_range_longer_than_one_visit_of_the_store_is_complete() {
    let server = TestServer::start();
    for index in 0..5_000u32 {
        server.store.default_map().put(format!("{index:05}").as_bytes(), b"v").unwrap();
    }
    let mut client = server.connect();
    let expected: Vec<String> = (0..5_000).map(|index| format!("\"{index:05}\"")).collect();
    assert_eq!(client.line("RANGE - +"), format!("[{}]", expected.join(" ")));
    let reversed: Vec<String> = expected.iter().rev().cloned().collect();
    assert_eq!(client.line("RANGE - + REV"), format!("[{}]", reversed.join(" ")));
    assert_eq!(client.line("KEYS *"), format!("[{}]", expected.join(" ")));
    assert_eq!(client.line("RANGE - + LIMIT 3000").matches('"').count(), 6_000);
}

#[test]
fn the_connection_commands_answer() {
    let server = TestServer::start();
    let mut client = server.connect();
    run(
        &mut client,
        &[
            ("PING", "+PONG"),
            ("PING hello", "\"hello\""),
            ("PING a b", "-ERR wrong number of arguments for 'ping' command"),
            ("ECHO hi", "\"hi\""),
            ("SELECT 0", "+OK"),
            ("SELECT 15", "+OK"),
            ("SELECT 0", "+OK"),
            ("SELECT 16", "-ERR DB index is out of range"),
            ("SELECT -1", "-ERR DB index is out of range"),
            ("SELECT x", "-ERR value is not an integer or out of range"),
            ("CLIENT GETNAME", "nil"),
            ("CLIENT SETNAME me", "+OK"),
            ("CLIENT GETNAME", "\"me\""),
            ("CLIENT SETINFO LIB-NAME lib", "+OK"),
            ("CLIENT SETINFO lib-ver 1.2", "+OK"),
            ("CLIENT SETINFO lib-foo 1.2", "-ERR Unrecognized option 'lib-foo'"),
            ("CLIENT NO-EVICT on", "+OK"),
            ("CLIENT NO-TOUCH off", "+OK"),
            ("CLIENT NO-TOUCH maybe", "-ERR syntax error"),
            ("CLIENT ID x", "-ERR wrong number of arguments for 'client|id' command"),
            ("RESET", "+RESET"),
            ("CLIENT GETNAME", "nil"),
        ],
    );
    assert!(client.line("CLIENT FOO").starts_with("-ERR unknown subcommand 'FOO'"));
    let refused = client.ask(&["CLIENT", "SETNAME", "two words"]);
    assert!(refused.starts_with("-ERR Client names cannot contain spaces"), "{refused}");
    let echo = client.ask(&[&b"ECHO"[..], &[0, 1, 2, 255, b'\r', b'\n']]);
    assert_eq!(echo, "\"\\x00\\x01\\x02\\xff\\r\\n\"");
    assert_eq!(client.line("QUIT"), "+OK");
    client.assert_closed();
}

#[test]
fn hello_chooses_the_protocol() {
    let server = TestServer::start();
    let mut client = server.connect();
    assert!(client.line("HELLO").starts_with("[\"server\" \"everleaf\" \"version\""));
    assert_eq!(client.line("HELLO 4"), "-NOPROTO unsupported protocol version");
    assert_eq!(client.line("HELLO x"), "-ERR Protocol version is not an integer or out of range");
    assert_eq!(client.line("HELLO 3 FOO"), "-ERR Syntax error in HELLO option 'FOO'");
    assert_eq!(client.line("HELLO 3 AUTH default"), "-ERR Syntax error in HELLO option 'AUTH'");
    let hello = client.line("HELLO 3 SETNAME me");
    assert!(hello.starts_with("{\"server\" \"everleaf\""), "{hello}");
    assert!(hello.contains("\"proto\" :3"), "{hello}");
    assert_eq!(client.line("GET none"), "nil");
    assert_eq!(client.line("CLIENT GETNAME"), "\"me\"");
    assert!(client.line("CLIENT INFO").starts_with("txt\"id="));
    assert!(client.line("CONFIG GET port").starts_with("{\"port\""));
    assert!(client.line("HELLO 2").starts_with('['));
}

#[test]
fn absence_is_written_as_the_protocol_has_it() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.send(b"GET none\r\nHELLO 3\r\n");
    assert_eq!(client.reply(), "nil");
    client.reply();
    client.send(b"GET none\r\nMGET none\r\nRESET\r\nGET none\r\nQUIT\r\n");
    assert_eq!(client.rest(), b"_\r\n*1\r\n_\r\n+RESET\r\n$-1\r\n+OK\r\n");
}

#[test]
fn wrong_requests_are_refused_in_the_words_clients_expect() {
    let server = TestServer::start();
    let mut client = server.connect();
    run(
        &mut client,
        &[
            ("GET", "-ERR wrong number of arguments for 'get' command"),
            ("GET a b", "-ERR wrong number of arguments for 'get' command"),
            ("SET a", "-ERR wrong number of arguments for 'set' command"),
            (
                "FOO",
                "-ERR unknown command 'FOO', with args beginning with: (what differs from Redis: \
                 docs/redis-differences.md)",
            ),
            (
                "FOO a b",
                "-ERR unknown command 'FOO', with args beginning with: 'a' 'b' (what differs from Redis: \
                 docs/redis-differences.md)",
            ),
            ("SET a b FOO", "-ERR syntax error"),
            ("SET a b NX XX", "-ERR syntax error"),
            ("SET a b EX", "-ERR syntax error"),
            ("SET a b EX 10 PX 10", "-ERR syntax error"),
            ("SET a b KEEPTTL EX 10", "-ERR syntax error"),
            ("SET a b EX 10 PX 10", "-ERR syntax error"),
            ("SET a b EX x", "-ERR value is not an integer or out of range"),
            ("SET a b EX 0", "-ERR invalid expire time in 'set' command"),
            ("SETEX a 0 b", "-ERR invalid expire time in 'setex' command"),
            (
                "EXPIRE a 10 NX XX",
                "-ERR NX and XX, GT or LT options at the same time are not compatible",
            ),
            ("EXPIRE a ten", "-ERR value is not an integer or out of range"),
            ("GETEX a EX", "-ERR syntax error"),
            ("EXEC", "-ERR EXEC without MULTI"),
            ("DISCARD", "-ERR DISCARD without MULTI"),
            ("EXISTS a", ":0"),
            ("SCAN", "-ERR wrong number of arguments for 'scan' command"),
            ("SHUTDOWN ABORT", "-ERR No shutdown in progress."),
            ("SHUTDOWN SOON", "-ERR syntax error"),
            // It stopped.
            ("SHUTDOWN NOSAVE SAVE", "-ERR syntax error"),
            ("SHUTDOWN ABORT NOW", "-ERR syntax error"),
        ],
    );
    let long = "x".repeat(300);
    let reply = client.ask(&[&long]);
    assert!(reply.len() < 250 && reply.starts_with("-ERR unknown command 'xxx"), "{reply}");
    let reply = client.ask(&["A\r\nB"]);
    assert!(reply.starts_with("-ERR unknown command 'A  B', with args beginning with: (what"));
}

#[test]
fn keys_above_the_limit_are_refused_and_the_rest_goes_on() {
    let server = TestServer::start();
    let mut client = server.connect();
    let key = vec![b'k'; everleaf::KEY_SIZE_MAX + 1];
    let reply = client.ask(&[&b"SET"[..], &key, b"v"]);
    assert!(reply.starts_with("-ERR the key has"), "{reply}");
    let longest = &key[1..];
    assert_eq!(client.ask(&[&b"SET"[..], longest, b"v"]), "+OK");
    // In a group of lookups, only the one to blame fails, if any.
    client.send(&crate::support::encode(&[&b"GET"[..], longest]));
    client.send(&crate::support::encode(&[&b"GET"[..], &key]));
    client.send(&crate::support::encode(&[&b"GET"[..], longest]));
    assert_eq!(client.reply(), "\"v\"");
    let reply = client.reply();
    assert!(reply == "nil" || reply.starts_with("-ERR the key has"), "{reply}");
    assert_eq!(client.reply(), "\"v\"");
    assert_eq!(client.line("SET k v"), "+OK");
}

/// What broke programs: a negative cursor was refused.
#[test]
fn scans_return_every_key_and_can_be_filtered() {
    let server = TestServer::start();
    for index in 0..1_000u32 {
        server.store.default_map().put(format!("key:{index}").as_bytes(), b"v").unwrap();
        server.store.default_map().put(format!("other:{index}").as_bytes(), b"v").unwrap();
    }
    let mut client = server.connect();
    let scan = |client: &mut Client, options: &str| {
        let (mut cursor, mut keys, mut steps) = ("0".to_string(), Vec::new(), 0);
        loop {
            let reply = client.line(&format!("SCAN {cursor} {options}"));
            let parts: Vec<String> = reply.split('"').map(str::to_string).collect();
            cursor = parts[1].clone();
            keys.extend(parts[3..].iter().step_by(2).filter(|key| !key.is_empty()).cloned());
            steps += 1;
            if cursor == "0" {
                return (keys, steps);
            }
            assert!(steps < 10_000);
        }
    };
    let count = |keys: &[String]| {
        let unique: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(unique.len(), keys.iter().filter(|key| *key != "]]").count());
        unique.iter().filter(|key| key.contains(':')).count()
    };
    let (keys, steps) = scan(&mut client, "");
    assert_eq!(count(&keys), 2_000);
    assert!(steps >= 200);
    let (keys, steps) = scan(&mut client, "COUNT 5000");
    assert_eq!((count(&keys), steps), (2_000, 1));
    let (keys, steps) = scan(&mut client, "MATCH key:* COUNT 100");
    assert_eq!(count(&keys), 1_000);
    assert!(steps <= 11, "the prefix bounds the scan, but it took {steps} steps");
    let (keys, _) = scan(&mut client, "MATCH *:7");
    assert_eq!(count(&keys), 2);
    let (keys, _) = scan(&mut client, "TYPE string COUNT 1000");
    assert_eq!(count(&keys), 2_000);
    let (keys, _) = scan(&mut client, "TYPE hash COUNT 1000");
    assert_eq!(count(&keys), 0);
    run(
        &mut client,
        &[
            ("SCAN x", "-ERR invalid cursor"),
            ("SCAN -1", "[\"0\" []]"),
            ("SCAN -0 COUNT 100 MATCH none", "[\"0\" []]"),
            ("SCAN 18446744073709551615", "[\"0\" []]"),
            ("SCAN 18446744073709551616", "-ERR invalid cursor"),
            ("SCAN - ", "-ERR invalid cursor"),
            ("SCAN 99999999999999999999", "-ERR invalid cursor"),
            ("SCAN 0 COUNT 0", "-ERR syntax error"),
            ("SCAN 0 COUNT 100 COUNT 50 MATCH x MATCH none", "[\"0\" []]"),
            ("SCAN 0 COUNT", "-ERR syntax error"),
            ("SCAN 0 COUNT x", "-ERR value is not an integer or out of range"),
            ("SCAN 0 FOO 1", "-ERR syntax error"),
        ],
    );
    assert!(client.line("SCAN 4611686018427387904").starts_with("-ERR invalid cursor: 46"));
}

#[test]
fn a_scan_survives_changes_and_goes_on_over_another_connection() {
    let server = TestServer::start();
    let stay: Vec<String> = (0..500).map(|index| format!("stay:{index:03}")).collect();
    for key in &stay {
        server.store.default_map().put(key.as_bytes(), b"v").unwrap();
    }
    let mut clients = [server.connect(), server.connect()];
    let (mut cursor, mut found) = ("0".to_string(), Vec::new());
    for step in 0.. {
        let reply = clients[step % 2].line(&format!("SCAN {cursor} COUNT 7"));
        let parts: Vec<&str> = reply.split('"').collect();
        cursor = parts[1].to_string();
        let keys = parts[3..].iter().step_by(2).filter(|key| key.contains(':'));
        found.extend(keys.map(|key| key.to_string()));
        // Remove what was returned last if it may go, and add keys before and behind.
        server
            .store
            .default_map()
            .put(format!("stay:{:03}x", (step * 13) % 500).as_bytes(), b"v")
            .unwrap();
        server
            .store
            .default_map()
            .remove(format!("stay:{:03}x", (step * 29) % 500).as_bytes())
            .unwrap();
        if cursor == "0" {
            break;
        }
    }
    for key in &stay {
        assert!(found.contains(key), "{key} was there all the time");
    }
    let sorted = found.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(sorted, "in order, and none twice");
}

#[test]
fn limits_of_the_new_commands_are_errors_before_memory_is_taken() {
    let server = TestServer::with(|config| config.bulk_size_max = 1 << 20);
    let mut client = server.connect();
    let refused = [
        "SETRANGE k 1048576 x",
        "SETRANGE k 9223372036854775807 xx",
        "SETRANGE k -1 x",
        "SETBIT k 8388608 1",
        "SETBIT k 18446744073709551615 1",
        "SETBIT k 0 2",
        "BITFIELD k SET u8 8388608 1",
        "BITFIELD k SET i64 #9223372036854775807 1",
        "BITFIELD k SET u64 0 1",
        "BITFIELD k GET i65 0",
        "BITFIELD k INCRBY",
        "BITOP NOT k a b",
        "BITOP NAND k a b",
        "BITPOS k 2",
        "COPY k k",
        "COPY k l DB 16",
        "MOVE k 16",
        "COPY k l DB 99999999999",
        "SORT k BY",
        "SORT k LIMIT 1",
        "SORT_RO k STORE l",
        "RESTORE k 0 payload",
        "RESTORE k -1 payload",
        "RESTORE k 0 payload FREQ 256",
        "OBJECT",
        "OBJECT ENCODING",
        "OBJECT NOTHING k",
        "MEMORY USAGE k SAMPLES -1",
        "SLOWLOG GET -2",
        "SLOWLOG LEN x",
        "LATENCY HISTORY",
        "WAIT x 0",
        "WAIT 0 -1",
        "WAIT 0 x",
        "CONFIG SET slowlog-log-slower-than -2",
        "CONFIG SET slowlog-max-len 65537",
    ];
    for line in refused {
        let reply = client.line(line);
        assert!(reply.starts_with('-'), "{line}: {reply}");
    }
    assert_eq!(client.line("EXISTS k l"), ":0");
    let long = "x".repeat(1 << 16);
    assert_eq!(client.ask(&["SET", "long", &long]), "+OK");
    let reply = client.line("LCS long long");
    assert!(reply.starts_with("-ERR Insufficient memory"), "{reply}");
    assert_eq!(client.line("WAIT 5 0"), ":0");
}

#[test]
fn slow_commands_are_kept_and_cut() {
    let server = TestServer::start();
    let mut client = server.connect();
    assert_eq!(client.line("SLOWLOG LEN"), ":0");
    client.line("CLIENT SETNAME tester");
    client.line("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 3");
    client.line("AUTH secret");
    let reset = "SLOWLOG RESET";
    client.line(reset);
    client.line("SET k v");
    let many: Vec<String> = ["SADD".to_string(), "s".to_string()]
        .into_iter()
        .chain((0..31).map(|number| number.to_string()))
        .collect();
    client.ask(&many);
    let log = client.line("SLOWLOG GET 2");
    assert!(log.contains("\"... (2 more arguments)\"") && log.contains("\"tester\""), "{log}");
    assert!(log.contains("[\"SET\" \"k\" \"v\"]"), "{log}");
    client.line("PING");
    client.line("PING");
    assert_eq!(client.line("SLOWLOG LEN"), ":3");
    client.line("CONFIG SET slowlog-log-slower-than -1");
    client.line(reset);
    client.line("PING");
    assert_eq!(client.line("SLOWLOG GET -1"), "[]");
}

#[test]
fn strings_are_rows_of_bits_and_of_bytes() {
    let server = TestServer::start();
    run(
        &mut server.connect(),
        &[
            ("SETBIT b 7 1", ":0"),
            ("GET b", "\"\\x01\""),
            ("SETBIT b 7 0", ":1"),
            ("GETBIT b 7", ":0"),
            ("GETBIT none 7", ":0"),
            ("SET b foobar", "+OK"),
            ("BITCOUNT b", ":26"),
            ("BITCOUNT b 0 0", ":4"),
            ("BITCOUNT b 1 1 BYTE", ":6"),
            ("BITCOUNT b 5 30 BIT", ":17"),
            ("BITPOS b 1", ":1"),
            ("BITPOS b 1 2 -1 BIT", ":2"),
            ("BITPOS none 0", ":0"),
            ("SETRANGE b 6 !", ":7"),
            ("GET b", "\"foobar!\""),
            ("SETRANGE n 3 x", ":4"),
            ("GET n", "\"\\x00\\x00\\x00x\""),
            ("MSET x abc y abd", "+OK"),
            ("BITOP XOR d x y none", ":3"),
            ("GET d", "\"\\x00\\x00\\x07\""),
            ("BITOP AND d none", ":0"),
            ("EXISTS d", ":0"),
            (
                "BITFIELD f SET u8 0 200 INCRBY u8 0 100 OVERFLOW SAT INCRBY u8 0 300 OVERFLOW FAIL \
                 INCRBY u8 0 1 GET i8 0",
                "[:0 :44 :255 nil :-1]",
            ),
            ("BITFIELD_RO f GET u4 #1", "[:15]"),
            ("MSET a ohmytext b mynewtext", "+OK"),
            ("LCS a b", "\"mytext\""),
            ("LCS a b LEN", ":6"),
            (
                "LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN",
                "[\"matches\" [[[:4 :7] [:5 :8] :4]] \"len\" :6]",
            ),
        ],
    );
}

#[test]
fn collections_are_sorted_by_weights() {
    let server = TestServer::start();
    run(
        &mut server.connect(),
        &[
            ("RPUSH l 3 1 2", ":3"),
            ("SORT l", "[\"1\" \"2\" \"3\"]"),
            ("SORT l DESC LIMIT 0 2", "[\"3\" \"2\"]"),
            ("MSET w_1 c w_2 b w_3 a", "+OK"),
            ("SORT l BY w_* ALPHA GET # GET w_*", "[\"3\" \"a\" \"2\" \"b\" \"1\" \"c\"]"),
            ("SORT_RO l BY nosort", "[\"3\" \"1\" \"2\"]"),
            ("SORT l BY nosort BY w_* ALPHA", "[\"3\" \"1\" \"2\"]"),
            ("HSET h_1 f 9", ":1"),
            ("SORT l GET h_*->f", "[\"9\" nil nil]"),
            ("SORT l GET h_*->f STORE t", ":3"),
            ("LRANGE t 0 -1", "[\"9\" \"\" \"\"]"),
            ("SORT none STORE t", ":0"),
            ("EXISTS t", ":0"),
            ("SADD s b a", ":2"),
            ("SORT s", "-ERR One or more scores can't be converted into double"),
            ("SORT s ALPHA", "[\"a\" \"b\"]"),
            ("COMMAND GETKEYS SORT l STORE t", "[\"l\" \"t\"]"),
            (
                "COMMAND GETKEYS XADD s",
                "-ERR Invalid command specified (what differs from Redis: docs/redis-differences.md)",
            ),
            ("COMMAND GETKEYS OBJECT HELP x", "-ERR The command has no key arguments"),
            ("COMMAND GETKEYS OBJECT ENCODING x", "[\"x\"]"),
        ],
    );
}

#[test]
fn what_is_dumped_is_restored_with_its_time() {
    let server = TestServer::start();
    let mut client = server.connect();
    run(
        &mut client,
        &[
            ("SET string value", "+OK"),
            ("RPUSH list a b c", ":3"),
            ("SADD set a b", ":2"),
            ("HSET hash f 1 g 2", ":2"),
            ("ZADD zset 1.5 a -inf b", ":2"),
            ("DUMP none", "nil"),
        ],
    );
    for (key, show) in [
        ("string", "GET"),
        ("list", "LRANGE 0 -1"),
        ("set", "SCARD"),
        ("hash", "HGETALL"),
        ("zset", "ZRANGE 0 -1 WITHSCORES"),
    ] {
        let show = match show.split_once(' ') {
            Some((name, rest)) => format!("{name} {key} {rest}"),
            None => format!("{show} {key}"),
        };
        let before = client.line(&show);
        client.send(&encode(&["DUMP", key]));
        let payload = client.bulk();
        let restore = |time: &'static str, option: &'static str| {
            [&b"RESTORE"[..], key.as_bytes(), time.as_bytes(), &payload, option.as_bytes()]
        };
        assert_eq!(client.ask(&restore("0", "ABSTTL")), "-BUSYKEY Target key name already exists.");
        assert_eq!(client.line(&format!("DEL {key}")), ":1");
        assert_eq!(client.ask(&restore("4000000000000", "ABSTTL")), "+OK");
        assert_eq!(client.line(&show), before);
        assert_eq!(client.line(&format!("EXPIRETIME {key}")), ":4000000000");
        assert_eq!(client.ask(&restore("1", "ABSTTL")), "-BUSYKEY Target key name already exists.");
        let absolute = [&restore("1", "ABSTTL")[..], &[&b"REPLACE"[..]]].concat();
        assert_eq!(client.ask(&absolute), "+OK");
        assert_eq!(client.line(&format!("EXISTS {key}")), ":0", "its time has come");
    }
}
