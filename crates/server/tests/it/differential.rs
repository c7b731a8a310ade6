//! Random requests to this server and to a Redis server, whose replies must be the same bytes.
//!
//! Where no `redis-server` is installed, it says that it skips. What differs on purpose is listed in
//! [`is_intended`], and told to users in `docs/redis-differences.md`. The long form:
//!
//! ```text
//! DIFFERENCES=2000000 cargo test -p everleaf-server --test it differential:: -- --ignored --nocapture
//! ```
//!
//! `DIFFERENCE_FROM` is the first seed, so that another run tries other requests; `DIFFERENCE_SEED` the only one.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests may fail, and say what they do"
)]

mod acl;
mod at_once;
mod payloads;
mod pipelines;
mod requests;
mod scans;
mod sorts;
mod waiting;

use std::cell::Cell;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use everleaf_server::DebugCommand;

use crate::support::{TestServer, encode, eventually};
use requests::{FAMILIES, Random, request};

/// The requests of one sequence.
const SEQUENCE_LENGTH: usize = 60;
/// Connections to each server.
const CONNECTION_COUNT: usize = 2;

/// A reply as it came, and the replies in it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Raw {
    bytes: Vec<u8>,
    children: Vec<Raw>,
}

impl Raw {
    fn kind(&self) -> u8 {
        self.bytes[0]
    }

    fn integer(&self) -> Option<i64> {
        let text = std::str::from_utf8(&self.bytes).ok()?;
        text.strip_prefix(':')?.trim_end().parse().ok()
    }

    fn sorted(&self) -> Vec<&[u8]> {
        let mut children: Vec<&[u8]> = self.children.iter().map(|raw| &raw.bytes[..]).collect();
        children.sort_unstable();
        children
    }

    /// The items of an array, or the pairs of a map, in order.
    fn sorted_groups(&self, size: usize) -> Vec<Vec<&[u8]>> {
        let children: Vec<&[u8]> = self.children.iter().map(|raw| &raw.bytes[..]).collect();
        let mut groups: Vec<_> = children.chunks(size).map(<[&[u8]]>::to_vec).collect();
        groups.sort_unstable();
        groups
    }

    fn starts_with(&self, text: &str) -> bool {
        self.bytes.starts_with(text.as_bytes())
    }
}

/// A connection that shows replies as they are.
struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    at: usize,
    /// What was asked last.
    asked: Vec<u8>,
}

impl Connection {
    fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.set_nodelay(true).unwrap();
        Connection { stream, buffer: Vec::new(), at: 0, asked: vec![] }
    }

    fn ask(&mut self, request: &[Vec<u8>]) -> Raw {
        self.asked = encode(request);
        self.stream.write_all(&self.asked).unwrap();
        self.reply()
    }

    fn reply(&mut self) -> Raw {
        let start = self.at;
        let children = self.skip_reply();
        let raw = Raw { bytes: self.buffer[start..self.at].to_vec(), children };
        if start == 0 {
            self.buffer.drain(..self.at);
            self.at = 0;
        }
        raw
    }

    /// Goes behind the next reply; returns what is in it.
    fn skip_reply(&mut self) -> Vec<Raw> {
        let start = self.at;
        let end = loop {
            let line = self.buffer[start..].windows(2).position(|pair| pair == b"\r\n");
            match line {
                Some(size) => break start + size,
                None => self.fill(),
            }
        };
        self.at = end + 2;
        let kind = self.buffer[start];
        let count =
            std::str::from_utf8(&self.buffer[start + 1..end]).unwrap().parse().unwrap_or(-1);
        let count: usize = usize::try_from(count).unwrap_or(0);
        match kind {
            b'$' | b'=' if self.buffer[start + 1] != b'-' => {
                self.at += count + 2;
                while self.buffer.len() < self.at {
                    self.fill();
                }
                vec![]
            }
            b'*' | b'~' | b'%' => {
                let count = if kind == b'%' { 2 * count } else { count };
                let mut children = Vec::new();
                for _ in 0..count {
                    let from = self.at;
                    let inner = self.skip_reply();
                    let bytes = self.buffer[from..self.at].to_vec();
                    children.push(Raw { bytes, children: inner });
                }
                children
            }
            _ => vec![],
        }
    }

    fn fill(&mut self) {
        let mut chunk = [0; 16 << 10];
        let read = loop {
            match self.stream.read(&mut chunk) {
                // This process was stopped for a while.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let size = read.unwrap_or_else(|error| {
            let peer = self.stream.peer_addr();
            panic!("no reply of {peer:?} to {}: {error}", self.asked.escape_ascii())
        });
        assert!(size > 0, "the connection ended: {}", self.buffer.escape_ascii());
        self.buffer.extend_from_slice(&chunk[..size]);
    }
}

/// A Redis server without persistence.
struct Redis {
    child: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Redis {
    /// `None` if none is installed.
    fn start() -> Option<Self> {
        Self::start_program("redis-server")
    }

    /// The same of a server of this name.
    fn start_program(program: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = Command::new(program)
            .env("LC_ALL", "C")
            .args(["--port", &address.port().to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--databases", "16", "--dir"])
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        // Where all programs are to be there, Redis is; Valkey cannot be had everywhere.
        let may_lack = std::env::var_os("EVERLEAF_TEST_ALL_PROGRAMS").is_none();
        assert!(child.is_ok() || may_lack || program != "redis-server", "there is no {program}");
        let child = child.ok()?;
        let redis = Redis { child, address, _folder: folder };
        eventually("Redis listens", || TcpStream::connect(address).is_ok());
        Some(redis)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a sequence has done so far that matters for comparing.
#[derive(Default)]
struct State {
    /// Chance has made what both hold different.
    has_parted: Cell<bool>,
    /// A sorted set whose members are asked for by their order may have several scores: then parts of it that are
    /// asked for going down are any there.
    has_scores: bool,
    /// Keys may be there whose time has come: whether they are counted is a matter of chance.
    has_expired: bool,
    /// What each connection has queued; `None` outside of a transaction.
    queues: [Option<Vec<Vec<Vec<u8>>>>; CONNECTION_COUNT],
}

impl State {
    fn note(&mut self, connection: usize, request: &[Vec<u8>], reply: &Raw) {
        let name = request[0].to_ascii_lowercase();
        let is_past = |arg: &Vec<u8>| matches!(&arg[..], b"1" | b"4000000000");
        let has = |word: &[u8]| request.iter().any(|arg| arg.eq_ignore_ascii_case(word));
        if name == b"sort" && has(b"store") && sorts::is_free(request) {
            // They are stored in any order.
            self.has_parted.set(true);
        }
        let is_of_lex = request.get(1).is_some_and(|key| key.starts_with(b"lex"));
        let is_score = |arg: &Vec<u8>| {
            let text = std::str::from_utf8(arg).ok();
            text.and_then(|text| text.parse::<f64>().ok()).is_some_and(|score| score != 0.0)
        };
        self.has_scores |= is_of_lex && name.starts_with(b"z") && request[2..].iter().any(is_score);
        self.has_expired |= matches!(&name[..], b"set" | b"getex") && request.iter().any(is_past);
        let queue = &mut self.queues[connection];
        match (&name[..], reply.kind()) {
            (b"multi", b'+') => *queue = Some(vec![]),
            (b"exec", _) | (b"discard" | b"reset", b'+') => *queue = None,
            _ if reply.starts_with("+QUEUED") => {
                queue.as_mut().unwrap().push(request.to_vec());
            }
            _ => {}
        }
    }
}

/// Whether two replies to a request are the same, or differ as they may.
fn is_same(request: &[Vec<u8>], redis: &Raw, ours: &Raw, state: &State, connection: usize) -> bool {
    if redis == ours {
        return true;
    }
    let name = request[0].to_ascii_lowercase();
    // There a score may be a negative zero.
    if name.starts_with(b"z") || name.starts_with(b"bz") {
        let plain = |raw: &Raw| {
            let text = raw.bytes.escape_ascii().to_string();
            text.replace(r"$2\r\n-0\r\n", r"$1\r\n0\r\n").replace(r",-0\r\n", r",0\r\n")
        };
        if plain(redis) == plain(ours) {
            return true;
        }
    }
    if name == b"exec" && redis.kind() == b'*' && redis.children.len() == ours.children.len() {
        let queue = state.queues[connection].clone().unwrap_or_default();
        let drew = |(index, request): (usize, &Vec<Vec<u8>>)| {
            draws(request) && redis.children[index] != ours.children[index]
        };
        if queue.len() == redis.children.len() && queue.iter().enumerate().any(drew) {
            state.has_parted.set(true);
            return true;
        }
        return queue.len() == redis.children.len()
            && queue.iter().enumerate().all(|(index, request)| {
                is_same(request, &redis.children[index], &ours.children[index], state, connection)
            });
    }
    is_intended(&name, request, redis, ours, state)
}

/// Whether a request removes members by chance.
fn draws(request: &[Vec<u8>]) -> bool {
    request[0].eq_ignore_ascii_case(b"spop")
}

/// What a scan of members told, sorted. Scores are numbers, since large ones are written differently; and
/// where two stars were asked for the empty member is left out, which matches them in only one server.
fn scanned(items: &Raw, size: usize, has_scores: bool, has_two_stars: bool) -> Vec<Vec<Vec<u8>>> {
    let as_number = |bulk: &[u8]| {
        let text = std::str::from_utf8(bulk).ok().and_then(|text| text.split("\r\n").nth(1));
        text.and_then(|text| text.parse::<f64>().ok()).map(|score| score.to_be_bytes().to_vec())
    };
    let group = |group: Vec<&[u8]>| -> Vec<Vec<u8>> {
        let as_told = |(index, bulk): (usize, &[u8])| match has_scores && index == 1 {
            true => as_number(bulk).unwrap_or_else(|| bulk.to_vec()),
            false => bulk.to_vec(),
        };
        group.into_iter().enumerate().map(as_told).collect()
    };
    let is_told = |group: &Vec<&[u8]>| !has_two_stars || group[0] != b"$0\r\n\r\n";
    items.sorted_groups(size).into_iter().filter(is_told).map(group).collect()
}

/// Whether the lines of `CLIENT LIST` have all the fields of theirs in that order, and the same in those that requests
/// decide.
fn has_fields_of(redis: &Raw, ours: &Raw) -> bool {
    let own = |(name, value): (&str, &str)| (name.to_string(), value.to_string());
    let lines_of = |raw: &Raw| -> Vec<Vec<(String, String)>> {
        let text = String::from_utf8_lossy(&raw.bytes).into_owned();
        let lines = text.lines().filter(|line| line.contains("id="));
        let parts = |line: &str| -> Vec<(String, String)> {
            let line = line.strip_prefix("txt:").unwrap_or(line).to_string();
            line.split(' ').filter_map(|part| part.split_once('=')).map(own).collect()
        };
        lines.map(parts).collect()
    };
    let is_decided = |name: &str| {
        ["name", "db", "multi", "sub", "psub", "ssub", "cmd", "user", "redir", "resp"]
            .contains(&name)
    };
    let (theirs, ours) = (lines_of(redis), lines_of(ours));
    theirs.len() == ours.len()
        && theirs.iter().zip(&ours).all(|(theirs, ours)| {
            let names: Vec<&str> = theirs.iter().map(|(name, _)| name.as_str()).collect();
            let shared = ours.iter().filter(|(name, _)| names.contains(&name.as_str()));
            shared.clone().map(|(name, _)| name.as_str()).eq(names.iter().copied())
                && shared.zip(theirs).all(|(a, b)| !is_decided(&a.0) || a.1 == b.1)
        })
}

/// What may differ in errors of any command; `None` if the command decides.
fn is_intended_of_any(request: &[Vec<u8>], redis: &Raw, ours: &Raw) -> Option<bool> {
    // What an error repeats of a request is cleaned before it is shown.
    let is_plain = |arg: &Vec<u8>| arg.iter().all(|byte| (b' '..=b'~').contains(byte));
    let both_errors = redis.kind() == b'-' && ours.kind() == b'-';
    if both_errors && !request.iter().all(is_plain) && redis.bytes[..12] == ours.bytes[..12] {
        return Some(true);
    }
    // Behind what Redis says we say where it stands what we have not.
    redis.starts_with("-ERR unknown command").then(|| {
        let said = redis.bytes.strip_suffix(b"\r\n").unwrap();
        ours.bytes.starts_with(said) && ours.bytes.ends_with(b"redis-differences.md)\r\n")
    })
}

/// The list of what differs on purpose, or by chance.
fn is_intended(name: &[u8], request: &[Vec<u8>], redis: &Raw, ours: &Raw, state: &State) -> bool {
    if let Some(is_intended) = is_intended_of_any(request, redis, ours) {
        return is_intended;
    }
    let same_kind = redis.kind() == ours.kind();
    let both_errors = same_kind && redis.kind() == b'-';
    let both_start = |text| redis.starts_with(text) && ours.starts_with(text);
    match name {
        // No order is promised by Redis; and there the empty key matches `*`, but not `**`.
        b"keys" => {
            let mut found = ours.sorted();
            if request.get(1).is_some_and(|pattern| pattern == b"**") {
                found.retain(|key| *key != b"$0\r\n\r\n");
            }
            same_kind && redis.sorted() == found
        }
        // The order of members is our own.
        b"hgetall" => {
            let size = if redis.kind() == b'*' { 2 } else { 1 };
            // A map has its keys and values as children, too.
            let size = if redis.kind() == b'%' { 2 } else { size };
            same_kind && redis.sorted_groups(size) == ours.sorted_groups(size)
        }
        b"hkeys" | b"hvals" => same_kind && redis.sorted() == ours.sorted(),
        b"smembers" | b"sinter" | b"sunion" | b"sdiff" => {
            same_kind && redis.sorted() == ours.sorted()
        }
        b"srandmember" | b"zrandmember" => same_kind && redis.children.len() == ours.children.len(),
        b"spop" => {
            if same_kind && redis.sorted() != ours.sorted() || redis.kind() == b'$' {
                state.has_parted.set(true);
            }
            same_kind && redis.children.len() == ours.children.len()
        }
        b"hscan" | b"sscan" | b"zscan" if redis.kind() == b'*' && same_kind => {
            let is_done = |raw: &Raw| raw.children[0].bytes == b"$1\r\n0\r\n";
            let size = if name == b"sscan" { 1 } else { 2 };
            // There a cursor is ignored where all is told at once.
            let cursor_is_0 = request[2] == b"0";
            let has_two_stars = request.iter().any(|argument| argument == b"**");
            let told = |raw: &Raw| scanned(&raw.children[1], size, name == b"zscan", has_two_stars);
            // From another cursor on, and of a large one, there is more there.
            is_done(ours) && (!cursor_is_0 || !is_done(redis) || told(redis) == told(ours))
        }
        // There a zero byte ends the cursor.
        b"hscan" | b"sscan" | b"zscan" => {
            ours.kind() == b'-' && request.get(2).is_some_and(|cursor| cursor.contains(&0))
        }
        b"hrandfield" => same_kind && redis.children.len() == ours.children.len(),
        // Time goes on between the two.
        b"ttl" | b"pttl" | b"expiretime" | b"pexpiretime" => {
            let unit = if name[0] == b'p' { 1000 } else { 1 };
            match (redis.integer(), ours.integer()) {
                (Some(a), Some(b)) => a > 0 && b > 0 && a.abs_diff(b) <= 3 * unit,
                _ => false,
            }
        }
        b"dbsize" => same_kind && state.has_expired,
        // Cursors are our own; those that are not known are refused.
        b"scan" => {
            same_kind && redis.kind() == b'*' && scans::may_differ(request, redis, ours)
                // There a zero byte ends the cursor.
                || ours.kind() == b'-' && request.get(1).is_some_and(|cursor| cursor.contains(&0))
                || ours.starts_with("-ERR invalid cursor: ") && redis.kind() == b'*'
        }
        // The name, the version, the number of the connection.
        b"hello" => same_kind && matches!(redis.kind(), b'*' | b'%'),
        // Settings and their bounds are our own; so is what is said of subcommands.
        b"config" if request.len() > 1 && request[1].eq_ignore_ascii_case(b"get") => same_kind,
        b"config" | b"client" | b"command" if both_start("-ERR unknown subcommand") => true,
        b"config" => both_errors,
        // There a number of keys may be no number, and then the destination comes last.
        b"command" if request.get(1).is_some_and(|arg| arg.eq_ignore_ascii_case(b"getkeys")) => {
            ours.starts_with("-ERR Invalid arguments")
                || both_start("-ERR Invalid command specified")
        }
        b"client" if (same_kind && redis.starts_with("$")) || redis.starts_with("=") => {
            has_fields_of(redis, ours)
        }
        b"client" | b"command" => same_kind && matches!(redis.kind(), b':' | b'*'),
        b"lastsave" => same_kind,
        _ => is_intended_of_keys(name, request, redis, ours, state),
    }
}

/// The same for commands of keys whatever they hold, and of the server.
fn is_intended_of_keys(
    name: &[u8],
    request: &[Vec<u8>],
    redis: &Raw,
    ours: &Raw,
    state: &State,
) -> bool {
    let same_kind = redis.kind() == ours.kind();
    let both_start = |text| redis.starts_with(text) && ours.starts_with(text);
    let has = |word: &[u8]| request.iter().any(|arg| arg.eq_ignore_ascii_case(word));
    match name {
        // There an earlier number that was out of range may make it fail (`errno` is never reset).
        b"sort" | b"sort_ro" if redis.starts_with("-ERR One or more scores") => {
            state.has_parted.set(ours.kind() == b':');
            ours.kind() != b'-'
        }
        // So do members with a zero byte, which ends them there.
        b"sort" | b"sort_ro" if same_kind && redis.kind() == b'*' => {
            let has_zero = redis.bytes.contains(&0) || ours.bytes.contains(&0);
            let may_part = sorts::is_free(request) || has(b"alpha") && has_zero;
            let is_whole = !has(b"limit") && !has(b"get");
            let is_equal = if is_whole {
                redis.sorted() == ours.sorted()
            } else {
                redis.children.len() == ours.children.len()
            };
            may_part && is_equal
        }
        b"zrevrangebylex" => same_kind && state.has_scores,
        b"zrange" if has(b"bylex") && has(b"rev") => same_kind && state.has_scores,
        b"randomkey" => same_kind || state.has_expired,
        // Encodings are our own.
        b"dump" => same_kind && redis.kind() == b'$' && !both_start("$-1"),
        b"slowlog" | b"latency" if both_start("-ERR unknown subcommand") => true,
        b"slowlog" if same_kind => redis.kind() == b':' || redis.kind() == b'*',
        b"memory" if both_start("-ERR unknown subcommand") => true,
        b"object" if both_start("-ERR unknown subcommand") => true,
        // There a key whose time has come still takes memory.
        b"memory" => same_kind && redis.kind() == b':' || state.has_expired,
        b"time" => same_kind && redis.children.len() == ours.children.len(),
        // There small integers are shared.
        b"object" if has(b"refcount") => same_kind && ours.bytes == b":1\r\n",
        _ => false,
    }
}

/// Both servers, each with its connections.
struct Pair {
    redis: Vec<Connection>,
    ours: Vec<Connection>,
}

impl Pair {
    fn new(redis: &Redis, server: &TestServer) -> Self {
        let connect = |address| (0..CONNECTION_COUNT).map(|_| Connection::new(address)).collect();
        Pair { redis: connect(redis.address), ours: connect(server.address) }
    }

    fn ask(&mut self, connection: usize, request: &[Vec<u8>]) -> (Raw, Raw) {
        (self.redis[connection].ask(request), self.ours[connection].ask(request))
    }

    fn line(&mut self, connection: usize, line: &str) -> (Raw, Raw) {
        let words: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        self.ask(connection, &words)
    }

    /// As if all were new.
    fn reset(&mut self, random: &mut Random) {
        for connection in 0..CONNECTION_COUNT {
            self.line(connection, "RESET");
            if random.is(50) {
                self.line(connection, "HELLO 3");
            }
        }
        self.line(0, "FLUSHALL");
    }

    /// Runs a sequence. Returns a difference with what led to it.
    fn run(&mut self, seed: u64) -> Result<(), String> {
        let mut random = Random(seed);
        self.reset(&mut random);
        let (mut state, mut told) = (State::default(), Vec::new());
        let preferred = FAMILIES[seed as usize % FAMILIES.len()];
        for _ in 0..SEQUENCE_LENGTH {
            let connection = random.next() as usize % CONNECTION_COUNT;
            let request = request(&mut random, preferred);
            if waiting::waits_long(&request) {
                continue;
            }
            let (redis, ours) = self.ask(connection, &request);
            let shown: Vec<String> =
                request.iter().map(|arg| format!("\"{}\"", arg.escape_ascii())).collect();
            told.push(format!("{connection}: {}", shown.join(" ")));
            if !is_same(&request, &redis, &ours, &state, connection) {
                let start = told.len().saturating_sub(25);
                return Err(format!(
                    "seed {seed}\n{}\n  redis {}\n  ours  {}",
                    told[start..].join("\n"),
                    redis.bytes.escape_ascii(),
                    ours.bytes.escape_ascii()
                ));
            }
            state.note(connection, &request, &redis);
            if state.has_parted.get() {
                return Ok(());
            }
        }
        self.scan_all(&mut random).map_err(|difference| {
            format!(
                "seed {seed}\n{}\n{difference}",
                told[told.len().saturating_sub(25)..].join("\n")
            )
        })
    }
}

fn compare(count: u64) {
    let Some(redis) = Redis::start() else {
        println!("skipped: there is no redis-server here; apt-get install redis-server");
        return;
    };
    let server = TestServer::start();
    let mut pair = Pair::new(&redis, &server);
    let seed = std::env::var("DIFFERENCE_SEED").ok().map(|seed| seed.parse::<u64>().unwrap());
    let read = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let first = read("DIFFERENCE_FROM").unwrap_or(1);
    let last = first + count.div_ceil(SEQUENCE_LENGTH as u64);
    let seeds = seed.map_or(first..last, |seed| seed..seed + 1);
    let (first, mut differences) = (seeds.start, Vec::new());
    for seed in seeds {
        if let Err(difference) = pair.run(seed) {
            differences.push(difference);
            if differences.len() == 12 {
                break;
            }
        }
    }
    println!("from seed {first} on, {count} requests: {} differences", differences.len());
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

#[test]
fn replies_are_those_of_redis() {
    compare(12_000);
}

#[test]
#[ignore = "a long run: as many requests as DIFFERENCES says"]
fn very_many_replies_are_those_of_redis() {
    let count = std::env::var("DIFFERENCES").map_or(1_000_000, |count| count.parse().unwrap());
    compare(count);
}

/// Time passes for both servers: a watched key that expires, and one that had expired before.
#[test]
fn watched_keys_expire_as_those_of_redis() {
    let Some(redis) = Redis::start() else {
        println!("skipped: there is no redis-server here; apt-get install redis-server");
        return;
    };
    let server = TestServer::start();
    let mut pair = Pair::new(&redis, &server);
    let check = |pair: &mut Pair, connection, line: &str| {
        let (redis, ours) = pair.line(connection, line);
        let shown = |raw: &Raw| raw.bytes.escape_ascii().to_string();
        assert_eq!(shown(&redis), shown(&ours), "{line}");
    };
    for (before, between) in [
        ("SET k v PX 300", ""),
        ("SET k v PX 300", "GET k"),
        ("SET k v PXAT 1", "GET k"),
        ("SET k v PXAT 1", "SET k v"),
        ("SET k v PXAT 1", "DEL k"),
        ("SET k v PXAT 1", "FLUSHALL"),
        ("SET k v", "FLUSHALL"),
        ("DEL k", "FLUSHALL"),
    ] {
        check(&mut pair, 0, "FLUSHALL");
        check(&mut pair, 0, before);
        check(&mut pair, 0, "WATCH k");
        // Without a look at the key, which would remove it.
        check(&mut pair, 0, "SET clock 1 PX 350");
        eventually("time passes", || {
            let (redis, ours) = pair.line(1, "EXISTS clock");
            redis.bytes == b":0\r\n" && ours.bytes == b":0\r\n"
        });
        if !between.is_empty() {
            check(&mut pair, 1, between);
        }
        check(&mut pair, 0, "MULTI");
        check(&mut pair, 0, "SET done 1");
        check(&mut pair, 0, "EXEC");
    }
}

/// Whether it is counted that a key has expired is a matter of chance, but not once it was removed.
#[test]
fn what_has_expired_goes_as_in_redis() {
    let Some(redis) = Redis::start() else {
        println!("skipped: there is no redis-server here; apt-get install redis-server");
        return;
    };
    let server = TestServer::with(|config| config.debug_command = DebugCommand::Yes);
    let mut pair = Pair::new(&redis, &server);
    pair.ours[0].ask(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"].map(|word| word.as_bytes().to_vec()));
    for removal in ["FLUSHALL", "FLUSHDB", "DEL k", "UNLINK other k", "SINTERSTORE k other"] {
        let lines = ["SET k v PXAT 1", removal, "DBSIZE", "SET k v PXAT 1", "MULTI", removal];
        for line in lines.into_iter().chain(["DBSIZE", "EXEC", "DBSIZE"]) {
            let (redis, ours) = pair.line(0, line);
            let shown = |raw: &Raw| raw.bytes.escape_ascii().to_string();
            assert_eq!(shown(&redis), shown(&ours), "{line} behind {removal}");
        }
    }
}
