//! Commands of a transaction that fail with part of their work done: nothing of it is left, and nothing of the others
//! is lost. A member that is too long, behind others that are not, left those staged without being counted: the header
//! said less than there was, and `check` called the collection damaged.

use crate::support::{Client, TestServer, encode, eventually};
use everleaf_server::check_collections;

/// Longer than a key of the store may be.
const TOO_LONG: usize = (64 << 10) + 1;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        everleaf::random::next(&mut self.0) % bound
    }
}

/// A command, and whether it fails: then with its last member, of at least two.
fn command(random: &mut Random) -> (Vec<String>, bool) {
    let mut member = || format!("m{}", random.below(12));
    let (a, b) = (member(), member());
    let fails = random.below(3) == 0;
    let last = if fails { "x".repeat(TOO_LONG) } else { b };
    let (score, other) = (random.below(5).to_string(), random.below(5).to_string());
    let words: Vec<&str> = match random.below(7) {
        0 => vec!["ZADD", "z", &score, &a, &other, &last],
        1 => vec!["SADD", "s", &a, &last],
        2 => vec!["HSET", "h", &a, &score, &last, &other],
        3 => vec!["MSET", &a, &score, &last, &other],
        4 if !fails => vec!["ZREM", "z", &a, &last],
        5 if !fails => vec!["APPEND", &a, &last],
        6 if !fails => vec!["EXPIRE", &a, "1000"],
        _ => vec!["ZADD", "z", "INCR", &score, &last],
    };
    (words.into_iter().map(str::to_string).collect(), fails)
}

/// Sends `MULTI`, commands and `EXEC` in one write, and returns the reply to `EXEC`.
fn transaction(client: &mut Client, commands: &[&Vec<String>]) -> String {
    let mut request = encode(&["MULTI"]);
    commands.iter().for_each(|words| request.extend(encode(words)));
    request.extend(encode(&["EXEC"]));
    client.send(&request);
    (0..=commands.len()).for_each(|_| assert!(client.reply().starts_with('+')));
    client.reply()
}

/// All that a server has, as replies.
fn contents(client: &mut Client) -> Vec<String> {
    let mut contents: Vec<String> = ["ZRANGE z 0 -1 WITHSCORES", "ZCARD z", "SCARD s", "HLEN h"]
        .map(|line| client.line(line))
        .to_vec();
    for number in 0..12 {
        for line in ["GET m", "PERSIST m", "SISMEMBER s m", "HGET h m", "ZRANK z m"] {
            contents.push(client.line(&format!("{line}{number}")));
        }
    }
    contents
}

#[test]
fn commands_that_fail_leave_nothing_in_a_transaction() {
    let (mut server, mut other) = (TestServer::start(), TestServer::start());
    let (mut client, mut whole) = (server.connect(), other.connect());
    let random = &mut Random(7);
    let mut failed = 0;
    for round in 0..60 {
        let commands: Vec<_> = (0..1 + random.below(12)).map(|_| command(random)).collect();
        let all: Vec<_> = commands.iter().map(|(words, _)| words).collect();
        let good: Vec<_> =
            commands.iter().filter(|(_, fails)| !fails).map(|(words, _)| words).collect();
        let reply = transaction(&mut client, &all);
        let expected = transaction(&mut whole, &good);
        assert_eq!(reply.matches("-ERR").count(), all.len() - good.len(), "{round}: {reply}");
        assert!(!expected.contains("-ERR"), "{round}: {expected}");
        assert_eq!(contents(&mut client), contents(&mut whole), "{round}");
        failed += all.len() - good.len();
    }
    assert!(failed > 60, "{failed}");
    for server in [&mut server, &mut other] {
        server.stop().unwrap();
        assert_eq!(check_collections(&server.store).unwrap().problems, Vec::<String>::new());
    }
}

/// What the commands before it made is as they made it.
#[test]
fn a_failed_command_finds_what_those_before_it_staged() {
    let server = TestServer::start();
    let mut client = server.connect();
    let long = "x".repeat(TOO_LONG);
    let words = |line: &str| line.split(' ').map(str::to_string).collect::<Vec<_>>();
    let mut commands: Vec<_> =
        ["SET a 1", "APPEND a 2", "ZADD z 1 m", "SADD new m"].map(words).into();
    commands.push(words(&format!("MSET a 9 z 9 {long} 9")));
    commands.push(words(&format!("SADD other m {long}")));
    commands.extend(["APPEND a 3", "GET a", "ZSCORE z m", "EXISTS other"].map(words));
    let reply = transaction(&mut client, &commands.iter().collect::<Vec<_>>());
    assert!(reply.starts_with("[+OK :2 :1 :1 -ERR"), "{reply}");
    assert!(reply.ends_with(":3 \"123\" \"1\" :0]"), "{reply}");
    assert_eq!(client.line("TYPE new"), "+set");
}

/// The ends of lists that are in memory go back with the command that fails.
#[test]
fn a_failed_command_leaves_the_ends_of_lists() {
    let server = TestServer::start();
    let mut client = server.connect();
    let long = "x".repeat(TOO_LONG);
    for (push, pop, side) in [("RPUSH", "RPOP", "RIGHT"), ("LPUSH", "LPOP", "LEFT")] {
        for other in ["RPOP", "LPOP"] {
            client.line("DEL list");
            client.line(&format!("{push} list a b c d e f g h i j"));
            let words = |line: &str| line.split(' ').map(str::to_string).collect::<Vec<_>>();
            let mut commands =
                vec![words(&format!("{push} list k l")), words(&format!("{pop} list"))];
            commands.push(words(&format!("LMOVE list {long} {side} LEFT")));
            commands.push(words(&format!("{push} list m")));
            commands.push(words(&format!("LMOVE list {long} LEFT {side}")));
            commands.push(words(&format!("{other} list")));
            commands.push(words(&format!("LMOVE list {long} RIGHT {side}")));
            commands.extend([words("LLEN list")]);
            let reply = transaction(&mut client, &commands.iter().collect::<Vec<_>>());
            assert_eq!(reply.matches("-ERR").count(), 3, "{reply}");
            assert!(reply.ends_with(":11]"), "{reply}");
            let mut wanted: Vec<&str> = "a b c d e f g h i j k m".split(' ').collect();
            if other == pop {
                wanted.pop()
            } else {
                Some(wanted.remove(0))
            };
            if push == "LPUSH" {
                wanted.reverse();
            }
            let quoted: Vec<String> = wanted.iter().map(|word| format!("\"{word}\"")).collect();
            let all = client.line("LRANGE list 0 -1");
            assert_eq!(all, format!("[{}]", quoted.join(" ")), "{push}, {other}");
        }
    }
}

/// What a client that waits takes goes back if it cannot be given to it; the transaction that made it was run a second
/// time, and saw what the first run had changed of its connection.
#[test]
fn a_waiting_client_that_fails_takes_nothing() {
    let server = TestServer::with(|config| config.reply_size_max = 4000);
    let (mut client, mut waiting) = (server.connect(), server.connect());
    let words = |line: &str| line.split(' ').map(str::to_string).collect::<Vec<_>>();
    let element = "x".repeat(5000);
    for round in 0..20 {
        waiting.send(&encode(&["BLPOP", "l", "0"]));
        eventually("it waits", || client.line("INFO clients").contains("blocked_clients:1"));
        let commands = [
            words("CLIENT GETNAME"),
            words(&format!("CLIENT SETNAME n{round}")),
            words(&format!("RPUSH l {element}")),
        ];
        let reply = transaction(&mut client, &commands.iter().collect::<Vec<_>>());
        let before = match round {
            0 => "nil".to_string(),
            round => format!("\"n{}\"", round - 1),
        };
        assert_eq!(reply, format!("[{before} +OK :1]"), "{round}");
        let answer = waiting.reply();
        assert!(answer.starts_with("-ERR"), "{answer}");
        assert_eq!(client.line("LLEN l"), ":1", "nothing was taken");
        assert_eq!(client.line("DEL l"), ":1");
    }
}

/// What is replaced has a limit of its own.
#[test]
fn what_fits_a_transaction_fits_with_what_it_replaces() {
    let server = TestServer::with(|config| config.client_memory_max = Some(4 << 20));
    let mut client = server.connect();
    let words = |line: &str| line.split(' ').map(str::to_string).collect::<Vec<_>>();
    let value = "x".repeat(2_500_000);
    let commands = [words(&format!("SET k {value}")), words("SETRANGE k 0 y")];
    assert_eq!(transaction(&mut client, &commands.iter().collect::<Vec<_>>()), "[+OK :2500000]");
}

/// An element that was taken counted until the end of the step, beside its copy at the other end of the way.
#[test]
fn a_long_element_is_pushed_and_moved_in_one_step() {
    let server = TestServer::with(|config| config.client_memory_max = Some(4 << 20));
    let mut client = server.connect();
    let words = |line: &str| line.split(' ').map(str::to_string).collect::<Vec<_>>();
    let value = "x".repeat(2_500_000);
    for (push, take) in [("RPUSH", "LMOVE src dst LEFT LEFT"), ("LPUSH", "RPOPLPUSH src dst")] {
        client.line("DEL dst");
        let commands = [words(&format!("{push} src {value}")), words(take)];
        let reply = transaction(&mut client, &commands.iter().collect::<Vec<_>>());
        assert!(reply.starts_with("[:1 \"xxx"), "{take}: {}", &reply[..reply.len().min(200)]);
        assert_eq!(client.line("LLEN dst"), ":1");
        assert_eq!(client.line("EXISTS src"), ":0");
    }
}
