//! Servers of Redis and Valkey, as far as they are installed.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests may fail, and say what they skip"
)]

use crate::common::PoolFolder;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::ops::Range;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Servers, each of which is tried.
pub const SERVERS: [&str; 2] = ["redis-server", "valkey-server"];

/// A server of Redis or Valkey, with its files in the place.
pub struct Redis {
    pub child: Child,
    pub port: u16,
}

impl Redis {
    /// `None`, which is told, where there is none.
    pub fn start(program: &str, place: &PoolFolder, arguments: &[&str]) -> Option<Self> {
        let port = free_port();
        let started = Command::new(program)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--dir", place.path("").to_str().unwrap(), "--enable-debug-command", "yes"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut child) = started else {
            // Where all programs are to be there, Redis is; Valkey cannot be had everywhere.
            let may_lack = std::env::var_os("EVERLEAF_TEST_ALL_PROGRAMS").is_none();
            assert!(may_lack || program != "redis-server", "there is no {program}");
            println!("skipped: there is no {program}");
            return None;
        };
        let output = child.stdout.take().unwrap();
        Some(Redis::when_up(child, port, output, "Ready to accept connections"))
    }

    /// A server that was started, once a line of its output has these words, which say that it listens.
    pub fn when_up(
        child: Child,
        port: u16,
        output: impl Read + Send + 'static,
        words: &'static str,
    ) -> Self {
        let redis = Redis { child, port };
        let (ready, is_ready) = mpsc::channel();
        // Reads to the end: a server that writes what nobody reads would wait some day.
        std::thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                if String::from_utf8_lossy(&line).contains(words) {
                    // The second such line is of nobody's interest.
                    let _ = ready.send(());
                }
            }
        });
        is_ready.recv_timeout(Duration::from_secs(20)).expect("it comes up");
        redis
    }

    /// Runs lines of redis-cli.
    pub fn run(&self, lines: &str) -> String {
        let mut child = Command::new("redis-cli")
            .args(["-p", &self.port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    }

    /// Runs the requests of a file, of which none may be refused.
    pub fn pipe(&self, path: &Path) {
        let requests = std::fs::File::open(path).unwrap();
        let port = self.port.to_string();
        let piped =
            Command::new("redis-cli").args(["-p", &port, "--pipe"]).stdin(requests).output();
        let piped = String::from_utf8(piped.unwrap().stdout).unwrap();
        assert!(piped.contains("errors: 0"), "{piped}");
    }

    /// Everything that it has, as it tells of itself.
    pub fn digest(&self) -> String {
        self.run("debug digest\n")
    }

    /// Where it is.
    pub fn address(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

/// Ports below those that the system hands out.
const PORTS: Range<u16> = 11_000..20_000;

/// A port that nobody uses. What the system itself hands out is given to the next test that asks for any port while
/// the server that it was meant for still starts: then another test's server is asked, and nobody sees why.
pub fn free_port() -> u16 {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    // Processes that run beside each other begin at different ports.
    let first = std::process::id().wrapping_mul(61);
    for _ in PORTS {
        // Relaxed: only distinct numbers are wanted.
        let number = first.wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed));
        let port = PORTS.start + (number % PORTS.len() as u32) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("none of the ports {PORTS:?} is free");
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Keys of all types in small and large encodings, in three databases.
pub fn fill(redis: &Redis) {
    let mut lines = String::from(
        "set s value\nset n -123456\nset ttl v px 900000000\nset gone v pxat 1\nappend s more\n\
         setrange zeros 5000 x\nrpush l a 1 -5000 70000000000 c\nsadd ints 1 2 3000000000\nsadd set a b 1\n\
         hset h f v g 12\nzadd z 1.5 a -inf b 2e300 c\nexpire h 100000\n",
    );
    for number in 0..600 {
        let long = format!("{number}").repeat(30);
        lines += &format!("rpush long {long}\nsadd bigset {long}\nhset bighash {number} {long}\n");
        lines += &format!("zadd bigz {number}.25 m{number}\nset k{number} {number}\n");
    }
    // A client that asks for what has expired removes it: until then it is part of the digest.
    lines += "get gone\nselect 3\nset s three\nsadd set x\nselect 15\nrpush l last\n";
    redis.run(&lines);
}
