//! `LATENCY`: histograms and events of commands, which are recorded once somebody asks for them.

use crate::support::{Client, TestServer, encode};
use everleaf_server::DebugCommand;
use std::collections::BTreeMap;
use std::time::Instant;

/// Sends lines in one write, and reads the replies.
fn together(client: &mut Client, lines: &[&str]) {
    let words = |line: &&str| encode(&line.split(' ').collect::<Vec<_>>());
    client.send(&lines.iter().flat_map(words).collect::<Vec<u8>>());
    lines.iter().for_each(|_| drop(client.reply()));
}

/// Calls of a command, as its histogram has them: in its head, and up to its longest time.
fn calls(client: &mut Client, command: &str) -> (String, String) {
    let reply = client.line(&format!("LATENCY HISTOGRAM {command}"));
    let head = format!("[\"{command}\" [\"calls\" :");
    let rest = reply.strip_prefix(&head).unwrap_or_else(|| panic!("{command}: {reply}"));
    let (count, bounds) = rest.split_once(" \"histogram_usec\" [").expect("it has one");
    let last = bounds.trim_end_matches(']').rsplit(':').next().expect("there is a number");
    (count.to_string(), last.to_string())
}

/// Also of requests that come together, which are done as one step otherwise.
#[test]
fn times_of_commands_are_counted_once_they_are_asked_for() {
    let server = TestServer::start();
    let mut client = server.connect();
    let lines = ["SET a 1", "SET b 2", "SET c 3", "GET a", "HSET h f v", "HSET h g w"];
    together(&mut client, &lines);
    assert_eq!(client.line("CONFIG GET latency-tracking"), "[\"latency-tracking\" \"no\"]");
    assert_eq!(client.line("LATENCY HISTOGRAM"), "[]");
    assert_eq!(client.line("CONFIG SET latency-tracking yes"), "+OK");
    together(&mut client, &lines);
    let three = ("3".to_string(), "3".to_string());
    assert_eq!(calls(&mut client, "set"), three);
    assert_eq!(calls(&mut client, "hset"), ("2".to_string(), "2".to_string()));
    assert_eq!(calls(&mut client, "get"), ("1".to_string(), "1".to_string()));
    client.line("CLIENT ID");
    let clients = client.line("LATENCY HISTOGRAM client nosuch");
    assert!(clients.starts_with("[\"client|id\" [\"calls\" :1"), "{clients}");
    assert_eq!(client.line("LATENCY HISTOGRAM nosuch zadd"), "[]");
    assert_eq!(client.line("CONFIG SET latency-tracking no"), "+OK");
    together(&mut client, &lines);
    assert_eq!(calls(&mut client, "set"), three);
    assert_eq!(client.line("CONFIG SET latency-tracking yes"), "+OK");
    assert_eq!(client.line("CONFIG RESETSTAT"), "+OK");
    let left = client.line("LATENCY HISTOGRAM");
    assert!(left.starts_with("[\"config|resetstat\" [\"calls\" :1"), "{left}");
    assert!(client.line("CONFIG SET latency-tracking maybe").contains("'yes' or 'no'"));
}

/// What is counted of a command beside its times: also how calls ended, by the fields that Redis has.
#[test]
fn calls_of_commands_are_counted_with_their_times() {
    let server = TestServer::start();
    let mut client = server.connect();
    let none = "\"# Commandstats\\r\\n\"";
    client.line("SET k v");
    assert_eq!(client.line("INFO commandstats"), none);
    assert_eq!(client.line("CONFIG SET latency-tracking yes"), "+OK");
    assert_eq!(client.line("CONFIG RESETSTAT"), "+OK");
    together(&mut client, &["SET k v", "SET k v", "GET k", "LPUSH k x", "GET", "CLIENT ID"]);
    let told = client.line("INFO commandstats");
    let of = |told: &str, name: &str| {
        let start =
            told.find(&format!("cmdstat_{name}:")).unwrap_or_else(|| panic!("{name}: {told}"));
        let line = told[start..].split("\\r").next().expect("a line");
        let fields = line.split_once(':').expect("a name").1.split(',');
        let pairs = fields.map(|field| field.split_once('=').expect("a field"));
        pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect::<BTreeMap<_, _>>()
    };
    for (name, calls, rejected, failed) in [
        ("set", "2", "0", "0"),
        ("get", "1", "1", "0"),
        ("lpush", "1", "0", "1"),
        ("client|id", "1", "0", "0"),
    ] {
        let fields = of(&told, name);
        let found = ["calls", "rejected_calls", "failed_calls"].map(|field| fields[field].as_str());
        assert_eq!(found, [calls, rejected, failed], "{name}: {told}");
        let usec: u64 = fields["usec"].parse().expect("a number");
        let each: f64 = fields["usec_per_call"].parse().expect("a number");
        let calls: f64 = calls.parse().expect("a number");
        assert!((each - usec as f64 / calls).abs() < 0.01, "{name}: {told}");
    }
    assert!(!told.contains("cmdstat_hset"), "{told}");
    let sections = |told: &str| told.matches("# ").count();
    let (usual, all) = (client.line("INFO"), client.line("INFO all"));
    assert!(!usual.contains("cmdstat") && all.contains("cmdstat_set"), "{all}");
    assert_eq!(sections(&usual) + 1, sections(&all));
    assert_eq!(client.line("CONFIG RESETSTAT"), "+OK");
    // In a transaction when they are run, and how that ended.
    client.line("MULTI");
    together(&mut client, &["LPUSH k x", "SET k v", "GET k", "EXEC"]);
    client.line("MULTI");
    together(&mut client, &["HSET h f v", "DISCARD"]);
    client.line("MULTI");
    together(&mut client, &["WATCH k", "GET", "SCARD s", "EXEC"]);
    let told = client.line("INFO commandstats");
    for (name, calls, rejected, failed) in [
        ("lpush", "1", "0", "1"),
        ("set", "1", "0", "0"),
        ("get", "1", "1", "0"),
        ("exec", "2", "0", "1"),
        ("multi", "3", "0", "0"),
    ] {
        let fields = of(&told, name);
        let found = ["calls", "rejected_calls", "failed_calls"].map(|field| fields[field].as_str());
        assert_eq!(found, [calls, rejected, failed], "{name}: {told}");
    }
    assert!(!told.contains("cmdstat_hset") && !told.contains("cmdstat_scard"), "{told}");
    assert_eq!(client.line("CONFIG RESETSTAT"), "+OK");
    let told = client.line("INFO commandstats");
    assert!(told.contains("cmdstat_config|resetstat") && !told.contains("cmdstat_set"), "{told}");
}

#[test]
fn a_command_that_takes_as_long_as_the_threshold_is_an_event() {
    let server = TestServer::with(|config| config.debug_command = DebugCommand::Yes);
    let mut client = server.connect();
    assert_eq!(client.line("DEBUG SLEEP 0.02"), "+OK");
    assert_eq!(client.line("LATENCY LATEST"), "[]");
    assert_eq!(client.line("CONFIG SET latency-monitor-threshold 20"), "+OK");
    assert_eq!(client.line("DEBUG SLEEP 0.02"), "+OK");
    let latest = client.line("LATENCY LATEST");
    assert!(latest.contains("[\"command\" :") && !latest.contains("fast"), "{latest}");
    let history = client.line("LATENCY HISTORY command");
    let longest = history.trim_end_matches(']').rsplit(':').next().expect("a number");
    assert!(longest.parse::<u64>().expect("a number") >= 20, "{history}");
    let graph = client.line("LATENCY GRAPH command");
    assert!(graph.contains("command - high") && graph.contains("all time high"), "{graph}");
    assert!(client.line("LATENCY DOCTOR").contains("SLOWLOG GET"));
    assert_eq!(client.line("LATENCY HISTORY nosuch"), "[]");
    let none = client.line("LATENCY GRAPH fast-command");
    assert!(none.starts_with("-ERR No samples available for event"), "{none}");
    // What a transaction forgets is there until it is done.
    together(&mut client, &["MULTI", "LATENCY RESET command", "LATENCY HISTORY command", "EXEC"]);
    assert_eq!(client.line("LATENCY LATEST"), "[]");
    assert_eq!(client.line("LATENCY RESET"), ":0");
    let wrong = client.line("CONFIG SET latency-monitor-threshold -1");
    assert!(wrong.contains("between 0 and"), "{wrong}");
}

/// What was lost: another client that asks for the times of commands during a transaction gave its commands each
/// other's: those behind that moment had times, which were counted for the first ones.
#[test]
fn each_time_of_a_transaction_is_its_own_if_asked_for_meanwhile() {
    const COUNT: usize = 200;
    const ROUNDS: u32 = 50;
    let server = TestServer::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    client.line("SET k v");
    client.line(&format!("RPUSH l{}", " 3 1 2".repeat(30)));
    let commands = [["GET k"; COUNT], ["SORT l"; COUNT]].concat();
    let transaction = [&["MULTI"], &commands[..], &["EXEC"]].concat();
    let mut counted = 0;
    for round in 0..ROUNDS {
        for line in ["CONFIG SET latency-tracking no", "CONFIG RESETSTAT"] {
            assert_eq!(client.line(line), "+OK");
        }
        let began = Instant::now();
        together(&mut client, &transaction);
        let length = began.elapsed();
        // So late in the transaction, of which nothing or all is timed; none ends the times, so all of them are
        // counted.
        let delay = length * round / ROUNDS;
        std::thread::scope(|scope| {
            let mut ask = || {
                std::thread::sleep(delay);
                assert_eq!(other.line("CONFIG SET latency-tracking yes"), "+OK");
            };
            // Once before it for certain.
            if round == 0 {
                ask();
            } else {
                drop(scope.spawn(ask));
            }
            together(&mut client, &transaction);
        });
        let told = client.line("INFO commandstats");
        let calls = ["get", "sort"].map(|name| {
            let rest = told.split(&format!("cmdstat_{name}:calls=")).nth(1);
            let count = rest.and_then(|rest| rest.split(',').next());
            count.map_or(0, |count| count.parse::<usize>().expect("a number"))
        });
        assert!([[0; 2], [COUNT; 2]].contains(&calls), "round {round}: {calls:?}: {told}");
        counted += usize::from(calls[0] > 0);
    }
    assert!(counted > 0, "of the first one all are counted");
}
