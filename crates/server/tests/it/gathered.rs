//! Commands that several clients send at the same moment, one each, which are done as one step: each client is answered
//! as if it were alone.

#![allow(clippy::unwrap_used, reason = "tests may fail")]

use std::collections::BTreeSet;
use std::path::Path;
use std::thread;
use std::time::Duration;

use everleaf_server::{Config, DebugCommand};

use crate::pipelines::damage_leaf;
use crate::support::{Client, TestServer, encode, eventually, open};

/// One event loop, which can be kept busy.
fn one_loop(config: &mut Config) {
    (config.threads, config.debug_command) = (1, DebugCommand::Yes);
}

/// Sends something while the event loop is busy, so that it finds all of it at once.
fn while_busy(server: &TestServer, send: impl FnOnce()) {
    let mut busy = server.connect();
    assert_eq!(busy.line("PING"), "+PONG");
    busy.send(&encode(&["DEBUG", "SLEEP", "0.2"]));
    // Time for it to begin. If that is not enough, what is sent is done one by one: no answer depends on it.
    thread::sleep(Duration::from_millis(50));
    send();
    assert_eq!(busy.reply(), "+OK");
}

fn request(line: &str) -> Vec<u8> {
    encode(&line.split_whitespace().collect::<Vec<_>>())
}

/// Sends a line with each client, so that they are ready together, and returns the replies.
fn together(server: &TestServer, clients: &mut [Client], lines: &[String]) -> Vec<String> {
    while_busy(server, || {
        for (client, line) in clients.iter_mut().zip(lines) {
            client.send(&request(line));
        }
    });
    clients.iter_mut().zip(lines).map(|(client, _)| client.reply()).collect()
}

fn connect(server: &TestServer, count: usize) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..count).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.line("PING"), "+PONG"));
    clients
}

fn assert_whole(server: &TestServer) {
    let report = everleaf_server::check_collections(&server.store).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
}

/// Each was a step of its own, and its element an entry.
#[test]
fn what_many_clients_push_becomes_one_run() {
    let server = TestServer::with(one_loop);
    let mut clients = connect(&server, 20);
    let is_one_run = |attempt: usize, clients: &mut [Client]| {
        let list = format!("list{attempt}");
        let lines: Vec<String> = (0..20).map(|number| format!("RPUSH {list} e{number}")).collect();
        let replies = together(&server, clients, &lines);
        // Each is told where its element is.
        let shown = clients[0].line(&format!("LRANGE {list} 0 -1"));
        let shown: Vec<&str> = shown.trim_matches(['[', ']']).split(' ').collect();
        for (number, reply) in replies.iter().enumerate() {
            let len: usize = reply.strip_prefix(':').unwrap().parse().unwrap();
            assert_eq!(shown[len - 1], format!("\"e{number}\""), "{replies:?}");
        }
        let id = {
            let header = server.store.default_map().get(&list).unwrap().unwrap();
            u64::from_le_bytes(header[24..32].try_into().unwrap()).to_be_bytes()
        };
        let members = server.store.map("server.members").unwrap();
        members.range(..).filter(|pair| pair.as_ref().unwrap().0.starts_with(&id)).count() == 1
    };
    // On a busy machine some may come late.
    assert!((0..20).any(|attempt| is_one_run(attempt, &mut clients)));
    assert_whole(&server);
}

#[test]
fn each_client_is_answered_as_if_it_were_alone() {
    let server = TestServer::with(one_loop);
    let mut first = server.connect();
    for line in ["SET text t", "SADD three a", "RPUSH source x y"] {
        first.line(line);
    }
    let mut waiting = server.connect();
    waiting.send(&encode(&["BLPOP", "queue", "0"]));
    eventually("it waits", || first.line("INFO clients").contains("blocked_clients:1"));
    // What a client has said before, what it asks, and what it is answered.
    let table = [
        ("", "HSET hash f 1", ":1"),
        ("", "SADD text x", "-WRONGTYPE"),
        ("", "ZADD sorted one a", "-ERR value is not a valid float"),
        ("", "SADD set a b", ":2"),
        ("", "SPOP none", "nil"),
        ("SELECT 1", "SADD set a b c", ":3"),
        ("", "GET text", "\"t\""),
        ("", "ZADD sorted INCR 1.5 m", "\"1.5\""),
        ("HELLO 3", "SPOP three 2", "(\"a\")"),
        ("", "RPUSH queue job", ":1"),
        ("MULTI", "SADD set c", "+QUEUED"),
        ("", "HSET hash f", "-ERR wrong number"),
        ("", "LPOP source 2", "[\"x\" \"y\"]"),
        ("", "HINCRBY counter n 5", ":5"),
        ("", "XADD set", "-ERR unknown command"),
        ("", "ZADD other 2 a 1 b", ":2"),
    ];
    let mut clients = connect(&server, table.len());
    for (client, (before, ..)) in clients.iter_mut().zip(&table) {
        if !before.is_empty() {
            let reply = client.line(before);
            assert!(!reply.starts_with('-'), "{before}: {reply}");
        }
    }
    let lines: Vec<String> = table.iter().map(|(_, line, _)| line.to_string()).collect();
    let replies = together(&server, &mut clients, &lines);
    for (reply, (_, line, wanted)) in replies.iter().zip(&table) {
        assert!(reply.starts_with(wanted), "{line}: {reply} instead of {wanted}");
    }
    assert_eq!(waiting.reply(), "[\"queue\" \"job\"]");
    assert_eq!(first.line("LLEN queue"), ":0");
    assert_eq!(first.line("SCARD set"), ":2");
    assert_eq!(first.line("EXISTS source three"), ":0");
    assert_eq!(first.line("ZRANGE other 0 -1"), "[\"b\" \"a\"]");
    // What the clients ask next is theirs, too.
    for (client, (before, ..)) in clients.iter_mut().zip(&table) {
        if *before != "MULTI" {
            assert_eq!(client.line("ECHO still"), "\"still\"", "{before}");
        }
    }
    assert_whole(&server);
}

#[test]
fn what_a_client_sent_before_it_closed_is_done() {
    let server = TestServer::with(one_loop);
    let clients = connect(&server, 20);
    while_busy(&server, || {
        for (number, mut client) in clients.into_iter().enumerate() {
            client.send(&request(&format!("SADD set {number}")));
        }
    });
    let mut client = server.connect();
    eventually("all were done", || client.line("SCARD set") == ":20");
    assert_whole(&server);
}

/// Each value of a counter is told once, and those that a client is told rise.
#[test]
fn no_client_is_told_what_another_asked_for() {
    const CLIENTS: u64 = 12;
    const REQUESTS: u64 = 150;
    for threads in [1, 2] {
        let server = TestServer::with(|config| config.threads = threads);
        let ask = |client: &mut Client, number: u64, request: u64| {
            assert!(client.line(&format!("RPUSH list{number} {request}")).starts_with(':'));
            assert_eq!(client.line(&format!("LPOP list{number}")), format!("\"{request}\""));
            let reply = client.line(&format!("ZADD sorted {request} {number}:{request}"));
            assert_eq!(reply, ":1");
            let told = client.line("HINCRBY counter n 1");
            told.strip_prefix(':').unwrap().parse::<u64>().unwrap()
        };
        let told: Vec<Vec<u64>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..CLIENTS)
                .map(|number| {
                    let mut client = server.connect();
                    scope.spawn(move || {
                        (0..REQUESTS).map(|request| ask(&mut client, number, request)).collect()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(told.iter().all(|told| told.is_sorted()), "{threads} event loops");
        let all: BTreeSet<u64> = told.into_iter().flatten().collect();
        assert!(all.into_iter().eq(1..=CLIENTS * REQUESTS), "{threads} event loops");
        let mut client = server.connect();
        assert_eq!(client.line("ZCARD sorted"), format!(":{}", CLIENTS * REQUESTS));
        assert_whole(&server);
    }
}

/// Where the pool has no room for all of them together, each is answered by itself.
#[test]
fn a_full_pool_refuses_what_does_not_fit_of_each() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("small.pool"), 32 << 20);
    let server = TestServer::on(folder, store, one_loop);
    let mut clients = connect(&server, 16);
    let mut filler = server.connect();
    let mut key = 0;
    for size in [1 << 20, 64 << 10, 4 << 10, 500] {
        let value = "v".repeat(size);
        while filler.line(&format!("SET filler{key} {value}")) == "+OK" {
            key += 1;
        }
    }
    let long = "m".repeat(900);
    let lines: Vec<String> = (0..16).map(|number| format!("SADD set{number} {long}")).collect();
    let replies = together(&server, &mut clients, &lines);
    let is_refused = |reply: &String| reply.starts_with("-OOM");
    assert!(replies.iter().any(is_refused), "{replies:?}");
    for (number, reply) in replies.iter().enumerate() {
        let count = filler.line(&format!("SCARD set{number}"));
        match is_refused(reply) {
            true => assert_eq!(count, ":0"),
            false => assert_eq!((&reply[..], &count[..]), (":1", ":1")),
        }
    }
    // What takes none goes on.
    let lines: Vec<String> = (0..16).map(|number| format!("SREM set{number} {long}")).collect();
    let removed = together(&server, &mut clients, &lines);
    for (reply, removed) in replies.iter().zip(removed) {
        assert_eq!(removed, if is_refused(reply) { ":0" } else { ":1" });
    }
    assert_whole(&server);
}

/// Clients that do not read made the server hold the replies of all: those were counted only when the last was made.
#[test]
fn the_first_long_reply_leaves_before_the_last_is_made() {
    let server = TestServer::with(one_loop);
    let mut clients = connect(&server, 24);
    let element = "e".repeat(1 << 19);
    let leaves_before = |attempt: usize, clients: &mut [Client]| {
        let list = |number: usize| format!("list{attempt}:{number}");
        for (number, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.ask(&["RPUSH", &list(number), &element]), ":1");
        }
        while_busy(&server, || {
            for (number, client) in clients.iter_mut().enumerate() {
                client.send(&request(&format!("LPOP {}", list(number))));
            }
        });
        assert_eq!(clients[0].stream.peek(&mut [0]).unwrap(), 1);
        let is_there = server.store.default_map().contains(list(23)).unwrap();
        clients.iter_mut().for_each(|client| assert_eq!(client.bulk().len(), element.len()));
        is_there
    };
    // On a busy machine it may be made before anybody looks.
    assert!((0..20).any(|attempt| leaves_before(attempt, &mut clients)));
}

/// All of them were made before the first left, whatever they took. That so little waits is asserted in the server, and
/// that the first leaves before the last is made is tested above.
#[test]
fn long_replies_leave_before_others_are_made() {
    let server = TestServer::with(one_loop);
    let mut clients = connect(&server, 24);
    // Some are answered in one step, some by themselves at the end of the turn, some at once.
    for sizes in [[50 << 10; 3], [200 << 10; 3], [3 << 20, 10, 100 << 10]] {
        let element = |number: usize| {
            let letter = char::from(b'a' + number as u8).to_string();
            letter.repeat(sizes[number % 3])
        };
        for (number, client) in clients.iter_mut().enumerate() {
            let list = format!("list{number}");
            assert_eq!(client.ask(&["RPUSH", &list, &element(number), "last"]), ":2");
        }
        let lines: Vec<String> = (0..24).map(|number| format!("LPOP list{number}")).collect();
        let replies = together(&server, &mut clients, &lines);
        for (number, reply) in replies.iter().enumerate() {
            let is_whole = *reply == format!("\"{}\"", element(number));
            assert!(is_whole, "{} bytes of {}", reply.len(), sizes[number % 3]);
            assert_eq!(clients[number].line(&format!("LPOP list{number}")), "\"last\"");
        }
    }
    assert_whole(&server);
}

/// Clients that do not read, and ask for more than all of them may make the server hold.
#[test]
fn clients_whose_replies_are_too_much_together_are_closed() {
    const SIZE: usize = 12 << 20;
    let server = TestServer::with(|config| {
        one_loop(config);
        config.client_memory_max = Some(16 << 20);
    });
    let mut clients = connect(&server, 6);
    let element = "e".repeat(SIZE);
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.ask(&["RPUSH", &format!("list{number}"), &element]), ":1");
    }
    while_busy(&server, || {
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(&request(&format!("LPOP list{number}")));
        }
    });
    let mut observer = server.connect();
    let evicted = |observer: &mut Client| {
        let info = observer.line("INFO stats");
        let rest = info.split("evicted_clients:").nth(1).unwrap();
        rest.split("\\r").next().unwrap().parse::<usize>().unwrap()
    };
    eventually("all lists are empty", || {
        (0..6).all(|number| observer.line(&format!("LLEN list{number}")) == ":0")
    });
    let closed = evicted(&mut observer);
    assert!((1..6).contains(&closed), "{closed} clients were closed");
    let mut whole = 0;
    for client in &mut clients {
        client.send(&request("QUIT"));
        whole += usize::from(client.rest().len() == SIZE + "$12582912\r\n\r\n+OK\r\n".len());
    }
    assert_eq!(whole, 6 - closed);
    assert_whole(&server);
}

/// What others do between the moment when a command was read and that when it is run.
#[test]
fn commands_are_admitted_when_they_are_run() {
    let server = TestServer::with(one_loop);
    let mut admin = server.connect();
    let changes = [
        ("ACL DELUSER bob", ""),
        ("ACL SETUSER bob -@all", "-NOPERM this user has no permissions to run the 'sadd' command"),
        ("ACL SETUSER bob resetkeys ~other", "-NOPERM this user has no permissions to access one"),
        ("CLIENT KILL ID", ""),
    ];
    // Whether the command was waiting when the change was made.
    let mut was_waiting = |change: &str, refusal: &str| {
        assert_eq!(admin.line("ACL SETUSER bob reset on nopass ~* +@all"), "+OK");
        let mut clients = connect(&server, 3);
        assert_eq!(clients[1].line("AUTH bob any"), "+OK");
        let id = clients[1].line("CLIENT ID");
        let change = match change {
            "CLIENT KILL ID" => format!("{change} {}", id.trim_start_matches(':')),
            _ => change.to_string(),
        };
        while_busy(&server, || {
            for (client, set) in clients.iter_mut().zip(["other", "set", "other"]) {
                client.send(&request(&format!("SADD {set} member")));
            }
            admin.send(&[request(&change), request("DEL set")].concat());
        });
        assert!(matches!(&admin.reply()[..], "+OK" | ":1"), "{change}");
        let was_before = admin.reply() == ":1";
        match was_before {
            true => assert_eq!(clients[1].reply(), ":1", "{change}"),
            false if refusal.is_empty() => clients[1].assert_closed(),
            false => assert!(clients[1].reply().starts_with(refusal), "{change}"),
        }
        assert_eq!(admin.line("EXISTS set"), ":0", "{change}: it was done behind that");
        for index in [0, 2] {
            assert!(matches!(&clients[index].reply()[..], ":1" | ":0"), "{change}");
        }
        assert_eq!(admin.line("DEL other"), ":1");
        !was_before
    };
    for (change, refusal) in changes {
        // On a busy machine it may have been run before.
        let is_shown = (0..50).any(|_| was_waiting(change, refusal));
        assert!(is_shown, "{change}: the command was run before each time");
    }
    assert_whole(&server);
}

/// What was lost: of commands that were done together only what each did for itself counted, and not that all of them
/// waited for a key to be written.
#[test]
fn what_is_done_together_takes_as_long_as_all_of_it() {
    const COUNT: usize = 8;
    let server = TestServer::with(one_loop);
    let mut clients = connect(&server, COUNT);
    let lines = |round: usize| (0..COUNT).map(move |key| format!("SADD set{key} {round}"));
    lines(0).for_each(|line| assert_eq!(clients[0].line(&line), ":1"));
    let are_all_slow = |round: usize, clients: &mut [Client]| {
        assert_eq!(clients[0].line("SLOWLOG RESET"), "+OK");
        let (tell_begun, begun) = std::sync::mpsc::channel();
        let (let_go, go) = std::sync::mpsc::channel::<()>();
        let map = server.store.default_map();
        thread::scope(|scope| {
            scope.spawn(move || {
                let wait = |_: Option<(&[u8], everleaf::Expiry)>| {
                    tell_begun.send(()).unwrap();
                    // Others read the key meanwhile, and nobody writes it. At the end the other side is dropped.
                    let _ = go.recv();
                    everleaf::Action::Keep
                };
                map.update_apart("set0", wait).unwrap();
            });
            while_busy(&server, || {
                begun.recv().unwrap();
                for (client, line) in clients.iter_mut().zip(lines(round)) {
                    client.send(&request(&line));
                }
            });
            // As long as counts for slow, and more.
            thread::sleep(Duration::from_millis(30));
            drop(let_go);
        });
        clients.iter_mut().for_each(|client| assert_eq!(client.reply(), ":1"));
        clients[0].line("SLOWLOG GET -1").matches("\"SADD\"").count() == COUNT
    };
    // On a busy machine some may come late.
    assert!((1..20).any(|round| are_all_slow(round, &mut clients)));
}

#[test]
fn a_client_that_begins_to_monitor_is_shown_what_is_run_then() {
    let server = TestServer::with(one_loop);
    let mut clients = connect(&server, 3);
    let is_shown = |clients: &mut [Client]| {
        let mut monitor = server.connect();
        assert_eq!(monitor.line("PING"), "+PONG");
        while_busy(&server, || {
            clients.iter_mut().for_each(|client| client.send(&request("SADD set member")));
            monitor.send(&request("MONITOR"));
        });
        clients.iter_mut().for_each(|client| assert!(client.reply().starts_with(':')));
        clients[0].line("PING");
        monitor.send(&request("QUIT"));
        let shown = String::from_utf8(monitor.rest()).unwrap();
        shown.matches("\"SADD\" \"set\" \"member\"").count() == clients.len()
    };
    // On a busy machine some may have come before.
    assert!((0..10).any(|_| is_shown(&mut clients)));
}

/// A server on a pool whose process was killed, of which the leaf of this number is damaged, as a store meets it that
/// was opened at once, unless it is refused; `None` if there are fewer leaves.
fn on_damaged(whole: &Path, number: usize) -> Option<Option<TestServer>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.pool");
    std::fs::copy(whole, &path).unwrap();
    damage_leaf(&path, 3, number).then(|| {
        let store = open_at_once(&path).ok()?;
        TestServer::try_on(folder, store, one_loop).ok()
    })
}

fn open_at_once(path: &Path) -> everleaf::Result<everleaf::Store> {
    let options = everleaf::Options::new().create(true).max_size_bytes(1 << 28).sweep(false);
    options.tree(everleaf::Tree::HashedLeaf).open_at_once(true).open(path)
}

/// What was lost: one client popped a member whose entry is in a leaf that is damaged, which only the write of the step
/// meets, and all clients whose commands were in that step were told that theirs was damaged.
#[test]
fn a_client_that_touches_damage_is_told_so_alone() {
    const SETS: usize = 12;
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.pool");
    {
        let made = tempfile::tempdir().unwrap();
        let store = open_at_once(&made.path().join("made.pool")).unwrap();
        let server = TestServer::on(made, store, one_loop);
        let mut client = server.connect();
        for number in 0..SETS {
            let members: String = (0..60).map(|member| format!(" m{member}")).collect();
            assert_eq!(client.line(&format!("SADD set{number}{members}")), ":60");
        }
        let members: String = (0..600).map(|member| format!(" {member} m{member}")).collect();
        assert_eq!(client.line(&format!("ZADD sorted{members}")), ":600");
        assert_eq!(client.line("RPUSH last x"), ":1");
        // As if the process were killed now.
        std::fs::copy(server.folder.path().join("made.pool"), &whole).unwrap();
    }
    // Until the member of the first position is in the damaged leaf.
    let meets_damage = |client: &mut Client| {
        let pops = (0..50).map(|_| client.line("ZPOPMIN sorted"));
        let told = pops.into_iter().find(|told| told.starts_with('-'));
        told.is_some_and(|told| told.contains("damaged"))
    };
    // Each member has a place of its own; the members of a set lie elsewhere than those of others. What is met of a
    // leaf depends on how far it has been restored meanwhile, so servers are tried until one refuses in the step.
    let is_met = |server: TestServer| {
        let mut client = server.connect();
        let mut is_sound = |number: &usize| {
            let mut is_one = |line: String| client.line(&line) == ":1";
            is_one(format!("SADD set{number} once")) && is_one(format!("SREM set{number} once"))
        };
        let sound: Vec<usize> = (0..SETS).filter(|number| is_sound(number)).collect();
        if sound.len() < 5 || !meets_damage(&mut client) {
            return false;
        }
        let mut clients = connect(&server, sound.len() + 1);
        let left = clients[0].line("ZCARD sorted");
        let mut lines: Vec<String> =
            sound.iter().map(|number| format!("SADD set{number} once")).collect();
        lines.insert(2, "ZPOPMIN sorted".to_string());
        let mut replies = together(&server, &mut clients, &lines);
        let refused = replies.remove(2);
        if !refused.starts_with('-') {
            return false;
        }
        assert!(refused.contains("damaged"), "{refused}");
        assert!(replies.iter().all(|reply| reply == ":1"), "{replies:?}");
        assert_eq!(clients[0].line("ZCARD sorted"), left);
        for number in &sound {
            assert_eq!(clients[0].line(&format!("SCARD set{number}")), ":61");
        }
        true
    };
    let mut servers = (0..).map_while(|number| on_damaged(&whole, number)).flatten();
    assert!(servers.any(is_met), "a leaf has members of the sorted set, and not their order");
}
