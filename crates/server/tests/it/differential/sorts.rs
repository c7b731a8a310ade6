//! `SORT`: what is in order, and what is in any.

use super::requests::Random;
use super::{Pair, Redis, TestServer};

/// Whether a `SORT` leaves an order free: of texts that are equal by what is `BY` them (numbers that are equal are in
/// the order of the members), and of a set that is not sorted at all.
pub fn is_free(request: &[Vec<u8>]) -> bool {
    let is = |arg: &[u8], word: &[u8]| arg.eq_ignore_ascii_case(word);
    let has_alpha = request.iter().any(|arg| is(arg, b"alpha"));
    let mut patterns = request.windows(2).filter(|pair| is(&pair[0], b"by")).map(|pair| &pair[1]);
    let is_constant = |pattern: &Vec<u8>| {
        pattern.split(|byte| *byte == 0).next().is_none_or(|text| !text.contains(&b'*'))
    };
    patterns.any(|pattern| has_alpha || is_constant(pattern))
}

/// Of weights that are different all of the order is decided, of texts as of numbers.
#[test]
fn what_has_different_weights_is_sorted_as_by_redis() {
    let Some(redis) = Redis::start() else {
        println!("skipped: there is no redis-server here; apt-get install redis-server");
        return;
    };
    let server = TestServer::start();
    let (mut pair, mut random) = (Pair::new(&redis, &server), Random(7));
    let mut weights: Vec<i64> = (-20..20).collect();
    for round in 0..200 {
        pair.line(0, "FLUSHALL");
        for index in 1..weights.len() {
            weights.swap(index, random.next() as usize % (index + 1));
        }
        let key = random.one(&["RPUSH list", "SADD set", "ZADD scores"]);
        for (member, weight) in weights.iter().take(1 + round % 40).enumerate() {
            let score = if key.starts_with('Z') {
                format!(" {}", random.next() % 5)
            } else {
                String::new()
            };
            pair.line(0, &format!("{key}{score} m{member}"));
            pair.line(0, &format!("SET w_m{member} {weight}"));
            pair.line(0, &format!("HSET h_m{member} f {weight}.5"));
        }
        let key = key.split(' ').next_back().unwrap();
        for _ in 0..10 {
            let by = random.one(&["BY w_*", "BY h_*->f"]);
            let order = random.one(&["", " ALPHA", " DESC", " ALPHA DESC", " DESC ALPHA ASC"]);
            let limit = random.one(&["", " LIMIT 0 3", " LIMIT 2 5", " LIMIT 7 -1"]);
            let get = random.one(&["", " GET #", " GET w_* GET #", " GET h_*->f"]);
            let store = random.one(&["", "", " STORE sorted"]);
            let line = format!("SORT {key} {by}{order}{limit}{get}{store}");
            for line in [&line[..], "LRANGE sorted 0 -1"] {
                let (redis, ours) = pair.line(0, line);
                let shown = |raw: &super::Raw| raw.bytes.escape_ascii().to_string();
                assert_eq!(shown(&ours), shown(&redis), "{line} of round {round}");
            }
        }
    }
}
