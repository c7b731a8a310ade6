//! All tests of redis-benchmark: each by itself, with as many requests as take some time, and with what it takes there.

use super::client::{Connection, Figures, Row, benchmark, medians, mixed};
use super::contender::Server;

/// Each round asks everybody, another one first.
pub const ROUNDS: usize = 3;
/// Seconds that a round of a test takes at least: less is told apart by what else the machine does.
const ROUND_S: f64 = 1.0;
/// By so much more requests are sent than take that time by the last measurement.
const MARGIN: f64 = 1.25;
/// Requests of the first, short measurement of a test.
const FIRST_COUNT: u64 = 20_000;
/// Members that are added with one command.
const AT_ONCE: u64 = 1_000;
/// Numbers from 0 on that redis-benchmark draws keys, members and scores from.
const DRAWN: &str = "100000";

/// What a test takes away.
#[derive(Clone, Copy)]
enum Taken {
    Elements,
    Members,
    Scored,
}

/// The tests by their names, in the order in which redis-benchmark has them.
const TESTS: [(&str, Option<Taken>); 19] = [
    ("ping_inline", None),
    ("ping_mbulk", None),
    ("set", None),
    ("get", None),
    ("incr", None),
    ("lpush", None),
    ("rpush", None),
    ("lpop", Some(Taken::Elements)),
    ("rpop", Some(Taken::Elements)),
    ("sadd", None),
    ("hset", None),
    ("spop", Some(Taken::Members)),
    ("zadd", None),
    ("zpopmin", Some(Taken::Scored)),
    ("lrange_100", None),
    ("lrange_300", None),
    ("lrange_500", None),
    ("lrange_600", None),
    ("mset", None),
];

/// Everybody's figures of the tests of these names, parted by commas, or of all, with so many requests in flight.
pub fn rows(servers: &[Server], pipeline: &str, tests: &str) -> Result<Vec<Row>, String> {
    let is_wanted = |name: &str| tests.is_empty() || tests.split(',').any(|test| test == name);
    let wanted = TESTS.iter().filter(|(name, _)| is_wanted(name));
    wanted.map(|(test, taken)| row(servers, pipeline, test, *taken)).collect()
}

fn row(
    servers: &[Server],
    pipeline: &str,
    test: &str,
    taken: Option<Taken>,
) -> Result<Row, String> {
    let (mut count, mut rounds) = (FIRST_COUNT, 1);
    loop {
        let mut found: Vec<Vec<Vec<(String, Figures)>>> = servers.iter().map(|_| vec![]).collect();
        for round in 0..rounds {
            for turn in 0..servers.len() {
                let index = (turn + round) % servers.len();
                found[index].push(vec![run(&servers[index], pipeline, test, taken, count)?]);
            }
        }
        let all = || found.iter().flatten().flatten();
        let fastest = all().map(|(_, figures)| figures.per_second).fold(0.0, f64::max);
        if let Some(more) = longer(count, fastest) {
            (count, rounds) = (more, ROUNDS);
        } else if rounds < ROUNDS {
            rounds = ROUNDS;
        } else {
            let name = all().next().ok_or("no row")?.0.clone();
            let figures = found.iter().map(|rounds| medians(rounds)[&name]).collect();
            return Ok((name, figures));
        }
    }
}

/// More requests, if so many were done too soon by the fastest, which did so many a second.
fn longer(count: u64, fastest: f64) -> Option<u64> {
    (count as f64 / fastest < ROUND_S).then_some((fastest * ROUND_S * MARGIN).ceil() as u64)
}

/// One round of a test.
fn run(
    server: &Server,
    pipeline: &str,
    test: &str,
    taken: Option<Taken>,
    count: u64,
) -> Result<(String, Figures), String> {
    if let Some(taken) = taken {
        fill(server, taken, count)?;
    }
    let requests = count.to_string();
    let arguments = ["-P", pipeline, "-n", &requests, "-c", "50", "-r", DRAWN, "-t", test];
    // Those of LRANGE push first, which is a row, too.
    benchmark(server.port, &arguments)?.pop().ok_or("no row".into())
}

/// Adds as much as so many requests take.
fn fill(server: &Server, taken: Taken, count: u64) -> Result<(), String> {
    let mut connection = Connection::new(server.port)?;
    for start in (0..count).step_by(AT_ONCE as usize) {
        let numbers = || start..(start + AT_ONCE).min(count);
        let members: Vec<String> =
            numbers().map(|number| format!("element:{number:012}")).collect();
        let scores: Vec<String> =
            numbers().map(|number| (mixed(number) % 100_000).to_string()).collect();
        let mut words: Vec<&[u8]> = Vec::new();
        match taken {
            Taken::Elements => {
                words.extend([&b"RPUSH"[..], b"mylist"]);
                words.extend(members.iter().map(|_| &b"xxx"[..]));
            }
            Taken::Members => {
                words.extend([&b"SADD"[..], b"myset"]);
                words.extend(members.iter().map(String::as_bytes));
            }
            Taken::Scored => {
                words.extend([&b"ZADD"[..], b"myzset"]);
                let pairs = scores.iter().zip(&members);
                words.extend(
                    pairs.flat_map(|(score, member)| [score.as_bytes(), member.as_bytes()]),
                );
            }
        }
        connection.add(&words);
        connection.send(1)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::longer;

    #[test]
    fn a_round_that_was_too_short_gets_more_requests() {
        assert_eq!(longer(20_000, 100_000.0), Some(125_000));
        assert_eq!(longer(125_000, 100_000.0), None);
        assert_eq!(longer(20_000, 20_000.0), None);
    }
}
