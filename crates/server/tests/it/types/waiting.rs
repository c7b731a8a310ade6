//! Commands that wait: which client is served, in which order, with what, and that no element is lost or given twice.

use std::collections::BTreeMap;
use std::net::Shutdown;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::{Client, TestServer, encode, eventually};
use everleaf::{Durability, Options};

/// Sends a request that must wait, and waits until it does.
fn wait(server: &TestServer, client: &mut Client, line: &str) {
    let before = waiting_count(&mut server.connect());
    client.send(&encode(&line.split_whitespace().collect::<Vec<_>>()));
    let mut other = server.connect();
    eventually("the command waits", || waiting_count(&mut other) == before + 1);
}

fn waiting_count(client: &mut Client) -> usize {
    let info = client.line("INFO clients");
    let count = info.split("blocked_clients:").nth(1).unwrap();
    count.split("\\r").next().unwrap().parse().unwrap()
}

#[test]
fn a_waiting_client_gets_the_first_in_every_shape_of_reply() {
    let server = TestServer::start();
    let mut pusher = server.connect();
    for (version, line, push, expected) in [
        (2, "BLPOP none k 0", "RPUSH k a", "[\"k\" \"a\"]"),
        (3, "BRPOP k 0", "RPUSH k a", "[\"k\" \"a\"]"),
        (2, "BLMPOP 0 2 none k LEFT", "RPUSH k a b c", "[\"k\" [\"a\"]]"),
        (3, "BLMPOP 0 1 k RIGHT COUNT 2", "RPUSH k a b c", "[\"k\" [\"c\" \"b\"]]"),
        (2, "BLMOVE k d LEFT RIGHT 0", "RPUSH k a", "\"a\""),
        (2, "BRPOPLPUSH k d 0", "LPUSH k a b", "\"a\""),
        (2, "BZPOPMIN none k 0", "ZADD k 1.5 a 2 b", "[\"k\" \"a\" \"1.5\"]"),
        (2, "BZPOPMAX k 0", "ZADD k 1 a 2 b", "[\"k\" \"b\" \"2\"]"),
        (2, "BZMPOP 0 1 k MIN", "ZADD k 1 a 2 b", "[\"k\" [[\"a\" \"1\"]]]"),
        (2, "BZMPOP 0 1 k MAX COUNT 5", "ZADD k 1 a 2 b", "[\"k\" [[\"b\" \"2\"] [\"a\" \"1\"]]]"),
        // Other ways in which a collection comes to be.
        (2, "BLPOP d 0", "LPUSHX d x", ""),
        (2, "BLPOP k 0", "LMOVE s k LEFT LEFT", "[\"k\" \"1\"]"),
        (2, "BZPOPMIN k 0", "ZUNIONSTORE k 1 z", "[\"k\" \"m\" \"3\"]"),
        (2, "BZPOPMIN k 0", "ZRANGESTORE k z 0 -1", "[\"k\" \"m\" \"3\"]"),
    ] {
        pusher.line("FLUSHALL");
        pusher.line("RPUSH s 1 2");
        pusher.line("ZADD z 3 m");
        let mut client = server.connect();
        client.line(&format!("HELLO {version}"));
        wait(&server, &mut client, line);
        let told = pusher.line(push);
        assert!(!told.starts_with('-'), "{push}: {told}");
        if expected.is_empty() {
            assert_eq!(pusher.line("RPUSH d y"), ":1");
            assert_eq!(client.reply(), "[\"d\" \"y\"]");
        } else {
            assert_eq!(client.reply(), expected, "{line}");
        }
        assert_eq!(waiting_count(&mut pusher), 0);
    }
    let mut client = server.connect();
    client.line("HELLO 3");
    wait(&server, &mut client, "BZPOPMIN zz 0");
    pusher.line("ZADD zz 1.5 a");
    for expected in [&b"*3\r\n$2\r\nzz\r\n$1\r\na\r\n,1.5\r\n"[..], b"+PONG\r\n"] {
        let mut bytes = vec![0; expected.len()];
        std::io::Read::read_exact(&mut client.stream, &mut bytes).unwrap();
        assert_eq!(bytes.escape_ascii().to_string(), expected.escape_ascii().to_string());
        client.send(b"PING\r\n");
    }
}

#[test]
fn first_come_first_served_across_event_loops() {
    let server = TestServer::with(|config| config.threads = 3);
    let mut clients: Vec<Client> = (0..12).map(|_| server.connect()).collect();
    for client in &mut clients {
        wait(&server, client, "BLPOP k other 0");
    }
    let mut pusher = server.connect();
    assert_eq!(pusher.line("RPUSH k 0 1 2 3 4"), ":5", "the length before anybody was served");
    assert_eq!(pusher.line("EXISTS k"), ":0", "all of it was given in the same step");
    for number in 5..12 {
        pusher.line(&format!("RPUSH k {number}"));
    }
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.reply(), format!("[\"k\" \"{number}\"]"));
    }
    // Clients that wait for another kind, or another key, stay.
    wait(&server, &mut clients[0], "BZPOPMIN k 0");
    wait(&server, &mut clients[1], "BLPOP k 0");
    assert_eq!(pusher.line("RPUSH k x y"), ":2");
    assert_eq!(clients[1].reply(), "[\"k\" \"x\"]");
    assert_eq!(pusher.line("LRANGE k 0 -1"), "[\"y\"]");
    pusher.line("DEL k");
    pusher.line("ZADD k 7 z");
    assert_eq!(clients[0].reply(), "[\"k\" \"z\" \"7\"]");
}

#[test]
fn a_transaction_is_over_before_anybody_is_served() {
    let server = TestServer::start();
    let (mut client, mut pusher) = (server.connect(), server.connect());
    for (lines, expected) in [
        (&["LPUSH k a", "LPUSH k b", "LPUSH k c"][..], "[\"k\" \"c\"]"),
        (&["LPUSH k a", "DEL k", "SET k x", "DEL k", "LPUSH j j"], "[\"j\" \"j\"]"),
        // The key that was made first, not the one that is named first.
        (&["RPUSH z z", "RPUSH k k", "RPUSH j j"], "[\"z\" \"z\"]"),
        (&["DBSIZE", "RPUSH j 1"], "[\"j\" \"1\"]"),
    ] {
        pusher.line("FLUSHALL");
        wait(&server, &mut client, "BLPOP j k z 0");
        pusher.line("MULTI");
        for line in lines {
            assert_eq!(pusher.line(line), "+QUEUED");
        }
        assert!(pusher.line("EXEC").starts_with('['));
        assert_eq!(client.reply(), expected, "{lines:?}");
    }
    // Within a transaction nothing waits.
    pusher.line("FLUSHALL");
    pusher.line("RPUSH full a b");
    pusher.line("MULTI");
    for line in [
        "BLPOP k 0",
        "BLMOVE k j LEFT LEFT 0",
        "BRPOPLPUSH k j 0",
        "BLMPOP 0 1 k LEFT",
        "BZPOPMAX k 0",
        "BZMPOP 0 1 k MIN",
        "BLPOP k full 0",
        "BLPOP k x",
    ] {
        assert_eq!(pusher.line(line), "+QUEUED");
    }
    assert_eq!(
        pusher.line("EXEC"),
        "[nil[] nil nil nil[] nil[] nil[] [\"full\" \"a\"] -ERR timeout is not a float or out of range]"
    );
}

/// What had no limit: the answers of all clients that one step serves, each of which may take a gigabyte. Those for
/// which there is no room are served soon, and in the meantime what they wait for is there.
#[test]
fn clients_of_one_step_share_the_room_of_a_reply() {
    let server = TestServer::with(|config| {
        config.threads = 1;
        config.reply_size_max = 5000;
    });
    let mut pusher = server.connect();
    let elements: Vec<String> = (0..40).map(|number| format!("{number:050}")).collect();
    let mut clients: Vec<Client> = (0..5).map(|_| server.connect()).collect();
    let mut request = encode(&["MULTI"]);
    for (number, client) in clients.iter_mut().enumerate() {
        wait(&server, client, &format!("BLMPOP 0 1 k{number} LEFT COUNT 100"));
        let source = format!("s{number}");
        let push = [&["RPUSH".to_string(), source.clone()], &elements[..]].concat();
        assert_eq!(pusher.ask(&push), ":40");
        request.extend(encode(&["RENAME", &source, &format!("k{number}")]));
    }
    request.extend(encode(&["EXEC"]));
    request.extend(encode(&["EXISTS", "k0", "k1", "k2", "k3", "k4"]));
    pusher.send(&request);
    (0..6).for_each(|_| assert!(pusher.reply().starts_with('+')));
    assert_eq!(pusher.reply(), "[+OK +OK +OK +OK +OK]");
    assert_eq!(pusher.reply(), ":3", "two of them are served in the step of the transaction");
    for (number, client) in clients.iter_mut().enumerate() {
        let reply = client.reply();
        assert!(reply.starts_with(&format!("[\"k{number}\" [\"000")), "{reply}");
        assert_eq!(reply.matches('"').count(), 2 * 41);
    }
    assert_eq!(pusher.line("EXISTS k0 k1 k2 k3 k4"), ":0");
}

#[test]
fn elements_go_through_a_chain_of_clients_in_one_step() {
    let server = TestServer::start();
    let (mut first, mut second, mut third) = (server.connect(), server.connect(), server.connect());
    let mut pusher = server.connect();
    wait(&server, &mut first, "BLMOVE a b RIGHT LEFT 0");
    wait(&server, &mut second, "BLMOVE b a RIGHT LEFT 0");
    wait(&server, &mut third, "BLPOP a 0");
    assert_eq!(pusher.line("RPUSH a x"), ":1");
    assert_eq!(first.reply(), "\"x\"");
    assert_eq!(second.reply(), "\"x\"");
    assert_eq!(third.reply(), "[\"a\" \"x\"]");
    assert_eq!(pusher.line("EXISTS a b"), ":0");
    // A destination that is no list is found out when there is something to move, which then stays.
    pusher.line("SET string x");
    wait(&server, &mut first, "BRPOPLPUSH a string 0");
    wait(&server, &mut second, "BLPOP a 0");
    assert_eq!(pusher.line("RPUSH a 1 2"), ":2");
    assert!(first.reply().starts_with("-WRONGTYPE"));
    assert_eq!(second.reply(), "[\"a\" \"1\"]");
    assert_eq!(pusher.line("LRANGE a 0 -1"), "[\"2\"]");
}

#[test]
fn waiting_ends_in_time_or_when_somebody_says_so() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    for line in ["BLPOP k 0.01", "BLMOVE k j LEFT LEFT 0.01", "BZMPOP 0.01 1 k MIN"] {
        assert_eq!(client.line(line), "nil[]", "{line}");
    }
    let id = client.line("CLIENT ID").replace(':', "");
    for (how, expected) in [
        ("", "nil[]"),
        ("TIMEOUT", "nil[]"),
        ("error", "-UNBLOCKED client unblocked via CLIENT UNBLOCK"),
    ] {
        wait(&server, &mut client, "BRPOPLPUSH k j 0");
        let list = other.line(&format!("CLIENT LIST ID {id}"));
        assert!(list.contains(" flags=b ") && list.contains(" cmd=brpoplpush "), "{list}");
        assert_eq!(other.line(&format!("CLIENT UNBLOCK {id} {how}")), ":1");
        assert_eq!(client.reply(), expected);
        assert_eq!(other.line(&format!("CLIENT UNBLOCK {id} {how}")), ":0");
    }
    wait(&server, &mut client, "BLPOP k 0");
    other.line("MULTI");
    other.line(&format!("CLIENT UNBLOCK {id}"));
    assert_eq!(other.line("EXEC"), "[:1]");
    assert_eq!(client.reply(), "nil[]");
    assert!(client.line("CLIENT INFO").contains(" flags=N "));
    for (line, expected) in [
        ("CLIENT UNBLOCK 1 maybe", "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
        ("CLIENT UNBLOCK x", "-ERR value is not an integer or out of range"),
        ("CLIENT UNBLOCK 9999", ":0"),
        ("CLIENT UNBLOCK -1", ":0"),
        ("BLPOP k x", "-ERR timeout is not a float or out of range"),
        ("BLPOP k -1", "-ERR timeout is negative"),
        ("BLMPOP 1 0 k LEFT", "-ERR numkeys should be greater than 0"),
        ("BLMPOP x 1 k LEFT COUNT 0", "-ERR count should be greater than 0"),
        ("BLMOVE k k UP LEFT x", "-ERR syntax error"),
        ("BLPOP 1", "-ERR wrong number of arguments for 'blpop' command"),
    ] {
        assert_eq!(other.line(line), expected, "{line}");
    }
    other.line("SET string x");
    assert!(other.line("BLPOP k string 0").starts_with("-WRONGTYPE"));
    assert!(other.line("BZPOPMIN string 0").starts_with("-WRONGTYPE"));
}

#[test]
fn what_is_sent_behind_a_command_that_waits_is_run_behind_it() {
    let server = TestServer::start();
    let (mut client, mut pusher) = (server.connect(), server.connect());
    client.send(b"PING\r\nBLPOP k 0\r\nLPUSH j 1\r\nGET x\r\nBLPOP k 0\r\nPING last\r\n");
    assert_eq!(client.reply(), "+PONG");
    eventually("it waits", || waiting_count(&mut pusher) == 1);
    assert_eq!(pusher.line("EXISTS j"), ":0");
    client.send(b"ECHO later\r\n");
    assert_eq!(pusher.line("RPUSH k 1"), ":1");
    for expected in ["[\"k\" \"1\"]", ":1", "nil"] {
        assert_eq!(client.reply(), expected);
    }
    eventually("it waits again", || waiting_count(&mut pusher) == 1);
    pusher.line("RPUSH k 2");
    for expected in ["[\"k\" \"2\"]", "\"last\"", "\"later\""] {
        assert_eq!(client.reply(), expected);
    }
    // A client may be the one that serves itself.
    client.send(b"RPUSH k a b\r\nBLPOP k 0\r\nBLPOP k 0\r\nBLPOP k 0.01\r\n");
    for expected in [":2", "[\"k\" \"a\"]", "[\"k\" \"b\"]", "nil[]"] {
        assert_eq!(client.reply(), expected);
    }
    // Replies that are switched off stay so.
    client.send(b"CLIENT REPLY SKIP\r\nBLPOP k 0\r\nPING\r\n");
    eventually("it waits", || waiting_count(&mut pusher) == 1);
    pusher.line("RPUSH k 3");
    assert_eq!(client.reply(), "+PONG");
    assert_eq!(pusher.line("EXISTS k"), ":0");
}

#[test]
fn a_watched_key_notices_what_was_given_away_at_once() {
    let server = TestServer::start();
    let (mut client, mut watcher, mut pusher) =
        (server.connect(), server.connect(), server.connect());
    wait(&server, &mut client, "BLMOVE k j LEFT LEFT 0");
    watcher.line("WATCH j");
    watcher.line("MULTI");
    watcher.line("PING");
    pusher.line("RPUSH k 1");
    assert_eq!(watcher.line("EXEC"), "nil[]");
    assert_eq!(client.reply(), "\"1\"");
    // A key that was made and emptied in one step was written nevertheless.
    wait(&server, &mut client, "BLPOP k 0");
    watcher.line("WATCH k");
    watcher.line("MULTI");
    watcher.line("PING");
    pusher.line("RPUSH k 1");
    assert_eq!(watcher.line("EXEC"), "nil[]");
    assert_eq!(client.reply(), "[\"k\" \"1\"]");
    // Waiting alone is no write.
    watcher.line("WATCH k");
    wait(&server, &mut client, "BLPOP k 0");
    watcher.line("MULTI");
    watcher.line("PING");
    assert_eq!(watcher.line("EXEC"), "[+PONG]");
}

#[test]
fn a_client_that_is_gone_is_not_served() {
    let server = TestServer::start();
    let mut pusher = server.connect();
    let ends: [fn(&mut Client, &mut Client); 3] = [
        |client, _| client.stream.shutdown(Shutdown::Both).unwrap(),
        |client, _| client.stream.shutdown(Shutdown::Write).unwrap(),
        |client, pusher| {
            let address = client.stream.local_addr().unwrap();
            assert_eq!(pusher.line(&format!("CLIENT KILL {address}")), "+OK");
        },
    ];
    for end in ends {
        let (mut first, mut second) = (server.connect(), server.connect());
        wait(&server, &mut first, "BLPOP k 0");
        wait(&server, &mut second, "BLPOP k 0");
        end(&mut first, &mut pusher);
        eventually("one is gone", || waiting_count(&mut pusher) == 1);
        assert_eq!(pusher.line("RPUSH k 1"), ":1");
        assert_eq!(second.reply(), "[\"k\" \"1\"]");
        first.assert_closed();
    }
    assert_eq!(waiting_count(&mut pusher), 0);
}

/// What was lost: the elements. A client that waits was killed, and what came to its key before its event loop had
/// closed it was taken for it, and thrown away with it. Here both come in one write, which the loop reads in one turn.
#[test]
fn who_is_killed_is_not_served() {
    let server = TestServer::with(|config| config.threads = 1);
    let mut pusher = server.connect();
    for (waits, push, expected, left) in [
        ("BLPOP k 0", "RPUSH k 1", "[\"k\" \"1\"]", "LLEN k"),
        ("BLMPOP 0 1 k LEFT COUNT 5", "RPUSH k 1 2", "[\"k\" [\"1\" \"2\"]]", "LLEN k"),
        ("BLMOVE k moved LEFT RIGHT 0", "RPUSH k 1", "\"1\"", "LLEN moved"),
        ("BZPOPMIN k 0", "ZADD k 1 a", "[\"k\" \"a\" \"1\"]", "ZCARD k"),
        ("BZMPOP 0 1 k MIN COUNT 5", "ZADD k 1 a", "[\"k\" [[\"a\" \"1\"]]]", "ZCARD k"),
    ] {
        for has_second in [true, false] {
            pusher.line("FLUSHALL");
            let (mut first, mut second) = (server.connect(), server.connect());
            let id = first.line("CLIENT ID").replace(':', "");
            wait(&server, &mut first, waits);
            if has_second {
                wait(&server, &mut second, waits);
            }
            let pushed: Vec<&str> = push.split(' ').collect();
            let kill = encode(&["CLIENT", "KILL", "ID", &id]);
            pusher.send(&[kill, encode(&pushed)].concat());
            assert_eq!(pusher.reply(), ":1", "{waits}");
            let count = format!(":{}", if push.ends_with("1 2") { 2 } else { 1 });
            assert_eq!(pusher.reply(), count, "{waits}");
            if has_second {
                assert_eq!(second.reply(), expected, "{waits}");
            } else {
                let stays = if left == "LLEN moved" { ":0" } else { &count };
                assert_eq!(pusher.line(left), stays, "{waits}");
            }
            first.assert_closed();
        }
    }
    assert_eq!(waiting_count(&mut pusher), 0);
}

/// A reply that ended the waiting of a connection, in the very step in which that was killed, left its deadline
/// behind. The connection that waited on its place next, even for ever, was told when that came that its time was over.
#[test]
fn a_deadline_goes_with_the_connection_that_had_it() {
    let server = TestServer::with(|config| config.threads = 1);
    let (mut pusher, mut later, mut killed) =
        (server.connect(), server.connect(), server.connect());
    let id = killed.line("CLIENT ID").replace(':', "");
    wait(&server, &mut killed, "BLPOP k 1");
    wait(&server, &mut later, "BLPOP none 1.1");
    // Both in one step: the reply is on its way when the connection is to be closed.
    pusher.send(&[encode(&["LPUSH", "k", "x"]), encode(&["CLIENT", "KILL", "ID", &id])].concat());
    assert_eq!([pusher.reply(), pusher.reply()], [":1", ":1"]);
    killed.assert_closed();
    eventually("its place is free", || waiting_count(&mut pusher) == 1);
    // One of them has its place.
    let mut others: Vec<Client> = (0..12).map(|_| server.connect()).collect();
    for client in &mut others {
        client.send(b"PING\r\nBLPOP q 0\r\n");
        assert_eq!(client.reply(), "+PONG", "and behind that it waits");
    }
    // Its deadline is behind that of the one that was killed.
    assert_eq!(later.reply(), "nil[]");
    assert_eq!(waiting_count(&mut pusher), others.len());
    let push = ["RPUSH", "q"].into_iter().chain(others.iter().map(|_| "v"));
    assert_eq!(pusher.ask(&push.collect::<Vec<_>>()), ":12");
    for client in &mut others {
        assert_eq!(client.reply(), "[\"q\" \"v\"]");
    }
}

#[test]
fn a_server_stops_while_clients_wait() {
    let mut server = TestServer::start();
    let mut clients: Vec<Client> = (0..20).map(|_| server.connect()).collect();
    for client in &mut clients {
        wait(&server, client, "BLPOP k 0");
    }
    clients[0].send(b"PING\r\n");
    server.stop().unwrap();
    for client in &mut clients {
        client.assert_closed();
    }
    assert_eq!(server.store.default_map().len(), 0);
}

#[test]
fn idle_clients_are_closed_but_not_those_that_wait() {
    let server = TestServer::start();
    let (mut client, mut pusher) = (server.connect(), server.connect());
    let (mut idle, mut monitor) = (server.connect(), server.connect());
    wait(&server, &mut client, "BLPOP k 0");
    pusher.line("CONFIG SET timeout 1");
    assert_eq!(monitor.line("MONITOR"), "+OK");
    idle.assert_closed();
    // Closed as the pusher is, which is as idle.
    pusher.assert_closed();
    let mut pusher = server.connect();
    assert_eq!(waiting_count(&mut pusher), 1);
    assert_eq!(pusher.line("RPUSH k 1"), ":1");
    assert_eq!(client.reply(), "[\"k\" \"1\"]");
    assert!(monitor.reply().contains("\"INFO\""), "it was shown nothing");
}

/// What was given is no more in the store that a crash leaves.
#[test]
fn what_was_given_is_durable_before_the_client_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let open = |path| {
        let options = Options::new().create(true).max_size_bytes(1 << 30);
        options.durability(Durability::Power).open(path).unwrap()
    };
    let server = TestServer::on(folder, open(&path), |config| config.threads = 3);
    let mut clients: Vec<Client> = (0..6).map(|_| server.connect()).collect();
    for client in &mut clients {
        wait(&server, client, "BLPOP k 0");
    }
    let mut pusher = server.connect();
    // Nothing of it is read, so that only the waiting clients have replies.
    pusher.send(b"RPUSH k 1 2 3 4 5 6 7\r\nSET done 1\r\n");
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.reply(), format!("[\"k\" \"{}\"]", number + 1));
    }
    let copy = server.folder.path().join("copy.log");
    std::fs::create_dir(&copy).unwrap();
    for file in std::fs::read_dir(server.folder.path().join("pool.log")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
    let again = open(&server.folder.path().join("copy"));
    let folder = tempfile::tempdir().unwrap();
    let server = TestServer::on(folder, again, |_| {});
    assert_eq!(server.connect().line("LRANGE k 0 -1"), "[\"7\"]");
}

/// Consumers of the next test.
const CONSUMER_COUNT: usize = 12;
/// Producers, and what each pushes.
const PRODUCER_COUNT: usize = 4;
const ELEMENT_COUNT: usize = 1_500;

/// Consumers on all event loops wait, hang up in the middle of waiting, and come again. One that hangs up closes
/// only its own half: so all that was taken for it arrives, and each element must be found exactly once.
#[test]
fn every_element_is_given_once_whoever_comes_and_goes() {
    let server = TestServer::with(|config| config.threads = 4);
    let given: Mutex<BTreeMap<String, usize>> = Mutex::default();
    let (producing, produced) = (Arc::new(()), AtomicUsize::new(0));
    let watch = Arc::downgrade(&producing);
    // All orderings here: plain counts of a test.
    let relaxed = Ordering::Relaxed;
    std::thread::scope(|scope| {
        let mut consumers = Vec::new();
        for consumer in 0..CONSUMER_COUNT {
            let (server, given, watch) = (&server, &given, &watch);
            consumers.push(scope.spawn(move || {
                let mut round = consumer;
                while watch.strong_count() > 0 {
                    round += 1;
                    let mut client = server.connect();
                    for _ in 0..round % 7 {
                        client.send(b"BLPOP q1 q2 0.05\r\n");
                        note(&client.reply(), given);
                    }
                    let line: &[u8] = match round % 3 {
                        0 => b"BLMPOP 0 2 q1 q2 LEFT COUNT 3\r\n",
                        1 => b"BRPOP q2 q1 0\r\n",
                        _ => b"BLPOP q1 q2 0\r\nBLPOP q2 q1 0\r\nBRPOP q1 q2 0\r\n",
                    };
                    client.send(line);
                    client.stream.shutdown(Shutdown::Write).unwrap();
                    let rest = String::from_utf8(client.rest()).unwrap();
                    rest.split("\r\n")
                        .filter(|word| word.starts_with("e:"))
                        .for_each(|word| note(word, given));
                }
            }));
        }
        let mut producers = Vec::new();
        for producer in 0..PRODUCER_COUNT {
            let (server, produced) = (&server, &produced);
            producers.push(scope.spawn(move || {
                let mut client = server.connect();
                for number in 0..ELEMENT_COUNT {
                    let element = format!("e:{producer}:{number}");
                    let key = if number % 2 == 0 { "q1" } else { "q2" };
                    if number % 5 == 0 {
                        client.send(&encode(&["MULTI"]));
                        client.send(&encode(&["RPUSH", key, &element]));
                        client.send(&encode(&["EXEC"]));
                        assert_eq!(
                            (client.reply(), client.reply()),
                            ("+OK".into(), "+QUEUED".into())
                        );
                    } else {
                        client.send(&encode(&["LPUSH", key, &element]));
                    }
                    assert!(!client.reply().starts_with('-'));
                    produced.fetch_add(1, relaxed);
                }
            }));
        }
        producers.into_iter().for_each(|thread| thread.join().unwrap());
        drop(producing);
        consumers.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let mut client = server.connect();
    for key in ["q1", "q2"] {
        for element in client.line(&format!("LRANGE {key} 0 -1")).split('"').skip(1).step_by(2) {
            note(element, &given);
        }
    }
    let given = given.into_inner().unwrap();
    let twice: Vec<_> = given.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "given more than once: {twice:?}");
    assert_eq!(given.len(), produced.load(relaxed), "some were lost");
    eventually("nobody waits", || waiting_count(&mut client) == 0);
}

/// Counts the elements in a reply.
fn note(reply: &str, given: &Mutex<BTreeMap<String, usize>>) {
    let words = reply.split(['"', ' ', '[', ']']).filter(|word| word.starts_with("e:"));
    let mut given = given.lock().unwrap();
    words.for_each(|word| *given.entry(word.to_string()).or_default() += 1);
}

#[test]
fn hostile_clients_that_wait_cost_what_they_send() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    // Very many keys, most of them twice.
    let mut request = vec!["BLPOP".to_string()];
    request.extend((0..50_000).map(|number| format!("key:{}", number % 30_000)));
    request.push("0".to_string());
    client.send(&encode(&request));
    eventually("it waits", || waiting_count(&mut other) == 1);
    eventually("what is kept is counted", || {
        let memory = other.line("INFO memory");
        let held = memory.split("mem_clients_normal:").nth(1).unwrap();
        held.split("\\r").next().unwrap().parse::<usize>().unwrap() > 30_000 * 100
    });
    assert_eq!(other.line("RPUSH key:29999 x"), ":1");
    assert_eq!(client.reply(), "[\"key:29999\" \"x\"]");
    client.send(&encode(&request));
    eventually("it waits", || waiting_count(&mut other) == 1);
    drop(client);
    eventually("it is gone", || waiting_count(&mut other) == 0);
    assert_eq!(other.line("RPUSH key:1 x"), ":1");
    assert_eq!(other.line("LLEN key:1"), ":1");
    // A destination that cannot be a key is refused at once, and harms nobody.
    let long = "x".repeat(70_000);
    let refused = server.connect().ask(&["BLMOVE", "k", &long, "LEFT", "LEFT", "0"]);
    assert!(refused.starts_with("-ERR"), "{refused}");
    assert_eq!(other.line("RPUSH k x"), ":1");
    assert_eq!(other.line("LRANGE k 0 -1"), "[\"x\"]");
    // Much behind a command that waits is not read before it is due.
    let mut client = server.connect();
    wait(&server, &mut client, "BLPOP later 0");
    client.stream.set_nonblocking(true).unwrap();
    let chunk = b"PING\r\n".repeat(10_000);
    let mut sent = 0;
    while let Ok(size) = std::io::Write::write(&mut client.stream, &chunk[sent % 6..]) {
        sent += size;
        assert!(sent < 64 << 20, "the server takes whatever is sent");
    }
    client.stream.set_nonblocking(false).unwrap();
    assert_eq!(other.line("RPUSH later x"), ":1");
    assert_eq!(client.reply(), "[\"later\" \"x\"]");
    assert_eq!(client.reply(), "+PONG");
}

/// A list or sorted set that comes to a key over another kind of collection, in one step, is for those that wait.
#[test]
fn a_list_that_comes_over_a_hash_is_given_away() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    for (make, pop, expected) in [
        ("RPUSH l x", "BLPOP k 0", "[\"k\" \"x\"]"),
        ("ZADD l 1 x", "BZPOPMIN k 0", "[\"k\" \"x\" \"1\"]"),
    ] {
        wait(&server, &mut client, pop);
        assert_eq!(other.line(make), ":1");
        assert_eq!(other.line("MULTI"), "+OK");
        assert_eq!(other.line("HSET k f v"), "+QUEUED");
        assert_eq!(other.line("RENAME l k"), "+QUEUED");
        assert_eq!(other.line("EXEC"), "[:1 +OK]");
        assert_eq!(client.reply(), expected);
        assert_eq!(other.line("EXISTS k l"), ":0");
    }
}
