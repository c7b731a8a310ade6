//! What pipelines take from lists and sets one by one, which is read ahead: it is what is there, whatever the same
//! pipeline changes in between.

use std::collections::{BTreeSet, VecDeque};

use super::series::pipeline;
use crate::support::{TestServer, eventually};

/// Numbers that look drawn.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// One request of a list, and its reply by a model of it.
fn request_of_list(
    list: &mut VecDeque<String>,
    random: &mut Random,
    number: usize,
) -> (String, String) {
    let told =
        |element: Option<String>| element.map_or("nil".into(), |element| format!("\"{element}\""));
    match random.below(24) {
        0..3 => {
            list.push_front(format!("l{number}"));
            (format!("LPUSH list l{number}"), format!(":{}", list.len()))
        }
        3..6 => {
            list.push_back(format!("r{number}"));
            (format!("RPUSH list r{number}"), format!(":{}", list.len()))
        }
        6..13 => ("LPOP list".into(), told(list.pop_front())),
        13..20 => ("RPOP list".into(), told(list.pop_back())),
        20 => {
            let at = random.below(40) as usize;
            let value = format!("set{number}");
            let is_there = !list.is_empty();
            let reply = match list.get_mut(at) {
                None if is_there => "-ERR index out of range".into(),
                None => "-ERR no such key".into(),
                Some(element) => {
                    element.clone_from(&value);
                    "+OK".into()
                }
            };
            (format!("LSET list {at} {value}"), reply)
        }
        21 => {
            // The first element goes wherever it stands, and what is behind it moves.
            let value = list.get(random.below(10) as usize).cloned().unwrap_or("none".into());
            let at = list.iter().position(|element| *element == value);
            at.map(|at| list.remove(at));
            (format!("LREM list 1 {value}"), format!(":{}", u8::from(at.is_some())))
        }
        22 if list.len() > 2 => {
            list.pop_front();
            list.pop_back();
            ("LTRIM list 1 -2".into(), "+OK".into())
        }
        _ => {
            let mut all: Vec<String> = (0..40).map(|index| format!("m{number}-{index}")).collect();
            list.extend(all.iter().cloned());
            all.insert(0, "RPUSH list".into());
            (all.join(" "), format!(":{}", list.len()))
        }
    }
}

#[test]
fn elements_of_a_list() {
    let server = TestServer::start();
    let mut client = server.connect();
    let (mut list, mut random) = (VecDeque::new(), Random(11));
    for round in 0..400 {
        let table: Vec<(String, String)> = (0..1 + random.below(100) as usize)
            .map(|index| request_of_list(&mut list, &mut random, 1_000 * round + index))
            .collect();
        let lines: Vec<&str> = table.iter().map(|(line, _)| line.as_str()).collect();
        for ((line, wanted), reply) in table.iter().zip(pipeline(&mut client, &lines)) {
            assert_eq!(reply, *wanted, "round {round}, {line}");
        }
    }
    let report = everleaf_server::check_collections(&server.store).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
}

#[test]
fn members_of_a_set() {
    let server = TestServer::start();
    let mut client = server.connect();
    let (mut set, mut random) = (BTreeSet::new(), Random(12));
    for round in 0..300 {
        let count = random.below(5) * 100;
        let mut lines: Vec<String> =
            (0..count).map(|_| format!("SADD set {}", random.below(2_000))).collect();
        for _ in 0..random.below(120) {
            lines.push(match random.below(12) {
                0 => format!("SREM set {}", random.below(2_000)),
                1 => format!("SADD set {}", random.below(2_000)),
                2 => "SPOP set 3".to_string(),
                _ => "SPOP set".to_string(),
            });
        }
        let asked: Vec<&str> = lines.iter().map(String::as_str).collect();
        for (line, reply) in lines.iter().zip(pipeline(&mut client, &asked)) {
            let words: Vec<&str> = line.split(' ').collect();
            let popped: Vec<&str> =
                reply.split(['"', '[', ']', ' ', '~']).filter(|it| !it.is_empty()).collect();
            match words[..] {
                ["SADD", _, member] => {
                    assert_eq!(reply, format!(":{}", u8::from(set.insert(member.to_string()))));
                }
                ["SREM", _, member] => {
                    assert_eq!(reply, format!(":{}", u8::from(set.remove(member))));
                }
                ["SPOP", ..] if set.is_empty() => {
                    assert!(["nil", "[]", "~[]"].contains(&&*reply), "{reply}")
                }
                _ => {
                    let wanted = if words.len() == 3 { set.len().min(3) } else { 1 };
                    assert_eq!(popped.len(), wanted, "{line}: {reply}");
                    for member in popped {
                        assert!(set.remove(member), "round {round}, {line}: {member} is not there");
                    }
                }
            }
        }
        assert_eq!(client.line("SCARD set"), format!(":{}", set.len()), "round {round}");
    }
    let report = everleaf_server::check_collections(&server.store).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
}

/// Every member of a large set has its chance, although those of one pipeline are neighbours.
#[test]
fn pipelines_take_other_members_each_time() {
    let server = TestServer::start();
    let mut client = server.connect();
    let all: Vec<String> = (0..1_000).map(|number| format!("{number}")).collect();
    let mut first = BTreeSet::new();
    for _ in 0..40 {
        client.line(&format!("SADD set {}", all.join(" ")));
        let replies = pipeline(&mut client, &["SPOP set"; 20]);
        assert_eq!(replies.iter().collect::<BTreeSet<_>>().len(), 20, "each is taken once");
        first.insert(replies[19].clone());
    }
    // Of 40 drawn of a thousand few are equal.
    assert!(first.len() > 25, "{first:?}");
}

/// Two pipelines that take from one list and one set at the same time take each element once.
#[test]
fn what_two_take_at_once_is_taken_once() {
    const COUNT: usize = 6_000;
    let server = TestServer::with(|config| config.threads = 3);
    let mut client = server.connect();
    for part in (0..COUNT).collect::<Vec<_>>().chunks(500) {
        let elements: Vec<String> = part.iter().map(ToString::to_string).collect();
        client.line(&format!("RPUSH list {}", elements.join(" ")));
        client.line(&format!("SADD set {}", elements.join(" ")));
    }
    let taken: Vec<Vec<(usize, String)>> = std::thread::scope(|scope| {
        let take = |number: usize| {
            let server = &server;
            move || {
                let mut client = server.connect();
                let mut taken = Vec::new();
                let lines = ["LPOP list", "SPOP set", "RPOP list"];
                for round in 0..COUNT / 10 {
                    let lines: Vec<&str> =
                        (0..20).map(|index| lines[(index / 5 + round + number) % 3]).collect();
                    let replies = pipeline(&mut client, &lines);
                    let kinds = lines.iter().map(|line| usize::from(*line == "SPOP set"));
                    taken.extend(kinds.zip(replies).filter(|(_, reply)| reply != "nil"));
                }
                taken
            }
        };
        let threads: Vec<_> = (0..3).map(|number| scope.spawn(take(number))).collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let all: Vec<(usize, String)> = taken.concat();
    let once: BTreeSet<&(usize, String)> = all.iter().collect();
    assert_eq!(once.len(), all.len(), "something was taken twice");
    assert_eq!(all.len(), 2 * COUNT);
    assert_eq!(client.line("EXISTS list set"), ":0");
    eventually("what was taken is freed", || {
        everleaf_server::check_collections(&server.store).unwrap().problems.is_empty()
    });
}

/// Of more lists than a step reads ahead of, in turn and from both sides.
#[test]
fn elements_of_many_lists_in_turn() {
    let server = TestServer::start();
    let mut client = server.connect();
    let mut lists = vec![VecDeque::new(); 12];
    for (number, list) in lists.iter_mut().enumerate() {
        let elements: Vec<String> = (0..60).map(|index| format!("{number}-{index}")).collect();
        client.line(&format!("RPUSH list{number} {}", elements.join(" ")));
        list.extend(elements);
    }
    let mut random = Random(13);
    for _ in 0..8 {
        let (mut lines, mut wanted) = (Vec::new(), Vec::new());
        for index in 0..100 {
            let number = index % lists.len();
            let is_left = random.below(2) == 0;
            let list = &mut lists[number];
            let taken = if is_left { list.pop_front() } else { list.pop_back() };
            wanted.push(taken.map_or("nil".to_string(), |element| format!("\"{element}\"")));
            lines.push(format!("{} list{number}", if is_left { "LPOP" } else { "RPOP" }));
        }
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(pipeline(&mut client, &lines), wanted);
    }
    let report = everleaf_server::check_collections(&server.store).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
}

/// What is read ahead has a limit in bytes, and is right on both sides of it.
#[test]
fn large_elements_between_small_ones() {
    let server = TestServer::start();
    let mut client = server.connect();
    let mut list = VecDeque::new();
    for number in 0..120 {
        let size = [1, 40_000, 70_000, 3, 200_000][number % 5];
        let element = format!("{number}{}", "x".repeat(size));
        client.line(&format!("RPUSH list {element}"));
        list.push_back(element);
    }
    for lines in [["LPOP list"; 30], ["RPOP list"; 30]] {
        let wanted: Vec<String> = lines
            .iter()
            .filter_map(
                |line| if *line == "LPOP list" { list.pop_front() } else { list.pop_back() },
            )
            .map(|element| format!("\"{element}\""))
            .collect();
        assert!(pipeline(&mut client, &lines) == wanted, "{}", lines[0]);
    }
    assert_eq!(client.line("LLEN list"), ":60");
}
