//! The same requests, many in one write: what a server does together must answer as what it does one by one.

use std::io::Write;

use super::requests::{FAMILIES, Random, request};
use super::{CONNECTION_COUNT, Connection, Pair, Raw, Redis, State, is_same, waiting};
use crate::support::{TestServer, encode};

/// Requests of one sequence, and of one write at most.
const SEQUENCE_LENGTH: usize = 120;
const PIPELINE_LENGTH: u64 = 40;

/// Sends requests with one write, and returns the replies.
fn ask_all(connection: &mut Connection, requests: &[Vec<Vec<u8>>]) -> Vec<Raw> {
    connection.asked = requests.iter().flat_map(|request| encode(request)).collect();
    connection.stream.write_all(&connection.asked).unwrap();
    requests.iter().map(|_| connection.reply()).collect()
}

fn run(pair: &mut Pair, seed: u64) -> Result<(), String> {
    let mut random = Random(seed);
    pair.reset(&mut random);
    let (mut state, mut told) = (State::default(), Vec::new());
    let preferred = FAMILIES[seed as usize % FAMILIES.len()];
    while told.len() < SEQUENCE_LENGTH {
        let connection = random.next() as usize % CONNECTION_COUNT;
        let count = 1 + random.next() % PIPELINE_LENGTH;
        let mut requests: Vec<_> = (0..count).map(|_| request(&mut random, preferred)).collect();
        requests.retain(|request| !waiting::waits_long(request));
        let redis = ask_all(&mut pair.redis[connection], &requests);
        let ours = ask_all(&mut pair.ours[connection], &requests);
        for (request, (redis, ours)) in requests.iter().zip(redis.iter().zip(&ours)) {
            let shown: Vec<String> =
                request.iter().map(|arg| format!("\"{}\"", arg.escape_ascii())).collect();
            told.push(format!("{connection}: {}", shown.join(" ")));
            if !is_same(request, redis, ours, &state, connection) {
                let start = told.len().saturating_sub(40);
                return Err(format!(
                    "seed {seed}\n{}\n  redis {}\n  ours  {}",
                    told[start..].join("\n"),
                    redis.bytes.escape_ascii(),
                    ours.bytes.escape_ascii()
                ));
            }
            state.note(connection, request, redis);
            if state.has_parted.get() {
                return Ok(());
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
    let server = TestServer::start();
    let mut pair = Pair::new(&redis, &server);
    let read = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let first = read("DIFFERENCE_FROM").unwrap_or(1);
    let seeds = match read("DIFFERENCE_SEED") {
        Some(seed) => seed..seed + 1,
        None => first..first + count.div_ceil(SEQUENCE_LENGTH as u64),
    };
    let differences: Vec<_> = seeds.filter_map(|seed| run(&mut pair, seed).err()).take(6).collect();
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

#[test]
fn pipelines_answer_as_those_of_redis() {
    compare(12_000);
}

#[test]
#[ignore = "a long run: as many requests as DIFFERENCES says"]
fn very_many_pipelines_answer_as_those_of_redis() {
    compare(std::env::var("DIFFERENCES").map_or(1_000_000, |count| count.parse().unwrap()));
}
