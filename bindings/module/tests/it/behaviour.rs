//! What each command answers, what is refused, and what the server's own commands do to the type.

use std::time::{Duration, Instant};

use redis::Value;

use crate::server::{Server, ask, ask_bytes, eventually, info, refusal, tell};

fn strings(value: Value) -> Vec<String> {
    redis::from_redis_value(value).expect("a list of texts")
}

#[test]
fn entries_are_put_found_and_removed() {
    let server = Server::start(&[]);
    let c = &mut server.connect();
    assert_eq!(tell(c, &["EL.PUT", "k", "b", "2"]), Value::Int(1));
    assert_eq!(tell(c, &["EL.PUT", "k", "b", "3"]), Value::Int(0));
    assert_eq!(tell(c, &["EL.MPUT", "k", "a", "1", "d", "4", "b", "2"]), Value::Int(2));
    assert_eq!(tell(c, &["EL.GET", "k", "b"]), Value::BulkString(b"2".to_vec()));
    assert_eq!(tell(c, &["EL.GET", "k", "c"]), Value::Nil);
    assert_eq!(tell(c, &["EL.GET", "none", "c"]), Value::Nil);
    let many: Vec<Option<String>> = ask(c, &["EL.MGET", "k", "d", "x", "a"]).expect("a list");
    assert_eq!(many, [Some("4".into()), None, Some("1".into())]);
    assert_eq!(strings(tell(c, &["EL.RANGE", "k", "-", "+"])), ["a", "1", "b", "2", "d", "4"]);
    assert_eq!(strings(tell(c, &["EL.RANGE", "k", "(a", "[d", "REV", "NOVALUES"])), ["d", "b"]);
    assert_eq!(strings(tell(c, &["EL.RANGE", "k", "-", "+", "LIMIT", "1"])), ["a", "1"]);
    for empty in [["(a", "(a"], ["[d", "[a"], ["+", "-"], ["+", "+"], ["-", "-"], ["[b", "-"]] {
        assert!(strings(tell(c, &["EL.RANGE", "k", empty[0], empty[1]])).is_empty(), "{empty:?}");
        assert_eq!(tell(c, &["EL.COUNT", "k", empty[0], empty[1]]), Value::Int(0));
    }
    assert_eq!(tell(c, &["EL.COUNT", "k"]), Value::Int(3));
    assert_eq!(tell(c, &["EL.COUNT", "k", "[b", "+"]), Value::Int(2));
    assert_eq!(strings(tell(c, &["EL.FLOOR", "k", "c"])), ["b", "2"]);
    assert_eq!(strings(tell(c, &["EL.CEILING", "k", "c"])), ["d", "4"]);
    assert_eq!(tell(c, &["EL.CEILING", "k", "e"]), Value::Nil);
    assert_eq!(tell(c, &["EL.FLOOR", "k", ""]), Value::Nil);
    assert_eq!(tell(c, &["EL.DEL", "k", "a", "x", "a"]), Value::Int(1));
    assert_eq!(tell(c, &["EL.DEL", "k", "b", "d"]), Value::Int(2));
    assert_eq!(tell(c, &["EXISTS", "k"]), Value::Int(0));
    assert_eq!(tell(c, &["EL.DEL", "k", "b"]), Value::Int(0));
}

#[test]
fn conditions_counters_and_swaps_hold() {
    let server = Server::start(&[]);
    let c = &mut server.connect();
    assert_eq!(tell(c, &["EL.PUT", "k", "a", "1", "XX"]), Value::Nil);
    assert_eq!(tell(c, &["EXISTS", "k"]), Value::Int(0));
    assert_eq!(tell(c, &["EL.PUT", "k", "a", "1", "nx"]), Value::Int(1));
    assert_eq!(tell(c, &["EL.PUT", "k", "a", "2", "NX"]), Value::Nil);
    assert_eq!(tell(c, &["EL.PUT", "k", "a", "2", "XX"]), Value::Int(0));
    assert_eq!(tell(c, &["EL.CAS", "k", "a", "1", "9"]), Value::Int(0));
    assert_eq!(tell(c, &["EL.CAS", "k", "a", "2", "9"]), Value::Int(1));
    assert_eq!(tell(c, &["EL.CAS", "k", "none", "", "9"]), Value::Int(0));
    assert_eq!(tell(c, &["EL.INCRBY", "k", "a", "-10"]), Value::Int(-1));
    assert_eq!(tell(c, &["EL.INCRBY", "k", "new", "5"]), Value::Int(5));
    tell(c, &["EL.PUT", "k", "max", &i64::MAX.to_string()]);
    assert!(refusal(c, &["EL.INCRBY", "k", "max", "1"]).contains("overflow"));
    tell(c, &["EL.PUT", "k", "text", "1x"]);
    assert!(refusal(c, &["EL.INCRBY", "k", "text", "1"]).contains("not an integer"));
    assert!(refusal(c, &["EL.INCRBY", "fresh", "text", "x"]).contains("not an integer"));
    assert_eq!(tell(c, &["EXISTS", "fresh"]), Value::Int(0));
}

#[test]
fn scans_meet_every_entry_once_while_others_come_and_go() {
    let server = Server::start(&[]);
    let c = &mut server.connect();
    for number in 0..2000 {
        tell(c, &["EL.PUT", "k", &format!("stay-{number:05}"), "x"]);
    }
    let (mut cursor, mut seen, mut steps) = ("0".to_string(), vec![], 0);
    loop {
        let words = ["EL.SCAN", "k", &cursor, "PREFIX", "stay", "COUNT", "37", "NOVALUES"];
        let (next, names): (String, Vec<String>) = ask(c, &words).expect("a step");
        seen.extend(names);
        steps += 1;
        tell(c, &["EL.PUT", "k", &format!("come-{steps}"), "x"]);
        tell(c, &["EL.DEL", "k", &format!("come-{}", steps - 1)]);
        if next == "0" {
            break;
        }
        cursor = next;
    }
    let expected: Vec<String> = (0..2000).map(|number| format!("stay-{number:05}")).collect();
    assert_eq!(seen, expected);
    let (next, all): (String, Vec<String>) =
        ask(c, &["EL.SCAN", "k", "0", "COUNT", &i64::MAX.to_string()]).expect("all");
    assert_eq!((next.as_str(), all.len()), ("0", 2 * 2001));
    for cursor in ["1", "", "stay"] {
        assert!(refusal(c, &["EL.SCAN", "k", cursor]).contains("invalid cursor"));
    }
}

#[test]
fn wrong_types_numbers_and_counts_of_arguments_are_refused() {
    let server = Server::start(&[]);
    let c = &mut server.connect();
    tell(c, &["SET", "string", "x"]);
    tell(c, &["EL.PUT", "k", "a", "1"]);
    let calls: &[&[&str]] = &[
        &["EL.PUT", "string", "a", "1"],
        &["EL.MPUT", "string", "a", "1"],
        &["EL.GET", "string", "a"],
        &["EL.MGET", "string", "a"],
        &["EL.DEL", "string", "a"],
        &["EL.RANGE", "string", "-", "+"],
        &["EL.PREFIX", "string", "a"],
        &["EL.COUNT", "string"],
        &["EL.FLOOR", "string", "a"],
        &["EL.CEILING", "string", "a"],
        &["EL.CAS", "string", "a", "1", "2"],
        &["EL.INCRBY", "string", "a", "1"],
        &["EL.EXPIREAT", "string", "9999999999", "a"],
        &["EL.PEXPIREAT", "string", "9999999999999", "a"],
        &["EL.PERSIST", "string", "a"],
        &["EL.PEXPIRETIME", "string", "a"],
        &["EL.SCAN", "string", "0"],
        &["EL.INFO", "string"],
    ];
    for call in calls {
        assert!(refusal(c, call).contains("WRONGTYPE"), "{call:?}");
        assert!(refusal(c, &call[..1]).contains("wrong number of arguments"), "{call:?}");
        let info: Vec<Vec<Value>> = ask(c, &["COMMAND", "INFO", call[0]]).expect("known");
        assert_eq!(info[0][3], Value::Int(1), "the first key of {call:?}");
    }
    assert!(refusal(c, &["GET", "k"]).contains("WRONGTYPE"));
    assert!(refusal(c, &["EL.MPUT", "k", "a"]).contains("wrong number"));
    assert!(refusal(c, &["EL.MPUT", "k", "a", "1", "b"]).contains("wrong number"));
    assert!(refusal(c, &["EL.COUNT", "k", "-"]).contains("wrong number"));
    let bad: &[&[&str]] = &[
        &["EL.PUT", "k", "a", "1", "NX", "XX"],
        &["EL.PUT", "k", "a", "1", "EX"],
        &["EL.PUT", "k", "a", "1", "EX", "0"],
        &["EL.PUT", "k", "a", "1", "EX", "9223372036854775807"],
        &["EL.PUT", "k", "a", "1", "PXAT", "9223372036854775807"],
        &["EL.PUT", "k", "a", "1", "EX", "1", "KEEPTTL"],
        &["EL.RANGE", "k", "a", "b"],
        &["EL.RANGE", "k", "-", "+", "LIMIT"],
        &["EL.RANGE", "k", "-", "+", "LIMIT", "-1"],
        &["EL.RANGE", "k", "-", "+", "LIMIT", "99999999999999999999"],
        &["EL.SCAN", "k", "0", "COUNT", "0"],
        &["EL.SCAN", "k", "0", "COUNT", "-5"],
        &["EL.INCRBY", "k", "a", " 1"],
        &["EL.INCRBY", "k", "a", "+1"],
        &["EL.EXPIREAT", "k", "99999999999999999", "a"],
        &["EL.PEXPIREAT", "k", "x", "a"],
    ];
    for call in bad {
        refusal(c, call);
    }
    assert_eq!(
        strings(tell(c, &["EL.RANGE", "k", "-", "+", "LIMIT", "9223372036854775807"])).len(),
        2
    );
    assert!(strings(tell(c, &["EL.RANGE", "k", "-", "+", "LIMIT", "0"])).is_empty());
    assert_eq!(strings(tell(c, &["EL.RANGE", "k", "-", "+"])), ["a", "1"]);
    let long = vec![b'n'; 65_520];
    let error = ask_bytes::<Value>(c, &[b"EL.PUT", b"k", &long, b"v"]).expect_err("too long");
    assert!(error.to_string().contains("longer than 65519 bytes"), "{error}");
    let error = ask_bytes::<Value>(c, &[b"EL.MPUT", b"m", b"a", b"b", &long, b"v"]);
    error.expect_err("too long");
    assert_eq!(tell(c, &["EXISTS", "m"]), Value::Int(0));
}

#[test]
fn any_bytes_can_be_keys_names_and_values() {
    let server = Server::start(&[]);
    let c = &mut server.connect();
    let all: Vec<u8> = (0..=255).collect();
    let large = vec![0xA5; 3 << 20];
    let names: [&[u8]; 4] = [b"", &all, b"\0\0", &[0xFF; 65_519]];
    for key in [b"".as_slice(), &all] {
        for name in names {
            for value in [b"".as_slice(), &all, &large] {
                ask_bytes::<Value>(c, &[b"EL.PUT", key, name, value]).expect("any bytes");
                let found: Vec<u8> = ask_bytes(c, &[b"EL.GET", key, name]).expect("found");
                assert!(found == value);
            }
        }
        let (next, found): (Vec<u8>, Vec<Vec<u8>>) =
            ask_bytes(c, &[b"EL.SCAN", key, b"0", b"COUNT", b"2", b"NOVALUES"]).expect("a step");
        assert_eq!(found, [b"".to_vec(), b"\0\0".to_vec()]);
        let (next, found): (Vec<u8>, Vec<Vec<u8>>) =
            ask_bytes(c, &[b"EL.SCAN", key, &next, b"NOVALUES"]).expect("a step");
        assert_eq!((next.as_slice(), found.len()), (b"0".as_slice(), 2));
        let prefixed: Vec<Vec<u8>> =
            ask_bytes(c, &[b"EL.PREFIX", key, &[0xFF; 3], b"NOVALUES"]).expect("a list");
        assert_eq!(prefixed, [vec![0xFF; 65_519]]);
    }
    tell(c, &["DEBUG", "RELOAD"]);
    let found: Vec<u8> = ask_bytes(c, &[b"EL.GET", &all, &[0xFF; 65_519]]).expect("found");
    assert!(found == large);
}

#[test]
fn the_servers_own_commands_know_the_type() {
    let server = Server::start(&["--maxmemory-policy", "allkeys-lfu"]);
    let c = &mut server.connect();
    for number in 0..1000 {
        tell(c, &["EL.PUT", "large", &number.to_string(), "value"]);
    }
    tell(c, &["EL.PUT", "small", "a", "1"]);
    assert_eq!(tell(c, &["TYPE", "large"]), Value::SimpleString("everleaf1".into()));
    for key in ["large", "small"] {
        tell(c, &["OBJECT", "FREQ", key]);
        tell(c, &["OBJECT", "ENCODING", key]);
        tell(c, &["OBJECT", "REFCOUNT", key]);
        let bytes: u64 = ask(c, &["MEMORY", "USAGE", key]).expect("a number");
        let reported: Vec<Value> = ask(c, &["EL.INFO", key]).expect("a list");
        assert_eq!(reported.len(), 8);
        assert!(
            if key == "large" { bytes > 20_000 } else { (20..400).contains(&bytes) },
            "{bytes}"
        );
        tell(c, &["COPY", key, "copied", "REPLACE"]);
        tell(c, &["DEBUG", "OBJECT", key]);
        let digest = |c: &mut redis::Connection, key: &str| -> Vec<String> {
            ask(c, &["DEBUG", "DIGEST-VALUE", key]).expect("a digest")
        };
        assert_eq!(digest(c, key), digest(c, "copied"));
        tell(c, &["RENAME", "copied", "renamed"]);
        assert_eq!(digest(c, key), digest(c, "renamed"));
        tell(c, &["EL.PUT", "renamed", "only here", "1"]);
        assert_ne!(digest(c, key), digest(c, "renamed"));
        assert_eq!(tell(c, &["UNLINK", "renamed"]), Value::Int(1));
    }
    let script = "return redis.call('EL.PUT', KEYS[1], 'script', 'x')";
    assert_eq!(tell(c, &["EVAL", script, "1", "small"]), Value::Int(1));
    let listed: Vec<String> =
        ask(c, &["COMMAND", "LIST", "FILTERBY", "MODULE", "everleaf"]).expect("a list");
    assert_eq!(listed.len(), 18);
    let keys: Vec<String> =
        ask(c, &["COMMAND", "GETKEYS", "EL.MPUT", "k", "a", "b"]).expect("keys");
    assert_eq!(keys, ["k"]);
    let documented: Vec<Value> = ask(c, &["COMMAND", "DOCS", "EL.RANGE"]).expect("documentation");
    let text = format!("{documented:?}");
    assert!(text.contains("complexity") || text.contains("99, 111, 109, 112"), "{text}");
    tell(c, &["FLUSHALL", "ASYNC"]);
    assert_eq!(tell(c, &["DBSIZE"]), Value::Int(0));
}

#[test]
fn transactions_and_watched_keys_see_changes() {
    let server = Server::start(&[]);
    let (c, other) = (&mut server.connect(), &mut server.connect());
    let time = "4102444800000";
    tell(c, &["EL.PUT", "k", "a", "1", "PXAT", time]);
    tell(c, &["WATCH", "k"]);
    // Nothing that leaves the map as it was disturbs a client that watches.
    tell(other, &["EL.CAS", "k", "a", "wrong", "2"]);
    assert_eq!(tell(other, &["EL.PEXPIREAT", "k", time, "a"]), Value::Int(1));
    assert_eq!(tell(other, &["EL.EXPIREAT", "k", "4102444800", "a", "a", "none"]), Value::Int(1));
    tell(other, &["EL.DEL", "k", "none"]);
    tell(other, &["EL.PUT", "k", "a", "2", "NX"]);
    tell(other, &["EL.GET", "k", "a"]);
    tell(c, &["MULTI"]);
    tell(c, &["EL.INCRBY", "k", "a", "1"]);
    tell(c, &["EL.DEL", "k", "a"]);
    tell(c, &["EL.PUT", "k", "b", "1"]);
    tell(c, &["EL.COUNT", "k"]);
    let ints = |numbers: &[i64]| Value::Array(numbers.iter().map(|n| Value::Int(*n)).collect());
    assert_eq!(tell(c, &["EXEC"]), ints(&[2, 1, 1, 1]));
    tell(c, &["WATCH", "k"]);
    tell(other, &["EL.PUT", "k", "a", "2"]);
    tell(c, &["MULTI"]);
    tell(c, &["EL.GET", "k", "a"]);
    assert_eq!(tell(c, &["EXEC"]), Value::Nil);
    // An entry that is named twice is there once, and what changes is told.
    assert_eq!(tell(c, &["EL.PEXPIREAT", "k", time, "a", "b", "a"]), Value::Int(2));
    assert_eq!(tell(c, &["EL.PERSIST", "k", "a", "b", "a"]), Value::Int(2));
    tell(c, &["WATCH", "k"]);
    assert_eq!(tell(other, &["EL.PEXPIREAT", "k", time, "b"]), Value::Int(1));
    tell(c, &["MULTI"]);
    assert_eq!(tell(c, &["EXEC"]), Value::Nil);
}

#[test]
fn access_lists_reach_the_commands() {
    let server = Server::start(&[]);
    let c = &mut server.connect();
    tell(c, &["EL.PUT", "open:k", "a", "1"]);
    tell(c, &["ACL", "SETUSER", "reader", "on", "nopass", "~open:*", "+el.get", "+el.range"]);
    let dry_run = |c: &mut redis::Connection, words: &[&str]| -> String {
        ask(c, &[&["ACL", "DRYRUN", "reader"], words].concat()).expect("an answer")
    };
    assert_eq!(dry_run(c, &["EL.GET", "open:k", "a"]), "OK");
    assert_eq!(dry_run(c, &["EL.RANGE", "open:k", "-", "+"]), "OK");
    assert!(dry_run(c, &["EL.GET", "closed:k", "a"]).contains("no permission"));
    assert!(dry_run(c, &["EL.PUT", "open:k", "a", "1"]).contains("no permission"));
    // What tells of entries is for users who may read.
    tell(c, &["ACL", "SETUSER", "writer", "on", "nopass", "%W~open:*", "+@all"]);
    let dry_run = |c: &mut redis::Connection, words: &[&str]| -> String {
        ask(c, &[&["ACL", "DRYRUN", "writer"], words].concat()).expect("an answer")
    };
    for words in [
        &["EL.COUNT", "open:k", "[a", "[b"][..],
        &["EL.PEXPIRETIME", "open:k", "a"],
        &["EL.FLOOR", "open:k", "b"],
    ] {
        assert!(dry_run(c, words).contains("no permission"), "{words:?}");
    }
    assert_eq!(dry_run(c, &["EL.PUT", "open:k", "a", "1"]), "OK");
}

#[test]
fn without_memory_reading_and_removing_still_work() {
    let server = Server::start(&[]);
    let c = &mut server.connect();
    for number in 0..1000 {
        tell(c, &["EL.PUT", "k", &number.to_string(), "value"]);
    }
    tell(c, &["CONFIG", "SET", "maxmemory", "1"]);
    for call in [
        ["EL.PUT", "k", "1", "x"].as_slice(),
        &["EL.MPUT", "k", "1", "x"],
        &["EL.CAS", "k", "1", "value", "x"],
        &["EL.INCRBY", "n", "1", "1"],
        &["EL.EXPIREAT", "k", "9999999999", "1"],
    ] {
        assert!(refusal(c, call).contains("OOM"), "{call:?}");
    }
    assert_eq!(tell(c, &["EL.COUNT", "k"]), Value::Int(1000));
    assert_eq!(tell(c, &["EL.DEL", "k", "1", "2"]), Value::Int(2));
}

#[test]
fn the_server_counts_the_trees_memory_and_gets_it_back() {
    let server = Server::start(&[]);
    let c = &mut server.connect();
    let used = |c: &mut redis::Connection| info(c, "used_memory").parse::<u64>().expect("a number");
    let empty = used(c);
    let mut pipe = redis::pipe();
    for number in 0..200_000_u32 {
        let name = number.wrapping_mul(2_654_435_761).to_be_bytes();
        pipe.cmd("EL.PUT").arg("k").arg(&name).arg(&[b'v'; 100]).ignore();
        if number % 5000 == 4999 {
            pipe.query::<()>(c).expect("memory");
            pipe.clear();
        }
    }
    let full = used(c);
    let said: u64 = ask(c, &["MEMORY", "USAGE", "k"]).expect("a number");
    let resident: u64 = info(c, "used_memory_rss").parse().expect("a number");
    println!("empty {empty}, full {full}, MEMORY USAGE {said}, resident {resident}");
    assert!(full - empty > 200_000 * 104, "counted");
    assert!(full - empty < 200_000 * 104 * 2, "at most double");
    assert!(said > (full - empty) * 2 / 3 && said < (full - empty) * 4 / 3, "{said}");
    tell(c, &["UNLINK", "k"]);
    // Up to 4 MiB wait for more to be freed, and the nodes' regions of 2 MiB stay.
    eventually("the memory of what was unlinked", || used(c) < empty + (full - empty) / 3);
    let resident_then: u64 = info(c, "used_memory_rss").parse().expect("a number");
    println!("unlinked {}, resident {resident_then}", used(c));
}

/// What stood still: every command, while a large map was freed behind it.
#[test]
fn others_are_served_while_a_large_map_is_freed() {
    const COUNT: u64 = 1_000_000;
    let server = Server::start(&[]);
    let c = &mut server.connect();
    tell(c, &["EL.PUT", "small", "x", "y"]);
    let script = "
        local from = tonumber(ARGV[1])
        for first = from, from + 99000, 1000 do
            local words = {'EL.MPUT', KEYS[1]}
            for number = first, first + 999 do
                words[#words + 1] = string.format('%08d', number * 2654435 % 99999989)
                words[#words + 1] = 'value'
            end
            redis.call(unpack(words))
        end";
    for first in (0..COUNT).step_by(100_000) {
        tell(c, &["EVAL", script, "1", "big", &first.to_string()]);
    }
    let used = |c: &mut redis::Connection| info(c, "used_memory").parse::<u64>().expect("a number");
    let full = used(c);
    let began = Instant::now();
    tell(c, &["UNLINK", "big"]);
    let (mut longest, mut count) = (Duration::ZERO, 0);
    while used(c) > full / 2 {
        let asked = Instant::now();
        assert_eq!(tell(c, &["EL.GET", "small", "x"]), Value::BulkString(b"y".to_vec()));
        longest = longest.max(asked.elapsed());
        count += 1;
        assert!(began.elapsed() < Duration::from_secs(120), "it is not freed");
    }
    println!("{count} commands in {:?}, the longest of {longest:?}", began.elapsed());
    assert!(longest < Duration::from_secs(2), "{longest:?} of {:?}", began.elapsed());
}

#[test]
fn a_load_with_arguments_or_a_second_load_is_refused() {
    let server = Server::start(&["--enable-module-command", "yes"]);
    let c = &mut server.connect();
    let module = crate::server::module();
    let path = module.to_str().expect("a path in UTF-8");
    refusal(c, &["MODULE", "LOAD", path]);
    assert!(refusal(c, &["MODULE", "UNLOAD", "everleaf"]).contains("exports one or more"));
    let text = refused_load("exec", &["much"]);
    assert!(text.contains("everleaf cannot be loaded: it takes no arguments"), "{text}");
}

/// What a server says that is started by these words of a shell, with the module and these arguments of it, and ends.
fn refused_load(words: &str, arguments: &[&str]) -> String {
    let (module, folder) = (crate::server::module(), tempfile::TempDir::new().expect("a folder"));
    let output = std::process::Command::new("sh")
        .current_dir(folder.path())
        .args(["-c", &format!("{words} \"$@\""), "sh"])
        .arg(crate::server::program())
        .args(["--port", "0", "--unixsocket", "socket", "--loadmodule"])
        .arg(module)
        .args(arguments)
        .output()
        .expect("it starts");
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A server that cannot give the module what it needs is told so, and does not run without it.
#[test]
fn a_server_with_few_addresses_is_refused_with_a_sentence() {
    // 2 GiB: less than the module is content with.
    let text = refused_load("ulimit -v 2097152 && exec", &[]);
    let line = text.lines().find(|line| line.contains("everleaf cannot be loaded: "));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("cannot reserve") && line.contains("(ulimit -v)"), "{line}");
}
