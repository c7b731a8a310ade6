//! Nothing acknowledged is lost: the real server is killed with SIGKILL at random moments under
//! concurrent clients, restarted, and asked for everything.
//!
//! Each client's commands follow from a seed, and each waits for a reply before it counts the
//! command as done. After the restart every client's keys must hold the effect of all its
//! acknowledged commands, with or without the ones whose reply was under way.
//!
//! Rounds: 10, or as many as `EVERLEAF_KILL_ROUNDS` says.

use everleaf::random::mix;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const CLIENTS: u64 = 4;
const KEYS: u64 = 300;
/// Commands per batch.
const BATCH: u64 = 8;

/// Command `n` of `client` in `round`: key, and the value or `None` to delete.
fn command(round: u64, client: u64, n: u64) -> (String, Option<String>) {
    let dice = mix(round << 48 ^ client << 40 ^ n);
    let key = format!("key:{:012}:{client}", mix(dice) % KEYS);
    (key, (!dice.is_multiple_of(4)).then(|| format!("{round}:{client}:{n}")))
}

/// A running server; killed when it goes.
struct Server {
    child: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().expect("the server can be killed");
        self.child.wait().expect("the server can be awaited");
    }
}

fn start(pool: &Path) -> Server {
    let child = Command::new(env!("CARGO_BIN_EXE_everleaf"))
        .args(["serve", pool.to_str().expect("a plain path"), "--port", "0"])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("the server starts");
    let mut server = Server { child, address: String::new() };
    let mut lines = BufReader::new(server.child.stderr.take().expect("stderr is piped"));
    let mut line = String::new();
    loop {
        line.clear();
        assert!(lines.read_line(&mut line).expect("stderr is text") > 0, "the server ended");
        if let Some(rest) = line.split("ready on ").nth(1) {
            server.address = rest.split([',', ' ', '\n']).next().expect("an address").to_string();
            // Keep the pipe open: a server that logs must not fail.
            std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
            return server;
        }
    }
}

fn frame(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
    }
    bytes
}

/// Sends commands in batches until the connection breaks; returns how many were acknowledged.
fn write_until_broken(address: &str, round: u64, client: u64) -> u64 {
    let mut acknowledged = 0;
    let Ok(mut stream) = TcpStream::connect(address) else { return 0 };
    let Ok(copy) = stream.try_clone() else { return 0 };
    let mut replies = BufReader::new(copy);
    loop {
        let mut batch = vec![];
        for n in acknowledged..acknowledged + BATCH {
            match command(round, client, n) {
                (key, Some(value)) => batch.extend(frame(&["SET", &key, &value])),
                (key, None) => batch.extend(frame(&["DEL", &key])),
            }
        }
        if stream.write_all(&batch).is_err() {
            return acknowledged;
        }
        for _ in 0..BATCH {
            let mut line = String::new();
            match replies.read_line(&mut line) {
                Ok(_) if line.ends_with('\n') => {}
                _ => return acknowledged,
            }
            assert!(line.starts_with("+OK") || line.starts_with(':'), "{line}");
            acknowledged += 1;
        }
    }
}

fn get(stream: &mut TcpStream, replies: &mut BufReader<TcpStream>, key: &str) -> Option<String> {
    stream.write_all(&frame(&["GET", key])).expect("the server listens");
    let mut line = String::new();
    replies.read_line(&mut line).expect("a reply");
    let length: i64 = line.trim_end()[1..].parse().expect("a length");
    let length = usize::try_from(length).ok()?;
    let mut value = vec![0; length + 2];
    replies.read_exact(&mut value).expect("a value");
    value.truncate(length);
    Some(String::from_utf8(value).expect("text"))
}

#[test]
fn a_killed_server_loses_nothing_it_acknowledged() {
    let rounds: u64 =
        std::env::var("EVERLEAF_KILL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pool = folder.path().join("killed.pool");
    let mut contents: BTreeMap<String, String> = BTreeMap::new();
    let mut total = 0;
    for round in 0..rounds {
        let server = start(&pool);
        let address = server.address.clone();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let address = address.clone();
                std::thread::spawn(move || write_until_broken(&address, round, client))
            })
            .collect();
        std::thread::sleep(Duration::from_micros(5_000 + mix(round) % 150_000));
        drop(server);
        let counts: Vec<u64> =
            clients.into_iter().map(|client| client.join().expect("a client ends")).collect();
        total += counts.iter().sum::<u64>();

        let server = start(&pool);
        let mut stream = TcpStream::connect(&server.address).expect("the server listens");
        let mut replies = BufReader::new(stream.try_clone().expect("a socket can be cloned"));
        for client in 0..CLIENTS {
            verify(&mut contents, round, client, counts[client as usize], |key| {
                get(&mut stream, &mut replies, key)
            });
        }
        drop(server);
    }
    let check = Command::new(env!("CARGO_BIN_EXE_everleaf"))
        .args(["check", pool.to_str().expect("a plain path")])
        .output()
        .expect("the check runs");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
    println!("{rounds} kills, {total} commands acknowledged, {} keys", contents.len());
    assert!(total > rounds, "the clients hardly wrote: {total} commands");
}

/// Compares a client's keys with its acknowledged commands and up to one batch more; updates
/// `contents` to what was found.
fn verify(
    contents: &mut BTreeMap<String, String>,
    round: u64,
    client: u64,
    acknowledged: u64,
    mut get: impl FnMut(&str) -> Option<String>,
) {
    let keys: Vec<String> = (0..KEYS).map(|key| format!("key:{key:012}:{client}")).collect();
    let mut expected: BTreeMap<String, Option<String>> =
        keys.iter().map(|key| (key.clone(), contents.get(key).cloned())).collect();
    for n in 0..acknowledged {
        let (key, value) = command(round, client, n);
        expected.insert(key, value);
    }
    let found: BTreeMap<String, Option<String>> =
        keys.iter().map(|key| (key.clone(), get(key))).collect();
    let mut extra = 0;
    while found != expected {
        assert!(extra < BATCH, "round {round}, client {client}: {acknowledged} acknowledged");
        let (key, value) = command(round, client, acknowledged + extra);
        expected.insert(key, value);
        extra += 1;
    }
    for (key, value) in found {
        match value {
            Some(value) => drop(contents.insert(key, value)),
            None => drop(contents.remove(&key)),
        }
    }
}
