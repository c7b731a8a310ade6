//! A real client library, in both versions of the protocol.

#![allow(clippy::unwrap_used, reason = "tests may fail")]

use std::collections::HashMap;

use crate::support::TestServer;
use redis::{Commands, Connection, ProtocolVersion, RedisConnectionInfo, Value};

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
