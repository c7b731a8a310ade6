//! The check of collections: it finds each kind of damage, and nothing in what is whole.

use crate::support::{TestServer, encode};
use everleaf::Map;
use everleaf_server::check_collections;

/// A server with collections of each kind, some of them gone.
fn filled() -> TestServer {
    let server = TestServer::start();
    let mut client = server.connect();
    for number in 0..300 {
        let (number, score) = (number.to_string(), (number % 50).to_string());
        for request in [
            &["HSET", "hash", &number, "x"][..],
            &["SADD", "set", &number],
            &["ZADD", "zset", &score, &number],
            &["RPUSH", "list", &number],
            &["LPUSH", "list", &number],
            &["RPUSH", "gone", &number],
            &["ZADD", "gone too", "1", &number],
        ] {
            client.send(&encode(request));
            assert!(!client.reply().starts_with('-'));
        }
    }
    // So many that one at least is chosen for a separator, one of 64 on average: else once in 10^8.
    for number in 300..1300 {
        let (number, score) = (number.to_string(), (number % 50).to_string());
        assert_eq!(client.ask(&["ZADD", "zset", &score, &number]), ":1");
    }
    let runs: Vec<String> = (0..300).map(|number| format!("e{number}")).collect();
    let push: Vec<&str> =
        ["RPUSH", "runs"].into_iter().chain(runs.iter().map(String::as_str)).collect();
    assert_eq!(client.ask(&push), ":300");
    for line in [
        "LTRIM list 10 500",
        "LREM list 1 7",
        "ZREMRANGEBYRANK zset 3 20",
        "DEL gone",
        "SPOP set 7",
    ] {
        assert!(!client.line(line).starts_with('-'));
    }
    assert_eq!(client.ask(&["SET", "gone too", "a string"]), "+OK");
    server
}

/// The entries of the collection of a key, without their number, in order.
fn entries(members: &Map, header: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let id = u64::from_le_bytes(header[24..32].try_into().unwrap()).to_be_bytes();
    let all = members.range(..).map(Result::unwrap);
    all.filter(|(key, _)| key.starts_with(&id)).collect()
}

#[test]
fn what_is_whole_has_no_problems_and_each_damage_has_one() {
    let mut server = filled();
    server.stop().unwrap();
    let store = &server.store;
    let report = check_collections(store).unwrap();
    assert_eq!((report.problems, report.collections), (Vec::<String>::new(), 5));
    assert_eq!(report.members, 300 + 293 + 1282 + 490 + 300);
    let members = store.existing_map("server.members").unwrap().unwrap();
    let map = store.default_map();
    let header = |key: &str| map.get(key).unwrap().unwrap();
    let of = |key: &str| entries(&members, &header(key));
    let note = |key: &str| {
        let id = u64::from_le_bytes(header(key)[24..32].try_into().unwrap());
        [1u64.to_be_bytes(), id.to_be_bytes()].concat()
    };
    // What is changed: in which map, at which key, to what (`None` removes it), and what is told of it.
    type Damage<'a> = (&'a Map, Vec<u8>, Option<Vec<u8>>, &'a str);
    let changed = |key: &str, at: usize, byte: u8| {
        let mut header = header(key);
        header[at] = byte;
        Some(header)
    };
    let zset = of("zset");
    let level = |level: u8| {
        let mark = 0x80 + level;
        let mut found = zset.iter().filter(|(key, _)| key[8] == mark);
        (found.next().unwrap().clone(), found.next())
    };
    let (start, separator) = level(1);
    let separator = separator.expect("of 1282 members one is a separator").clone();
    let scored = zset.iter().find(|(key, _)| key[8] < 0x80).unwrap().clone();
    let (list, runs) = (of("list"), of("runs"));
    assert_eq!(runs.len(), 3, "of 128 elements at most");
    let short = |entry: &[u8], size: usize| Some(entry[..entry.len() - size].to_vec());
    let mut moved = of("hash")[0].0.clone();
    moved[9] ^= 1;
    let damages: Vec<Damage<'_>> = vec![
        (map, b"hash".to_vec(), changed("hash", 32, 0xff), "its header counts"),
        (map, b"set".to_vec(), changed("set", 16, 9), "of no kind"),
        (map, b"list".to_vec(), changed("list", 48, 0xff), "is outside of its bounds"),
        (&members, of("hash")[5].0.clone(), None, "its header counts 300 members, and it has 299"),
        (&members, of("set")[5].0.clone(), None, "its header counts 293 members, and it has 292"),
        (&members, of("set")[5].0.clone(), Some(b"x".to_vec()), "a member of a set has a value"),
        (&members, list[list.len() / 2].0.clone(), None, "is missing"),
        (&members, runs[1].0.clone(), None, "is missing"),
        (&members, runs[1].0.clone(), short(&runs[1].1, 1), "a run of elements cannot be read"),
        (&members, runs[1].0.clone(), short(&runs[1].1, 5), "is missing"),
        (&members, runs[2].0.clone(), short(&runs[2].1, 5), "counts 300 members, and it has 299"),
        (&members, runs[2].0.clone(), Some(vec![]), "a run of elements cannot be read"),
        (&members, runs[1].0[..16].to_vec(), Some(vec![]), "is missing"),
        (&members, [&runs[1].0[..16], &[2]].concat(), Some(vec![]), "not where it belongs"),
        (&members, moved, Some(b"x".to_vec()), "not where it belongs"),
        (&members, note("hash"), None, "no note"),
        (&members, note("hash"), Some(b"other".to_vec()), "its note has another key: other"),
        (&members, level(0).0.0, None, "has no position of its score"),
        (&members, scored.0.clone(), None, "a position is not that of its member"),
        (&members, scored.0.clone(), Some(vec![1]), "has no score"),
        (&members, scored.0, Some(1e9f64.to_bits().to_le_bytes().to_vec()), "has no position"),
        (&members, start.0.clone(), None, "level 1 has not the start"),
        (&members, start.0, Some(vec![0xee; 8]), "on level 1, the start counts"),
        (&members, separator.0.clone(), None, "level 1 has not the separator"),
        (&members, [&separator.0[..], b"x"].concat(), Some(vec![0; 8]), "which is none"),
        (&members, [0x7f; 20].to_vec(), Some(vec![]), "belong to no collection"),
        (&members, vec![0x7f; 3], Some(vec![]), "belong to no collection"),
    ];
    for (map, key, value, expected) in damages {
        let before = map.get(&key).unwrap();
        match &value {
            Some(value) => map.put(&key, value).map(drop).unwrap(),
            None => assert!(map.remove(&key).unwrap(), "{expected}"),
        }
        let problems = check_collections(store).unwrap().problems;
        assert!(
            problems.iter().any(|problem| problem.contains(expected)),
            "{expected}: {problems:?}"
        );
        match before {
            Some(value) => map.put(&key, value).map(drop).unwrap(),
            None => assert!(map.remove(&key).unwrap()),
        }
        let problems = check_collections(store).unwrap().problems;
        assert!(problems.is_empty(), "after {expected}: {problems:?}");
    }
    // Without its mark nothing of it can be told.
    members.remove(b"\0\0\0\0\0\0\0\0mark").unwrap();
    let problems = check_collections(store).unwrap().problems;
    assert!(problems.len() == 1 && problems[0].contains("no mark"), "{problems:?}");
}

#[test]
fn a_store_without_collections_has_no_problems() {
    let server = TestServer::start();
    server.connect().line("SET a b");
    let report = check_collections(&server.store).unwrap();
    assert_eq!((report.problems.len(), report.collections, report.members), (0, 0, 0));
}
