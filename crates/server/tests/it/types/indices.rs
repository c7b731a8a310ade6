//! What YCSB's client for Redis keeps: a hash for each record, and a sorted set `_indices` of their keys. Several
//! threads put and remove records while others scan.
//!
//! The client sends two commands without a transaction. Two threads that change the same record may then leave it in
//! one place and not in the other, whatever the server does; so that is demanded of records of which one thread alone
//! changes each, and of all others with transactions. That a scan ascends is demanded always.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Client, TestServer, encode};

const WRITER_COUNT: u64 = 4;
const RECORD_COUNT: u64 = 150;
const STEP_COUNT: u64 = 1200;
const SCAN_LENGTH: &str = "40";

/// The score of a record, by which neighbours in number are far from one another.
fn score_of(record: u64) -> u64 {
    record.wrapping_mul(0x9e37_79b9) % 100_003
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        everleaf::random::next(&mut self.0) % bound
    }
}

/// Sends lines in one write, and returns the last reply.
fn together(client: &mut Client, lines: &[String]) -> String {
    let words = |line: &String| encode(&line.split(' ').collect::<Vec<_>>());
    client.send(&lines.iter().flat_map(words).collect::<Vec<u8>>());
    let replies = lines.iter().map(|_| client.reply());
    replies.last().expect("there are lines")
}

/// Puts and removes records, those that are its own or any.
fn write(client: &mut Client, writer: u64, is_shared: bool) {
    let mut random = Random(writer);
    for step in 0..STEP_COUNT {
        let drawn = random.below(RECORD_COUNT);
        let record = if is_shared { drawn } else { drawn / WRITER_COUNT * WRITER_COUNT + writer };
        let key = format!("user{record}");
        let mut lines = match random.below(3) {
            0 => vec![format!("DEL {key}"), format!("ZREM _indices {key}")],
            _ => vec![
                format!("HMSET {key} field0 {step} field1 {writer}"),
                format!("ZADD _indices {} {key}", score_of(record)),
            ],
        };
        if is_shared {
            lines = [vec!["MULTI".to_string()], lines, vec!["EXEC".to_string()]].concat();
        }
        let last = together(client, &lines);
        assert!(!last.starts_with('-'), "{last}");
    }
}

/// Members and scores of a reply.
fn pairs(reply: &str) -> Vec<(String, u64)> {
    let words: Vec<&str> = reply
        .trim_matches(['[', ']'])
        .split_whitespace()
        .map(|word| word.trim_matches('"'))
        .collect();
    let pair = |pair: &[&str]| (pair[0].to_string(), pair[1].parse().expect("a whole score"));
    words.chunks(2).map(pair).collect()
}

/// Scans from scores on until all is written; each scan ascends, and has the score of each record.
fn scan(client: &mut Client, is_over: &AtomicBool, is_shared: bool) -> usize {
    let (mut random, mut seen) = (Random(99), 0);
    // Acquire: pairs with the release behind the writers; only so that the loop ends.
    while !is_over.load(Ordering::Acquire) {
        let from = score_of(random.below(RECORD_COUNT));
        let line = format!("ZRANGEBYSCORE _indices {from} +inf WITHSCORES LIMIT 0 {SCAN_LENGTH}");
        let found = pairs(&client.line(&line));
        assert!(found.windows(2).all(|pair| pair[0].1 < pair[1].1), "{found:?}");
        assert!(found.iter().all(|(_, score)| *score >= from), "{from}: {found:?}");
        for (key, score) in &found {
            let record = key.trim_start_matches("user").parse().expect("it has a number");
            assert_eq!(*score, score_of(record), "{key}");
        }
        seen += found.len();
        if is_shared {
            let record = random.below(RECORD_COUNT);
            let lines = ["MULTI", &format!("ZSCORE _indices user{record}"), "EXISTS_", "EXEC"]
                .map(|line| line.replace("EXISTS_", &format!("EXISTS user{record}")));
            let both = together(client, &lines);
            let expected = format!("[\"{}\" :1]", score_of(record));
            assert!(both == expected || both == "[nil :0]", "{both}");
        }
    }
    seen
}

fn run(is_shared: bool) {
    let server = TestServer::start();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let scans: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| scan(&mut server.connect(), &is_over, is_shared)))
            .collect();
        let writers: Vec<_> = (0..WRITER_COUNT)
            .map(|writer| {
                let server = &server;
                scope.spawn(move || write(&mut server.connect(), writer, is_shared))
            })
            .collect();
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        // Release: pairs with the acquire of the scans.
        is_over.store(true, Ordering::Release);
        ended.into_iter().for_each(|end| end.expect("it wrote all"));
        assert!(
            scans.into_iter().map(|scan| scan.join().expect("it saw order")).sum::<usize>() > 0
        );
    });
    let mut client = server.connect();
    let words = |reply: String| -> BTreeSet<String> {
        reply.trim_matches(['[', ']']).split_whitespace().map(str::to_string).collect()
    };
    let (keys, indices) = (client.line("KEYS user*"), client.line("ZRANGE _indices 0 -1"));
    assert_eq!(words(keys), words(indices));
    assert_ne!(client.line("ZCARD _indices"), ":0");
}

#[test]
fn scans_ascend_while_each_thread_changes_its_own_records() {
    run(false);
}

#[test]
fn transactions_keep_records_and_their_index_the_same() {
    run(true);
}
