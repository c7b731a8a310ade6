//! Looking at the server and steering it: `INFO`, `CONFIG`, `COMMAND`, `CLIENT`, `SHUTDOWN`.

use std::time::Duration;

use crate::support::{Client, TestServer, encode, eventually};

/// What broke programs: `expires` and `avg_ttl` were 0 whatever there was, and the section `replication` was missing.
#[test]
fn info_tells_true_numbers() {
    let server = TestServer::start();
    let mut client = server.connect();
    for line in ["SET a 1", "SET b 2", "GET a", "GET none", "NOSUCH"] {
        client.line(line);
    }
    let info = client.line("INFO");
    let value = |name: &str| {
        let start = info.find(&format!("{name}:")).unwrap_or_else(|| panic!("{name} in {info}"));
        let rest = &info[start + name.len() + 1..];
        rest[..rest.find("\\r\\n").unwrap()].to_string()
    };
    assert_eq!(value("process_id"), std::process::id().to_string());
    assert_eq!(value("tcp_port"), server.address.port().to_string());
    assert_eq!(value("connected_clients"), "1");
    assert_eq!(value("total_connections_received"), "1");
    assert_eq!(value("keyspace_hits"), "1");
    assert_eq!(value("keyspace_misses"), "1");
    assert_eq!(value("total_error_replies"), "1");
    // The INFO itself is counted when it is done.
    assert_eq!(value("total_commands_processed"), "5");
    assert_eq!(value("db0"), "keys=2,expires=0,avg_ttl=0");
    assert_eq!(value("redis_version"), "7.0.0");
    assert!(value("used_memory_rss").parse::<u64>().unwrap() > 1 << 20);
    for section in ["Server", "Clients", "Memory", "Persistence", "Stats", "Keyspace"] {
        assert!(info.contains(&format!("# {section}")), "{section}");
        let alone = client.line(&format!("INFO {section}"));
        assert_eq!(alone.matches("# ").count(), 1, "{alone}");
    }
    let replication = client.line("INFO replication");
    assert!(replication.contains("role:master\\r\\nconnected_slaves:0"), "{replication}");
    // What the sweep has counted: keys that expire, and how long they have.
    client.line("SET later 1 EX 1000");
    client.line("SET much_later 1 EX 3000");
    eventually("the keys that expire are counted", || {
        client.line("INFO keyspace").contains("keys=4,expires=2,avg_ttl=19")
    });
    client.line("DEL later much_later");
    eventually("none is left", || client.line("INFO keyspace").contains("expires=0,avg_ttl=0"));
    assert_eq!(client.line("INFO nothing"), "\"\"");
    assert_eq!(client.line("INFO server clients").matches("# ").count(), 2);
    assert_eq!(client.line("CONFIG RESETSTAT"), "+OK");
    assert!(client.line("INFO stats").contains("keyspace_hits:0"));
}

#[test]
fn settings_are_read_by_pattern_and_some_can_change() {
    let server = TestServer::start();
    let mut client = server.connect();
    // What the benchmark program of the protocol's original asks for.
    assert_eq!(client.line("CONFIG GET save"), "[\"save\" \"\"]");
    assert_eq!(client.line("CONFIG GET appendonly"), "[\"appendonly\" \"no\"]");
    assert_eq!(client.line("CONFIG GET nothing"), "[]");
    assert_eq!(
        client.line("CONFIG GET maxcl* TIMEOUT"),
        "[\"maxclients\" \"10000\" \"timeout\" \"0\"]"
    );
    assert_eq!(client.line("CONFIG SET maxclients 7 timeout 60"), "+OK");
    for (change, why) in [
        ("timeout 3 TimeOut 4", "duplicate parameter"),
        ("timeout x", "argument couldn't be parsed into an integer"),
        ("timeout 2147483648", "argument must be between 0 and 2147483647 inclusive"),
        ("slowlog-log-slower-than x", "argument couldn't be parsed into an integer"),
        ("slowlog-log-slower-than -2", "argument must be between -1 and 9223372036854775807"),
        ("proto-max-bulk-len x", "argument must be a memory value"),
    ] {
        let told = client.line(&format!("CONFIG SET {change}"));
        assert!(told.starts_with("-ERR CONFIG SET failed") && told.contains(why), "{told}");
    }
    assert_eq!(client.line("CONFIG SET proto-max-bulk-len 512mb"), "+OK");
    assert_eq!(client.line("CONFIG GET maxclients"), "[\"maxclients\" \"7\"]");
    assert_eq!(client.line("CONFIG GET timeout"), "[\"timeout\" \"60\"]");
    assert_eq!(client.line("CONFIG SET proto-max-bulk-len 2000"), "+OK");
    assert_eq!(client.ask(&["ECHO", &"x".repeat(2_000)]).len(), 2_002);
    assert!(client.line("CONFIG SET maxclients 0").contains("must be between 1"));
    assert!(client.line("CONFIG SET maxclients 5 port 1").contains("can't set immutable config"));
    assert_eq!(client.line("CONFIG GET maxclients"), "[\"maxclients\" \"7\"]", "all or nothing");
    assert!(client.line("CONFIG SET foo 1").starts_with("-ERR Unknown option"));
    assert_eq!(client.line("CONFIG SET appendonly no"), "+OK");
    assert!(client.line("CONFIG SET appendonly yes").contains("immutable"));
    assert!(client.line("CONFIG SET a").contains("wrong number of arguments for 'config|set'"));
    assert!(client.line("CONFIG FOO").starts_with("-ERR unknown subcommand 'FOO'"));
    let too_long = client.ask(&["ECHO", &"x".repeat(2_001)]);
    assert_eq!(too_long, "-ERR Protocol error: invalid bulk length");
}

#[test]
fn the_password_is_not_among_the_settings() {
    let server = TestServer::with(|config| config.password = Some("geheim".into()));
    let mut client = server.connect();
    assert_eq!(client.line("AUTH geheim"), "+OK");
    assert!(!client.line("CONFIG GET *").contains("geheim"));
    assert_eq!(client.line("CONFIG GET requirepass"), "[]");
}

#[test]
fn commands_are_described() {
    let server = TestServer::start();
    let mut client = server.connect();
    let count: usize = client.line("COMMAND COUNT")[1..].parse().unwrap();
    let list = client.line("COMMAND LIST");
    // Subcommands are listed behind their commands, and not counted.
    let of_subcommands = list.split('"').filter(|name| name.contains('|')).count();
    assert_eq!(list.matches('"').count(), (count + of_subcommands) * 2);
    assert!(list.contains("\"config\" \"config|get\""), "{list}");
    assert_eq!(
        client.line("COMMAND INFO get nosuch"),
        "[[\"get\" :2 [+readonly +fast] :1 :1 :1 [+@read +@string +@fast] [] [] []] nil]"
    );
    assert_eq!(client.line("COMMAND").matches("\"get\"").count(), 1);
    assert_eq!(client.line("COMMAND INFO"), client.line("COMMAND"));
    let mut marked =
        |name: &str| client.line(&format!("COMMAND INFO {name}")).contains("+movablekeys");
    let (elsewhere, in_place) = (
        ["sort", "sort_ro", "zunion", "zdiffstore", "bzmpop"],
        ["set", "bitfield", "mset", "blpop", "lmove", "ping", "memory"],
    );
    assert_eq!(elsewhere.map(&mut marked), [true; 5]);
    assert_eq!(in_place.map(&mut marked), [false; 7]);
    assert!(client.line("COMMAND DOCS get").starts_with("[\"get\" [\"summary\" \"Returns"));
    assert!(client.line("COMMAND DOCS").len() > 1_000);
    assert_eq!(client.line("COMMAND LIST FILTERBY PATTERN get*").matches('"').count(), 12);
    assert_eq!(client.line("COMMAND LIST FILTERBY PATTERN get"), "[\"get\"]");
    let of_hashes = client.line("COMMAND LIST FILTERBY ACLCAT hash");
    assert!(of_hashes.contains("\"hset\"") && !of_hashes.contains("\"sadd\""), "{of_hashes}");
    for nothing in ["ACLCAT none", "MODULE none"] {
        assert_eq!(client.line(&format!("COMMAND LIST FILTERBY {nothing}")), "[]");
    }
    assert!(client.line("COMMAND FOO").starts_with("-ERR unknown subcommand"));
    client.line("HELLO 3");
    assert!(client.line("COMMAND DOCS get").starts_with("{\"get\" {\"summary\""));
    assert!(client.line("COMMAND INFO get").contains("(+readonly +fast)"));
}

#[test]
fn clients_are_listed_and_killed() {
    let server = TestServer::start();
    let (mut a, mut b, mut c) = (server.connect(), server.connect(), server.connect());
    a.line("CLIENT SETNAME alice");
    b.line("CLIENT SETNAME bob");
    let id = |reply: String| reply[1..].parse::<u64>().unwrap();
    let (a_id, b_id, c_id) =
        (id(a.line("CLIENT ID")), id(b.line("CLIENT ID")), id(c.line("CLIENT ID")));
    let list = a.line("CLIENT LIST");
    assert!(list.contains("name=alice") && list.contains("name=bob"), "{list}");
    assert_eq!(list.matches("id=").count(), 3);
    assert!(list.contains(" cmd=client|list "), "{list}");
    assert!(list.contains(" cmd=client|id "), "{list}");
    assert_eq!(a.line(&format!("CLIENT LIST ID {b_id}")).matches("id=").count(), 1);
    // As Redis does it: in the order of the numbers, and as often.
    let list = a.line(&format!("CLIENT LIST ID {c_id} {a_id} 0 {c_id}"));
    let shown: Vec<&str> =
        list.split("id=").skip(1).map(|it| it.split(' ').next().unwrap()).collect();
    assert_eq!(shown, [c_id, a_id, c_id].map(|id| id.to_string()));
    assert_eq!(a.line("CLIENT LIST TYPE pubsub"), "\"\"");
    assert_eq!(a.line("CLIENT LIST TYPE x"), "-ERR Unknown client type 'x'");
    assert_eq!(a.line("CLIENT LIST ID 0"), "\"\"");
    assert_eq!(a.line("CLIENT LIST ID x"), "-ERR Invalid client ID");
    let peer = b.stream.local_addr().unwrap().to_string();
    assert_eq!(a.line(&format!("CLIENT KILL {peer}")), "+OK");
    b.assert_closed();
    assert_eq!(a.line("CLIENT KILL 1.2.3.4:5"), "-ERR No such client");
    assert_eq!(a.line(&format!("CLIENT KILL ID {c_id}")), ":1");
    c.assert_closed();
    eventually("the killed clients are gone", || a.line("CLIENT LIST").matches("id=").count() == 1);
    assert_eq!(a.line("CLIENT KILL TYPE normal"), ":0", "the caller is spared");
    assert_eq!(a.line("CLIENT KILL FOO x"), "-ERR syntax error");
    assert_eq!(a.line(&format!("CLIENT KILL ID {a_id} SKIPME no")), ":1");
    a.assert_closed();
}

/// What was told: a client that is killed already was killed again, as long as its event loop had not closed it. A
/// client that kills in a pipeline until none is left never came to an end.
#[test]
fn a_client_is_killed_once() {
    let server = TestServer::with(|config| config.threads = 1);
    let (mut client, mut killed) = (server.connect(), server.connect());
    let id = killed.line("CLIENT ID").replace(':', "");
    let address = killed.stream.local_addr().unwrap().to_string();
    let kill = encode(&["CLIENT", "KILL", "ID", &id]);
    client.send(&[&kill[..], &kill, &encode(&["CLIENT", "KILL", &address])].concat());
    let replies = [client.reply(), client.reply(), client.reply()];
    assert_eq!(replies, [":1", ":0", "-ERR No such client"]);
    killed.assert_closed();
}

/// What was lost: the reply to what switches them on as the one request without a reply, for which clients wait.
/// Libraries ask for it when they connect, or are told to look for a master.
#[test]
fn a_client_is_told_that_nothing_is_replicated_or_tracked() {
    let server = TestServer::start();
    let mut client = server.connect();
    assert_eq!(client.line("ROLE"), "[\"master\" :0 []]");
    assert_eq!(client.line("CLIENT GETREDIR"), ":-1");
    let off = "[\"flags\" [\"off\"] \"redirect\" :-1 \"prefixes\" []]";
    assert_eq!(client.line("CLIENT TRACKINGINFO"), off);
    client.line("HELLO 3");
    let off = "{\"flags\" (\"off\") \"redirect\" :-1 \"prefixes\" []}";
    assert_eq!(client.line("CLIENT TRACKINGINFO"), off);
}

#[test]
fn replies_can_be_switched_off() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.send(
        b"CLIENT REPLY SKIP\r\nSET a 1\r\nGET a\r\nCLIENT REPLY OFF\r\nGET a\r\nSET a 2\r\nNOSUCH\r\n\
          CLIENT REPLY SKIP\r\nGET a\r\nCLIENT REPLY ON\r\nGET a\r\nCLIENT REPLY SKIP\r\nCLIENT REPLY ON\r\n\
          PING\r\nCLIENT REPLY SKIP\r\nCLIENT REPLY SKIP\r\nNOSUCH\r\nPING\r\nCLIENT REPLY SKIP\r\nRESET\r\n\
          PING\r\nQUIT\r\n",
    );
    let expected = b"$1\r\n1\r\n+OK\r\n$1\r\n2\r\n+OK\r\n+PONG\r\n+PONG\r\n+PONG\r\n+OK\r\n";
    assert_eq!(client.rest().escape_ascii().to_string(), expected.escape_ascii().to_string());
}

#[test]
fn a_client_can_stop_the_server() {
    let mut server = TestServer::start();
    let (mut other, mut client) = (server.connect(), server.connect());
    assert_eq!(other.line("SET k v"), "+OK");
    client.send(b"SHUTDOWN NOSAVE\r\n");
    client.assert_closed();
    other.assert_closed();
    server.wait().unwrap();
    assert_eq!(server.store.default_map().get(b"k").unwrap().unwrap(), b"v");
    assert!(std::net::TcpStream::connect(server.address).is_err());
}

/// What was lost: a client in a transaction was shown as one that is in none.
#[test]
fn a_client_is_shown_with_what_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let server = TestServer::with(|config| config.unix_socket = Some(path.clone()));
    let (mut client, mut other) = (server.connect(), server.connect());
    let id = other.line("CLIENT ID")[1..].to_string();
    let mut shown = |field: &str| {
        let line = client.line(&format!("CLIENT LIST ID {id}"));
        let start = line.find(&format!(" {field}=")).unwrap_or_else(|| panic!("{field} in {line}"));
        line[start + field.len() + 2..].split(' ').next().unwrap().to_string()
    };
    assert_eq!(
        (shown("flags"), shown("multi"), shown("events")),
        ("N".into(), "-1".into(), "r".into())
    );
    assert!(shown("fd").parse::<i32>().unwrap() > 2);
    assert_eq!(other.line("CLIENT NO-TOUCH ON"), "+OK");
    assert_eq!(shown("flags"), "T");
    other.line("MULTI");
    assert_eq!((shown("flags"), shown("multi")), ("xT".into(), "0".into()));
    other.line("SET k v");
    other.line("CLIENT INFO");
    assert_eq!((shown("flags"), shown("multi")), ("xT".into(), "2".into()));
    assert!(shown("multi-mem").parse::<usize>().unwrap() > 0);
    let replies = other.line("EXEC");
    assert!(replies.contains(" flags=xT ") && replies.contains(" multi=2 "), "{replies}");
    assert_eq!(
        (shown("flags"), shown("multi"), shown("cmd")),
        ("T".into(), "-1".into(), "exec".into())
    );
    let replies = other.line("CLIENT INFO");
    assert!(replies.contains(" flags=T ") && replies.contains(" cmd=client|info "), "{replies}");
    // A request that is not complete, and a reply that is not read.
    other.send(b"*2\r\n$4\r\nECHO\r\n$9000000\r\n");
    other.send(&vec![b'e'; 1 << 20]);
    eventually("it is held", || shown("qbuf").parse::<usize>().unwrap() > 1 << 20);
    assert!(shown("argv-mem").parse::<usize>().unwrap() > 0);
    other.send(&vec![b'e'; 9_000_000 - (1 << 20)]);
    other.send(b"\r\n");
    eventually("it waits to be read", || shown("obl").parse::<usize>().unwrap() > 1 << 20);
    assert_eq!((shown("events"), shown("qbuf")), ("rw".into(), "0".into()));
    let mut unix = std::os::unix::net::UnixStream::connect(&path).unwrap();
    std::io::Write::write_all(&mut unix, b"CLIENT SETNAME unix\r\n").unwrap();
    eventually("it is served", || client.line("CLIENT LIST").contains("name=unix"));
    let list = client.line("CLIENT LIST");
    assert_eq!(list.matches(" flags=U ").count(), 1, "{list}");
}

#[test]
fn a_unix_socket_serves_as_well() {
    use std::io::{Read, Write};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let mut server = TestServer::with(|config| config.unix_socket = Some(path.clone()));
    let mut client = std::os::unix::net::UnixStream::connect(&path).unwrap();
    client.write_all(b"SET k v\r\nGET k\r\nCLIENT INFO\r\nQUIT\r\n").unwrap();
    let mut replies = String::new();
    client.read_to_string(&mut replies).unwrap();
    assert!(replies.starts_with("+OK\r\n$1\r\nv\r\n"), "{replies}");
    assert!(replies.contains(&format!("addr={}:0", path.display())), "{replies}");
    server.stop().unwrap();
    assert!(!path.exists());
}

#[test]
fn debug_is_for_clients_that_are_allowed() {
    let server = TestServer::start();
    let refused = server.connect().line("DEBUG SLEEP 0");
    assert!(refused.starts_with("-ERR DEBUG command not allowed"), "{refused}");
    for allowed in [everleaf_server::DebugCommand::Local, everleaf_server::DebugCommand::Yes] {
        let server = TestServer::with(|config| config.debug_command = allowed);
        let mut client = server.connect();
        assert_eq!(client.line("DEBUG SLEEP 0.01"), "+OK");
        for bad in ["DEBUG SLEEP x", "DEBUG SLEEP -1", "DEBUG SLEEP nan", "DEBUG SLEEP inf"] {
            assert_eq!(client.line(bad), "-ERR value is not a valid float");
        }
        assert_eq!(client.line("DEBUG OBJECT none"), "-ERR no such key");
        client.line("SET k value");
        let object = client.line("DEBUG OBJECT k");
        assert!(object.contains("encoding:raw serializedlength:6 "), "{object}");
        let rest = client.line("DEBUG JMAP");
        assert!(rest.contains("'JMAP'") && rest.contains("SET-ACTIVE-EXPIRE"), "{rest}");
        assert!(rest.ends_with("docs/redis-differences.md)"), "{rest}");
        assert_eq!(client.line("DEBUG SET-ACTIVE-EXPIRE 2"), "-ERR syntax error");
    }
}

#[test]
fn the_sweep_rests_while_it_is_told_to() {
    let server =
        TestServer::with(|config| config.debug_command = everleaf_server::DebugCommand::Yes);
    let mut client = server.connect();
    assert_eq!(client.line("DEBUG SET-ACTIVE-EXPIRE 0"), "+OK");
    // The sweep of another server is the clock: with each key that it takes, a round has gone by.
    let other = TestServer::start();
    let mut clock = other.connect();
    let mut await_round = || {
        clock.line("SET tick v PX 1");
        eventually("the other one sweeps", || clock.line("DBSIZE") == ":0");
    };
    // A round that was under way ends.
    await_round();
    client.line("SET k v PX 1");
    (0..2).for_each(|_| await_round());
    assert_eq!(client.line("EXISTS k"), ":0");
    assert_eq!(client.line("DBSIZE"), ":1");
    assert_eq!(client.line("DEBUG SET-ACTIVE-EXPIRE 1"), "+OK");
    eventually("it is swept", || client.line("DBSIZE") == ":0");
}

#[test]
fn the_configuration_file_is_written_by_what_was_given() {
    use everleaf_server::{ConfigFile, Setting};
    let server = TestServer::start();
    let none = server.connect().line("CONFIG REWRITE");
    assert_eq!(none, "-ERR The server is running without a config file");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, "old").unwrap();
    let rewrite = |text: &str, settings: &[Setting]| match text {
        "old" => {
            let all = settings.iter().filter(|setting| setting.value != setting.default);
            let line = |it: &Setting| format!("{} {}", it.option, it.value.as_deref().unwrap());
            Ok(all.map(line).collect::<Vec<_>>().join(","))
        }
        _ => Err("it is not the old one".to_string()),
    };
    let file = ConfigFile { path: path.clone(), rewrite: std::sync::Arc::new(rewrite) };
    let server = TestServer::with(|config| config.config_file = Some(file));
    let mut client = server.connect();
    assert_eq!(client.line("CONFIG SET timeout 77 slowlog-max-len 9"), "+OK");
    assert_eq!(client.line("CONFIG REWRITE"), "+OK");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "timeout 77,slowlog-max-len 9");
    let refused = client.line("CONFIG REWRITE");
    assert_eq!(refused, "-ERR Rewriting config file: it is not the old one");
    client.line("MULTI");
    client.line("CONFIG REWRITE");
    assert!(client.line("EXEC").contains("inside of a transaction"));
    std::fs::remove_file(&path).unwrap();
    assert!(client.line("CONFIG REWRITE").starts_with("-ERR Rewriting config file: No such file"));
}

/// The file stayed at its largest size after `FLUSHALL`: its space goes back to the file system by itself, soon,
/// and what is written then is there.
#[test]
fn what_flushall_frees_goes_back_to_the_file_system() {
    use std::os::unix::fs::MetadataExt;
    let server = TestServer::start();
    let pool = server.folder.path().join("test.pool");
    let allocated = || std::fs::metadata(&pool).unwrap().blocks() * 512;
    let mut client = server.connect();
    let fill = |client: &mut Client, mark: u8| {
        for number in 0..48 {
            let value = vec![mark; 1 << 20];
            let key = format!("key {number}");
            assert_eq!(client.ask(&[&b"SET"[..], key.as_bytes(), &value]), "+OK");
        }
    };
    fill(&mut client, b'a');
    let before = allocated();
    assert!(before > 48 << 20, "{before} bytes");
    assert_eq!(client.line("FLUSHALL"), "+OK");
    let sparse = server.folder.path().join("sparse");
    std::fs::File::create(&sparse).unwrap().set_len(8 << 20).unwrap();
    if sparse.metadata().unwrap().blocks() * 512 >= 8 << 20 {
        // A file system without holes.
        return;
    }
    eventually("the space is given back", || allocated() < before / 4);
    fill(&mut client, b'b');
    assert!(allocated() >= before * 9 / 10, "it was allocated before it was written");
    let value = client.ask(&["GET", "key 47"]);
    assert!(value.len() == (1 << 20) + 2 && value[1..].starts_with("bbb"), "another value");
}

/// The next line that a monitor is shown, without its time and address.
fn shown(monitor: &mut Client) -> String {
    let line = monitor.reply();
    let (_, rest) = line.split_once(" [").unwrap_or_else(|| panic!("{line}"));
    let (place, command) = rest.split_once("] ").unwrap_or_else(|| panic!("{line}"));
    let (database, peer) = place.split_once(' ').unwrap_or_else(|| panic!("{line}"));
    assert!(peer.starts_with("127.0.0.1:"), "{line}");
    format!("{database} {command}")
}

#[test]
fn a_monitor_is_shown_what_all_others_do() {
    let server = TestServer::start();
    let mut monitor = server.connect();
    assert_eq!(monitor.line("MONITOR"), "+OK");
    let mut client = server.connect();
    let mut see = |line: &str, expected: &[&str]| {
        let reply = client.line(line);
        for expected in expected {
            assert_eq!(shown(&mut monitor), *expected, "{line}: {reply}");
        }
        reply
    };
    see("set k v", &["0 \"set\" \"k\" \"v\""]);
    see("HSET h f v", &["0 \"HSET\" \"h\" \"f\" \"v\""]);
    see("INCR h", &["0 \"INCR\" \"h\""]);
    see("SELECT 3", &["3 \"SELECT\" \"3\""]);
    see("AUTH default secret", &["3 \"AUTH\" \"(redacted)\" \"(redacted)\""]);
    see("HELLO 2 AUTH default x", &["3 \"HELLO\" \"2\" \"AUTH\" \"(redacted)\" \"(redacted)\""]);
    // Neither what is administration, nor what was not run, is shown: the next line is of what follows.
    for line in [
        "CONFIG GET port",
        "ACL SETUSER u >secret",
        "CLIENT LIST",
        "SLOWLOG GET",
        "NOSUCH",
        "GET",
        "DEBUG SLEEP 0",
    ] {
        see(line, &[]);
    }
    see("CLIENT ID", &["3 \"CLIENT\" \"ID\""]);
    see("SWAPDB 3 4", &["3 \"SWAPDB\" \"3\" \"4\""]);
    see("MULTI", &["3 \"MULTI\""]);
    for line in ["GET k", "SELECT 0", "CONFIG GET port", "SET k w", "INCR h", "MONITOR"] {
        see(line, &[]);
    }
    let executed = see(
        "EXEC",
        &[
            "3 \"GET\" \"k\"",
            "0 \"SELECT\" \"0\"",
            "0 \"SET\" \"k\" \"w\"",
            "0 \"INCR\" \"h\"",
            "0 \"EXEC\"",
        ],
    );
    assert!(executed.contains("-ERR MONITOR isn't allowed for DENY BLOCKING client"), "{executed}");
    // A transaction that is not done shows its end alone.
    see("WATCH k", &["0 \"WATCH\" \"k\""]);
    see("MULTI", &["0 \"MULTI\""]);
    see("GET k", &[]);
    server.connect().line("SET k other");
    assert_eq!(shown(&mut monitor), "0 \"SET\" \"k\" \"other\"");
    let mut see = |line: &str, expected: &str| {
        let reply = client.line(line);
        assert_eq!(shown(&mut monitor), expected, "{line}: {reply}");
        reply
    };
    assert_eq!(see("EXEC", "0 \"EXEC\""), "nil[]");
    // What waits is shown when it begins to.
    client.send(&encode(&["BLPOP", "q", "0"]));
    assert_eq!(shown(&mut monitor), "0 \"BLPOP\" \"q\" \"0\"");
    server.connect().line("RPUSH q 1");
    assert_eq!(client.reply(), "[\"q\" \"1\"]");
    assert_eq!(shown(&mut monitor), "0 \"RPUSH\" \"q\" \"1\"");
}

/// Which are otherwise run together.
#[test]
fn a_monitor_is_shown_each_command_of_a_pipeline() {
    let server = TestServer::start();
    let (mut monitor, mut client) = (server.connect(), server.connect());
    assert_eq!(monitor.line("MONITOR"), "+OK");
    let pipeline: Vec<u8> = (0..200)
        .flat_map(|number| {
            [encode(&["SET", "k", &number.to_string()]), encode(&["GET", "k"])].concat()
        })
        .collect();
    client.send(&pipeline);
    for number in 0..200 {
        assert_eq!(shown(&mut monitor), format!("0 \"SET\" \"k\" \"{number}\""));
        assert_eq!(shown(&mut monitor), "0 \"GET\" \"k\"");
        assert_eq!(client.reply(), "+OK");
        assert_eq!(client.reply(), format!("\"{number}\""));
    }
}

/// A connection whose wait ends in the turn in which it becomes a monitor, and whose replies wait for the end of that
/// turn.
///
/// What was lost: the line of the `PING` came before the end of the value where the socket did not take all of it at
/// once, so that the rest of the connection was read wrong; where it did, the line stayed until something else
/// happened.
#[test]
fn lines_of_a_monitor_stand_behind_replies_that_waited() {
    use std::io::{Read, Write};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let server = TestServer::with(|config| {
        config.unix_socket = Some(path.clone());
        config.threads = 1;
    });
    let mut other = server.connect();
    // The second does not fit into a socket, and waits for the end of a turn all the same.
    for size in [10, 250_000] {
        let value = "x".repeat(size);
        assert_eq!(other.ask(&["SET", "value", &value]), "+OK");
        let mut client = std::os::unix::net::UnixStream::connect(&path).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // Behind it nothing is left to be read of what the socket has told.
        client.write_all(b"PING\r\n").unwrap();
        client.read_exact(&mut [0; b"+PONG\r\n".len()]).unwrap();
        client.write_all(b"BLPOP list 0\r\nGET value\r\nMONITOR\r\nPING\r\n").unwrap();
        eventually("it waits", || other.line("CLIENT LIST").contains(" flags=bU "));
        other.line("RPUSH list 1");
        if size > 1000 {
            // Not sooner: a client that reads meanwhile makes room for all of it.
            eventually("the socket is full", || other.line("CLIENT LIST").contains(" events=rw "));
        }
        let expected =
            format!("*2\r\n$4\r\nlist\r\n$1\r\n1\r\n${size}\r\n{value}\r\n+OK\r\n+PONG\r\n+");
        let mut replies = vec![0; expected.len()];
        client.read_exact(&mut replies).unwrap();
        let place = replies.iter().zip(expected.as_bytes()).position(|(reply, byte)| reply != byte);
        assert_eq!(place, None, "of a value of {size} bytes");
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.push(0);
            client.read_exact(line.last_mut().map(std::slice::from_mut).unwrap()).unwrap();
        }
        assert!(line.ends_with(b" \"PING\"\r\n"), "{}", line.escape_ascii());
    }
}

#[test]
fn a_monitor_ends_to_be_one_and_reads_no_keys_until_then() {
    let server = TestServer::start();
    let (mut monitor, mut client) = (server.connect(), server.connect());
    assert_eq!(monitor.line("MONITOR"), "+OK");
    for line in ["GET k", "DBSIZE", "SWAPDB 0 1", "FLUSHALL"] {
        assert_eq!(monitor.line(line), "-ERR Replica can't interact with the keyspace", "{line}");
    }
    assert_eq!(monitor.line("PING"), "+PONG");
    assert_eq!(shown(&mut monitor), "0 \"PING\"");
    // A client that is one already gets no answer.
    monitor.send(&encode(&["MONITOR"]));
    assert!(client.line("CLIENT LIST").contains(" flags=O "));
    assert_eq!(monitor.line("RESET"), "+RESET");
    assert_eq!(client.line("SET k v"), "+OK");
    assert_eq!(monitor.line("GET k"), "\"v\"");
    assert!(!client.line("CLIENT LIST").contains(" flags=O "));
    assert_eq!(monitor.line("MONITOR"), "+OK");
    client.line("SET k w");
    assert_eq!(shown(&mut monitor), "0 \"SET\" \"k\" \"w\"");
    drop(monitor);
    eventually("it is gone", || client.line("CLIENT LIST").matches("id=").count() == 1);
    assert_eq!(client.line("SET k x"), "+OK");
    // A user who may run everything else may not run this.
    client.line("ACL SETUSER some on nopass ~* +@all -@admin");
    client.line("AUTH some x");
    assert!(client.line("MONITOR").starts_with("-NOPERM"));
}

#[test]
fn a_monitor_that_does_not_read_is_closed_and_harms_nobody() {
    const SIZE: usize = 1 << 20;
    let server = TestServer::with(|config| config.client_memory_max = Some(16 << 20));
    let (mut slow, mut client) = (server.connect(), server.connect());
    assert_eq!(slow.line("MONITOR"), "+OK");
    let value = vec![0; SIZE];
    eventually("it is closed", || {
        assert_eq!(client.ask(&[b"SET", &b"k"[..], &value]), "+OK");
        !client.line("CLIENT LIST").contains(" flags=O ")
    });
    assert!(server.connect().line("INFO stats").contains("evicted_clients:1"));
    assert_eq!(client.line("PING"), "+PONG");
}
