//! What one server dumps, the other restores.

use super::requests::{FAMILIES, Random, request};
use super::{Pair, Raw, Redis};
use crate::support::TestServer;

/// Requests that make keys, per round.
const REQUEST_COUNT: usize = 120;
const ROUND_COUNT: u64 = 12;

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// The bytes of a reply with one string.
fn bulk(raw: &Raw) -> Option<Vec<u8>> {
    let start = raw.bytes.windows(2).position(|pair| pair == b"\r\n")? + 2;
    Some(raw.bytes[start..raw.bytes.len().checked_sub(2)?].to_vec())
}

/// What shows all that a key of a type holds, its order left out.
fn shown(pair: &mut Pair, is_ours: bool, key: &[u8]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let connection = if is_ours { &mut pair.ours[0] } else { &mut pair.redis[0] };
    let kind = connection.ask(&[b"TYPE".to_vec(), key.to_vec()]).bytes;
    let (line, size): (&str, usize) = match &kind[..] {
        b"+string\r\n" => ("GET", 1),
        b"+list\r\n" => ("LRANGE 0 -1", 1),
        b"+set\r\n" => ("SMEMBERS", 1),
        b"+hash\r\n" => ("HGETALL", 2),
        b"+zset\r\n" => ("ZRANGE 0 -1 WITHSCORES", 2),
        _ => return (kind, vec![]),
    };
    let mut ask = words(line);
    ask.insert(1, key.to_vec());
    let reply = connection.ask(&ask);
    if line == "LRANGE 0 -1" || size == 1 && reply.children.is_empty() {
        return (kind, vec![reply.bytes]);
    }
    let is_scored = kind == b"+zset\r\n";
    (kind, reply.sorted_groups(size).into_iter().map(|group| one(&group, is_scored)).collect())
}

/// A member with what it has. Scores are numbers: Valkey writes 0.00001 where Redis writes 1.0000000000000001e-05.
fn one(group: &[&[u8]], is_scored: bool) -> Vec<u8> {
    let text = std::str::from_utf8(group[group.len() - 1]).ok();
    let score = text.and_then(|text| text.split("\r\n").nth(1)?.parse::<f64>().ok());
    match score {
        Some(score) if is_scored => [group[0], &score.to_be_bytes()].concat(),
        _ => group.concat(),
    }
}

/// Makes keys in one server, and compares them with what the other restores of their payloads.
fn round(pair: &mut Pair, seed: u64, from_ours: bool) -> usize {
    let mut random = Random(seed);
    for connection in [&mut pair.redis[0], &mut pair.ours[0]] {
        connection.ask(&words("RESET"));
        connection.ask(&words("FLUSHALL"));
    }
    let source = |pair: &mut Pair, request: &[Vec<u8>]| {
        let connection = if from_ours { &mut pair.ours[0] } else { &mut pair.redis[0] };
        connection.ask(request)
    };
    for _ in 0..REQUEST_COUNT {
        let family = FAMILIES[1 + random.next() as usize % 4];
        let request = request(&mut random, family);
        let name = request[0].to_ascii_lowercase();
        // Those that change the connection, or wait.
        let is_other =
            [&b"hello"[..], b"client", b"multi", b"reset", b"auth", b"save", b"flushall"];
        if !is_other.contains(&&name[..]) && !name.starts_with(b"b") {
            source(pair, &request);
        }
    }
    for index in 0..40 {
        let value = "v".repeat(1 + index * 97 % 300);
        source(pair, &words(&format!("RPUSH long:list {value} {index} -{index}000")));
        source(pair, &words(&format!("HSET long:hash f{index} {value}")));
        source(pair, &words(&format!("SADD numbers {index} {}", index * 70_000)));
        source(pair, &words(&format!("ZADD long:zset {index}.5 {value}")));
        source(pair, &words(&format!("APPEND long:string {value}")));
    }
    let keys = source(pair, &words("KEYS *"));
    let mut count = 0;
    for key in keys.children.iter().filter_map(bulk) {
        let payload = source(pair, &[b"DUMP".to_vec(), key.clone()]);
        let Some(payload) = bulk(&payload) else { continue };
        let restore =
            [b"RESTORE".to_vec(), key.clone(), b"0".to_vec(), payload, b"REPLACE".to_vec()];
        let other = if from_ours { &mut pair.redis[0] } else { &mut pair.ours[0] };
        let reply = other.ask(&restore);
        let key_shown = key.escape_ascii();
        assert_eq!(
            reply.bytes,
            b"+OK\r\n",
            "seed {seed} {key_shown}: {}",
            reply.bytes.escape_ascii()
        );
        let (redis, ours) = (shown(pair, false, &key), shown(pair, true, &key));
        assert_eq!(redis, ours, "seed {seed} {key_shown}");
        count += 1;
    }
    count
}

fn read_by_the_other(program: &str) {
    let Some(redis) = Redis::start_program(program) else {
        println!("skipped: there is no {program} here");
        return;
    };
    let server = TestServer::start();
    let mut pair = Pair::new(&redis, &server);
    let mut count = 0;
    for seed in 0..ROUND_COUNT {
        count += round(&mut pair, seed, false) + round(&mut pair, seed, true);
    }
    println!("{count} payloads were read by the other server: {program} and this one");
    assert!(count as u64 > 10 * ROUND_COUNT);
}

#[test]
fn payloads_are_read_by_the_other_server() {
    read_by_the_other("redis-server");
}

/// Valkey 8 writes version 80 of the format, or 11, and reads what is not newer.
#[test]
fn payloads_are_read_by_the_other_server_valkey() {
    read_by_the_other("valkey-server");
}
