//! A server that is killed while all types are written: what was acknowledged is there, and what belongs
//! together agrees.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests may fail, and say how far they came"
)]

mod mixed;
mod model;

use crate::support::{Client, ServerProcess, encode, eventually, open};

/// Requests that are awaited before the kill, in the first round.
const AWAITED_COUNT: usize = 500;

fn number(client: &mut Client, line: &str) -> usize {
    client.line(line).strip_prefix(':').unwrap().parse().unwrap()
}

/// The strings of a flat reply.
fn strings(client: &mut Client, line: &str) -> Vec<String> {
    let reply = client.line(line);
    reply.split('"').skip(1).step_by(2).map(str::to_string).collect()
}

/// The collections that the last kill left are whole.
fn check_collections_of(folder: &std::path::Path) {
    let store = open(&folder.join("test.pool"), 1 << 30);
    let report = everleaf_server::check_collections(&store).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    assert!(report.collections > 5 && report.members > 1_000);
}

/// What is written with a number. Each of them is one step.
fn requests(number: usize) -> Vec<Vec<String>> {
    let line = |text: String| text.split(' ').map(str::to_string).collect();
    let mut requests = vec![
        line(format!("HSET hash f{number} {number}")),
        line(format!("SADD set m{number}")),
        line(format!("SADD from m{number}")),
        line(format!("SMOVE from to m{number}")),
        line(format!("RPUSH list e{number}")),
        line("RPOPLPUSH list list".to_string()),
        line("LMOVE list list LEFT RIGHT".to_string()),
        line(format!("RPUSH queue e{number}")),
        line("LMOVE queue done LEFT RIGHT".to_string()),
        line(format!("SADD renamed r{number}")),
        line("RENAME renamed other".to_string()),
        line("RENAME other renamed".to_string()),
        line(format!("ZADD zset {} m{number} 0 changing", number / 3)),
        line(format!("ZINCRBY zset {number} changing")),
    ];
    if number.is_multiple_of(16) {
        requests.push(line("COPY list copied REPLACE".to_string()));
    }
    if number % 7 == 3 {
        requests.push(line(format!("SREM set m{}", number - 3)));
        requests.push(line(format!("ZREM zset m{}", number - 3)));
    }
    requests
}

/// Whether a number must still be a member of `set`.
fn is_kept(number: usize, count: usize) -> bool {
    !number.is_multiple_of(7) || number + 3 >= count
}

/// Compares what is there with what was acknowledged: the numbers below `count`, of lists those from
/// `first` on.
fn check(client: &mut Client, first: usize, count: usize) {
    let fields = strings(client, "HGETALL hash");
    assert_eq!(fields.len() / 2, number(client, "HLEN hash"));
    let set = strings(client, "SMEMBERS set");
    assert_eq!(set.len(), number(client, "SCARD set"));
    let (from, to) = (strings(client, "SMEMBERS from"), strings(client, "SMEMBERS to"));
    assert_eq!(from.len(), number(client, "SCARD from"));
    assert_eq!(to.len(), number(client, "SCARD to"));
    assert_eq!(client.line("SINTER from to"), "[]", "a member is in one of the two");
    assert!(from.len() <= 1, "moves are in the order of additions");
    let has = |all: &[String], text: String| all.contains(&text);
    let renamed = [strings(client, "SMEMBERS renamed"), strings(client, "SMEMBERS other")];
    assert!(renamed.iter().any(Vec::is_empty), "a collection has one key: {renamed:?}");
    let renamed = renamed.concat();
    let copied = strings(client, "LRANGE copied 0 -1");
    assert_eq!(copied.len(), number(client, "LLEN copied"));
    let elements: Vec<String> = (first..count).map(|number| format!("e{number}")).collect();
    for list in ["list", "done"] {
        let all = strings(client, &format!("LRANGE {list} 0 -1"));
        assert_eq!(all.len(), number(client, &format!("LLEN {list}")));
        // The last rotation may be half done.
        let mut sorted = all.clone();
        sorted.sort_by_key(|element| element[1..].parse::<usize>().unwrap());
        assert!(sorted.starts_with(&elements), "{list}: {all:?}");
        assert!(list == "list" || all == sorted, "{all:?}");
    }
    assert!(number(client, "LLEN queue") <= 1, "moves are in the order of additions");
    let zset = strings(client, "ZRANGE zset 0 -1");
    assert_eq!(zset.len(), number(client, "ZCARD zset"));
    assert_eq!(zset.len(), number(client, "ZCOUNT zset -inf +inf"));
    for (rank, member) in zset.iter().enumerate() {
        assert_eq!(number(client, &format!("ZRANK zset {member}")), rank, "{member}");
    }
    for number in 0..count {
        assert!(has(&fields, format!("f{number}")), "f{number}");
        assert!(!is_kept(number, count) || has(&set, format!("m{number}")), "m{number}");
        assert!(!is_kept(number, count) || has(&zset, format!("m{number}")), "m{number}");
        assert!(has(&to, format!("m{number}")), "m{number}");
        assert!(has(&renamed, format!("r{number}")), "r{number}");
    }
}

#[test]
fn a_killed_server_comes_back_with_all_acknowledged_types() {
    kill_and_compare("process");
}

/// The same with a log: what was acknowledged had waited for the disk.
#[test]
fn a_killed_server_with_a_log_comes_back_with_all_types() {
    kill_and_compare("power");
}

/// With `interval` the snapshot that the log needs then is written while the server serves: `INFO` says
/// whether it is there, and `SAVE` waits for it.
#[test]
fn a_killed_server_says_when_its_log_has_caught_up() {
    kill_and_compare("interval");
    let folder = tempfile::tempdir().unwrap();
    let start = || ServerProcess::start_with(folder.path(), "", "interval");
    let owes = |client: &mut Client| {
        let info = client.line("INFO persistence");
        assert_ne!(info.contains("log_owes_snapshot:1"), info.contains("log_owes_snapshot:0"));
        info.contains("log_owes_snapshot:1")
    };
    let server = start();
    let mut client = server.connect();
    assert!(!owes(&mut client), "it is new");
    assert_eq!(client.line("SET key value"), "+OK");
    server.kill();
    assert!(read_only_of(folder.path()).statistics().log_owes_snapshot);
    let server = start();
    let mut client = server.connect();
    assert_eq!(client.line("SET other value"), "+OK");
    assert_eq!(client.line("SAVE"), "+OK");
    assert!(!owes(&mut client));
    server.kill();
    let server = start();
    let mut client = server.connect();
    eventually("the log has caught up", || !owes(&mut client));
    assert_eq!(client.line("EXISTS key other"), ":2");
    server.stop();
    assert!(!read_only_of(folder.path()).statistics().log_owes_snapshot);
}

fn read_only_of(folder: &std::path::Path) -> everleaf::Store {
    everleaf::Options::new().read_only(true).open(folder.join("test.pool")).unwrap()
}

fn kill_and_compare(durability: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (mut first, mut count) = (0, 0);
    for round in 0..4 {
        let server = ServerProcess::start_with(folder.path(), "", durability);
        let mut client = server.connect();
        check(&mut client, first, count);
        if round == 3 {
            server.stop();
            check_collections_of(folder.path());
            return;
        }
        // Somebody waits: what is pushed for it is taken in the same step.
        let mut waiting = server.connect();
        waiting.send(b"BLMOVE waited given LEFT RIGHT 0\r\n");
        let given = number(&mut client, "LLEN given");
        eventually("it waits", || client.line("INFO clients").contains("blocked_clients:1"));
        client.line(&format!("RPUSH waited {round}"));
        assert_eq!(client.line("EXISTS waited"), ":0");
        assert_eq!(number(&mut client, "LLEN given"), given + 1);
        assert_eq!(waiting.reply(), format!("\"{round}\""));
        // What was done without an answer is done again, which only lists would notice.
        client.line("DEL list done queue");
        client.line("RENAMENX other renamed");
        first = count;
        // More than is awaited, so that the end comes in the middle of some.
        let mut sizes = Vec::new();
        for number in count..count + 2 * AWAITED_COUNT {
            let requests = requests(number);
            sizes.push(requests.len());
            let bytes: Vec<Vec<u8>> = requests.iter().map(|request| encode(request)).collect();
            client.send(&bytes.concat());
        }
        let awaited = AWAITED_COUNT / 2 + 37 * round;
        for _ in 0..sizes[..awaited].iter().sum::<usize>() {
            let reply = client.reply();
            assert!(!reply.starts_with('-'), "{reply}");
        }
        count += awaited;
        server.kill();
    }
}
