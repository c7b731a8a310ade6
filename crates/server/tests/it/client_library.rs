//! A real client library, in both versions of the protocol; and the program that measures servers, `redis-benchmark`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests may fail, and say that they skip"
)]

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::process::Command;

use crate::support::{TestServer, eventually};
use redis::{Commands, Connection, Direction, ProtocolVersion, RedisConnectionInfo, Value};

fn connect(server: &TestServer, protocol: ProtocolVersion, password: Option<&str>) -> Connection {
    use redis::IntoConnectionInfo;
    let mut settings = RedisConnectionInfo::default().set_protocol(protocol);
    if let Some(password) = password {
        settings = settings.set_password(password);
    }
    let info = format!("redis://{}/", server.address).into_connection_info().unwrap();
    let client = redis::Client::open(info.set_redis_settings(settings)).unwrap();
    client.get_connection().unwrap()
}

const BOTH: [ProtocolVersion; 2] = [ProtocolVersion::RESP2, ProtocolVersion::RESP3];

#[test]
fn ordinary_work_works_in_both_protocols() {
    for protocol in BOTH {
        let server = TestServer::start();
        let mut connection = connect(&server, protocol, None);
        let _: () = connection.set("k", "v").unwrap();
        assert_eq!(connection.get::<_, String>("k").unwrap(), "v");
        assert_eq!(connection.get::<_, Option<String>>("none").unwrap(), None);
        let _: () = connection.mset(&[("a", 1), ("b", 2)]).unwrap();
        let values: Vec<Option<i64>> = connection.mget(&["a", "none", "b"]).unwrap();
        assert_eq!(values, [Some(1), None, Some(2)]);
        assert_eq!(connection.incr::<_, _, i64>("a", 41).unwrap(), 42);
        assert!(connection.exists::<_, bool>("k").unwrap());
        assert_eq!(connection.del::<_, i64>(&["k", "b", "none"]).unwrap(), 2);
        let error = connection.incr::<_, _, i64>("text", "x").unwrap_err();
        assert_eq!(error.detail(), Some("value is not an integer or out of range"));
        let settings: HashMap<String, String> =
            redis::cmd("CONFIG").arg("GET").arg("maxclients").query(&mut connection).unwrap();
        assert_eq!(settings["maxclients"], "10000");
        let info: String = redis::cmd("INFO").query(&mut connection).unwrap();
        assert!(info.contains("everleaf_version:"));
    }
}

#[test]
fn binary_keys_and_values_are_safe() {
    let server = TestServer::start();
    let mut connection = connect(&server, ProtocolVersion::RESP2, None);
    let all: Vec<u8> = (0..=255).collect();
    let _: () = connection.set(&all, &all).unwrap();
    assert_eq!(connection.get::<_, Vec<u8>>(&all).unwrap(), all);
}

#[test]
fn ten_thousand_commands_fit_in_one_pipeline() {
    for protocol in BOTH {
        let server = TestServer::start();
        let mut connection = connect(&server, protocol, None);
        let mut pipeline = redis::pipe();
        for index in 0..5_000 {
            pipeline.set(format!("k{index}"), index).ignore();
            pipeline.get(format!("k{index}"));
        }
        let values: Vec<i64> = pipeline.query(&mut connection).unwrap();
        assert_eq!(values, (0..5_000).collect::<Vec<i64>>());
        let mut pipeline = redis::pipe();
        for index in 0..10_000 {
            pipeline.get(format!("k{index}"));
        }
        let values: Vec<Option<i64>> = pipeline.query(&mut connection).unwrap();
        let expected = (0..10_000).map(|index| (index < 5_000).then_some(index));
        assert_eq!(values, expected.collect::<Vec<_>>());
    }
}

#[test]
fn the_library_scans_all_keys() {
    let server = TestServer::start();
    let mut connection = connect(&server, ProtocolVersion::RESP3, None);
    for index in 0..1_000 {
        server.store.default_map().put(format!("k{index:04}").as_bytes(), b"v").unwrap();
    }
    let keys: Vec<String> = connection.scan().unwrap().map(|key| key.unwrap()).collect();
    let expected: Vec<String> = (0..1_000).map(|index| format!("k{index:04}")).collect();
    assert_eq!(keys, expected);
    let keys: Vec<String> =
        connection.scan_match("k00*").unwrap().map(|key| key.unwrap()).collect();
    assert_eq!(keys, expected[..100]);
}

#[test]
fn the_password_is_given_in_both_protocols() {
    let server = TestServer::with(|config| config.password = Some("secret".into()));
    for protocol in BOTH {
        let mut connection = connect(&server, protocol, Some("secret"));
        let _: () = connection.set("k", "v").unwrap();
    }
}

#[test]
fn ranges_come_as_pairs_in_the_newer_protocol() {
    let server = TestServer::start();
    let mut connection = connect(&server, ProtocolVersion::RESP3, None);
    let _: () = connection.mset(&[("a", "1"), ("b", "2"), ("c", "3")]).unwrap();
    let pairs: Vec<(String, String)> =
        redis::cmd("RANGE").arg(&["b", "+", "WITHVALUES"]).query(&mut connection).unwrap();
    assert_eq!(pairs, [("b".into(), "2".into()), ("c".into(), "3".into())]);
    let hello: Value = redis::cmd("HELLO").query(&mut connection).unwrap();
    assert!(matches!(hello, Value::Map(_)));
}

#[test]
fn collections_are_used_in_both_protocols() {
    for protocol in BOTH {
        let server = TestServer::start();
        let mut it = connect(&server, protocol, None);
        let _: () = it.hset_multiple("h", &[("f", 1), ("g", 2)]).unwrap();
        assert_eq!(it.hincr::<_, _, _, i64>("h", "f", 4).unwrap(), 5);
        let fields: HashMap<String, i64> = it.hgetall("h").unwrap();
        assert_eq!(fields, HashMap::from([("f".into(), 5), ("g".into(), 2)]));
        let values: Vec<Option<i64>> = it.hmget("h", &["g", "none"]).unwrap();
        assert_eq!(values, [Some(2), None]);
        let scanned: HashMap<String, i64> =
            it.hscan("h").unwrap().map(|pair: Result<(String, i64), _>| pair.unwrap()).collect();
        assert_eq!(scanned, fields);
        assert_eq!(it.hdel::<_, _, i64>("h", &["f", "none"]).unwrap(), 1);

        assert_eq!(it.rpush::<_, _, i64>("l", &["a", "b", "c"]).unwrap(), 3);
        let moved: String = it.lmove("l", "l", Direction::Left, Direction::Right).unwrap();
        assert_eq!(moved, "a");
        assert_eq!(it.lrange::<_, Vec<String>>("l", 0, -1).unwrap(), ["b", "c", "a"]);
        let taken: Vec<String> = it.lpop("l", NonZeroUsize::new(2)).unwrap();
        assert_eq!(taken, ["b", "c"]);

        assert_eq!(it.sadd::<_, _, i64>("s", &["x", "y"]).unwrap(), 2);
        assert_eq!(it.sadd::<_, _, i64>("s2", &["y", "z"]).unwrap(), 2);
        assert!(it.sismember::<_, _, bool>("s", "x").unwrap());
        let members: HashSet<String> = it.smembers("s").unwrap();
        assert_eq!(members, HashSet::from(["x".into(), "y".into()]));
        assert_eq!(it.sinter::<_, HashSet<String>>(&["s", "s2"]).unwrap(), ["y".into()].into());

        let scored = [(1.0, "one"), (2.0, "two"), (3.5, "three")];
        assert_eq!(it.zadd_multiple::<_, _, _, i64>("z", &scored).unwrap(), 3);
        assert_eq!(it.zrank::<_, _, Option<usize>>("z", "two").unwrap(), Some(1));
        let pairs: Vec<(String, f64)> = it.zrange_withscores("z", 1, -1).unwrap();
        assert_eq!(pairs, [("two".into(), 2.0), ("three".into(), 3.5)]);
        let found: Vec<String> = it.zrangebyscore("z", "(1", "+inf").unwrap();
        assert_eq!(found, ["two", "three"]);
        assert_eq!(it.zincr::<_, _, _, f64>("z", "one", 5).unwrap(), 6.0);

        let error = it.rpush::<_, _, i64>("h", "x").unwrap_err();
        assert_eq!(error.code(), Some("WRONGTYPE"));
    }
}

#[test]
fn transactions_are_retried_when_what_is_watched_changes() {
    for protocol in BOTH {
        let server = TestServer::start();
        let mut other = connect(&server, protocol, None);
        let mut it = connect(&server, protocol, None);
        let _: () = it.set("balance", 10).unwrap();
        let mut attempts = 0;
        let done: (i64, i64) = redis::transaction(&mut it, &["balance"], |it, transaction| {
            attempts += 1;
            let left: i64 = it.get::<_, i64>("balance")? - 3;
            if attempts == 1 {
                let _: i64 = other.incr("balance", 1)?;
            }
            transaction.set("balance", left).ignore().incr("spent", 3).rpush("log", "x").query(it)
        })
        .unwrap();
        assert_eq!((attempts, done), (2, (3, 1)));
        assert_eq!(it.get::<_, i64>("balance").unwrap(), 8);
    }
}

#[test]
fn a_client_waits_for_an_element() {
    for protocol in BOTH {
        let server = TestServer::start();
        let mut waiting = connect(&server, protocol, None);
        let taken = std::thread::spawn(move || {
            waiting.blpop::<_, Option<(String, String)>>(&["none", "queue"], 20.0)
        });
        let mut it = connect(&server, protocol, None);
        eventually("the client waits", || {
            let told: String = redis::cmd("INFO").arg("clients").query(&mut it).unwrap();
            told.contains("blocked_clients:1\r")
        });
        assert_eq!(it.rpush::<_, _, i64>("queue", "job").unwrap(), 1);
        let taken = taken.join().unwrap().unwrap();
        assert_eq!(taken, Some(("queue".into(), "job".into())));
        assert_eq!(it.exists::<_, bool>("queue"), Ok(false));
        assert_eq!(it.blpop::<_, Option<(String, String)>>("queue", 0.05), Ok(None));
    }
}

/// Without a list of its tests, as it is used most: 20 rows in version 7.0. Later ones end at their last test, which is
/// `XADD`: there are no streams.
#[test]
fn redis_benchmark_runs_all_of_its_tests() {
    let server = TestServer::start();
    let port = server.address.port().to_string();
    let mut command = Command::new("redis-benchmark");
    let output = command.args(["-p", &port, "-n", "1000", "-c", "10", "--csv"]).output();
    let may_lack = std::env::var_os("EVERLEAF_TEST_ALL_PROGRAMS").is_none();
    let Ok(output) = output else {
        assert!(may_lack, "there is no redis-benchmark");
        println!("skipped: there is no redis-benchmark here; apt-get install redis-tools");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let told = format!("{}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr));
    let names = text.lines().filter_map(|line| line.strip_prefix('"')?.split('"').next());
    let names: Vec<&str> = names.filter(|name| *name != "test").collect();
    assert_eq!(names.len(), 20, "{told}");
    assert_eq!(names.last(), Some(&"MSET (10 keys)"), "{told}");
    assert!(output.status.success() || told.contains("unknown command 'XADD'"), "{told}");
}
