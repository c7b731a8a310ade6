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
//! end their half of the connection, say `QUIT`, break the protocol, go away in the middle, or are killed
//! by another; some change the version of the protocol and switch replies off within a pipeline. One in twelve now and
//! then reads nothing until the server has stopped to serve it, because it has no place for more replies. The long run
//! is `EVERLEAF_REPLIES_PIPELINES=60000 cargo test --release -p everleaf-server --test it replies::`, or `cargo
//! xtask sim`; the seed is printed, and `EVERLEAF_REPLIES_SEED` gives it again. Its length is a number of
//! pipelines, so that it ends with the same work done, and with a verdict, on any machine.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests may fail; what was covered is told"
)]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Client, TestServer, encode};
use everleaf::{Durability, Options};
use socket2::{Domain, Socket, Type};

/// How many pipelines to send.
const PIPELINES_VARIABLE: &str = "EVERLEAF_REPLIES_PIPELINES";
/// The seed of the search.
const SEED_VARIABLE: &str = "EVERLEAF_REPLIES_SEED";

const CLIENT_COUNT: usize = 12;
const KEY_COUNT: u64 = 40;
const PIPELINE_SIZE_MAX: u64 = 4 << 20;
/// Pipelines to one server, after which there is a new one.
const PIPELINE_COUNT_MAX: u64 = 3_000;
/// Replies to one pipeline.
const REPLIES_SIZE_MAX: usize = 12 << 20;

/// Bytes that a client which stops reading has room for, before the server has.
const WINDOW_SIZE: usize = 64 << 10;
/// Bytes of a value that it asks for until its replies have no place any more.
const STOP_VALUE_SIZE: usize = 100_000;

/// Numbers that look random (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        everleaf::random::next(&mut self.0)
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
    /// Whether the connection speaks version 3 of the protocol.
    is_version_3: bool,
}

impl Pipeline {
    fn ask<A: AsRef<[u8]>>(&mut self, args: &[A]) {
        self.requests.extend(encode(args));
    }

    fn expect(&mut self, text: &str) {
        self.replies.extend_from_slice(text.as_bytes());
    }

    fn expect_bulk(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            None if self.is_version_3 => self.expect("_\r\n"),
            None => self.expect("$-1\r\n"),
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
    /// The server's number of the connection.
    id: u64,
    is_version_3: bool,
    /// Version and size, by key.
    values: Vec<Option<(u64, usize)>>,
}

impl Model {
    fn new(client: usize, epoch: u64, id: u64) -> Self {
        let values = vec![None; KEY_COUNT as usize];
        Model { client, epoch, versions: 0, id, is_version_3: false, values }
    }

    fn key(&self, key: u64) -> String {
        format!("{}:{}:{key}", self.client, self.epoch)
    }

    fn value(&self, key: u64) -> Option<Vec<u8>> {
        let (version, size) = self.values[key as usize]?;
        Some(value_of(self.client, key, version, size))
    }

    /// Replies of at least so many bytes come first.
    fn pipeline(&mut self, random: &mut Random, first: usize) -> Pipeline {
        let is_version_3 = self.is_version_3;
        let mut pipeline = Pipeline { is_version_3, ..Pipeline::default() };
        if first > 0 {
            let key = random.below(KEY_COUNT);
            self.add_set_of(&mut pipeline, key, STOP_VALUE_SIZE);
            pipeline.expect("+OK\r\n");
            while pipeline.replies.len() < first {
                self.add_get(&mut pipeline, key);
            }
        }
        let end = REPLIES_SIZE_MAX.max(first + REPLIES_SIZE_MAX / 8);
        let size = random.size(64, PIPELINE_SIZE_MAX) as usize;
        // Runs of one kind are what an event loop treats together.
        let mut kind = random.below(9);
        // Now and then nothing but writes, whose replies are small, or nothing but reads.
        let is_uniform = random.one_in(3);
        while pipeline.requests.len() < size && pipeline.replies.len() < end {
            if !is_uniform && random.one_in(4) {
                kind = random.below(9);
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
            7 => self.add_mode(pipeline, key, random),
            _ => {
                let size = self.values[key as usize].map_or(0, |(_, size)| size);
                pipeline.ask(&["STRLEN".to_string(), self.key(key)]);
                pipeline.replies.extend_from_slice(format!(":{size}\r\n").as_bytes());
                pipeline.requests.extend_from_slice(b"PING\r\n");
                pipeline.replies.extend_from_slice(b"+PONG\r\n");
            }
        }
    }

    /// Changes how the connection is answered.
    fn add_mode(&mut self, pipeline: &mut Pipeline, key: u64, random: &mut Random) {
        match random.below(3) {
            0 => {
                pipeline.ask(&["CLIENT", "REPLY", "SKIP"]);
                self.add_set(pipeline, key, random);
            }
            1 => {
                pipeline.ask(&["CLIENT", "REPLY", "OFF"]);
                self.add_set(pipeline, key, random);
                pipeline.ask(&["GET".to_string(), self.key(key)]);
                pipeline.ask(&["CLIENT", "REPLY", "ON"]);
                pipeline.expect("+OK\r\n");
            }
            _ => {
                self.is_version_3 = !self.is_version_3;
                pipeline.is_version_3 = self.is_version_3;
                let version = if self.is_version_3 { 3 } else { 2 };
                pipeline.ask(&["HELLO".to_string(), version.to_string()]);
                pipeline.expect(if self.is_version_3 { "%7\r\n" } else { "*14\r\n" });
                pipeline.expect("$6\r\nserver\r\n$8\r\neverleaf\r\n$7\r\nversion\r\n");
                pipeline.expect("$5\r\n7.0.0\r\n$5\r\nproto\r\n");
                pipeline.expect(&format!(":{version}\r\n$2\r\nid\r\n:{}\r\n", self.id));
                pipeline.expect("$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n");
                pipeline.expect("$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n");
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
        self.add_set_of(pipeline, key, size as usize);
    }

    fn add_set_of(&mut self, pipeline: &mut Pipeline, key: u64, size: usize) {
        self.versions += 1;
        self.values[key as usize] = Some((self.versions, size));
        let value = self.value(key).expect("it was set just now");
        pipeline.ask(&[&b"SET"[..], self.key(key).as_bytes(), &value]);
    }

    fn add_get(&mut self, pipeline: &mut Pipeline, key: u64) {
        pipeline.ask(&["GET".to_string(), self.key(key)]);
        pipeline.expect_bulk(self.value(key).as_deref());
    }

    fn add_transaction(&mut self, pipeline: &mut Pipeline, random: &mut Random) {
        let count = random.below(20);
        let mut inner = Pipeline { is_version_3: self.is_version_3, ..Pipeline::default() };
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

/// How a connection ends, or that it does not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    None,
    /// The client ends its half.
    HalfClosed,
    /// The client says `QUIT`, and goes on sending.
    Quit,
    /// The client sends what is no request, and goes on.
    Broken,
}

/// One connection after the other, until all is sent.
struct Worker<'a> {
    address: SocketAddr,
    client: usize,
    random: Random,
    /// Pipelines that are still to be sent.
    left: u64,
    /// Whether another client may kill this one's connections.
    is_prey: bool,
    /// Whether it stops reading now and then, and where it asks whether the server has noticed.
    stops: Option<Stops<'a>>,
    checked: &'a AtomicU64,
    pipelines: &'a AtomicU64,
}

/// How a client stops reading.
struct Stops<'a> {
    /// Another connection.
    asks: Client,
    /// From how many unsent bytes on the server does not serve it.
    pause_size: usize,
    /// How often it was not served.
    paused: &'a AtomicU64,
}

impl Stops<'_> {
    /// Waits until the server does not serve the connection of this number any more, or has closed it.
    fn wait(&mut self, id: u64) {
        let since = Instant::now();
        loop {
            let list = self.asks.line("CLIENT LIST");
            let Some(line) = list.split(&format!("id={id} ")).nth(1) else { return };
            let unsent = line.split(" obl=").nth(1).and_then(|rest| rest.split(' ').next());
            let unsent: usize = unsent.expect("it is told").parse().expect("a number");
            if unsent > self.pause_size {
                // Relaxed: a statistic.
                self.paused.fetch_add(1, Ordering::Relaxed);
                return;
            }
            assert!(since.elapsed() < Duration::from_secs(60), "it takes all replies: {line}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Bytes of replies that neither a client that does not read nor the two sockets have room for.
fn replies_without_room() -> usize {
    let limits = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_wmem").unwrap_or_default();
    let largest = limits.split_whitespace().nth(2).and_then(|size| size.parse().ok());
    largest.unwrap_or(4 << 20) + (3 << 20)
}

impl Worker<'_> {
    fn connect(&self) -> TcpStream {
        let socket = Socket::new(Domain::for_address(self.address), Type::STREAM, None).unwrap();
        if self.stops.is_some() {
            socket.set_recv_buffer_size(WINDOW_SIZE).unwrap();
        }
        socket.connect(&self.address.into()).unwrap();
        socket.into()
    }

    fn run(&mut self) {
        let mut epoch = 0;
        while self.left > 0 {
            epoch += 1;
            let mut stream = self.connect();
            // A reply that does not come is a failure, not a hang.
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            stream.set_write_timeout(Some(Duration::from_secs(120))).unwrap();
            let Some(id) = self.ask_id(&mut stream) else { continue };
            let mut model = Model::new(self.client, epoch, id);
            let mut is_first = true;
            while self.left > 0 {
                self.left -= 1;
                let stops = self.stops.is_some() && (is_first || self.random.one_in(4));
                is_first = false;
                let first = if stops { replies_without_room() } else { 0 };
                let mut pipeline = model.pipeline(&mut self.random, first);
                let ending = match self.random.below(40) {
                    0 => {
                        self.leave(&stream, &pipeline);
                        break;
                    }
                    1 => Ending::HalfClosed,
                    2 => Ending::Quit,
                    3 => Ending::Broken,
                    _ => Ending::None,
                };
                self.add_ending(&mut pipeline, ending);
                let stopped = stops.then_some(id);
                let is_alive = self.exchange(&mut stream, &pipeline, ending, stopped);
                if !is_alive {
                    break;
                }
            }
        }
    }

    /// The server's number of the connection; `None` if it was killed already.
    fn ask_id(&self, stream: &mut TcpStream) -> Option<u64> {
        let mut reply = Vec::new();
        let mut byte = [0; 1];
        let asked = stream.write_all(b"CLIENT ID\r\n");
        while asked.is_ok() && stream.read(&mut byte).is_ok_and(|size| size == 1) {
            reply.push(byte[0]);
            if let Some(line) = reply.strip_suffix(b"\r\n") {
                return Some(std::str::from_utf8(&line[1..]).unwrap().parse().unwrap());
            }
        }
        assert!(self.is_prey, "client {}: no number", self.client);
        None
    }

    fn add_ending(&mut self, pipeline: &mut Pipeline, ending: Ending) {
        match ending {
            Ending::None | Ending::HalfClosed => return,
            Ending::Quit => {
                pipeline.ask(&["QUIT"]);
                pipeline.expect("+OK\r\n");
            }
            Ending::Broken => {
                pipeline.requests.extend_from_slice(b"*1\r\n!\r\n");
                pipeline.expect("-ERR Protocol error: expected '$', got '!'\r\n");
            }
        }
        // Nobody will read this.
        let size = self.random.size(1, 1 << 20) as usize;
        pipeline.requests.resize(pipeline.requests.len() + size, b'x');
    }

    /// Sends a part of it and goes away without reading.
    fn leave(&mut self, mut stream: &TcpStream, pipeline: &Pipeline) {
        stream.set_nonblocking(true).unwrap();
        let size = self.random.below(pipeline.requests.len() as u64 + 1) as usize;
        // What the socket takes is enough.
        let _ = stream.write(&pipeline.requests[..size]);
    }

    /// Sends all of it and reads all that is due; if the server's number of the connection is given, only when it is
    /// not served any more. Returns whether the connection is still there.
    fn exchange(
        &mut self,
        stream: &mut TcpStream,
        pipeline: &Pipeline,
        ending: Ending,
        stopped: Option<u64>,
    ) -> bool {
        let writer = stream.try_clone().unwrap();
        let mut pieces = Random(self.random.next());
        let is_alive = std::thread::scope(|scope| {
            scope.spawn(move || {
                send(writer, &pipeline.requests, &mut pieces, ending == Ending::HalfClosed);
            });
            if let (Some(id), Some(stops)) = (stopped, &mut self.stops) {
                stops.wait(id);
            }
            let is_alive = self.check(stream, &pipeline.replies);
            if ending != Ending::None && is_alive {
                let size = stream.read(&mut [0; 1]).unwrap_or(0);
                assert_eq!(size, 0, "client {}: more than the replies came", self.client);
                // So that a writer that nobody listens to ends.
                let _ = stream.shutdown(Shutdown::Both);
            }
            is_alive
        });
        // Relaxed: a statistic.
        self.pipelines.fetch_add(1, Ordering::Relaxed);
        is_alive && ending == Ending::None
    }

    /// Reads what is due, byte for byte. Returns false if the connection was killed before its end.
    fn check(&mut self, stream: &mut TcpStream, expected: &[u8]) -> bool {
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
                Err(error) if error.kind() == ErrorKind::ConnectionReset && self.is_prey => 0,
                result => result.unwrap_or_else(|error| {
                    panic!("client {}: {error} after {at} bytes of replies", self.client)
                }),
            };
            if size == 0 && self.is_prey {
                return false;
            }
            assert!(size > 0, "client {}: the end after {at} bytes of replies", self.client);
            let due = &expected[at..expected.len().min(at + size)];
            if buffer[..size] != *due {
                self.report(at, &buffer[..size], due);
            }
            at += size;
            // Relaxed: a statistic.
            self.checked.fetch_add(size as u64, Ordering::Relaxed);
        }
        true
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

/// Kills one connection after the other, whatever it is doing.
fn kill_some(mut client: Client, random: &mut Random, is_over: &AtomicBool) {
    let mut newest: u64 = 1;
    // Acquire: pairs with the store by the thread that waits for the others.
    while !is_over.load(Ordering::Acquire) {
        for _ in 0..50 {
            assert_eq!(client.line("PING"), "+PONG", "the client that kills is served");
        }
        let list = client.line("CLIENT LIST");
        let ids = list.split("id=").skip(1).filter_map(|line| line.split(' ').next());
        newest = ids.filter_map(|id| id.parse().ok()).max().unwrap_or(newest);
        let id = newest.saturating_sub(random.below(2 * CLIENT_COUNT as u64)).max(1);
        let killed = client.line(&format!("CLIENT KILL ID {id} SKIPME yes"));
        assert!(killed == ":0" || killed == ":1", "{killed}");
    }
}

/// Sends it in pieces of any size. The thread that reads tells if the server is gone.
fn send(mut stream: TcpStream, requests: &[u8], random: &mut Random, ends: bool) {
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
    if ends {
        // Fails if the connection was killed.
        let _ = stream.shutdown(Shutdown::Write);
    }
}

/// A server.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    threads: usize,
    durability: Durability,
    /// Whether a client kills others.
    has_killer: bool,
}

/// Clients on a server of this kind, until each has sent its part. Returns how many pipelines were
/// answered, and how many bytes of replies were checked.
fn search(kind: Kind, random: &mut Random, count: u64) -> (u64, u64) {
    let Kind { name, threads, durability, has_killer } = kind;
    let folder = tempfile::tempdir().unwrap();
    let options = Options::new().create(true).max_size_bytes(4 << 30).durability(durability);
    let store = options.open(folder.path().join("pool")).unwrap();
    let pause_size = [4 << 10, 64 << 10, 1 << 20][random.below(3) as usize];
    let mut server = TestServer::on(folder, store, |config| {
        config.threads = threads;
        config.output_pause_size = pause_size;
    });
    let (left, is_over) = (count.div_ceil(CLIENT_COUNT as u64), AtomicBool::new(false));
    let (checked, pipelines, paused) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for client in 0..CLIENT_COUNT {
            let random = Random(random.next());
            let (checked, pipelines, address) = (&checked, &pipelines, server.address);
            let is_prey = has_killer;
            // The client that kills would kill the connection that asks, too.
            let stops = (client == 0 && !has_killer).then(|| Stops {
                asks: server.connect(),
                pause_size,
                paused: &paused,
            });
            let mut worker =
                Worker { address, client, random, left, is_prey, stops, checked, pipelines };
            threads.push(scope.spawn(move || worker.run()));
        }
        let killer = has_killer.then(|| {
            let (client, mut random, is_over) = (server.connect(), Random(random.next()), &is_over);
            scope.spawn(move || kill_some(client, &mut random, is_over))
        });
        let mut results: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        // Release: pairs with the load by the thread that kills.
        is_over.store(true, Ordering::Release);
        results.extend(killer.map(|killer| killer.join()));
        assert!(results.iter().all(Result::is_ok), "{name}: see above");
    });
    server.stop().unwrap();
    let (checked, pipelines) = (checked.into_inner(), pipelines.into_inner());
    let size = checked >> 20;
    let paused = paused.into_inner();
    println!(
        "{name}, {threads} threads: {pipelines} pipelines, {size} MiB of replies checked, {paused} behind a pause"
    );
    assert!(pipelines > 0, "nothing was done");
    assert!(paused > 0 || has_killer, "nobody stopped reading");
    (pipelines, checked)
}

#[test]
fn each_client_gets_its_own_replies_and_all_of_them() {
    search_all_kinds(250);
}

#[test]
#[ignore = "guards a landing"]
fn landing_each_client_gets_its_own_replies_of_many_pipelines() {
    search_all_kinds(600);
}

/// So many pipelines, unless the environment says otherwise.
fn search_all_kinds(count: u64) {
    let read = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let count = read(PIPELINES_VARIABLE).unwrap_or(count);
    let clock = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let seed = read(SEED_VARIABLE).unwrap_or(clock);
    println!("{SEED_VARIABLE}={seed} {PIPELINES_VARIABLE}={count}");
    let mut random = Random(seed);
    let interval = Durability::Interval(Duration::from_millis(5));
    let kind =
        |name, threads, durability, has_killer| Kind { name, threads, durability, has_killer };
    let kinds = [
        kind("no log", 1, Durability::Process, false),
        kind("no log", 2, Durability::Process, false),
        kind("power", 2, Durability::Power, false),
        kind("interval", 4, interval, false),
        kind("no log, killed clients", 2, Durability::Process, true),
    ];
    // Each kind several times in a long run, on a new server.
    let rounds = count.div_ceil(PIPELINE_COUNT_MAX * kinds.len() as u64).max(1);
    let part = count.div_ceil(rounds * kinds.len() as u64);
    let (mut pipelines, mut checked) = (0, 0);
    for _ in 0..rounds {
        for &kind in &kinds {
            let (more_pipelines, more_checked) = search(kind, &mut random, part);
            pipelines += more_pipelines;
            checked += more_checked;
        }
    }
    println!("ok: {pipelines} pipelines answered, {checked} bytes of replies, each as it was due");
}
