//! Every byte of every reply, against the request that it answers.
//!
//! What was lost: a client that sent 400 to 590 KB of `SET`s at once ended the process, or was sent
//! parts of the values that other clients were reading. Its last allowed round of a turn left its
//! replies in the buffer of the event loop for the end of the turn, but it was put on the list of
//! connections to serve again instead of the list to send to; the next turn used the place of its
//! replies in a buffer that held something else by then.
//!
//! Many clients send pipelines of any size over several event loops, with and without a log. Each value
//! says whose it is, which key and which version, in each of its lines. Some clients read slowly, some
//! end their half of the connection, some go away in the middle. The long run is
//! `EVERLEAF_REPLIES_SECONDS=600 cargo test --release -p everleaf-server --test replies`, or `cargo xtask
//! sim`; the seed is printed, and `EVERLEAF_REPLIES_SEED` gives it again.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests may fail; what was covered is told"
)]

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use everleaf::{Durability, Options};
use support::{TestServer, encode};

/// How long to search, in seconds.
const SECONDS_VARIABLE: &str = "EVERLEAF_REPLIES_SECONDS";
/// The seed of the search.
const SEED_VARIABLE: &str = "EVERLEAF_REPLIES_SEED";

const CLIENT_COUNT: usize = 12;
const KEY_COUNT: u64 = 40;
const PIPELINE_SIZE_MAX: u64 = 4 << 20;
/// Replies to one pipeline.
const REPLIES_SIZE_MAX: usize = 12 << 20;

/// Numbers that look random (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// Small ones as often as large ones.
    fn size(&mut self, min: u64, max: u64) -> u64 {
        let doublings = (max / min).ilog2() as u64 + 1;
        let end = (min << (self.below(doublings) + 1)).min(max);
        min + self.below(end - min + 1)
    }
}

/// A value of which each line says what it is.
fn value_of(client: usize, key: u64, version: u64, size: usize) -> Vec<u8> {
    let line = format!("c{client:02} k{key:02} v{version:08}\n").into_bytes();
    let mut value = line.repeat(size / line.len() + 1);
    value.truncate(size);
    value
}

/// Requests to be sent at once, and what must come back.
#[derive(Default)]
struct Pipeline {
    requests: Vec<u8>,
    replies: Vec<u8>,
}

impl Pipeline {
    fn ask<A: AsRef<[u8]>>(&mut self, args: &[A]) {
        self.requests.extend(encode(args));
    }

    fn expect_bulk(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            None => self.replies.extend_from_slice(b"$-1\r\n"),
            Some(bytes) => {
                self.replies.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
                self.replies.extend_from_slice(bytes);
                self.replies.extend_from_slice(b"\r\n");
            }
        }
    }
}

/// What a client has written: nobody else writes its keys.
struct Model {
    client: usize,
    /// Part of the keys' names: another one after each connection.
    epoch: u64,
    versions: u64,
    /// Version and size, by key.
    values: Vec<Option<(u64, usize)>>,
}

impl Model {
    fn new(client: usize, epoch: u64) -> Self {
        Model { client, epoch, versions: 0, values: vec![None; KEY_COUNT as usize] }
    }

    fn key(&self, key: u64) -> String {
        format!("{}:{}:{key}", self.client, self.epoch)
    }

    fn value(&self, key: u64) -> Option<Vec<u8>> {
        let (version, size) = self.values[key as usize]?;
        Some(value_of(self.client, key, version, size))
    }

    fn pipeline(&mut self, random: &mut Random) -> Pipeline {
        let mut pipeline = Pipeline::default();
        let size = random.size(64, PIPELINE_SIZE_MAX) as usize;
        // Runs of one kind are what an event loop treats together.
        let mut kind = random.below(8);
        // Now and then nothing but writes, whose replies are small, or nothing but reads.
        let is_uniform = random.one_in(3);
        while pipeline.requests.len() < size && pipeline.replies.len() < REPLIES_SIZE_MAX {
            if !is_uniform && random.one_in(4) {
                kind = random.below(8);
            }
            self.add(&mut pipeline, kind, random);
        }
        pipeline
    }

    fn add(&mut self, pipeline: &mut Pipeline, kind: u64, random: &mut Random) {
        let key = random.below(KEY_COUNT);
        match kind {
            0 | 1 => {
                self.add_set(pipeline, key, random);
                pipeline.replies.extend_from_slice(b"+OK\r\n");
            }
            2 | 3 => self.add_get(pipeline, key),
            4 => {
                let keys = [random.below(KEY_COUNT), key];
                pipeline.ask(&["MGET".to_string(), self.key(keys[0]), self.key(keys[1])]);
                pipeline.replies.extend_from_slice(b"*2\r\n");
                keys.iter().for_each(|&key| pipeline.expect_bulk(self.value(key).as_deref()));
            }
            5 => self.add_transaction(pipeline, random),
            6 => {
                self.versions += 1;
                let text = value_of(self.client, 99, self.versions, random.size(1, 2_000) as usize);
                pipeline.ask(&[&b"ECHO"[..], &text]);
                pipeline.expect_bulk(Some(&text));
            }
            _ => {
                let size = self.values[key as usize].map_or(0, |(_, size)| size);
                pipeline.ask(&["STRLEN".to_string(), self.key(key)]);
                pipeline.replies.extend_from_slice(format!(":{size}\r\n").as_bytes());
                pipeline.requests.extend_from_slice(b"PING\r\n");
                pipeline.replies.extend_from_slice(b"+PONG\r\n");
            }
        }
    }

    /// The request alone: its reply depends on where it stands.
    fn add_set(&mut self, pipeline: &mut Pipeline, key: u64, random: &mut Random) {
        let size = match random.below(400) {
            0 => random.size(1 << 16, 1 << 20),
            1..=20 => random.size(2_000, 1 << 16),
            21..=100 => random.below(100),
            _ => 1_000,
        };
        self.versions += 1;
        self.values[key as usize] = Some((self.versions, size as usize));
        let value = self.value(key).expect("it was set just now");
        pipeline.ask(&[&b"SET"[..], self.key(key).as_bytes(), &value]);
    }

    fn add_get(&mut self, pipeline: &mut Pipeline, key: u64) {
        pipeline.ask(&["GET".to_string(), self.key(key)]);
        pipeline.expect_bulk(self.value(key).as_deref());
    }

    fn add_transaction(&mut self, pipeline: &mut Pipeline, random: &mut Random) {
        let count = random.below(20);
        let mut inner = Pipeline::default();
        pipeline.ask(&["MULTI"]);
        pipeline.replies.extend_from_slice(b"+OK\r\n");
        for _ in 0..count {
            let key = random.below(KEY_COUNT);
            if random.one_in(2) {
                self.add_set(&mut inner, key, random);
                inner.replies.extend_from_slice(b"+OK\r\n");
            } else {
                self.add_get(&mut inner, key);
            }
            pipeline.replies.extend_from_slice(b"+QUEUED\r\n");
        }
        pipeline.requests.append(&mut inner.requests);
        pipeline.ask(&["EXEC"]);
        pipeline.replies.extend_from_slice(format!("*{count}\r\n").as_bytes());
        pipeline.replies.append(&mut inner.replies);
    }
}

/// One connection after the other, until the time is over.
struct Worker<'a> {
    address: SocketAddr,
    client: usize,
    random: Random,
    end: Instant,
    checked: &'a AtomicU64,
    pipelines: &'a AtomicU64,
}

impl Worker<'_> {
    fn run(&mut self) {
        let mut epoch = 0;
        // One pipeline at least, however busy the machine is.
        while epoch == 0 || Instant::now() < self.end {
            epoch += 1;
            let mut model = Model::new(self.client, epoch);
            let mut stream = TcpStream::connect(self.address).unwrap();
            // A reply that does not come is a failure, not a hang.
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            loop {
                let pipeline = model.pipeline(&mut self.random);
                match self.random.below(40) {
                    0 => {
                        self.leave(&stream, &pipeline);
                        break;
                    }
                    1 => {
                        self.exchange(&mut stream, &pipeline, true);
                        break;
                    }
                    _ => self.exchange(&mut stream, &pipeline, false),
                }
                if Instant::now() >= self.end {
                    break;
                }
            }
        }
    }

    /// Sends a part of it and goes away without reading.
    fn leave(&mut self, mut stream: &TcpStream, pipeline: &Pipeline) {
        stream.set_nonblocking(true).unwrap();
        let size = self.random.below(pipeline.requests.len() as u64 + 1) as usize;
        // What the socket takes is enough.
        let _ = stream.write(&pipeline.requests[..size]);
    }

    /// Sends all of it, reads all that is due, and nothing else must come.
    fn exchange(&mut self, stream: &mut TcpStream, pipeline: &Pipeline, is_last: bool) {
        let writer = stream.try_clone().unwrap();
        let mut pieces = Random(self.random.next());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                send(writer, &pipeline.requests, &mut pieces);
            });
            self.check(stream, &pipeline.replies);
        });
        if is_last {
            stream.shutdown(Shutdown::Write).unwrap();
            let size = stream.read(&mut [0; 1]).unwrap();
            assert_eq!(size, 0, "client {}: more than the replies came", self.client);
        }
        // Relaxed: a statistic.
        self.pipelines.fetch_add(1, Ordering::Relaxed);
    }

    fn check(&mut self, stream: &mut TcpStream, expected: &[u8]) {
        let mut buffer = vec![0; 256 << 10];
        let is_slow = self.random.one_in(4);
        let mut at = 0;
        while at < expected.len() {
            let wanted = if is_slow {
                std::thread::yield_now();
                self.random.size(1, 32 << 10) as usize
            } else {
                buffer.len()
            };
            let size = match stream.read(&mut buffer[..wanted]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => result.unwrap_or_else(|error| {
                    panic!("client {}: {error} after {at} bytes of replies", self.client)
                }),
            };
            assert!(size > 0, "client {}: the end after {at} bytes of replies", self.client);
            let due = &expected[at..expected.len().min(at + size)];
            if buffer[..size] != *due {
                self.report(at, &buffer[..size], due);
            }
            at += size;
            // Relaxed: a statistic.
            self.checked.fetch_add(size as u64, Ordering::Relaxed);
        }
    }

    /// Shows the first byte that differs, with what is around it.
    fn report(&self, at: usize, got: &[u8], due: &[u8]) -> ! {
        let equal = got.iter().zip(due).take_while(|(got, due)| got == due).count();
        let around = |bytes: &[u8]| {
            let start = equal.saturating_sub(40);
            bytes[start..bytes.len().min(equal + 60)].escape_ascii().to_string()
        };
        let (client, at) = (self.client, at + equal);
        panic!("client {client}, byte {at}:\n  came {}\n  due  {}", around(got), around(due));
    }
}

/// Sends it in pieces of any size. Whoever reads tells if the server is gone.
fn send(mut stream: TcpStream, requests: &[u8], random: &mut Random) {
    let is_whole = random.one_in(2);
    let mut at = 0;
    while at < requests.len() {
        let rest = &requests[at..];
        let size = if is_whole { rest.len() } else { random.size(1, 1 << 20) as usize };
        let piece = &rest[..size.min(rest.len())];
        if stream.write_all(piece).is_err() {
            return;
        }
        at += piece.len();
        if !is_whole {
            std::thread::yield_now();
        }
    }
}

/// Clients on a server of this kind, for a time.
fn search(name: &str, threads: usize, durability: Durability, random: &mut Random, time: Duration) {
    let folder = tempfile::tempdir().unwrap();
    let options = Options::new().create(true).max_size_bytes(4 << 30).durability(durability);
    let store = options.open(folder.path().join("pool")).unwrap();
    let pause_size = [4 << 10, 64 << 10, 1 << 20][random.below(3) as usize];
    let mut server = TestServer::on(folder, store, |config| {
        config.threads = threads;
        config.output_pause_size = pause_size;
    });
    let end = Instant::now() + time;
    let (checked, pipelines) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..CLIENT_COUNT)
            .map(|client| {
                let random = Random(random.next());
                let (checked, pipelines) = (&checked, &pipelines);
                let address = server.address;
                let mut worker = Worker { address, client, random, end, checked, pipelines };
                scope.spawn(move || worker.run())
            })
            .collect();
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        assert!(results.iter().all(Result::is_ok), "{name}, {threads} threads: see above");
    });
    server.stop().unwrap();
    let (checked, pipelines) = (checked.into_inner() >> 20, pipelines.into_inner());
    println!("{name}, {threads} threads: {pipelines} pipelines, {checked} MiB of replies checked");
    assert!(pipelines > 0, "nothing was done");
}

#[test]
fn each_client_gets_its_own_replies_and_all_of_them() {
    let read = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seconds = read(SECONDS_VARIABLE).unwrap_or(4);
    let clock = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let seed = read(SEED_VARIABLE).unwrap_or(clock);
    println!("{SEED_VARIABLE}={seed} {SECONDS_VARIABLE}={seconds}");
    let mut random = Random(seed);
    let interval = Durability::Interval(Duration::from_millis(5));
    let kinds = [
        ("no log", 1, Durability::Process),
        ("no log", 2, Durability::Process),
        ("power", 2, Durability::Power),
        ("interval", 4, interval),
    ];
    let total = Duration::from_secs(seconds);
    // Each kind several times in a long run, on a new server.
    let rounds = seconds.div_ceil(60).max(1) as u32;
    let part = total / (rounds * kinds.len() as u32);
    for index in 0..rounds * kinds.len() as u32 {
        let (name, threads, durability) = kinds[index as usize % kinds.len()];
        search(name, threads, durability, &mut random, part);
    }
}
