//! `SWAPDB`: all keys of two databases change places as one step, for every client and across a kill.

use std::sync::Arc;

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
fn databases_change_places_with_all_they_have() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.connect(), server.connect());
    run(
        &mut one,
        &[
            ("SET k zero PX 900000000", "+OK"),
            ("RPUSH list a b", ":2"),
            ("SELECT 9", "+OK"),
            ("SET k nine", "+OK"),
            ("SWAPDB 0 9", "+OK"),
            ("GET k", "\"zero\""),
            ("LRANGE list 0 -1", "[\"a\" \"b\"]"),
            // Into one that nobody was in.
            ("SWAPDB 9 4", "+OK"),
            ("DBSIZE", ":0"),
            ("SELECT 4", "+OK"),
            ("RPUSH list c", ":3"),
            ("MOVE k 4", "-ERR source and destination objects are the same"),
            ("MOVE k 9", ":1"),
            ("COPY list list DB 9", ":1"),
            ("SWAPDB 4 4", "+OK"),
            ("SWAPDB 4 16", "-ERR DB index is out of range"),
            ("SWAPDB -1 4", "-ERR DB index is out of range"),
            ("SWAPDB a 4", "-ERR invalid first DB index"),
            ("SWAPDB 4 9999999999", "-ERR invalid second DB index"),
            ("SWAPDB 4", "-ERR wrong number of arguments for 'swapdb' command"),
            ("LLEN list", ":3"),
        ],
    );
    assert_eq!(other.line("GET k"), "\"nine\"");
    // Without the length of each argument, too.
    other.send(b"swapdb 0 9\r\n");
    assert_eq!(other.reply(), "+OK");
    assert_eq!(other.line("GET k"), "\"zero\"");
    let info = other.line("INFO keyspace");
    for part in ["db0:keys=2,", "db4:keys=1,", "db9:keys=1,"] {
        assert!(info.contains(part), "{part}: {info}");
    }
    assert_sound(&server);
}

#[test]
fn a_transaction_sees_what_it_exchanges_and_only_if_it_is_done() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.connect(), server.connect());
    run(&mut one, &[("SET k zero", "+OK"), ("SELECT 1", "+OK"), ("SET k one", "+OK")]);
    one.line("MULTI");
    let lines = [
        "SWAPDB 0 1",
        "GET k",
        "SWAPDB 1 2",
        "GET k",
        "RPUSH q x",
        "SELECT 2",
        "GET k",
        "SELECT 0",
        "GET k",
        "COPY k c DB 2",
    ];
    for line in lines {
        assert_eq!(one.line(line), "+QUEUED", "{line}");
    }
    assert_eq!(one.line("EXEC"), "[+OK \"zero\" +OK nil :1 +OK \"zero\" +OK \"one\" :1]");
    run(
        &mut one,
        &[
            ("GET k", "\"one\""),
            ("SELECT 2", "+OK"),
            ("GET c", "\"one\""),
            ("SELECT 1", "+OK"),
            ("LLEN q", ":1"),
        ],
    );
    // One that fails as a whole exchanges nothing.
    run(&mut one, &[("WATCH q", "+OK")]);
    run(&mut other, &[("SELECT 1", "+OK"), ("RPUSH q y", ":2")]);
    run(
        &mut one,
        &[("MULTI", "+OK"), ("SWAPDB 0 1", "+QUEUED"), ("EXEC", "nil[]"), ("LLEN q", ":2")],
    );
    run(
        &mut one,
        &[
            ("MULTI", "+OK"),
            ("SWAPDB 0 1", "+QUEUED"),
            ("SWAPDB 0", "-ERR wrong number of arguments for 'swapdb' command"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
            ("LLEN q", ":2"),
        ],
    );
    assert_sound(&server);
}

#[test]
fn a_watched_key_that_either_database_has_is_found_written() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.connect(), server.connect());
    let mut exec = |before: &[&str], watch: &str, between: &[&str]| {
        other.line("FLUSHALL");
        before.iter().for_each(|line| drop(other.line(line)));
        assert_eq!(one.line(watch), "+OK");
        between
            .iter()
            .for_each(|line| assert_eq!(other.line(line).chars().next(), Some('+'), "{line}"));
        one.line("MULTI");
        one.line("PING");
        let done = one.line("EXEC");
        other.line("SELECT 0");
        done == "[+PONG]"
    };
    assert!(!exec(&["SET k v"], "WATCH k", &["SWAPDB 0 1"]));
    assert!(!exec(&["SELECT 1", "SET k v"], "WATCH k", &["SWAPDB 1 0"]));
    // There and back is no way to what it was.
    assert!(!exec(&["SELECT 1", "SET k v"], "WATCH k", &["SWAPDB 1 0", "SWAPDB 1 0"]));
    assert!(exec(&["SET other v"], "WATCH k", &["SWAPDB 0 1"]));
    assert!(exec(&["SET k v"], "WATCH k", &["SWAPDB 2 1"]));
    assert!(exec(&["SET k v"], "WATCH k", &["SWAPDB 0 0"]));
    // From then on the key is one of the other map.
    assert!(!exec(&[], "WATCH other k", &["SWAPDB 0 1", "SET k v"]));
    assert!(exec(&[], "WATCH k", &["SWAPDB 0 1", "SELECT 1", "SET k v"]));
    assert!(!exec(&[], "WATCH k", &["SWAPDB 0 1", "SELECT 1", "SET k v", "SWAPDB 0 1"]));
    assert!(exec(&["SET k v PXAT 1"], "WATCH k", &["SWAPDB 0 1"]));
    // Connections that are gone, or watch no more, are in nobody's way.
    let mut gone = server.connect();
    gone.line("WATCH k");
    drop(gone);
    assert!(!exec(&["SET k v"], "WATCH k", &["SWAPDB 0 1"]));
}

#[test]
fn a_waiting_client_is_served_by_what_comes_to_its_database() {
    let server = TestServer::start();
    let mut client = server.connect();
    let (mut zero, mut one) = (server.connect(), server.connect());
    run(&mut one, &[("SELECT 1", "+OK")]);
    let wait = |client: &mut Client, waiting: &mut Client, count: usize| {
        waiting.send(&encode(&["BLPOP", "q", "0"]));
        let expected = format!("blocked_clients:{count}\\r");
        eventually("it waits", || client.line("INFO clients").contains(&expected));
    };
    wait(&mut client, &mut zero, 1);
    run(&mut client, &[("SELECT 1", "+OK"), ("RPUSH q a b", ":2"), ("SWAPDB 0 1", "+OK")]);
    assert_eq!(zero.reply(), "[\"q\" \"a\"]");
    run(&mut client, &[("DBSIZE", ":0"), ("SWAPDB 0 1", "+OK"), ("DEL q", ":1")]);
    // Both wait, and each gets what is pushed to the database that it knows, wherever that lies.
    wait(&mut client, &mut zero, 1);
    wait(&mut client, &mut one, 2);
    run(
        &mut client,
        &[
            ("SWAPDB 1 0", "+OK"),
            ("RPUSH q one", ":1"),
            ("SELECT 0", "+OK"),
            ("RPUSH q zero", ":1"),
        ],
    );
    assert_eq!(one.reply(), "[\"q\" \"one\"]");
    assert_eq!(zero.reply(), "[\"q\" \"zero\"]");
    // Within one transaction, too: what is pushed before it goes along, what is pushed behind it does not.
    wait(&mut client, &mut one, 1);
    client.line("MULTI");
    for line in ["RPUSH q goes", "SWAPDB 0 1", "RPUSH q stays", "SELECT 1", "LLEN q"] {
        assert_eq!(client.line(line), "+QUEUED");
    }
    assert_eq!(client.line("EXEC"), "[:1 +OK :1 +OK :1]");
    assert_eq!(one.reply(), "[\"q\" \"goes\"]");
    run(&mut client, &[("EXISTS q", ":0"), ("SELECT 0", "+OK"), ("LRANGE q 0 -1", "[\"stays\"]")]);
    assert_sound(&server);
}

/// Two databases with a name each, which are exchanged all the time: no client may see keys of both at once, or
/// write to the one whose name it does not read.
#[test]
fn nobody_is_in_two_databases_at_once() {
    const CLIENT_COUNT: usize = 4;
    const ROUND_COUNT: u64 = 300;
    let server = TestServer::with(|config| config.threads = 3);
    let mut client = server.connect();
    for database in ["0", "1"] {
        run(&mut client, &[(&format!("SELECT {database}"), "+OK")]);
        run(&mut client, &[(&format!("MSET name {database} same {database}"), "+OK")]);
    }
    let asking = Arc::new(());
    let watch = Arc::downgrade(&asking);
    std::thread::scope(|scope| {
        // Two at once: each must let the other pass.
        for pair in ["0 1", "1 0"] {
            let (mut client, watch) = (server.connect(), &watch);
            scope.spawn(move || {
                while watch.strong_count() > 0 {
                    assert_eq!(client.line(&format!("SWAPDB {pair}")), "+OK");
                }
            });
        }
        let clients: Vec<_> = (0..CLIENT_COUNT)
            .map(|number| {
                let mut client = server.connect();
                scope.spawn(move || {
                    client.line(&format!("SELECT {}", number % 2));
                    for round in 0..ROUND_COUNT {
                        client.line("MULTI");
                        for line in ["GET name", "INCR count", "GET same"] {
                            client.line(line);
                        }
                        // The name is not changed, so that nothing but the exchange can be in between.
                        let reply = client.line(&format!("RPUSH list{number} {round}"));
                        assert_eq!(reply, "+QUEUED");
                        let reply = client.line("EXEC");
                        let words: Vec<&str> = reply.trim_matches(['[', ']']).split(' ').collect();
                        assert_eq!(words[0], words[2], "{reply}");
                        assert_eq!(client.line("MGET name same").split(' ').count(), 2);
                        let pair = client.line("MGET name same");
                        assert!(["[\"0\" \"0\"]", "[\"1\" \"1\"]"].contains(&&*pair), "{pair}");
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        drop(asking);
    });
    let mut counted = 0;
    let mut listed = 0;
    for database in 0..2 {
        client.line(&format!("SELECT {database}"));
        counted += client.line("GET count").trim_matches('"').parse::<u64>().unwrap_or(0);
        for number in 0..CLIENT_COUNT {
            listed += client.line(&format!("LLEN list{number}"))[1..].parse::<u64>().unwrap();
        }
    }
    let expected = CLIENT_COUNT as u64 * ROUND_COUNT;
    assert_eq!((counted, listed), (expected, expected));
    assert_sound(&server);
}

#[test]
fn databases_stay_exchanged_whenever_the_server_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let process = ServerProcess::start(folder.path(), "");
    let mut client = process.connect();
    for database in 0..3 {
        client.line(&format!("SELECT {database}"));
        run(&mut client, &[(&format!("SET name {database}"), "+OK"), ("SADD set a b", ":2")]);
    }
    process.kill();
    let mut order = [0, 1, 2];
    for round in 0..4 {
        let process = ServerProcess::start(folder.path(), "");
        let mut client = process.connect();
        let pairs: Vec<(usize, usize)> =
            (0..600).map(|at| [(0, 1), (1, 2), (2, 0)][at % 3]).collect();
        let requests = pairs
            .iter()
            .flat_map(|(a, b)| encode(&["SWAPDB".into(), a.to_string(), b.to_string()]));
        client.send(&requests.collect::<Vec<u8>>());
        let acknowledged = 30 + 40 * round;
        (0..acknowledged).for_each(|_| assert_eq!(client.reply(), "+OK"));
        process.kill();
        let process = ServerProcess::start(folder.path(), "");
        let mut client = process.connect();
        let found = [0, 1, 2].map(|database| {
            client.line(&format!("SELECT {database}"));
            client.line("GET name").trim_matches('"').parse::<usize>().unwrap()
        });
        process.kill();
        let mut orders = pairs.into_iter().map(|(a, b)| {
            order.swap(a, b);
            order
        });
        // What was acknowledged is done; some of the rest may be.
        assert!(orders.by_ref().skip(acknowledged - 1).any(|order| order == found), "{found:?}");
        order = found;
        let store = open(&folder.path().join("test.pool"), 1 << 30);
        let report = everleaf_server::check_collections(&store).unwrap();
        assert_eq!(report.problems, Vec::<String>::new());
        assert_eq!((report.collections, report.members), (3, 6));
    }
}

/// The members of a set that was removed from a database beyond the last one were never freed.
#[test]
fn what_is_left_of_databases_that_cannot_be_selected_is_freed() {
    let mut server = TestServer::start();
    let mut client = server.connect();
    let members: Vec<String> = (0..500).map(|number| format!("m{number}")).collect();
    let members = members.join(" ");
    run(&mut client, &[("SELECT 12", "+OK"), (&format!("SADD set {members}"), ":500")]);
    server.stop().unwrap();
    let store = std::sync::Arc::clone(&server.store);
    // What FLUSHDB does, where the server ends before it frees the members.
    store.existing_map("server.db12").unwrap().unwrap().clear().unwrap();
    let left = || store.existing_map("server.members").unwrap().unwrap().len();
    assert!(left() > 500, "they are still there: {}", left());
    let config = everleaf_server::Config { port: 0, databases: 4, ..Default::default() };
    let fewer = everleaf_server::Server::bind(config, std::sync::Arc::clone(&store)).unwrap();
    let handle = fewer.handle();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| fewer.run());
        eventually("they are freed", || left() < 10);
        handle.shutdown();
        running.join().unwrap().unwrap();
    });
    assert_sound(&server);
}

/// What was lost: a server whose pool said that a database lies in a map that is not there (a repair had left it out,
/// or a program had dropped it) started, and ended with the first byte of any client.
#[test]
fn databases_whose_maps_are_gone_are_empty() {
    let mut server = TestServer::start();
    let mut client = server.connect();
    run(
        &mut client,
        &[
            ("SET k zero", "+OK"),
            ("SWAPDB 0 5", "+OK"),
            ("SWAPDB 3 7", "+OK"),
            ("SET k five", "+OK"),
            ("SELECT 3", "+OK"),
            ("SET k three", "+OK"),
        ],
    );
    server.stop().unwrap();
    let store = std::sync::Arc::clone(&server.store);
    for name in ["server.db5", "server.db7"] {
        assert!(store.drop_map(name).unwrap(), "{name}");
    }
    let config = everleaf_server::Config { port: 0, ..Default::default() };
    let again = everleaf_server::Server::bind(config, store).unwrap();
    let handle = again.handle();
    let address = handle.local_addr().unwrap();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| again.run());
        let mut client = Client::new(std::net::TcpStream::connect(address).unwrap());
        run(
            &mut client,
            &[
                ("GET k", "nil"),
                ("SET k other", "+OK"),
                ("SELECT 3", "+OK"),
                ("GET k", "nil"),
                ("SWAPDB 0 3", "+OK"),
                ("GET k", "\"other\""),
                ("SELECT 5", "+OK"),
                ("GET k", "\"zero\""),
                ("FLUSHALL", "+OK"),
                ("DBSIZE", ":0"),
            ],
        );
        handle.shutdown();
        running.join().unwrap().unwrap();
    });
}
