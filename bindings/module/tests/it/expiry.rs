//! Entries that expire: on the master, in what replicas are told, and behind renames.

use std::time::{SystemTime, UNIX_EPOCH};

use redis::{Connection, Value};

use crate::server::{Server, ask, digest, eventually, info, tell};

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("behind 1970");
    since.as_millis() as u64
}

fn exists(connection: &mut Connection, key: &str) -> bool {
    tell(connection, &["EXISTS", key]) == Value::Int(1)
}

/// A replica of a master, in step.
fn replica_of(master: &Server) -> Server {
    let replica = Server::start(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
    let connection = &mut replica.connect();
    eventually("the first synchronisation", || info(connection, "master_link_status") == "up");
    replica
}

/// Waits until a replica has all that its master wrote.
pub fn in_step(master: &mut Connection) {
    tell(master, &["SET", "step", "x"]);
    assert_eq!(ask::<i64>(master, &["WAIT", "1", "30000"]).expect("WAIT"), 1);
}

#[test]
fn expired_entries_are_absent_at_once_and_removed_soon() {
    let server = Server::start(&[]);
    let c = &mut server.connect();
    for size in [10, 1000] {
        let key = format!("k{size}");
        for number in 0..size {
            let time = (now() + 300).to_string();
            tell(c, &["EL.PUT", &key, &format!("short-{number:04}"), "x", "PXAT", &time]);
        }
        tell(c, &["EL.PUT", &key, "long", "y"]);
        tell(c, &["EL.PUT", &key, "later", "z", "EX", "1000"]);
        eventually("the entries to expire", || tell(c, &["EL.COUNT", &key]) == Value::Int(2));
        assert_eq!(tell(c, &["EL.GET", &key, "short-0001"]), Value::Nil);
        let fields =
            |c: &mut Connection| -> Vec<Value> { ask(c, &["EL.INFO", &key]).expect("a list") };
        eventually("the entries to go", || fields(c)[3] == Value::Int(2));
        assert_eq!(tell(c, &["EL.PERSIST", &key, "later", "long"]), Value::Int(1));
        assert_eq!(tell(c, &["EL.PEXPIRETIME", &key, "later"]), Value::Int(-1));
    }
    tell(c, &["EL.PUT", "gone", "a", "1", "PX", "20"]);
    eventually("the key of the last entry to go", || !exists(c, "gone"));
}

#[test]
fn what_was_renamed_moved_copied_swapped_or_loaded_expires() {
    let server = Server::start(&[]);
    let c = &mut server.connect();
    let time = (now() + 1500).to_string();
    for key in ["renamed", "moved", "swapped", "copied", "restored", "stays"] {
        tell(c, &["EL.PUT", key, "a", "1", "PXAT", &time]);
    }
    tell(c, &["RENAME", "renamed", "renamed to"]);
    tell(c, &["MOVE", "moved", "1"]);
    tell(c, &["COPY", "copied", "copied to"]);
    let payload: Vec<u8> = ask(c, &["DUMP", "restored"]).expect("a payload");
    redis::cmd("RESTORE").arg("restored to").arg(0).arg(payload).query::<()>(c).expect("restored");
    tell(c, &["DEBUG", "RELOAD"]);
    tell(c, &["SWAPDB", "0", "2"]);
    eventually("all to expire", || {
        let text: String = ask(c, &["INFO", "keyspace"]).expect("INFO");
        !text.contains("keys=")
    });
}

#[test]
fn a_replica_waits_for_its_master_and_holds_the_same() {
    let master = Server::start(&[]);
    let m = &mut master.connect();
    tell(m, &["EL.PUT", "before", "a", "1", "PX", "200"]);
    let replica = replica_of(&master);
    let r = &mut replica.connect();
    for number in 0..500 {
        let entry = format!("e{number}");
        tell(m, &["EL.PUT", "k", &entry, "1", "PX", &(1 + number % 300).to_string()]);
        // What meets an expired entry has to say so to the replica.
        tell(m, &["EL.INCRBY", "k", &format!("e{}", number / 2), "3"]);
        tell(m, &["EL.PUT", "k", &format!("e{}", number / 3), "9", "KEEPTTL"]);
        let _ = ask::<Value>(m, &["EL.CAS", "k", &format!("e{}", number / 4), "9", "10"]);
        let _ = ask::<Value>(m, &["EL.PUT", "k", &format!("e{}", number / 5), "5", "NX"]);
        tell(m, &["EL.PERSIST", "k", &format!("e{}", number / 6)]);
        tell(m, &["EL.DEL", "k", &format!("e{}", number / 7)]);
    }
    let volatile = |c: &mut Connection| -> Value {
        let fields: Vec<Value> = ask(c, &["EL.INFO", "k"]).expect("a list");
        fields.get(5).cloned().unwrap_or(Value::Int(0))
    };
    eventually("all that expires to go", || volatile(m) == Value::Int(0) && !exists(m, "before"));
    in_step(m);
    assert_eq!(digest(m), digest(r));
}

#[test]
fn a_replica_hides_expired_keys_until_it_is_promoted() {
    let mut master = Server::start(&[]);
    let m = &mut master.connect();
    let replica = replica_of(&master);
    let r = &mut replica.connect();
    for number in 0..300 {
        tell(m, &["EL.PUT", "k", &number.to_string(), "1", "PX", "400"]);
    }
    tell(m, &["EL.PUT", "k", "stays", "1"]);
    in_step(m);
    master.kill();
    eventually("the entries to be hidden", || tell(r, &["EL.COUNT", "k"]) == Value::Int(1));
    let fields: Vec<Value> = ask(r, &["EL.INFO", "k"]).expect("a list");
    assert_eq!(fields[3], Value::Int(301), "a replica removes nothing by itself");
    tell(r, &["REPLICAOF", "NO", "ONE"]);
    eventually("the entries to go", || {
        let fields: Vec<Value> = ask(r, &["EL.INFO", "k"]).expect("a list");
        fields[3] == Value::Int(1)
    });
}

#[test]
fn a_key_that_expires_takes_its_entries_along() {
    let master = Server::start(&[]);
    let m = &mut master.connect();
    let replica = replica_of(&master);
    let r = &mut replica.connect();
    for number in 0..1000 {
        tell(m, &["EL.PUT", "k", &number.to_string(), "1", "EX", "1000"]);
    }
    tell(m, &["PEXPIRE", "k", "100"]);
    eventually("the key to expire", || !exists(m, "k"));
    in_step(m);
    assert!(!exists(r, "k"));
    // The last entry takes the key's own expiry along, on both sides.
    tell(m, &["EL.PUT", "last", "a", "1", "PX", "1"]);
    tell(m, &["EXPIRE", "last", "1000"]);
    let _ = ask::<Value>(m, &["EL.PUT", "last", "a", "2", "NX"]);
    in_step(m);
    eventually("the same on both sides", || digest(m) == digest(r));
    assert_eq!(tell(m, &["PEXPIRETIME", "last"]), tell(r, &["PEXPIRETIME", "last"]));
}

/// What was wrong: entries that a timer had removed were counted, and could not be used, until the next command of
/// the module.
#[test]
fn memory_of_expired_entries_is_free_without_another_command() {
    const COUNT: u64 = 64;
    let server = Server::start(&[]);
    let c = &mut server.connect();
    let used = |c: &mut Connection| info(c, "used_memory").parse::<u64>().expect("a number");
    let empty = used(c);
    tell(c, &["EL.PUT", "k", "stays", "x"]);
    let value = "v".repeat(256 << 10);
    let time = (now() + 3000).to_string();
    for number in 0..COUNT {
        tell(c, &["EL.PUT", "k", &number.to_string(), &value, "PXAT", &time]);
    }
    let full = used(c);
    assert!(full - empty >= (COUNT * 256) << 10, "{empty} {full}");
    // Nothing but the server's own commands is asked.
    eventually("the memory of what expired", || used(c) < empty + (full - empty) / 2);
    assert!(exists(c, "k"));
}

/// What was wrong: a script, or a transaction, found an entry, and a moment later not. Servers that tell the time at
/// which one began have none of it.
#[test]
fn a_script_has_one_time() {
    let server = Server::start(&[]);
    let c = &mut server.connect();
    let version = info(c, "redis_version");
    let mut parts = version.split('.').map(|part| part.parse::<u32>().expect("a number"));
    if (parts.next(), parts.next()) < (Some(7), Some(2)) {
        println!("skipped: version {version} does not tell it");
        return;
    }
    let script = "
        local first = redis.call('EL.GET', KEYS[1], 'e')
        local clock = os.clock()
        repeat until os.clock() > clock + 0.8
        return {first, redis.call('EL.GET', KEYS[1], 'e'), redis.call('EL.INCRBY', KEYS[1], 'e', 1)}";
    tell(c, &["EL.PUT", "k", "e", "41", "PX", "500"]);
    let found: (String, Option<String>, i64) = ask(c, &["EVAL", script, "1", "k"]).expect("a list");
    assert_eq!(found, ("41".into(), Some("41".into()), 42));
    eventually("the entry to go at its time", || !exists(c, "k"));
}
