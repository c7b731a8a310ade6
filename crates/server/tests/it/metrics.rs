//! `/metrics` and `/health`: what they tell, and that nobody keeps others from them.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use crate::support::TestServer;
use everleaf_server::{Config, Server};

fn server() -> (TestServer, SocketAddr) {
    let server = TestServer::with(|config| config.metrics = Some("127.0.0.1:0".into()));
    let address = server.handle.metrics_addr().expect("it listens");
    (server, address)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it accepts");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time");
    stream
}

/// Sends bytes and returns the status line and the body of the reply, behind which the connection ends.
fn ask(address: SocketAddr, request: &str) -> (String, String) {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("the answer is whole");
    let (head, body) = reply.split_once("\r\n\r\n").expect("the answer is whole");
    (head.lines().next().expect("the answer is whole").to_string(), body.to_string())
}

fn page(address: SocketAddr, path: &str) -> (String, String) {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"))
}

/// The samples of a page, which must be as OpenMetrics wants it: each family once, told before its samples.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let body = text.strip_suffix("# EOF\n").expect("the page ends with EOF");
    let (mut families, mut samples) = (BTreeMap::new(), BTreeMap::new());
    let mut family = String::new();
    for line in body.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["#", "TYPE", name, kind] => {
                assert_eq!(families.insert(name.to_string(), kind.to_string()), None, "{line}");
                family = name.to_string();
            }
            ["#", "UNIT", name, unit] => assert!(name == family && name.ends_with(unit), "{line}"),
            ["#", "HELP", name, _, ..] => assert_eq!(name, family),
            [sample, value] => {
                let name = sample.split("{").next().expect("a name");
                let suffix = match families[&family].as_str() {
                    "counter" => "_total",
                    "info" => "_info",
                    _ => "",
                };
                assert_eq!(name, format!("{family}{suffix}"), "{line}");
                let value: f64 = value.parse().expect("a number");
                assert_eq!(samples.insert(sample.to_string(), value), None, "{line}");
            }
            _ => panic!("{line}"),
        }
    }
    samples
}

#[test]
fn metrics_tell_what_has_happened() {
    let (server, address) = server();
    let before = samples(&page(address, "/metrics").1);
    let mut client = server.connect();
    for line in ["SET a 1", "GET a", "GET b", "NOSUCH", "SET c 1 EX 100"] {
        client.line(line);
    }
    let (status, text) = page(address, "/metrics?format=any");
    assert_eq!(status, "HTTP/1.1 200 OK");
    let after = samples(&text);
    let more = |name: &str| after[name] - before[name];
    assert_eq!(more("everleaf_commands_total"), 5.0);
    assert_eq!((more("everleaf_hits_total"), more("everleaf_misses_total")), (1.0, 1.0));
    assert_eq!(more("everleaf_errors_total"), 1.0);
    assert_eq!(more("everleaf_connections_accepted_total"), 1.0);
    assert_eq!(after["everleaf_clients"], 1.0);
    assert_eq!(after["everleaf_keys{map=\"default\"}"], 2.0, "{text}");
    assert!(after["everleaf_pool_bytes"] >= after["everleaf_pool_used_bytes"]);
    // RESETSTAT is for INFO: counters never go down.
    client.line("CONFIG RESETSTAT");
    assert!(samples(&page(address, "/metrics").1)["everleaf_commands_total"] >= 6.0);
}

#[test]
fn the_pages_there_are_and_those_there_are_not() {
    let (_server, address) = server();
    assert_eq!(page(address, "/health"), ("HTTP/1.1 200 OK".into(), "ok\n".into()));
    assert_eq!(page(address, "/").1, "/metrics\n/health\n");
    assert_eq!(page(address, "/../etc/passwd").0, "HTTP/1.1 404 Not Found");
    assert_eq!(
        ask(address, "HEAD /metrics HTTP/1.0\n\n"),
        ("HTTP/1.1 200 OK".into(), String::new())
    );
    assert_eq!(ask(address, "POST /health HTTP/1.1\r\n\r\n").0, "HTTP/1.1 405 Method Not Allowed");
    assert_eq!(ask(address, "*1\r\n$8\r\nFLUSHALL\r\n").0, "HTTP/1.1 400 Bad Request");
    let long = format!("GET / HTTP/1.1\r\nCookie: {}\r\n", "x".repeat(4096));
    assert_eq!(ask(address, &long).0, "HTTP/1.1 431 Request Header Fields Too Large");
}

#[test]
fn a_store_that_takes_no_writes_is_not_well() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p");
    crate::support::open(&path, 1 << 30).close().unwrap();
    let store = everleaf::Options::new().read_only(true).open(&path).unwrap();
    let server =
        TestServer::on(folder, store, |config| config.metrics = Some("127.0.0.1:0".into()));
    let (status, body) = page(server.handle.metrics_addr().unwrap(), "/health");
    assert_eq!(
        (status.as_str(), body.as_str()),
        ("HTTP/1.1 503 Service Unavailable", "the store takes no writes\n")
    );
}

/// What was wrong: it was told to be well when its log had failed, and every write was refused.
#[test]
fn a_server_whose_log_has_failed_is_not_well() {
    let folder = tempfile::tempdir().unwrap();
    let options = everleaf::Options::new().create(true).max_size_bytes(1 << 30);
    let options = options.durability(everleaf::Durability::Power);
    let store = options.open(folder.path().join("pool")).unwrap();
    let server =
        TestServer::on(folder, store, |config| config.metrics = Some("127.0.0.1:0".into()));
    let address = server.handle.metrics_addr().unwrap();
    assert_eq!(page(address, "/health").1, "ok\n");
    // What is open can be written, but there is no next segment.
    std::fs::remove_dir_all(server.folder.path().join("pool.log")).unwrap();
    let value = vec![b'v'; 1 << 20];
    for count in 0.. {
        if server.store.default_map().put("key", &value).is_err() {
            break;
        }
        assert!(count < 1000, "the log goes on");
    }
    let (status, body) = page(address, "/health");
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
    assert!(body.starts_with("the log has failed"), "{body}");
}

/// Hundreds of connections that say nothing, a part, or too much: others get their page at once, and the server stops
/// with them open.
#[test]
fn a_slow_or_hostile_client_keeps_nobody_from_the_pages() {
    let (mut server, address) = server();
    let mut idle: Vec<TcpStream> = Vec::new();
    for index in 0..300_usize {
        let mut stream = connect(address);
        let part = &b"GET /metrics HTTP/1.1\r\nHost: x\r\n"[..index % 33];
        // A connection that is closed for being the oldest of too many gets an error.
        let _ = stream.write_all(part);
        idle.push(stream);
        if index % 50 == 0 {
            assert_eq!(page(address, "/health").1, "ok\n");
        }
    }
    // Asks, and never reads.
    for _ in 0..100 {
        let mut stream = connect(address);
        let _ = stream.write_all(&b"GET /metrics HTTP/1.1\r\n\r\n".repeat(1000));
        idle.push(stream);
    }
    let mut state = 7_u64;
    for _ in 0..300 {
        let garbage: Vec<u8> = (0..200)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        let mut stream = connect(address);
        let _ = stream.write_all(&garbage);
    }
    assert_eq!(page(address, "/health").1, "ok\n");
    assert_eq!(server.connect().line("PING"), "+PONG");
    server.stop().unwrap();
    drop(idle);
}

#[test]
fn an_address_that_is_taken_is_an_error() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    for address in [taken.local_addr().unwrap().to_string(), "nonsense".into(), "127.0.0.1".into()]
    {
        let config = Config { port: 0, metrics: Some(address.clone()), ..Config::default() };
        let error = Server::listen(config).err().map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.contains(&address)));
    }
}
