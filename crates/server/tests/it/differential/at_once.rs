//! The same requests, of many connections at once: what a server does together (`gathered.rs`) must answer as what it
//! does one by one, in the order in which it came.

use std::io::Write;

use everleaf_server::DebugCommand;

use super::requests::{FAMILIES, Random, request};
use super::{CONNECTION_COUNT, Connection, Pair, Raw, Redis, State, is_same, waiting};
use crate::support::{TestServer, encode};

/// Connections that ask at once.
const ASKING: u64 = 16;
/// Requests of one sequence.
const SEQUENCE_LENGTH: usize = 160;

/// Connections to both servers, beside those of the pair.
struct Asking {
    redis: Connection,
    ours: Vec<Connection>,
    /// To ours, to keep it busy while they ask.
    busy: Connection,
}

/// Whether a request waits for the end of the turn, if it is one: others are done before.
fn waits_for_others(request: &[Vec<u8>]) -> bool {
    match request[0].to_ascii_lowercase().as_slice() {
        b"hset" | b"hmset" | b"hsetnx" | b"hdel" | b"hincrby" | b"hincrbyfloat" => true,
        b"sadd" | b"srem" | b"zadd" | b"zincrby" | b"zrem" => true,
        b"lpush" | b"rpush" | b"lpushx" | b"rpushx" => true,
        b"lpop" | b"rpop" | b"zpopmin" | b"zpopmax" => request.len() == 2,
        _ => false,
    }
}

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

impl Asking {
    fn new(redis: &Redis, server: &TestServer) -> Self {
        let mut asking = Asking {
            redis: Connection::new(redis.address),
            ours: (0..ASKING).map(|_| Connection::new(server.address)).collect(),
            busy: Connection::new(server.address),
        };
        for connection in asking.ours.iter_mut().chain([&mut asking.busy]) {
            connection.ask(&words("PING"));
        }
        asking
    }

    /// Sends each request with a connection of its own, all at once, and one by one to Redis. Returns the replies.
    fn ask(&mut self, requests: &[Vec<Vec<u8>>]) -> Vec<(Raw, Raw)> {
        let sleep = encode(&words("DEBUG SLEEP 0.002"));
        self.busy.stream.write_all(&sleep).unwrap();
        for (connection, request) in self.ours.iter_mut().zip(requests) {
            connection.asked = encode(request);
            connection.stream.write_all(&connection.asked).unwrap();
        }
        let redis: Vec<Raw> = requests.iter().map(|request| self.redis.ask(request)).collect();
        self.busy.reply();
        redis.into_iter().zip(self.ours.iter_mut().map(Connection::reply)).collect()
    }
}

/// Requests of one kind or the other.
fn requests(random: &mut Random, preferred: &[&str], count: u64, wait: bool) -> Vec<Vec<Vec<u8>>> {
    let mut requests = Vec::new();
    for _ in 0..100 * count {
        let request = request(random, preferred);
        let is_wanted = match wait {
            true => waits_for_others(&request),
            false => !waiting::waits_long(&request),
        };
        if is_wanted && requests.len() < count as usize {
            requests.push(request);
        }
    }
    requests
}

fn run(pair: &mut Pair, asking: &mut Asking, seed: u64) -> Result<(), String> {
    let mut random = Random(seed);
    pair.reset(&mut random);
    let (mut state, mut told) = (State::default(), Vec::new());
    // Those of hashes, sets, sorted sets and lists.
    let preferred = FAMILIES[1 + seed as usize % 4];
    while told.len() < SEQUENCE_LENGTH && !state.has_parted.get() {
        let is_at_once = random.is(50);
        let connection = random.next() as usize % CONNECTION_COUNT;
        let count = 2 + random.next() % (ASKING - 1);
        let asked = requests(&mut random, preferred, count, is_at_once);
        let replies = match is_at_once {
            true => asking.ask(&asked),
            false => asked.iter().map(|request| pair.ask(connection, request)).collect(),
        };
        for (request, (redis, ours)) in asked.iter().zip(&replies) {
            let shown: Vec<String> =
                request.iter().map(|arg| format!("\"{}\"", arg.escape_ascii())).collect();
            let who = if is_at_once { "at once".into() } else { connection.to_string() };
            told.push(format!("{who}: {}", shown.join(" ")));
            if !is_same(request, redis, ours, &state, connection) {
                let start = told.len().saturating_sub(40);
                return Err(format!(
                    "seed {seed}\n{}\n  redis {}\n  ours  {}",
                    told[start..].join("\n"),
                    redis.bytes.escape_ascii(),
                    ours.bytes.escape_ascii()
                ));
            }
            if !is_at_once {
                state.note(connection, request, redis);
            }
            if state.has_parted.get() {
                break;
            }
        }
    }
    Ok(())
}

fn compare(count: u64) {
    let Some(redis) = Redis::start() else {
        println!("skipped: there is no redis-server here; apt-get install redis-server");
        return;
    };
    let server = TestServer::with(|config| {
        (config.threads, config.debug_command) = (1, DebugCommand::Yes);
    });
    let (mut pair, mut asking) = (Pair::new(&redis, &server), Asking::new(&redis, &server));
    let read = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let first = read("DIFFERENCE_FROM").unwrap_or(1);
    let seeds = match read("DIFFERENCE_SEED") {
        Some(seed) => seed..seed + 1,
        None => first..first + count.div_ceil(SEQUENCE_LENGTH as u64),
    };
    let differences: Vec<_> =
        seeds.filter_map(|seed| run(&mut pair, &mut asking, seed).err()).take(6).collect();
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

#[test]
fn many_connections_at_once_are_answered_as_by_redis() {
    compare(4_000);
}

#[test]
#[ignore = "a long run: as many requests as DIFFERENCES says"]
fn very_many_at_once_are_answered_as_by_redis() {
    compare(std::env::var("DIFFERENCES").map_or(1_000_000, |count| count.parse().unwrap()));
}
