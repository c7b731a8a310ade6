//! What clients make the server hold: as much as they sent, together not more than a limit, and not
//! for longer than it is needed.
//!
//! What was lost: 3,000 clients that announced 100 MB each and sent 140 bytes held 764 MiB, because a
//! buffer grew by 256 KiB for a claim; queued commands had no limit for all clients together, and
//! small ones took many times their size.

#![allow(clippy::unwrap_used, reason = "tests may fail")]

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{Client, ServerProcess, TestServer, encode, eventually};

/// A number that `INFO` shows.
fn number(client: &mut Client, name: &str) -> u64 {
    let info = client.line("INFO");
    let name = format!("{name}:");
    let start = info.find(&name).unwrap() + name.len();
    info[start..].split("\\r").next().unwrap().parse().unwrap()
}

/// Waits until the server has received so many bytes more than `before`.
fn wait_received(observer: &mut Client, before: u64, size: usize) {
    let due = before + size as u64;
    eventually("the server has read it", || number(observer, "total_net_input_bytes") >= due);
}

/// Memory of the server's process that is not a view of the pool.
fn used(observer: &mut Client) -> u64 {
    number(observer, "used_memory")
}

fn connect_many(server: &ServerProcess, count: usize) -> Vec<Client> {
    (0..count).map(|_| server.connect()).collect()
}

fn process(folder: &Path) -> ServerProcess {
    ServerProcess::start(folder, "ulimit -n 4096 &&")
}

#[test]
fn a_claim_costs_no_more_than_its_author_sent() {
    let folder = tempfile::tempdir().unwrap();
    let server = process(folder.path());
    let mut observer = server.connect();
    let mut clients = connect_many(&server, 300);
    let before = used(&mut observer);
    let claim = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000000\r\n";
    // In three steps, each read before the next: a buffer that grows by what is missing would do so.
    for part in [&claim[..], &[b'v'; 60], &[b'v'; 60]] {
        let received = number(&mut observer, "total_net_input_bytes");
        clients.iter_mut().for_each(|client| client.send(part));
        wait_received(&mut observer, received, 300 * part.len());
    }
    let grown = used(&mut observer).saturating_sub(before);
    assert!(grown < 8 << 20, "300 clients that sent 150 bytes each hold {grown} bytes");
    let held = number(&mut observer, "mem_clients_normal");
    assert!(held < 300 * 1024, "{held} bytes are counted for them");
    // Clients that send more hold what they sent, twice at most.
    let received = number(&mut observer, "total_net_input_bytes");
    for client in &mut clients[..20] {
        client.send(&[b'v'; 200_000]);
    }
    wait_received(&mut observer, received, 20 * 200_000);
    let held = number(&mut observer, "mem_clients_normal");
    assert!((20 * 200_000..20 * 500_000).contains(&held), "{held} bytes are counted for 4 MB");
    drop(clients);
    eventually("all of it is given back", || {
        number(&mut observer, "connected_clients") == 1
            && number(&mut observer, "mem_clients_normal") < 1024
    });
    server.stop();
}

#[test]
fn queued_commands_take_little_and_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let server = process(folder.path());
    let mut observer = server.connect();
    let mut clients = connect_many(&server, 40);
    assert_eq!(observer.line("SET k v"), "+OK");
    let before = used(&mut observer);
    // 26 bytes each.
    let commands = encode(&["SET", "k", "v"]).repeat(20_000);
    for client in &mut clients {
        assert_eq!(client.line("MULTI"), "+OK");
        client.send(&commands);
        for _ in 0..20_000 {
            assert_eq!(client.reply(), "+QUEUED");
        }
    }
    let grown = used(&mut observer).saturating_sub(before);
    let held = number(&mut observer, "mem_clients_normal");
    assert!(held >= 40 * 20_000 * 5, "{held} bytes are counted for 800,000 commands");
    assert!(grown < 2 * held + (32 << 20), "{held} bytes are counted, and {grown} are used");
    for (index, client) in clients.iter_mut().enumerate() {
        let refused = index % 2 == 0;
        if refused {
            assert!(client.line("NONSENSE").starts_with("-ERR unknown command"));
        }
        let end = if refused { "EXEC" } else { "DISCARD" };
        assert_eq!(client.line(end).starts_with("-EXECABORT"), refused);
    }
    eventually("nothing is held when nothing is queued", || {
        number(&mut observer, "mem_clients_normal") < 41 * (16 << 10)
    });
    let left = used(&mut observer).saturating_sub(before);
    assert!(left < grown / 4 + (8 << 20), "of {grown} bytes, {left} are in use when all is over");
    server.stop();
}

/// A client that holds little, and one that holds more and more until it is closed for it.
fn assert_greediest_closed(name: &str, mut hold_more: impl FnMut(&mut Client, u64)) {
    let server = TestServer::with(|config| config.client_memory_max = Some(8 << 20));
    let mut observer = server.connect();
    let big = vec![b'b'; 1 << 20];
    assert_eq!(observer.ask(&[&b"SET"[..], b"big", &big]), "+OK");
    let mut modest: Vec<_> = (0..4).map(|_| server.connect()).collect();
    let half = encode(&[&b"SET"[..], b"modest", &vec![b'm'; 200_000]]);
    let (first, second) = half.split_at(100_000);
    modest.iter_mut().for_each(|client| client.send(first));
    let mut greedy = server.connect();
    let id: u64 = greedy.line("CLIENT ID")[1..].parse().unwrap();
    let started = Instant::now();
    for round in 0.. {
        if number(&mut observer, "evicted_clients") > 0 {
            break;
        }
        // What was sent may still be on its way, so there is a limit of time and not of rounds.
        assert!(started.elapsed() < Duration::from_secs(60), "{name}: nobody is closed");
        hold_more(&mut greedy, round);
    }
    eventually("the greedy one is gone", || {
        !observer.line("CLIENT LIST").contains(&format!("id={id} "))
    });
    greedy.rest();
    assert_eq!(number(&mut observer, "evicted_clients"), 1, "{name}: it alone");
    eventually("what it held is given back", || {
        number(&mut observer, "mem_clients_normal") < 2 << 20
    });
    for client in &mut modest {
        client.send(second);
        assert_eq!(client.reply(), "+OK", "{name}: the modest are served");
    }
}

#[test]
fn who_does_not_finish_requests_is_closed_first() {
    assert_greediest_closed("input", |client, round| {
        if round == 0 {
            client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000000\r\n");
        }
        client.send(&vec![b'v'; 512 << 10]);
    });
}

#[test]
fn a_client_that_does_not_read_replies_is_closed_first() {
    // All in one request: between requests it would only be held up.
    let request = vec!["big"; 16];
    assert_greediest_closed("output", |client, round| {
        if round == 0 {
            client.send(&encode(&[&["MGET"], &request[..]].concat()));
        }
    });
}

/// It has ended its half, so that nothing more comes of which the server could hear.
#[test]
fn who_ends_its_half_and_does_not_read_is_closed_first() {
    let request = vec!["big"; 16];
    assert_greediest_closed("output of a half", |client, round| {
        if round == 0 {
            client.send(&encode(&[&["MGET"], &request[..]].concat()));
            client.stream.shutdown(std::net::Shutdown::Write).unwrap();
        }
    });
}

/// Each word takes six bytes on its way, and more where it is noted.
#[test]
fn who_sends_empty_words_without_end_is_closed_first() {
    let many = b"$0\r\n\r\n".repeat(50_000);
    assert_greediest_closed("empty words", |client, round| {
        if round == 0 {
            client.send(b"*1000000\r\n$4\r\nMGET\r\n");
        }
        client.send(&many);
    });
}

#[test]
fn a_client_that_queues_without_end_is_closed_first() {
    let many = encode(&["SET", "k", "v"]).repeat(5_000);
    assert_greediest_closed("queue", |client, round| {
        if round == 0 {
            client.send(b"MULTI\r\n");
        }
        client.send(&many);
        // The replies are read, so that only the queue grows.
        client.stream.set_nonblocking(true).unwrap();
        let mut sink = vec![0; 1 << 20];
        while std::io::Read::read(&mut client.stream, &mut sink).is_ok_and(|size| size > 0) {}
        client.stream.set_nonblocking(false).unwrap();
    });
}

#[test]
fn a_client_that_watches_too_many_keys_is_closed_first() {
    assert_greediest_closed("watched keys", |client, round| {
        let name = |index: usize| format!("{round}:{index}:{}", "k".repeat(1_000));
        let names: Vec<String> = (0..500).map(name).collect();
        let words: Vec<&str> = ["WATCH"].into_iter().chain(names.iter().map(|n| &n[..])).collect();
        client.send(&encode(&words));
    });
}

#[test]
fn a_name_counts_and_what_is_left_after_a_big_request() {
    let server = TestServer::start();
    let mut client = server.connect();
    let mut observer = server.connect();
    assert_eq!(client.ask(&["CLIENT", "SETNAME", &"n".repeat(1 << 20)]), "+OK");
    // A connection is counted after its replies were sent.
    eventually("the name is counted", || number(&mut observer, "mem_clients_normal") >= 1 << 20);
    assert_eq!(client.line("CLIENT SETNAME short"), "+OK");
    eventually("it is given back", || number(&mut observer, "mem_clients_normal") < 64 << 10);
    // A big request and the begin of a small one, which stays.
    let mut stream = encode(&[&b"SET"[..], b"k", &vec![b'v'; 8 << 20]]);
    let mut keys = vec!["MGET"; 1];
    keys.resize(100_000, "none");
    stream.extend(encode(&keys));
    stream.extend_from_slice(b"*2\r\n$3\r\nGET\r\n$5\r\nun");
    client.send(&stream);
    assert_eq!(client.reply(), "+OK");
    assert!(client.reply().starts_with("[nil nil"));
    eventually("the buffers are given back", || {
        number(&mut observer, "mem_clients_normal") < 64 << 10
    });
    client.send(b"til\r\n");
    assert_eq!(client.reply(), "nil");
}

/// What was lost: each entry of `SLOWLOG` and `ACL LOG` had a copy of the client's name, however long, which counted
/// for nobody and stayed behind the client.
#[test]
fn what_is_kept_of_a_client_is_short_whatever_it_calls_itself() {
    let server = TestServer::start();
    let mut client = server.connect();
    assert_eq!(client.line("ACL SETUSER little on nopass ~mine:* +@all"), "+OK");
    assert_eq!(client.line("AUTH little x"), "+OK");
    let long = "n".repeat(1 << 20);
    for words in
        [&["SETNAME", &long][..], &["SETINFO", "LIB-NAME", &long], &["SETINFO", "LIB-VER", &long]]
    {
        assert_eq!(client.ask(&[&["CLIENT"], words].concat()), "+OK");
    }
    assert_eq!(client.line("CONFIG SET slowlog-log-slower-than 0"), "+OK");
    for number in 0..20 {
        assert!(client.line(&format!("GET other:{number}")).starts_with("-NOPERM"));
        assert_eq!(client.line("GET mine:1"), "nil");
    }
    let (slow, refused) = (client.line("SLOWLOG GET -1"), client.line("ACL LOG"));
    assert!(slow.contains("nnnnn") && slow.len() < 128 << 10, "{} bytes", slow.len());
    assert!(refused.contains("name=nnnnn") && refused.contains("lib-ver=nnnnn"));
    assert!(refused.contains(" loop=") && refused.len() < 128 << 10, "{} bytes", refused.len());
    assert!(client.line("CLIENT GETNAME").len() > 1 << 20, "to the others it is what it was");
}

/// What was lost: what waits counted with its keys alone, and held all else that it was asked with.
#[test]
fn who_waits_counts_with_all_it_holds() {
    const COUNT: usize = 6;
    let server = TestServer::start();
    let mut observer = server.connect();
    let zeros = "0".repeat(1 << 20);
    let mut clients = Vec::new();
    for number in 1..=COUNT as u64 {
        let mut client = server.connect();
        let request = match number % 2 {
            0 => encode(&["BLPOP", "k", &zeros]),
            _ => encode(&["BLMPOP", &zeros, "1", "k", "LEFT"]),
        };
        client.send(&request);
        eventually("it waits", || waiting(&mut observer) == number);
        clients.push(client);
    }
    eventually("it is counted", || {
        number(&mut observer, "mem_clients_normal") > (COUNT as u64) << 20
    });
    drop(clients);
    eventually("it is given back", || number(&mut observer, "mem_clients_normal") < 64 << 10);
    // Where a key cannot be so long nothing could ever be moved.
    let destination = "d".repeat(100_000);
    for words in [
        &["BLMOVE", "none", &destination, "LEFT", "LEFT", "0"][..],
        &["BRPOPLPUSH", "none", &destination, "0"],
    ] {
        let refused = observer.ask(words);
        assert!(refused.starts_with("-ERR") && refused.contains("100000"), "{refused}");
    }
}

fn waiting(observer: &mut Client) -> u64 {
    number(observer, "blocked_clients")
}

#[test]
fn the_limit_is_a_setting_that_can_be_changed() {
    let server = TestServer::start();
    let mut client = server.connect();
    assert!(!client.line("CONFIG GET maxmemory-clients").contains("\"0\""), "there is a default");
    assert_eq!(client.line("CONFIG SET maxmemory-clients 64mb"), "+OK");
    assert_eq!(client.line("CONFIG GET maxmemory-clients"), "[\"maxmemory-clients\" \"67108864\"]");
    assert!(client.line("CONFIG SET maxmemory-clients lots").contains("memory value"));
    let mut holder = server.connect();
    holder.send(b"*2\r\n$4\r\nECHO\r\n$9000000\r\n");
    holder.send(&vec![b'e'; 4 << 20]);
    eventually("it is held", || number(&mut client, "mem_clients_normal") > 4 << 20);
    assert_eq!(client.line("CONFIG SET maxmemory-clients 1mb"), "+OK");
    holder.assert_closed();
    assert_eq!(client.line("CONFIG SET maxmemory-clients 0"), "+OK");
    assert_eq!(number(&mut client, "maxmemory_clients"), 0);
    let held = vec![b'e'; 4 << 20];
    assert_eq!(server.connect().ask(&[&b"ECHO"[..], &held]).len(), held.len() + 2);
}

/// `CLIENT NO-EVICT ON` was answered with OK, and exempted nobody.
#[test]
fn a_client_that_asked_for_it_is_not_closed_for_what_it_holds() {
    let server = TestServer::with(|config| config.client_memory_max = Some(1 << 20));
    let (mut exempt, mut other) = (server.connect(), server.connect());
    assert_eq!(exempt.line("CLIENT NO-EVICT maybe"), "-ERR syntax error");
    assert_eq!(exempt.line("CLIENT NO-EVICT ON"), "+OK");
    assert!(exempt.line("CLIENT INFO").contains(" flags=e "));
    let echo = encode(&[&b"ECHO"[..], &vec![b'v'; 3 << 20]]);
    other.line("MULTI");
    other.send(&echo);
    other.assert_closed();
    exempt.line("MULTI");
    exempt.send(&echo);
    assert_eq!(exempt.reply(), "+QUEUED");
    assert_eq!(exempt.line("PING"), "+QUEUED", "it is still there");
    assert_eq!(exempt.line("DISCARD"), "+OK");
    assert_eq!(exempt.line("CLIENT NO-EVICT OFF"), "+OK");
    exempt.line("MULTI");
    exempt.send(&encode(&[&b"ECHO"[..], &vec![b'v'; 3 << 20]]));
    exempt.assert_closed();
}
