//! A full pool from before lists had runs.

use crate::support::{Client, TestServer, open};

/// A server of this version on a pool from before runs that was full did not start, and an older one did not any more.
#[test]
fn a_full_pool_from_before_runs_is_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("small.pool");
    let mut server = TestServer::on(folder, open(&path, 16 << 20), |_| {});
    let mut client = server.connect();
    assert_eq!(client.line("SADD set a"), ":1");
    assert_eq!(client.line("RPUSH list a b c"), ":3");
    let mark = b"\0\0\0\0\0\0\0\0mark";
    let members = server.store.map("server.members").unwrap();
    let before = members.get(mark).unwrap().unwrap();
    members.put(mark, &before[..16]).unwrap();
    let store = std::sync::Arc::clone(&server.store);
    let map = store.default_map();
    // Each size that is smaller than the last that found no room.
    let mut key = 0_u32;
    for size in (0..400).rev().chain([0]) {
        while map.put(key.to_be_bytes(), vec![7; size]).is_ok() {
            key += 1;
        }
    }
    let is_refused = members.put(mark, &before).is_err();
    server.stop().unwrap();
    assert!(is_refused, "there is no room for the mark");
    let config = everleaf_server::Config { port: 0, ..everleaf_server::Config::default() };
    let again =
        everleaf_server::Server::bind(config, std::sync::Arc::clone(&store)).expect("it starts");
    let handle = again.handle();
    let address = handle.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| again.run());
        let mut client = Client::new(std::net::TcpStream::connect(address).unwrap());
        assert_eq!(client.line("LRANGE list 0 -1"), "[\"a\" \"b\" \"c\"]");
        assert!(client.line("LPUSH list d").starts_with("-OOM"));
        assert_eq!(members.get(mark).unwrap().as_deref(), Some(&before[..16]));
        for key in 0..key {
            assert!(map.remove(key.to_be_bytes()).unwrap());
        }
        assert_eq!(client.line("RPOP list"), "\"c\"");
        assert_eq!(members.get(mark).unwrap(), Some(before), "with the first change of a list");
        assert_eq!(client.line("LPUSH list d"), ":3");
        handle.shutdown();
    });
}
