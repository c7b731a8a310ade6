//! What survives: RDB files, append-only files, `DUMP` and `MIGRATE`.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redis::{Connection, Value};

use crate::server::{Server, ask, digest, eventually, info, seed, tell};

/// Maps of all sizes, some entries of which expire, far away.
pub fn fill(connection: &mut Connection, random: &mut StdRng) {
    for (map, entries) in [1, 3, 40, 127, 128, 129, 2000, 30_000].into_iter().enumerate() {
        let mut pipe = redis::pipe();
        for _ in 0..entries {
            let name_size =
                if random.random_ratio(1, 300) { 20_000 } else { random.random_range(0..40) };
            let name: Vec<u8> = (0..name_size).map(|_| random.random()).collect();
            let size =
                if random.random_ratio(1, 500) { 200_000 } else { random.random_range(0..60) };
            let value = vec![random.random::<u8>(); size];
            let put = pipe.cmd("EL.PUT").arg(format!("map{map}")).arg(name).arg(value).ignore();
            if random.random_ratio(1, 4) {
                put.arg("PXAT").arg(4_000_000_000_000_u64 + random.random_range(0..1000));
            }
        }
        pipe.query::<()>(connection).expect("memory");
    }
}

#[test]
fn random_maps_survive_rdb_files() {
    let mut server = Server::start(&[]);
    let c = &mut server.connect();
    fill(c, &mut StdRng::seed_from_u64(seed()));
    let before = digest(c);
    tell(c, &["DEBUG", "RELOAD"]);
    assert_eq!(digest(c), before);
    tell(c, &["BGSAVE"]);
    // The child has the map of the moment; what changes meanwhile does not disturb it.
    for number in 0..20_000 {
        tell(c, &["EL.PUT", "map7", &format!("behind the save {number}"), "x"]);
        if number % 100 == 0 && info(c, "rdb_bgsave_in_progress") == "0" {
            break;
        }
    }
    eventually("the save", || info(c, "rdb_bgsave_in_progress") == "0");
    assert_eq!(info(c, "rdb_last_bgsave_status"), "ok");
    server.restart();
    assert_eq!(digest(&mut server.connect()), before);
}

#[test]
fn a_save_is_right_while_another_thread_frees() {
    let server = Server::start(&[]);
    let c = &mut server.connect();
    let mut random = StdRng::seed_from_u64(seed());
    fill(c, &mut random);
    for round in 0..8 {
        tell(c, &["COPY", "map7", "victim", "REPLACE"]);
        tell(c, &["COPY", "map6", "other victim", "REPLACE"]);
        let mut pipe = redis::pipe();
        pipe.cmd("UNLINK").arg("victim").arg("other victim").ignore();
        pipe.cmd("DEBUG").arg("DIGEST").cmd("BGSAVE");
        let (expected, _): (String, String) = pipe.query(c).expect("a digest and a save");
        eventually("the save", || info(c, "rdb_bgsave_in_progress") == "0");
        assert_eq!(info(c, "rdb_last_bgsave_status"), "ok", "round {round}: {}", server.log());
        tell(c, &["DEBUG", "RELOAD", "NOSAVE"]);
        assert_eq!(digest(c), expected, "round {round}");
    }
}

#[test]
fn random_maps_survive_append_only_files() {
    for preamble in ["yes", "no"] {
        let options = ["--appendonly", "yes", "--appendfsync", "always"];
        let mut server =
            Server::start(&[&options[..], &["--aof-use-rdb-preamble", preamble]].concat());
        let c = &mut server.connect();
        let mut random = StdRng::seed_from_u64(seed());
        fill(c, &mut random);
        tell(c, &["BGREWRITEAOF"]);
        tell(c, &["EL.PUT", "map0", "while rewriting", "x"]);
        eventually("the rewriting", || {
            info(c, "aof_rewrite_in_progress") == "0" && info(c, "aof_rewrite_scheduled") == "0"
        });
        assert_eq!(info(c, "aof_last_bgrewrite_status"), "ok");
        tell(c, &["EL.PUT", "map1", "behind it", "x", "EX", "100000"]);
        tell(c, &["EL.INCRBY", "map1", "counter", "5"]);
        tell(c, &["EL.EXPIREAT", "map1", "4000000000", "counter"]);
        tell(c, &["EL.CAS", "map1", "counter", "5", "six"]);
        tell(c, &["EL.DEL", "map2", "nothing"]);
        let before = digest(c);
        server.restart();
        assert_eq!(digest(&mut server.connect()), before, "preamble {preamble}");
    }
}

#[test]
fn maps_move_between_servers_by_dump_and_migrate() {
    let (from, to) = (Server::start(&[]), Server::start(&[]));
    let (f, t) = (&mut from.connect(), &mut to.connect());
    fill(f, &mut StdRng::seed_from_u64(seed()));
    let before = digest(f);
    for map in 0..8 {
        let key = format!("map{map}");
        let payload: Vec<u8> = ask(f, &["DUMP", &key]).expect("a payload");
        redis::cmd("RESTORE").arg(&key).arg(0).arg(payload).query::<()>(t).expect("restored");
    }
    assert_eq!(digest(t), before);
    tell(t, &["FLUSHALL"]);
    for map in 0..8 {
        let port = to.port.to_string();
        let key = format!("map{map}");
        let words = ["MIGRATE", "127.0.0.1", &port, &key, "0", "30000"];
        assert_eq!(tell(f, &words), Value::Okay);
    }
    assert_eq!((digest(t), tell(f, &["DBSIZE"])), (before, Value::Int(0)));
}
