//! Sorted sets of many members against a model: ranks, ranges and counts, whatever comes and goes.

use std::collections::BTreeMap;

use crate::support::{Client, TestServer, encode};
use everleaf_server::check_collections;

/// Numbers by a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Members with their scores.
type Model = BTreeMap<String, i64>;

fn in_order(model: &Model) -> Vec<(i64, String)> {
    let mut all: Vec<_> = model.iter().map(|(member, score)| (*score, member.clone())).collect();
    all.sort();
    all
}

/// Adds and removes many members with one pipeline.
fn change(client: &mut Client, random: &mut Random, model: &mut Model, adding: u64) {
    let mut requests = Vec::new();
    for _ in 0..1_000 {
        let member = format!("m{}", random.below(4_000));
        if random.below(100) < adding {
            let score = random.below(500) as i64 - 250;
            requests.extend(encode(&["ZADD", "z", &score.to_string(), &member]));
            model.insert(member, score);
        } else {
            requests.extend(encode(&["ZREM", "z", &member]));
            model.remove(&member);
        }
    }
    client.send(&requests);
    (0..1_000).for_each(|_| assert!(client.reply().starts_with(':')));
}

fn compare(client: &mut Client, random: &mut Random, model: &Model) {
    let all = in_order(model);
    assert_eq!(client.line("ZCARD z"), format!(":{}", all.len()));
    for _ in 0..60 {
        let rank = random.below(all.len() as u64) as usize;
        let (score, member) = &all[rank];
        let from_end = all.len() - 1 - rank;
        assert_eq!(client.line(&format!("ZRANK z {member}")), format!(":{rank}"));
        assert_eq!(client.line(&format!("ZREVRANK z {member}")), format!(":{from_end}"));
        assert_eq!(client.line(&format!("ZRANGE z {rank} {rank}")), format!("[\"{member}\"]"));
        assert_eq!(
            client.line(&format!("ZREVRANGE z {from_end} {from_end}")),
            format!("[\"{member}\"]")
        );
        let below = all.iter().filter(|(other, _)| other < score).count();
        let same = all.iter().filter(|(other, _)| other == score).count();
        assert_eq!(client.line(&format!("ZCOUNT z -inf ({score}")), format!(":{below}"));
        assert_eq!(client.line(&format!("ZCOUNT z {score} {score}")), format!(":{same}"));
    }
}

#[test]
fn ranks_are_those_of_a_model() {
    let server = TestServer::start();
    let mut client = server.connect();
    let (mut random, mut model) = (Random(7), Model::new());
    for round in 0..14 {
        // It grows, and shrinks again.
        let adding = if round < 8 { 85 } else { 25 };
        change(&mut client, &mut random, &mut model, adding);
        compare(&mut client, &mut random, &model);
        if round == 7 {
            let all = in_order(&model);
            let (first, last) = (all.len() / 3, all.len() / 2);
            let count = last - first + 1;
            let line = format!("ZREMRANGEBYRANK z {first} {last}");
            assert_eq!(client.line(&line), format!(":{count}"));
            for (_, member) in &all[first..=last] {
                model.remove(member);
            }
            compare(&mut client, &mut random, &model);
        }
    }
    // In one batch, as a copy.
    let count = model.len();
    assert_eq!(client.line("ZUNIONSTORE z 1 z"), format!(":{count}"));
    compare(&mut client, &mut random, &model);
    assert_eq!(client.line("ZREMRANGEBYRANK z 0 -1"), format!(":{count}"));
    assert_eq!(client.line("EXISTS z"), ":0");
}

/// A weight that makes a score no number: 0 in a union at once, in an intersection only in a sum.
#[test]
fn weights_that_make_no_number_count_as_in_redis() {
    let server = TestServer::start();
    let mut client = server.connect();
    assert_eq!(client.line("ZADD z inf a"), ":1");
    for (aggregate, of_inter, of_union) in
        [("SUM", "0", "inf"), ("MIN", "inf", "0"), ("MAX", "inf", "inf")]
    {
        let told = |score: &str| format!("[\"a\" \"{score}\"]");
        let rest = format!("2 z z WEIGHTS inf 0 AGGREGATE {aggregate} WITHSCORES");
        assert_eq!(client.line(&format!("ZINTER {rest}")), told(of_inter), "{aggregate}");
        assert_eq!(client.line(&format!("ZUNION {rest}")), told(of_union), "{aggregate}");
    }
}

#[test]
fn a_sorted_set_is_part_of_transactions() {
    let server = TestServer::start();
    let mut client = server.connect();
    for line in [
        "MULTI",
        "ZADD z 1 a 2 b",
        "ZRANK z b",
        "ZPOPMIN z",
        "ZADD z 5 b",
        "ZADD z 1 c",
        "ZRANK z b",
    ] {
        client.line(line);
    }
    assert_eq!(client.line("EXEC"), "[:2 :1 [\"a\" \"1\"] :0 :1 :1]");
    assert_eq!(client.line("ZRANGE z 0 -1 WITHSCORES"), "[\"c\" \"1\" \"b\" \"5\"]");
    assert!(client.line("GET z").starts_with("-WRONGTYPE"));
    assert!(client.line("SADD z a").starts_with("-WRONGTYPE"));
    assert_eq!(client.line("TYPE z"), "+zset");
}

/// A command that changes a set of many members, what it answers, and whether it fails with part of its work done.
fn step(random: &mut Random, model: &mut Model) -> (Vec<String>, String, bool) {
    let member = format!("m{}", random.below(3_000));
    let score = random.below(400) as i64 - 200;
    let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
    match random.below(8) {
        0..=2 => {
            let is_new = model.insert(member.clone(), score).is_none();
            let answer = format!(":{}", u8::from(is_new));
            (words(&["ZADD", "z", &score.to_string(), &member]), answer, false)
        }
        3 => {
            let answer = format!(":{}", u8::from(model.remove(&member).is_some()));
            (words(&["ZREM", "z", &member]), answer, false)
        }
        4 => {
            let long = "x".repeat((64 << 10) + 1);
            let score = score.to_string();
            let words = words(&["ZADD", "z", &score, &member, &score, "other", &score, &long]);
            (words, String::new(), true)
        }
        part => {
            let (all, count) = (in_order(model), 1 + random.below(3) as usize);
            let (name, popped): (_, Vec<_>) = match part == 7 {
                true => ("ZPOPMAX", all.into_iter().rev().take(count).collect()),
                false => ("ZPOPMIN", all.into_iter().take(count).collect()),
            };
            let told = |(score, member): &(i64, String)| format!("\"{member}\" \"{score}\"");
            let answer = popped.iter().map(told).collect::<Vec<_>>().join(" ");
            for (_, member) in &popped {
                model.remove(member);
            }
            (words(&[name, "z", &count.to_string()]), format!("[{answer}]"), false)
        }
    }
}

/// What a step has in memory of a set is taken back with a command that fails, written with the others, and fits what
/// later steps find, whichever client makes them.
#[test]
fn pops_and_counts_are_those_of_a_model() {
    let mut server = TestServer::start();
    let mut clients = [server.connect(), server.connect()];
    let (mut random, mut model) = (Random(11), Model::new());
    for round in 0..60 {
        let is_transaction = round % 3 == 2;
        let client = &mut clients[random.below(2) as usize];
        if round % 15 == 0 {
            change(client, &mut random, &mut model, 100);
        }
        let mut steps: Vec<_> = (0..40).map(|_| step(&mut random, &mut model)).collect();
        if !is_transaction {
            steps.retain(|(_, _, fails)| !fails);
        }
        let mut request = if is_transaction { encode(&["MULTI"]) } else { vec![] };
        steps.iter().for_each(|(words, _, _)| request.extend(encode(words)));
        if is_transaction {
            request.extend(encode(&["EXEC"]));
        }
        client.send(&request);
        if is_transaction {
            (0..=steps.len()).for_each(|_| assert!(client.reply().starts_with('+')));
            let reply = client.reply();
            for (words, answer, fails) in &steps {
                assert!(*fails || reply.contains(answer.as_str()), "{words:?}: {answer}: {reply}");
            }
            assert_eq!(reply.matches("-ERR").count(), steps.iter().filter(|it| it.2).count());
        } else {
            for (words, answer, _) in &steps {
                assert_eq!(&client.reply(), answer, "{words:?} in round {round}");
            }
        }
        if round % 5 == 4 {
            compare(client, &mut random, &model);
        }
    }
    server.stop().unwrap();
    assert_eq!(check_collections(&server.store).unwrap().problems, Vec::<String>::new());
}

/// What was told: `MEMORY USAGE` counted the separators of a sorted set, which are chosen by a secret of the pool. So a
/// client found members that are none, and made a set of them, in which a rank is found by going through all.
#[test]
fn the_size_of_a_sorted_set_does_not_tell_its_separators() {
    let server = TestServer::start();
    let mut client = server.connect();
    let sizes = [0, 1, 2, 3, 4, 5].map(|set| {
        let members = (0..1000).flat_map(|number| ["1".to_string(), format!("{set}:{number:04}")]);
        let add: Vec<String> =
            ["ZADD".into(), format!("z{set}")].into_iter().chain(members).collect();
        assert_eq!(client.ask(&add), ":1000");
        let usage = |client: &mut Client, samples| {
            client.line(&format!("MEMORY USAGE z{set} SAMPLES {samples}"))
        };
        (usage(&mut client, 0), usage(&mut client, 5))
    });
    assert!(sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");
    assert_eq!(sizes[0].0, sizes[0].1, "of members of one length an estimate is exact");
}
