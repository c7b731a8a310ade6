//! A cluster of servers that answer as a test says.

use super::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Requests that servers were sent, each with the number of the server.
type Seen = Arc<Mutex<Vec<(usize, String)>>>;

/// Servers, and what each of them was sent but for questions about the cluster.
struct StandIn {
    ports: Vec<u16>,
    seen: Seen,
}

impl StandIn {
    /// Servers that have equal shares of the slots. What is no question about the cluster is answered by a function of
    /// the number of the server, the words, the ports of all, and what was seen before; if by nothing, the server ends.
    fn start(
        count: usize,
        answer: impl Fn(usize, &str, &[u16], &[(usize, String)]) -> String + Send + Sync + 'static,
    ) -> Self {
        Self::of(count, "127.0.0.1", answer)
    }

    fn of(
        count: usize,
        host: &'static str,
        answer: impl Fn(usize, &str, &[u16], &[(usize, String)]) -> String + Send + Sync + 'static,
    ) -> Self {
        let listeners: Vec<_> =
            (0..count).map(|_| TcpListener::bind((host, 0)).expect("there is a port")).collect();
        let port_of = |it: &TcpListener| it.local_addr().expect("it is bound").port();
        let ports: Vec<u16> = listeners.iter().map(port_of).collect();
        let (seen, answer) = (Seen::default(), Arc::new(answer));
        for (number, listener) in listeners.into_iter().enumerate() {
            let (ports, seen, answer) = (ports.clone(), seen.clone(), answer.clone());
            std::thread::spawn(move || {
                for client in listener.incoming() {
                    let Ok(client) = client else { return };
                    let (ports, seen, answer) = (ports.clone(), seen.clone(), answer.clone());
                    std::thread::spawn(move || {
                        serve(client, |words| match words {
                            "CLUSTER SLOTS" => slots(host, &ports),
                            words => {
                                let mut seen = seen.lock().expect("nobody panicked with it");
                                let reply = answer(number, words, &ports, &seen);
                                seen.push((number, words.to_string()));
                                reply
                            }
                        })
                    });
                }
            });
        }
        StandIn { ports, seen }
    }

    fn connect(&self, host: &str) -> Result<Cluster, Failure> {
        let text = format!("redis-cluster://{host}:{}", self.ports[0]);
        let address = Address::parse(&text)?.expect("it is an address");
        let mut cluster = Cluster::connect(&address, None, Duration::from_secs(20))?;
        cluster.waits_max = 2;
        Ok(cluster)
    }

    fn cluster(&self) -> Cluster {
        self.connect("127.0.0.1").expect("all of them answer")
    }

    fn seen(&self) -> Vec<(usize, String)> {
        self.seen.lock().expect("nobody panicked with it").clone()
    }
}

/// The reply to `CLUSTER SLOTS`.
fn slots(host: &str, ports: &[u16]) -> String {
    let share = 16_384 / ports.len();
    let ranges = ports.iter().enumerate().map(|(number, port)| {
        let last = if number + 1 == ports.len() { 16_383 } else { (number + 1) * share - 1 };
        let (first, length) = (number * share, host.len());
        format!("*3\r\n:{first}\r\n:{last}\r\n*2\r\n${length}\r\n{host}\r\n:{port}\r\n")
    });
    format!("*{}\r\n{}", ports.len(), ranges.collect::<String>())
}

/// Answers requests until one has no answer, or the client goes.
fn serve(client: TcpStream, answer: impl Fn(&str) -> String) {
    let mut out = client.try_clone().expect("it is a connection");
    let mut input = BufReader::new(client);
    while let Some(words) = request(&mut input) {
        let reply = answer(&words);
        if reply.is_empty() || out.write_all(reply.as_bytes()).is_err() {
            let _ = out.shutdown(std::net::Shutdown::Both);
            return;
        }
    }
}

fn request(input: &mut impl BufRead) -> Option<String> {
    let mut number = |mark: char| -> Option<(usize, Vec<u8>)> {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        let number = line.trim_end().strip_prefix(mark)?.parse().ok()?;
        let mut bytes = Vec::new();
        if mark == '$' {
            input.take(number as u64 + 2).read_to_end(&mut bytes).ok()?;
            bytes.truncate(number);
        }
        Some((number, bytes))
    };
    let (count, _) = number('*')?;
    let words: Option<Vec<_>> = (0..count).map(|_| Some(number('$')?.1)).collect();
    Some(String::from_utf8_lossy(&words?.join(&b' ')).into_owned())
}

fn unit(key: &str, requests: &[&str]) -> Unit {
    let encode = |request: &&str| {
        let words: Vec<_> = request.split(' ').collect();
        let parts = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        format!("*{}\r\n{}", words.len(), parts.collect::<String>()).into_bytes()
    };
    Unit { key: key.into(), requests: requests.iter().map(encode).collect() }
}

const OK: &str = "+OK\r\n";

#[test]
fn each_key_goes_to_the_server_of_its_slot() {
    let stand_in = StandIn::start(3, |_, _, _, _| OK.to_string());
    let mut cluster = stand_in.cluster();
    // Slots 12,182, 5,061 and 866.
    for key in ["foo", "bar", "hello"] {
        cluster.add(unit(key, &[&format!("SET {key} v")])).unwrap();
    }
    assert_eq!(stand_in.seen(), []);
    cluster.finish().unwrap();
    let mut seen = stand_in.seen();
    seen.sort();
    let set = |number, key| (number, format!("SET {key} v"));
    assert_eq!(seen, [set(0, "bar"), set(0, "hello"), set(2, "foo")]);
}

/// The first request is done where the slot was, the second sent elsewhere: both are done there, in their order; and
/// what comes later goes there at once.
#[test]
fn a_key_whose_slot_moves_in_the_middle_is_sent_anew() {
    let stand_in = StandIn::start(2, |number, words, ports, _| match (number, words) {
        (1, "RPUSH foo a" | "SET foo w") => format!("-MOVED 12182 127.0.0.1:{}\r\n", ports[0]),
        _ => OK.to_string(),
    });
    let mut cluster = stand_in.cluster();
    cluster.add(unit("foo", &["DEL foo", "RPUSH foo a"])).unwrap();
    cluster.add(unit("foz", &["SET foz v"])).unwrap();
    cluster.finish().unwrap();
    cluster.send(&unit("foo", &["SET foo w"])).unwrap();
    let of_foo: Vec<_> =
        stand_in.seen().into_iter().filter(|(_, words)| words.contains("foo")).collect();
    let sent = |number, words: &str| (number, words.to_string());
    let expected = [
        sent(1, "DEL foo"),
        sent(1, "RPUSH foo a"),
        sent(0, "DEL foo"),
        sent(0, "RPUSH foo a"),
        sent(0, "SET foo w"),
    ];
    assert_eq!(of_foo, expected);
    assert_eq!(cluster.redirected(), 1);
}

/// Each request needs its own `ASKING`, and the slot stays where it is.
#[test]
fn a_key_that_has_moved_already_is_asked_for_there() {
    let stand_in = StandIn::start(2, |number, words, ports, seen| match (number, words) {
        (1, _) => format!("-ASK 12182 127.0.0.1:{}\r\n", ports[0]),
        (0, "ASKING") => OK.to_string(),
        _ if seen.last() == Some(&(0, "ASKING".to_string())) => OK.to_string(),
        _ => format!("-MOVED 12182 127.0.0.1:{}\r\n", ports[1]),
    });
    let mut cluster = stand_in.cluster();
    for _ in 0..2 {
        cluster.send(&unit("foo", &["DEL foo", "SADD foo a"])).unwrap();
    }
    let sent = |number, words: &str| (number, words.to_string());
    let once = [
        sent(1, "DEL foo"),
        sent(1, "SADD foo a"),
        sent(0, "ASKING"),
        sent(0, "DEL foo"),
        sent(0, "ASKING"),
        sent(0, "SADD foo a"),
    ];
    assert_eq!(stand_in.seen(), [once.clone(), once].concat());
}

#[test]
fn servers_that_send_a_key_back_and_forth_are_left() {
    let stand_in = StandIn::start(2, |number, _, ports, _| {
        format!("-MOVED 12182 127.0.0.1:{}\r\n", ports[1 - number])
    });
    let failure = stand_in.cluster().send(&unit("foo", &["SET foo v"])).unwrap_err();
    assert_eq!(failure.code, ExitCode::Io);
    assert!(failure.message.contains("\"foo\"") && failure.message.contains("without end"));
    assert_eq!(stand_in.seen().len(), 1 + REDIRECTION_COUNT_MAX as usize);
}

#[test]
fn a_cluster_that_asks_for_time_gets_some_and_not_for_ever() {
    let stand_in = StandIn::start(1, |_, _, _, seen| match seen.len() {
        0 => "-TRYAGAIN Multiple keys request during rehashing of slot\r\n".to_string(),
        1 => OK.to_string(),
        _ => "-CLUSTERDOWN The cluster is down\r\n".to_string(),
    });
    let mut cluster = stand_in.cluster();
    cluster.send(&unit("foo", &["SET foo v"])).unwrap();
    let failure = cluster.send(&unit("foo", &["SET foo v"])).unwrap_err();
    assert!(failure.message.contains("the cluster is down"), "{}", failure.message);
}

/// A server that dies, a reply that is cut, a redirection to nowhere, and one to a server that is not there.
#[test]
fn what_cannot_be_done_ends_with_the_server_and_the_reason() {
    for (reply, part) in [
        ("", "cannot be used"),
        ("$5\r\nab", "cannot be used"),
        ("-MOVED 12182\r\n", "refuses \"foo\": MOVED 12182"),
        ("-MOVED 12182 127.0.0.1:1\r\n", "127.0.0.1:1 cannot be used"),
        ("-OOM command not allowed\r\n", "refuses \"foo\": OOM"),
        ("-NOAUTH Authentication required.\r\n", "refuses \"foo\": NOAUTH"),
    ] {
        let stand_in = StandIn::start(1, move |_, _, _, seen| match seen.len() {
            0 => reply.to_string(),
            _ if reply.starts_with('-') => OK.to_string(),
            _ => String::new(),
        });
        let mut cluster = stand_in.cluster();
        cluster.add(unit("foo", &["DEL foo", "SADD foo a"])).unwrap();
        let failure = cluster.finish().unwrap_err();
        assert_eq!(failure.code, ExitCode::Io, "{reply:?}");
        assert!(failure.message.contains(part), "{reply:?}: {}", failure.message);
    }
}

#[test]
fn a_cluster_at_addresses_of_version_6_is_reached() {
    if TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    let stand_in = StandIn::of(2, "::1", |number, _, ports, _| match number {
        1 => format!("-MOVED 12182 ::1:{}\r\n", ports[0]),
        _ => OK.to_string(),
    });
    let mut cluster = stand_in.connect("[::1]").unwrap();
    cluster.send(&unit("foo", &["SET foo v"])).unwrap();
    assert_eq!(stand_in.seen().len(), 2);
}

/// More than a window for each of three servers, of which one sends every tenth key elsewhere.
#[test]
fn many_keys_are_sent_while_some_are_redirected() {
    let stand_in = StandIn::start(3, |number, words, ports, _| {
        let is_tenth = words.ends_with('7');
        match number {
            2 if is_tenth => format!("-ASK 1 127.0.0.1:{}\r\n", ports[0]),
            _ => OK.to_string(),
        }
    });
    let mut cluster = stand_in.cluster();
    let keys: Vec<_> = (0..5000).map(|number| format!("key{number}")).collect();
    for key in &keys {
        cluster.add(unit(key, &[&format!("SET {key} {key}")])).unwrap();
    }
    cluster.finish().unwrap();
    let mut done: Vec<_> = stand_in.seen();
    done.retain(|(number, words)| words != "ASKING" && !(*number == 2 && words.ends_with('7')));
    let mut done: Vec<_> = done.into_iter().map(|(_, words)| words).collect();
    let mut expected: Vec<_> = keys.iter().map(|key| format!("SET {key} {key}")).collect();
    done.sort();
    expected.sort();
    assert_eq!(done, expected);
}

#[test]
fn a_server_alone_and_a_cluster_with_a_gap_are_refused() {
    for (reply, part) in [
        ("-ERR This instance has cluster support disabled\r\n", "redis:// names a single one"),
        ("-ERR unknown command 'CLUSTER'\r\n", "redis:// names a single one"),
        ("*1\r\n*3\r\n:0\r\n:99\r\n*2\r\n$1\r\nh\r\n:1\r\n", "16284 of 16384 slots"),
        ("*0\r\n", "16384 of 16384 slots"),
        ("*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\nh\r\n:1\r\n", "no range"),
        ("*1\r\n*3\r\n:9\r\n:7\r\n*2\r\n$1\r\nh\r\n:1\r\n", "no range"),
        ("*1\r\n*3\r\n:-1\r\n:9223372036854775807\r\n*2\r\n$1\r\nh\r\n:1\r\n", "no range"),
        ("*1\r\n:7\r\n", "no range"),
        ("+OK\r\n", "no answer"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || serve(listener.accept().unwrap().0, |_| reply.to_string()));
        let address = Address::parse(&format!("redis-cluster://127.0.0.1:{port}"));
        let address = address.unwrap().unwrap();
        let connected = Cluster::connect(&address, None, Duration::from_secs(20));
        let failure = connected.err().unwrap();
        assert!(failure.message.contains(part), "{reply:?}: {}", failure.message);
    }
}

/// Before anything is written.
#[test]
fn a_password_that_one_server_alone_asks_for_is_told() {
    let answer = |number, words: &str, _: &[u16], _: &[(usize, String)]| match (number, words) {
        (1, _) => "-NOAUTH Authentication required.\r\n".to_string(),
        (_, "DBSIZE") => ":0\r\n".to_string(),
        _ => OK.to_string(),
    };
    let stand_in = StandIn::start(2, answer);
    let failure = stand_in.cluster().key_count().unwrap_err();
    assert!(failure.message.contains(&stand_in.ports[1].to_string()), "{}", failure.message);
    assert!(failure.message.contains("NOAUTH"), "{}", failure.message);
}
