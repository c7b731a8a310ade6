//! Members that are drawn very often, beside clients that change the collection.

use std::sync::Arc;
use std::time::Instant;

use crate::support::{Client, TestServer, eventually, open};

/// How often a member is drawn: seven steps of the server.
const DRAWS: usize = 110_000;
/// Members besides the one that comes and goes.
const MEMBERS: usize = 200;
/// So many draws in a row all have the one that comes and goes, while it is there: without it are 2 of 10^9.
const SHOWN_TOGETHER: usize = 4096;

/// Draws once. Whether the collection was changed while it did: the member that comes and goes was there at some draws,
/// and at others it was not.
fn is_changed_meanwhile(reader: &mut Client, read: &str, items: usize) -> bool {
    let reply = reader.line(read);
    let shown: Vec<&str> = reply.split('"').skip(1).step_by(2).collect();
    assert_eq!(shown.len(), items, "{reply:.100}");
    let mut moments = shown.chunks_exact(SHOWN_TOGETHER);
    let is_there = |items: &[&str]| items.contains(&"comes-and-goes");
    let first = moments.next().is_some_and(is_there);
    moments.any(|items| is_there(items) != first)
}

/// What was lost: the time of all clients that write. A draw of very many members was one step, which was made anew
/// whenever somebody else had changed the collection meanwhile: up to nine times, behind the first with the others kept
/// waiting. Then all draws are of one moment; not if a write comes in between.
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
    for member in 0..MEMBERS {
        reader.line(&format!("SADD s {member}"));
        reader.line(&format!("HSET h {member} v"));
        reader.line(&format!("ZADD z {member} {member}"));
    }
    for (comes, goes, read, items) in [
        ("SADD s comes-and-goes", "SREM s", format!("SRANDMEMBER s -{DRAWS}"), DRAWS),
        (
            "HSET h comes-and-goes v",
            "HDEL h",
            format!("HRANDFIELD h -{DRAWS} WITHVALUES"),
            2 * DRAWS,
        ),
        (
            "ZADD z 7 comes-and-goes",
            "ZREM z",
            format!("ZRANDMEMBER z -{DRAWS} WITHSCORES"),
            2 * DRAWS,
        ),
    ] {
        // Dropped when the member was seen to come and go, and by a panic.
        let drawing = Arc::new(());
        let watch = Arc::downgrade(&drawing);
        std::thread::scope(|scope| {
            let writer = &mut writer;
            scope.spawn(move || {
                while watch.strong_count() > 0 {
                    assert_eq!(writer.line(comes), ":1");
                    assert_eq!(writer.line(&format!("{goes} comes-and-goes")), ":1");
                }
            });
            // Not at once if the writer gets no processor.
            eventually(&read, || is_changed_meanwhile(&mut reader, &read, items));
            drop(drawing);
        });
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

/// What was wrong: a member was drawn as often as the gap before its hash is wide, some hardly ever: of any set one
/// member in a hundred had less than a hundredth of its share, for good.
#[test]
fn every_member_of_a_large_collection_is_drawn() {
    let server = TestServer::start();
    let mut client = server.connect();
    for member in 0..1_000 {
        client.line(&format!("SADD s {member}"));
        client.line(&format!("HSET h {member} v"));
        client.line(&format!("ZADD z 1 {member}"));
    }
    for draw in ["SRANDMEMBER s", "HRANDFIELD h", "ZRANDMEMBER z"] {
        let mut counts = [0; 1_000];
        for _ in 0..20 {
            let reply = client.line(&format!("{draw} -10000"));
            for member in reply.split('"').skip(1).step_by(2) {
                counts[member.parse::<usize>().unwrap()] += 1;
            }
        }
        // The mean is 200; that of 32 gaps differs from it by a fifth, and by no more than twice as much or half.
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!((50..200).contains(least) && *most < 500, "{draw}: {least} to {most}");
    }
}

#[test]
fn every_member_of_a_large_set_is_popped() {
    let server = TestServer::start();
    let mut client = server.connect();
    let names: Vec<String> = (0..1_000).map(|member| member.to_string()).collect();
    let all = format!("SADD s {}", names.join(" "));
    let mut counts = [0; 1_000];
    for _ in 0..200 {
        client.line(&all);
        for _ in 0..100 {
            let member = client.line("SPOP s");
            counts[member.trim_matches('"').parse::<usize>().unwrap()] += 1;
        }
    }
    let (never, most) =
        (counts.iter().filter(|count| **count == 0).count(), counts.iter().max().unwrap());
    // The mean is 20, and one in millions is never popped. Some ten were.
    assert!(never <= 3 && *most < 100, "{never} never, one {most} times");
}

/// What was wrong: of each field that was passed over on the way to the drawn one the value was summed.
#[test]
fn drawing_a_field_reads_no_other_value() {
    const DRAWN: usize = 4_000;
    let server = TestServer::start();
    let mut client = server.connect();
    let value = "v".repeat(256 << 10);
    for field in 0..200 {
        assert_eq!(client.ask(&["HSET", "h", &field.to_string(), &value]), ":1");
    }
    // Each of these reads the value, and takes a way to the server beside.
    let began = Instant::now();
    (0..DRAWN).for_each(|_| assert_eq!(client.ask(&["HSTRLEN", "h", "7"]), ":262144"));
    let read = began.elapsed();
    let times = (0..3).map(|_| {
        let began = Instant::now();
        let reply = client.line(&format!("HRANDFIELD h -{DRAWN}"));
        assert_eq!(reply.split(' ').count(), DRAWN);
        began.elapsed()
    });
    // It read 17 values for each. Others may have the processors in one of them.
    let drawn = times.min().unwrap();
    assert!(drawn < read, "{drawn:?}, where reading as many takes {read:?}");
}

/// What was wrong: a field whose name was not the one that was written was found by no lookup: nothing was answered.
#[test]
fn a_damaged_name_of_a_field_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let server = TestServer::on(folder, open(&path, 1 << 28), |_| ());
    let mut client = server.connect();
    for field in 0..200 {
        assert_eq!(
            client.ask(&["HSET", "h", &format!("a long name of field {field:04}"), "v"]),
            ":1"
        );
    }
    let mut bytes = std::fs::read(&path).unwrap();
    let name = b"a long name of field ";
    let mut count = 0;
    for at in 0..bytes.len() - name.len() {
        if bytes[at..].starts_with(name) {
            bytes[at] = b'A';
            count += 1;
        }
    }
    assert!(count >= 200, "{count}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged");
    std::fs::write(&path, bytes).unwrap();
    let server = TestServer::on(folder, open(&path, 1 << 28), |_| ());
    let mut client = server.connect();
    for line in ["HRANDFIELD h", "HRANDFIELD h -1000", "HRANDFIELD h 5"] {
        let reply = client.line(line);
        assert!(reply.starts_with("-ERR") && reply.contains("damaged"), "{line}: {reply}");
    }
}
