//! `import --follow` from a server of Redis that others write to meanwhile, faster than they are followed.

#![allow(clippy::print_stdout, reason = "says what it skips, and what it has measured")]

use crate::common::PoolFolder;
use crate::redis::Redis;
use crate::serving::Serving;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// More than anything here needs on a slow machine.
const PATIENCE: Duration = Duration::from_secs(300);
/// Commands that are sent together.
const TOGETHER: usize = 2000;
/// Keys with times.
const TIMED: usize = 100_000;

/// A connection of a client.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("it can be set");
        Client(BufReader::new(stream))
    }

    /// Sends commands, each of which has a reply of one line, and returns the last of these.
    fn ask(&mut self, commands: &[String]) -> String {
        let lines: String = commands.iter().map(|command| format!("{command}\r\n")).collect();
        self.0.get_mut().write_all(lines.as_bytes()).expect("it reads");
        let mut reply = String::new();
        for _ in commands {
            reply.clear();
            assert!(self.0.read_line(&mut reply).expect("it answers") > 0, "it has gone");
            assert!(!reply.starts_with('-'), "{reply}");
        }
        reply.trim_end().to_string()
    }

    fn line(&mut self, command: &str) -> String {
        self.ask(&[command.to_string()])
    }

    fn time_left(&mut self, key: &str) -> i64 {
        self.line(&format!("PTTL {key}"))[1..].parse().expect("a number")
    }
}

/// The program that follows; ended when a test fails.
struct Follower(Child);

impl Drop for Follower {
    fn drop(&mut self) {
        // It has usually ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Follower {
    /// Starts it, and waits until it is in step.
    fn start(from: &str, to: &str) -> Self {
        let follow = ["import", from, to, "--follow", "8"];
        let mut child = Command::new(crate::PROGRAM)
            .args(follow)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut line = String::new();
        while !line.contains("in step") {
            line.clear();
            assert!(lines.read_line(&mut line).expect("it is text") > 0, "it has ended");
        }
        // It says more, which is to be read by somebody.
        let _ = std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Follower(child)
    }

    /// Bytes of its memory that are in use.
    fn memory(&self) -> i64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()));
        let status = status.expect("it lives");
        let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("it is told");
        let kib: i64 = line.split_whitespace().nth(1).expect("a number").parse().expect("a number");
        kib << 10
    }

    /// Waits until it ends by itself; what it says at its end.
    fn end(mut self) -> String {
        let mut said = String::new();
        let output = self.0.stdout.as_mut().expect("it is piped");
        output.read_to_string(&mut said).expect("it is text");
        assert!(self.0.wait().expect("it ends").success(), "{said}");
        said
    }
}

/// Waits until what was written at the source is at the target.
fn await_step(source: &mut Client, target: &mut Client, marker: &str) {
    source.line(&format!("SET {marker} x"));
    let start = Instant::now();
    while target.line(&format!("EXISTS {marker}")) != ":1" {
        assert!(start.elapsed() < PATIENCE, "it is not followed");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Sends commands with the numbers from 0 on, so many of each.
fn write_all(source: &mut Client, count: usize, commands: impl Fn(usize) -> Vec<String>) {
    for first in (0..count).step_by(TOGETHER) {
        let together: Vec<String> =
            (first..count.min(first + TOGETHER)).flat_map(&commands).collect();
        source.ask(&together);
    }
}

/// What was lost: a session that was prolonged while the target fell behind; and memory, for each key that had a time
/// and was gone at the source.
#[test]
#[ignore = "a long run: two minutes beside Redis"]
fn very_many_writes_behind_which_the_target_falls_lose_nothing() {
    let place = PoolFolder::empty();
    let Some(redis) = Redis::start("redis-server", &place, &[]) else { return };
    let serving = Serving::start(&place, &["pool", "--durability", "process", "--max-size", "4G"]);
    let (from, to) = (redis.address(), serving.address().to_string());
    let connect = || Client::connect(from.trim_start_matches("redis://"));
    let (mut source, mut target) = (connect(), Client::connect(&to));
    source.line("SET base 1");
    let follower = Follower::start(&from, &format!("redis://{to}"));

    // Locks that come and go leave nothing.
    let locks = |number| {
        vec![format!("SET lock:{number:020} x EX 86400"), format!("DEL lock:{number:020}")]
    };
    write_all(&mut source, 20_000, locks);
    await_step(&mut source, &mut target, "first");
    let before = follower.memory();
    write_all(&mut source, 100_000, locks);
    await_step(&mut source, &mut target, "second");
    let grown = follower.memory() - before;
    println!("100,000 locks: {} KiB more", grown >> 10);
    assert!(grown < 3 << 20, "{grown} bytes are kept for what is gone");

    // A session that is prolonged lives, however far the target is behind.
    source.line("SET session x PX 6000");
    let prolonging = Arc::new(());
    let watch = Arc::downgrade(&prolonging);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = connect();
            while watch.strong_count() > 0 {
                let value = "v".repeat(100);
                write_all(&mut writer, 20_000, |number| vec![format!("SET key:{number} {value}")]);
            }
        });
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(25) {
            assert_eq!(source.line("PEXPIRE session 6000"), ":1", "it is prolonged in time");
            std::thread::sleep(Duration::from_secs(2));
            println!("{:?}: {} ms left", start.elapsed(), target.time_left("session"));
        }
        source.line("PERSIST session");
        drop(prolonging);
    });
    await_step(&mut source, &mut target, "third");
    assert_eq!(target.line("EXISTS session"), ":1", "it is alive at the source");
    assert_eq!(target.time_left("session"), -1);

    // What is noted of times that are there.
    let before = follower.memory();
    write_all(&mut source, TIMED, |number| vec![format!("SET timed:{number:07} x EX 86400")]);
    await_step(&mut source, &mut target, "fourth");
    println!(
        "{} bytes for each time of a key of 13 bytes",
        (follower.memory() - before) / TIMED as i64
    );
    write_all(&mut source, TIMED, |number| vec![format!("PERSIST timed:{number:07}")]);

    let said = follower.end();
    assert!(said.contains("compared with the source"), "{said}");
    serving.signal("TERM");
    assert_eq!(serving.end().code, 0);
}
