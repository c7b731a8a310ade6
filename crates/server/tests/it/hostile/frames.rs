//! Frames of all commands, whole and damaged, in both versions of the protocol: whatever comes, the server answers or
//! closes the connection, serves everybody else, and takes no more memory than what came. The long form:
//!
//! ```text
//! FRAMES=1000000 cargo test -p everleaf-server --test it hostile:: -- --ignored --nocapture
//! ```
//!
//! `FRAMES_SEED` gives the seed, which is printed. The server is a process of its own with limited memory; its pool is
//! checked at the end.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use super::{WORDS, is_left_out};
use crate::support::{Client, ServerProcess, encode, open};

/// Frames that are sent over one connection at most.
const FRAME_COUNT_MAX: u64 = 8;
/// What the server may have grown by since it was warm.
const GROWTH_SIZE_MAX: u64 = 192 << 20;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, limit: usize) -> usize {
        self.next() as usize % limit.max(1)
    }

    fn one_of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

/// Lengths and counts that are wrong, or hard to keep.
const NUMBERS: &[&str] = &[
    "-1",
    "-2",
    "0",
    "1",
    "2",
    "3",
    "7",
    "64",
    "1024",
    "1048576",
    "1048577",
    "536870912",
    "536870913",
    "2147483647",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "00000000001",
    "+1",
    " 1",
    "1 ",
    "0x10",
    "1e3",
    "",
    "x",
    "\0",
];

/// What RESP3 has besides, and clients do not send.
const TYPES: &[u8] = b"*$+-:_#,(!=%~>|.\0\xff ";

/// A request of a command with any arguments, or with those of an option.
fn request(random: &mut Random, names: &[String]) -> Vec<Vec<u8>> {
    let mut request = vec![names[random.below(names.len())].clone().into_bytes()];
    let count = match random.below(50) {
        0 => 300,
        _ => random.below(9),
    };
    for _ in 0..count {
        request.push(match random.below(60) {
            0 => vec![b'x'; random.below(70_000)],
            1 => (0..random.below(40)).map(|_| random.next() as u8).collect(),
            _ => random.one_of(WORDS).as_bytes().to_vec(),
        });
    }
    request
}

/// A frame: most are requests that are damaged in one way.
fn frame(random: &mut Random, names: &[String]) -> Vec<u8> {
    let request = request(random, names);
    let mut bytes = encode(&request);
    match random.below(14) {
        // As it is.
        0..4 => {}
        // Some bytes are others.
        4 => {
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len());
                bytes[at] = random.next() as u8;
            }
        }
        // The end is missing, or a part in the middle.
        5 => bytes.truncate(random.below(bytes.len())),
        6 => {
            let start = random.below(bytes.len());
            let end = start + random.below(bytes.len() - start);
            bytes.drain(start..end);
        }
        // Another count of arguments, or length of one.
        7 | 8 => {
            let lengths: Vec<usize> = (0..bytes.len().min(4096))
                .filter(|at| {
                    matches!(bytes[*at], b'*' | b'$') && (*at == 0 || bytes[at - 1] == b'\n')
                })
                .collect();
            let start = 1 + lengths[random.below(lengths.len())];
            let end = start + bytes[start..].iter().position(|byte| *byte == b'\r').unwrap_or(0);
            let number = random.one_of(NUMBERS).bytes();
            drop(bytes.splice(start..end, number));
        }
        // Another type of frame.
        9 => bytes[0] = TYPES[random.below(TYPES.len())],
        // Arrays in arrays.
        10 => {
            let depth = 1 + random.below(200);
            bytes = [&b"*1\r\n".repeat(depth)[..], &bytes].concat();
        }
        // Inline.
        11 | 12 => {
            bytes = request.join(&[b' ', b'"', b'\'', b'\\'][random.below(4)..][..1]);
            bytes.truncate(random.below(80_000));
            bytes.extend_from_slice([&b"\r\n"[..], b"\n", b"\r", b"\0\r\n"][random.below(4)]);
        }
        // Nothing that anybody would send.
        _ => bytes = (0..random.below(200)).map(|_| random.next() as u8).collect(),
    }
    bytes
}

/// What a server was asked and did.
#[derive(Debug, Default)]
struct Tally {
    frames: u64,
    connections: u64,
    reply_bytes: u64,
    errors: u64,
    closed_by_server: u64,
}

/// Sends some frames over a connection of their own, and reads what comes until the server has closed it.
fn converse(port: u16, random: &mut Random, names: &[String], tally: &mut Tally) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut bytes = match random.below(3) {
        0 => b"HELLO 3\r\n".to_vec(),
        _ => Vec::new(),
    };
    let count = 1 + random.next() % FRAME_COUNT_MAX;
    for _ in 0..count {
        bytes.extend(frame(random, names));
    }
    let mut reader = stream.try_clone().unwrap();
    let is_closed_early = random.below(20) == 0;
    let replies = std::thread::scope(|scope| {
        let replies = scope.spawn(move || {
            let (mut replies, mut chunk) = (Vec::new(), vec![0; 64 << 10]);
            loop {
                match reader.read(&mut chunk) {
                    Ok(0) => return replies,
                    // Enough to count errors in.
                    Ok(size) if replies.len() < 4 << 20 => {
                        replies.extend_from_slice(&chunk[..size])
                    }
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == ErrorKind::ConnectionReset => return replies,
                    Err(error) => panic!("the server neither answers nor closes: {error}"),
                }
            }
        });
        // In pieces, so that frames are read in part.
        let piece = 1 + random.below(bytes.len());
        for part in bytes.chunks(piece) {
            if stream.write_all(part).is_err() {
                tally.closed_by_server += 1;
                break;
            }
        }
        // One that leaves without a word, or one that waits for its replies.
        let how = if is_closed_early { Shutdown::Both } else { Shutdown::Write };
        let _ = stream.shutdown(how);
        replies.join().unwrap()
    });
    tally.frames += count;
    tally.connections += 1;
    tally.reply_bytes += replies.len() as u64;
    tally.errors +=
        replies.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"-")).count() as u64;
}

fn resident(client: &mut Client) -> u64 {
    let info = client.line("INFO memory");
    let (_, rest) = info.split_once("used_memory_rss:").unwrap();
    rest[..rest.find('\\').unwrap()].parse().unwrap()
}

/// Makes a key of each type, so that frames meet some.
fn fill(client: &mut Client) {
    for line in ["FLUSHALL", "SET s v", "RPUSH l a b", "HSET h f v", "SADD k m", "ZADD z 1 m"] {
        assert!(!client.line(line).starts_with('-'), "{line}");
    }
}

fn run(frame_count: u64) {
    let given = std::env::var("FRAMES_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = given.unwrap_or_else(|| u64::from(std::process::id()));
    println!("FRAMES_SEED={seed}");
    let (mut random, mut tally) = (Random(seed), Tally::default());
    let folder = tempfile::tempdir().unwrap();
    // A server that believes a claimed length runs into this.
    let server = ServerProcess::start(folder.path(), "ulimit -v 12000000 &&");
    let mut client = server.connect();
    let list = client.line("COMMAND LIST");
    let all = list.split('"').skip(1).step_by(2);
    // Waiting commands are asked, too: a connection that is closed ends them.
    let names: Vec<String> = all
        .filter(|name| {
            !is_left_out(name) || name.starts_with('b') || *name == "hello" || *name == "client"
        })
        .filter(|name| !matches!(*name, "bgsave"))
        .map(str::to_string)
        .collect();
    let (begin, mut warm, mut told) = (Instant::now(), None, 0);
    while tally.frames < frame_count {
        fill(&mut client);
        for _ in 0..40 {
            converse(server.port, &mut random, &names, &mut tally);
        }
        // Others are served: what a client was asked to be by `CLIENT` was asked of itself.
        assert_eq!(client.line("PING"), "+PONG");
        let now = resident(&mut client);
        let warm = *warm.get_or_insert(now);
        assert!(now < warm + GROWTH_SIZE_MAX, "{now} bytes of memory, {warm} at first: {tally:?}");
        if tally.frames / 100_000 > told {
            told = tally.frames / 100_000;
            println!("{tally:?}, {:.0} s, {} MiB", begin.elapsed().as_secs_f64(), now >> 20);
        }
    }
    println!("{tally:?}, {:.0} s", begin.elapsed().as_secs_f64());
    assert!(tally.errors > tally.frames / 5 && tally.reply_bytes > tally.frames);
    server.stop();
    let store = open(&folder.path().join("test.pool"), 1 << 30);
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
    assert_eq!(everleaf_server::check_collections(&store).unwrap().problems, Vec::<String>::new());
}

#[test]
fn damaged_frames_are_answered_or_end_the_connection() {
    run(3_000);
}

#[test]
#[ignore = "a long run: as many frames as FRAMES says"]
fn very_many_damaged_frames_are_answered_or_end_the_connection() {
    run(std::env::var("FRAMES").map_or(1_000_000, |count| count.parse().unwrap()));
}
