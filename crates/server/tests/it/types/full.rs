//! A full pool: what makes room, or needs none, is not refused.

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

/// A pop of one element wrote the rest of its run anew, for which a full pool has no room: nobody could take anything
/// any more.
#[test]
fn a_full_pool_is_drained_one_by_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder.path().join("small.pool"), 16 << 20);
    let server = TestServer::on(folder, store, |_| {});
    let mut client = server.connect();
    let words: Vec<String> = (100_000..100_128).map(|number| format!("e{number}")).collect();
    let push = |list: &str| {
        let push = ["RPUSH".to_string(), list.to_string()];
        push.into_iter().chain(words.clone()).collect::<Vec<_>>()
    };
    let takes = ["LPOP first", "BLPOP second 0", "LTRIM third 1 -1", "RPOP fourth"];
    // As a queue that was in use before: what a step of this size is written down with has its place then.
    for take in takes {
        let list = take.split(' ').nth(1).unwrap();
        assert_eq!(client.ask(&push(list)), ":128");
        (0..128).for_each(|_| drop(client.line(take)));
        (0..3).for_each(|_| assert!(client.ask(&push(list)).starts_with(':')));
    }
    let fill = push("filler");
    for take in takes {
        while client.ask(&fill).starts_with(':') {}
        for left in (0..3 * 128).rev() {
            let reply = client.line(take);
            assert!(!reply.starts_with('-'), "{take}, {left} left: {reply}");
            let list = take.split(' ').nth(1).unwrap();
            assert_eq!(client.line(&format!("LLEN {list}")), format!(":{left}"));
        }
    }
    assert!(client.line("LLEN filler").len() > ":100000".len());
    let report = everleaf_server::check_collections(&server.store).unwrap();
    assert_eq!((report.problems, report.collections), (Vec::<String>::new(), 1));
}
