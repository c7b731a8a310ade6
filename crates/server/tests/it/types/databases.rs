//! Databases: keys of one are none of another, and what moves between them moves as one step.

use crate::support::{Client, ServerProcess, TestServer, encode, eventually, open};

fn run(client: &mut Client, script: &[(&str, &str)]) {
    for (line, expected) in script {
        assert_eq!(client.line(line), *expected, "{line}");
    }
}

fn assert_sound(server: &TestServer) {
    let report = everleaf_server::check_collections(&server.store).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
}

#[test]
fn keys_of_one_database_are_none_of_another() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.connect(), server.connect());
    run(
        &mut one,
        &[
            ("SET k zero", "+OK"),
            ("SELECT 3", "+OK"),
            ("GET k", "nil"),
            ("SET k three", "+OK"),
            ("RPUSH list a b", ":2"),
            ("SADD set m", ":1"),
            ("DBSIZE", ":3"),
            ("KEYS *", "[\"k\" \"list\" \"set\"]"),
            ("SCAN 0", "[\"0\" [\"k\" \"list\" \"set\"]]"),
            ("PREFIX k", "[\"k\"]"),
            ("RENAME list moved", "+OK"),
            ("SORT moved ALPHA", "[\"a\" \"b\"]"),
            ("MSET x 1 y 2", "+OK"),
            ("MGET x y k", "[\"1\" \"2\" \"three\"]"),
            ("DEL x y", ":2"),
            ("CONFIG GET databases", "[\"databases\" \"16\"]"),
            ("SELECT 16", "-ERR DB index is out of range"),
            ("SELECT x", "-ERR value is not an integer or out of range"),
            ("GET k", "\"three\""),
        ],
    );
    assert!(one.line("CLIENT INFO").contains(" db=3 "));
    assert_eq!(other.line("DBSIZE"), ":1");
    assert_eq!(other.line("GET k"), "\"zero\"");
    let info = other.line("INFO keyspace");
    assert!(info.contains("db0:keys=1,") && info.contains("db3:keys=3,"), "{info}");
    assert!(["\"k\"", "\"moved\"", "\"set\""].contains(&&*one.line("RANDOMKEY")));
    run(
        &mut one,
        &[
            ("FLUSHDB", "+OK"),
            ("DBSIZE", ":0"),
            ("SET k again", "+OK"),
            ("RESET", "+RESET"),
            ("GET k", "\"zero\""),
            ("FLUSHALL", "+OK"),
            ("DBSIZE", ":0"),
            ("SELECT 3", "+OK"),
            ("DBSIZE", ":0"),
        ],
    );
    assert_sound(&server);
}

#[test]
fn a_pipeline_is_run_in_the_database_that_was_selected_before() {
    let server = TestServer::start();
    let mut client = server.connect();
    let mut bytes = Vec::new();
    for line in ["SET k 0", "SET l 0", "SELECT 1", "GET k", "SET k 1", "SET m 1", "GET k", "GET m"]
    {
        bytes.extend(encode(&line.split(' ').collect::<Vec<_>>()));
    }
    for line in ["SELECT 0", "GET k", "GET l", "GET m"] {
        bytes.extend(encode(&line.split(' ').collect::<Vec<_>>()));
    }
    client.send(&bytes);
    let expected = [
        "+OK", "+OK", "+OK", "nil", "+OK", "+OK", "\"1\"", "\"1\"", "+OK", "\"0\"", "\"0\"", "nil",
    ];
    for (number, expected) in expected.into_iter().enumerate() {
        assert_eq!(client.reply(), expected, "reply {number}");
    }
}

#[test]
fn what_is_moved_or_copied_is_whole_there() {
    let server = TestServer::start();
    let mut client = server.connect();
    let mut push = vec!["RPUSH".to_string(), "list".to_string()];
    push.extend((0..2_000).map(|number| number.to_string()));
    assert_eq!(client.ask(&push), ":2000");
    run(
        &mut client,
        &[
            ("SET s value PX 900000", "+OK"),
            ("ZADD z 1 a 2 b", ":2"),
            ("MOVE list 0", "-ERR source and destination objects are the same"),
            ("MOVE list 16", "-ERR DB index is out of range"),
            ("MOVE none 1", ":0"),
            ("MOVE list 5", ":1"),
            ("MOVE s 5", ":1"),
            ("EXISTS list s", ":0"),
            ("COPY z z", "-ERR source and destination objects are the same"),
            ("COPY z z DB 5", ":1"),
            ("COPY z z DB 5", ":0"),
            ("COPY z list DB 5 REPLACE", ":1"),
            ("MOVE z 5", ":0"),
            ("SELECT 5", "+OK"),
            ("ZRANGE list 0 -1", "[\"a\" \"b\"]"),
            ("ZRANGE z 0 -1", "[\"a\" \"b\"]"),
            ("GET s", "\"value\""),
            ("PERSIST s", ":1"),
            ("DEL list", ":1"),
            ("MOVE z 0", ":0"),
            ("DEL z", ":1"),
        ],
    );
    let members = server.store.existing_map("server.members").unwrap().unwrap();
    eventually("what was replaced and removed is freed", || {
        client.line("PING");
        // The mark and the start, and of the sorted set two members with their positions, and its note; and
        // an entry more for each of the two that is a separator, one of 64 by their hashes.
        (2 + 5..=2 + 7).contains(&members.len())
    });
    assert_sound(&server);
}

#[test]
fn a_transaction_goes_through_databases_as_one_step() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.connect(), server.connect());
    run(
        &mut one,
        &[
            ("SET k 0", "+OK"),
            ("MULTI", "+OK"),
            ("INCR k", "+QUEUED"),
            ("SELECT 7", "+QUEUED"),
            ("HSET h f v", "+QUEUED"),
            ("MOVE h 8", "+QUEUED"),
            ("SELECT 99", "+QUEUED"),
            ("SET k 7", "+QUEUED"),
            ("EXEC", "[:1 +OK :1 :1 -ERR DB index is out of range +OK]"),
            ("GET k", "\"7\""),
            ("SELECT 8", "+OK"),
            ("HGETALL h", "[\"f\" \"v\"]"),
            ("MULTI", "+OK"),
            ("SELECT 7", "+QUEUED"),
            ("DBSIZE", "+QUEUED"),
            ("SELECT 8", "+QUEUED"),
            ("FLUSHALL", "+QUEUED"),
            ("SET only here", "+QUEUED"),
            ("DBSIZE", "+QUEUED"),
            ("EXEC", "[+OK :1 +OK +OK +OK :1]"),
            ("SELECT 0", "+OK"),
            ("DBSIZE", ":0"),
            // A key that is watched is that of a database.
            ("SELECT 2", "+OK"),
            ("WATCH w", "+OK"),
        ],
    );
    run(&mut other, &[("SET w 0", "+OK")]);
    run(
        &mut one,
        &[("MULTI", "+OK"), ("SET a 1", "+QUEUED"), ("EXEC", "[+OK]"), ("WATCH w", "+OK")],
    );
    run(&mut other, &[("MOVE w 2", ":1")]);
    run(
        &mut one,
        &[("MULTI", "+OK"), ("SELECT 4", "+QUEUED"), ("SET a 2", "+QUEUED"), ("EXEC", "nil[]")],
    );
    // A transaction that is not done leaves the database as it was.
    run(&mut one, &[("GET a", "\"1\""), ("GET w", "\"0\"")]);
    assert_sound(&server);
}

#[test]
fn a_client_that_waits_is_served_by_its_database() {
    let server = TestServer::start();
    let mut client = server.connect();
    let (mut zero, mut six) = (server.connect(), server.connect());
    run(&mut six, &[("SELECT 6", "+OK")]);
    zero.send(&encode(&["BLPOP", "q", "0"]));
    six.send(&encode(&["BLPOP", "q", "0"]));
    eventually("both wait", || client.line("INFO clients").contains("blocked_clients:2"));
    run(&mut client, &[("SELECT 6", "+OK"), ("RPUSH q six", ":1"), ("SELECT 9", "+OK")]);
    assert_eq!(six.reply(), "[\"q\" \"six\"]");
    // What comes from another database wakes as well.
    run(&mut client, &[("RPUSH q nine", ":1"), ("COPY q q DB 0", ":1")]);
    assert_eq!(zero.reply(), "[\"q\" \"nine\"]");
    six.send(&encode(&["BRPOPLPUSH", "q", "done", "0"]));
    eventually("it waits", || client.line("INFO clients").contains("blocked_clients:1"));
    run(
        &mut client,
        &[("MOVE q 6", ":1"), ("SELECT 6", "+OK"), ("LRANGE done 0 -1", "[\"nine\"]")],
    );
    assert_eq!(six.reply(), "\"nine\"");
    assert_sound(&server);
}

#[test]
fn a_key_is_in_one_database_whenever_the_server_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..4 {
        let process = ServerProcess::start(folder.path(), "");
        let mut client = process.connect();
        assert_eq!(client.line("FLUSHALL"), "+OK");
        let mut bytes = encode(&["SADD", "here", "a", "b"]);
        for _ in 0..2_000 {
            bytes.extend(encode(&["MOVE", "here", "1"]));
            bytes.extend(encode(&["SELECT", "1"]));
            bytes.extend(encode(&["MOVE", "here", "0"]));
            bytes.extend(encode(&["SELECT", "0"]));
        }
        client.send(&bytes);
        (0..50 + 300 * round).for_each(|_| drop(client.reply()));
        process.kill();
        let store = open(&folder.path().join("test.pool"), 1 << 30);
        let report = everleaf_server::check_collections(&store).unwrap();
        assert_eq!(report.problems, Vec::<String>::new());
        assert_eq!((report.collections, report.members), (1, 2));
    }
}

#[test]
fn a_pool_of_more_databases_is_not_served_by_fewer() {
    let mut server = TestServer::start();
    run(&mut server.connect(), &[("SELECT 12", "+OK"), ("SET k v", "+OK")]);
    server.stop().unwrap();
    let store = std::sync::Arc::clone(&server.store);
    let config = everleaf_server::Config { port: 0, databases: 12, ..Default::default() };
    // Before it says that it serves.
    let refused = everleaf_server::Server::bind(config, store).err();
    let Some(everleaf_server::ServerError::Config(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("--databases to 13"), "{why}");
}

/// The last counts, and is made where it is not there.
#[test]
fn a_copy_may_name_several_databases() {
    let server = TestServer::start();
    let mut client = server.connect();
    run(
        &mut client,
        &[
            ("SET k v", "+OK"),
            ("COPY k k DB 1 DB 2 db 7", ":1"),
            ("MULTI", "+OK"),
            ("COPY k l DB 1 REPLACE DB 9", "+QUEUED"),
            ("EXEC", "[:1]"),
            ("COPY k k DB 1 DB 16", "-ERR DB index is out of range"),
            ("SELECT 7", "+OK"),
            ("GET k", "\"v\""),
            ("SELECT 9", "+OK"),
            ("GET l", "\"v\""),
        ],
    );
    assert_sound(&server);
}
