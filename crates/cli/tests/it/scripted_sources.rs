//! `everleaf import --follow`, from sources of which each test says what they send.

#![allow(clippy::unwrap_used, reason = "tests may fail")]

use crate::common::PoolFolder;
use crate::importing::serve;
use crate::redis::Redis;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn now_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap().as_millis() as u64
}

/// The commands of lines as a server sends them.
fn sent(lines: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        bytes.extend(format!("*{}\r\n", words.len()).bytes());
        for word in words {
            bytes.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
        }
    }
    bytes
}

/// A source of keys of one letter, each with the time at which it expires, whose stream stops within a transaction,
/// before these commands, until we have told how far we are. Asked whether that was all, it says that it was not, and
/// sends `SET z late`; it does not say what it sends after that. Where it listens.
fn pausing_within_a_transaction(keys: &[(u8, u64)], rest: &[&str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("redis://{}", listener.local_addr().unwrap());
    let mut file = b"REDIS0009\xfe\0".to_vec();
    for (key, time) in keys {
        file.extend([&b"\xfc"[..], &time.to_le_bytes(), b"\0\x01", &[*key], b"\x01v"].concat());
    }
    file.extend(b"\xff\0\0\0\0\0\0\0\0");
    let rest = sent(&[rest, &["EXEC"]].concat());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut input = stream.try_clone().unwrap();
        read_until(&mut input, b"psync2\r\n");
        stream.write_all(b"+OK\r\n").unwrap();
        read_until(&mut input, b"-1\r\n");
        stream.write_all(format!("+FULLRESYNC x 0\r\n${}\r\n", file.len()).as_bytes()).unwrap();
        stream.write_all(&file).unwrap();
        stream.write_all(&sent(&["MULTI", "REPLCONF GETACK *"])).unwrap();
        read_until(&mut input, b"ACK\r\n");
        stream.write_all(&rest).unwrap();
        for (index, asked) in listener.incoming().enumerate() {
            let mut asked = asked.unwrap();
            read_until(&mut asked, b"replication\r\n");
            if index == 0 {
                asked.write_all(b"$26\r\nmaster_repl_offset:9999999\r\n").unwrap();
                stream.write_all(&sent(&["SET z late"])).unwrap();
            } else {
                asked.write_all(b"-NOPERM\r\n").unwrap();
            }
        }
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    address
}

/// What following a source for a second ends with.
fn followed(place: &PoolFolder, source: &str, target: &Redis) -> Output {
    let follow = ["import", source, &target.address(), "--follow", "1", "--no-verify"];
    place.command(follow).output().unwrap()
}

/// What was lost: when all that had come was passed on in the middle of a transaction, the times that were held back
/// were asked for and given within it. The target took that down, and all keys lived for a year.
#[test]
fn the_middle_of_a_transaction_is_not_in_step() {
    let place = PoolFolder::empty();
    let ours = serve(&place, "ours.pool");
    let source = pausing_within_a_transaction(&[(b'k', now_ms() + 3_600_000)], &["SET t w"]);
    let ended = followed(&place, &source, &ours);
    let told = String::from_utf8(ended.stdout).unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(told.starts_with("copied 1 key, 2 commands passed on"), "{told}");
    assert_eq!(ours.run("mget k t\n"), "v\nw\n");
    let left: i64 = ours.run("pttl k\n").trim().parse().unwrap();
    assert!((1..=3_600_000).contains(&left), "{left}");
}

/// What was lost, with the code 0: what the source had written and the network had not brought when nothing had come
/// for the time of `--follow`.
#[test]
fn what_a_source_has_not_sent_yet_is_awaited() {
    let place = PoolFolder::empty();
    let ours = serve(&place, "ours.pool");
    let source = pausing_within_a_transaction(&[(b'k', now_ms() + 3_600_000)], &["SET t w"]);
    let ended = followed(&place, &source, &ours);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(ours.run("mget k t z\n"), "v\nw\nlate\n");
}

/// Reads until this has come.
fn read_until(stream: &mut TcpStream, word: &[u8]) {
    let (mut seen, mut byte) = (Vec::new(), [0]);
    while !seen.ends_with(word) {
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "it goes before {word:?}");
        seen.push(byte[0]);
    }
}

/// A source without keys that has always sent something more, which is no change, when it tells how far it is; asked
/// for the fourth time, it does not tell. Where it listens, and how often it was asked.
fn never_still() -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("redis://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicU64::new(0));
    let counted = count.clone();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        read_until(&mut stream, b"psync2\r\n");
        stream.write_all(b"+OK\r\n").unwrap();
        read_until(&mut stream, b"-1\r\n");
        let file = b"REDIS0009\xff\0\0\0\0\0\0\0\0";
        stream.write_all(format!("+FULLRESYNC x 0\r\n${}\r\n", file.len()).as_bytes()).unwrap();
        stream.write_all(file).unwrap();
        let ping = sent(&["PING"]);
        for asked in listener.incoming() {
            let mut asked = asked.unwrap();
            read_until(&mut asked, b"replication\r\n");
            stream.write_all(&ping).unwrap();
            let count = counted.fetch_add(1, Ordering::Relaxed) + 1;
            let text = format!("master_repl_offset:{}", count * ping.len() as u64);
            let told = format!("${}\r\n{text}\r\n", text.len());
            let answer = if count < 4 { &told } else { "-NOPERM\r\n" };
            asked.write_all(answer.as_bytes()).unwrap();
        }
    });
    (address, count)
}

/// What did not end: following a source where programs publish. Whenever it was asked it had sent something more.
#[test]
fn a_source_that_is_never_still_is_left_without_a_change() {
    let place = PoolFolder::empty();
    let ours = serve(&place, "ours.pool");
    let (source, count) = never_still();
    let ended = followed(&place, &source, &ours);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    assert_eq!(count.load(Ordering::Relaxed), 1, "it is asked once: {said}");
    assert_eq!(said.matches("in step").count(), 1, "{said}");
}

/// What was wrong: Redis sends `PEXPIREAT` on with `GT` or `LT`, as it was given. While times are held back the key has
/// another one at the target, which decided by that: a key kept the time that it had before.
#[test]
fn times_are_those_that_the_source_has_decided_on() {
    const HOUR: u64 = 3_600_000;
    let place = PoolFolder::empty();
    let (ours, now) = (serve(&place, "ours.pool"), now_ms());
    let keys = [(b'l', now + HOUR), (b'e', now + 1000 * HOUR), (b'n', now + HOUR)];
    let (later, earlier) = (now + 50 * HOUR, now + 2 * HOUR);
    let changes = [
        format!("PEXPIREAT l {later} gt"),
        format!("PEXPIREAT e {earlier} lt"),
        format!("PEXPIREAT n {earlier} GT"),
    ];
    let source = pausing_within_a_transaction(&keys, &changes.each_ref().map(String::as_str));
    let ended = followed(&place, &source, &ours);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let found = ours.run("pexpiretime l\npexpiretime e\npexpiretime n\n");
    assert_eq!(found, format!("{later}\n{earlier}\n{earlier}\n"));
}
