//! Members that are drawn very often, beside those who change the collection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::TestServer;

/// How often a member is drawn: for some seconds.
const DRAWS: usize = 400_000;

/// What was lost: the time of all who write. A draw of very many members was one step, which was made anew whenever
/// somebody else had changed the collection meanwhile: up to nine times, behind the first with the others kept waiting.
#[test]
fn many_draws_keep_no_writer_waiting() {
    let server = TestServer::with(|config| config.threads = 2);
    let mut clients = [server.connect(), server.connect()];
    let event_loop = |reply: String| {
        reply.split(" loop=").nth(1).map(|rest| rest.split(' ').next().unwrap().to_string())
    };
    let loops = clients.each_mut().map(|client| event_loop(client.line("CLIENT INFO")));
    assert_ne!(loops[0], loops[1], "each has an event loop of its own");
    let [mut reader, mut writer] = clients;
    for member in 0..200 {
        reader.line(&format!("SADD s {member}"));
        reader.line(&format!("HSET h {member} v"));
        reader.line(&format!("ZADD z {member} {member}"));
    }
    for (change, read, counted) in [
        ("SADD s", format!("SRANDMEMBER s -{DRAWS}"), DRAWS),
        ("HSET h more", format!("HRANDFIELD h -{DRAWS} WITHVALUES"), 2 * DRAWS),
        ("ZADD z 7", format!("ZRANDMEMBER z -{DRAWS} WITHSCORES"), 2 * DRAWS),
    ] {
        let ended = AtomicBool::new(false);
        let (slowest, taken) = std::thread::scope(|scope| {
            let writer = &mut writer;
            let ended = &ended;
            let slowest = scope.spawn(move || {
                let (mut slowest, mut number) = (Duration::ZERO, 0);
                while !ended.load(Ordering::Relaxed) {
                    let start = Instant::now();
                    number += 1;
                    assert!(writer.line(&format!("{change} m{number}")).starts_with(':'));
                    slowest = slowest.max(start.elapsed());
                }
                slowest
            });
            let start = Instant::now();
            let reply = reader.line(&read);
            ended.store(true, Ordering::Relaxed);
            assert_eq!(reply.matches('"').count(), 2 * counted, "{:.100}", reply);
            (slowest.join().unwrap(), start.elapsed())
        });
        assert!(slowest < taken / 4, "{read}: a write took {slowest:?} of {taken:?}");
    }
}

/// Draws that take several steps answer as those of one.
#[test]
fn very_many_draws_are_answered_in_every_shape() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.line("SADD one a");
    client.line("HSET h f v");
    client.line("ZADD z 1.5 m");
    client.line("SET text x");
    const MANY: usize = 40_000;
    let shown = |item: &str| format!("[{}]", vec![item; MANY].join(" "));
    for (line, expected) in [
        (format!("SRANDMEMBER one -{MANY}"), shown("\"a\"")),
        (format!("HRANDFIELD h -{MANY}"), shown("\"f\"")),
        (format!("HRANDFIELD h -{MANY} WITHVALUES"), shown("\"f\" \"v\"")),
        (format!("ZRANDMEMBER z -{MANY} WITHSCORES"), shown("\"m\" \"1.5\"")),
        (format!("SRANDMEMBER none -{MANY}"), "[]".into()),
    ] {
        assert!(client.line(&line) == expected, "{line}");
        // The same in a transaction, which is one step.
        client.line("MULTI");
        assert_eq!(client.line(&line), "+QUEUED");
        assert!(client.line("EXEC") == format!("[{expected}]"), "{line}");
    }
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    for line in ["SRANDMEMBER text", "HRANDFIELD one", "ZRANDMEMBER h"] {
        assert_eq!(client.line(&format!("{line} -{MANY}")), wrong, "{line}");
    }
    let refused = client.line("HRANDFIELD h -9223372036854775807 WITHVALUES");
    assert_eq!(refused, "-ERR value is out of range");
    assert!(client.line("SRANDMEMBER one -9223372036854775807").starts_with("-ERR"));
    client.line("HELLO 3");
    let pairs = client.line(&format!("HRANDFIELD h -{MANY} WITHVALUES"));
    assert!(pairs == shown("[\"f\" \"v\"]"), "{:.80}", pairs);
}
