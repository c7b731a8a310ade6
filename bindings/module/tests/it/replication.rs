//! Replicas: equal to their master behind random commands, full and partial synchronisation.

use std::io::Write;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::expiry::in_step;
use crate::persistence::fill;
use crate::server::{Server, ask, digest, eventually, info, seed, tell};

#[test]
fn a_replica_is_equal_behind_random_commands() {
    let master = Server::start(&["--repl-diskless-sync-delay", "0"]);
    let m = &mut master.connect();
    let mut random = StdRng::seed_from_u64(seed());
    fill(m, &mut random);
    let port = master.port.to_string();
    let replica = Server::start(&["--replicaof", "127.0.0.1", &port]);
    let r = &mut replica.connect();
    eventually("the first synchronisation", || info(r, "master_link_status") == "up");
    for round in 0..6 {
        let mut pipe = redis::pipe();
        for _ in 0..3000 {
            let key = format!("map{}", random.random_range(0..9));
            let name = random.random_range(0..500).to_string();
            match random.random_range(0..9) {
                0..3 => pipe.cmd("EL.PUT").arg(key).arg(name).arg(random.random_range(0..9)),
                3 => pipe.cmd("EL.MPUT").arg(key).arg(&name).arg("1").arg("other").arg("2"),
                4 => pipe.cmd("EL.DEL").arg(key).arg(name),
                5 => pipe
                    .cmd("EL.PUT")
                    .arg(key)
                    .arg(name)
                    .arg("7")
                    .arg("PX")
                    .arg(random.random_range(1..300)),
                6 => pipe.cmd("EL.CAS").arg(key).arg(name).arg("7").arg("8"),
                7 => pipe.cmd("EL.PEXPIREAT").arg(key).arg(random.random_range(1..2000)).arg(name),
                _ => pipe.cmd("EL.PERSIST").arg(key).arg(name),
            }
            .ignore();
        }
        pipe.cmd("COPY").arg("map6").arg(format!("copy{round}")).arg("REPLACE").ignore();
        pipe.cmd("RENAME").arg("map4").arg("map9").ignore();
        pipe.cmd("RENAME").arg("map9").arg("map4").ignore();
        pipe.query::<()>(m).expect("all of it works");
        if round == 3 {
            // The link breaks, and the replica asks for what it missed.
            tell(r, &["CLIENT", "KILL", "TYPE", "master"]);
        }
    }
    // Until everything that expires has, both sides may be asked at different moments.
    eventually("the replica to be equal", || {
        in_step(m);
        let before = digest(m);
        let there = digest(r);
        before == there && digest(m) == before
    });
    let known: i64 = ask(m, &["DBSIZE"]).expect("a number");
    assert!(known > 8, "{known}");
}

/// What was lost: `move.py into` ended with 0 where a replica had not confirmed what it is to wait for.
#[test]
fn a_replica_that_does_not_confirm_is_told_by_the_tool() {
    let master = Server::start(&["--repl-diskless-sync-delay", "0"]);
    let address = format!("127.0.0.1:{}", master.port);
    let put = || {
        let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/move.py");
        let mut command = std::process::Command::new("python3");
        command.args([tool, "into", &address, "users"]);
        command.stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().expect("Python is there");
        let mut input = child.stdin.take().expect("it is piped");
        input.write_all(br#"{"key":"k","value":"v"}"#).expect("it reads");
        drop(input);
        let output = child.wait_with_output().expect("it ends");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    assert_eq!(put().0, Some(0), "there is none");
    let port = master.port.to_string();
    let replica = Server::start(&["--replicaof", "127.0.0.1", &port]);
    let r = &mut replica.connect();
    eventually("the first synchronisation", || info(r, "master_link_status") == "up");
    assert_eq!(put().0, Some(0), "it confirms");
    // For longer than is waited.
    let sleeper = replica.connect();
    let sleeps =
        std::thread::spawn(move || drop(ask::<()>(&mut { sleeper }, &["DEBUG", "SLEEP", "9"])));
    eventually("it stands still", || {
        let m = &mut master.connect();
        tell(m, &["EL.PUT", "other", "k", "v"]);
        ask::<i64>(m, &["WAIT", "1", "200"]).expect("a number") == 0
    });
    let (code, told) = put();
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("has not confirmed"), "{told}");
    sleeps.join().expect("it wakes");
}
