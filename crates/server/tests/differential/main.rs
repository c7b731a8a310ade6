//! Random requests to this server and to a Redis server, whose replies must be the same bytes.
//!
//! Where no `redis-server` is installed, it says that it skips. What differs on purpose is listed in
//! [`is_intended`], and told to users in `docs/redis-differences.md`. The long form:
//!
//! ```text
//! DIFFERENCES=2000000 cargo test -p everleaf-server --test differential -- --ignored --nocapture
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests may fail, and say what they do"
)]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use support::{TestServer, encode, eventually};

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
}

impl Connection {
    fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.set_nodelay(true).unwrap();
        Connection { stream, buffer: Vec::new(), at: 0 }
    }

    fn ask(&mut self, request: &[Vec<u8>]) -> Raw {
        self.stream.write_all(&encode(request)).unwrap();
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
        let size = self.stream.read(&mut chunk).expect("a reply within half a minute");
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
        let folder = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = Command::new("redis-server")
            .args(["--port", &address.port().to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--databases", "1", "--dir"])
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        eventually("Redis listens", || TcpStream::connect(address).is_ok());
        Some(Redis { child, address, _folder: folder })
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Numbers by a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.next() as usize % of.len()]
    }

    fn is(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

/// What requests are made of: words, and places for a key `K`, a value `V`, an integer `I`, a
/// duration `S`, a moment `T`, a pattern `P`, a key of a hash `H`, a number `F`, a small count `C`, and options of `SET`, `GETEX`, `EXPIRE`, `SCAN`.
const TEMPLATES: &[&str] = &[
    "GET K",
    "SET K V",
    "SET K V SETOPTION",
    "SET K V SETOPTION SETOPTION",
    "SET K V SETOPTION SETOPTION SETOPTION",
    "SETNX K V",
    "SETEX K S V",
    "PSETEX K S V",
    "GETSET K V",
    "GETDEL K",
    "GETEX K",
    "GETEX K GETOPTION",
    "GETEX K GETOPTION GETOPTION",
    "APPEND K V",
    "STRLEN K",
    "GETRANGE K I I",
    "SUBSTR K I I",
    "INCR K",
    "DECR K",
    "INCRBY K I",
    "DECRBY K I",
    "MSET K V K V",
    "MSETNX K V K V",
    "MGET K K K",
    "DEL K K",
    "UNLINK K",
    "EXISTS K K",
    "TYPE K",
    "EXPIRE K S",
    "EXPIRE K S EXOPTION",
    "EXPIRE K S EXOPTION EXOPTION",
    "PEXPIRE K S EXOPTION",
    "EXPIREAT K T",
    "PEXPIREAT K T EXOPTION",
    "TTL K",
    "PTTL K",
    "EXPIRETIME K",
    "PEXPIRETIME K",
    "PERSIST K",
    "KEYS P",
    "KEYS P",
    "SCAN I SCANOPTION",
    "SCAN 0 SCANOPTION SCANOPTION",
    "DBSIZE",
    "FLUSHALL",
    "FLUSHDB V",
    "PING",
    "PING V",
    "ECHO V",
    "SELECT I",
    "MULTI",
    "MULTI",
    "EXEC",
    "EXEC",
    "EXEC",
    "DISCARD",
    "WATCH K",
    "WATCH K K",
    "UNWATCH",
    "HELLO 2",
    "HELLO 3",
    "HELLO I",
    "HELLO 3 AUTH default V",
    "HELLO 3 SETNAME K",
    "HELLO 3 V",
    "AUTH V",
    "AUTH default V",
    "CLIENT GETNAME",
    "CLIENT SETNAME V",
    "CLIENT ID",
    "CLIENT NO-EVICT V",
    "CLIENT REPLY V",
    "CLIENT V",
    "CLIENT KILL V",
    "CONFIG GET V",
    "CONFIG SET V",
    "CONFIG SET V V",
    "CONFIG RESETSTAT",
    "CONFIG V",
    "COMMAND COUNT",
    "SAVE",
    "LASTSAVE",
    "RESET",
    "NOSUCH V V",
    "HSET H V V",
    "HSET H V V V V",
    "HSET H V V",
    "HMSET H V V V I",
    "HSETNX H V V",
    "HGET H V",
    "HMGET H V V V",
    "HGETALL H",
    "HGETALL H",
    "HDEL H V",
    "HDEL H V V V",
    "HLEN H",
    "HEXISTS H V",
    "HKEYS H",
    "HVALS H",
    "HINCRBY H V I",
    "HINCRBYFLOAT H V F",
    "HSTRLEN H V",
    "HSCAN H I SCANOPTION",
    "HSCAN H 0 SCANOPTION SCANOPTION",
    "HRANDFIELD H",
    "HRANDFIELD H C",
    "HRANDFIELD H C WITHVALUES",
];

const HASHES: &[&[u8]] = &[b"hash:1", b"hash:2", b"a"];
const NUMBERS: &[&[u8]] =
    &[b"1.5", b"-0.25", b"3", b"5.0e2", b"x", b"", b" 1", b"1 ", b"10.5", b"-1e-1", b"+.5"];
const COUNTS: &[&[u8]] = &[b"0", b"1", b"-3", b"5", b"-1", b"x", b"-9223372036854775808"];
const KEYS: &[&[u8]] = &[
    b"hash:1",
    b"hash:2",
    b"a",
    b"b",
    b"c",
    b"",
    b"a\r\nb",
    b"\xff\x00",
    b"h[a]*?",
    b"longer:key:1",
    b"longer:key:2",
];
const VALUES: &[&[u8]] = &[
    b"1",
    b"-5",
    b"x",
    b"",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"0",
    b"-0",
    b"+1",
    b" 1",
    b"01",
    b"\x00\r\n\xfe",
    b"a string of some length",
    b"async",
    b"foo",
];
const INTEGERS: &[&[u8]] = &[
    b"0",
    b"1",
    b"-1",
    b"3",
    b"-3",
    b"5",
    b"-100",
    b"100",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"18446744073709551616",
    b"x",
    b"1.5",
    b"",
    b" 1",
    b"1 ",
    b"-",
    b"007",
];
/// Long enough that nothing expires in between.
const DURATIONS: &[&[u8]] = &[
    b"1000000",
    b"2000000",
    b"3000000",
    b"0",
    b"-1",
    b"9223372036854775807",
    b"9223372036854775",
    b"9223372036854776",
    b"-9223372036854775808",
    b"-9223372036854776",
    b"x",
    b"",
];
const MOMENTS: &[&[u8]] = &[
    b"4000000000000",
    b"4000000000499",
    b"4000000000500",
    b"4000000000",
    b"1",
    b"0",
    b"-1",
    b"9223372036854775807",
    b"x",
];
const PATTERNS: &[&[u8]] = &[
    b"*",
    b"a*",
    b"*y*",
    b"longer:key:?",
    b"longer:*[^1]",
    b"longer:*[0-1]",
    b"longer:*[1-0]",
    b"longer:key:[",
    b"longer:key:[1",
    b"longer:key:[^2",
    b"h\\[a]\\*\\?",
    b"[a-c]",
    b"[]a]",
    b"[\\a]",
    b"[a-",
    b"[^",
    b"a\\",
    b"\\a",
    b"**",
    b"?",
    b"",
    b"\xff*",
];

fn option(random: &mut Random, of: &str) -> Vec<Vec<u8>> {
    let words = |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let with = |name: &str, arg: &[u8]| vec![name.as_bytes().to_vec(), arg.to_vec()];
    match of {
        "SETOPTION" if random.is(50) => words(random.one(&["NX", "xx", "GET", "KEEPTTL", "junk"])),
        "GETOPTION" if random.is(40) => words(random.one(&["PERSIST", "persist", "KEEPTTL", "NX"])),
        "SETOPTION" | "GETOPTION" => match random.next() % 4 {
            0 => with("EX", random.one(DURATIONS)),
            1 => with("px", random.one(DURATIONS)),
            2 => with("EXAT", random.one(MOMENTS)),
            _ => with("PXAT", random.one(MOMENTS)),
        },
        "EXOPTION" => words(random.one(&["NX", "xx", "GT", "lt", "junk", "PERSIST"])),
        _ => match random.next() % 4 {
            0 => with("COUNT", random.one(INTEGERS)),
            1 => with("MATCH", random.one(PATTERNS)),
            2 => with("TYPE", random.one(&[&b"string"[..], b"STRING", b"list", b"hash", b"set"])),
            _ => words("junk"),
        },
    }
}

fn request(random: &mut Random) -> Vec<Vec<u8>> {
    let mut request: Vec<Vec<u8>> = Vec::new();
    for word in random.one(TEMPLATES).split(' ') {
        match word {
            "K" => request.push(random.one(KEYS).to_vec()),
            "V" => request.push(random.one(VALUES).to_vec()),
            "I" => request.push(random.one(INTEGERS).to_vec()),
            "S" => request.push(random.one(DURATIONS).to_vec()),
            "T" => request.push(random.one(MOMENTS).to_vec()),
            "H" if random.is(5) => request.push(random.one(KEYS).to_vec()),
            "H" => request.push(random.one(HASHES).to_vec()),
            "F" => request.push(random.one(NUMBERS).to_vec()),
            "C" => request.push(random.one(COUNTS).to_vec()),
            "P" => request.push(random.one(PATTERNS).to_vec()),
            _ if word.ends_with("OPTION") => request.extend(option(random, word)),
            _ if random.is(20) => request.push(word.to_ascii_lowercase().into_bytes()),
            _ => request.push(word.as_bytes().to_vec()),
        }
    }
    match random.next() % 40 {
        0 if request.len() > 1 => drop(request.pop()),
        1 => request.push(random.one(VALUES).to_vec()),
        2 if request.len() > 1 => {
            let index = 1 + random.next() as usize % (request.len() - 1);
            request[index] = random.one(VALUES).to_vec();
        }
        _ => {}
    }
    request
}

/// What a sequence has done so far that matters for comparing.
#[derive(Default)]
struct State {
    /// Keys may be there whose time has come: whether they are counted is a matter of chance.
    has_expired: bool,
    /// What each connection has queued; `None` outside of a transaction.
    queues: [Option<Vec<Vec<Vec<u8>>>>; CONNECTION_COUNT],
}

impl State {
    fn note(&mut self, connection: usize, request: &[Vec<u8>], reply: &Raw) {
        let name = request[0].to_ascii_lowercase();
        let is_past = |arg: &Vec<u8>| matches!(&arg[..], b"1" | b"4000000000");
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
    if name == b"exec" && redis.kind() == b'*' && redis.children.len() == ours.children.len() {
        let queue = state.queues[connection].clone().unwrap_or_default();
        return queue.len() == redis.children.len()
            && queue.iter().enumerate().all(|(index, request)| {
                is_same(request, &redis.children[index], &ours.children[index], state, connection)
            });
    }
    is_intended(&name, request, redis, ours, state)
}

/// The list of what differs on purpose, or by chance.
fn is_intended(name: &[u8], request: &[Vec<u8>], redis: &Raw, ours: &Raw, state: &State) -> bool {
    let same_kind = redis.kind() == ours.kind();
    let both_errors = same_kind && redis.kind() == b'-';
    let both_start = |text| redis.starts_with(text) && ours.starts_with(text);
    // What an error repeats of a request is cleaned before it is shown.
    let is_plain = |arg: &Vec<u8>| arg.iter().all(|byte| (b' '..=b'~').contains(byte));
    if both_errors && !request.iter().all(is_plain) && redis.bytes[..12] == ours.bytes[..12] {
        return true;
    }
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
        b"hscan" if redis.kind() == b'*' && same_kind => {
            let is_done = |raw: &Raw| raw.children[0].bytes == b"$1\r\n0\r\n";
            // There a cursor is ignored where all is told at once.
            let cursor_is_0 = request[2] == b"0";
            let items = |raw: &Raw| raw.children[1].clone();
            is_done(redis)
                && is_done(ours)
                && (!cursor_is_0 || items(redis).sorted_groups(2) == items(ours).sorted_groups(2))
        }
        // There a zero byte ends the cursor.
        b"hscan" => both_errors && request.get(2).is_some_and(|cursor| cursor.contains(&0)),
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
            same_kind && redis.kind() == b'*'
                // There a zero byte ends the cursor.
                || both_errors && request.get(1).is_some_and(|cursor| cursor.contains(&0))
                || ours.starts_with("-ERR invalid cursor: ") && redis.kind() == b'*'
        }
        // The name, the version, the number of the connection.
        b"hello" => same_kind && matches!(redis.kind(), b'*' | b'%'),
        // Settings and their bounds are our own; so is what is said of subcommands.
        b"config" if request.len() > 1 && request[1].eq_ignore_ascii_case(b"get") => same_kind,
        b"config" | b"client" | b"command" if both_start("-ERR unknown subcommand") => true,
        b"config" => both_errors,
        b"client" | b"command" => same_kind && matches!(redis.kind(), b':' | b'*'),
        b"lastsave" => same_kind,
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
        for _ in 0..SEQUENCE_LENGTH {
            let connection = random.next() as usize % CONNECTION_COUNT;
            let request = request(&mut random);
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
        }
        Ok(())
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
    let seeds = seed.map_or(1..count.div_ceil(SEQUENCE_LENGTH as u64) + 1, |seed| seed..seed + 1);
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
#[ignore = "the long form: as many requests as DIFFERENCES says"]
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
        ("SET k v PX 30", ""),
        ("SET k v PX 30", "GET k"),
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
        check(&mut pair, 0, "SET clock 1 PX 35");
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
